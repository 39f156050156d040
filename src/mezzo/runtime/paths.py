"""Follows the first packets through the graph: where each went, what each element changed, where and why it ended.

The engine calls `seen` when a packet is pushed into an element, and when one was pulled out of an element.  What an
element did is the difference between the packet on its arrival and on its next one.

Who is who: a packet is known by its frame and by the frame's `live` byte, which is 1 for a new packet.  A tag is put
there at first sight; a clone takes its parent's tag along, so a known tag in another frame is a copy.  A packet has
ended when its frame is free or has another tag; the reason is the drop counter that moved since it came to the element
where it was last seen, or to the one that pulled it from there.
Programs in the kernel tell themselves where packets are (see paths_kernel); one that comes up goes on with its path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mezzo.elements.element import Element
from mezzo.graph import Connection
from mezzo.packet.arena import Packet
from mezzo.runtime.filters import everything
from mezzo.runtime.snapshot import Snapshot, changes

if TYPE_CHECKING:
    from mezzo.runtime.below import Ear
    from mezzo.runtime.paths_kernel import KernelTrail
    from mezzo.runtime.router import Router

FIRST_TAG, UNTRACED = 3, 255
HIDDEN = "EdgeCounter"


@dataclass
class Step:
    """One element on a packet's way, and what it did."""

    element: str
    cls: str
    port: int
    done: list[str] = field(default_factory=list)
    level: str = "native"
    moves: list[tuple[Snapshot, Snapshot]] = field(default_factory=list)  # before and after; `done` is made of them
    at_ns: int = 0  # since 1970
    packet: Snapshot | None = None  # as it came there

    def label(self) -> str:
        nameless = self.element.rpartition("/")[2].startswith(self.cls + "@")
        name = self.element if nameless else f"{self.element} :: {self.cls}"
        port, level = f"[{self.port}] " if self.port else "", f" [{self.level}]" if self.level != "native" else ""
        return port + name + level


@dataclass
class Path:
    """A packet's way; `end` is empty while it lives."""

    number: int
    first: Snapshot
    last: Snapshot
    tag: int
    parent: int | None = None
    steps: list[Step] = field(default_factory=list)
    end: str = ""
    end_ns: int = 0
    drops: dict[tuple[str, str], int] = field(default_factory=dict)  # of the elements where it may be, as it came there
    pulled: bool = False  # when last seen it came out of an element: somebody has it who was not seen


