"""Processes that meet by a name to share memory, and notice when one of them is gone.

A meeting has a kind and a name (`pipe`, `x`) and numbered places.  Who is at a place listens on an abstract UNIX socket
with its number in the name, and keeps a connection to everybody else.  The memory is a memfd, handed on with its
eventfds to whoever comes (SCM_RIGHTS).  The kernel takes all of these away with their last user, so however everybody
is killed, nothing is left behind: files in /dev/shm would stay, and so would sockets with paths.  The price: names are
those of one network namespace.

    coming   a socket bound to the name of the door, so that one comes at a time; the kernel frees it if that one dies
             bind a place; ask everybody who is there (hello); take their memory, or make it; tell them (join)
    going    `bye`, then the end of the connection; without `bye` the process was killed or stopped in the middle

Only one user's processes meet: the user is in the name, and both sides ask the kernel who the other is (SO_PEERCRED).
The size of the memory is sealed, so nobody can pull it away from under the others.

A thread of each member answers who comes and hears who goes; it sleeps in poll, and no packet waits for it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import mmap
import os
import re
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mezzo.base import Diagnostic, MezzoError

NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")
PATIENCE_S = 5.0  # for a member to answer, and for those in front of us at the door
SEALS = 0x1 | 0x2 | 0x4  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
VERSION = 1
LONGEST = 4096
GENERATIONS = 255


@dataclass(frozen=True)
class Member:
    """Somebody at another place; `generation` tells those apart who had the place one after another."""

    place: int
    generation: int
    pid: int
    label: str


@dataclass
class _Line:
    """A connection to a member, or to somebody who is not yet one."""

    socket: socket.socket
    pid: int
    member: Member | None = None
    polite: bool = False


class Members:
    """One place in a meeting."""

    def __init__(self, kind: str, name: str, places: int, label: str = "") -> None:
        if not NAME.fullmatch(name):
            hint = "take 1 to 40 letters, digits, and . _ -"
            raise MezzoError(Diagnostic(f"`{name}` is no name for a {kind}", hint=hint))
        self.kind, self.name, self.places, self.label = kind, name, places, label
        self.place, self.generation = -1, 0
        self.facts: dict[str, int] = {}  # of the memory, as who made it wrote them
        self.memory, self.bells = -1, list[int]()  # the memfd, and eventfds
        self.map: mmap.mmap | None = None
        self.came: Callable[[Member], None] = lambda member: None
        self.went: Callable[[Member, bool], None] = lambda member, polite: None  # polite: it said so
        self._lines: dict[int, _Line] = {}  # by descriptor
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._stop = -1

    def address(self, what: int | str) -> str:
        return f"\0mezzo {os.geteuid()} {self.kind} {self.name} {what}"

    # -- coming

    def join(
        self,
        wanted: Sequence[int],
        make: Callable[[], tuple[dict[str, int], int, int]],
        check: Callable[[dict[str, int]], None],
        turn: Callable[[mmap.mmap, int], int],
    ) -> None:
        """Takes the first free of the `wanted` places.

        `make` gives the facts of new memory, its size, and how many eventfds belong to it; `check` raises where the
        facts of memory that is there do not suit us; `turn(map, place)` writes into the memory that somebody new has
        the place, and gives the generation.
        """
        with contextlib.ExitStack() as failing, self._door():
            failing.callback(self.close)
            self.place = self._bind(wanted)
            others = [line for p in range(self.places) if p != self.place and (line := self._reach(p)) is not None]
            self._share(make, check)
            self.map = mmap.mmap(self.memory, os.fstat(self.memory).st_size)
            self.generation = turn(self.map, self.place)
            for line in others:
                self._tell(line)
            self._start()
            failing.pop_all()

    @contextlib.contextmanager
    def _door(self) -> Iterator[None]:
        """One comes at a time."""
        end = time.monotonic() + PATIENCE_S
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as lock:
            while not _bound(lock, self.address("door")):
                if time.monotonic() > end:
                    raise MezzoError(f"somebody has been attaching to {self.kind} `{self.name}` for {PATIENCE_S:.0f} s")
                time.sleep(0.001)
            yield

    def _bind(self, wanted: Sequence[int]) -> int:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for place in wanted:
            if _bound(self._listener, self.address(place)):
                self._listener.listen(64)
                return place
        users = sorted({str(pid) for place in wanted if (pid := self._user(place))})
        raise Taken(self.kind, self.name, users, full=True)

    def _user(self, place: int) -> int:
        """The process at a place, 0 if it went just now."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking, contextlib.suppress(OSError):
            asking.settimeout(PATIENCE_S)
            asking.connect(self.address(place))
            return _credentials(asking)[0]
        return 0

    def _reach(self, place: int) -> _Line | None:
        """A connection to who is at a place, and its answer to our hello; None if nobody is there."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        made.settimeout(PATIENCE_S)
        try:
            made.connect(self.address(place))
            pid, user = _credentials(made)
            if user not in (os.geteuid(), 0):
                raise MezzoError(f"{self.kind} `{self.name}` is held by process {pid} of another user ({user})")
            _send(made, {"do": "hello", "version": VERSION})
            data, descriptors, _, _ = socket.recv_fds(made, LONGEST, 253, socket.MSG_CMSG_CLOEXEC)
        except TimeoutError:
            made.close()
            raise MezzoError(f"{self.kind} `{self.name}`: a process has place {place} and does not answer") from None
        except OSError:  # refused: nobody; reset: it is going
            made.close()
            return None
        answer = json.loads(data) if data else {}
        if not answer:  # it ended, or does not speak our version
            made.close()
            return None
        self._accept_memory(answer["facts"], descriptors)
        line = _Line(made, pid, Member(place, answer["generation"], pid, answer["label"]))
        self._lines[made.fileno()] = line
        if self.label and answer["label"] == self.label:
            raise Taken(self.kind, f"{self.name}:{self.label}", [str(pid)])
        return line

    def _accept_memory(self, facts: dict[str, int], descriptors: list[int]) -> None:
        """The first answer brings the memory; the others are the same."""
        if self.memory >= 0:
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            self.facts, self.memory, self.bells = facts, descriptors[0], descriptors[1:]

    def _share(
        self, make: Callable[[], tuple[dict[str, int], int, int]], check: Callable[[dict[str, int]], None]
    ) -> None:
        if self.memory >= 0:
            if fcntl.fcntl(self.memory, fcntl.F_GET_SEALS) & SEALS != SEALS:
                raise MezzoError(f"the memory of {self.kind} `{self.name}` is not sealed")
            check(self.facts)
            return
        self.facts, size, bells = make()
        self.memory = os.memfd_create(f"mezzo-{self.kind}-{self.name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.memory, size)
        fcntl.fcntl(self.memory, fcntl.F_ADD_SEALS, SEALS)
        self.bells = [os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC) for _ in range(bells)]

    def _tell(self, line: _Line) -> None:
        """Joins somebody who is there; who is killed meanwhile is not there."""
        assert line.member is not None
        try:
            _send(line.socket, {"do": "join", "place": self.place, "generation": self.generation, "label": self.label})
            answer = line.socket.recv(LONGEST)
        except TimeoutError:
            raise MezzoError(f"{self.kind} `{self.name}`: process {line.pid} does not answer") from None
        except OSError:
            answer = b""
        if not answer:
            del self._lines[line.socket.fileno()]
            line.socket.close()
            return
        self.came(line.member)

    # -- while we are there

    def _start(self) -> None:
        assert self._listener is not None
        self._listener.settimeout(PATIENCE_S)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._poll = select.poll()
        for descriptor in (self._stop, self._listener.fileno(), *self._lines):
            self._poll.register(descriptor, select.POLLIN)
        self._thread = threading.Thread(target=self._serve, name=f"mezzo-{self.kind}", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        assert self._listener is not None
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._stop:
                    return
                if descriptor == self._listener.fileno():
                    self._let_in()
                elif descriptor in self._lines:
                    self._hear(self._lines[descriptor])

    def _let_in(self) -> None:
        assert self._listener is not None
        try:
            made, _ = self._listener.accept()
        except OSError:  # gone again, or no descriptor is free: not at once another try
            time.sleep(0.01)
            return
        made.settimeout(PATIENCE_S)
        pid, user = _credentials(made)
        if user not in (os.geteuid(), 0):
            made.close()
            return
        self._lines[made.fileno()] = _Line(made, pid)
        self._poll.register(made, select.POLLIN)

    def _hear(self, line: _Line) -> None:
        try:
            data = line.socket.recv(LONGEST)
        except OSError:
            data = b""
        message = _read(data)
        what = message.get("do")
        if what == "hello" and message.get("version") == VERSION:
            self._welcome(line)
        elif what == "join" and (member := self._member(message, line.pid)) is not None:
            line.member = member
            self.came(member)
            with contextlib.suppress(OSError):
                _send(line.socket, {"do": "joined"})
        elif what == "bye":
            line.polite = True
        else:  # the end, or nonsense
            self._gone(line)

    def _member(self, message: dict[str, Any], pid: int) -> Member | None:
        """Who joins, if what he says can be."""
        place, generation, label = (message.get(key) for key in ("place", "generation", "label"))
        if not (isinstance(place, int) and isinstance(generation, int) and isinstance(label, str)):
            return None
        sound = 0 <= place < self.places and place != self.place and 0 < generation <= GENERATIONS
        return Member(place, generation, pid, label) if sound else None

    def _welcome(self, line: _Line) -> None:
        answer = {"facts": self.facts, "generation": self.generation, "label": self.label}
        with contextlib.suppress(OSError):
            socket.send_fds(line.socket, [json.dumps(answer).encode()], [self.memory, *self.bells])

    def _gone(self, line: _Line) -> None:
        descriptor = line.socket.fileno()
        self._poll.unregister(descriptor)
        del self._lines[descriptor]
        line.socket.close()
        if line.member is not None:
            self.went(line.member, line.polite)

    def others(self) -> list[Member]:
        """Who else is there."""
        found = [line.member for line in list(self._lines.values()) if line.member is not None]
        return sorted(found, key=lambda member: member.place)

    # -- going

    def connections(self) -> list[int]:
        """By which the others know that we are there."""
        return [*self._lines, *([self._listener.fileno()] if self._listener is not None else [])]

    def close(self) -> None:
        """Leaves; the memory stays mapped until `free`."""
        if self._thread is not None:
            os.eventfd_write(self._stop, 1)
            self._thread.join()
            os.close(self._stop)
            self._thread = None
        for line in self._lines.values():
            with contextlib.suppress(OSError):
                _send(line.socket, {"do": "bye"})
            line.socket.close()
        self._lines = {}
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for descriptor in (*self.bells, *([self.memory] if self.memory >= 0 else [])):
            os.close(descriptor)
        self.bells, self.memory = [], -1

    def free(self) -> None:
        if self.map is not None:
            self.map.close()
            self.map = None


class Taken(MezzoError):
    """All wanted places are (`full`), or our label is; `users` are the processes there."""

    def __init__(self, kind: str, name: str, users: list[str], full: bool = False) -> None:
        self.users, self.full = users, full
        who = f"process {', '.join(users)}" if users else "a process that ended just now"
        hint = "use another name, or end that process"
        super().__init__(Diagnostic(f"{kind} `{name}` is in use by {who}", hint=hint))


def _bound(made: socket.socket, address: str) -> bool:
    try:
        made.bind(address)
    except OSError as trouble:
        if trouble.errno != errno.EADDRINUSE:
            raise
        return False
    return True


def _credentials(made: socket.socket) -> tuple[int, int]:
    """(pid, user) of the other side, by the kernel."""
    pid, user, _ = struct.unpack("3i", made.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid, user


def _send(made: socket.socket, message: dict[str, Any]) -> None:
    made.sendall(json.dumps(message).encode(), socket.MSG_NOSIGNAL)


def _read(data: bytes) -> dict[str, Any]:
    """A message; nothing where it is none."""
    try:
        message = json.loads(data) if data else {}
    except ValueError:
        return {}
    return message if isinstance(message, dict) and isinstance(message.get("do"), str) else {}
