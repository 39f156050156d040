"""The runtime dialect on both targets: raw memory, C functions, frames in rings."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mezzo.ir import ops
from mezzo.ir.module import Function, Param, State
from mezzo.ir.ops import Expr, Local
from mezzo.ir.types import BOOL, I64, PACKET, U8, U16, U32, U64, VOID, Type
from mezzo.packet.arena import FREE, IN_RING, NO_FRAME, Arena, Packet
from tests.targets.native_units import TARGETS, P, alone, bump, c, entry, loc, start, unit_of

both = pytest.mark.parametrize("target", TARGETS)
WORDS = (U8, U16, U32, U64)
A = loc("a", U64)
LIBC = ctypes.CDLL(None)


def address_of(name: str) -> int:
    return ctypes.cast(getattr(LIBC, name), ctypes.c_void_p).value or 0


def wide(value: int) -> ops.Const:
    return c(value, U64)


class Room:
    """Some memory of our own at a known address."""

    def __init__(self, data: bytes) -> None:
        self.buffer = ctypes.create_string_buffer(data, len(data))
        self.at = ctypes.addressof(self.buffer)

    def __bytes__(self) -> bytes:
        return self.buffer.raw


def function(target: str, ret: Type, body: ops.Body, *params: Param, arena: Arena | None = None) -> Callable[..., int]:
    """The Python door of one function with this body."""
    states = (State("n", "scalar", U64),)
    engine = start(target, alone(unit_of(entry("f", ret, body, *params), states=states)), arena=arena)
    return lambda *args: engine.call(0, "f", *args)


def value(target: str, expr: Expr, *args: int) -> int:
    """An expression of the address `a` and the number `b`."""
    return function(target, expr.type, (ops.Return(expr),), Param("a", U64), Param("b", U64))(*args, 0)


# -- raw memory -----------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("type_", WORDS, ids=str)
def test_loads_are_little_endian_at_any_alignment(target: str, type_: Type) -> None:
    room = Room(bytes(range(1, 20)))
    load = function(target, type_, (ops.Return(ops.MemLoad(type_, A)),), Param("a", U64))
    for skip in range(3):
        assert load(room.at + skip) == int.from_bytes(bytes(room)[skip : skip + type_.bits // 8], "little")


@both
@pytest.mark.parametrize("type_", WORDS, ids=str)
def test_stores_write_their_bytes_and_no_others(target: str, type_: Type) -> None:
    size = type_.bits // 8
    store = function(target, VOID, (ops.MemStore(A, loc("v", type_)),), Param("a", U64), Param("v", type_))
    for skip in range(3):
        room = Room(b"\xff" * 12)
        store(room.at + skip, 0x0102030405060708 & type_.mask)
        value = (0x0102030405060708 & type_.mask).to_bytes(size, "little")
        assert bytes(room) == b"\xff" * skip + value + b"\xff" * (12 - skip - size)


@both
@pytest.mark.parametrize("type_", (U32, U64), ids=str)
def test_ordered_accesses_are_accesses(target: str, type_: Type) -> None:
    room = Room(bytes(16))
    body = (
        ops.MemStore(A, loc("v", type_), release=True),
        ops.Return(ops.Bin("add", type_, ops.MemLoad(type_, A, acquire=True), c(1, type_))),
    )
    assert function(target, type_, body, Param("a", U64), Param("v", type_))(room.at + 8, type_.mask) == 0
    assert bytes(room) == bytes(8) + b"\xff" * (type_.bits // 8) + bytes(8 - type_.bits // 8)


@both
def test_atomics_give_the_value_before(target: str) -> None:
    room = Room((1 << 64).to_bytes(16, "little"))
    add = ops.Atomic("add", U64, A, loc("b", U64))
    two = function(target, U64, (ops.Eval(add), ops.Return(add)), Param("a", U64), Param("b", U64))
    assert two(room.at + 8, (1 << 64) - 1) == 0  # 1, then 0
    assert bytes(room)[8:] == b"\xff" * 8
    swap = function(target, U32, (ops.Return(ops.Atomic("swap", U32, A, loc("b"))),), Param("a", U64), Param("b", U32))
    assert (swap(room.at, 7), swap(room.at, 9)) == (0, 7)
    assert bytes(room)[:8] == b"\x09" + bytes(7)


@both
def test_copies_may_overlap(target: str) -> None:
    room = Room(bytes(range(32)))
    copy = function(
        target, VOID, (ops.MemCopy(loc("to", U64), A, loc("n")),), Param("to", U64), Param("a", U64), Param("n", U32)
    )
    copy(room.at + 4, room.at, 20)
    assert bytes(room) == bytes([*range(4), *range(20), *range(24, 32)])
    copy(room.at, room.at + 30, 0)
    zero = function(target, VOID, (ops.MemZero(A, loc("n")),), Param("a", U64), Param("n", U32))
    zero(room.at + 1, 30)
    assert bytes(room) == b"\0" * 31 + b"\x1f"


@both
def test_a_long_copy_faults_before_it_starts(target: str) -> None:
    room = Room(bytes(70_000))
    limits = (ops.MemCopy(A, A, loc("n")), ops.MemZero(A, loc("n")), ops.Eval(ops.MemSum16(A, loc("n"), c(0))))
    for op in limits:
        run = function(target, U32, (op, ops.Return(c(1))), Param("a", U64), Param("n", U32))
        assert run(room.at, 65_536) == 1
        assert not run(room.at, 65_537)


@both
def test_the_sum_is_that_of_packets(target: str) -> None:
    room = Room(b"?" + bytes(range(100, 164)))
    add = function(
        target,
        U16,
        (ops.Return(ops.MemSum16(A, loc("n"), loc("i"))),),
        Param("a", U64),
        Param("n", U32),
        Param("i", U32),
    )
    for n in (0, 1, 2, 7, 20, 63, 64):
        data = bytes(room)[1 : 1 + n] + b"\0" * (n & 1)
        total = 0x1_FFFE + sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        assert add(room.at + 1, n, 0x1_FFFE) == total


# -- C --------------------------------------------------------------------------------------------------------------


def call(target: str, name: str, *words: int) -> int:
    return value(target, ops.Libc(A, tuple(wide(w & U64.mask) for w in words)), address_of(name))


@both
def test_c_functions_are_called(target: str) -> None:
    assert call(target, "getpid") == os.getpid()
    assert call(target, "abs", 5) == 5
    reader, writer = os.pipe()
    text = Room(b"packets")
    assert call(target, "write", writer, text.at, 7) == 7
    assert os.read(reader, 99) == b"packets"
    os.close(reader)
    os.close(writer)


@both
def test_what_goes_wrong_is_the_negative_errno(target: str) -> None:
    text = Room(b"packets")
    assert call(target, "write", 1 << 20, text.at, 7) == -errno.EBADF
    assert call(target, "close", 1 << 20) == -errno.EBADF  # an int: the upper half of its -1 may be anything
    assert call(target, "poll", 1, 1, 0) == -errno.EFAULT


def test_errno_is_found_by_code_from_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    close = entry("f", I64, (ops.Return(ops.Libc(A, (wide(1 << 20),))),), Param("a", U64))
    for known in (False, True):
        engine = start("native", alone(unit_of(close)), cache=True)
        assert (engine.code.from_disk, engine.call(0, "f", address_of("close"))) == (known, -errno.EBADF)


@both
def test_six_words_arrive(target: str) -> None:
    got: list[tuple[int, ...]] = []

    @ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_ulong] * 6, use_errno=True)
    def pretend(*words: int) -> int:
        got.append(words)
        ctypes.set_errno(errno.EAGAIN)
        return -1 if words[5] else -7

    at = ctypes.cast(pretend, ctypes.c_void_p).value or 0
    for last, want in ((1 << 63, -errno.EAGAIN), (0, -7)):
        words = tuple(wide(w) for w in (1, 2, 3, 4, (1 << 64) - 1, last))
        assert value(target, ops.Libc(A, words), at) == want
    assert got == [(1, 2, 3, 4, (1 << 64) - 1, 1 << 63), (1, 2, 3, 4, (1 << 64) - 1, 0)]


@both
def test_an_address_that_nobody_filled_faults(target: str) -> None:
    engine = start(target, alone(unit_of(entry("f", I64, (ops.Return(ops.Libc(A, ())),), Param("a", U64)))))
    assert not engine.call(0, "f", 0)
    assert engine.drops(0) == {"fault": 1}


@both
def test_what_a_c_function_writes_is_seen(target: str) -> None:
    """In state, in the packet's bytes and in raw memory: nothing read before the call is believed after it."""
    arena = Arena(4)
    packet = arena.make_from(bytes(8))
    assert packet is not None
    room = Room(bytes(8))

    @ctypes.CFUNCTYPE(ctypes.c_long)
    def writer() -> int:
        packet.data[0] = 1
        engine.cells[0]["n"].value = 100
        ctypes.memset(room.at, 10, 1)
        return 0

    def seen() -> Expr:
        parts = (
            ops.Cast(U64, ops.PLoad(U8, P, "data", c(0))),
            ops.Get(U64, "n"),
            ops.Cast(U64, ops.MemLoad(U8, wide(room.at))),
        )
        return ops.Bin("add", U64, ops.Bin("add", U64, parts[0], parts[1]), parts[2])

    body = (
        ops.Set("x", seen()),
        ops.Eval(ops.Libc(A, ())),
        ops.Return(ops.Bin("add", U64, ops.Bin("mul", U64, loc("x", U64), wide(1000)), seen())),
    )
    unit = unit_of(entry("f", U64, body, Param("a", U64), Param("p", PACKET)), states=(State("n", "scalar", U64),))
    engine = start(target, alone(unit), arena=arena)
    assert engine.call(0, "f", ctypes.cast(writer, ctypes.c_void_p).value, packet) == 111


