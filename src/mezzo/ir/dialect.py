"""The runtime dialect: nodes beyond the packet language, for the scheduler and for ports (docs/design/0002).

An address is a u64 of this process.  Nothing checks that it is good, so a unit with these nodes has no certificate, and
only the targets that run in a process (python, native) take them.  What makes them tame enough to optimise around:

* a raw address may point into a packet's bytes, never into an element's state nor the arena's tables (metadata, free
  lists): those have no address in the language;
* `acquire`, `release` and the atomics order everything, raw or not; plain accesses nothing;
* a C function may do anything to memory.

A frame is in one of three states: free, a packet, or in a ring.  Lend, Adopt, TakeFrame and GiveFrame move it; the
metadata's `live` says which it is, and a frame in the wrong state is a fault.
"""

from __future__ import annotations

from mezzo.base import Span
from mezzo.ir.types import I64, U16, U32, U64, Type
from mezzo.ir.values import Expr, Stmt, node, span_field

NO_FRAME = 0xFFFF_FFFF  # what TakeFrame gives when no frame is free
MOST_BYTES = 65_536  # of MemCopy, MemZero and MemSum16

# -- raw memory -----------------------------------------------------------------------------------------------------


@node
class MemLoad(Expr):
    """Reads `type.bits // 8` little-endian bytes at `address`: at any alignment, or with `acquire` at its own."""

    type: Type
    address: Expr  # u64
    acquire: bool = False


@node
class MemStore(Stmt):
    """Writes `value` little-endian at `address`: at any alignment, or with `release` at its own."""

    address: Expr  # u64
    value: Expr
    release: bool = False
    span: Span | None = span_field()


@node
class Atomic(Expr):
    """`op` in add swap: changes the aligned number at `address`, sequentially consistent; gives the one before."""

    op: str
    type: Type
    address: Expr  # u64
    value: Expr


@node
class MemSum16(Expr):
    """Sum16 over `length` bytes at `address`; more than MOST_BYTES fault."""

    address: Expr  # u64
    length: Expr  # u32
    init: Expr  # u32
    type: Type = U16
    span: Span | None = span_field()


@node
class MemCopy(Stmt):
    """Moves `length` bytes (overlap allowed); more than MOST_BYTES fault."""

    to: Expr  # u64
    source: Expr  # u64
    length: Expr  # u32
    span: Span | None = span_field()


@node
class MemZero(Stmt):
    """Zeroes `length` bytes; more than MOST_BYTES fault."""

    to: Expr  # u64
    length: Expr  # u32
    span: Span | None = span_field()


@node
class Libc(Expr):
    """Calls the C function at `address` with up to six words; its result, or -errno when that is -1 (as an int or as a
    long: what an int leaves in the upper half is not looked at).  The address 0 faults."""

    address: Expr  # u64
    args: tuple[Expr, ...]  # u64
    type: Type = I64
    span: Span | None = span_field()


# -- frames ---------------------------------------------------------------------------------------------------------


@node
class FrameAddress(Expr):
    """The address of the first byte of frame `frame`; faults where there is no such frame."""

    frame: Expr  # u32
    type: Type = U64
    span: Span | None = span_field()


@node
class FrameSize(Expr):
    """Bytes of a frame: a power of two that does not change while code runs."""

    type: Type = U32


@node
class TakeFrame(Expr):
    """A free frame goes into a ring; NO_FRAME, counted as starved, when none is free."""

    type: Type = U32


@node
class GiveFrame(Stmt):
    """A frame in a ring is free again; one that is not in a ring faults."""

    frame: Expr  # u32
    span: Span | None = span_field()


@node
class PrefetchFrame(Stmt):
    """Frame `frame` is soon adopted, and its bytes at `start` looked at.  It means nothing; any numbers will do."""

    frame: Expr  # u32
    start: Expr  # u32
    span: Span | None = span_field()


@node
class Lend(Stmt):
    """The packet ends (consumed) and its frame is in a ring: the u32 local `name`."""

    name: str
    packet: Expr
    span: Span | None = span_field()


@node
class Adopt(Stmt):
    """`name` = the frame, which was in a ring, as a packet of `length` bytes from `start`: its bytes as they are, its
    metadata fresh but for the gate, which TakeFrame clears.  Faults where it is not in a ring or the bytes are not in
    the frame."""

    name: str
    frame: Expr  # u32
    start: Expr  # u32
    length: Expr  # u32
    span: Span | None = span_field()


# -- the scheduler's ------------------------------------------------------------------------------------------------


@node
class RunTask(Stmt):
    """Runs task number `index`; the bool local `name` says whether it wants to run again."""

    name: str
    index: Expr


@node
class FireTimer(Stmt):
    """Calls the timer method of timer number `index`."""

    index: Expr


@node
class ReadClock(Stmt):
    """Sets the u64 local `name` to the machine's monotonic clock, ns."""

    name: str


DIALECT = (
    MemLoad, MemStore, Atomic, MemSum16, MemCopy, MemZero, Libc, FrameAddress, FrameSize, TakeFrame, GiveFrame,
    PrefetchFrame, Lend, Adopt, RunTask, FireTimer, ReadClock,
)  # fmt: skip
