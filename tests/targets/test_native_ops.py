"""Each op of the IR on both targets, against values worked out by hand."""

from __future__ import annotations

import pytest

from mezzo.ir import ops
from mezzo.ir.module import Param, State
from mezzo.ir.ops import Bin, Cast, Cmp, Const, Logic, Meta, Not, PLoad, Select, Sum16
from mezzo.ir.types import BOOL, I64, PACKET, U8, U16, U32, U48, U64, U128, VOID
from tests.targets.native_units import TARGETS, P, alone, bump, c, entry, evaluate, loc, start, unit_of

DATA = bytes.fromhex("0102030405060708090a0b0c0d0e0f10") + bytes(range(0x80, 0xA0))
both = pytest.mark.parametrize("target", TARGETS)


def b(op: str, x: int, y: int, type=U32) -> Bin:  # type: ignore[no-untyped-def]
    return Bin(op, type, Const(type, x), Const(type, y))


def load(type, offset: int, order: str = "big", mark: str = "data") -> PLoad:  # type: ignore[no-untyped-def]
    return PLoad(type, P, mark, c(offset), order)


VALUES = [
    (b("add", 0xFFFFFFFF, 2), 1),
    (b("sub", 0, 1, U8), 255),
    (b("mul", 0x10001, 0x10001), 0x20001),
    (b("div", 7, 0), 0),
    (b("mod", 7, 0), 7),
    (b("div", 7, 2, U128), 3),
    (b("div", (1 << 127) + 5, 3, U128), ((1 << 127) + 5) // 3),
    (b("mod", (1 << 127) + 5, 1 << 65, U128), ((1 << 127) + 5) % (1 << 65)),
    (b("div", -7, 2, I64), -3),
    (b("mod", -7, 2, I64), -1),
    (b("div", -(1 << 63), -1, I64), -(1 << 63)),
    (b("mod", -(1 << 63), -1, I64), 0),
    (b("shl", 1, 32), 0),
    (b("shl", 1, 47, U48), 1 << 47),
    (b("shr", 8, 200, U8), 0),
    (b("shr", -8, 64, I64), -1),
    (b("shr", -8, 1, I64), -4),
    (b("shl", 3, -1, I64), 0),
    (b("xor", 5, 3), 6),
    (Cmp("lt", Const(I64, -1), Const(I64, 0)), 1),
    (Cmp("lt", Const(U32, 0xFFFFFFFF), Const(U32, 0)), 0),
    (Cmp("ge", Const(U128, 1 << 100), Const(U128, 1 << 99)), 1),
    (Logic("and", ops.FALSE, Cmp("eq", load(U8, 999), Const(U8, 0))), 0),
    (Logic("or", ops.TRUE, Cmp("eq", load(U8, 999), Const(U8, 0))), 1),
    (Not(ops.TRUE), 0),
    (Cast(U8, Const(U32, 0x1234)), 0x34),
    (Cast(U64, Const(I64, -1)), (1 << 64) - 1),
    (Cast(U128, Const(I64, -1)), (1 << 128) - 1),
    (Cast(I64, Const(U32, 0xFFFFFFFF)), 0xFFFFFFFF),
    (Cast(BOOL, Const(U16, 256)), 1),
    (Select(U8, ops.FALSE, Const(U8, 1), Const(U8, 2)), 2),
    (load(U8, 0), 1),
    (load(U16, 1), 0x0203),
    (load(U16, 1, "little"), 0x0302),
    (load(U32, 3), 0x04050607),
    (load(U48, 3), 0x040506070809),
    (load(U48, 3, "little"), 0x090807060504),
    (load(U64, 0), 0x0102030405060708),
    (load(U128, 0), 0x0102030405060708090A0B0C0D0E0F10),
    (Meta(U32, P, "length"), 48),
    (Meta(U32, P, "headroom"), 128),
    (Meta(U32, P, "tailroom"), 2048 - 128 - 48),
    (Meta(BOOL, P, "has_net"), 0),
    (Meta(U64, P, "timestamp"), 0),
    (ops.Anno(U32, P, 4), 0),
    (Sum16(P, "data", c(0), c(4), c(0)), 0x0406),
    (Sum16(P, "data", c(0), c(3), c(0x1FFFF)), 0x0402 + 1),
    (Sum16(P, "data", c(16), c(32), c(7)), None),
    (Sum16(P, "data", Cast(U32, load(U8, 3)), Cast(U32, load(U8, 6)), c(0)), None),
    (ops.IsNone(P), 0),
]


@pytest.mark.parametrize(("expr", "want"), VALUES, ids=lambda x: type(x).__name__ if isinstance(x, ops.Expr) else "")
def test_value(expr: ops.Expr, want: int | None) -> None:
    got = evaluate(expr, "native", data=DATA)
    assert got == evaluate(expr, "python", data=DATA)
    assert want is None or got == want


@both
def test_sum16_of_every_length(target: str) -> None:
    program = alone(
        unit_of(
            entry(
                "f",
                U16,
                (ops.Return(Sum16(P, "data", c(1), loc("n"), loc("i"))),),
                Param("p", PACKET),
                Param("n", U32),
                Param("i", U32),
            )
        )
    )
    engine = start(target, program)
    long = bytes(i * 37 & 0xFF for i in range(1601))
    for length in (*range(0, 47), *range(48, 1600, 77), *range(190, 194)):
        packet = engine.arena.make_from(long)
        data = long[1 : 1 + length] + b"\0" * (length & 1)
        total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)) + 0xFFFF_FFFF
        while total > 0xFFFF:
            total = (total & 0xFFFF) + (total >> 16)
        assert engine.call(0, "f", packet, length, 0xFFFF_FFFF) == total
        engine.arena.free(packet.frame)