# -- frames ---------------------------------------------------------------------------------------------------------

F = loc("f")
ADOPTED = Local(PACKET, "q")


def take(*then: ops.Stmt) -> ops.Body:
    return ops.Set("f", ops.TakeFrame()), *then


@both
def test_a_packets_bytes_have_an_address(target: str) -> None:
    """What is written raw is read in the packet, and the other way, without a look at a stale value between."""
    at = ops.Bin("add", U64, ops.FrameAddress(ops.Meta(U32, P, "frame")), ops.Cast(U64, ops.Meta(U32, P, "headroom")))
    byte = ops.Cast(U64, ops.PLoad(U8, P, "data", c(1)))
    body = (
        ops.Set("at", ops.Bin("add", U64, at, wide(1))),
        ops.Set("sum", byte),
        ops.MemStore(loc("at", U64), c(50, U8)),
        ops.Set("sum", ops.Bin("add", U64, loc("sum", U64), byte)),
        ops.PStore(P, "data", c(1), c(7, U8)),
        ops.Set("sum", ops.Bin("add", U64, loc("sum", U64), ops.Cast(U64, ops.MemLoad(U8, loc("at", U64))))),
        ops.Return(loc("sum", U64)),
    )
    arena = Arena(4)
    packets = [arena.make_from(bytes([9, 100 + i, 9])) for i in range(3)]
    run = function(target, U64, body, Param("p", PACKET), arena=arena)
    assert [run(p) for p in packets if p is not None] == [157, 158, 159]
    assert all(p is not None and bytes(p) == bytes([9, 7, 9]) for p in packets)


