"""Builds functions and units by hand: what the front end and elements that generate their code share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mezzo.base import Span
from mezzo.ir import ops
from mezzo.ir.module import Function, Param, State, Unit
from mezzo.ir.types import PACKET, U32


class UnitBuilder:
    """Collects functions, drop reasons and host methods of one unit."""

    def __init__(self, name: str, states: tuple[State, ...] = ()) -> None:
        self.name, self.states = name, states
        self.functions: dict[str, Function] = {}
        self.reasons: list[str] = []
        self.hosts: list[str] = []

    def reason(self, text: str) -> int:
        """The number of a drop reason."""
        if text not in self.reasons:
            self.reasons.append(text)
        return self.reasons.index(text)

    def host(self, method: str) -> str:
        if method not in self.hosts:
            self.hosts.append(method)
        return method

    def add(self, function: Function) -> None:
        self.functions[function.name] = function

    def process(self, body: ops.Body) -> None:
        """Adds `process(p) -> port` with this body; the packet is the local `p`."""
        self.add(Function("process", (Param("p", PACKET),), U32, body))

    def unit(self) -> Unit:
        return Unit(self.name, tuple(self.functions.values()), self.states, tuple(self.reasons), tuple(self.hosts))


class BodyBuilder:
    """Statements in the making: `add` appends to the innermost open block."""

    def __init__(self) -> None:
        self.blocks: list[list[ops.Stmt]] = [[]]
        self.count = 0

    def add(self, statement: ops.Stmt) -> None:
        self.blocks[-1].append(statement)

    def fresh(self, hint: str = "t") -> str:
        self.count += 1
        return f"{hint}.{self.count}"

    def keep(self, value: ops.Expr, span: Span | None = None, hint: str = "t") -> ops.Expr:
        """The value in a local of its own, so that it is computed once; constants stay as they are."""
        if isinstance(value, ops.Const):
            return value
        name = self.fresh(hint)
        self.add(ops.Set(name, value, span=span))
        return ops.Local(value.type, name)

    @contextmanager
    def block(self) -> Iterator[list[ops.Stmt]]:
        """Statements added inside go to the yielded list."""
        inner: list[ops.Stmt] = []
        self.blocks.append(inner)
        try:
            yield inner
        finally:
            self.blocks.pop()

    def done(self) -> ops.Body:
        return tuple(self.blocks[0])