@both
@pytest.mark.parametrize("offset", [47, 48, 1 << 31, 0xFFFF_FFFF])
def test_access_outside_is_a_fault(target: str, offset: int) -> None:
    unit = unit_of(
        entry("f", U16, (ops.Return(PLoad(U16, P, "data", loc("at"))),), Param("p", PACKET), Param("at", U32))
    )
    engine = start(target, alone(unit))
    packet = engine.arena.make_from(DATA)
    assert not engine.call(0, "f", packet, offset)
    assert engine.drops(0) == {"fault": 1}


@both
def test_marks_reach_back_and_may_be_unset(target: str) -> None:
    at = Param("at", I64)
    unit = unit_of(
        entry("mark", VOID, (ops.MetaSet(P, "net", loc("at", I64)),), Param("p", PACKET), at),
        entry("clear", VOID, (ops.MarkClear(P, "net"),), Param("p", PACKET)),
        entry("where", I64, (ops.Return(Meta(I64, P, "net")),), Param("p", PACKET)),
        entry("peek16", U16, (ops.Return(PLoad(U16, P, "net", c(2))),), Param("p", PACKET)),
    )
    engine = start(target, alone(unit))
    packet = engine.arena.make_from(DATA)
    engine.call(0, "mark", packet, 3)
    assert (packet.mark("net"), engine.call(0, "where", packet), engine.call(0, "peek16", packet)) == (3, 3, 0x0607)
    engine.call(0, "mark", packet, -2)
    assert (engine.call(0, "where", packet), engine.call(0, "peek16", packet)) == (-2, 0x0102)
    engine.call(0, "mark", packet, -3)
    engine.call(0, "peek16", packet)
    engine.call(0, "clear", packet)
    engine.call(0, "peek16", packet)
    engine.call(0, "mark", packet, -129)
    assert packet.mark("net") is None
    assert engine.drops(0) == {"fault": 3}


