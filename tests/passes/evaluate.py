"""A second opinion on what code means: runs the part of the IR that needs no packet, and records what it does."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.module import Unit
from mezzo.ir.types import BOOL, Type

CELLS = 8


class Fault(Exception):
    """The method ends here."""


class Leave(Exception):
    """Return, Break or Continue on its way."""

    def __init__(self, node: ops.Stmt, value: int | None = None) -> None:
        self.node, self.value = node, value


def run(unit: Unit, name: str, args: dict[str, int]) -> list[object]:
    """All that the function does, in order; its last entry says how it ended."""
    function = unit.function(name)
    assert function is not None
    machine = _Machine(args)
    try:
        machine.body(function.body)
        end: object = "end"
    except Leave as leave:
        end = ("return", leave.value)
    except Fault:
        end = "fault"
    return [*machine.trace, end]


class _Machine:
    def __init__(self, args: dict[str, int]) -> None:
        self.locals, self.trace, self.seed = dict(args), list[object](), 1

    def body(self, body: ops.Body) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: ops.Stmt) -> None:
        match node:
            case ops.Set():
                self.locals[node.name] = self.value(node.value)
            case ops.Put():
                self.trace.append((node.state, self.value(node.value)))
            case ops.Store():
                self.trace.append((node.state, self.inside(self.value(node.index)), self.value(node.value)))
            case ops.Eval():
                self.value(node.value)
            case ops.If():
                self.body(node.then if self.value(node.cond) else node.orelse)
            case ops.For():
                self.loop(node)
            case ops.Return():
                raise Leave(node, None if node.value is None else self.value(node.value))
            case ops.Break() | ops.Continue():
                raise Leave(node)
            case _:
                raise AssertionError(node)

    def loop(self, node: ops.For) -> None:
        count = self.value(node.count)
        if count > node.limit:
            raise Fault
        for index in range(count):
            self.locals[node.name] = index
            try:
                self.body(node.body)
            except Leave as leave:
                if isinstance(leave.node, ops.Break):
                    break
                if isinstance(leave.node, ops.Return):
                    raise

    def inside(self, index: int) -> int:
        self.trace.append("index")
        if index >= CELLS:
            raise Fault
        return index

    def value(self, node: ops.Expr) -> int:
        match node:
            case ops.Const():
                return node.value
            case ops.Local():
                return self.locals.get(node.name, 0)
            case ops.Bin():
                return binary(node.op, node.type, self.value(node.a), self.value(node.b))
            case ops.Cmp():
                a, b = self.value(node.a), self.value(node.b)
                signs = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
                return int(signs[node.op])
            case ops.Logic():
                a = self.value(node.a)
                return self.value(node.b) if bool(a) is (node.op == "and") else a
            case ops.Not():
                return 1 - self.value(node.a)
            case ops.Cast():
                a = self.value(node.a)
                return int(a != 0) if node.type is BOOL else node.type.wrap(a)
            case ops.Select():
                cond, a, b = self.value(node.cond), self.value(node.a), self.value(node.b)
                return a if cond else b
            case ops.Get():
                return 3 if node.type is not BOOL else 1
            case ops.Index():
                return self.inside(self.value(node.index)) * 7
            case ops.Random():
                self.seed += 1
                self.trace.append("random")
                return self.seed
        raise AssertionError(node)


def binary(op: str, type_: Type, a: int, b: int) -> int:
    """By the words of `ir.ops`, written without its code."""
    if op in ("shl", "shr"):
        if b < 0 or b >= type_.bits:
            return -1 if op == "shr" and a < 0 else 0
        return type_.wrap(a * 2**b) if op == "shl" else a >> b
    if op in ("div", "mod"):
        quotient = 0 if b == 0 else abs(a) // abs(b) if (a < 0) is (b < 0) else -(abs(a) // abs(b))
        return type_.wrap(quotient if op == "div" else a - quotient * b)
    found = {"add": a + b, "sub": a - b, "mul": a * b, "and": a & b, "or": a | b, "xor": a ^ b}[op]
    return type_.wrap(found)
