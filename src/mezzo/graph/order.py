"""Orders of a graph: its strongly connected parts, and its elements from sources to sinks.

Rules of this file: no recursion, since chains may be as long as a configuration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from mezzo.graph.graph import Graph


def flow_order(graph: Graph) -> tuple[str, ...]:
    """The elements so that connections lead from earlier to later ones, except inside loops."""
    names = list(graph.instances)
    numbers = {name: i for i, name in enumerate(names)}
    edges: list[list[int]] = [[] for _ in names]
    for connection in graph.connections:
        edges[numbers[connection.src]].append(numbers[connection.dst])
    parts = strong_parts(edges)
    return tuple(names[number] for part in reversed(parts) for number in sorted(part))


def strong_parts(edges: Sequence[Sequence[int]]) -> list[list[int]]:
    """The strongly connected parts, each behind all it leads to (Tarjan 1972)."""
    index: list[int] = [-1] * len(edges)
    low = [0] * len(edges)
    on_stack = [False] * len(edges)
    stack: list[int] = []
    parts: list[list[int]] = []
    counter = 0
    # Roots from the last, so that reversing the result keeps the order of what is not connected.
    for root in reversed(range(len(edges))):
        if index[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = counter
                counter += 1
                stack.append(node)
                on_stack[node] = True
            for at in range(at, len(edges[node])):  # noqa: B020  (resumes where the descent left off)
                target = edges[node][at]
                if index[target] < 0:
                    work += [(node, at + 1), (target, 0)]
                    break
                if on_stack[target]:
                    low[node] = min(low[node], index[target])
            else:
                if low[node] == index[node]:
                    parts.append(_pop_part(stack, on_stack, node))
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
    return parts


def _pop_part(stack: list[int], on_stack: list[bool], root: int) -> list[int]:
    part: list[int] = []
    while not part or part[-1] != root:
        node = stack.pop()
        on_stack[node] = False
        part.append(node)
    return part


def shortest_round(edges: Sequence[Sequence[int]], start: int) -> list[int]:
    """The nodes of a shortest way from `start` back to it, which must exist; `start` comes first."""
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for target in edges[node]:
            if target == start:
                return _walk_back(came_from, start, node)
            if target not in came_from:
                came_from[target] = node
                waiting.append(target)
    raise AssertionError("a node of a loop leads back to itself")


def _walk_back(came_from: dict[int, int], start: int, node: int) -> list[int]:
    way = [node]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]
