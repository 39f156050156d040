"""One unit that holds every node kind once or more."""

from __future__ import annotations

from mezzo.ir import ops as o
from mezzo.ir.module import Function, Param, State, Unit
from mezzo.ir.ops import u32
from mezzo.ir.types import BOOL, I64, PACKET, U8, U16, U32, U48, U64, VOID

P, Q = o.Local(PACKET, "p"), o.Local(PACKET, "q")
N, B = o.Local(U32, "n"), o.Local(BOOL, "b")
STATES = (
    State("count", "scalar", U64),
    State("cells", "array", U16, 8),
    State("seen", "table", U32, 100, U48),
    State("last", "lru", U32, 100, U48),
    State("routes", "lpm", VOID, 0, U32),
    State("ring", "ring", VOID, 4),
    State("slots", "slots", VOID, 4),
    State("log", "buffer", VOID, 64),
    State("image", "blob", VOID),
)


def c64(value: int) -> o.Const:
    return o.Const(U64, value)


def every_unit() -> Unit:
    key = o.Const(U48, 0x0011_2233_4455)
    reads = (
        o.Set("n", o.Bin("add", U32, o.Meta(U32, P, "length"), u32(70000))),
        o.Set("b", o.Logic("or", o.Not(o.Cmp("le", N, u32(3))), o.Ready(1))),
        o.Set("n", o.Select(U32, B, o.Cast(U32, o.PLoad(U16, P, "net", N)), o.Random())),
        o.Set("a", o.Anno(U32, P, 0, "big")),
        o.Set("a", o.Anno(U32, P, 20)),
        o.Set("s", o.Sum16(P, "data", u32(0), N, u32(0))),
        o.Set("g", o.Bin("shr", U64, o.Get(U64, "count"), o.Now())),
        o.Set("i", o.Index(U16, "cells", N)),
        o.Set("n", o.TableGet(U32, "seen", key, u32(0))),
        o.Set("b", o.TableHas("seen", key)),
        o.Set("n", o.LruGet(U32, "last", key, u32(0))),
        o.Set("b", o.LruHas("last", key)),
        o.Set("n", o.LpmGet(U32, "routes", N, u32(9))),
        o.Set("n", o.Bin("mul", U32, o.Count("ring"), o.Cast(U32, o.SlotUsed("slots", u32(1))))),
        o.Set("w", o.Bin("xor", U64, o.BlobLoad(U64, "image", c64(8)), o.WallTime())),
        o.Set("w", o.BlobLoad(U64, "image", c64(8), "big")),
        o.Set("e", o.PLoad(U32, P, "data", u32(1), "little")),
    )
    writes = (
        o.PStore(P, "trans", u32(2), o.Const(U16, 0)),
        o.PStore(P, "mac", u32(2), o.Const(U64, 0), "little"),
        o.MetaSet(P, "net", o.Const(I64, -14)),
        o.MarkClear(P, "trans"),
        o.AnnoSet(P, 16, o.Const(U8, 1)),
        o.Resize("strip", P, u32(14)),
        o.Clone("q", P),
        o.If(o.IsNone(Q), (o.Kill(P, 0), o.Return())),
        o.Copy(P, "data", u32(0), Q, "net", u32(4), u32(8)),
        o.CopyBlob(P, "data", u32(0), "image", c64(0), u32(8)),
        o.Emit(u32(1), Q, 1),
        o.Put("count", c64(1)),
        o.Store("cells", u32(1), o.Const(U16, 2)),
        o.TablePut("b", "seen", key, u32(1)),
        o.TablePut("", "seen", key, u32(1)),
        o.TableDel("b", "seen", key),
        o.TableDel("", "seen", key),
        o.TablePut("b", "last", key, u32(1)),
        o.TableDel("", "last", key),
        o.SlotPut("slots", u32(0), P),
        o.BufPut("log", o.Const(U16, 1)),
        o.BufPut("log", o.Const(U16, 1), "big"),
        o.Wake("up"),
        o.Return(),
    )
    births = (
        o.Eval(o.Call(VOID, "helper", (u32(1),))),
        o.For(
            "i",
            u32(4),
            4,
            (
                o.Pull("p", u32(0)),
                o.If(o.IsNone(P), (o.Break(),), (o.RingPush("ring", P), o.Continue())),
            ),
        ),
        o.Make("p", u32(60)),
        o.If(o.Not(o.IsNone(P)), (o.BufPutPacket("log", P, "data", u32(0), u32(8)), o.RingPush("ring", P, True))),
        o.MakeFrom("p", "image", c64(0), u32(60)),
        o.If(o.Not(o.IsNone(P)), (o.Kill(P, -1),)),
        o.RingPop("p", "ring"),
        o.If(o.Not(o.IsNone(P)), (o.Eval(o.Host("show", P, (o.Const(I64, 1),))), o.Kill(P, -1))),
        o.RingPop("p", "ring", True),
        o.If(o.Not(o.IsNone(P)), (o.Kill(P, -1),)),
        o.SlotTake("p", "slots", u32(0)),
        o.If(o.Not(o.IsNone(P)), (o.Kill(P, -1),)),
        o.Set("w", o.Bin("add", U64, o.MemLoad(U64, c64(8)), o.Cast(U64, o.MemLoad(U8, c64(8), True)))),
        o.Set("n", o.Atomic("swap", U32, c64(8), u32(1))),
        o.Set("w", o.Atomic("add", U64, o.FrameAddress(u32(1)), c64(1))),
        o.Set("s", o.MemSum16(c64(8), u32(20), u32(0))),
        o.Set("r", o.Libc(c64(8), (c64(1), c64(2)))),
        o.MemStore(c64(8), o.Const(U16, 1)),
        o.MemStore(c64(8), o.Local(U64, "w"), True),
        o.MemCopy(c64(8), c64(16), u32(64)),
        o.MemZero(c64(8), u32(64)),
        o.Set("f", o.FrameSize()),
        o.Set("f", o.TakeFrame()),
        o.Adopt("p", o.Local(U32, "f"), u32(128), u32(60)),
        o.Set("n", o.Meta(U32, P, "frame")),
        o.PrefetchFrame(o.Local(U32, "f"), u32(128)),
        o.Lend("f", P),
        o.GiveFrame(o.Local(U32, "f")),
        o.RunTask("again", u32(0)),
        o.FireTimer(u32(0)),
        o.ReadClock("clock"),
        o.TimerSet(o.Bin("add", U64, o.Local(U64, "clock"), c64(1000))),
        o.TimerClear(),
        o.Return(o.Local(BOOL, "again")),
    )
    functions = (
        Function("process", (Param("p", PACKET),), U32, (*reads, *writes)),
        Function("task", (), BOOL, births),
        Function("helper", (Param("n", U32),), VOID, (o.Return(),), entry=True),
        Function("seldom", (Param("n", U32),), VOID, (o.Return(),), rare=True),
    )
    return Unit("Every", functions, STATES, ("no memory", "out of the way"), ("show",))
