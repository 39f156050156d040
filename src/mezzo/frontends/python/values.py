"""What a name or expression stands for while packet code is translated, and arithmetic that folds as it builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mezzo.ir import ops
from mezzo.ir.module import State
from mezzo.ir.types import BOOL, I64, U32, U64, U128, Type
from mezzo.wire.header import Header


class Value:
    """Anything an expression can be."""


@dataclass(frozen=True)
class Num(Value):
    """A run-time number or truth value."""

    expr: ops.Expr

    @property
    def type(self) -> Type:
        return self.expr.type


@dataclass(frozen=True)
class Lit(Value):
    """A number known now, of no width yet."""

    value: int


@dataclass(frozen=True)
class Pkt(Value):
    """A packet in a local."""

    name: str

    @property
    def expr(self) -> ops.Local:
        return ops.Local(ops.PACKET, self.name)


@dataclass(frozen=True)
class View(Value):
    """A header inside a packet."""

    packet: Pkt
    mark: str
    offset: ops.Expr
    header: type[Header]


@dataclass(frozen=True)
class Place(Value):
    """`p.net`, `p.trans`, `p.mac`: raw access from a mark."""

    packet: Pkt
    mark: str


@dataclass(frozen=True)
class StateRef(Value):
    """A sized state of the element."""

    state: State


@dataclass(frozen=True)
class Thing(Value):
    """An object of configuration time: a header class, a type, a tuple, a function, the element itself, None."""

    object: Any


@dataclass(frozen=True)
class Method(Value):
    """An attribute that is about to be called."""

    owner: Value
    name: str


def literal(value: int, type_: Type) -> ops.Const:
    return ops.Const(type_, type_.wrap(value))


def default_type(value: int) -> Type:
    """The type a bare literal takes when nothing else decides."""
    if value < 0:
        return I64
    return U32 if U32.holds(value) else U64 if U64.holds(value) else U128


_BIN = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_CMP = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def fold_bin(op: str, a: int, b: int) -> int:
    """Python-number meaning of an operation; the caller wraps."""
    if op == "div":
        return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    if op == "mod":
        return a if b == 0 else a - b * fold_bin("div", a, b)
    if op == "shl":
        return a << b if 0 <= b < 256 else 0
    if op == "shr":
        return a >> b if 0 <= b < 256 else (-1 if a < 0 else 0)
    return int(_BIN[op](a, b))


def binary(op: str, type_: Type, a: ops.Expr, b: ops.Expr) -> ops.Expr:
    """Builds `a op b`, folded where both are known or one side decides."""
    if isinstance(a, ops.Const) and isinstance(b, ops.Const):
        if op in ("shl", "shr") and not 0 <= b.value < type_.bits:
            return literal(-1 if op == "shr" and a.value < 0 else 0, type_)
        return literal(fold_bin(op, a.value, b.value), type_)
    if isinstance(b, ops.Const) and b.value == 0 and op in ("add", "sub", "or", "xor", "shl", "shr"):
        return a
    if isinstance(a, ops.Const) and a.value == 0 and op in ("add", "or", "xor"):
        return b
    return ops.Bin(op, type_, a, b)


def compare(op: str, a: ops.Expr, b: ops.Expr) -> ops.Expr:
    if isinstance(a, ops.Const) and isinstance(b, ops.Const):
        return ops.TRUE if _CMP[op](a.value, b.value) else ops.FALSE
    return ops.Cmp(op, a, b)


def fold_compare(op: str, a: int, b: int) -> bool:
    return bool(_CMP[op](a, b))


def cast(type_: Type, a: ops.Expr) -> ops.Expr:
    if a.type is type_:
        return a
    if isinstance(a, ops.Const):
        return literal(int(a.value != 0) if type_ is BOOL else a.value, type_)
    return ops.Cast(type_, a)


def negate(a: ops.Expr) -> ops.Expr:
    if isinstance(a, ops.Const):
        return ops.FALSE if a.value else ops.TRUE
    return a.a if isinstance(a, ops.Not) else ops.Not(a)


def chain(op: str, parts: list[ops.Expr]) -> ops.Expr:
    """All of them, or any of them, in order; as flat a tree as there is, for long ones."""
    if len(parts) < 2:
        return parts[0] if parts else ops.TRUE if op == "and" else ops.FALSE
    middle = len(parts) // 2
    return logic(op, chain(op, parts[:middle]), chain(op, parts[middle:]))


def logic(op: str, a: ops.Expr, b: ops.Expr) -> ops.Expr:
    """Short-circuit and/or, folded."""
    deciding = ops.FALSE if op == "and" else ops.TRUE
    if isinstance(a, ops.Const):
        return a if a == deciding else b
    if isinstance(b, ops.Const) and b != deciding:
        return a
    return ops.Logic(op, a, b)


# Expressions that do something, and those that do or may fault.
EFFECTS = (ops.Random, ops.LruGet, ops.LruHas, ops.Call, ops.Host, ops.Atomic, ops.Libc, ops.TakeFrame)
ACTING = (
    *EFFECTS, ops.PLoad, ops.Sum16, ops.Index, ops.BlobLoad, ops.SlotUsed, ops.MemLoad, ops.MemSum16,
    ops.FrameAddress,
)  # fmt: skip


def acts(e: ops.Expr, acting: tuple[type[ops.Expr], ...] = ACTING) -> bool:
    """Whether it makes a difference that an expression is evaluated at all."""
    if isinstance(e, acting):
        return True
    return any(isinstance(part, ops.Expr) and acts(part, acting) for part in vars(e).values())
