"""The runtime dialect as LLVM text: raw memory, C functions, frames in rings, and what only the scheduler does.

A raw address becomes a pointer that LLVM knows nothing of.  By the rule of `ir.dialect` it may point into a packet's
bytes, so plain accesses are of that class of memory (`data`) and counters stay in registers across them; ordered ones
have no class.  The context and the arena are `noalias`: LLVM takes for granted that nobody else has their addresses
until it sees them given away.  Whoever uses a raw address or calls C therefore gives both away at its top, to an
assembly statement of no instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.ir import ops
from mezzo.ir.dialect import MOST_BYTES
from mezzo.ir.ops import Const, Expr
from mezzo.packet.arena import IN_RING, META, META_SIZE
from mezzo.targets.native.frame import Frame
from mezzo.targets.native.lower import value
from mezzo.targets.native.text import COLD, TAGS, ll

# It does nothing to memory that we know, so what is in registers may stay there.
GIVEN_AWAY = '  call void asm sideeffect "", "r,r"(ptr %c, ptr %a) nounwind memory(inaccessiblemem: readwrite)'
WORDS = 6  # that a C function gets


def give_away(f: Frame) -> None:
    """From the top of the function on, others may know the addresses of the context and the arena."""
    if GIVEN_AWAY not in f.t.slots:
        f.t.slots.append(GIVEN_AWAY)


def pointer(f: Frame, e: Expr) -> str:
    """The address `e` as a pointer."""
    give_away(f)
    return f.t.op(f"inttoptr i64 {value(f, e)} to ptr")


def _load(f: Frame, e: ops.MemLoad) -> str:
    at = pointer(f, e.address)
    if e.acquire:
        return f.t.op(f"load atomic {ll(e.type)}, ptr {at} acquire, align {e.type.bits // 8}")
    return f.t.load(ll(e.type), at, 0, "data")


def _store(f: Frame, s: ops.MemStore) -> None:
    at, type = pointer(f, s.address), s.value.type
    v = value(f, s.value)
    if s.release:
        f.t.do(f"store atomic {ll(type)} {v}, ptr {at} release, align {type.bits // 8}")
    else:
        f.t.store(ll(type), v, at, 0, "data")


def _atomic(f: Frame, e: ops.Atomic) -> str:
    at = pointer(f, e.address)
    op = {"add": "add", "swap": "xchg"}[e.op]
    return f.t.op(f"atomicrmw {op} ptr {at}, {ll(e.type)} {value(f, e.value)} seq_cst, align {e.type.bits // 8}")


def _length(f: Frame, e: Expr) -> str:
    """A checked length, as i64."""
    v = value(f, e)
    if not isinstance(e, Const) or e.value > MOST_BYTES:
        f.check(f.t.op(f"icmp ule i32 {v}, {MOST_BYTES}"))
    return v if isinstance(e, Const) else f.t.widen(v, "i32", "i64")


def _sum16(f: Frame, e: ops.MemSum16) -> str:
    f.site.needs.add("sum16")
    at, length = pointer(f, e.address), _length(f, e.length)
    return f.t.op(f"call fastcc i16 @sum16(ptr {at}, i64 {length}, i32 {value(f, e.init)})")


def _copy(f: Frame, s: ops.MemCopy) -> None:
    to, source, length = pointer(f, s.to), pointer(f, s.source), _length(f, s.length)
    f.t.do(f"call void @llvm.memmove.p0.p0.i64(ptr {to}, ptr {source}, i64 {length}, i1 false){TAGS['data']}")


def _zero(f: Frame, s: ops.MemZero) -> None:
    to, length = pointer(f, s.to), _length(f, s.length)
    f.t.do(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {length}, i1 false){TAGS['data']}")


def _libc(f: Frame, e: ops.Libc) -> str:
    """A C function gets all six words, in registers: what it does not take it does not read."""
    t = f.t
    give_away(f)
    at = value(f, e.address)
    words = [value(f, a) for a in e.args] + ["0"] * (WORDS - len(e.args))
    f.check(t.op(f"icmp ne i64 {at}, 0"))
    target = t.op(f"inttoptr i64 {at} to ptr")
    result = t.op(f"call i64 {target}({', '.join(f'i64 {w}' for w in words)}) nounwind")
    slot = t.slot("i64")
    t.do(f"store i64 {result}, ptr {slot}")
    failed, done = t.label("failed"), t.label("done")
    t.branch(t.op(f"icmp ne i32 {t.widen(result, 'i64', 'i32')}, -1"), done, failed, COLD)
    t.at(failed)
    f.site.needs.add("errno")
    t.do(f"store i64 {t.op('call fastcc i64 @errno()')}, ptr {slot}")
    t.jump(done)
    t.at(done)
    return t.op(f"load i64, ptr {slot}")


# -- frames


def _frame_address(f: Frame, e: ops.FrameAddress) -> str:
    give_away(f)
    t, arena = f.t, f.site.arena
    frame = value(f, e.frame)
    f.check(t.op(f"icmp ult i32 {frame}, {arena.frames}"))
    wide = t.widen(frame, "i32", "i64")
    at = t.op(f"shl nuw nsw i64 {wide}, {arena.frame_size.bit_length() - 1}")
    base = t.op("ptrtoint ptr %a to i64")
    return t.op(f"add i64 {base}, {t.op(f'add nuw nsw i64 {at}, {arena.data_offset}')}")


def _take_frame(f: Frame, e: ops.TakeFrame) -> str:
    f.site.needs.add("take_frame")
    return f.t.op("call fastcc i32 @take_frame(ptr %a)")


def _in_ring(f: Frame, frame: str) -> None:
    """Faults where the frame (i32) is not in a ring."""
    f.check(f.t.op(f"icmp ult i32 {frame}, {f.site.arena.frames}"))
    at, _ = f.addresses(frame)
    f.check(f.t.op(f"icmp eq i8 {f.t.load('i8', at, META['live'][0], 'meta')}, {IN_RING}"))


def _give_frame(f: Frame, s: ops.GiveFrame) -> None:
    frame = value(f, s.frame)
    _in_ring(f, frame)
    f.kill(frame)


def _prefetch_frame(f: Frame, s: ops.PrefetchFrame) -> None:
    """Both lines of the metadata, to be written, and the one with the bytes.  What is no address means nothing: so
    without the facts that `addresses` tells LLVM."""
    t, arena = f.t, f.site.arena
    frame, start = (t.widen(value(f, x), "i32", "i64") for x in (s.frame, s.start))
    meta = t.op(f"add i64 {t.op(f'shl i64 {frame}, {META_SIZE.bit_length() - 1}')}, {arena.meta_offset}")
    place = t.op(f"add i64 {t.op(f'shl i64 {frame}, {arena.frame_size.bit_length() - 1}')}, {start}")
    lines = (meta, 1), (t.op(f"add i64 {meta}, 64"), 1), (t.op(f"add i64 {place}, {arena.data_offset}"), 0)
    for offset, write in lines:
        at = t.op(f"getelementptr i8, ptr %a, i64 {offset}")
        t.do(f"call void @llvm.prefetch.p0(ptr {at}, i32 {write}, i32 3, i32 1)")


def _lend(f: Frame, s: ops.Lend) -> None:
    frame = value(f, s.packet)
    meta, _ = f.anchor(s.packet)
    f.t.store("i8", str(IN_RING), meta, META["live"][0], "meta")
    f.consumed(s.packet)
    f.bind(s.name, frame)


def _adopt(f: Frame, s: ops.Adopt) -> None:
    t = f.t
    f.site.needs.add("fresh")
    frame, start, length = (value(f, x) for x in (s.frame, s.start, s.length))
    first, size = t.widen(start, "i32", "i64"), t.widen(length, "i32", "i64")
    end = t.op(f"add nuw nsw i64 {first}, {size}")
    f.check(t.op(f"icmp ule i64 {end}, {f.site.arena.frame_size}"))
    _in_ring(f, frame)
    t.do(f"call fastcc void @fresh(ptr {f.addresses(frame)[0]}, i64 {first}, i64 {end})")
    f.bind(s.name, frame)


# -- the scheduler's


def _run_task(f: Frame, s: ops.RunTask) -> None:
    f.bind(s.name, f.t.op(f"call fastcc i1 @run_task(ptr %c, ptr %a, i32 {value(f, s.index)})"))


def _fire_timer(f: Frame, s: ops.FireTimer) -> None:
    f.t.do(f"call fastcc void @fire_timer(ptr %c, ptr %a, i32 {value(f, s.index)})")


def _read_clock(f: Frame, s: ops.ReadClock) -> None:
    t = f.t
    spec = t.slot("[2 x i64]")
    t.op(f"call i32 @clock_gettime(i32 1, ptr {spec})")
    seconds = t.op(f"load i64, ptr {spec}")
    rest = t.op(f"load i64, ptr {t.gep(spec, 8)}")
    f.bind(s.name, t.op(f"add i64 {t.op(f'mul i64 {seconds}, 1000000000')}, {rest}"))


EXPR: dict[Any, Callable[[Frame, Any], str]] = {
    ops.MemLoad: _load,
    ops.Atomic: _atomic,
    ops.MemSum16: _sum16,
    ops.Libc: _libc,
    ops.FrameAddress: _frame_address,
    ops.FrameSize: lambda f, e: str(f.site.arena.frame_size),
    ops.TakeFrame: _take_frame,
}
STMT: dict[Any, Callable[[Frame, Any], None]] = {
    ops.MemStore: _store,
    ops.MemCopy: _copy,
    ops.MemZero: _zero,
    ops.GiveFrame: _give_frame,
    ops.PrefetchFrame: _prefetch_frame,
    ops.Lend: _lend,
    ops.Adopt: _adopt,
    ops.RunTask: _run_task,
    ops.FireTimer: _fire_timer,
    ops.ReadClock: _read_clock,
}
