"""The contract of ports, and the table of those that a router has.

A port ties the graph to one wire.  A driver is one file, `ports/<method>.py`, with three classes (docs/design/0002):

    class Port(port.Port)             Python: sockets, maps, offloads; what it is and how much it counted
    class Receiver(FromDevice)        packet code: `receive` syncs the receive ring
    class Transmitter(ToDevice)       packet code: `transmit` syncs the transmit ring

All ends of one device in a router share one port.  Its life: made, `attach` of every end, `open(arena)`, packets flow,
`close` (programs detached, sockets closed), `free` (memory given back).  What `open` did is undone in reverse order:
each step names its undoing with `defer` as soon as it is done, and every undoing runs, also when one of them fails.
"""

from __future__ import annotations

import os
import select
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError, Note, Span
from mezzo.elements import ConfigError
from mezzo.packet.arena import Arena
from mezzo.ports import _fork

if TYPE_CHECKING:
    from mezzo.ports._end import _End

Undo = Callable[[], object]
COUNTS = ("count", "byte_count")  # of an end: what goes on where one takes another's place


class Port:
    """One wire.  A driver overrides `open` and what it has more to tell."""

    method = ""  # the name of the driver's file
    shares_queues = False  # may several ends of one direction name the same queue (each has its own copy)

    def __init__(self, device: str = "", **hooks: Any) -> None:
        self.device = device
        self.hooks = hooks  # trace, fault, rate: what wrappers put around this port
        self.arena: Arena | None = None
        self.receivers: dict[int, _End] = {}
        self.transmitters: dict[int, _End] = {}
        self.refusals: list[str] = []  # better ways that were tried, and why they were refused
        self.troubles: list[str] = []  # what could not be undone
        self.opened = False  # has it memory
        self.force = False  # may it take a device from others
        self.state = "closed"  # open, closed, or gone: the device went away
        self.belongings = _fork.Belongings()  # what a forked child must not keep
        self._traces: dict[str, int] = {}
        self._undo: list[tuple[str, Undo]] = []
        self._keep: list[tuple[str, Undo]] = []

    @property
    def name(self) -> str:
        return f"{self.method}:{self.device}" if self.device else self.method

    @property
    def ends(self) -> list[_End]:
        return [*self.receivers.values(), *self.transmitters.values()]

    def attach(self, end: _End) -> None:
        """An end of this device in the graph; all of them are attached before `open`."""
        side = self.transmitters if end.is_transmitter else self.receivers
        other = side.get(end.queue)
        if other is not None and not self.shares_queues:
            verb = "sent to" if end.is_transmitter else "read"
            queue = f"queue {end.queue} of " if end.queue else ""
            where = (Note("the other one is here", other.place),)
            raise MezzoError(
                Diagnostic(
                    f"`{end.name}`: {queue}`{self.device}` is {verb} by `{other.name}` already",
                    end.place,
                    where,
                    "use one of them, or give each a QUEUE of its own",
                )
            )
        number = end.queue if other is None else -1 - len(side)
        side[number] = end

    # -- opening and closing

    def open(self, arena: Arena) -> None:
        """Opens the device.  MezzoError says what is wrong and what to do about it."""
        raise NotImplementedError

    def is_back(self) -> bool:
        """Whether a device that went away is there again."""
        return False

    def require_there(self) -> None:
        """MezzoError where the device went away and cannot be opened anew."""

    def look_around(self, others: Iterable[Port]) -> None:
        """All ports of the router are open: what is odd about them together is told."""

    def start(self) -> None:
        """The router runs for the first time."""

    def defer(self, what: str, undo: Undo) -> None:
        """`undo` is part of `close`; `what` names it, should it fail."""
        self._undo.append((what, undo))

    def keep(self, what: str, undo: Undo) -> None:
        """`undo` is part of `free`: memory that somebody may look at until then."""
        self._keep.append((what, undo))

    def close(self) -> None:
        """Lets go of the device.  Every step is done; the troubles are kept in `troubles`."""
        self.belongings = _fork.Belongings()
        self._run(self._undo)
        self.state = "closed"

    def free(self) -> None:
        """Gives the memory of the rings back, after nobody uses it any more."""
        self.opened = False
        self._run(self._keep)
        self.receivers, self.transmitters, self._traces = {}, {}, {}

    def forget(self) -> None:
        """In a forked child: the port is its parent's, and nothing of it is kept or undone here."""
        self.belongings.forget()
        self._undo, self.state = [], "closed"

    def _run(self, steps: list[tuple[str, Undo]]) -> None:
        while steps:
            what, undo = steps.pop()
            try:
                undo()
            except Exception as trouble:  # the other steps must run
                self.troubles.append(f"{self.name}: {what}: {trouble}")

    def trace_file(self, path: str, header: bytes) -> int:
        """The descriptor of a capture file; it begins with `header`, is made once, and ends with the port."""
        if path not in self._traces:
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
                self.keep(f"close {path}", lambda: os.close(fd))
                os.write(fd, header)
            except OSError as trouble:
                raise ConfigError(f"cannot write the capture `{path}`: {trouble.strerror}") from None
            self._traces[path] = fd
        return self._traces[path]

    # -- what it tells

    def facts(self) -> dict[str, Any]:
        """What this port is; shown by the `port` handlers."""
        return {"method": self.method, "device": self.device, "state": self.state}

    def hearing(self) -> dict[str, str]:
        """Is the device promiscuous; one that is not may keep frames for others, which a cable between two needs."""
        if not self.receivers:
            return {}
        heard = any(end.promisc for end in self.receivers.values())
        return {"promiscuous": "yes" if heard else "no; frames to other addresses may be missing (PROMISC true)"}

    def statistics(self) -> dict[str, int]:
        """What the device or the kernel counted."""
        return {}

    def kernel_drops(self) -> int | None:
        """Packets that the kernel dropped before they came here; None when it does not tell."""
        return None

    def descriptors(self) -> list[tuple[_End, int, int]]:
        """(end, descriptor, poll events) of everything that makes an end's task runnable."""
        return []

    def frames(self) -> dict[str, int]:
        """How many frames of the arena are in this port's rings, by its own books, by place."""
        return {}

    def all_frames(self) -> dict[str, int]:
        """As `frames`, with what the hooks of the ends hold."""
        held = {f"faults of {end.name}": end.frames_held() for end in self.ends}
        return self.frames() | {place: n for place, n in held.items() if n}

    def leftovers(self) -> list[int]:
        """The frames in the rings of a port that is closed, as far as it can tell which."""
        rings = [ring for end in self.ends if (ring := end._ring) is not None]
        return [slot.frame for ring in rings for slot in ring.slots()]

    def longest(self) -> int:
        """The longest packet that it can send, bytes."""
        return 0xFFFF

    @classmethod
    def refusal(cls, device: str) -> str:
        """Why this method cannot serve a device, in a few words; empty when it may."""
        return ""

    def mac(self) -> int:
        """The Ethernet address of the device, 0 if it has none."""
        return 0


