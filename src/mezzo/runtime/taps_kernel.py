"""Connections of which packets pass in the kernel's level: told by the notes of its programs.

a ─► b       both in the kernel: a packet comes to b, and was at a before
a ─► b       b is native: a packet goes up at a.  Where a alone pushes to b, b's native sight tells it
q ─► d       a queue is passed: a packet comes to what is behind it
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mezzo.targets.kernel import record
from mezzo.targets.kernel.plan import Port

if TYPE_CHECKING:
    from mezzo.graph import Connection
    from mezzo.runtime.below import Ear
    from mezzo.runtime.router import Router
    from mezzo.targets.kernel.notes import Note
    from mezzo.targets.kernel.plan import KernelPlan

KEPT = 4096  # packets of which it is known where they were
EVERY = 1 << 62
ANY = -1


@dataclass(frozen=True)
class Crossing:
    """Of connection `edge`: a packet that was at `src` (or ANY) comes to input `to`, or goes up to it."""

    edge: int
    kind: str
    src: int
    to: Port


def crossings(router: Router, edges: Sequence[Connection]) -> list[Crossing]:
    """The connections, as notes tell of them; without those of which none does."""
    plan = router.parts[0].plan if router.parts else None
    present = set(router.graph.connections)
    found = [_crossing(router, plan, n, c) for n, c in enumerate(edges) if c in present] if plan is not None else []
    return [one for one in found if one is not None]


def _crossing(router: Router, plan: KernelPlan, number: int, c: Connection) -> Crossing | None:
    src, dst = router.elements[c.src].index, router.elements[c.dst].index
    if src not in plan.placed:  # a queue that is passed has no place
        return Crossing(number, "in", ANY, (dst, c.dst_port)) if dst in plan.placed else None
    out = (src, c.src_port)
    if out in plan.ways:
        rivals = [one for one in router.graph.inputs_of(c.dst) if one.dst_port == c.dst_port]
        alone = len({one.src for one in rivals}) < 2
        return None if alone else Crossing(number, "up", src, plan.ups[plan.ways[out]])
    to = plan.program.instances[src].outputs[c.src_port]
    return Crossing(number, "in", src, to) if to is not None and to[0] in plan.placed else None


def looked_at(router: Router, found: Sequence[Crossing]) -> frozenset[int]:
    """The instances of which notes are needed: ends of connections, and all that push there."""
    plan = router.parts[0].plan if found else None
    wanted = {one.to[0] for one in found if one.kind == "in"} | {one.src for one in found if one.src != ANY}
    if plan is not None:
        ends = {one.to for one in found if one.kind == "in"}
        wanted |= {i for i in plan.placed if ends & set(plan.program.instances[i].outputs)}
    return frozenset(wanted)


class KernelTap:
    """What passed there, as rows (time, edge, length, bytes)."""

    def __init__(self, router: Router, found: Sequence[Crossing], ear: Ear) -> None:
        self.plan: Any = router.parts[0].plan
        self.found, self.ear = found, ear
        self.at: dict[int, int] = {}  # by the packet's number, the instance where it was last
        self.shift_ns = time.time_ns() - time.monotonic_ns()
        ear.follow(EVERY)

    def read(self) -> list[tuple[int, int, int, bytes]]:
        rows = []
        for note in self.ear.read():
            edge = self._edge(note)
            if edge is not None and note.packet is not None:
                rows.append((note.time_ns + self.shift_ns, edge, *_content(note)))
        return rows

    def _edge(self, note: Note) -> int | None:
        if note.kind == "up":
            to = self.plan.ups[note.value] if note.value != record.WHOLE else None
            return next((x.edge for x in self.found if (x.kind, x.src, x.to) == ("up", note.instance, to)), None)
        if note.kind != "in":
            return None
        before, to = self.at.get(note.number, ANY), (note.instance, note.value)
        self.at[note.number] = note.instance
        if len(self.at) > KEPT:
            self.at = dict(list(self.at.items())[KEPT // 2 :])
        return next((x.edge for x in self.found if x.kind == "in" and x.to == to and x.src in (ANY, before)), None)


def _content(note: Note) -> tuple[int, bytes]:
    """(length, bytes as far as the note has them)."""
    assert note.packet is not None
    told, memory = note.packet
    front, data = (int.from_bytes(told[at : at + 2], "little") for at in (record.FRONT, record.DATA))
    return note.memory - (data - front), memory[data - front :]
