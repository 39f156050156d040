"""The kernel's part of a packet's way: what the notes of its programs say, as paths of the tracer.

A packet that goes up goes on natively, as the one that next comes to that very input with the same bytes: a socket
keeps the order, and notes are read before a packet that follows them is looked at.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mezzo.elements.element import Element
from mezzo.packet.arena import META, Packet
from mezzo.runtime.paths import Path, Step, Tracer
from mezzo.runtime.router import Router
from mezzo.runtime.snapshot import Snapshot, changes
from mezzo.targets.kernel import Part, record
from mezzo.targets.kernel.notes import MOST, Note, Ring, blamed

if TYPE_CHECKING:
    from mezzo.runtime.below import Ear

KERNEL = "kernel"


@dataclass(frozen=True, slots=True)
class Rising:
    """A packet on its way up to input `to`; `cut`: a note had room for its first bytes alone."""

    path: Path
    to: tuple[int, int]
    cut: bool

    def is_of(self, data: bytes) -> bool:
        known = self.path.last.data
        return data.startswith(known) if self.cut else data == known


WINDOW = 256  # packets of which notes fit in the ring at once


class KernelTrail:
    """Follows packets through a part; `read` takes in what is new.

    Where not every packet is wanted, `WINDOW` packets are noted each time it reads, and the others forgotten."""

    def __init__(self, tracer: Tracer, router: Router, part: Part, ring: Ring | Ear, is_filter: bool = False) -> None:
        self.tracer, self.part, self.is_filter = tracer, part, is_filter
        self.elements, self.program = router.plan.elements, router.plan.program
        self.paths: dict[int, Path] = {}  # by the packet's number in the kernel
        self.rising: list[Rising] = []
        self.sent: list[Path] = []  # out by a wire, unless a note to come says that it took none
        self.shift_ns = time.time_ns() - time.monotonic_ns()
        self.ring = ring
        self.ring.follow(WINDOW if is_filter else tracer.limit)

    def read(self) -> None:
        sent, self.sent = self.sent, []
        for note in self.ring.read():
            self._take(note)
        for path in sent:
            if path in self.paths.values():
                self._finish(path)
        if self.is_filter and self.tracer.count < self.tracer.limit:
            self.ring.follow(WINDOW)

    def _take(self, note: Note) -> None:
        path = self.paths.get(note.number)
        self.at_ns = note.time_ns + self.shift_ns
        if path is None and (path := self._begin(note)) is None:
            return
        if note.kind == "in":
            self._step(path, note)
        elif note.kind == "up":
            assert note.packet is not None, "a packet that goes up is told"
            cut = note.value == record.WHOLE or len(note.packet[1]) >= MOST
            self.rising.append(Rising(path, self._target(note), cut))
        elif note.kind == "out":
            path.end = f"ended in {path.steps[-1].element}"
            self.sent.append(path)
        elif note.kind == "dying":
            instance, reason = blamed(self.part, note.value)
            path.end = f"died in {self.elements[instance].name}: {reason}"
        else:
            path.end = path.end or f"ended in {path.steps[-1].element}"
            self._finish(path)

    def _begin(self, note: Note) -> Path | None:
        if note.kind != "in" or self.tracer.count >= self.tracer.limit:
            return None
        now = snapshot(note)
        if not self.tracer.wanted(now.data):
            return None
        self.tracer.count += 1
        path = self.paths[note.number] = Path(self.tracer.count, now, now, 0)
        return path

    def _step(self, path: Path, note: Note) -> None:
        now, element = snapshot(note), self.elements[note.instance]
        if path.steps:
            path.steps[-1].done += changes(path.last, now)
        step = Step(element.name, type(element).__name__, note.value, level=KERNEL, at_ns=self.at_ns, packet=now)
        path.steps.append(step)
        path.last = now

    def _target(self, note: Note) -> tuple[int, int]:
        """The input at which a packet goes on; one that went up whole does so behind its device."""
        assert self.part.plan is not None
        if note.value != record.WHOLE:
            return self.part.plan.ups[note.value]
        to = self.program.instances[note.instance].outputs[0]
        return to if to is not None else (-1, 0)

    def _finish(self, path: Path) -> None:
        self._forget(path)
        self.tracer.finished(path, self.at_ns)

    def _forget(self, path: Path) -> None:
        self.paths = {number: one for number, one in self.paths.items() if one is not path}
        self.rising = [one for one in self.rising if one.path is not path]

    def risen(self, element: Element, port: int, packet: Packet) -> Path | None:
        """The path of a packet that natively comes to an input for the first time, if it came from the kernel."""
        self.read()
        data, here = bytes(packet.data), (element.index, port)
        found = next((one.path for one in self.rising if one.to == here and one.is_of(data)), None)
        if found is not None:
            self._forget(found)
        return found

    def close(self) -> list[Path]:
        """All that is known at the end: packets on their way up, and those of which the ring had no room for a note."""
        self.read()
        self.read()
        rising = [one.path for one in self.rising]
        for path in [*self.paths.values()]:
            lost = f"lost sight of: {self.ring.lost} notes were lost"
            path.end = "still on its way up" if path in rising else lost
            self._finish(path)
        self.ring.close()
        return rising


def snapshot(note: Note) -> Snapshot:
    """What the packet was; places count from the start of a frame, as in the arena."""
    assert note.packet is not None, "a packet that comes to an instance is told whole"
    told, memory = note.packet
    front, data = (int.from_bytes(told[at : at + 2], "little") for at in (record.FRONT, record.DATA))

    def field(name: str) -> int:
        at, size = META[name]
        return int.from_bytes(told[at : at + size], "little")

    marks = {name: field(name) for name in ("mac", "net", "trans")}
    anno = told[META["anno"][0] : record.SIZE]
    return Snapshot(memory[data - front :], data, marks, anno, field("timestamp"), field("packet_type"))