@both
def test_packets_are_resized_and_written(target: str) -> None:
    def resize(kind: str) -> ops.Resize:
        return ops.Resize(kind, P, loc("n"))

    n = Param("n", U32)
    functions = [entry(k, VOID, (resize(k),), Param("p", PACKET), n) for k in ("strip", "prepend", "append", "trim")]
    body = (
        ops.PStore(P, "data", c(0), Const(U48, 0xA1A2A3A4A5A6)),
        ops.PStore(P, "data", c(6), Const(U16, 0x0102), "little"),
        ops.MetaSet(P, "timestamp", Const(U64, 77)),
        ops.MetaSet(P, "packet_type", Const(U8, 3)),
        ops.AnnoSet(P, 8, Const(U32, 0x01020304)),
        ops.AnnoSet(P, 12, Const(U16, 0x0506), "big"),
        ops.Copy(P, "data", c(9), P, "data", c(8), c(8)),
    )
    engine = start(target, alone(unit_of(*functions, entry("write", VOID, body, Param("p", PACKET)))))
    packet = engine.arena.make_from(DATA)
    engine.call(0, "strip", packet, 8)
    engine.call(0, "trim", packet, 8)
    assert bytes(packet) == DATA[8:40]
    engine.call(0, "prepend", packet, 4)
    engine.call(0, "append", packet, 4)
    assert bytes(packet) == DATA[4:40] + bytes(4)
    for kind in ("strip", "trim"):
        engine.call(0, kind, packet, 41)
    engine.call(0, "prepend", packet, packet.headroom + 1)
    engine.call(0, "append", packet, packet.tailroom + 1)
    assert engine.drops(0) == {"fault": 4}
    engine.call(0, "write", packet)
    assert bytes(packet)[:20] == bytes.fromhex("a1a2a3a4a5a60201") + DATA[12:13] + DATA[12:20] + DATA[21:24]
    assert (packet.timestamp, packet.packet_type, bytes(packet.anno[8:14])) == (77, 3, bytes.fromhex("040302010506"))


@both
def test_state_of_every_kind(target: str) -> None:
    states = (
        State("a", "array", U16, 4),
        State("big", "array", I64, 200),
        State("t", "table", U32, 2, U48),
        State("buf", "buffer", VOID, 10),
        State("blob", "blob", VOID),
        State("flag", "scalar", BOOL),
        State("w", "scalar", U128),
    )
    key, value, at = loc("k", U48), loc("v"), loc("i")
    put = (ops.TablePut("ok", "t", key, value), ops.Return(loc("ok", BOOL)))
    unit = unit_of(
        entry(
            "set_at",
            VOID,
            (ops.Store("a", at, Cast(U16, value)), ops.Store("big", at, Cast(I64, value))),
            Param("i", U32),
            Param("v", U32),
        ),
        entry(
            "at",
            I64,
            (ops.Return(Bin("add", I64, Cast(I64, ops.Index(U16, "a", at)), ops.Index(I64, "big", at))),),
            Param("i", U32),
        ),
        entry("put", BOOL, put, Param("k", U48), Param("v", U32)),
        entry("get", U32, (ops.Return(ops.TableGet(U32, "t", key, c(99))),), Param("k", U48)),
        entry("has", BOOL, (ops.Return(ops.TableHas("t", key)),), Param("k", U48)),
        entry("remove", BOOL, (ops.TableDel("ok", "t", key), ops.Return(loc("ok", BOOL))), Param("k", U48)),
        entry("count", U32, (ops.Return(ops.Count("t")),)),
        entry(
            "write",
            U32,
            (ops.BufPut("buf", Const(U32, 0x01020304), "big"), ops.Return(ops.Count("buf"))),
            Param("p", PACKET),
        ),
        entry("keep", VOID, (ops.BufPutPacket("buf", P, "data", c(1), c(2)),), Param("p", PACKET)),
        entry("blob", U16, (ops.Return(ops.BlobLoad(U16, "blob", loc("o", U64))),), Param("o", U64)),
        entry("stamp", VOID, (ops.CopyBlob(P, "data", c(2), "blob", c(1, U64), c(3)),), Param("p", PACKET)),
        entry(
            "put2",
            VOID,
            (
                ops.Put("flag", Not(ops.Get(BOOL, "flag"))),
                ops.Put("w", Bin("add", U128, ops.Get(U128, "w"), Const(U128, 1 << 127))),
            ),
        ),
        states=states,
    )
    engine = start(target, alone(unit))
    cells = engine.cells[0]
    engine.call(0, "set_at", 3, 0x12345)
    assert engine.call(0, "at", 3) == 0x2345 + 0x12345
    assert (cells["a"].dump(), cells["big"][3]) == ([0, 0, 0, 0x2345], 0x12345)
    cells["big"][3] = -5
    assert engine.call(0, "at", 3) == 0x2345 - 5
    engine.call(0, "at", 4)
    engine.call(0, "set_at", 4, 1)
    assert [engine.call(0, "put", k, k * 2) for k in (1 << 40, 2, 3)] == [1, 1, 0]
    assert [engine.call(0, "get", k) for k in (1 << 40, 2, 3)] == [1 << 41 & 0xFFFFFFFF, 4, 99]
    assert [
        engine.call(0, "has", 2),
        engine.call(0, "remove", 2),
        engine.call(0, "remove", 2),
        engine.call(0, "count"),
    ] == [1, 1, 0, 1]
    assert cells["t"].items() == [(1 << 40, 0)] and cells["t"].set(9, 9) and engine.call(0, "get", 9) == 9
    packet = engine.arena.make_from(DATA)
    assert engine.call(0, "write", packet) == 4
    engine.call(0, "keep", packet)
    assert bytes(cells["buf"].view()) == b"\x01\x02\x03\x04\x02\x03"
    assert (engine.call(0, "write", packet), engine.call(0, "write", packet) or 0, len(cells["buf"])) == (10, 0, 10)
    cells["blob"].bind(b"abcd")
    assert engine.call(0, "blob", 2) == int.from_bytes(b"cd", "little")
    for outside in (3, 1 << 63, (1 << 64) - 1):
        engine.call(0, "blob", outside)
    engine.call(0, "stamp", packet)
    assert bytes(packet)[:6] == DATA[:2] + b"bcd" + DATA[5:6]
    engine.call(0, "put2")
    engine.call(0, "put2")
    assert (cells["flag"].value, cells["w"].value) == (0, 0)
    assert engine.drops(0) == {"fault": 6}


