"""A graph becomes Click text that parses to the same graph (`unparse`).

Elements are declared one to a line, in order; connections are put together into chains where an element goes on
through port 0, as one would write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    lines += [_declaration(element) for element in listed]
    if connections:
        lines.append("")
    lines += [f"{connection};" for connection in _chains(connections)]
    return "\n".join(lines) + "\n"


def _declaration(element: ElementLike) -> str:
    config = f"({element.config})" if element.config else ""
    return f"{element.name} :: {element.cls}{config};"


def _chains(connections: Sequence[ConnectionLike]) -> Iterable[str]:
    """One line per run of connections in which each begins where the one before ended."""
    parts: list[str] = []
    last: ConnectionLike | None = None
    for connection in connections:
        if last is None or last.dst != connection.src:
            if parts:
                yield " ".join(parts)
            parts = [connection.src]
        parts += [*_port(connection.src_port), "->", *_port(connection.dst_port), connection.dst]
        last = connection
    if parts:
        yield " ".join(parts)


def _port(number: int) -> list[str]:
    return [f"[{number}]"] if number else []
