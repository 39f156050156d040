"""One thread that serves every control client of a router: epoll, turns, and limits.

A turn answers at most TURN commands of a client and sends the answers in one call; then it is the next one's.  Nobody
is read from while his answers wait to be taken, so a slow client slows itself down and costs at most MOST_OUT, what a
turn gives (ENOUGH of control_session) and one answer.  A turn ends after SLICE_S, too, and those who have sent more
than one turn's worth have ROUND_S together before others are looked at: who asks little does not wait for them all.

A packet thread that comes back to Python for a moment must wait until this one lets go of the interpreter, 5 ms at
worst by Python's default; so while somebody serves the switch interval is short (`gently`).

Limits: CLIENTS at once; MOST_HELD bytes of commands for all together; STALL_S without taking an answer; TOKEN_S without
showing the token.  A silent client costs a descriptor.  Where descriptors run out, accepting rests for PAUSE_S.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mezzo.runtime.control_session import GREETING, Answers, Rights, Session
from mezzo.runtime.gently import switching

if TYPE_CHECKING:
    from mezzo.runtime.router import Router

TURN = 64  # commands
EVENTS, ROUND_S = 16, 0.005  # seen at once, and the time for those who have sent much, before others are looked at
PIECE = 64 << 10  # bytes read at once
MOST_OUT = 1 << 20
MOST_HELD = 256 << 20
CLIENTS = 1024
STALL_S, TOKEN_S, PAUSE_S, LAST_S = 30.0, 10.0, 0.2, 0.5
IN, OUT = select.EPOLLIN, select.EPOLLOUT
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass
class Door:
    """A socket that listens, and what is asked of who comes in by it."""

    socket: socket.socket
    name: str  # who opened it, for messages
    rights: Rights
    proxy: tuple[str, ...]
    verbose: bool
    answers: Answers


@dataclass(eq=False)
class Client:
    """A connection; `out` waits to be taken since `since`."""

    socket: socket.socket
    session: Session
    door: Door
    since: float
    out: bytearray = field(default_factory=bytearray)
    mask: int = IN
    more: bool = False  # commands in the parser may be answered yet
    gone: bool = False  # it sends no more
    held: int = 0


class Server:
    """Serves until `close`; doors and connections may be added from any thread."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.doors: list[Door] = []
        self.clients: dict[int, Client] = {}
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, IN)
        self._listening: dict[int, Door] = {}
        self._jobs: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._ready: dict[int, Client] = {}
        self._timed: dict[int, Client] = {}  # those that must do something in time
        self._ending = False
        self._held = 0
        self._checked = 0.0
        self._thread = threading.Thread(target=self._run, name="mezzo-control", daemon=True)

    # -- from outside

    def start(self) -> None:
        switching.begin()
        self._thread.start()

    def do(self, job: Callable[[], None]) -> None:
        """Has a job done by the thread."""
        self._jobs.append(job)
        os.eventfd_write(self._wake, 1)

    def later(self, seconds: float, job: Callable[[], None]) -> None:
        self.do(lambda: self._timers.append((time.monotonic() + seconds, job)))

    def listen(self, door: Door) -> None:
        self.doors.append(door)
        self.do(lambda: self._listen(door))

    def welcome(self, connection: socket.socket, door: Door) -> None:
        """Serves a connection that somebody else has made."""
        self.do(lambda: self._admit(connection, door))

    def close(self) -> None:
        """What is waiting is sent if that is possible at once; then all are closed."""
        self._ending = True
        os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
            switching.end()
        self._farewell()
        for door in self.doors:
            door.socket.close()
        self._epoll.close()
        os.close(self._wake)

    # -- the loop

    def _run(self) -> None:
        while not self._ending:
            for fd, events in self._epoll.poll(self._patience(), EVENTS):
                self._see(fd, events)
            self._go_round()
            if self._timers or self._timed:
                self._look_at_time()

    def _go_round(self) -> None:
        """Turns of those who have sent more than one turn's worth; then those who ask little are next."""
        end = time.monotonic() + ROUND_S if self._ready else 0.0
        while self._ready and not self._ending:
            client = self._ready.pop(next(iter(self._ready)))
            self._guard(client, self._turn)
            if time.monotonic() > end:
                return

    def _patience(self) -> float:
        if self._ready:
            return 0
        waits = 1.0 if self._timed else -1.0
        if self._timers:
            soon = max(min(at for at, _ in self._timers) - time.monotonic(), 0)
            return soon if waits < 0 else min(soon, waits)
        return waits

    def _see(self, fd: int, events: int) -> None:
        client = self.clients.get(fd)
        if client is not None:
            if events & OUT:
                self._guard(client, self._flush)
            if events & ~OUT and not client.more and client.mask & IN:
                self._guard(client, self._read)
        elif fd in self._listening:
            self._accept(self._listening[fd])
        elif fd == self._wake:
            with suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            while self._jobs:
                self._do(self._jobs.popleft())

    def _do(self, job: Callable[[], None]) -> None:
        """A job's trouble does not end the thread that serves the others."""
        try:
            job()
        except Exception:
            self.router.say(f"control: {traceback.format_exc()}")

    def _look_at_time(self) -> None:
        now = time.monotonic()
        due = [job for at, job in self._timers if at <= now]
        self._timers = [(at, job) for at, job in self._timers if at > now]
        for job in due:
            self._do(job)
        if now - self._checked < 1:
            return
        self._checked = now
        for client in list(self._timed.values()):
            if now - client.since > (STALL_S if client.out else TOKEN_S):
                self._drop(client, "took nothing for too long" if client.out else "showed no token")

    def _guard(self, client: Client, step: Callable[[Client], None]) -> None:
        """A client's trouble is its own."""
        try:
            step(client)
        except OSError:
            self._drop(client)
        except Exception:
            self.router.say(f"{client.door.name}: a client was dropped:\n{traceback.format_exc()}")
            self._drop(client)

    # -- doors

    def _listen(self, door: Door) -> None:
        self._listening[door.socket.fileno()] = door
        self._epoll.register(door.socket, IN)

    def change(self, door: Door, name: str, rights: Rights, proxy: tuple[str, ...], verbose: bool) -> None:
        """Other rights or another proxy for a door and who came in by it; who has shown a token keeps that one only."""
        same_token = rights.token == door.rights.token
        door.name, door.rights, door.proxy, door.verbose = name, rights, proxy, verbose
        door.answers = Answers(self.router, bool(proxy))
        for client in [c for c in self.clients.values() if c.door is door]:
            client.session.change(rights, proxy, door.answers, same_token)
            client.since = time.monotonic()
            self._guard(client, self._settle)

    def shut(self, door: Door) -> None:
        """Nobody comes in by it any more; who did is answered to the end of what he asked, and goes."""
        if self._listening.pop(door.socket.fileno(), None) is not None:
            self._epoll.unregister(door.socket)
            self.doors.remove(door)
            door.socket.close()
        for client in [c for c in self.clients.values() if c.door is door]:
            client.session.hang_up = True
            self._guard(client, self._settle)

    def _accept(self, door: Door) -> None:
        for _ in range(TURN):
            try:
                connection, _ = door.socket.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as trouble:
                if trouble.errno in NO_DESCRIPTOR:
                    self._rest(door)
                return
            self._admit(connection, door)

    def _rest(self, door: Door) -> None:
        """No descriptor is free: asking again at once would only burn time."""
        self._epoll.modify(door.socket, 0)
        self._timers.append((time.monotonic() + PAUSE_S, lambda: self._go_on(door)))

    def _go_on(self, door: Door) -> None:
        if door in self.doors:  # it may have been shut meanwhile
            self._epoll.modify(door.socket, IN)

    def _admit(self, connection: socket.socket, door: Door) -> None:
        try:
            connection.setblocking(False)
            if len(self.clients) >= CLIENTS:
                connection.send(GREETING + b"590 Too many clients\r\n")
            elif connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # it has gone already
            connection.close()
            return
        if len(self.clients) >= CLIENTS:
            connection.close()
            return
        session = Session(self.router, door.rights, door.proxy, door.answers)
        client = Client(connection, session, door, time.monotonic(), bytearray(GREETING))
        session.aside = lambda job: self._aside(client, job)
        self.clients[connection.fileno()] = client
        self._epoll.register(connection, IN)
        if door.verbose:
            self.router.say(f"{door.name}: opened connection {connection.fileno()}{_from(connection)}")
        self._guard(client, self._flush)

    # -- clients

    def _read(self, client: Client) -> None:
        try:
            data = client.socket.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return
        parser = client.session.parser
        if not client.out and (answer := client.session.at_once(data)):
            return self._reply(client, answer)
        if data:
            parser.feed(data)
            self._count(client)
            if self._held > MOST_HELD and client.held > PIECE:
                parser.give_up()
                self._count(client)
        else:
            client.gone = True
            parser.end()
            self._look_for(client, client.mask & ~IN)
        return self._turn(client)

    def _count(self, client: Client) -> None:
        held = client.session.parser.held
        self._held += held - client.held
        client.held = held

    def _turn(self, client: Client) -> None:
        data, client.more = client.session.turn(TURN)
        if client.held or client.more:
            self._count(client)
        if not client.out and data:
            self._reply(client, data)
        else:
            client.out += data
        self._settle(client)

    def _reply(self, client: Client, data: bytes) -> None:
        """Sends an answer, behind which nothing waits."""
        sent = self._send(client, data)
        if sent < len(data):
            client.out += data[sent:]
            client.since = time.monotonic()
            self._settle(client)

    def _aside(self, client: Client, job: Callable[[], None]) -> None:
        """A job of a client's that takes long; the others are served meanwhile."""

        def work() -> None:
            job()
            with suppress(OSError):  # the router has gone in the meantime
                self.do(lambda: self._answered(client))

        threading.Thread(target=work, name="mezzo-control-job", daemon=True).start()

    def _answered(self, client: Client) -> None:
        if client in self.clients.values():
            self._guard(client, self._turn)

    def _send(self, client: Client, data: bytes | bytearray | memoryview) -> int:
        try:
            return client.socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0

    def _flush(self, client: Client) -> None:
        if client.out:
            with memoryview(client.out) as view:
                sent = self._send(client, view[: 16 * PIECE])
            if sent:
                del client.out[:sent]
                client.since = time.monotonic()
        self._settle(client)

    def _settle(self, client: Client) -> None:
        """What is to be done with it next."""
        if not client.out and not client.session.busy and (client.session.hang_up or (client.gone and not client.more)):
            return self._drop(client)
        blocked = len(client.out) > MOST_OUT
        if client.more and not blocked and not client.session.hang_up:
            self._ready[client.socket.fileno()] = client
        reads = 0 if blocked or client.gone or client.session.hang_up else IN
        self._look_for(client, reads | (OUT if client.out else 0))
        if client.out or client.session.quiet:
            self._timed[client.socket.fileno()] = client
        elif self._timed:
            self._timed.pop(client.socket.fileno(), None)
        return None

    def _look_for(self, client: Client, mask: int) -> None:
        if mask != client.mask:
            client.mask = mask
            self._epoll.modify(client.socket, mask)

    def _drop(self, client: Client, why: str = "") -> None:
        fd = client.socket.fileno()
        if self.clients.pop(fd, None) is None:
            return
        self._ready.pop(fd, None)
        self._timed.pop(fd, None)
        self._held -= client.held
        with suppress(OSError):
            self._epoll.unregister(fd)  # not left to close: a child of a fork may have it open too
        client.socket.close()
        if client.door.verbose:
            self.router.say(f"{client.door.name}: closed connection {fd}{': ' if why else ''}{why}")

    def _farewell(self) -> None:
        """Sends what is left, within LAST_S for all together."""
        end = time.monotonic() + LAST_S
        for client in list(self.clients.values()):
            with suppress(OSError):
                client.socket.settimeout(max(end - time.monotonic(), 0.001))
                client.socket.sendall(client.out)
            self._drop(client)


def _from(connection: socket.socket) -> str:
    """` from 127.0.0.1.4711`, as Click says it; of a UNIX socket there is nothing to tell."""
    try:
        peer = connection.getpeername()
    except OSError:
        return ""
    return f" from {peer[0]}.{peer[1]}" if isinstance(peer, tuple) else ""