@both
def test_rings_and_slots(target: str) -> None:
    states = (State("r", "ring", PACKET, 3), State("s", "slots", PACKET, 2), State("n", "scalar", U64))

    def make(*rest: ops.Stmt) -> ops.Body:
        return (ops.Make("p", c(1)), ops.If(ops.IsNone(P), (ops.Return(),)), *rest)

    def take(*first: ops.Stmt) -> ops.Body:
        return (*first, ops.If(ops.IsNone(P), (ops.Return(),)), bump("n"), ops.Kill(P, -1))

    unit = unit_of(
        entry("back", VOID, make(ops.RingPush("r", P))),
        entry("front", VOID, make(ops.RingPush("r", P, front=True))),
        entry("pop", VOID, take(ops.RingPop("p", "r"))),
        entry("popback", VOID, take(ops.RingPop("p", "r", back=True))),
        entry("count", U32, (ops.Return(ops.Count("r")),)),
        entry("slot", VOID, make(ops.SlotPut("s", loc("i"), P)), Param("i", U32)),
        entry("unslot", VOID, take(ops.SlotTake("p", "s", loc("i"))), Param("i", U32)),
        entry("used", BOOL, (ops.Return(ops.SlotUsed("s", loc("i"))),), Param("i", U32)),
        states=states,
    )
    engine = start(target, alone(unit))
    ring, slots = engine.cells[0]["r"], engine.cells[0]["s"]
    for name in ("back", "back", "front", "back"):
        engine.call(0, name)
    assert (ring.dump(), engine.call(0, "count"), engine.drops(0), engine.arena.held) == ([2, 0, 1], 3, {"fault": 1}, 3)
    engine.call(0, "popback")
    engine.call(0, "pop")
    assert (
        ring.dump() == [0]
        and ring.push(2, front=True)
        and ring.pop(back=True) == 0
        and ring.pop() == 2
        and ring.pop() == -1
    )
    engine.call(0, "pop")
    for index in (1, 1, 2):
        engine.call(0, "slot", index)
    assert [engine.call(0, "used", i) or 0 for i in (0, 1, 2)] == [0, 1, 0] and slots.used(1) and not slots.used(0)
    engine.call(0, "unslot", 0)
    engine.call(0, "unslot", 1)
    assert (engine.cells[0]["n"].value, slots.dump()) == (3, [-1, -1])
    assert engine.drops(0) == {"fault": 4}


