"""A layered layout: boxes in rows, so that packets run down the page (`lay_out`).

The steps are those of Sugiyama, Tagawa and Toda (1981): turn round the edges that close loops, give each box a row
below all that lead to it, put stand-ins where an edge crosses a row, order the rows against crossings, place the boxes.

An edge that was turned round runs up the page.  It gets stand-ins beside both its ends, so that it leaves its box
below, turns, climbs, turns again and enters from above, as every edge does.

Rules of this file: no recursion; work is bounded for graphs of thousands of boxes by fewer sweeps.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mezzo.graph.order import strong_parts

GAP_X = 22.0
GAP_STAND_IN = 10.0
GAP_Y = 46.0
MARGIN = 24.0
TURN = 26.0
SWEEP_WORK = 400_000


@dataclass(slots=True)
class Box:
    """A rectangle to be placed; x and y are its centre and its top.  `ports_*` are offsets from the centre."""

    width: float
    height: float
    ports_in: Sequence[float] = (0.0,)
    ports_out: Sequence[float] = (0.0,)
    x: float = 0.0
    y: float = 0.0
    row: int = 0
    stand_in: bool = False


@dataclass(slots=True)
class Edge:
    """From an output port of one box to an input port of another; `points` is filled by the layout."""

    src: int
    src_port: int
    dst: int
    dst_port: int
    points: list[tuple[float, float]] = field(default_factory=list)
    upward: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Placed boxes (the caller's, in order), routed edges, and the size of it all."""

    boxes: list[Box]
    edges: list[Edge]
    width: float
    height: float


def lay_out(boxes: list[Box], edges: list[Edge]) -> Layout:
    """Place the boxes and route the edges."""
    joined = sorted({end for edge in edges for end in (edge.src, edge.dst)})
    numbers = {box: number for number, box in enumerate(joined)}
    for edge in edges:
        edge.src, edge.dst = numbers[edge.src], numbers[edge.dst]
    plan = _Plan([boxes[box] for box in joined], edges)
    width, height = plan.run()
    lone = [box for number, box in enumerate(boxes) if number not in numbers]
    width, height = _place_lone(lone, width, height) if lone else (width, height)
    for edge in edges:
        edge.src, edge.dst = joined[edge.src], joined[edge.dst]
    return Layout(boxes, edges, width, height)


def _place_lone(boxes: list[Box], width: float, y: float) -> tuple[float, float]:
    """Boxes without connections, in lines below the rest."""
    x, wrap = MARGIN, max(width, 600.0) - MARGIN
    tallest = max(box.height for box in boxes)
    for box in boxes:
        if x > MARGIN and x + box.width > wrap:
            x, y = MARGIN, y + tallest + GAP_X
        box.x, box.y = x + box.width / 2, y
        x += box.width + GAP_X
        width = max(width, x - GAP_X + MARGIN)
    return width, y + tallest + MARGIN


