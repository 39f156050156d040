"""The kernel's half of an element, then the whole one for what it sends up, is the whole element: bit for bit.

`Levels` is that in Python, so it needs no rights: the half runs first, and a packet that it punts goes through the
whole one from the same input on, with the same state.  Where there are rights, the half is an XDP program.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from mezzo.elements import library
from mezzo.elements.ether_switch import EtherSwitch
from mezzo.elements.paint import PaintTee
from mezzo.ir import ops
from mezzo.ir.linear import check_linear
from mezzo.ir.module import Function, Param, State, Unit
from mezzo.ir.ops import Body
from mezzo.ir.spec import check_unit, nodes
from mezzo.ir.types import BOOL, PACKET, U8, U32, U64
from mezzo.packet.arena import Packet
from mezzo.pipeline import compile_text
from mezzo.targets import kernel, load_target, python
from mezzo.targets.kernel.punt import COST, COSTLY, Half, adds, adds_in_arrays, half_of, sets
from mezzo.targets.python.build import build_unit
from mezzo.targets.python.run import Instance
from mezzo.tools import _agree
from mezzo.tools._agree import Agreement, compare
from mezzo.tools._random_packets import cases
from mezzo.tools.verify import class_bench
from tests.targets import test_native_random as whole
from tests.targets.native_units import TARGETS, P, bump, c, loc, unit_of

UP = ops.PUNT
Q = ops.Local(PACKET, "q")
CLONE: Body = (ops.Clone("q", P), ops.If(ops.Not(ops.IsNone(Q)), (ops.Kill(Q, -1),)))
ANNO = ops.Anno(U8, P, 16)
IS_7 = ops.Cmp("eq", ANNO, c(7, U8))
COUNT = State("n", "scalar", U64)
LAST = State("last", "scalar", U32)


def process(*body: ops.Stmt, states: tuple[State, ...] = (COUNT, LAST), helpers: tuple[Function, ...] = ()) -> Unit:
    return unit_of(Function("process", (Param("p", PACKET),), U32, body), *helpers, states=states)


def body_of(half: Half) -> Body:
    assert half.unit is not None
    check_unit(half.unit)
    check_linear(half.unit)
    return next(f.body for f in half.unit.functions if f.name in ("process", "push"))


RETURN, UPWARD = ops.Return(c(0)), ops.Return(c(UP))
UP_IF_7 = ops.If(IS_7, (UPWARD,))


def test_what_goes_stays_as_it_is() -> None:
    unit = process(bump("n"), RETURN)
    half = half_of(unit)
    assert half.is_whole and body_of(half) == unit.functions[0].body


def test_a_side_that_does_not_go_is_punted() -> None:
    half = half_of(process(ops.If(IS_7, CLONE), RETURN))
    assert body_of(half) == (UP_IF_7, RETURN)
    assert "it makes packets" in half.ups[0].message and not half.is_whole


def test_nothing_is_changed_before_a_punt() -> None:
    """Whatever the change is; what changed on the other side does not matter."""
    changes: list[ops.Stmt] = [
        bump("n"), ops.Put("last", c(1)), ops.PStore(P, "data", c(0), c(1, U8)), ops.AnnoSet(P, 3, c(1, U8)),
        ops.MarkClear(P, "net"), ops.Resize("strip", P, c(2)), ops.MetaSet(P, "timestamp", c(1, U64)),
        ops.Set("x", ops.Random()),
    ]  # fmt: skip
    for change in changes:
        assert half_of(process(change, *CLONE, RETURN)).unit is None
        half = half_of(process(ops.If(IS_7, (change, *CLONE)), bump("n"), RETURN))
        assert body_of(half) == (UP_IF_7, bump("n"), RETURN)


def test_what_only_looks_comes_before_a_punt() -> None:
    look = ops.Set("x", ops.Cast(U32, ANNO))
    rest = ops.If(ops.Cmp("eq", loc("x"), c(7)), CLONE)
    assert body_of(half_of(process(look, rest, RETURN)))[0] == look
    # Looks that lead nowhere else are not worth having.
    assert half_of(process(look, *CLONE, ops.Return(loc("x")))).unit is None


def test_a_condition_is_not_asked_twice() -> None:
    """`asks`, as of ARPQuerier: something is written only where it is so, and it is asked again at the end."""
    asks = ops.Local(BOOL, "asks")
    body = (ops.Set("asks", IS_7), ops.If(asks, (bump("n"),)), ops.AnnoSet(P, 0, c(1, U8)), ops.If(asks, CLONE), RETURN)
    half = half_of(process(*body))
    found = body_of(half)
    assert found == (ops.Set("asks", IS_7), ops.If(asks, (UPWARD,), (ops.AnnoSet(P, 0, c(1, U8)), RETURN)))
    tab = State("tab", "table", U64, 4, U32)
    for change in (ops.Set("asks", ops.Not(asks)), ops.TablePut("asks", "tab", c(1), c(1, U64))):
        assert half_of(process(*body[:2], change, *body[2:], states=(COUNT, tab))).unit is None


def test_ways_that_meet_again_are_kept_once() -> None:
    looks = ops.If(IS_7, (ops.Set("x", c(1)), ops.If(ops.Cmp("eq", loc("x"), c(2)), (bump("n"), RETURN))))
    half = half_of(process(ops.Set("x", c(0)), looks, ops.If(IS_7, (RETURN,)), *CLONE, RETURN), None)
    returns = [n for n in nodes(body_of(half)) if isinstance(n, ops.Return)]
    assert returns.count(UPWARD) == 1


def test_long_bodies_are_cut_without_end() -> None:
    """Statements in a row are no levels of Python's stack."""
    looks = tuple(ops.If(ops.Cmp("eq", ANNO, c(n % 200, U8)), (ops.Set(f"x{n}", c(n)),)) for n in range(700))
    half = half_of(process(*looks, ops.If(IS_7, CLONE), bump("n"), RETURN), None)
    assert half.unit is not None and not half.is_whole
    assert half_of(process(*looks, *CLONE, RETURN), None).unit is None


