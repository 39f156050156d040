"""Follows the first packets through the graph: where each went, what each element changed, where and why it ended.

The engine calls `seen` when a packet is pushed into an element, and when one was pulled out of an element.  What an
element did is the difference between the packet on its arrival and on its next one.

Who is who: a packet is known by its frame and by the frame's `live` byte, which is 1 for a new packet.  A tag is put
there at first sight; a clone takes its parent's tag along, so a known tag in another frame is a copy.  A packet has
ended when its frame is free or has another tag; the reason is the drop counter that moved since the last look.
Programs in the kernel tell themselves where packets are (see _trace_kernel); one that comes up goes on with its path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mezzo.elements.element import Element
from mezzo.graph import Connection
from mezzo.packet.arena import Packet
from mezzo.runtime import Router
from mezzo.tools._snapshot import Snapshot, changes

if TYPE_CHECKING:
    from mezzo.tools._trace_kernel import KernelTrail

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
    pulled: bool = False  # when last seen it came out of an element: somebody has it who was not seen


class Tracer:
    """Give `seen` to the router as `trace`; call `attach` before it runs and `finish` after."""

    def __init__(self, limit: int, finished: Callable[[Path], None]) -> None:
        self.limit, self.finished = limit, finished
        self.count = 0
        self.open: dict[int, Path] = {}  # by frame
        self.by_tag: dict[int, int] = {}  # tag -> number
        self.router: Router | None = None
        self.kernel: KernelTrail | None = None
        self.drops: dict[tuple[str, str], int] = {}
        self.before: dict[tuple[str, int], list[Connection]] = {}

    def attach(self, router: Router) -> None:
        self.router, self.drops = router, router.drops()
        for c in router.graph.connections:
            self.before.setdefault((c.dst, c.dst_port), []).append(c)
        if router.parts:
            from mezzo.tools._trace_kernel import KernelTrail

            self.kernel = KernelTrail(self, router, router.parts[0])

    def look(self) -> None:
        """Takes in what programs in the kernel tell, and which packets are gone; call it now and then."""
        if self.kernel is not None:
            self.kernel.read()
        if self.open:
            self.close_ended()

    def seen(self, element: Element, port: int, packet: Packet) -> None:
        if self.router is None or type(element).__name__ == HIDDEN:
            return
        if self.open:
            self.close_ended()
        path = self.risen(packet, element, port)
        if path is not None:
            path.steps.append(Step(element.name, type(element).__name__, port))
            path.last = Snapshot.of(packet)
        elif (path := self.path_of(packet, element, port)) is not None:
            now = Snapshot.of(packet)
            self.note(path, element, port, now)
            path.last = now

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
        self.count += 1
        now = Snapshot.of(packet)
        path = Path(self.count, now, now, 0, parent)
        self.mark(path, packet)
        if not self.was_pulled(path, element, port):
            origin = self.origin(element, port)
            if origin is not None:
                path.steps.append(origin)
        return path

    def was_pulled(self, path: Path, element: Element, port: int) -> bool:
        """Whether this sight is of a packet that came out of the element; else it goes in."""
        goes_in = port < len(element.input_kinds) and element.input_kinds[port] == "push"
        comes_out = port < len(element.output_kinds) and element.output_kinds[port] == "pull"
        if goes_in and comes_out:
            return bool(path.steps) and path.steps[-1].element == element.name
        return comes_out

    def origin(self, element: Element, port: int) -> Step | None:
        """The element that pushes into this port, where only one does."""
        assert self.router is not None
        ends = self.before.get((element.name, port), [])
        if len(ends) != 1:
            return None
        made_by = self.router.elements[ends[0].src]
        return Step(made_by.name, type(made_by).__name__, ends[0].src_port)

    def note(self, path: Path, element: Element, port: int, now: Snapshot) -> None:
        """Adds a sight to a path: what changed belongs to the element the packet comes from."""
        changed = changes(path.last, now)
        name, cls = element.name, type(element).__name__
        path.pulled = self.was_pulled(path, element, port)
        if not path.pulled:
            self.credit(path, element, port, changed)
            path.steps.append(Step(name, cls, port))
        elif path.steps and path.steps[-1].element == name:
            path.steps[-1].done += changed
        else:
            path.steps.append(Step(name, cls, port, changed))

    def credit(self, path: Path, element: Element, port: int, changed: list[str]) -> None:
        """What changed before a push was done by the pusher, which may have pulled the packet and so not been seen."""
        assert self.router is not None
        pushers = {c.src for c in self.before.get((element.name, port), [])}
        if path.steps and pushers and path.steps[-1].element not in pushers and len(pushers) == 1:
            pusher = self.router.elements[pushers.pop()]
            path.steps.append(Step(pusher.name, type(pusher).__name__, 0, changed))
        elif path.steps:
            path.steps[-1].done += changed

    def close_ended(self) -> None:
        """Finds paths whose packet is gone, and why."""
        assert self.router is not None
        gone = [frame for frame, path in self.open.items() if Packet(self.router.arena, frame).live != path.tag]
        now = self.router.drops()
        moved = [key for key, count in now.items() if count > self.drops.get(key, 0)]
        self.drops = now
        for frame in gone:
            path = self.open.pop(frame)
            died = self.death(path, moved)
            if not died and path.pulled:
                path.steps += self.puller(path.steps[-1])
            path.end = died or (f"ended in {path.steps[-1].element}" if path.steps else "ended")
            self.finished(path)

    def death(self, path: Path, moved: list[tuple[str, str]]) -> str:
        """Where and why a packet was dropped; empty where it was not."""
        last = path.steps[-1].element if path.steps else ""
        found = [(who, why) for who, why in moved if who == last] or [m for m in moved if m[0] != "pool"]
        return "died in " + " or ".join(f"{who}: {why}" for who, why in found) if found else ""

    def puller(self, step: Step) -> list[Step]:
        """The element that pulls from this one."""
        assert self.router is not None
        ends = [c for c in self.router.graph.outputs_of(step.element) if c.src_port == step.port]
        found = self.router.elements.get(ends[0].dst) if len(ends) == 1 else None
        return [Step(found.name, type(found).__name__, ends[0].dst_port)] if found is not None else []

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


def render(path: Path) -> str:
    """A path as text: a headline, a line per element, the end."""
    copy = f", a copy of packet {path.parent}" if path.parent is not None else ""
    lines = [f"packet {path.number}: {path.first.summary}{copy}"]
    width = max((len(step.label()) for step in path.steps), default=0)
    for step in path.steps:
        lines.append(f"  {step.label():<{min(width, 48)}}  {', '.join(step.done)}".rstrip())
    return "\n".join([*lines, f"  {path.end}"])


def as_json(path: Path) -> dict[str, object]:
    steps = [
        {"element": s.element, "class": s.cls, "port": s.port, "changed": s.done, "level": s.level} for s in path.steps
    ]
    return {
        "packet": path.number,
        "summary": path.first.summary,
        "copy_of": path.parent,
        "steps": steps,
        "end": path.end,
    }