@both
def test_no_address_lies_outside_the_arena(target: str) -> None:
    engine = start(
        target, alone(unit_of(entry("f", U64, (ops.Return(ops.FrameAddress(F)),), Param("f", U32)))), arena=Arena(4)
    )
    first, last = engine.call(0, "f", 0), engine.call(0, "f", 3)
    assert (first - engine.arena.address, last - first) == (engine.arena.data_offset, 3 * 2048)
    assert not engine.call(0, "f", 4) and not engine.call(0, "f", NO_FRAME)
    assert engine.drops(0) == {"fault": 2}


@both
def test_lent_frames_are_adopted_with_fresh_metadata(target: str) -> None:
    body = (
        ops.Make("q", c(60)),
        ops.If(ops.IsNone(ADOPTED), (ops.Return(c(NO_FRAME)),)),
        ops.MetaSet(ADOPTED, "net", c(14, I64)),
        ops.AnnoSet(ADOPTED, 16, c(5, U8)),
        ops.MetaSet(ADOPTED, "timestamp", wide(77)),
        ops.PStore(ADOPTED, "data", c(2), c(0xAB, U8)),
        ops.Set("at", ops.Meta(U32, ADOPTED, "headroom")),
        ops.Lend("f", ADOPTED),
        ops.Adopt("q", F, ops.Bin("add", U32, loc("at"), c(2)), c(10)),
        ops.If(ops.Meta(BOOL, ADOPTED, "has_net"), (ops.Put("n", wide(1)),)),
        ops.RingPush("ring", ADOPTED),
        ops.Return(F),
    )
    states = (State("n", "scalar", U64), State("ring", "ring", VOID, 4))
    engine = start(target, alone(unit_of(entry("f", U32, body), states=states)))
    packet = Packet(engine.arena, engine.call(0, "f"))
    assert (bytes(packet), packet.headroom, packet.live) == (b"\xab" + bytes(9), 130, 1)
    assert (packet.mark("net"), packet.mark("mac"), packet.timestamp, bytes(packet.anno)) == (None, None, 0, bytes(48))
    assert engine.cells[0]["n"].value == 0 and engine.drops(0) == {}


