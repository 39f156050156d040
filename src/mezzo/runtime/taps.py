"""Taps: the packets that go over some connections of a running router, as they are there.

A push connection is seen where packets go into its end, a pull connection where they were pulled out of its begin.
Where several connections push into one input, each packet is of the element that had it last: sights at those are taken
down, too.  Packets are copied natively into a ring; who does not read in time loses the oldest, and is told how many.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.graph import Connection
from mezzo.runtime.eye import Viewer, eye_of
from mezzo.runtime.filters import compile_filter

if TYPE_CHECKING:
    from mezzo.runtime.router import Router
    from mezzo.runtime.taps_kernel import KernelTap
    from mezzo.targets.native.watched import Lens, Rows, Sight

EDGE = re.compile(r"\s*([^\s\[\]>]+?)?\s*(?:\[\s*(\d+)\s*\])?\s*->\s*(?:\[\s*(\d+)\s*\])?\s*([^\s\[\]]+)?\s*")
ROWS = 4096
Point = tuple[int, int, bool]  # instance, port, is it an output


@dataclass(frozen=True)
class Tapped:
    """A packet that passed; `edge` numbers the tap's connections."""

    time_ns: int
    edge: int
    length: int
    data: bytes


def edges_of(router: Router, text: str) -> list[Connection]:
    """The connections that `a[0]->b`, `a->[1]b`, `a[0]->*` or `*->b` mean; MezzoError where there are none."""
    match = EDGE.fullmatch(text)
    if match is None or not (match[1] or match[4]):
        raise MezzoError(Diagnostic(f"`{text}` is no connection", hint="write a[0]->b, a->[1]b, a[0]->* or *->b"))
    src, out, into, dst = (None if word == "*" else word for word in match.groups())
    found = [
        c
        for c in router.graph.connections
        if src in (None, c.src)
        and dst in (None, c.dst)
        and out in (None, str(c.src_port))
        and into in (None, str(c.dst_port))
    ]
    if not found:
        raise MezzoError(Diagnostic(f"there is no connection `{text.strip()}`", hint=_have(router, src, dst)))
    return found


def _have(router: Router, src: str | None, dst: str | None) -> str:
    for name in (src, dst):
        if name is not None and name not in router.elements:
            return f"there is no element `{name}`; `mezzo read WHERE list` names them"
    near = [str(c) for c in router.graph.connections if c.src == src or c.dst == dst]
    return f"there are {', '.join(near[:6])}" if near else ""


class Tap(Viewer):
    """One tap, of which `read` gives what passed since the last time."""

    kind, rows = "bytes", ROWS

    def __init__(self, router: Router, edge: str, filter: str = "", snaplen: int = 0) -> None:
        self.router, self.edges, self.wanted = router, edges_of(router, edge), compile_filter(filter)
        size = router.arena.frame_size
        self.snap = min(-(-snaplen // 8) * 8 if snaplen > 0 else size, size)
        self.lost = self.time_ns = self.lost_below = 0
        self.points: dict[Point, list[tuple[int, Connection]]] = {}
        self.before: dict[Point, str] = {}  # sights that tell who has a packet
        self.last: dict[int, str] = {}  # frame -> who has it
        self.kernel: KernelTap | None = None

    def below(self) -> Collection[int] | None:
        if not self.router.parts:
            return ()
        from mezzo.runtime.taps_kernel import crossings, looked_at

        return looked_at(self.router, crossings(self.router, self.edges))

    def begin(self, lens: Lens) -> None:
        """Finds where its connections are in the program that runs now."""
        self.points, self.before, self.last = {}, {}, {}
        present = set(self.router.graph.connections)
        for number, c in enumerate(self.edges):
            if c in present:
                self.points.setdefault(self._point(c), []).append((number, c))
        for connections in list(self.points.values()):
            self._ask_before(connections[0][1])
        for instance, _, _ in (*self.points, *self.before):
            lens.wanted[instance] = 1
        self._begin_below()

    def _begin_below(self) -> None:
        below = eye_of(self.router).below
        if self.kernel is not None:
            self.kernel.ear.close()
            self.kernel = None
        if below is not None:
            from mezzo.runtime.taps_kernel import KernelTap, crossings

            self.kernel = KernelTap(self.router, crossings(self.router, self.edges), below.ear(self))

    def _point(self, c: Connection) -> Point:
        elements = self.router.elements
        src = elements[c.src]
        if src.output_kinds[c.src_port] == "pull":
            return src.index, c.src_port, True
        return elements[c.dst].index, c.dst_port, False

    def _ask_before(self, c: Connection) -> None:
        """Where several push into one input, sights that say who had a packet last."""
        rivals = [r for r in self.router.graph.inputs_of(c.dst) if r.dst_port == c.dst_port]
        if len({r.src for r in rivals}) < 2:
            return
        for name in {r.src for r in rivals}:
            for into in self.router.graph.inputs_of(name):
                self.before[self._point(into)] = name

    def read(self) -> list[Tapped]:
        """What passed since the last time."""
        eye = eye_of(self.router)
        rows: Rows | None = self.router.at_rest(lambda: eye.take(self))
        if rows is None or eye.clock is None:
            return []
        kernel = self._read_below()
        self.lost += rows.lost
        eye.clock.look()
        found = []
        for row in rows:
            number = self._edge_of(row)
            if number is not None and self.wanted(row.data):
                # A clock that was measured better must not go back.
                self.time_ns = max(self.time_ns, eye.clock.time_ns(row.ticks))
                found.append(Tapped(self.time_ns, number, row.length, row.data))
        return sorted([*kernel, *found], key=lambda one: one.time_ns) if kernel else found

    def _read_below(self) -> list[Tapped]:
        """What passed in the kernel's level."""
        if self.kernel is None:
            return []
        rows, lost = self.kernel.read(), self.kernel.ear.lost
        self.lost, self.lost_below = self.lost + lost - self.lost_below, lost
        return [Tapped(at, edge, length, data[: self.snap]) for at, edge, length, data in rows if self.wanted(data)]

    def _edge_of(self, row: Sight) -> int | None:
        """Which of its connections a sight is of."""
        point = (row.instance, row.port, row.is_out)
        had = self.last.get(row.frame)
        if point in self.before:
            self.last[row.frame] = self.before[point]
        entries = self.points.get(point, [])
        if not entries:
            return None
        self.last.pop(row.frame, None) if point not in self.before else None
        rivals = {r.src for r in self.router.graph.inputs_of(entries[0][1].dst) if r.dst_port == entries[0][1].dst_port}
        if row.is_out or len(rivals) < 2:
            return entries[0][0]
        # Who has no sight before makes its packets itself.
        makers = rivals - set(self.before.values())
        who = had if had in rivals else next(iter(makers), None) if len(makers) == 1 else None
        return next((n for n, c in entries if c.src == who), None)
