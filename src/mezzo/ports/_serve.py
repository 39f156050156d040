"""The helper's side: who may ask for what, and one loop over all connections.

Every request is checked three times: the user by what the kernel says of the connection (SO_PEERCRED), the device by
the patterns of the command line, and the fields by the table of rights.  Descriptors that a client sends are closed
when its request is done, and one that does not read its answers loses its connection.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import selectors
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from mezzo.base import MezzoError
from mezzo.ports import _opener, _undo, privileged
from mezzo.ports.privileged import Refused

PATIENCE_S = 5


@dataclass(frozen=True)
class Policy:
    """`devices` are patterns as a shell's; `rights` rows of the table; `users` numbers, all when None."""

    devices: Sequence[str]
    rights: frozenset[str] = frozenset(privileged.RIGHTS)
    users: frozenset[int] | None = None

    def allows_user(self, uid: int) -> bool:
        return self.users is None or uid in self.users

    def check(self, request: Mapping[str, Any]) -> None:
        device, what = str(request.get("device", "")), str(request.get("do", ""))
        if what in privileged.RIGHTS and what not in self.rights:
            hint = _listed("--rights", self.rights)
            raise Refused(f"{device}: mezzo-open may not give `{what}`", errno.EPERM, hint=hint)
        if not any(fnmatch.fnmatchcase(device, pattern) for pattern in self.devices):
            hint = _listed("--devices", self.devices)
            raise Refused(f"{device}: mezzo-open may not open it", errno.EPERM, hint=hint)


def _listed(option: str, names: Iterable[str]) -> str:
    return f"it was started with {option} {','.join(sorted(names))}"


@dataclass
class Connection:
    """One client, and what was changed for it."""

    socket: socket.socket
    held: list[dict[str, Any]] = field(default_factory=list)


class Server:
    """Answers until `run` is told to end, or (with one connection given) until that one ends."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._selector = selectors.DefaultSelector()
        self._stop_read, self._stop_write = os.pipe()
        self._selector.register(self._stop_read, selectors.EVENT_READ, None)
        self._connections: list[Connection] = []
        self._listening = False

    def listen(self, listener: socket.socket) -> None:
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._listening = True

    def add(self, connection: socket.socket) -> None:
        uid = struct.unpack("=iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if not self.policy.allows_user(uid):
            _refuse(connection, Refused(f"mezzo-open does not serve the user {uid}", errno.EPERM))
            connection.close()
            return
        connection.settimeout(PATIENCE_S)
        made = Connection(connection)
        self._connections.append(made)
        self._selector.register(connection, selectors.EVENT_READ, made)

    def stop(self) -> None:
        """May be called by a signal handler."""
        os.write(self._stop_write, b"x")

    def run(self) -> None:
        try:
            while self._listening or self._connections:
                for key, _ in self._selector.select():
                    if key.fd == self._stop_read:
                        return
                    self._turn(key)
        finally:
            self._close()

    def _turn(self, key: selectors.SelectorKey) -> None:
        if key.data is None:
            assert isinstance(key.fileobj, socket.socket)
            with suppress(OSError):  # too many at once: it waits
                self.add(key.fileobj.accept()[0])
        elif not self._serve(key.data):
            self._drop(key.data)

    def _serve(self, client: Connection) -> bool:
        """One request; False when the client is gone."""
        try:
            request, given = _opener.receive(client.socket)
            with _closing(given):
                if request is None:
                    return False
                descriptors, facts = self._perform(client, request, given)
        except OSError:
            return False
        except MezzoError as no:
            return _refuse(client.socket, Refused.of(no))
        with _closing(descriptors):
            try:
                _opener.send(client.socket, {"facts": facts}, descriptors)
            except OSError:
                return False
        return True

    def _perform(self, client: Connection, request: dict[str, Any], given: Sequence[int]) -> privileged.Answer:
        if "undo" in request:
            return [], {"left": self._undo(client, request["undo"])}
        self.policy.check(request)
        descriptors, facts = privileged.perform(request, given)
        client.held += facts.get("undo", ())
        return descriptors, facts

    def _undo(self, client: Connection, changes: Any) -> list[str]:
        """Only what was done for this client."""
        mine = [c for c in changes if c in client.held] if isinstance(changes, list) else []
        for change in mine:
            client.held.remove(change)
        return _undo.ledger().release(mine)

    def _drop(self, client: Connection) -> None:
        self._selector.unregister(client.socket)
        client.socket.close()
        self._connections.remove(client)
        _undo.ledger().release(client.held)

    def _close(self) -> None:
        for client in list(self._connections):
            self._drop(client)
        self._selector.close()
        os.close(self._stop_read)
        os.close(self._stop_write)


@contextmanager
def _closing(descriptors: Iterable[int]) -> Iterator[None]:
    try:
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _refuse(connection: socket.socket, no: Refused) -> bool:
    said = {"reason": no.reason, "errno": no.errno, "missing": list(no.missing), "hint": no.hint}
    try:
        _opener.send(connection, {"refused": said})
    except OSError:
        return False
    return True