class _Plan:
    def __init__(self, boxes: list[Box], edges: list[Edge]) -> None:
        self._real = len(boxes)
        self._boxes = list(boxes)
        self._edges = edges
        self._rows: list[list[int]] = []
        self._tops: list[float] = []
        self._bottoms: list[float] = []
        self._chains: list[list[int]] = []
        # For each box its links to the row below, and to the row above: (other box, offset here, offset there).
        self._down: list[list[tuple[int, float, float]]] = []
        self._up: list[list[tuple[int, float, float]]] = []
        # Stand-ins that belong beside a box of their own row.
        self._beside: dict[int, int] = {}

    def run(self) -> tuple[float, float]:
        """All steps; the size of the result."""
        self._assign_rows()
        self._insert_stand_ins()
        self._order_rows()
        self._place()
        self._route()
        width = max((box.x + box.width / 2 for box in self._boxes), default=0.0)
        turns = [y for edge in self._edges if edge.upward for _, y in edge.points]
        height = max([*self._bottoms, *(y + TURN for y in turns)], default=0.0)
        return width + MARGIN, height + MARGIN

    # Rows

    def _assign_rows(self) -> None:
        targets: list[list[int]] = [[] for _ in range(self._real)]
        for edge in self._edges:
            targets[edge.src].append(edge.dst)
        rank = _rank(targets)
        for edge in self._edges:
            edge.upward = rank[edge.dst] <= rank[edge.src]
        below: list[list[int]] = [[] for _ in range(self._real)]
        above: list[list[int]] = [[] for _ in range(self._real)]
        for edge in self._edges:
            if not edge.upward:
                below[edge.src].append(edge.dst)
                above[edge.dst].append(edge.src)
        order = sorted(range(self._real), key=rank.__getitem__)
        rows = [0] * self._real
        for box in order:
            rows[box] = max((rows[b] + 1 for b in above[box]), default=0)
        # A source stands right above what it feeds, not at the top of the page.
        for box in reversed(order):
            if below[box] and len(below[box]) >= len(above[box]):
                rows[box] = min(rows[b] for b in below[box]) - 1
        for box, row in enumerate(rows):
            self._boxes[box].row = row

    # Stand-ins

    def _insert_stand_ins(self) -> None:
        self._rows = [[] for _ in range(max((b.row for b in self._boxes), default=-1) + 1)]
        self._down = [[] for _ in self._boxes]
        self._up = [[] for _ in self._boxes]
        for number in range(self._real):
            self._rows[self._boxes[number].row].append(number)
        for edge in self._edges:
            upper, lower = (edge.dst, edge.src) if edge.upward else (edge.src, edge.dst)
            first, last = self._boxes[upper].row, self._boxes[lower].row
            rows = range(first, last + 1) if edge.upward else range(first + 1, last)
            chain = [self._stand_in(row) for row in rows]
            if edge.upward:
                self._beside[chain[0]], self._beside[chain[-1]] = upper, lower
            self._chains.append(chain)
            self._link(edge, chain)

    def _stand_in(self, row: int) -> int:
        number = len(self._boxes)
        self._boxes.append(Box(2.0, 0.0, row=row, stand_in=True))
        self._rows[row].append(number)
        self._down.append([])
        self._up.append([])
        return number

    def _link(self, edge: Edge, chain: list[int]) -> None:
        stops = [(number, 0.0, 0.0) for number in chain]
        if not edge.upward:
            out = self._boxes[edge.src].ports_out[edge.src_port]
            into = self._boxes[edge.dst].ports_in[edge.dst_port]
            stops = [(edge.src, 0.0, out), *stops, (edge.dst, into, 0.0)]
        for (a, _, a_offset), (b, b_offset, _) in pairwise(stops):
            self._down[a].append((b, a_offset, b_offset))
            self._up[b].append((a, b_offset, a_offset))

    # Order in rows

    def _order_rows(self) -> None:
        links = sum(len(down) for down in self._down)
        sweeps = max(2, min(24, SWEEP_WORK // (links + 1)))
        self._start_order()
        best = [list(row) for row in self._rows]
        fewest = self._crossings()
        for sweep in range(sweeps):
            downward = sweep % 2 == 0
            for row in self._rows if downward else reversed(self._rows):
                self._sort_row(row, self._up if downward else self._down)
            crossings = self._crossings()
            if crossings < fewest:
                fewest, best = crossings, [list(row) for row in self._rows]
        self._rows = best
        for row in self._rows:
            self._pack(row)

    def _start_order(self) -> None:
        """Rows sorted by a walk from the top, so that the boxes of one branch stand under each other."""
        seen: dict[int, int] = {}
        for start in (box for row in self._rows for box in row):
            pending = [start]
            while pending:
                box = pending.pop()
                if box not in seen:
                    seen[box] = len(seen)
                    pending += [b for b, _, _ in sorted(self._down[box], key=lambda link: -link[1])]
        for row in self._rows:
            row.sort(key=lambda box: seen[self._owner(box)])
            self._pack(row)

    def _owner(self, box: int) -> int:
        """The box beside which a stand-in belongs, or the box itself."""
        return self._beside.get(box, box)

    def _sort_row(self, row: list[int], links: list[list[tuple[int, float, float]]]) -> None:
        """By the mean of the places each box is linked to; a box without links keeps its place."""
        weights = {}
        for box in row:
            near = [self._boxes[other].x + there - here for other, here, there in links[box]]
            if not near and box in self._beside:
                near = [self._boxes[self._beside[box]].x + 1]
            weights[box] = sum(near) / len(near) if near else self._boxes[box].x
        row.sort(key=weights.__getitem__)
        self._pack(row)

    def _pack(self, row: list[int]) -> None:
        """Places side by side around the middle, enough for comparing rows."""
        distances = self._distances(row)
        x = -sum(distances) / 2
        for box, step in zip(row, [0.0, *distances], strict=True):
            x += step
            self._boxes[box].x = x

    def _distances(self, row: list[int]) -> list[float]:
        """The least distance between the centres of each two neighbours."""
        boxes = [self._boxes[number] for number in row]
        return [
            (a.width + b.width) / 2 + (GAP_STAND_IN if a.stand_in or b.stand_in else GAP_X) for a, b in pairwise(boxes)
        ]

    def _crossings(self) -> int:
        total = 0
        for row in self._rows:
            links = sorted(
                (self._boxes[box].x + here, self._boxes[other].x + there)
                for box in row
                for other, here, there in self._down[box]
            )
            passed: list[float] = []
            for _, lower in links:
                total += len(passed) - bisect_right(passed, lower)
                insort(passed, lower)
        return total

    # Places

    def _place(self) -> None:
        links = sum(len(down) for down in self._down)
        rounds = max(2, min(30, SWEEP_WORK // (links + 1)))
        for step in range(rounds):
            both = step >= rounds // 2
            downward = step % 2 == 0
            for row in self._rows if downward else reversed(self._rows):
                self._shift(row, up=downward or both, down=not downward or both)
        self._straighten()
        left = min((box.x - box.width / 2 for box in self._boxes), default=0.0)
        for box in self._boxes:
            box.x += MARGIN - left
        self._set_heights()

    def _shift(self, row: list[int], up: bool, down: bool) -> None:
        """Move each box as near as the others let it to where its links pull."""
        wishes = [self._wish(box, up, down) for box in row]
        offsets, total = [0.0], 0.0
        for distance in self._distances(row):
            total += distance
            offsets.append(total)
        places = _isotonic([(x - offset, weight) for (x, weight), offset in zip(wishes, offsets, strict=True)])
        for box, place, offset in zip(row, places, offsets, strict=True):
            self._boxes[box].x = place + offset

    def _wish(self, box: int, up: bool, down: bool) -> tuple[float, float]:
        """Where its links pull a box, and how strongly; long edges pull hardest, to be straight."""
        here_stands_in = self._boxes[box].stand_in
        pull = weight = 0.0
        for other, here, there in (*(self._up[box] if up else ()), *(self._down[box] if down else ())):
            strength = 1.0 + 2.0 * here_stands_in + 3.0 * self._boxes[other].stand_in
            pull += strength * (self._boxes[other].x + there - here)
            weight += strength
        if box in self._beside:
            owner = self._boxes[self._beside[box]]
            side = 1.0 if self._boxes[box].x >= owner.x else -1.0
            pull += owner.x + side * (owner.width / 2 + GAP_STAND_IN)
            weight += 1.0
        return (pull / weight, weight) if weight else (self._boxes[box].x, 0.01)

    def _straighten(self) -> None:
        """Make runs of boxes with one link each way, such as the stand-ins of a long edge, as straight as fits."""
        strands = sorted(self._strands(), key=len, reverse=True)
        place = {box: (row, i) for row in self._rows for i, box in enumerate(row)}
        gaps = {id(row): self._distances(row) for row in self._rows}
        for _ in range(3):
            for strand in strands:
                self._straighten_strand(strand, place, gaps)

    def _strands(self) -> list[list[tuple[int, float]]]:
        """Runs of boxes, each with the offset of its x from that of a straight line through all."""
        strands: list[list[tuple[int, float]]] = []
        for box in (box for row in self._rows for box in row):
            if self._sole_link(box, self._up, self._down) is not None:
                continue
            strand = [(box, 0.0)]
            while (link := self._sole_link(strand[-1][0], self._down, self._up)) is not None:
                other, here, there = link
                strand.append((other, strand[-1][1] + here - there))
            if len(strand) > 1:
                strands.append(strand)
        return strands

    def _sole_link(
        self,
        box: int,
        links: list[list[tuple[int, float, float]]],
        back: list[list[tuple[int, float, float]]],
    ) -> tuple[int, float, float] | None:
        if len(links[box]) == 1 and len(back[links[box][0][0]]) == 1:
            return links[box][0]
        return None

    def _straighten_strand(
        self, strand: list[tuple[int, float]], place: dict[int, tuple[list[int], int]], gaps: dict[int, list[float]]
    ) -> None:
        """Cut the strand into the fewest runs that can be straight between their neighbours, and set each."""
        run: list[tuple[int, float]] = []
        low, high = -math.inf, math.inf
        for box, offset in strand:
            row, i = place[box]
            distances = gaps[id(row)]
            least = self._boxes[row[i - 1]].x + distances[i - 1] - offset if i > 0 else -math.inf
            most = self._boxes[row[i + 1]].x - distances[i] - offset if i + 1 < len(row) else math.inf
            if run and max(low, least) > min(high, most) + 1e-6:
                self._set_run(run, low, high)
                run, low, high = [], -math.inf, math.inf
            run.append((box, offset))
            low, high = max(low, least), min(high, most)
        self._set_run(run, low, high)

    def _set_run(self, run: list[tuple[int, float]], low: float, high: float) -> None:
        wishes = sorted(self._boxes[box].x - offset for box, offset in run)
        x = min(max(wishes[len(wishes) // 2], low), high)
        for box, offset in run:
            self._boxes[box].x = x + offset

    def _set_heights(self) -> None:
        y = MARGIN + (TURN if any(edge.upward for edge in self._edges) else 0.0)
        for row in self._rows:
            height = max((self._boxes[box].height for box in row), default=0.0)
            for box in row:
                self._boxes[box].y = y + (height - self._boxes[box].height) / 2
            self._tops.append(y)
            self._bottoms.append(y + height)
            crowd = sum(self._boxes[box].stand_in for box in row)
            y += height + GAP_Y + min(40.0, 1.5 * crowd)

    # Edges

    def _route(self) -> None:
        for edge, chain in zip(self._edges, self._chains, strict=True):
            src, dst = self._boxes[edge.src], self._boxes[edge.dst]
            begin = (src.x + src.ports_out[edge.src_port], src.y + src.height)
            end = (dst.x + dst.ports_in[edge.dst_port], dst.y)
            edge.points = [begin, *self._waypoints(edge, chain), end]

    def _waypoints(self, edge: Edge, chain: list[int]) -> Iterable[tuple[float, float]]:
        for number in reversed(chain) if edge.upward else chain:
            box = self._boxes[number]
            top, bottom = (box.x, self._tops[box.row]), (box.x, self._bottoms[box.row])
            yield from (bottom, top) if edge.upward else (top, bottom)


def _rank(targets: list[list[int]]) -> list[int]:
    """A number for each box that rises along all edges but those that close loops."""
    rank = [0] * len(targets)
    entered: set[int] = set()
    counter = 0
    for part in reversed(strong_parts(targets)):
        for box in _unwind(part, targets, entered) if len(part) > 1 else part:
            rank[box] = counter
            counter += 1
            entered.update(targets[box])
    return rank


def _unwind(part: list[int], targets: list[list[int]], entered: set[int]) -> list[int]:
    """The boxes of a loop from where it is entered, by a depth-first walk (reverse postorder)."""
    inside = set(part)
    starts = sorted(part, key=lambda box: (box not in entered, box))
    seen: set[int] = set()
    finished: list[int] = []
    for start in starts:
        work = [(start, 0)] if start not in seen else []
        seen.add(start)
        while work:
            box, at = work.pop()
            if at == len(targets[box]):
                finished.append(box)
                continue
            # The last target first, so that the first comes out nearest.
            target = targets[box][-1 - at]
            work.append((box, at + 1))
            if target in inside and target not in seen:
                seen.add(target)
                work.append((target, 0))
    return finished[::-1]


def _isotonic(wishes: list[tuple[float, float]]) -> list[float]:
    """The rising sequence nearest to the wishes by weighted squares (pool adjacent violators)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in wishes:
        count = 1
        while pools and pools[-1][0] > value:
            other, other_weight, other_count = pools.pop()
            value = (value * weight + other * other_weight) / (weight + other_weight)
            weight += other_weight
            count += other_count
        pools.append((value, weight, count))
    return [value for value, _, count in pools for _ in range(count)]
