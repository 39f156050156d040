"""State that moves from one engine to another, as at a reload: words go along, bodies stay where they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from mezzo.ir import ops
from mezzo.ir.module import Linked, Param, Program, State, Unit
from mezzo.ir.types import I64, PACKET, U8, U32, U64, U128
from mezzo.packet.arena import Arena
from mezzo.targets.native import inherit, moving
from tests.targets.native_units import bump, c, entry, loc, start, unit_of

STATES = (
    State("n", "scalar", U64),
    State("wide", "scalar", U128),
    State("small", "array", I64, 4),
    State("large", "array", U32, 4096),
    State("t", "table", U64, 50, U32),
    State("flows", "lru", U64, 2, U32),
    State("few", "lpm", U32, 0, U32),
    State("many", "lpm", U32, 0, U32),
    State("six", "lpm", U32, 0, U128),
    State("ring", "ring", PACKET, 5),
    State("held", "slots", PACKET, 3),
    State("text", "buffer", U8, 64),
    State("given", "blob", U8),
)
NAMES = frozenset(s.name for s in STATES)
Way = Callable[[Any, int, Any, int], None]
ASK = (
    entry("more", U64, (bump("n"), ops.Return(ops.Get(U64, "n")))),
    entry("cell", U32, (ops.Return(ops.Index(U32, "large", loc("k"))),), Param("k", U32)),
    entry("find", U64, (ops.Return(ops.TableGet(U64, "t", loc("k"), c(0, U64))),), Param("k", U32)),
    entry("short", U32, (ops.Return(ops.LpmGet(U32, "few", loc("k"), c(77))),), Param("k", U32)),
    entry("route", U32, (ops.Return(ops.LpmGet(U32, "many", loc("k"), c(77))),), Param("k", U32)),
    entry("long", U32, (ops.Return(ops.LpmGet(U32, "six", loc("k", U128), c(77))),), Param("k", U128)),
    entry("take", PACKET, (ops.RingPop("q", "ring"), ops.Return(loc("q", PACKET)))),
    entry("byte", U8, (ops.Return(ops.BlobLoad(U8, "given", c(0))),)),
)


def whole(unit: Unit, before: int) -> Program:
    """The unit behind others, so that it lies elsewhere."""
    return Program((*(Linked(f"x{i}", unit) for i in range(before)), Linked("it", unit)), (), ())


def one_by_one(new: Any, instance: int, old: Any, its: int) -> None:
    inherit(new, instance, old, its, NAMES)


def at_once(new: Any, instance: int, old: Any, its: int) -> None:
    move = moving(new, old)
    assert move.keep(instance, its)
    move.apply()


def at_once_and_behind(new: Any, instance: int, old: Any, its: int) -> None:
    move = moving(new, old)
    assert move.keep(instance, its)
    move.apply()
    move.settle()


WAYS = pytest.mark.parametrize("way", [one_by_one, at_once, at_once_and_behind])


@WAYS
def test_everything_goes_along(way: Way) -> None:
    unit = unit_of(*ASK, states=STATES)
    arena = Arena(64)
    old = start("native", whole(unit, 1), arena=arena)
    new = start("native", whole(unit, 4), arena=arena)
    cells = old.cells[1]
    cells["n"].value, cells["wide"].value, cells["small"][3], cells["large"][4000] = 41, 1 << 100, -7, 99
    cells["t"].set(5, 6)
    for key in (1, 2, 3):
        cells["flows"].set(key, key)
    cells["few"].add(0x0A000000, 8, 3)
    for i in range(300):
        cells["many"].add(i << 20, 16, i)
    cells["six"].add(1 << 127, 1, 8)
    frames = [arena.make_from(b"abc").frame for _ in range(3)]  # type: ignore[union-attr]
    assert all(map(cells["ring"].push, frames))
    cells["held"].put(2, arena.make_from(b"x").frame)  # type: ignore[union-attr]
    cells["text"].append(b"said")
    cells["given"].bind(b"Z")
    way(new, 4, old, 1)
    assert new.cells[4]["t"] is cells["t"]
    assert new.call(4, "more") == 42 == cells["n"].value
    assert (cells["wide"].value, cells["small"][3], new.call(4, "cell", 4000)) == (1 << 100, -7, 99)
    assert (new.call(4, "find", 5), len(cells["t"])) == (6, 1)
    assert (cells["flows"].items(), cells["flows"].forgotten) == ([(2, 2), (3, 3)], 1)
    assert (new.call(4, "short", 0x0A000001), new.call(4, "route", 7 << 20), new.call(4, "long", 3 << 126)) == (3, 7, 8)
    assert (new.call(4, "take"), len(cells["ring"]), cells["held"].used(2)) == (frames[0], 2, True)
    assert (bytes(cells["text"].view()), new.call(4, "byte")) == (b"said", ord("Z"))
    # What is written afterwards is seen by the new code, and by it alone.
    cells["few"].add(0x0B000000, 8, 4)
    cells["many"].add(0xFF000000, 8, 5)
    cells["six"].add(0, 0, 6)
    assert cells["t"].set(9, 10) and cells["ring"].push(frames[0])
    assert (new.call(4, "find", 9), new.call(4, "short", 0x0B000001), new.call(4, "route", 0xFF000001)) == (10, 4, 5)
    assert (new.call(4, "long", 1), new.call(3, "find", 9), len(cells["ring"])) == (6, 0, 3)


@WAYS
def test_inline_words_of_the_old_memory_are_not_touched_any_more(way: Way) -> None:
    unit = unit_of(*ASK, states=STATES)
    arena = Arena(64)
    old, new = start("native", whole(unit, 0), arena=arena), start("native", whole(unit, 0), arena=arena)
    at = old.layout.offsets[0] + old.layout.units[0].states["n"]
    way(new, 0, old, 0)
    new.cells[0]["n"].value = 5
    assert old.memory.get(at, 8) == 0


@WAYS
def test_counts_of_packets_that_died_go_along(way: Way) -> None:
    unit = unit_of(*ASK, states=STATES, reasons=("old",))
    arena = Arena(64)
    old, new = start("native", whole(unit, 0), arena=arena), start("native", whole(unit, 2), arena=arena)
    base = old.layout.offsets[0] + old.layout.units[0].drop(0)
    old.memory.put(base, 8, 12)
    way(new, 2, old, 0)
    assert new.drops(2) == {"old": 12}


def test_nothing_moves_before_it_is_time_and_what_does_not_stay_never() -> None:
    unit = unit_of(*ASK, states=STATES)
    arena = Arena(64)
    old, new = start("native", whole(unit, 2), arena=arena), start("native", whole(unit, 2), arena=arena)
    gone, stays = old.cells[0]["n"], old.cells[2]["n"]
    gone.value, stays.value = 1, 2
    move = moving(new, old)
    assert move.keep(0, 2)
    assert old.call(2, "more") == 3 == stays.value
    move.apply()
    assert (new.call(0, "more"), stays.value, old.call(0, "more"), gone.value) == (4, 4, 2, 2)
    assert new.memory.get(new.layout.offsets[0] + new.layout.units[0].number, 8) == 0
    move.settle()
    assert (new.call(0, "more"), stays.value, gone.value) == (5, 5, 2)


def test_it_moves_again_and_again() -> None:
    unit = unit_of(*ASK, states=STATES)
    arena = Arena(64)
    engines = [start("native", whole(unit, n), arena=arena) for n in (3, 0, 5, 2)]
    cell = engines[0].cells[3]["n"]
    for (old, its), (new, instance) in pairwise(zip(engines, (3, 0, 5, 2), strict=True)):
        at_once_and_behind(new, instance, old, its)
        new.call(instance, "more")
    assert cell.value == 3
    assert cell._memory.seat[0] is engines[3].blocks[0].seat[0], "and stands on the ground of the last one"


def test_an_instance_of_another_form_does_not_go_at_once() -> None:
    arena = Arena(64)
    old = start("native", whole(unit_of(*ASK, states=STATES), 0), arena=arena)
    new = start("native", whole(unit_of(*ASK, states=STATES, reasons=("one", "two", "three")), 0), arena=arena)
    assert not moving(new, old).keep(0, 0)
