"""The IR: the only list of its node kinds.

An expression is a tree of frozen nodes with a `type`; a statement is a frozen node; a body is a tuple of statements.
Control flow is structured (If, For, Break, Continue, Return): there is no goto.  A local is a named mutable variable
of one type.  What each node means is its row in the python target; what is valid is `ir.spec`.  The values are in
`ir.values`, the nodes that only the runtime may use in `ir.dialect`.

Rules that hold for every target
* integers wrap at their width; x/0 = 0 and x%0 = x (as BPF has it); a shift by the width or more gives 0
  (for `i64 >>` the sign); division and modulo of i64 truncate toward zero;
* a packet access that leaves [data, data+length), or an index that leaves an array, is a *fault*: the method ends at
  once, the packets it holds die, the fault is counted on the element;
* evaluation is left to right; `Logic` is short-circuit, `Select` evaluates both sides.

Marks name the origin of an offset: `data` (start of the packet), `mac`, `net`, `trans`.  An unset mark faults.
"""

from __future__ import annotations

from mezzo.base import Span
from mezzo.ir.dialect import (
    DIALECT as DIALECT,
)
from mezzo.ir.dialect import (
    MOST_BYTES as MOST_BYTES,
)
from mezzo.ir.dialect import (
    NO_FRAME as NO_FRAME,
)
from mezzo.ir.dialect import (
    Adopt as Adopt,
)
from mezzo.ir.dialect import (
    Atomic as Atomic,
)
from mezzo.ir.dialect import (
    FireTimer as FireTimer,
)
from mezzo.ir.dialect import (
    FrameAddress as FrameAddress,
)
from mezzo.ir.dialect import (
    FrameSize as FrameSize,
)
from mezzo.ir.dialect import (
    GiveFrame as GiveFrame,
)
from mezzo.ir.dialect import (
    Lend as Lend,
)
from mezzo.ir.dialect import (
    Libc as Libc,
)
from mezzo.ir.dialect import (
    MemCopy as MemCopy,
)
from mezzo.ir.dialect import (
    MemLoad as MemLoad,
)
from mezzo.ir.dialect import (
    MemStore as MemStore,
)
from mezzo.ir.dialect import (
    MemSum16 as MemSum16,
)
from mezzo.ir.dialect import (
    MemZero as MemZero,
)
from mezzo.ir.dialect import (
    PrefetchFrame as PrefetchFrame,
)
from mezzo.ir.dialect import (
    ReadClock as ReadClock,
)
from mezzo.ir.dialect import (
    RunTask as RunTask,
)
from mezzo.ir.dialect import (
    TakeFrame as TakeFrame,
)
from mezzo.ir.types import BOOL, KILL, PACKET, PUNT, U32
from mezzo.ir.values import (
    MARKS as MARKS,
)
from mezzo.ir.values import (
    Anno as Anno,
)
from mezzo.ir.values import (
    Bin as Bin,
)
from mezzo.ir.values import (
    BlobLoad as BlobLoad,
)
from mezzo.ir.values import (
    Body as Body,
)
from mezzo.ir.values import (
    Call as Call,
)
from mezzo.ir.values import (
    Cast as Cast,
)
from mezzo.ir.values import (
    Cmp as Cmp,
)
from mezzo.ir.values import (
    Const as Const,
)
from mezzo.ir.values import (
    Count as Count,
)
from mezzo.ir.values import (
    Expr as Expr,
)
from mezzo.ir.values import (
    Get as Get,
)
from mezzo.ir.values import (
    Host as Host,
)
from mezzo.ir.values import (
    Index as Index,
)
from mezzo.ir.values import (
    IsNone as IsNone,
)
from mezzo.ir.values import (
    Local as Local,
)
from mezzo.ir.values import (
    Logic as Logic,
)
from mezzo.ir.values import (
    LpmGet as LpmGet,
)
from mezzo.ir.values import (
    LruGet as LruGet,
)
from mezzo.ir.values import (
    LruHas as LruHas,
)
from mezzo.ir.values import (
    Meta as Meta,
)
from mezzo.ir.values import (
    Node as Node,
)
from mezzo.ir.values import (
    Not as Not,
)
from mezzo.ir.values import (
    Now as Now,
)
from mezzo.ir.values import (
    PLoad as PLoad,
)
from mezzo.ir.values import (
    Random as Random,
)
from mezzo.ir.values import (
    Ready as Ready,
)
from mezzo.ir.values import (
    Select as Select,
)
from mezzo.ir.values import (
    SlotUsed as SlotUsed,
)
from mezzo.ir.values import (
    Stmt as Stmt,
)
from mezzo.ir.values import (
    Sum16 as Sum16,
)
from mezzo.ir.values import (
    TableGet as TableGet,
)
from mezzo.ir.values import (
    TableHas as TableHas,
)
from mezzo.ir.values import (
    WallTime as WallTime,
)
from mezzo.ir.values import (
    node,
    span_field,
)

# -- statements: locals and control ---------------------------------------------------------------------------------


@node
class Set(Stmt):
    """Sets an integer or bool local."""

    name: str
    value: Expr
    span: Span | None = span_field()


@node
class Eval(Stmt):
    """Evaluates for the effect (a call)."""

    value: Expr
    span: Span | None = span_field()


@node
class If(Stmt):
    cond: Expr
    then: Body
    orelse: Body = ()
    span: Span | None = span_field()


@node
class For(Stmt):
    """Runs `body` with the u32 local `name` = 0 … count-1; more than `limit` rounds fault before the first."""

    name: str
    count: Expr  # u32
    limit: int
    body: Body
    span: Span | None = span_field()


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
    span: Span | None = span_field()