class PortTable:
    """The ports of one router: `router.ports`."""

    def __init__(self, force: bool = False) -> None:
        self.all: dict[tuple[str, str], Port] = {}
        self.force = force
        self.parts: list[Any] = []  # of the router, in the kernel: what devices are to get programs of (targets/kernel)
        self._waiting: list[Port] = []  # for the first run
        self._begun: weakref.WeakKeyDictionary[_End, dict[str, Any]] = weakref.WeakKeyDictionary()
        self.dead = ""  # why no packet code may run any more
        self.gone: list[Port] = []  # of graphs that ran before; in their rings may be frames yet
        _fork.note(self)

    def __iter__(self) -> Any:
        return iter(self.all.values())

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, name: str) -> Port:
        """The port of a device, by `device` or `method:device`."""
        for port in self.all.values():
            if name in (port.name, port.device):
                return port
        have = ", ".join(p.name for p in self.all.values()) or "none"
        raise MezzoError(Diagnostic(f"there is no port `{name}`", hint=f"there are: {have}"))

    def open(self, elements: list[Any], arena: Arena) -> None:
        """Finds or makes the port of every end, then opens all; MezzoError lists all that is wrong."""
        troubles: list[Diagnostic] = []
        if self.parts:
            from mezzo.ports.level import hand_out  # with all that knows interfaces: for who has a kernel's level

            for part in self.parts:
                hand_out(elements, part)
        for element in elements:
            if hasattr(element, "make_port"):
                self._try(troubles, element, self._join)
        for port in [] if troubles else self.all.values():
            port.arena = arena
            self._try(troubles, port.ends[0], lambda end, port=port: self._open(port, arena))
        if troubles:
            raise MezzoError(*troubles)
        for port in self.all.values():
            port.look_around(self.all.values())

    def _join(self, end: _End) -> None:
        key = (end.method, end.device_key)
        port = end.given_port or self.all.get(key) or end.make_port()
        if self.all.setdefault(key, port) is not port:
            raise MezzoError(f"two ports stand for {port.name}; give both ends the same one")
        self._attach(port, end)

    def _attach(self, port: Port, end: _End) -> None:
        port.attach(end)
        self._begin_anew(end)
        port.force = self.force
        end.port = port

    def _begin_anew(self, end: _End) -> None:
        """An end that had another port before is as it was configured, but for what it counted."""
        if end not in self._begun:
            states = {name: spec for name, spec in end.state_specs.items() if name not in (*COUNTS, *type(end).reads)}
            plain = [name for name, spec in states.items() if spec.kind in ("scalar", "array")]
            self._begun[end] = {name: end.cell(name).dump() for name in plain}
            return
        for name, value in self._begun[end].items():
            end.cell(name).load(value)

    # -- when another graph takes the place of the one that runs (see change.py)

    def joined(self, ends: Sequence[_End]) -> Port:
        """A port for ends of one device, which fit together; it is neither open nor in the table yet."""
        troubles: list[Diagnostic] = []
        port = ends[0].given_port or ends[0].make_port()
        for end in ends:
            self._try(troubles, end, lambda end: self._attach(port, end))
        if troubles:
            raise MezzoError(*troubles)
        return port

    def opened(self, port: Port, arena: Arena) -> Port:
        """The same port, open."""
        troubles: list[Diagnostic] = []
        port.arena = arena
        self._try(troubles, port.ends[0], lambda end: self._open(port, arena))
        if troubles:
            port.close()
            raise MezzoError(*troubles)
        return port

    def become(self, ports: dict[tuple[str, str], Port], gone: Sequence[Port]) -> None:
        self.all = ports
        self.gone += gone

    def drop(self, port: Port) -> None:
        """Closes one that is in no table."""
        self._waiting = [p for p in self._waiting if p is not port]
        port.close()
        port.free()

    def _open(self, port: Port, arena: Arena) -> None:
        port.open(arena)
        port.opened, port.state = True, "open"
        self._waiting.append(port)

    def _try(self, troubles: list[Diagnostic], end: _End, job: Callable[[_End], None]) -> None:
        """Runs a job; what goes wrong is told with the element it is about and its place."""
        try:
            job(end)
        except MezzoError as trouble:
            troubles += [placed(d, end) for d in trouble.diagnostics]
        except OSError as trouble:
            troubles.append(placed(Diagnostic(f"cannot open `{end.device}`: {trouble.strerror or trouble}"), end))

    def forget(self) -> None:
        """In a forked child."""
        ports = [port for port in self.all.values() if port.opened]
        for arena in {id(p.arena): p.arena for p in ports if p.arena is not None}.values():
            _fork.map_own(arena.address, arena.size, arena.fd)
        for port in ports:
            port.forget()

    def start(self) -> None:
        """The router runs: what it has in the kernel takes packets from now on."""
        while self._waiting:
            self._waiting.pop().start()

    def close(self) -> list[str]:
        """Closes all; gives what went wrong.  The last opened goes first."""
        self._waiting = []
        for port in reversed(self.all.values()):
            port.close()
        return [trouble for port in self.every for trouble in port.troubles]

    def free(self) -> list[str]:
        for port in reversed(self.every):
            port.free()
        return [trouble for port in self.every for trouble in port.troubles]

    @property
    def every(self) -> list[Port]:
        """Those of graphs that ran before, too."""
        return [*self.gone, *self.all.values()]

    def watch(self, router: Any, ports: Iterable[Port] | None = None) -> None:
        """Tells the scheduler which descriptors make which task runnable."""
        for port in self.all.values() if ports is None else ports:
            for end, fd, events in port.descriptors():
                if events & select.POLLOUT:  # a device is nearly always writable: asked for while the end is stopped
                    end.events_at = router.watch(end, fd, 0)
                else:
                    router.watch(end, fd, events)


def placed(diagnostic: Diagnostic, end: _End) -> Diagnostic:
    """A diagnostic that says which element it is about, where that is known."""
    if diagnostic.span is not None:
        return diagnostic
    head = f"{end.name} :: {type(end).__name__}: "
    message = diagnostic.message if diagnostic.message.startswith(head) else head + diagnostic.message
    span: Span | None = end.place
    return Diagnostic(message, span, diagnostic.notes, diagnostic.hint, diagnostic.severity)
