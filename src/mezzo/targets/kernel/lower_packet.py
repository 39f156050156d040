"""Statements that change the packet: its bytes, its metadata, its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.ir import ops
from mezzo.ir.ops import Const
from mezzo.targets.kernel.facts import UNSET
from mezzo.targets.kernel.frame import ADJUST_HEAD, ADJUST_TAIL, LOAD_BYTES, STORE_BYTES, Frame
from mezzo.targets.kernel.lower import value
from mezzo.targets.kernel.proofs import is_idle
from mezzo.targets.native.text import ll

STRAIGHT = 64  # bytes up to which a copy is loads and stores


def _pstore(f: Frame, s: ops.PStore) -> None:
    offset, v = value(f, s.offset), value(f, s.value)
    at = f.span(s.mark, s.offset, offset, s.value.type.bits // 8)
    f.t.store(ll(s.value.type), f.swap(s.value.type, v, s.order), at)


def _meta_set(f: Frame, s: ops.MetaSet) -> None:
    if isinstance(s.value, ops.WallTime) and not f.virtual:
        f.set_timestamp(f.t.load("i64", f.word("epoch")), late=True)
        return
    if s.field == "packet_type" and not f.kind_asked and is_idle(f, s.value):
        return
    v = value(f, s.value)
    if s.field == "timestamp":
        f.set_timestamp(v)
    elif s.field == "packet_type":
        f.t.do(f"store i8 {v}, ptr {f.kind}")
    else:
        from_frame = f.t.op(f"add i64 {f.headroom()}, {v}")
        f.check(f.t.op(f"icmp ult i64 {from_frame}, {UNSET}"))
        f.move(s.field, f.plus(f.at("data"), v))


def _anno_set(f: Frame, s: ops.AnnoSet) -> None:
    f.annotate(s.value.type, s.offset, f.swap(s.value.type, value(f, s.value), s.order))


def _resize(f: Frame, s: ops.Resize) -> None:
    amount = value(f, s.amount)
    wide = amount if isinstance(s.amount, Const) else f.t.widen(amount, "i32", "i64")
    {"strip": _strip, "prepend": _prepend, "append": _append, "trim": _trim}[s.kind](f, wide)


def _strip(f: Frame, amount: str) -> None:
    known, seen = f.facts.known, max(f.facts.reach, f.facts.sure)
    if amount.isdigit() and {"data", "front"} <= known.keys() and known["data"] + int(amount) > seen:
        pointer = f.t.gep(f.start(), min(known["data"] - known["front"], 1 << 15))
        if int(amount) <= f.frame_size:
            f.not_behind(pointer, int(amount))
            f.facts.reach = known["data"] + int(amount)
        else:
            f.check("false")
    elif not (amount.isdigit() and {"data", "front"} <= known.keys()):
        _check_length(f, amount)
    to = f.plus(f.at("data"), amount)
    f.facts.data_moved()
    f.move("data", to)


def _prepend(f: Frame, amount: str) -> None:
    """Where the memory that the packet has does not suffice, the kernel gives more."""
    t = f.t
    f.check(t.op(f"icmp ule i64 {amount}, {f.headroom()}"))
    to = f.plus(f.at("data"), amount, "sub")
    front = f.at("front")
    f.facts.data_moved()
    f.move("data", to)
    if to.lstrip("-").isdigit() and front.lstrip("-").isdigit():
        if int(to) < int(front):
            _grow(f, to, front)
        return
    more, enough = t.label("more"), t.label("enough")
    t.branch(t.op(f"icmp slt i64 {to}, {front}"), more, enough)
    t.at(more)
    before = f.facts.copy()
    _grow(f, to, front)
    t.jump(enough)
    t.at(enough)
    f.facts = before.both(f.facts)


def _grow(f: Frame, to: str, front: str) -> None:
    by = f.t.op(f"trunc i64 {f.plus(to, front, 'sub')} to i32")
    f.check(f.t.op(f"icmp eq i64 {f.t.helper(ADJUST_HEAD, 'ptr %ctx', f'i32 {by}')}, 0"))
    f.read_ends()
    f.facts.memory_moved()
    f.move("front", to)


def _check_length(f: Frame, amount: str) -> None:
    """The packet has `amount` bytes; in 32 bits, so that LLVM knows of a difference of lengths that it is none more."""
    t = f.t
    narrow = amount if amount.isdigit() else t.op(f"trunc i64 {amount} to i32")
    f.check(t.op(f"icmp ule i32 {narrow}, {t.op(f'trunc nuw nsw i64 {f.length()} to i32')}"))


def _append(f: Frame, amount: str) -> None:
    t = f.t
    tail = t.op(f"sub i64 {f.frame_size}, {f.plus(f.headroom(), f.length())}")
    f.check(t.op(f"icmp ule i64 {amount}, {tail}"))
    _move_end(f, amount)


def _trim(f: Frame, amount: str) -> None:
    _check_length(f, amount)
    _move_end(f, f.t.op(f"sub i64 0, {amount}"))


def _move_end(f: Frame, by: str) -> None:
    """The kernel zeroes what it grows into."""
    by = f.t.op(f"trunc i64 {by} to i32")
    f.check(f.t.op(f"icmp eq i64 {f.t.helper(ADJUST_TAIL, 'ptr %ctx', f'i32 {by}')}, 0"))
    f.read_ends()
    f.facts.memory_moved()


def _copy(f: Frame, s: ops.Copy) -> None:
    """Within the packet: all is read before anything is written, so the ranges may overlap."""
    offset, source = value(f, s.offset), value(f, s.source_offset)
    length, t = value(f, s.length), f.t
    if isinstance(s.length, Const) and s.length.value <= STRAIGHT:
        if not s.length.value:
            f.range(s.mark, offset, "0")
            f.range(s.source_mark, source, "0")
            return
        to = f.span(s.mark, s.offset, offset, s.length.value)
        pieces = _pieces(s.length.value)
        start = f.span(s.source_mark, s.source_offset, source, s.length.value)
        loaded = [(f"i{8 * bytes_}", place, t.load(f"i{8 * bytes_}", start, place)) for place, bytes_ in pieces]
        for type, place, v in loaded:
            t.store(type, v, to, place)
        return
    to, _ = f.range(s.mark, offset, length)
    start, count = f.range(s.source_mark, source, length)
    some, done = t.label("some"), t.label("copied")
    t.branch(t.op(f"icmp ne i64 {count}, 0"), some, done)
    t.at(some)
    room, size = f.lane(f.layout.room), t.op(f"trunc i64 {count} to i32")
    for helper, where in ((LOAD_BYTES, start), (STORE_BYTES, to)):
        moved = t.helper(helper, "ptr %ctx", f"i32 {where}", f"ptr {room}", f"i32 {size}")
        f.check(t.op(f"icmp eq i64 {moved}, 0"))
    f.read_ends()
    f.facts.memory_moved()
    t.jump(done)
    t.at(done)


def _pieces(length: int) -> list[tuple[int, int]]:
    """(start, size) of the loads that cover `length` bytes."""
    found, at = [], 0
    while at < length:
        size = max(s for s in (8, 4, 2, 1) if s <= length - at)
        found.append((at, size))
        at += size
    return found


def _copy_blob(f: Frame, s: ops.CopyBlob) -> None:
    """From a constant place in the blob; `capable` refuses others: of two open numbers the verifier sees no sum."""
    assert isinstance(s.source_offset, Const)
    offset, length, t = value(f, s.offset), value(f, s.length), f.t
    to, count = f.range(s.mark, offset, length)
    left = f.blobs[f.instance, s.state] - s.source_offset.value
    f.check("false" if left < 0 else t.op(f"icmp ule i64 {count}, {left}"))
    some, done = t.label("some"), t.label("copied")
    t.branch(t.op(f"icmp ne i64 {count}, 0"), some, done)
    t.at(some)
    start, size = t.gep(f.address(f.state(s.state)[1]), s.source_offset.value), t.op(f"trunc i64 {count} to i32")
    stored = t.helper(STORE_BYTES, "ptr %ctx", f"i32 {to}", f"ptr {start}", f"i32 {size}")
    f.check(t.op(f"icmp eq i64 {stored}, 0"))
    f.read_ends()
    f.facts.memory_moved()
    t.jump(done)
    t.at(done)


PACKETS: dict[Any, Callable[[Frame, Any], None]] = {
    ops.PStore: _pstore,
    ops.MetaSet: _meta_set,
    ops.MarkClear: lambda f, s: f.move(s.mark, str(UNSET)),
    ops.AnnoSet: _anno_set,
    ops.Resize: _resize,
    ops.Copy: _copy,
    ops.CopyBlob: _copy_blob,
}