# -- statements: packets --------------------------------------------------------------------------------------------


@node
class PStore(Stmt):
    """Writes `value` at `mark + offset`; checked."""

    packet: Expr
    mark: str
    offset: Expr  # u32
    value: Expr
    order: str = "big"
    span: Span | None = span_field()


@node
class MetaSet(Stmt):
    """Sets timestamp (u64), packet_type (u8), or a mark mac/net/trans (i64 offset from the start of data)."""

    packet: Expr
    field: str
    value: Expr
    span: Span | None = span_field()


@node
class MarkClear(Stmt):
    """Unsets a mark."""

    packet: Expr
    mark: str
    span: Span | None = span_field()


@node
class AnnoSet(Stmt):
    packet: Expr
    offset: int
    value: Expr
    order: str = "little"
    span: Span | None = span_field()


@node
class Resize(Stmt):
    """`kind`: strip (drop `amount` bytes in front), prepend (grow in front; bytes keep what memory held before),
    append (grow behind, zeroed), trim (drop behind).  Faults where the packet or its room is too small.
    Marks keep pointing at the same bytes."""

    kind: str
    packet: Expr
    amount: Expr  # u32
    span: Span | None = span_field()


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
    span: Span | None = span_field()


@node
class CopyBlob(Stmt):
    """Writes `length` bytes of blob `state` from `source_offset` (u64) into the packet at `mark + offset`; checked."""

    packet: Expr
    mark: str
    offset: Expr
    state: str
    source_offset: Expr
    length: Expr
    span: Span | None = span_field()


@node
class Make(Stmt):
    """`name` = a new zeroed packet of `length` bytes, or none when the pool is empty or the length too large."""

    name: str
    length: Expr  # u32
    span: Span | None = span_field()


@node
class MakeFrom(Stmt):
    """`name` = a new packet holding `length` bytes of blob `state` at `offset` (u64), or none as for Make."""

    name: str
    state: str
    offset: Expr
    length: Expr  # u32
    span: Span | None = span_field()


@node
class Clone(Stmt):
    """`name` = a copy of `packet` with its metadata, or none when the pool is empty."""

    name: str
    packet: Expr
    span: Span | None = span_field()


@node
class Emit(Stmt):
    """Pushes the packet to output `port` (consumed); dies with `reason` where nothing is connected."""

    port: Expr  # u32
    packet: Expr
    reason: int = -1
    span: Span | None = span_field()


@node
class Kill(Stmt):
    """The packet dies (consumed), counted under `reason`.  -1: the end of its road, not a drop (Discard)."""

    packet: Expr
    reason: int
    span: Span | None = span_field()


@node
class Pull(Stmt):
    """`name` = a packet pulled from input `port`, or none."""

    name: str
    port: Expr  # u32
    span: Span | None = span_field()


# -- statements: state ----------------------------------------------------------------------------------------------


@node
class Put(Stmt):
    """Sets a scalar of the state."""

    state: str
    value: Expr
    span: Span | None = span_field()


@node
class Store(Stmt):
    """`state[index] = value`; faults outside."""

    state: str
    index: Expr
    value: Expr
    span: Span | None = span_field()


@node
class TablePut(Stmt):
    """Inserts or replaces; the bool local `done` says whether it fits ('' when nobody asks).  A table that forgets has
    room for it always, and it is a use."""

    done: str
    state: str
    key: Expr
    value: Expr
    span: Span | None = span_field()


@node
class TableDel(Stmt):
    """Removes; the bool local `done` says whether it was there."""

    done: str
    state: str
    key: Expr
    span: Span | None = span_field()


@node
class RingPush(Stmt):
    """Stores the packet (consumed) at the back, or at the front; a full ring faults."""

    state: str
    packet: Expr
    front: bool = False
    span: Span | None = span_field()


@node
class RingPop(Stmt):
    """`name` = the packet at the front, or at the back, or none."""

    name: str
    state: str
    back: bool = False
    span: Span | None = span_field()


@node
class SlotPut(Stmt):
    """Stores the packet (consumed) in slot `index`; a used slot or one outside faults."""

    state: str
    index: Expr
    packet: Expr
    span: Span | None = span_field()


@node
class SlotTake(Stmt):
    """`name` = the packet of slot `index`, or none; faults outside."""

    name: str
    state: str
    index: Expr
    span: Span | None = span_field()


@node
class BufPut(Stmt):
    """Appends an integer's `type.bits // 8` bytes to a buffer; faults where it does not fit."""

    state: str
    value: Expr
    order: str = "little"
    span: Span | None = span_field()


@node
class BufPutPacket(Stmt):
    """Appends `length` packet bytes at `mark + offset` to a buffer; checked on both sides."""

    state: str
    packet: Expr
    mark: str
    offset: Expr
    length: Expr
    span: Span | None = span_field()


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


EXPRS: dict[str, type[Expr]] = {c.__name__: c for c in Expr.__subclasses__()}
STMTS: dict[str, type[Stmt]] = {c.__name__: c for c in Stmt.__subclasses__()}
TRUE, FALSE = Const(BOOL, 1), Const(BOOL, 0)


def u32(value: int) -> Const:
    return Const(U32, value)


__all__ = [
    *EXPRS, *STMTS, "DIALECT", "EXPRS", "FALSE", "KILL", "MARKS", "PACKET", "PUNT", "STMTS", "TRUE", "Body",
    "Expr", "Node", "Stmt", "u32",
]  # fmt: skip
