"""A graph becomes Click text that parses to the same graph (`unparse`), in the form in which Click writes one.

Elements are declared one to a line, in order.  Connections are put together into chains: one goes on into the first
connection that begins at output 0 of the element which it enters by input 0, unless another one went on into it before.
Every step of a chain has its own line, so that two configurations can be compared line by line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol


class ElementLike(Protocol):
    """An element of a graph or of a flat configuration."""

    @property
    def name(self) -> str: ...
    @property
    def cls(self) -> str: ...
    @property
    def config(self) -> str: ...


class ConnectionLike(Protocol):
    """A connection of a graph or of a flat configuration."""

    @property
    def src(self) -> str: ...
    @property
    def src_port(self) -> int: ...
    @property
    def dst(self) -> str: ...
    @property
    def dst_port(self) -> int: ...


def unparse(
    elements: Iterable[ElementLike] | Mapping[str, ElementLike],
    connections: Sequence[ConnectionLike],
    requirements: Sequence[str] = (),
) -> str:
    """Click text of these elements and connections."""
    listed = elements.values() if isinstance(elements, Mapping) else elements
    lines = [f"require({requirement});" for requirement in requirements]
    lines += [declaration(element) for element in listed]
    if connections:
        lines.append("")
    lines += [_written([connections[i] for i in chain]) for chain in chains(connections)]
    return "\n".join(lines) + "\n"


def declaration(element: ElementLike) -> str:
    """`name :: Class(config);`."""
    config = f"({element.config})" if element.config else ""
    return f"{element.name} :: {element.cls}{config};"


def chains(connections: Sequence[ConnectionLike]) -> Iterator[list[int]]:
    """The connections by number, chain by chain; rounds without a beginning come last."""
    following, begins = _followers(connections)
    used = [False] * len(connections)
    for first in [*(i for i, begin in enumerate(begins) if begin), *range(len(connections))]:
        chain, at = [], first
        while at >= 0 and not used[at]:
            used[at] = True
            chain.append(at)
            at = following[at]
        if chain:
            yield chain


def _followers(connections: Sequence[ConnectionLike]) -> tuple[list[int], list[bool]]:
    """For each connection the one it goes on into, or -1, and whether a chain begins with it."""
    leaving: dict[str, int] = {}
    for number, connection in enumerate(connections):
        if connection.src_port == 0:
            leaving.setdefault(connection.src, number)
    following, begins = [-1] * len(connections), [True] * len(connections)
    for number, connection in enumerate(connections):
        first = leaving.get(connection.dst, number) if connection.dst_port == 0 else number
        if first != number and begins[first]:
            following[number] = first
            begins[first] = False
    return following, begins


def _written(chain: list[ConnectionLike]) -> str:
    text = [chain[0].src, *_port(chain[0].src_port)]
    steps = [" ".join(["->", *_port(c.dst_port), c.dst]) for c in chain]
    return " ".join(text) + " " + "\n    ".join(steps) + ";"


def _port(number: int) -> list[str]:
    return [f"[{number}]"] if number else []
