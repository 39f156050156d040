"""The IR: the only list of its node kinds.

An expression is a tree of frozen nodes with a `type`; a statement is a frozen node; a body is a tuple of statements.
Control flow is structured (If, For, Break, Continue, Return): there is no goto.  A local is a named mutable variable
of one type.  What each node means is its row in the python target; what is valid is `ir.spec`.

Rules that hold for every target
* integers wrap at their width; x/0 = 0 and x%0 = x (as BPF has it); a shift by the width or more gives 0
  (for `i64 >>` the sign); division and modulo of i64 truncate toward zero;
* a packet access that leaves [data, data+length), or an index that leaves an array, is a *fault*: the method ends at
  once, the packets it holds die, the fault is counted on the element;
* evaluation is left to right; `Logic` is short-circuit, `Select` evaluates both sides.

Marks name the origin of an offset: `data` (start of the packet), `mac`, `net`, `trans`.  An unset mark faults.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

from mezzo.base import Span
from mezzo.ir.types import BOOL, I64, KILL, PACKET, U16, U32, U64, Type

MARKS = ("data", "mac", "net", "trans")


def _span() -> Span | None:
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
    span: Span | None = _span()


@node
class Meta(Expr):
    """Reads metadata: length headroom tailroom (u32), timestamp (u64 ns, 0 = unset), packet_type (u8),
    mac net trans (i64: the mark's offset from the start of data), has_mac has_net has_trans (bool)."""

    type: Type
    packet: Expr
    field: str
    span: Span | None = _span()


@node
class Anno(Expr):
    """Reads `type.bits // 8` bytes of the 48 annotation bytes at the constant `offset`."""

    type: Type
    packet: Expr
    offset: int
    order: str = "little"
    span: Span | None = _span()


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
    span: Span | None = _span()


@node
class IsNone(Expr):
    """Whether a packet local holds no packet."""

    packet: Expr
    type: Type = BOOL
    span: Span | None = _span()


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
    span: Span | None = _span()


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
    span: Span | None = _span()


@node
class BlobLoad(Expr):
    """Reads `type.bits // 8` bytes of a read-only blob at `offset` (u64); faults outside."""

    type: Type
    state: str
    offset: Expr  # u64
    order: str = "little"
    span: Span | None = _span()


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
    span: Span | None = _span()


@node
class Host(Expr):
    """Calls the element's Python method `method` with an optional lent packet and integers; its value is an i64."""

    method: str
    packet: Expr | None
    args: tuple[Expr, ...]
    type: Type = I64
    span: Span | None = _span()


# -- statements: locals and control ---------------------------------------------------------------------------------


@node
class Set(Stmt):
    """Sets an integer or bool local."""

    name: str
    value: Expr
    span: Span | None = _span()


@node
class Eval(Stmt):
    """Evaluates for the effect (a call)."""

    value: Expr
    span: Span | None = _span()


@node
class If(Stmt):
    cond: Expr
    then: Body
    orelse: Body = ()
    span: Span | None = _span()


@node
class For(Stmt):
    """Runs `body` with the u32 local `name` = 0 … count-1; more than `limit` rounds fault before the first."""

    name: str
    count: Expr  # u32
    limit: int
    body: Body
    span: Span | None = _span()


@node
class Break(Stmt):
    pass


@node
class Continue(Stmt):
    pass


@node
class Return(Stmt):
    """Leaves the function.  In `process`, a value is the output port by which the packet leaves (KILL: it dies), and
    `reason` names the drop where that output is not connected; without value the packet was consumed before.  In `pull`
    the value is a packet (consumed: it leaves) or None (no packet)."""

    value: Expr | None = None
    reason: int = -1  # index into Unit.reasons; -1: "no output"
    span: Span | None = _span()


# -- statements: packets --------------------------------------------------------------------------------------------


@node
class PStore(Stmt):
    """Writes `value` at `mark + offset`; checked."""

    packet: Expr
    mark: str
    offset: Expr  # u32
    value: Expr
    order: str = "big"
    span: Span | None = _span()


@node
class MetaSet(Stmt):
    """Sets timestamp (u64), packet_type (u8), or a mark mac/net/trans (i64 offset from the start of data)."""

    packet: Expr
    field: str
    value: Expr
    span: Span | None = _span()


@node
class MarkClear(Stmt):
    """Unsets a mark."""

    packet: Expr
    mark: str
    span: Span | None = _span()


@node
class AnnoSet(Stmt):
    packet: Expr
    offset: int
    value: Expr
    order: str = "little"
    span: Span | None = _span()


@node
class Resize(Stmt):
    """`kind`: strip (drop `amount` bytes in front), prepend (grow in front; bytes keep what memory held before),
    append (grow behind, zeroed), trim (drop behind).  Faults where the packet or its room is too small.
    Marks keep pointing at the same bytes."""

    kind: str
    packet: Expr
    amount: Expr  # u32
    span: Span | None = _span()


@node
class Copy(Stmt):
    """Moves `length` bytes between packets, or within one (overlap allowed); both ranges checked first."""

    packet: Expr
    mark: str
    offset: Expr
    source: Expr
    source_mark: str
    source_offset: Expr
    length: Expr
    span: Span | None = _span()


@node
class CopyBlob(Stmt):
    """Writes `length` bytes of blob `state` from `source_offset` (u64) into the packet at `mark + offset`; checked."""

    packet: Expr
    mark: str
    offset: Expr
    state: str
    source_offset: Expr
    length: Expr
    span: Span | None = _span()


@node
class Make(Stmt):
    """`name` = a new zeroed packet of `length` bytes, or none when the pool is empty or the length too large."""

    name: str
    length: Expr  # u32
    span: Span | None = _span()


@node
class MakeFrom(Stmt):
    """`name` = a new packet holding `length` bytes of blob `state` at `offset` (u64), or none as for Make."""

    name: str
    state: str
    offset: Expr
    length: Expr  # u32
    span: Span | None = _span()


@node
class Clone(Stmt):
    """`name` = a copy of `packet` with its metadata, or none when the pool is empty."""

    name: str
    packet: Expr
    span: Span | None = _span()


@node
class Emit(Stmt):
    """Pushes the packet to output `port` (consumed); dies with `reason` where nothing is connected."""

    port: Expr  # u32
    packet: Expr
    reason: int = -1
    span: Span | None = _span()


@node
class Kill(Stmt):
    """The packet dies (consumed), counted under `reason`.  -1: the end of its road, not a drop (Discard)."""

    packet: Expr
    reason: int
    span: Span | None = _span()


@node
class Pull(Stmt):
    """`name` = a packet pulled from input `port`, or none."""

    name: str
    port: Expr  # u32
    span: Span | None = _span()


# -- statements: state ----------------------------------------------------------------------------------------------


@node
class Put(Stmt):
    """Sets a scalar of the state."""

    state: str
    value: Expr
    span: Span | None = _span()


@node
class Store(Stmt):
    """`state[index] = value`; faults outside."""

    state: str
    index: Expr
    value: Expr
    span: Span | None = _span()


@node
class TablePut(Stmt):
    """Inserts or replaces; the bool local `done` says whether it fits ('' when nobody asks)."""

    done: str
    state: str
    key: Expr
    value: Expr
    span: Span | None = _span()


@node
class TableDel(Stmt):
    """Removes; the bool local `done` says whether it was there."""

    done: str
    state: str
    key: Expr
    span: Span | None = _span()


@node
class RingPush(Stmt):
    """Stores the packet (consumed) at the back, or at the front; a full ring faults."""

    state: str
    packet: Expr
    front: bool = False
    span: Span | None = _span()


@node
class RingPop(Stmt):
    """`name` = the packet at the front, or at the back, or none."""

    name: str
    state: str
    back: bool = False
    span: Span | None = _span()


@node
class SlotPut(Stmt):
    """Stores the packet (consumed) in slot `index`; a used slot or one outside faults."""

    state: str
    index: Expr
    packet: Expr
    span: Span | None = _span()


@node
class SlotTake(Stmt):
    """`name` = the packet of slot `index`, or none; faults outside."""

    name: str
    state: str
    index: Expr
    span: Span | None = _span()


@node
class BufPut(Stmt):
    """Appends an integer's `type.bits // 8` bytes to a buffer; faults where it does not fit."""

    state: str
    value: Expr
    order: str = "little"
    span: Span | None = _span()


@node
class BufPutPacket(Stmt):
    """Appends `length` packet bytes at `mark + offset` to a buffer; checked on both sides."""

    state: str
    packet: Expr
    mark: str
    offset: Expr
    length: Expr
    span: Span | None = _span()


# -- statements: scheduling -----------------------------------------------------------------------------------------


@node
class Wake(Stmt):
    """`who`: self (this element's task), down (tasks that pull from here), up (tasks that push to here)."""

    who: str


@node
class TimerSet(Stmt):
    """This element's timer fires when the clock reaches `at` (u64 ns); replaces an earlier setting."""

    at: Expr


@node
class TimerClear(Stmt):
    pass


@node
class RunTask(Stmt):
    """Runtime dialect: runs task number `index`; the bool local `name` says whether it wants to run again."""

    name: str
    index: Expr


@node
class FireTimer(Stmt):
    """Runtime dialect: calls the timer method of timer number `index`."""

    index: Expr


@node
class ReadClock(Stmt):
    """Runtime dialect: sets the u64 local `name` to the machine's monotonic clock, ns."""

    name: str


EXPRS: dict[str, type[Expr]] = {c.__name__: c for c in Expr.__subclasses__()}
STMTS: dict[str, type[Stmt]] = {c.__name__: c for c in Stmt.__subclasses__()}
TRUE, FALSE = Const(BOOL, 1), Const(BOOL, 0)


def u32(value: int) -> Const:
    return Const(U32, value)


__all__ = [
    *EXPRS, *STMTS, "EXPRS", "FALSE", "KILL", "MARKS", "PACKET", "STMTS", "TRUE", "Body", "Expr", "Node", "Stmt", "u32",
]  # fmt: skip