def test_helpers_count_where_they_are_called() -> None:
    makes = Function("makes", (), U32, (ops.Make("q", c(9)), ops.Kill(ops.Local(PACKET, "q"), -1), ops.Return(c(1))))
    writes = Function("writes", (), U32, (bump("n"), ops.Return(c(1))))
    ask = ops.Set("x", ops.Call(U32, "makes", ()))
    half = half_of(
        process(ops.If(IS_7, (ask,)), ops.Eval(ops.Call(U32, "writes", ())), RETURN, helpers=(makes, writes))
    )
    assert half.unit is not None and [f.name for f in half.unit.functions] == ["process", "writes"]
    assert [s.name for s in half.unit.states] == ["n"]
    written = (ops.Set("x", ops.Call(U32, "writes", ())), ops.If(IS_7, CLONE), RETURN)
    assert half_of(process(*written, helpers=(makes, writes))).unit is None


def test_a_long_way_is_left_unless_it_is_asked_for() -> None:
    long = tuple(ops.PStore(P, "data", c(i % 9), c(i % 200, U8)) for i in range(COSTLY))
    unit = process(ops.If(IS_7, long), RETURN)
    half = half_of(unit)
    assert body_of(half) == (UP_IF_7, RETURN) and half.ups[0].message == COST
    assert half_of(unit, None).is_whole


def test_a_loop_counts_by_its_rounds() -> None:
    loop = ops.For("i", c(40), 40, tuple(ops.PStore(P, "data", loc("i"), c(1, U8)) for _ in range(20)))
    assert half_of(process(ops.If(IS_7, (loop,)), RETURN)).ups[0].message == COST


def test_ways_that_set_what_others_may_set_are_left() -> None:
    unit = process(ops.If(IS_7, (ops.Put("last", c(1)),)), bump("n"), RETURN)
    assert half_of(unit).is_whole and (sets(unit), adds(unit)) == ({"last"}, {"n"})
    own = ops.Index(U64, "counts", c(1))
    grow = ops.Store("counts", c(1), ops.Bin("add", U64, own, c(1, U64)))
    arrays = (State("counts", "array", U64, 4),)
    for what in (ops.Bin("mul", U64, own, c(2, U64)), ops.Bin("add", U64, own, own), c(7, U64)):
        other = ops.Store("counts", c(1), what)
        assert sets(process(other, RETURN, states=arrays)) == {"counts"}
    grows = process(grow, RETURN, states=arrays)
    assert (sets(grows), adds_in_arrays(grows)) == (set(), {"counts"})
    half = half_of(unit, raced=frozenset({"last"}))
    assert body_of(half) == (UP_IF_7, bump("n"), RETURN)
    assert "it changes `last`, which it also reads" in half.ups[0].message
    assert half_of(unit, raced=frozenset({"n"})).unit is None


def test_halves_of_one_unit_have_names_of_their_own() -> None:
    unit = replace(process(ops.If(IS_7, CLONE), ops.Put("last", c(1)), RETURN), digest="x")
    digests = {half.unit.digest for half in (half_of(unit), half_of(unit, None)) if half.unit is not None}
    assert len(digests) == 2 and "x" not in digests


def test_usual_work_of_elements() -> None:
    """What is meant to stay: no look at a way that goes up in the middle of the usual one."""
    text = "Idle -> [0] s :: EtherSwitch; s[0] -> t :: PaintTee(3) -> d :: Discard; t[1] -> d; Idle -> [1] s; s[1] -> d"
    plan = compile_text(text)
    units = {type(e): x.unit for e, x in zip(plan.elements, plan.whole().instances, strict=True)}
    tee, switch = half_of(units[PaintTee]), half_of(units[EtherSwitch])
    assert len(body_of(tee)) == 1
    assert {n.state for n in nodes(body_of(switch)) if isinstance(n, ops.Store)} == {"seen"}
    assert switch.unit is not None and "lost" not in {s.name for s in switch.unit.states}