@both
def test_loops(target: str) -> None:
    i, total = loc("i"), loc("t")
    body = (
        ops.Set("t", c(0)),
        ops.For(
            "i",
            loc("n"),
            10,
            (
                ops.If(Cmp("eq", i, c(2)), (ops.Continue(),)),
                ops.If(Cmp("eq", i, c(6)), (ops.Break(),)),
                ops.Set("t", Bin("add", U32, total, i)),
            ),
        ),
        ops.Return(total),
    )
    engine = start(target, alone(unit_of(entry("f", U32, body, Param("n", U32)))))
    assert [engine.call(0, "f", n) or 0 for n in (0, 3, 10, 11)] == [0, 1, 0 + 1 + 3 + 4 + 5, 0]
    assert engine.drops(0) == {"fault": 1}


@both
def test_makes_that_fail_are_counted(target: str) -> None:
    body = (
        ops.Make("p", loc("n")),
        ops.If(ops.IsNone(P), (ops.Return(ops.TRUE),)),
        ops.Clone("q", P),
        ops.Kill(P, 0),
        ops.If(ops.IsNone(loc("q", PACKET)), (ops.Return(ops.TRUE),)),
        ops.Kill(loc("q", PACKET), -1),
        ops.Return(ops.FALSE),
    )
    engine = start(target, alone(unit_of(entry("f", BOOL, body, Param("n", U32)), reasons=("old",))))
    assert engine.call(0, "f", 60) == 0 and engine.call(0, "f", 4000) == 1
    kept = [engine.arena.make(1) for _ in range(63)]
    assert engine.call(0, "f", 60) == 1
    kept.append(engine.arena.make(1))
    assert engine.call(0, "f", 60) == 1
    assert (engine.arena.counter("exhausted"), engine.arena.counter("too_long"), engine.drops(0)) == (2, 1, {"old": 2})


@both
def test_clone_copies_all(target: str) -> None:
    body = (
        ops.Clone("q", P),
        ops.If(ops.IsNone(loc("q", PACKET)), (ops.Return(),)),
        ops.RingPush("r", loc("q", PACKET)),
    )
    engine = start(
        target, alone(unit_of(entry("f", VOID, body, Param("p", PACKET)), states=(State("r", "ring", PACKET, 3),)))
    )
    packet = engine.arena.make_from(DATA)
    packet.set_mark("net", 14)
    packet.anno[3] = 9
    packet.timestamp = 5
    engine.call(0, "f", packet)
    other = type(packet)(engine.arena, engine.cells[0]["r"].pop())
    assert other.frame != packet.frame and bytes(other) == DATA and other.live
    assert (other.mark("net"), bytes(other.anno), other.timestamp) == (14, bytes(packet.anno), 5)


def test_random_is_the_same() -> None:
    unit = unit_of(entry("f", U32, (ops.Return(ops.Random()),)))
    a, z = (start(t, alone(unit), seed=42) for t in TARGETS)
    assert [a.call(0, "f") for _ in range(50)] == [z.call(0, "f") for _ in range(50)]


@both
def test_helpers_fault_through_and_lend(target: str) -> None:
    helper = ops.Call(U8, "peek", (P, loc("n")))
    peek = (ops.Return(PLoad(U8, P, "data", loc("n"))),)
    from mezzo.ir.module import Function

    unit = unit_of(
        Function("peek", (Param("p", PACKET), Param("n", U32)), U8, peek),
        entry(
            "f",
            U8,
            (
                ops.Make("p", c(3)),
                ops.If(ops.IsNone(P), (ops.Return(c(0, U8)),)),
                ops.PStore(P, "data", c(2), c(7, U8)),
                ops.Set("x", helper),
                ops.Kill(P, -1),
                ops.Return(loc("x", U8)),
            ),
            Param("n", U32),
        ),
    )
    engine = start(target, alone(unit))
    assert engine.call(0, "f", 2) == 7
    engine.call(0, "f", 3)
    assert (engine.drops(0), engine.arena.held) == ({"fault": 1}, 0)
