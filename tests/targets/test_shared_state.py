"""One state on two levels: programs in the kernel, native code and Python all see the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from mezzo.base import bpf
from mezzo.ir import ops
from mezzo.ir.growth import array_growth
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.ops import Body
from mezzo.ir.types import BOOL, I64, KILL, PACKET, U8, U16, U32, U48, U64, U128, Type
from mezzo.packet.arena import Arena
from mezzo.targets import native
from mezzo.targets.kernel import Part
from mezzo.targets.kernel.common import common_of
from mezzo.targets.kernel.layout import looked_at, lru_entries
from mezzo.targets.kernel.roads import Wire
from mezzo.targets.native.common import Common
from mezzo.targets.native.run import inherit
from tests.targets.native_units import P, bump, c, entry, loc, plain, unit_of

pytestmark = pytest.mark.needs_root
DROP, PASS = 1, 2
FRAME = bytes(range(60))
KEY = ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))


class Both:
    """An instance in the kernel, by which packets pass to the host's stack, and the same natively."""

    def __init__(
        self, unit: Unit, cells: list[dict[str, Any]] | None = None, before: int = 0, old: Both | None = None
    ) -> None:
        # Others in front, so that offsets of blocks and words differ.
        others = [Linked(f"o{n}", unit_of(states=(State("pad", "scalar", U64),))) for n in range(before)]
        self.number = before
        program = Program((*others, Linked("x", unit, (None, None), (None,))), (), ())
        cells = cells or plain(program)
        wires = {(before, 0): Wire("pass")}
        looked = {(before, name) for name in looked_at(unit.functions)}
        more: dict[str, Any] = {"before": old.part} if old is not None else {}
        more |= {"wire": True, "wires": wires, "use_disk": False, "apart": looked}
        self.part = Part(program, [before], [(before, 0)], cells, **more)
        self.common = common_of(self.part, program)
        self.engine: Any = native.build(program, Arena(64), cells, {}, virtual=True, cache=False, common=self.common)
        self.cells = self.engine.cells[before]

    def arrive(self, first: int = 0, repeat: int = 1) -> int:
        return bpf.test_run(self.part.fd, b"", bytes([first, *FRAME[1:]]), repeat=repeat).verdict

    def push(self, first: int = 0) -> None:
        packet = self.engine.arena.make_from(bytes([first, *FRAME[1:]]))
        self.engine.push(self.number, 0, packet.frame)

    def ask(self, name: str, *args: int) -> Any:
        return self.engine.call(self.number, name, *args)

    def close(self) -> None:
        self.engine.close()
        self.part.close()
        self.engine.arena.close()


