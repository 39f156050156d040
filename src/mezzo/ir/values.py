"""The IR's nodes, and those that are expressions; `ir.ops` is the whole list, with the rules."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

from mezzo.base import Span
from mezzo.ir.types import BOOL, I64, U16, U32, U64, Type

MARKS = ("data", "mac", "net", "trans")


def span_field() -> Span | None:
    return field(default=None, compare=False, repr=False, kw_only=True)


class Node:
    """Anything in the IR: a value, equal to another of its class with equal fields, places in the source left out."""

    _facts: ClassVar[Any]  # what tells a node from others of its class

    def __eq__(self, other: object) -> bool:
        return self is other or (self.__class__ is other.__class__ and self._facts(self) == self._facts(other))

    def __hash__(self) -> int:
        return hash((self.__class__, self._facts(self)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({shown})"


class Expr(Node):
    """An expression: has `type`."""

    type: Type


class Stmt(Node):
    """A statement."""


T = TypeVar("T", bound=Node)


@dataclass_transform(frozen_default=True)
def node(cls: type[T]) -> type[T]:
    """Makes a kind of node: to the type checker a frozen dataclass.  Methods that dataclasses write for each class (to
    compare, to hash, to refuse assignment) are in Node or left out: writing them takes 40 ms, as long as all else that
    compiling a small router takes, and nodes that check each assignment are made half as quickly."""
    made = dataclass(eq=False, repr=False)(cls)
    names = [f.name for f in fields(made) if f.compare]  # type: ignore[arg-type]
    made._facts = staticmethod(attrgetter(*names) if names else lambda _: ())
    return made


Body = tuple[Stmt, ...]

# -- values ---------------------------------------------------------------------------------------------------------


@node
class Const(Expr):
    """A number of `type`."""

    type: Type
    value: int


@node
class Local(Expr):
    """The value of a local variable or parameter.  Reading a packet local does not consume it; the using op does."""

    type: Type
    name: str


@node
class Bin(Expr):
    """`op` in add sub mul div mod and or xor shl shr; both sides and the result have `type` (shift counts too)."""

    op: str
    type: Type
    a: Expr
    b: Expr


@node
class Cmp(Expr):
    """`op` in eq ne lt le gt ge on two values of one type; signed when that type is."""

    op: str
    a: Expr
    b: Expr
    type: Type = BOOL


@node
class Logic(Expr):
    """`op` in and or: short-circuit."""

    op: str
    a: Expr
    b: Expr
    type: Type = BOOL


@node
class Not(Expr):
    """Boolean not."""

    a: Expr
    type: Type = BOOL


@node
class Cast(Expr):
    """Widens (zero- or, from i64, sign-extending) or cuts to `type`.  To bool: is it not zero."""

    type: Type
    a: Expr


@node
class Select(Expr):
    """`a` if `cond` else `b`."""

    type: Type
    cond: Expr
    a: Expr
    b: Expr


# -- packets: reads -------------------------------------------------------------------------------------------------


@node
class PLoad(Expr):
    """Reads `type.bits // 8` bytes at `mark + offset`; checked.  `order` is big or little."""

    type: Type
    packet: Expr
    mark: str
    offset: Expr  # u32
    order: str = "big"
    span: Span | None = span_field()


@node
class Meta(Expr):
    """Reads metadata: length headroom tailroom frame (u32; the last is the frame's number), timestamp (u64 ns, 0 =
    unset), packet_type (u8), mac net trans (i64: the mark's offset from the start of data), has_mac has_net has_trans
    (bool)."""

    type: Type
    packet: Expr
    field: str
    span: Span | None = span_field()


@node
class Anno(Expr):
    """Reads `type.bits // 8` bytes of the 48 annotation bytes at the constant `offset`."""

    type: Type
    packet: Expr
    offset: int
    order: str = "little"
    span: Span | None = span_field()


@node
class Sum16(Expr):
    """The Internet checksum's folded 16-bit one's complement sum of `length` bytes at `mark + offset`, plus `init`
    (u32); not complemented.  An odd last byte counts as the high byte.  Checked.  RFC 1071."""

    packet: Expr
    mark: str
    offset: Expr  # u32
    length: Expr  # u32
    init: Expr  # u32
    type: Type = U16
    span: Span | None = span_field()


@node
class IsNone(Expr):
    """Whether a packet local holds no packet."""

    packet: Expr
    type: Type = BOOL
    span: Span | None = span_field()


# -- state: reads ---------------------------------------------------------------------------------------------------


@node
class Get(Expr):
    """A scalar of the element's state."""

    type: Type
    state: str


@node
class Index(Expr):
    """`state[index]` of an array; faults outside."""

    type: Type
    state: str
    index: Expr  # u32
    span: Span | None = span_field()


@node
class TableGet(Expr):
    """The table's value at `key`, or `default`."""

    type: Type
    state: str
    key: Expr
    default: Expr


@node
class TableHas(Expr):
    """Whether the table holds `key`."""

    state: str
    key: Expr
    type: Type = BOOL


@node
class LruGet(Expr):
    """As TableGet, of a table that forgets: an entry that is found is the one used last from now on."""

    type: Type
    state: str
    key: Expr
    default: Expr


@node
class LruHas(Expr):
    """As TableHas, and a use as LruGet is."""

    state: str
    key: Expr
    type: Type = BOOL


@node
class LpmGet(Expr):
    """The value of the longest prefix that holds `key`, or `default`."""

    type: Type
    state: str
    key: Expr
    default: Expr


@node
class Count(Expr):
    """How many packets a ring holds, entries a table has, bytes a buffer holds, bytes a blob has."""

    state: str
    type: Type = U32


@node
class SlotUsed(Expr):
    """Whether slot `index` of a `slots` state holds a packet; faults outside."""

    state: str
    index: Expr  # u32
    type: Type = BOOL
    span: Span | None = span_field()


@node
class BlobLoad(Expr):
    """Reads `type.bits // 8` bytes of a read-only blob at `offset` (u64); faults outside."""

    type: Type
    state: str
    offset: Expr  # u64
    order: str = "little"
    span: Span | None = span_field()


# -- the world: reads -----------------------------------------------------------------------------------------------


@node
class Now(Expr):
    """The router's clock in ns; it never goes back.  It stands still within one run of a task."""

    type: Type = U64


@node
class WallTime(Expr):
    """`Now` moved to the Unix epoch, in ns: what timestamps hold."""

    type: Type = U64


@node
class Random(Expr):
    """The next 32 bits of the router's seeded generator (splitmix64, high half)."""

    type: Type = U32


@node
class Ready(Expr):
    """Whether every queue that a push to output `port` can reach has room for one more packet."""

    port: int
    type: Type = BOOL


@node
class Call(Expr):
    """Calls another function of the same unit.  Packets passed are lent, not consumed."""

    type: Type
    function: str
    args: tuple[Expr, ...]
    span: Span | None = span_field()


@node
class Host(Expr):
    """Calls the element's Python method `method` with an optional lent packet and integers; its value is an i64."""

    method: str
    packet: Expr | None
    args: tuple[Expr, ...]
    type: Type = I64
    span: Span | None = span_field()