@both
def test_frames_go_into_rings_and_come_back(target: str) -> None:
    arena = Arena(2)
    unit = unit_of(entry("take", U32, take(ops.Return(F))), entry("give", VOID, (ops.GiveFrame(F),), Param("f", U32)))
    engine = start(target, alone(unit), arena=arena)
    taken = [engine.call(0, "take") for _ in range(3)]
    assert taken == [0, 1, NO_FRAME]
    assert (arena.counter("starved"), arena.held, list(arena.ring_frames())) == (1, 2, [0, 1])
    assert list(arena.live_frames()) == []
    engine.call(0, "give", 0)
    assert (Packet(arena, 0).live, Packet(arena, 1).live, arena.held) == (FREE, IN_RING, 1)
    for wrong in (0, 2, 1 << 31, NO_FRAME):  # free, and no frame at all
        engine.call(0, "give", wrong)
    assert (engine.drops(0), arena.held) == ({"fault": 4}, 1)
    assert engine.call(0, "take") == 0


@both
@pytest.mark.parametrize(
    ("frame", "first", "length"), [(0, 2000, 49), (0, 2049, 0), (0, 0xFFFF_FFFF, 1), (1, 128, 60), (7, 128, 60)]
)
def test_what_is_no_packet_is_not_adopted(target: str, frame: int, first: int, length: int) -> None:
    adopt = entry(
        "adopt",
        VOID,
        (ops.Adopt("q", F, loc("s"), loc("n")), ops.Kill(ADOPTED, -1)),
        *(Param(n, U32) for n in "fsn"),
    )
    engine = start(target, alone(unit_of(entry("take", U32, take(ops.Return(F))), adopt)), arena=Arena(2))
    assert engine.call(0, "take") == 0
    engine.call(0, "adopt", frame, first, length)
    assert (engine.drops(0), list(engine.arena.ring_frames())) == ({"fault": 1}, [0])
    engine.call(0, "adopt", 0, 2048, 0)
    assert (engine.drops(0), engine.arena.held) == ({"fault": 1}, 0)


@both
def test_a_fault_leaves_lent_frames_in_their_ring(target: str) -> None:
    body = (
        ops.Lend("f", P),
        ops.Eval(ops.Index(U8, "cells", c(9))),
    )
    push = Function("push", (Param("port", U32), Param("p", PACKET)), VOID, body)
    unit = unit_of(push, states=(State("cells", "array", U8, 4),))
    engine = start(target, alone(unit))
    packet = engine.arena.make(60)
    engine.push(0, 0, packet.frame)
    assert (engine.drops(0), list(engine.arena.ring_frames())) == ({"fault": 1}, [packet.frame])


@both
def test_counters_stay_right_across_raw_stores(target: str) -> None:
    """A counter may sit in a register while raw memory is written: what counts is what is there at the end."""
    room = Room(bytes(64))
    at = ops.Bin("add", U64, A, ops.Cast(U64, ops.Bin("mul", U32, loc("i"), c(8))))
    body = (
        ops.For("i", c(8), 8, (ops.MemStore(at, ops.Get(U64, "n")), bump("n"))),
        ops.Return(ops.Get(U64, "n")),
    )
    assert function(target, U64, body, Param("a", U64))(room.at) == 8
    assert [bytes(room)[8 * i] for i in range(8)] == list(range(8))