@pytest.fixture
def both() -> Iterator[Any]:
    made: list[Both] = []

    def make(*args: Any, **more: Any) -> Both:
        made.append(Both(*args, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


def process(*body: ops.Stmt) -> Function:
    return Function("process", (Param("p", PACKET),), U32, body)


def unit(body: Body, *more: Function, states: tuple[State, ...], reasons: tuple[str, ...] = ()) -> Unit:
    return unit_of(process(*body, ops.Return(c(0))), *more, states=states, reasons=reasons)


def getter(state: str, type: Type) -> Function:
    return entry(f"get_{state}", type, (ops.Return(ops.Get(type, state)),))


def setter(state: str, type: Type) -> Function:
    return entry(f"set_{state}", U8, (ops.Put(state, loc("v", type)), ops.Return(c(1, U8))), Param("v", type))


def test_what_is_only_counted_is_summed(both: Any) -> None:
    it = both(unit((bump("n"),), states=(State("n", "scalar", U64),)), before=2)
    assert it.arrive() == PASS
    it.push()
    it.arrive(repeat=3)
    assert (it.cells["n"].value, it.part.cells[2]["n"].counted) == (5, 4)
    it.cells["n"].value = 100
    it.push()
    it.arrive(repeat=2)
    assert it.cells["n"].value == it.cells["n"].dump() == 103
    assert it.common.names(2) == frozenset()  # native code counts as it always does


def test_the_contents_are_taken_over_once(both: Any) -> None:
    states = (State("n", "scalar", U64), State("w", "scalar", U32), State("a", "array", U16, 900))
    read = ops.Set("x", ops.Cast(U32, ops.Index(U16, "a", c(3))))
    made = unit((bump("n"), read, ops.Put("w", ops.Bin("add", U32, ops.Get(U32, "w"), loc("x")))),
                getter("w", U32), states=states)  # fmt: skip
    cells = plain(Program((Linked("x", made),), (), ()))
    cells[0]["n"].load(7)
    cells[0]["w"].load(1)
    cells[0]["a"].load([5] * 900)
    it = both(made, cells)
    assert (it.cells["n"].value, it.ask("get_w"), it.cells["a"].dump()) == (7, 1, [5] * 900)
    it.arrive()
    it.push()
    assert (it.cells["n"].value, it.ask("get_w")) == (9, 11)


@pytest.mark.parametrize("type", [BOOL, U8, U16, U32, U48, U64, I64, U128], ids=str)
def test_words_are_the_same_memory(both: Any, type: Type) -> None:
    """The kernel copies x to y; native code and Python write x and read y."""
    states = (State("pad", "scalar", U8), State("x", "scalar", type), State("y", "scalar", type))
    it = both(unit((ops.Put("y", ops.Get(type, "x")),), setter("x", type), getter("y", type), states=states), before=3)
    for value in (1, type.mask, 1 << (type.bits - 1), 0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0):
        it.ask("set_x", type.wrap(value))
        it.arrive()
        assert it.ask("get_y") == it.cells["y"].value == it.cells["x"].value == type.wrap(value)
        it.cells["x"].value = 77
        it.arrive()
        assert it.ask("get_y") == it.cells["y"].value == type.wrap(77)


def test_what_native_code_looks_at_has_no_lanes(both: Any) -> None:
    """Both add atomically to the one word."""
    it = both(unit((bump("n", c(3, U64)),), getter("n", U64), states=(State("n", "scalar", U64),)))
    it.arrive(repeat=4)
    it.push()
    assert (it.ask("get_n"), it.cells["n"].value) == (15, 15)
    assert "atomicrmw add" in it.engine.code.assembly()


@pytest.mark.parametrize("size", [8, 3000])
def test_elements_of_arrays_that_grow(both: Any, size: int) -> None:
    """Both add atomically, in the same memory."""
    grow = ops.Store("a", loc("i"), ops.Bin("add", U64, ops.Index(U64, "a", loc("i")), c(3, U64)))
    assert array_growth(grow) == c(3, U64)
    body = (ops.Set("i", KEY), grow)
    it = both(unit(body, states=(State("a", "array", U64, size),)), before=1)
    it.arrive(5, repeat=4)
    it.push(5)
    it.arrive(size - 1 & 7)
    assert (it.cells["a"][5], it.cells["a"][size - 1 & 7]) == (15, 3)
    assert "atomicrmw add" in it.engine.code.assembly()


@pytest.mark.parametrize(("type", "size"), [(U8, 8), (U64, 64), (U32, 500), (U64, 600), (I64, 3000), (U128, 20)])
def test_arrays(both: Any, type: Type, size: int) -> None:
    """In the block, in the map of words, and in a map of their own; the kernel copies element k to 0."""
    put = ops.Store("a", c(0), ops.Index(type, "a", KEY))
    write = (ops.Store("a", loc("k"), loc("v", type)), ops.Return(c(1, U8)))
    read = (ops.Return(ops.Index(type, "a", loc("k"))),)
    more = (entry("put", U8, write, Param("k", U32), Param("v", type)), entry("get", type, read, Param("k", U32)))
    it = both(unit((put,), *more, states=(State("first", "scalar", U8), State("a", "array", type, size))), before=1)
    for k, value in ((1, 9), (5, type.mask), (7, 1 << (type.bits - 1))):
        it.ask("put", k, type.wrap(value))
        it.arrive(k)
        assert it.ask("get", 0) == it.cells["a"][0] == it.cells["a"][k] == type.wrap(value)
    it.cells["a"][size - 1] = 3
    assert it.ask("get", size - 1) == 3
    it.cells["a"].load([4] * size)
    it.arrive(2)
    assert it.cells["a"].dump() == [4] * size
    it.push(size if size < 256 else 255)  # outside: a fault here, or an element that is 4
    assert it.engine.drops(1) == ({"fault": 1} if size < 256 else {"no output": 1})


TABLES = [(U8, U8), (U16, I64), (U32, U128), (U48, U32), (U64, U16), (U128, U64), (U64, U48)]


@pytest.mark.parametrize("kind", ["table", "lru"])
@pytest.mark.parametrize(("key", "value"), TABLES, ids=str)
def test_tables(both: Any, key: Type, value: Type, kind: str) -> None:
    """The kernel puts 7 for the first byte; native code and Python do anything: all agree with a dictionary.  One that
    forgets has room for more than it says, and forgets nothing here."""
    k, v, forgets = loc("k", key), loc("v", value), kind == "lru"
    get, has = (ops.LruGet, ops.LruHas) if forgets else (ops.TableGet, ops.TableHas)
    more = (
        entry("get", value, (ops.Return(get(value, "t", k, c(3, value))),), Param("k", key)),
        entry("has", U8, (ops.Return(ops.Select(U8, has("t", k), c(1, U8), c(0, U8))),), Param("k", key)),
        entry("put", U8, (ops.TablePut("d", "t", k, v), *_told()), Param("k", key), Param("v", value)),
        entry("cut", U8, (ops.TableDel("d", "t", k), *_told()), Param("k", key)),
        entry("count", U32, (ops.Return(ops.Count("t")),)),
    )
    put = ops.TablePut("", "t", ops.Cast(key, ops.PLoad(U8, P, "data", c(0))), c(7, value))
    it = both(unit((put,), *more, states=(State("t", kind, value, 20, key),)), before=1)
    table, known, r = it.cells["t"], dict[int, int](), random.Random(3)
    for _ in range(300):
        k_, v_, action = r.randrange(30), value.wrap(r.getrandbits(128)), r.randrange(5)
        room = forgets or k_ in known or len(known) < 20
        if action == 0:
            assert it.arrive(k_) == PASS
        elif action == 1:
            assert bool(it.ask("put", k_, v_)) == room
        elif action == 2:
            assert table.set(k_, v_) == room
        elif action == 3:
            assert bool(it.ask("cut", k_)) == (known.pop(k_, None) is not None)
        else:
            assert table.delete(k_) == (known.pop(k_, None) is not None)
        if action < 3 and room:
            known[k_] = 7 if action == 0 else v_
        asked = r.randrange(30)
        assert it.ask("get", asked) == table.get(asked, 3) == known.get(asked, 3)
        assert it.ask("has", asked) == (asked in known) == (asked in table)
        assert it.ask("count") == min(len(known), 20) and len(table) == len(known)
    assert table.items() == sorted(known.items())
    assert not forgets or table.forgotten == 0


WIDE = ops.Cast(U32, ops.PLoad(U16, P, "data", c(0)))


@pytest.mark.parametrize("size", [1, 30, 3000])
def test_what_a_map_forgets(both: Any, size: int) -> None:
    """It holds at least what it should, not much more, and the count adds up; levels and Python take turns."""
    put = ops.TablePut("", "t", WIDE, ops.Cast(U64, WIDE))
    more = entry("cut", U8, (ops.TableDel("d", "t", loc("k", U32)), *_told()), Param("k", U32))
    it = both(unit((put,), more, states=(State("t", "lru", U64, size, U32),)), before=1)
    table, gone = it.cells["t"], 0
    for made, k in enumerate(range(5 * size + 2000), 1):
        data = k.to_bytes(2, "big") + FRAME[2:]
        if k % 3 == 0:
            it.engine.push(it.number, 0, it.engine.arena.make_from(data).frame)
        elif k % 3 == 1:
            assert bpf.test_run(it.part.fd, b"", data).verdict == PASS
        else:
            assert table.set(k, k)
        if k % 100 == 50:
            gone += bool(it.ask("cut", k - k % 3)) + table.delete(k - 3)
        else:
            assert table.get(k) == k
        if made <= size:
            assert len(table) == made - gone and table.forgotten == 0
        if k % 500 == 499:
            assert min(size, made - gone) - 60 <= len(table) <= lru_entries(size)
            assert table.forgotten == made - gone - len(table)
    forgotten, rows = table.dump()
    assert forgotten > 0 and all(k == v for k, v in rows)
    table.clear()
    assert (len(table), table.forgotten) == (0, forgotten)
    table.load((forgotten, rows))
    assert (table.items(), table.forgotten) == (rows[-size:], forgotten + len(rows) - len(rows[-size:]))


def test_a_map_knows_what_was_used(both: Any) -> None:
    """A look by a program keeps an entry; one from Python does not."""
    has = ops.Set("x", ops.Select(U8, ops.LruHas("t", c(7)), c(1, U8), c(0, U8)))
    put = ops.TablePut("", "t", WIDE, c(7, U64))
    for steps, kept in (((put, has), True), ((put,), False)):
        it = both(unit(steps, states=(State("t", "lru", U64, 1000, U32),)))
        table = it.cells["t"]
        table.set(7, 1)
        for k in range(10, 12_010):
            bpf.test_run(it.part.fd, b"", k.to_bytes(2, "big") + FRAME[2:])
            _ = 7 in table
        assert (7 in table) is kept


def test_a_table_is_read_in_a_few_calls(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a call has room for one bucket at most, and for less."""
    put = ops.TablePut("", "t", KEY, c(7, U64))
    it = both(unit((put,), states=(State("t", "table", U64, 3000, U32),)))
    table, rows = it.cells["t"], [(k * 7919, k) for k in range(3000)]
    table.load(rows)
    for batch in (4096, 100, 1):
        monkeypatch.setattr(bpf, "BATCH", batch)
        assert table.items() == sorted(rows)
        assert len(table) == 3000
    table.clear()
    assert table.items() == []
    it.arrive(9)
    assert table.items() == [(9, 7)]


def _told() -> Body:
    return (ops.Return(ops.Select(U8, ops.Local(BOOL, "d"), c(1, U8), c(0, U8))),)


def test_prefixes_are_written_twice(both: Any) -> None:
    hit = ops.Cmp("eq", ops.LpmGet(U32, "r", ops.PLoad(U32, P, "data", c(0)), c(99)), c(5))
    look = entry("look", U32, (ops.Return(ops.LpmGet(U32, "r", loc("k"), c(99))),), Param("k", U32))
    states = (State("r", "lpm", U32, 0, U32), State("n", "scalar", U64))
    it = both(unit((ops.If(hit, (bump("n"),)),), look, states=states))
    routes = it.cells["r"]
    routes.add(0x0A000000, 8, 5)
    routes.add(0x0A010000, 16, 6)
    address = 0x0A020203
    assert (it.ask("look", address), routes.lookup(address), len(routes)) == (5, 5, 2)
    packet = address.to_bytes(4, "big") + FRAME
    bpf.test_run(it.part.fd, b"", packet)
    routes.add(0x0A020000, 16, 7)
    bpf.test_run(it.part.fd, b"", packet)
    assert (it.cells["n"].value, it.ask("look", address)) == (1, 7)
    assert routes.remove(0x0A020000, 16)
    bpf.test_run(it.part.fd, b"", packet)
    assert (it.cells["n"].value, it.ask("look", address)) == (2, 5)
    routes.load(iter([(0x0A020200, 24, 5), (0, 0, 1)]))
    bpf.test_run(it.part.fd, b"", packet)
    assert (it.cells["n"].value, routes.dump()) == (3, [(0, 0, 1), (0x0A020200, 24, 5)])
    routes.clear()
    bpf.test_run(it.part.fd, b"", packet)
    assert (it.cells["n"].value, it.ask("look", address), len(routes)) == (3, 99, 0)


def test_blobs_are_written_twice_and_keep_their_length(both: Any) -> None:
    first = ops.BlobLoad(U32, "b", c(0, U64), "big")
    made = unit((ops.Put("x", first),), entry("b0", U32, (ops.Return(first),)),
                states=(State("b", "blob", U8), State("x", "scalar", U32)))  # fmt: skip
    cells = plain(Program((Linked("x", made),), (), ()))
    cells[0]["b"].bind(b"abcdef")
    it = both(made, cells)
    it.arrive()
    assert it.cells["x"].value == it.ask("b0") == int.from_bytes(b"abcd", "big")
    it.cells["b"].bind(b"ABCDEF")
    it.arrive()
    assert it.cells["x"].value == it.ask("b0") == int.from_bytes(b"ABCD", "big")
    with pytest.raises(ValueError, match="6 bytes here, not 3"):
        it.cells["b"].bind(b"123")
    assert (it.cells["b"].dump(), it.ask("b0")) == (b"ABCDEF", int.from_bytes(b"ABCD", "big"))


def test_drops_are_summed_by_reason(both: Any) -> None:
    few = ops.If(ops.Cmp("eq", KEY, c(1)), (ops.Return(c(KILL), 0),))
    lost = ops.If(ops.Cmp("eq", KEY, c(2)), (ops.Return(c(1)),))
    it = both(unit((few, lost, ops.Eval(ops.PLoad(U8, P, "data", KEY))), states=(), reasons=("one",)), before=1)
    for first in (1, 2, 200):
        assert it.arrive(first) == DROP
        it.push(first)
    it.push(2)
    assert it.engine.drops(1) == {"one": 2, "no output": 3, "fault": 2}


STATES = (
    State("n", "scalar", U64),  # counted by both
    State("last", "scalar", U32),
    State("few", "array", U16, 4),
    State("many", "array", U32, 3000),
    State("t", "table", U64, 20, U32),
    State("r", "lpm", U32, 0, U32),
    State("b", "blob", U8),
)


def everything() -> Unit:
    """Code that touches one state of each kind, on both levels."""
    found = ops.Set("x", ops.LpmGet(U32, "r", c(0x0A000001), c(0)))
    stores = (ops.Store("few", c(1), c(7, U16)), ops.Store("many", c(2900), ops.BlobLoad(U32, "b", c(0, U64))))
    steps = (bump("n"), found, ops.Put("last", loc("x")), *stores, ops.TablePut("", "t", loc("x"), c(1, U64)))
    return unit(steps, getter("last", U32), states=STATES, reasons=("one",))


def filled(unit: Unit, before: int) -> list[dict[str, Any]]:
    others = [Linked(f"o{n}", unit_of(states=(State("pad", "scalar", U64),))) for n in range(before)]
    cells = plain(Program((*others, Linked("x", unit)), (), ()))
    cells[before]["b"].bind(b"abcd")
    return cells


@pytest.mark.parametrize("same", [True, False], ids=["in the same maps", "copied"])
def test_state_goes_on_in_another_engine(both: Any, same: bool) -> None:
    """As at a reload: what either level counts or writes afterwards is on top of what was there."""
    made = everything()
    old = both(made, filled(made, 1), before=1)
    old.cells["r"].add(0x0A000000, 8, 5)
    old.cells["many"][17] = 9
    old.arrive(repeat=3)
    old.push()
    new = both(made, filled(made, 4), before=4, old=old if same else None)
    if same:
        old.arrive(repeat=2)  # programs in the same maps count on until they are replaced
    inherit(new.engine, 4, old.engine, 1, frozenset(state.name for state in STATES))
    assert new.cells["n"].value == (6 if same else 4)
    old.arrive()  # its programs are not replaced yet
    new.engine.catch_up()
    old.part.close()
    assert new.cells["n"].value == (7 if same else 5)
    new.arrive(repeat=2)
    new.push()
    cells = new.cells
    assert (cells["n"].value, new.ask("get_last"), cells["few"][1], cells["many"][17]) == (10 if same else 8, 5, 7, 9)
    assert (cells["many"][2900], cells["t"].items()) == (int.from_bytes(b"abcd", "little"), [(5, 1)])
    cells["r"].add(0x0A000000, 16, 6)
    new.arrive()
    assert (new.ask("get_last"), cells["t"].items()) == (6, [(5, 1), (6, 1)])
    cells["r"].remove(0x0A000000, 16)
    new.push()
    assert new.ask("get_last") == 5


@pytest.mark.parametrize("same", [True, False], ids=["in the same maps", "copied"])
def test_packets_that_died_are_counted_on(both: Any, same: bool) -> None:
    few = ops.If(ops.Cmp("eq", KEY, c(1)), (ops.Return(c(KILL), 0),))
    made = unit((few,), states=(), reasons=("one",))
    old = both(made)
    old.arrive(1, repeat=3)
    old.push(1)
    new = both(made, before=1, old=old if same else None)
    inherit(new.engine, 1, old.engine, 0, frozenset())
    new.arrive(1)
    assert new.engine.drops(1) == {"one": 5}
    old.arrive(1)
    new.engine.catch_up()
    assert new.engine.drops(1) == {"one": 6}


def test_code_without_another_level_is_what_it_was() -> None:
    """An engine with nothing in common has the assembly, the layout and the name on disk of one without."""
    made = unit((bump("n"),), getter("n", U64), states=(State("n", "scalar", U64),))
    program = Program((Linked("x", made, (None,), (None,)),), (), ())
    more: list[Any] = [{}, {"common": Common()}]
    engines = [native.build(program, Arena(64), plain(program), {}, cache=False, **one) for one in more]
    texts = [e.code.assembly() for e in engines]
    assert texts[0] == texts[1]
    assert engines[0].layout.units == engines[1].layout.units and engines[0].code.keys == engines[1].code.keys