# -- the proof


class Low(Instance):
    """The half of an instance; `above` is the whole one."""

    above: Instance
    port = 0

    def take_in(self, port: int, packet: Packet) -> None:
        self.port = port
        self.work_on(port, packet)

    def leave(self, port: int, packet: Packet, reason: int) -> None:
        if port == UP:
            self.engine.punted += 1  # type: ignore[attr-defined]
            self.above.work_on(self.port, packet)
        else:
            super().leave(port, packet, reason)


class Levels:
    """A target whose instances have their halves below them."""

    def __init__(self, most: int | None = COSTLY) -> None:
        self.most, self.cut = most, 0

    def build(self, program: Any, *given: Any, **more: Any) -> Any:
        engine = python.build(program, *given, **more)
        engine.punted = 0  # type: ignore[attr-defined]
        for i, linked in enumerate(program.instances):
            half = half_of(linked.unit, self.most)
            if half.unit is not None:
                check_unit(half.unit)
                check_linear(half.unit)
                self.cut += not half.is_whole
                low = Low(engine, i, replace(linked, unit=half.unit), engine.cells[i], build_unit(half.unit, 1000 + i))
                low.above, low.counts = engine.instances[i], engine.instances[i].counts
                engine.instances[i] = low
        return engine


class Looker(whole.Maker):
    """Random units that look more than they write, so that halves are cut at many places."""

    def stmt(self, depth: int, in_loop: bool) -> Body:
        kind = self.r.random()
        if kind < 0.35:
            t = self.r.choice([*whole.INTS, BOOL])
            return (ops.Set(f"v{t}", self.expr(t, 2)),)
        if kind < 0.75 and depth > 0:
            then, orelse = self.body(depth - 1, in_loop), self.body(depth - 1, in_loop) if kind < 0.6 else ()
            ends = () if in_loop or self.r.random() < 0.4 else (ops.Return(self.small(3)),)
            return (ops.If(ops.Local(BOOL, "vbool") if kind < 0.45 else self.boolean(BOOL, 2), (*then, *ends), orelse),)
        return super().stmt(depth, in_loop)


@pytest.fixture
def levels(monkeypatch: pytest.MonkeyPatch) -> Levels:
    made = Levels()
    monkeypatch.setitem(TARGETS, "levels", made)
    return made


@pytest.mark.slow
def test_random_units_in_python(levels: Levels) -> None:
    for seed in range(150):
        levels.most = None if seed % 2 else 150
        program = Looker(seed).program()
        assert whole.play("levels", program, seed) == whole.play("python", program, seed), seed
    assert levels.cut > 40


@pytest.mark.slow
@pytest.mark.needs_root
def test_random_units_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "kernel", kernel)
    cut = 0
    for seed in range(40):
        program = Looker(seed).program()
        cut += bool(half_of(program.instances[0].unit, None).ups)
        assert whole.play("kernel", program, seed) == whole.play("python", program, seed), seed
    assert cut > 20


MIXED = {"ARPQuerier", "EtherSwitch", "IPFragmenter", "IPGWOptions", "IPReassembler"}
OTHERS = {"PaintTee", "ICMPError", "CheckIPHeader", "Print", "LoopGuard", "Queue"}


def agree(monkeypatch: pytest.MonkeyPatch, target: Any, packets: int) -> dict[str, int]:
    """Class -> packets that went up, as their examples have them; the first that does not agree fails the test."""
    monkeypatch.setattr(_agree, "load_target", lambda name: target if name == "levels" else load_target(name))
    went: dict[str, int] = {}
    for name in sorted(MIXED | OTHERS):
        cls = library.maybe_find(name)
        assert cls is not None
        bench, _ = class_bench(cls, None)
        if bench is not None:
            found = compare(bench, ("python", "levels"), list(cases(packets, 11, len(bench.entries))))
            assert isinstance(found, Agreement), (name, found)
            went[name] = found.punted
    return went


@pytest.mark.slow
def test_elements_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    went = agree(monkeypatch, Levels(), 60)
    assert {name for name, ups in went.items() if 0 < ups < 60} >= MIXED


@pytest.mark.slow
@pytest.mark.needs_root
def test_elements_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the halves that `auto` places; `test_kernel_library` has those that are asked for."""
    went = agree(monkeypatch, SimpleNamespace(build=partial(kernel.build, most=COSTLY)), 100)
    assert {name for name, ups in went.items() if 0 < ups < 100} >= MIXED
