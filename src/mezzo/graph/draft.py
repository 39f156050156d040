"""A graph while it is being changed: what the tools work on that take elements out or put others in.

`Graph` is a value, and a new one for each of thousands of changes would cost their square.  A draft is made from a
graph, changed in place, and made a graph again.  Elements and connections keep their order; a connection that is led
elsewhere keeps its place, so that the text which comes out differs from the one that went in only where it must.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from mezzo.graph.graph import Connection, Graph, Instance

Port = tuple[str, int]


class Draft:
    """A graph in the making."""

    def __init__(self, graph: Graph | None = None) -> None:
        self._given = graph if graph is not None else Graph()
        self.instances: dict[str, Instance] = dict(self._given.instances)
        self._counter = count()
        self._order: dict[str, int] = {name: next(self._counter) for name in self.instances}
        self._place: dict[Connection, int] = {}
        self._by_class: dict[str, dict[str, None]] = {}
        for name, instance in self.instances.items():
            self._by_class.setdefault(instance.cls, {})[name] = None
        self._into: dict[str, dict[Connection, None]] = {name: {} for name in self.instances}
        self._out_of: dict[str, dict[Connection, None]] = {name: {} for name in self.instances}
        for connection in self._given.connections:
            self.connect(connection)

    def graph(self) -> Graph:
        """The graph as it is now."""
        names = sorted(self.instances, key=self._order.__getitem__)
        connections = sorted(self._place, key=self._place.__getitem__)
        return replace(self._given, instances={n: self.instances[n] for n in names}, connections=tuple(connections))

    # Elements

    def place_of(self, name: str) -> int:
        """Where an element stands in the order."""
        return self._order[name]

    def add(self, instance: Instance, place: int | None = None) -> None:
        """Add an element: last, or at a place, behind what is there."""
        assert instance.name not in self.instances, f"`{instance.name}` is there already"
        self.instances[instance.name] = instance
        self._by_class.setdefault(instance.cls, {})[instance.name] = None
        self._order[instance.name] = place if place is not None else next(self._counter)
        self._into[instance.name] = {}
        self._out_of[instance.name] = {}

    def add_anonymous(self, cls: str) -> str:
        """Add an element `cls@N` with the first N that is free; its name."""
        number = len(self.instances) + 1
        while f"{cls}@{number}" in self.instances:
            number += 1
        self.add(Instance(f"{cls}@{number}", cls))
        return f"{cls}@{number}"

    def drop(self, name: str) -> None:
        """Take out an element and its connections."""
        for connection in {**self._into[name], **self._out_of[name]}:
            self.disconnect(connection)
        del self._by_class[self.instances[name].cls][name]
        del self.instances[name], self._into[name], self._out_of[name]

    def configure(self, name: str, config: str) -> None:
        self.instances[name] = replace(self.instances[name], config=config, written=None)

    # Connections

    def connect(self, connection: Connection, place: int | None = None) -> None:
        """Add a connection: last, or at a place.  One that is there already stays where it is."""
        if connection in self._place:
            return
        self._place[connection] = place if place is not None else next(self._counter)
        self._into[connection.dst][connection] = None
        self._out_of[connection.src][connection] = None

    def disconnect(self, connection: Connection) -> int:
        """Take out a connection; its place."""
        del self._into[connection.dst][connection]
        del self._out_of[connection.src][connection]
        return self._place.pop(connection)

    def lead_to(self, connection: Connection, target: Port) -> None:
        """Let a connection end elsewhere."""
        place = self.disconnect(connection)
        self.connect(replace(connection, dst=target[0], dst_port=target[1]), place)

    def lead_from(self, connection: Connection, source: Port) -> None:
        """Let a connection begin elsewhere."""
        place = self.disconnect(connection)
        self.connect(replace(connection, src=source[0], src_port=source[1]), place)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._place

    def into(self, name: str, port: int | None = None) -> list[Connection]:
        """The connections that end at an element, or at one of its inputs."""
        return [c for c in self._into[name] if port is None or c.dst_port == port]

    def out_of(self, name: str, port: int | None = None) -> list[Connection]:
        """The connections that begin at an element, or at one of its outputs."""
        return [c for c in self._out_of[name] if port is None or c.src_port == port]

    def of_class(self, *classes: str) -> list[str]:
        """The elements of these classes, class by class, those that were added later last."""
        return [name for cls in classes for name in self._by_class.get(cls, ())]


def port_counts(connections: Iterable[Connection]) -> tuple[dict[str, int], dict[str, int]]:
    """How many inputs and how many outputs of each element are used."""
    inputs: dict[str, int] = {}
    outputs: dict[str, int] = {}
    for c in connections:
        inputs[c.dst] = max(inputs.get(c.dst, 0), c.dst_port + 1)
        outputs[c.src] = max(outputs.get(c.src, 0), c.src_port + 1)
    return inputs, outputs
