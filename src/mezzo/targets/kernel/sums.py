"""The Internet checksum of the packet's bytes (RFC 1071): additions for short lengths, the kernel's help for others."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.ops import Const, Expr
from mezzo.targets.kernel.bounds import possible_bits
from mezzo.targets.kernel.frame import CSUM_DIFF, LOAD_BYTES, Frame
from mezzo.targets.kernel.text import ROLLED

STRAIGHT = 64  # bytes up to which a checksum is straight additions
HEADER = 20  # a length that is open is most often that of an IP header without options
CSUM_MOST = 512  # bytes that one call of bpf_csum_diff takes (before Linux 6.13)


def sum16(f: Frame, e: ops.Sum16, offset: str, length: str, init: str) -> str:
    """The sum; the values of its operands are worked out."""
    if isinstance(e.length, Const) and 0 < e.length.value <= STRAIGHT and e.length.value % 2 == 0:
        return _sum_straight(f, e.mark, e.offset, offset, e.length.value, init)
    if isinstance(e.length, Const):
        return _sum_far(f, e.mark, offset, length, init)
    bits = possible_bits(f.scope.function, e.length)
    words = bits <= STRAIGHT and bits % 4 == 0

    def any_length() -> str:
        return _sum_words(f, e, offset, length, init) if words else _sum_far(f, e.mark, offset, length, init)

    if f.scope.function.rare:
        return any_length()
    t = f.t
    result = t.slot("i16")
    short, far, done = t.label("header"), t.label("far"), t.label("summed")
    t.branch(t.op(f"icmp eq i32 {length}, {HEADER}"), short, far)
    t.at(short)
    before = f.facts.copy()
    t.do(f"store i16 {_sum_straight(f, e.mark, e.offset, offset, HEADER, init)}, ptr {result}")
    t.jump(done)
    f.facts = before
    t.at(far)
    t.do(f"store i16 {any_length()}, ptr {result}")
    t.jump(done)
    t.at(done)
    return t.op(f"load i16, ptr {result}")


def _sum_words(f: Frame, e: ops.Sum16, offset: str, length: str, init: str) -> str:
    """A few words, as many as an IP header may have: a loop, which the verifier follows."""
    t, pointer = f.t, f.span(e.mark, e.offset, offset, 0)
    total, place = t.slot("i64"), t.slot("i64")
    for slot in (total, place):
        t.do(f"store i64 0, ptr {slot}")
    head, body, done = t.label("words"), t.label("word"), t.label("added")
    t.jump(head)
    t.at(head)
    here = t.op(f"load i64, ptr {place}")
    t.branch(t.op(f"icmp ult i64 {here}, {t.widen(length, 'i32', 'i64')}"), body, done)
    t.at(body)
    word = t.opaque("ptr", t.op(f"getelementptr i8, ptr {pointer}, i64 {here}"))
    f.not_behind(word, 4)
    added = t.op(f"add i64 {t.op(f'load i64, ptr {total}')}, {t.widen(t.load('i32', word), 'i32', 'i64')}")
    t.do(f"store i64 {added}, ptr {total}")
    t.do(f"store i64 {t.op(f'add nuw i64 {here}, 4')}, ptr {place}")
    t.do(f"br label %{head}, !llvm.loop !{ROLLED}")
    t.at(done)
    return _finish(f, t.op(f"load i64, ptr {total}"), init)


def _sum_straight(f: Frame, mark: str, offset: Expr, offset_value: str, length: int, init: str) -> str:
    """Adds words of 32 bits as they lie; which end comes first makes no difference to the sum but its two bytes."""
    t, total = f.t, "0"
    at = f.span(mark, offset, offset_value, length)
    for start in range(0, length, 4):
        bits = min(32, 8 * (length - start))
        word = t.widen(t.load(f"i{bits}", at, start), f"i{bits}", "i64")
        total = t.op(f"add i64 {total}, {word}")
    return _finish(f, total, init)


def _finish(f: Frame, total: str, init: str) -> str:
    """A sum of little-endian words, folded to 16 bits, its bytes swapped, and `init` added (RFC 1071, 2B)."""
    t = f.t
    for _ in range(3):
        total = t.op(f"add i64 {t.op(f'and i64 {total}, 65535')}, {t.op(f'lshr i64 {total}, 16')}")
    swapped = t.op(f"call i16 @llvm.bswap.i16(i16 {t.op(f'trunc i64 {total} to i16')})")
    total = t.op(f"add i64 {t.widen(swapped, 'i16', 'i64')}, {t.widen(init, 'i32', 'i64')}")
    for _ in range(2):
        total = t.op(f"add i64 {t.op(f'and i64 {total}, 65535')}, {t.op(f'lshr i64 {total}, 16')}")
    return t.op(f"trunc i64 {total} to i16")


def _sum_far(f: Frame, mark: str, offset: str, length: str, init: str) -> str:
    """Any length: the bytes are copied to the lane's room, zeros behind them, and the kernel adds them up."""
    t = f.t
    inside, count = f.range(mark, offset, length)
    total = t.slot("i64", None)
    t.do(f"store i64 0, ptr {total}")
    some, done = t.label("some"), t.label("added")
    t.branch(t.op(f"icmp ne i64 {count}, 0"), some, done)
    t.at(some)
    room = f.lane(f.layout.room)
    size = t.op(f"trunc i64 {count} to i32")
    f.check(t.op(f"icmp eq i64 {t.helper(LOAD_BYTES, 'ptr %ctx', f'i32 {inside}', f'ptr {room}', f'i32 {size}')}, 0"))
    t.store("i32", "0", t.op(f"getelementptr i8, ptr {room}, i64 {count}"))
    whole = t.opaque("i64", t.op(f"and i64 {t.op(f'add i64 {count}, 3')}, -4"))
    for start in range(0, f.most, CSUM_MOST):
        part, more = t.op(f"sub i64 {whole}, {start}"), t.label("part")
        if start:
            t.branch(t.op(f"icmp ugt i64 {whole}, {start}"), more, done)
            t.at(more)
        most = t.op(f"call i64 @llvm.umin.i64(i64 {part}, i64 {CSUM_MOST})")
        seed = t.op(f"trunc i64 {t.op(f'load i64, ptr {total}')} to i32")
        bounded = t.op(f"and i64 {t.opaque('i64', most)}, {2 * CSUM_MOST - 1}")
        some_bytes = t.op(f"trunc i64 {bounded} to i32")
        args = ("ptr null", "i32 0", f"ptr {t.gep(room, start)}", f"i32 {some_bytes}", f"i32 {seed}")
        added = t.helper(CSUM_DIFF, *args)
        t.do(f"store i64 {t.op(f'and i64 {added}, 4294967295')}, ptr {total}")
    t.jump(done)
    t.at(done)
    return _finish(f, t.op(f"load i64, ptr {total}"), init)