class Tracer:
    """Give `seen` to the router as `trace`; call `attach` before it runs and `finish` after."""

    def __init__(
        self, limit: int, finished: Callable[[Path], None], wanted: Callable[[bytes], bool] = everything
    ) -> None:
        self.limit, self._told, self.wanted = limit, finished, wanted
        self._turn = threading.RLock()  # packets may come from several threads
        self.count = 0
        self.open: dict[int, Path] = {}  # by frame
        self.by_tag: dict[int, int] = {}  # tag -> number
        self.is_out: bool | None = None
        self.router: Router | None = None
        self.kernel: KernelTrail | None = None
        self.before: dict[tuple[str, int], list[Connection]] = {}

    def attach(self, router: Router, ear: Ear | None = None) -> None:
        """Also called again, when another graph took over.  `ear`: what hears of programs that note for a while."""
        self.router, self.before = router, {}
        for c in router.graph.connections:
            self.before.setdefault((c.dst, c.dst_port), []).append(c)
        if self.kernel is not None:
            self.kernel.close()
            self.kernel = None
        if router.parts and (router.trace is not None or ear is not None):  # else programs in the kernel tell nothing
            from mezzo.runtime.paths_kernel import KernelTrail, Ring

            part = router.parts[0]
            self.kernel = KernelTrail(self, router, part, ear or Ring(part), self.wanted is not everything)

    def look(self) -> None:
        """Takes in what programs in the kernel tell, and which packets are gone; call it now and then."""
        if self.kernel is not None:
            self.kernel.read()
        if self.open:
            self.close_ended()

    def now_ns(self) -> int:
        """The time since 1970, by the router's clock."""
        assert self.router is not None
        return self.router.engine.epoch_ns + self.router.now_ns if self.router.virtual else time.time_ns()

    def finished(self, path: Path, at_ns: int = 0) -> None:
        path.end_ns = at_ns or self.now_ns()
        # What headers say takes long to find out: not while the packet is on its way.
        for step in path.steps:
            step.done += [phrase for old, new in step.moves for phrase in changes(old, new)]
            step.moves = []
        self._told(path)

    def is_full(self) -> bool:
        """Whether all packets that it may follow have ended."""
        return self.count >= self.limit and not self.open

    def seen(self, element: Element, port: int, packet: Packet, is_out: bool | None = None) -> None:
        """A packet goes into an element, or (`is_out`, where that is known) was pulled out of it."""
        with self._turn:
            self._seen(element, port, packet, is_out)

    def _seen(self, element: Element, port: int, packet: Packet, is_out: bool | None) -> None:
        if self.router is None or type(element).__name__ == HIDDEN:
            return
        self.is_out = is_out
        if self.open:
            self.close_ended()
        path = self.risen(packet, element, port)
        if path is not None:
            path.last = Snapshot.of(packet)
            path.steps.append(self.step(element, port, path.last))
            path.drops = self.drops_at(element, port, False)
        elif (path := self.path_of(packet, element, port)) is not None:
            now = Snapshot.of(packet)
            self.note(path, element, port, now)
            path.last = now
            path.drops = self.drops_at(element, port, path.pulled)

    def risen(self, packet: Packet, element: Element, port: int) -> Path | None:
        """The path of a packet that comes up from the kernel just now."""
        if self.kernel is None or packet.live != 1:
            return None
        path = self.kernel.risen(element, port, packet)
        if path is not None:
            self.mark(path, packet)
        return path

    def mark(self, path: Path, packet: Packet) -> None:
        """From now on the packet is known by its frame and a tag."""
        path.tag = packet.live = FIRST_TAG + path.number % (UNTRACED - FIRST_TAG)
        self.open[packet.frame], self.by_tag[path.tag] = path, path.number

    def path_of(self, packet: Packet, element: Element, port: int) -> Path | None:
        """The path this packet is on; a new one for a packet not met before."""
        path = self.open.get(packet.frame)
        if path is not None:
            return path
        parent = self.by_tag.get(packet.live) if packet.live != 1 else None
        if packet.live not in (1, UNTRACED) and parent is None:
            packet.live = UNTRACED
        if packet.live == UNTRACED or (self.count >= self.limit and parent is None):
            packet.live = UNTRACED
            return None
        return self.begin(packet, element, port, parent)

    def begin(self, packet: Packet, element: Element, port: int, parent: int | None) -> Path | None:
        if self.count >= self.limit:
            packet.live = UNTRACED
            return None
        if parent is None and not self.wanted(bytes(packet.data)):
            return None  # it may come to match: a header may be put in front of it, or taken away
        now = Snapshot.of(packet)
        self.count += 1
        path = Path(self.count, now, now, 0, parent)
        self.mark(path, packet)
        if not self.was_pulled(path, element, port):
            origin = self.origin(element, port)
            if origin is not None:
                path.steps.append(self.step(origin[0], origin[1], now))
        return path

    def step(self, element: Element, port: int, packet: Snapshot | None) -> Step:
        return Step(element.name, type(element).__name__, port, at_ns=self.now_ns(), packet=packet)

    def drops_at(self, element: Element, port: int, pulled: bool) -> dict[tuple[str, str], int]:
        """Packets that died in the element, and in the one that pulls from it, where one has just done so."""
        assert self.router is not None
        places = [element]
        if pulled and (puller := self.puller(element.name, port)) is not None:
            places.append(puller)
        drops = self.router.engine.drops
        return {(e.name, why): count for e in places for why, count in {"": 0, **drops(e.index)}.items()}

    def was_pulled(self, path: Path, element: Element, port: int) -> bool:
        """Whether this sight is of a packet that came out of the element; else it goes in."""
        if self.is_out is not None:
            return self.is_out
        goes_in = port < len(element.input_kinds) and element.input_kinds[port] == "push"
        comes_out = port < len(element.output_kinds) and element.output_kinds[port] == "pull"
        if goes_in and comes_out:
            return bool(path.steps) and path.steps[-1].element == element.name
        return comes_out

    def origin(self, element: Element, port: int) -> tuple[Element, int] | None:
        """The element that pushes into this port and its output, where only one does."""
        assert self.router is not None
        ends = self.before.get((element.name, port), [])
        if len(ends) != 1:
            return None
        return self.router.elements[ends[0].src], ends[0].src_port

    def note(self, path: Path, element: Element, port: int, now: Snapshot) -> None:
        """Adds a sight to a path: what changed belongs to the element the packet comes from."""
        moved = (path.last, now)
        path.pulled = self.was_pulled(path, element, port)
        if not path.pulled:
            self.credit(path, element, port, moved)
            path.steps.append(self.step(element, port, now))
        elif path.steps and path.steps[-1].element == element.name:
            path.steps[-1].moves.append(moved)
        else:
            path.steps.append(self.step(element, port, now))
            path.steps[-1].moves.append(moved)

    def credit(self, path: Path, element: Element, port: int, moved: tuple[Snapshot, Snapshot]) -> None:
        """What changed before a push was done by the pusher, which may have pulled the packet and so not been seen."""
        assert self.router is not None
        pushers = {c.src for c in self.before.get((element.name, port), [])}
        if path.steps and pushers and path.steps[-1].element not in pushers and len(pushers) == 1:
            pusher = self.router.elements[pushers.pop()]
            path.steps.append(self.step(pusher, 0, path.last))
        if path.steps:
            path.steps[-1].moves.append(moved)

    def close_ended(self) -> None:
        """Finds paths whose packet is gone, and why."""
        assert self.router is not None
        gone = [frame for frame, path in self.open.items() if Packet(self.router.arena, frame).live != path.tag]
        for frame in gone:
            path = self.open.pop(frame)
            died = self.death(path)
            if not died and path.pulled:
                puller = self.puller(path.steps[-1].element, path.steps[-1].port)
                path.steps += [self.step(puller, 0, None)] if puller is not None else []
            path.end = died or (f"ended in {path.steps[-1].element}" if path.steps else "ended")
            self.finished(path)

    def death(self, path: Path) -> str:
        """Where and why a packet was dropped; empty where it was not."""
        assert self.router is not None
        elements, drops = self.router.elements, self.router.engine.drops
        places = [name for name in dict.fromkeys(name for name, _ in path.drops) if name in elements]
        now = {(name, why): count for name in places for why, count in drops(elements[name].index).items()}
        found = [key for key, count in now.items() if count > path.drops.get(key, 0)]
        return "died in " + " or ".join(f"{who}: {why}" for who, why in found) if found else ""

    def puller(self, name: str, port: int) -> Element | None:
        """The element that pulls from an output."""
        assert self.router is not None
        ends = [c for c in self.router.graph.outputs_of(name) if c.src_port == port]
        return self.router.elements.get(ends[0].dst) if len(ends) == 1 else None

    def finish(self) -> list[Path]:
        """Call when the router rests: paths still open are of packets that wait somewhere."""
        if self.router is None:
            return []
        self.close_ended()
        waiting = list(self.open.values())
        for path in waiting:
            path.end = f"still in {path.steps[-1].element}" if path.steps else "still there"
            self.finished(path)
        self.open.clear()
        return waiting if self.kernel is None else waiting + self.kernel.close()


