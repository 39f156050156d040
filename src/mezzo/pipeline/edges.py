"""Counting what goes over each connection.

`count_edges` puts an EdgeCounter on every connection of a graph.  They are elements like any other, so every target
counts alike and native code inlines them to an addition; a router that is not counted has none and pays nothing.
Handlers do not list them: `Plan.edges` says which connection each one stands for.
"""

from __future__ import annotations

from dataclasses import replace

from mezzo.graph import Connection, Graph, Instance


def count_edges(graph: Graph) -> tuple[Graph, dict[str, Connection]]:
    """The graph with a counter on each connection, and the counters' names with the connections they stand for."""
    edges = {f"edge@{number}": c for number, c in enumerate(graph.connections, 1)}
    counters = {name: Instance(name, "EdgeCounter", "", c.span) for name, c in edges.items()}
    halves = [
        half
        for name, c in edges.items()
        for half in (Connection(c.src, c.src_port, name, 0, c.span), Connection(name, 0, c.dst, c.dst_port, c.span))
    ]
    return replace(graph, instances={**graph.instances, **counters}, connections=tuple(halves)), edges
