"""Loops of calls: push or pull connections that lead back to where they came from without a queue between."""

from __future__ import annotations

from mezzo.base import Note, Reporter
from mezzo.graph.graph import Connection, Graph
from mezzo.graph.order import shortest_round, strong_parts
from mezzo.graph.ports import PortTable


def find_loops(
    graph: Graph,
    table: PortTable,
    connections: list[Connection],
    input_kinds: dict[str, tuple[str, ...]],
    output_kinds: dict[str, tuple[str, ...]],
    reporter: Reporter,
) -> tuple[tuple[str, ...], ...]:
    """The loops that have a way out, each as its elements in order; those without one go to the reporter."""
    loops: list[tuple[str, ...]] = []
    for kind in ("push", "pull"):
        edges, leaves = _calls(table, kind, input_kinds, output_kinds)
        for part in _loops_of(edges):
            inside = set(part)
            names = _names_on_round(table, edges, min(part))
            way_out = any(leaves[n] or any(target not in inside for target in edges[n]) for n in part)
            if way_out:
                loops.append(names)
            else:
                _report(graph, names, kind, reporter)
    return tuple(loops)


def _loops_of(edges: list[list[int]]) -> list[list[int]]:
    """The strongly connected parts with a loop.  Most graphs have none, so dead ends are peeled off first."""
    callers: list[list[int]] = [[] for _ in edges]
    left = [len(targets) for targets in edges]
    for number, targets in enumerate(edges):
        for target in targets:
            callers[target].append(number)
    ends = [number for number, count in enumerate(left) if count == 0]
    for end in ends:
        for caller in callers[end]:
            left[caller] -= 1
            if left[caller] == 0:
                ends.append(caller)
    if len(ends) == len(edges):
        return []
    return [part for part in strong_parts(edges) if len(part) > 1 or part[0] in edges[part[0]]]


def _calls(
    table: PortTable,
    kind: str,
    input_kinds: dict[str, tuple[str, ...]],
    output_kinds: dict[str, tuple[str, ...]],
) -> tuple[list[list[int]], list[bool]]:
    """Calls of one kind from port to port, and for each port whether packets also leave (or come) another way."""
    kinds = ["push"] * len(table.codes)
    for name in table.ninputs:
        for port, value in enumerate(input_kinds[name]):
            kinds[table.input(name, port)] = value
        for port, value in enumerate(output_kinds[name]):
            kinds[table.output(name, port)] = value
    edges: list[list[int]] = [[] for _ in kinds]
    leaves = [False] * len(kinds)
    for source, target in table.flows():
        # A push call goes with the packet, a pull call against it.
        caller, called = (source, target) if kind == "push" else (target, source)
        if kinds[caller] != kind:
            continue
        if kinds[called] == kind:
            edges[caller].append(called)
        else:
            leaves[caller] = True
    for number, joined in enumerate(table.joined):
        if kinds[number] == kind and table.is_output(number) == (kind == "push"):
            edges[number] += [other for other, _ in joined]
    return edges, leaves


def _names_on_round(table: PortTable, edges: list[list[int]], start: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(table.owners[n] for n in shortest_round(edges, start)))


def _report(graph: Graph, names: tuple[str, ...], kind: str, reporter: Reporter) -> None:
    shown = names if len(names) <= 8 else (*names[:4], "...", *names[-3:])
    around = " -> ".join(f"`{name}`" if name != "..." else name for name in [*shown, names[0]])
    first, *others = (graph.instances[name] for name in names[:4])
    does = "push packets round" if kind == "push" else "ask each other for packets"
    reporter.error(
        f"these elements {does} for ever, with no way out: {around}",
        first.span,
        [Note(f"`{other.name}` is here", other.span) for other in others],
        "put a Queue and an Unqueue into the loop, or lead one of its outputs out of it",
    )
