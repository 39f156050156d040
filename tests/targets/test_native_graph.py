"""Instances together: pushes, pulls, wakes, timers, traces, hosts, and doors made on demand."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State
from mezzo.ir.ops import KILL, Cast, Const, PLoad
from mezzo.ir.types import BOOL, I64, PACKET, U8, U32, U64, U128, VOID
from tests.targets.native_units import TARGETS, P, bump, c, entry, loc, plain, start, unit_of

both = pytest.mark.parametrize("target", TARGETS)
N = State("n", "scalar", U64)

# By the first byte: 0 and 1 leave there, 9 dies quietly, 8 with a reason, 7 has no such output, else consumed before.
SWITCH = unit_of(
    Function(
        "process",
        (Param("p", PACKET),),
        U32,
        (
            ops.Set("b", Cast(U32, PLoad(U8, P, "data", c(0)))),
            ops.If(ops.Cmp("eq", loc("b"), c(9)), (ops.Return(c(KILL)),)),
            ops.If(ops.Cmp("eq", loc("b"), c(8)), (ops.Return(c(KILL), 0),)),
            ops.If(ops.Cmp("eq", loc("b"), c(7)), (ops.Return(c(7), 1),)),
            ops.If(ops.Cmp("gt", loc("b"), c(1)), (ops.Kill(P, 0), ops.Return())),
            ops.Return(loc("b")),
        ),
    ),
    reasons=("odd", "lost"),
)
SINK = unit_of(
    Function("push", (Param("port", U32), Param("p", PACKET)), VOID, (bump("n"), ops.Kill(P, -1))), states=(N,)
)
QUEUE = unit_of(
    Function("push", (Param("port", U32), Param("p", PACKET)), VOID, (ops.RingPush("r", P), ops.Wake("down"))),
    Function("pull", (Param("port", U32),), PACKET, (ops.RingPop("q", "r"), ops.Return(loc("q", PACKET)))),
    Function("ready", (), BOOL, (ops.Return(ops.Cmp("lt", ops.Count("r"), c(3))),)),
    states=(State("r", "ring", PACKET, 4),),
)
SCHEDULER = unit_of(
    entry(
        "run",
        U64,
        (ops.RunTask("again", c(0)), ops.FireTimer(c(0)), ops.Return(Cast(U64, loc("again", BOOL)))),
        Param("rounds", U64),
    ),
    Function(
        "wake", (Param("task", U32),), VOID, (bump("woken", ops.Bin("add", U64, c(100, U64), Cast(U64, loc("task")))),)
    ),
    Function("timer_set", (Param("timer", U32), Param("at", U64)), VOID, (ops.Put("at", loc("at", U64)),)),
    Function("timer_clear", (Param("timer", U32),), VOID, (ops.Put("at", c(0, U64)),)),
    states=(
        State("woken", "scalar", U64),
        State("at", "scalar", U64),
        State("now", "scalar", U64),
        State("stop", "scalar", U64),
    ),
)
PULLER = unit_of(
    Function(
        "task",
        (),
        BOOL,
        (
            ops.Pull("p", c(0)),
            ops.If(ops.IsNone(P), (ops.Return(ops.FALSE),)),
            bump("n"),
            ops.Emit(c(0), P),
            ops.Return(ops.TRUE),
        ),
    ),
    Function("timer", (), VOID, (ops.TimerSet(ops.Bin("add", U64, ops.Now(), c(5, U64))),)),
    states=(N,),
)


def packets(engine: Any, *firsts: int) -> list[int]:
    made = [engine.arena.make_from(bytes([first, 0])) for first in firsts]
    return [p.frame for p in made]


@both
def test_process_says_where_to(target: str) -> None:
    program = Program((Linked("s", SWITCH, ((1, 0), None, None), (None,)), Linked("d", SINK, (), (None,))), (), ())
    seen: list[tuple[int, int, int]] = []
    engine = start(target, program, trace=lambda *a: seen.append(a))
    for frame in packets(engine, 0, 0, 1, 2, 7, 8, 9, 9):
        engine.push(0, 0, frame)
    empty = engine.arena.make(0)
    engine.push(0, 0, empty.frame)
    assert engine.cells[1]["n"].value == 2
    assert engine.drops(0) == {"fault": 1, "no output": 1, "odd": 2, "lost": 1}
    assert engine.drops(1) == {} and engine.arena.held == 0
    assert seen[:3] == [(0, 0, 0), (1, 0, 0), (0, 0, 1)] and len(seen) == 11


def pulling() -> Program:
    """scheduler 0; queue 1 -> switch 2 (pull; its output 1 pushes to sink 4) -> puller 3 -> sink 4."""
    return Program(
        (
            Linked("scheduler", SCHEDULER),
            Linked("q", QUEUE, (None,), (None,), (True,), (False,), wake_down=(0,)),
            Linked("s", SWITCH, (None, (4, 0)), ((1, 0),), (True, False), (True,), wake_down=(0,)),
            Linked("u", PULLER, ((4, 0),), ((2, 0),), (False,), (True,), task=0, timer=0, ready=((1,),)),
            Linked("d", SINK, (), (None,)),
        ),
        (3,),
        (3,),
    )


@both
def test_pull_through_process(target: str) -> None:
    seen: list[tuple[int, int, int]] = []
    engine = start(target, pulling(), trace=lambda *a: seen.append(a))
    for frame in packets(engine, 0, 1, 9):
        engine.push(1, 0, frame)
    engine.now_ns = 10
    assert [engine.run(1) for _ in range(4)] == [1, 0, 0, 0]
    assert engine.cells[0]["at"].value == 15
    # Three arrivals, and two packets that left on the way of a pull.
    assert engine.cells[0]["woken"].value == 500
    assert (engine.cells[3]["n"].value, engine.cells[4]["n"].value, engine.arena.held) == (1, 2, 0)
    assert [(i, p) for i, p, _ in seen] == [(1, 0)] * 3 + [(1, 0), (2, 0), (4, 0), (1, 0), (4, 0), (1, 0)]


@both
def test_doors_on_demand(target: str) -> None:
    engine = start(target, pulling())
    first, second = packets(engine, 0, 0)
    engine.push(4, 0, first)  # connected, so no door was made for it
    engine.push(1, 0, second)
    assert engine.call(1, "ready") == 1
    assert engine.pull(2, 0) == second and engine.pull(2, 0) == -1
    assert engine.cells[4]["n"].value == 1
    engine.arena.free(second)
    assert engine.arena.held == 0


@both
def test_ready_asks_all(target: str) -> None:
    asker = unit_of(entry("f", BOOL, (ops.Return(ops.Ready(0)),)))
    program = Program((Linked("a", asker, ready=((1, 2),)), Linked("q", QUEUE), Linked("r", QUEUE)), (), ())
    engine = start(target, program)
    for frame in packets(engine, 0, 0):
        engine.push(2, 0, frame)
    assert engine.call(0, "f") == 1
    engine.push(2, 0, packets(engine, 0)[0])
    assert engine.call(0, "f") == 0


@both
def test_emit_by_number(target: str) -> None:
    body = (
        ops.Make("q", c(1)),
        ops.If(ops.IsNone(loc("q", PACKET)), (ops.Return(),)),
        ops.Emit(loc("i"), loc("q", PACKET), 0),
    )
    source = unit_of(entry("f", VOID, body, Param("i", U32)), reasons=("nowhere",))
    program = Program((Linked("a", source, ((1, 0), None, (1, 0))), Linked("d", SINK, (), (None,))), (), ())
    engine = start(target, program)
    for port in (0, 1, 2, 3, 0xFFFF_FFFE):
        engine.call(0, "f", port)
    assert (engine.cells[1]["n"].value, engine.drops(0), engine.arena.held) == (2, {"nowhere": 3}, 0)


HOSTED = unit_of(
    entry(
        "f",
        I64,
        (ops.Return(ops.Host("m", P, (loc("a", I64), Const(U128, 1 << 127), Const(U8, 200)))),),
        Param("p", PACKET),
        Param("a", I64),
    ),
    entry("g", I64, (ops.Return(ops.Host("k", None, ())),)),
    states=(State("stop", "scalar", U64),),
    hosts=("m", "k"),
)


@both
def test_hosts(target: str) -> None:
    got: list[Any] = []

    def m(packet: Any, *args: int) -> int:
        got.append((bytes(packet), args))
        return -4

    def k() -> int | None:
        raise ValueError("from k")

    engine = start(target, Program((Linked("h", HOSTED),), (), ()), hosts={(0, "m"): m, (0, "k"): k})
    packet = engine.arena.make_from(b"xy")
    assert engine.call(0, "f", packet, -9) == -4
    assert got == [(b"xy", (-9, 1 << 127, 200))]
    with pytest.raises(ValueError, match="from k"):
        engine.call(0, "g")
    assert engine.cells[0]["stop"].value == 1
    assert engine.call(0, "f", packet, 1) == -4


def test_contents_are_taken_over() -> None:
    states = (State("t", "table", U32, 8, U32), State("l", "lpm", U32, 0, U32), State("r", "ring", PACKET, 3), N)
    program = Program((Linked("x", unit_of(states=states)),), (), ())
    cells = plain(program)
    cells[0]["t"].set(5, 6)
    cells[0]["l"].add(0x0A000000, 8, 3)
    cells[0]["r"].push(1)
    cells[0]["n"].value = 1 << 63
    engine = start("native", program, cells=cells)
    for name, cell in engine.cells[0].items():
        assert cell.dump() == cells[0][name].dump()


def test_clock_and_wall_time() -> None:
    unit = unit_of(
        entry("clock", U64, (ops.ReadClock("t"), ops.Return(loc("t", U64)))),
        entry("wall", U64, (ops.Return(ops.WallTime()),)),
        states=(State("now", "scalar", U64),),
    )
    import time

    engine = start("native", Program((Linked("x", unit),), (), ()))
    before = time.monotonic_ns()
    assert before <= engine.call(0, "clock") <= time.monotonic_ns()
    engine.now_ns, engine.epoch_ns = 7, 1000
    assert (engine.call(0, "wall"), engine.now_ns) == (1007, 7)
