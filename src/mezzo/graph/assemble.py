"""A flat configuration becomes a graph (`assemble`)."""

from __future__ import annotations

from mezzo.frontends.click import Flat
from mezzo.graph.graph import Connection, Graph, Instance


def assemble(flat: Flat) -> Graph:
    """The graph of a flat configuration, whose names are distinct and whose connections name its elements."""
    instances = {e.name: Instance(e.name, e.cls, e.config, e.span, e.written) for e in flat.elements}
    connections = tuple(Connection(c.src, c.src_port, c.dst, c.dst_port, c.span) for c in flat.connections)
    return Graph(instances, connections, flat.requirements, flat.warnings)
