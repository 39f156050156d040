"""Loops of push connections: sound for sound packets, guarded against the others.

ICMPError back into the routing table is such a loop.  A LoopGuard on each connection that closes one ends a packet that
goes round for ever, instead of the stack.
"""

from __future__ import annotations

from dataclasses import replace

from mezzo.graph import Connection, Graph, Instance, Resolved


def guard_loops(resolved: Resolved) -> Graph:
    """The graph with a LoopGuard on each push connection that closes a loop."""
    graph = resolved.graph
    closing = closing_connections(resolved)
    kept = tuple(c for c in graph.connections if c not in closing)
    guarded = replace(graph, connections=kept, warnings=())
    for number, c in enumerate(closing):
        name = f"loop@{number + 1}"
        guarded = guarded.with_instance(Instance(name, "LoopGuard", "", c.span))
        guarded = guarded.with_connection(Connection(c.src, c.src_port, name, 0, c.span))
        guarded = guarded.with_connection(Connection(name, 0, c.dst, c.dst_port, c.span))
    return guarded


def closing_connections(resolved: Resolved) -> list[Connection]:
    """Push connections that lead back to an element on the way from a source, found depth first."""
    graph, found = resolved.graph, []
    done: set[str] = set()
    roots = sorted(graph.instances, key=lambda n: "push" in resolved.input_kinds[n])  # sources first
    for root in roots:
        if root in done:
            continue
        path = {root}
        stack = [(root, iter(push_outputs(resolved, root)))]
        while stack:
            name, rest = stack[-1]
            connection = next(rest, None)
            if connection is None:
                stack.pop()
                path.discard(name)
                done.add(name)
            elif connection.dst in path:
                found.append(connection)
            elif connection.dst not in done:
                path.add(connection.dst)
                stack.append((connection.dst, iter(push_outputs(resolved, connection.dst))))
    return found


def push_outputs(resolved: Resolved, name: str) -> list[Connection]:
    kinds = resolved.output_kinds[name]
    return [c for c in resolved.graph.outputs_of(name) if kinds[c.src_port] == "push"]
