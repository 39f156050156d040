"""All ports of a graph by number, for algorithms that walk from port to port."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mezzo.graph.graph import Connection

Flow = Callable[[int], "tuple[int, ...]"]


@dataclass(slots=True)
class PortTable:
    """Ports numbered element by element, inputs before outputs, with the code (`h`, `l`, `a`) of each."""

    ninputs: dict[str, int] = field(default_factory=dict)
    noutputs: dict[str, int] = field(default_factory=dict)
    codes: list[str] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    joined: list[list[tuple[int, Connection]]] = field(default_factory=list)
    _base: dict[str, int] = field(default_factory=dict)
    _flows: dict[str, Flow] = field(default_factory=dict)

    def add(self, name: str, codes: tuple[str, str], flow: Flow) -> None:
        """Add an element's ports; `flow` gives the outputs to which packets travel from an input."""
        inputs, outputs = codes
        self.ninputs[name], self.noutputs[name] = len(inputs), len(outputs)
        self._base[name] = len(self.codes)
        self._flows[name] = flow
        self.codes += inputs + outputs
        self.owners += [name] * len(inputs + outputs)
        self.joined += [[] for _ in inputs + outputs]

    def join(self, connection: Connection) -> None:
        src, dst = self.output(connection.src, connection.src_port), self.input(connection.dst, connection.dst_port)
        self.joined[src].append((dst, connection))
        self.joined[dst].append((src, connection))

    def input(self, name: str, port: int) -> int:
        return self._base[name] + port

    def output(self, name: str, port: int) -> int:
        return self._base[name] + self.ninputs[name] + port

    def is_output(self, number: int) -> bool:
        name = self.owners[number]
        return number - self._base[name] >= self.ninputs[name]

    def port(self, number: int) -> int:
        """The number of this port on its side of its element."""
        name = self.owners[number]
        local = number - self._base[name]
        return local - self.ninputs[name] if local >= self.ninputs[name] else local

    def joined_input(self, name: str, port: int) -> bool:
        return bool(self.joined[self.input(name, port)])

    def joined_output(self, name: str, port: int) -> bool:
        return bool(self.joined[self.output(name, port)])

    def flows(self) -> Iterator[tuple[int, int]]:
        """Each (input, output) of one element between which packets travel."""
        for name, flow in self._flows.items():
            for port in range(self.ninputs[name]):
                for out in flow(port):
                    yield self.input(name, port), self.output(name, out)

    def by_name(self, values: list[str]) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
        """One value per port as {element: values of its inputs} and the same of outputs."""
        inputs, outputs = {}, {}
        for name, base in self._base.items():
            middle, end = base + self.ninputs[name], base + self.ninputs[name] + self.noutputs[name]
            inputs[name], outputs[name] = tuple(values[base:middle]), tuple(values[middle:end])
        return inputs, outputs