def unmark(router: Router) -> None:
    """No packet has a tag any more; nobody runs packet code now."""
    from mezzo.packet.arena import META, META_SIZE, PACKET

    arena = router.arena
    begin = arena.meta_offset + META["live"][0]
    every = slice(begin, arena.meta_offset + META_SIZE * arena.frames, META_SIZE)
    plain = bytes(range(FIRST_TAG)) + bytes([PACKET]) * (256 - FIRST_TAG)
    arena.mem[every] = bytes(arena.mem[every]).translate(plain)


def render(path: Path, times: bool = False) -> str:
    """A path as text: a headline, a line per element, the end; `times`: when it came to each, from its beginning."""
    copy = f", a copy of packet {path.parent}" if path.parent is not None else ""
    lines = [f"packet {path.number}: {path.first.summary}{copy}"]
    width = max((len(step.label()) for step in path.steps), default=0)
    began = path.steps[0].at_ns if path.steps else 0
    for step in path.steps:
        when = f"{(step.at_ns - began) / 1e3:>10.1f} µs" if times else ""
        lines.append(f"{when}  {step.label():<{min(width, 48)}}  {', '.join(step.done)}".rstrip())
    when = f"{(path.end_ns - began) / 1e3:>10.1f} µs" if times else ""
    return "\n".join([*lines, f"{when}  {path.end}"])


def as_json(path: Path, whole: bool = False) -> dict[str, object]:
    """`whole`: with times, and the packet as it came to each element."""
    steps: list[dict[str, object]] = [
        {"element": s.element, "class": s.cls, "port": s.port, "changed": s.done, "level": s.level} for s in path.steps
    ]
    found = {
        "packet": path.number,
        "summary": path.first.summary,
        "copy_of": path.parent,
        "steps": steps,
        "end": path.end,
    }
    if whole:
        for step, s in zip(steps, path.steps, strict=True):
            step |= {"time_ns": s.at_ns, "data": s.packet.data.hex() if s.packet is not None else ""}
            step["link"] = s.packet.first if s.packet is not None else ""
        found["end_ns"] = path.end_ns
    return found
