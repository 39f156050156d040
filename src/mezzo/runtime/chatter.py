"""What a router says, for whoever listens on a socket (Click::ChatterSocket/1.0).

One thread a socket: it accepts, and passes on the texts that `Router.say` leaves in a list.  Nothing that a listener
does reaches the router: who falls MOST_BEHIND bytes behind is dropped, and what listeners send is thrown away.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mezzo.base import MezzoError
from mezzo.elements.control_address import Opening
from mezzo.runtime.control_open import file_of, open_socket, remove_file

if TYPE_CHECKING:
    from mezzo.runtime.router import Router

GREETING = b"Click::ChatterSocket/1.0\r\n"
MOST_BEHIND = 500_000
LISTENERS = 256
RETRY_S, LAST_S = 1.0, 0.5
IN, OUT = select.EPOLLIN, select.EPOLLOUT


@dataclass
class Listener:
    socket: socket.socket
    out: bytearray = field(default_factory=bytearray)


class Chatter:
    """Tells everybody, from now until `close`.  MezzoError says why the socket cannot be opened."""

    def __init__(self, router: Router, opening: Opening, greeting: bool) -> None:
        self.router, self.opening, self.greeting = router, opening, greeting
        self.listeners: dict[int, Listener] = {}
        self._door: socket.socket | None = None
        self._texts: deque[bytes] = deque()
        self._ending = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, IN)
        try:
            self._try()
        except MezzoError:
            self._release()
            raise
        router.hearers.append(self.hear)
        self._thread = threading.Thread(target=self._run, name="mezzo-chatter", daemon=True)
        self._thread.start()

    def hear(self, text: str) -> None:
        """From any thread: one message."""
        if self.listeners:
            self._texts.append(text.encode("utf-8", "surrogateescape") + b"\n")
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        self.router.hearers.remove(self.hear)
        self._ending = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._farewell()
        self._release()
        remove_file(self.opening.address, self.opening.file)

    # -- the socket

    def _try(self) -> None:
        try:
            self._door, self.opening.address = open_socket(self.opening.address)
        except OSError as trouble:
            self._failed(trouble.strerror or str(trouble))
            return
        self.opening.open, self.opening.file = True, file_of(self.opening.address)
        self._epoll.register(self._door, IN)

    def _failed(self, why: str) -> None:
        o = self.opening
        if o.retries <= 0:
            raise MezzoError(f"cannot listen on {o.address}: {why}")
        if o.retry_warnings:
            self.router.say(f"{o.name}: {o.address}: {why}; trying again, {o.retries} times at most")
        o.retries -= 1

    def _again(self) -> None:
        """On the thread: when the last try fails the router stops, as Click's does."""
        try:
            self._try()
        except MezzoError as trouble:
            self.router.failures.append(f"{self.opening.name}: {trouble}")
            self.router.say(f"{self.opening.name}: {trouble}")
            self.router.please_stop()
            self._ending = True

    # -- the thread

    def _run(self) -> None:
        while not self._ending:
            events = self._epoll.poll(RETRY_S if self._door is None else -1)
            for fd, what in events:
                self._see(fd, what)
            if self._door is None and not events:
                self._again()

    def _see(self, fd: int, what: int) -> None:
        if fd == self._wake:
            with suppress(BlockingIOError):
                os.eventfd_read(fd)
            self._tell()
        elif fd in self.listeners:
            self._look_at(self.listeners[fd], what)
        elif self._door is not None:
            self._accept(self._door)

    def _tell(self) -> None:
        data = b"".join(self._texts.popleft() for _ in range(len(self._texts)))
        for listener in list(self.listeners.values()):
            self._send(listener, data)

    def _accept(self, door: socket.socket) -> None:
        try:
            connection, _ = door.accept()
        except OSError:
            return
        if len(self.listeners) >= LISTENERS:
            connection.close()
            return
        connection.setblocking(False)
        listener = self.listeners[connection.fileno()] = Listener(connection)
        self._epoll.register(connection, IN)
        self._send(listener, GREETING if self.greeting else b"")

    def _look_at(self, listener: Listener, what: int) -> None:
        try:
            if what & ~OUT and not listener.socket.recv(1 << 16):
                self._drop(listener)
                return
        except BlockingIOError:
            pass
        except OSError:
            self._drop(listener)
            return
        self._send(listener, b"")

    def _send(self, listener: Listener, data: bytes) -> None:
        listener.out += data
        try:
            while listener.out and (sent := listener.socket.send(listener.out[: 1 << 16])):
                del listener.out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(listener)
            return
        if len(listener.out) > MOST_BEHIND:
            self._drop(listener)
        else:
            self._epoll.modify(listener.socket, IN | OUT if listener.out else IN)

    def _drop(self, listener: Listener) -> None:
        fd = listener.socket.fileno()
        if self.listeners.pop(fd, None) is not None:
            self._epoll.unregister(fd)
            listener.socket.close()

    def _farewell(self) -> None:
        """Sends what is left, within LAST_S for all together."""
        self._tell()
        end = time.monotonic() + LAST_S
        for listener in list(self.listeners.values()):
            with suppress(OSError):
                listener.socket.settimeout(max(end - time.monotonic(), 0.001))
                listener.socket.sendall(listener.out)
            self._drop(listener)

    def _release(self) -> None:
        if self._door is not None:
            self._door.close()
        self._epoll.close()
        os.close(self._wake)
