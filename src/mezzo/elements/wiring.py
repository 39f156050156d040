"""Graphs written in Python: `source >> Counter() >> Queue(1000) >> Discard()`.

`a >> b` joins output 0 of a to input 0 of b and goes on at b's output 0.  `a[1]` on the left is output 1; `b[2]` on the
right is input 2; `b[2, 1]` in the middle is input 2, going on at output 1.  Wires are kept at both ends, so any element
of a graph leads to all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from mezzo.elements import confparse

if TYPE_CHECKING:
    from mezzo.elements.element import Element


class Wired:
    """What can stand beside `>>`: it has the element and port where it is entered, and where it is left."""

    picture: ClassVar[Callable[[Wired], str] | None] = None

    def entry(self) -> tuple[Element, int]:
        raise NotImplementedError

    def exit(self) -> tuple[Element, int]:
        raise NotImplementedError

    def _repr_svg_(self) -> str | None:
        """A notebook shows the graph as its picture; who draws is set by the room that can."""
        return Wired.picture(self) if Wired.picture is not None else None

    def __rshift__(self, other: Any) -> Chain:
        if not isinstance(other, Wired):
            raise TypeError(f"`>>` joins elements, and {other!r} is none; write Class() with its arguments")
        if isinstance(other, PortOf):
            other = _Entered(other.element, (other.into, other.out) if other.both else other.into)
        (source, out), (sink, into) = self.exit(), other.entry()
        source.wires_out.append((out, sink, into))
        sink.wires_in.append((into, source, out))
        return Chain(self.entry(), other.exit())


class Chain(Wired):
    """Elements joined by `>>`, seen as one."""

    def __init__(self, first: tuple[Element, int], last: tuple[Element, int]) -> None:
        self.first, self.last = first, last

    def entry(self) -> tuple[Element, int]:
        return self.first

    def exit(self) -> tuple[Element, int]:
        return self.last


class PortOf(Wired):
    """`element[port]`."""

    def __init__(self, element: Element, port: int | tuple[int, int]) -> None:
        self.element = element
        self.into, self.out = port if isinstance(port, tuple) else (port, port)
        self.both = isinstance(port, tuple)

    def entry(self) -> tuple[Element, int]:
        return self.element, self.into

    def exit(self) -> tuple[Element, int]:
        return self.element, self.out


class _Entered(PortOf):
    """On the right of `>>` one number is the input; the way on is output 0."""

    def exit(self) -> tuple[Element, int]:
        return self.element, self.out if self.both else 0


def argument_text(value: Any) -> str:
    """A Python value as a configuration argument."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray)):
        return r"\<" + bytes(value).hex() + ">"
    if isinstance(value, (list, tuple)):
        return " ".join(argument_text(v) for v in value)
    return str(value)


def config_text(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """The configuration string of `Class(*args, **keywords)`; keywords are written in any case."""
    words = [argument_text(a) for a in args]
    words += [f"{k.upper()} {argument_text(v)}" for k, v in keywords.items()]
    return confparse.join_args(words)


def reachable(start: Element) -> list[Element]:
    """All elements of a graph, in the order they were first joined to what came before."""
    found: dict[int, Element] = {}
    stack = [start]
    while stack:
        element = stack.pop()
        if id(element) in found:
            continue
        found[id(element)] = element
        stack += [e for _, e, _ in reversed(element.wires_out)] + [e for _, e, _ in element.wires_in]
    return sorted(found.values(), key=lambda e: e.serial)
