"""The router as a graph: element instances and the connections between their ports.

A graph is a value.  It is made by `assemble` from a configuration, or by hand; changing one makes another.  Classes
are names here: what a class needs and does is asked through the argument of `check`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

from mezzo.base import Diagnostic, Span


class WrittenConfig(Protocol):
    """A configuration string as it stands in its source."""

    def argument_span(self, index: int) -> Span | None: ...


@dataclass(frozen=True, slots=True)
class Instance:
    """One element: its class by name, and its configuration string."""

    name: str
    cls: str
    config: str = ""
    span: Span | None = field(default=None, compare=False)
    written: WrittenConfig | None = field(default=None, compare=False, repr=False)

    def argument_span(self, index: int) -> Span | None:
        """The place of one argument, for messages; the element's own place where that is not known."""
        place = self.written.argument_span(index) if self.written is not None else None
        return place or self.span


@dataclass(frozen=True, slots=True)
class Connection:
    """From an output port to an input port."""

    src: str
    src_port: int
    dst: str
    dst_port: int
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.src} [{self.src_port}] -> [{self.dst_port}] {self.dst}"


@dataclass(frozen=True)
class Graph:
    """Instances by name, in the order declared, and their connections."""

    instances: Mapping[str, Instance] = field(default_factory=dict)
    connections: tuple[Connection, ...] = ()
    requirements: tuple[str, ...] = ()
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)

    def inputs_of(self, name: str) -> tuple[Connection, ...]:
        """The connections that end at this element, by port."""
        return self._by_end[0].get(name, ())

    def outputs_of(self, name: str) -> tuple[Connection, ...]:
        """The connections that begin at this element, by port."""
        return self._by_end[1].get(name, ())

    def with_instance(self, instance: Instance) -> Graph:
        """With this instance, in place of one of the same name if there is one."""
        return replace(self, instances={**self.instances, instance.name: instance})

    def with_connection(self, connection: Connection) -> Graph:
        """With this connection as the last."""
        return replace(self, connections=(*self.connections, connection))

    def with_config(self, name: str, config: str) -> Graph:
        """With another configuration string for one element."""
        return self.with_instance(replace(self.instances[name], config=config, written=None))

    def without(self, name: str) -> Graph:
        """Without this element and its connections."""
        rest = {n: i for n, i in self.instances.items() if n != name}
        kept = tuple(c for c in self.connections if name not in (c.src, c.dst))
        return replace(self, instances=rest, connections=kept)

    def _repr_svg_(self) -> str:
        """A notebook shows the graph as its picture."""
        from mezzo.graph.draw import draw_svg  # a picture is rarely wanted, and its room is large

        return draw_svg(self)

    @cached_property
    def _by_end(self) -> tuple[dict[str, tuple[Connection, ...]], dict[str, tuple[Connection, ...]]]:
        into: dict[str, list[Connection]] = {}
        out_of: dict[str, list[Connection]] = {}
        for connection in self.connections:
            into.setdefault(connection.dst, []).append(connection)
            out_of.setdefault(connection.src, []).append(connection)
        return (
            {name: tuple(sorted(cs, key=lambda c: c.dst_port)) for name, cs in into.items()},
            {name: tuple(sorted(cs, key=lambda c: c.src_port)) for name, cs in out_of.items()},
        )
