"""Which ports push and which pull: kinds spread from the ports that have one to the agnostic ones.

The spreading is breadth first from all decided ports at once, and each port remembers the decided port its kind came
from.  Where push meets pull, those two origins are what the message names: they are the reason, while the agnostic
elements between them only pass it on.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from mezzo.base import Note, Reporter, Span
from mezzo.graph.graph import Connection, Graph
from mezzo.graph.ports import PortTable

_KIND = {"h": "push", "l": "pull"}


def resolve_kinds(
    graph: Graph, table: PortTable, connections: list[Connection], reporter: Reporter
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """The kind of each input and output by element; conflicts go to the reporter."""
    spreading = _Spreading(graph, table, reporter)
    spreading.run()
    return table.by_name([_KIND.get(code, "push") for code in spreading.codes])


class _Spreading:
    def __init__(self, graph: Graph, table: PortTable, reporter: Reporter) -> None:
        self._graph = graph
        self._table = table
        self._reporter = reporter
        self.codes = list(table.codes)
        self._came_from: dict[int, int] = {}
        self._inside: dict[int, list[int]] = {}
        self._reported: set[tuple[int, int]] = set()
        for source, target in table.flows():
            if table.codes[source] == table.codes[target] == "a":
                self._inside.setdefault(source, []).append(target)
                self._inside.setdefault(target, []).append(source)

    def run(self) -> None:
        waiting = deque(n for n, code in enumerate(self.codes) if code != "a")
        while waiting:
            number = waiting.popleft()
            for other in self._neighbours(number):
                if self.codes[other] == "a":
                    self.codes[other] = self.codes[number]
                    self._came_from[other] = number
                    waiting.append(other)
                elif self.codes[other] != self.codes[number]:
                    self._conflict(number, other)

    def _neighbours(self, number: int) -> list[int]:
        return [other for other, _ in self._table.joined[number]] + self._inside.get(number, [])

    def _conflict(self, one: int, other: int) -> None:
        """Push meets pull between two neighbours: report the two origins, once."""
        ways = [self._way_to(one), self._way_to(other)]
        ways.sort(key=lambda way: (not self._table.is_output(way[0]), way[0]))
        first, second = ways
        pair = (first[0], second[0])
        if pair in self._reported:
            return
        self._reported.add(pair)
        between = [self._table.owners[n] for n in (*first, *reversed(second))]
        agnostic = [name for name in dict.fromkeys(between) if name not in (between[0], between[-1])]
        place = self._place([*first, *reversed(second)])
        upstream, downstream = self._table.is_output(first[0]), not self._table.is_output(second[0])
        if upstream and downstream:
            self._report_joined(first[0], second[0], agnostic, place)
        else:
            self._report_mixed(first[0], second[0], agnostic or [between[0]], place)

    def _way_to(self, number: int) -> list[int]:
        """The ports from the decided one whose kind this port has, to this port."""
        way = [number]
        while way[-1] in self._came_from:
            way.append(self._came_from[way[-1]])
        return way[::-1]

    def _place(self, way: list[int]) -> Span | None:
        """The first connection on the way."""
        for one, other in pairwise(way):
            for neighbour, connection in self._table.joined[one]:
                if neighbour == other:
                    return connection.span
        return None

    def _report_joined(self, source: int, target: int, agnostic: list[str], place: Span | None) -> None:
        kind = _KIND[self.codes[source]]
        through = " through " + ", ".join(f"`{name}`" for name in agnostic) if agnostic else ""
        remedy = "an Unqueue" if kind == "pull" else "a Queue"
        self._reporter.error(
            f"{self._describe(source)} is joined to {self._describe(target)}{through}",
            place,
            self._notes(source, target),
            f"put {remedy} between `{self._table.owners[source]}` and `{self._table.owners[target]}`",
        )

    def _report_mixed(self, one: int, other: int, agnostic: list[str], place: Span | None) -> None:
        names = ", ".join(f"`{name}`" for name in agnostic)
        self._reporter.error(
            f"{names} would have to push and to pull: joined to {self._describe(one)} and to {self._describe(other)}",
            place,
            self._notes(one, other),
            "put a Queue where packets should wait, or an Unqueue where they should be pushed on",
        )

    def _describe(self, number: int) -> str:
        side = "output" if self._table.is_output(number) else "input"
        return f"{_KIND[self.codes[number]]} {side} {self._table.port(number)} of `{self._table.owners[number]}`"

    def _notes(self, *numbers: int) -> list[Note]:
        instances = [self._graph.instances[self._table.owners[n]] for n in dict.fromkeys(numbers)]
        return [Note(f"`{i.name}` ({i.cls}) is declared here", i.span) for i in instances]
