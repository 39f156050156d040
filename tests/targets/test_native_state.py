"""Native state objects against the plain ones: the same answers to the same random questions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from mezzo.elements import store
from mezzo.ir import ops
from mezzo.ir.module import Param, State
from mezzo.ir.types import I64, U8, U16, U32, U64, U128, Type
from mezzo.targets.native.lpm import Poptrie
from tests.targets.native_units import alone, c, entry, loc, start, unit_of

TABLES = [(U8, U8), (U16, I64), (U32, U128), (U64, U16), (U128, U64)]


@pytest.mark.parametrize(("key", "value"), TABLES, ids=str)
def test_table(key: Type, value: Type) -> None:
    state = State("t", "table", value, 20, key)
    k = loc("k", key)
    unit = unit_of(
        entry("ask", value, (ops.Return(ops.TableGet(value, "t", k, c(3, value))),), Param("k", key)),
        entry("put", U8, (ops.TablePut("", "t", k, c(9, value)), ops.Return(c(1, U8))), Param("k", key)),
        entry("cut", U8, (ops.TableDel("", "t", k), ops.Return(c(1, U8))), Param("k", key)),
        states=(state,),
    )
    engine, plain, r = start("native", alone(unit)), store.Table(key, value, 20), random.Random(5)
    table = engine.cells[0]["t"]
    keys = [key.wrap(x) for x in [*range(24), 1 << 63, key.mask, *(r.getrandbits(128) for _ in range(20))]]
    for _ in range(1500):
        x, v = r.choice(keys), value.wrap(r.getrandbits(128))
        action = r.randrange(4)
        if action == 0:
            assert table.set(x, v) == plain.set(x, v)
        elif action == 1:
            assert table.delete(x) == plain.delete(x)
        elif action == 2:
            engine.call(0, "put", x)
            plain.set(x, 9)
        else:
            engine.call(0, "cut", x)
            plain.delete(x)
        y = r.choice(keys)
        assert engine.call(0, "ask", y) == plain.get(y, 3) == table.get(y, 3)
        assert (y in table, len(table)) == (y in plain, len(plain))
    assert table.items() == plain.items()


@pytest.mark.parametrize(("key", "value"), TABLES, ids=str)
@pytest.mark.parametrize("size", [1, 2, 20])
def test_table_that_forgets(key: Type, value: Type, size: int) -> None:
    k, state = loc("k", key), State("t", "lru", value, size, key)
    has = ops.Select(U8, ops.LruHas("t", k), c(1, U8), c(0, U8))
    unit = unit_of(
        entry("ask", value, (ops.Return(ops.LruGet(value, "t", k, c(3, value))),), Param("k", key)),
        entry("has", U8, (ops.Return(has),), Param("k", key)),
        entry("put", U8, (ops.TablePut("", "t", k, c(9, value)), ops.Return(c(1, U8))), Param("k", key)),
        entry("cut", U8, (ops.TableDel("", "t", k), ops.Return(c(1, U8))), Param("k", key)),
        states=(state,),
    )
    engine, plain, r = start("native", alone(unit)), store.LruTable(key, value, size), random.Random(5)
    table = engine.cells[0]["t"]
    keys = [key.wrap(x) for x in [*range(24), 1 << 63, key.mask, *(r.getrandbits(128) for _ in range(20))]]
    for step in range(1500):
        x, v = r.choice(keys), value.wrap(r.getrandbits(128))
        action = r.randrange(7)
        if action == 0:
            assert table.set(x, v) == plain.set(x, v) is True
        elif action == 1:
            assert table.delete(x) == plain.delete(x)
        elif action == 2:
            engine.call(0, "put", x)
            plain.set(x, 9)
        elif action == 3:
            engine.call(0, "cut", x)
            plain.delete(x)
        elif action == 4:
            assert engine.call(0, "ask", x) == plain.find(x, 3)
        elif action == 5:
            assert engine.call(0, "has", x) == plain.use(x)
        else:
            assert table.use(x) == plain.use(x)
        y = r.choice(keys)
        assert (y in table, table.get(y, 3), len(table)) == (y in plain, plain.get(y, 3), len(plain))
        assert table.dump() == plain.dump()
        if step % 400 == 399:
            rows = table.dump()
            table.clear()
            assert (len(table), table.items(), table.forgotten) == (0, [], rows[0])
            table.load(rows)
    assert table.items() == plain.items() and plain.forgotten > 0


def lpm(key: Type) -> tuple[Any, Any]:
    unit = unit_of(
        entry("look", U32, (ops.Return(ops.LpmGet(U32, "t", loc("k", key), c(77))),), Param("k", key)),
        states=(State("t", "lpm", U32, 0, key),),
    )
    engine = start("native", alone(unit))
    return engine, engine.cells[0]["t"]


@pytest.mark.parametrize("key", [U16, U32, U64, U128], ids=str)
def test_lpm_changes(key: Type) -> None:
    engine, table = lpm(key)
    plain, r, bits = store.Lpm(key), random.Random(3), key.bits
    pool = [r.getrandbits(bits) for _ in range(12)]
    lengths = [x for x in (0, 8, 16, 17, 18, 19, 24, 24, 25, 30, 31, 32, bits) if x <= bits]

    def some() -> int:
        return r.choice(pool) ^ (r.getrandbits(bits) >> r.randrange(bits))

    for step in range(250):
        prefix, length = some(), r.choice(lengths)
        if r.random() < 0.7:
            value = r.choice([0, 1, 2, 0xFFFF_FFFF if step > 120 else 3])  # past 31 bits the trie names its values
            table.add(prefix, length, value)
            plain.add(prefix, length, value)
        else:
            assert table.remove(prefix, length) == plain.remove(prefix, length)
        for _ in range(3):
            x = some()
            assert engine.call(0, "look", x) == plain.lookup(x, 77) == table.lookup(x, 77)
        assert table.get(prefix, length) == plain.get(prefix, length)
    assert list(table.items()) == list(plain.items()) and len(table) == len(plain)
    rows = plain.dump()
    table.clear()
    assert (len(table), engine.call(0, "look", rows[0][0])) == (0, 77)
    table.load(rows)
    assert all(engine.call(0, "look", x) == plain.lookup(x, 77) for x in (some() for _ in range(200)))


@pytest.mark.parametrize("key", [U32, U128], ids=str)
def test_lpm_batches(key: Type) -> None:
    """Many changes at once are the same changes one by one."""
    engine, table = lpm(key)
    plain, r, bits = store.Lpm(key), random.Random(4), key.bits
    pool = [r.getrandbits(bits) for _ in range(12)]
    lengths = [x for x in (0, 1, 8, 17, 18, 19, 24, 24, 25, 30, 31, 32, bits) if x <= bits]

    def some() -> int:
        return r.choice(pool) ^ (r.getrandbits(bits) >> r.randrange(bits))

    for step in range(40):
        values = [0, 1, 2, 3 if step < 20 else 0xFFFF_FFFF, -1, -1]
        rows = [(some(), r.choice(lengths), r.choice(values)) for _ in range(r.choice([0, 1, 5, 60]))]
        columns = [[row[i] for row in rows] for i in range(3)]
        table.change(*columns)
        plain.change(*columns)
        for _ in range(20):
            x = some()
            assert engine.call(0, "look", x) == plain.lookup(x, 77) == table.lookup(x, 77)
        asked = [*columns[0], *(some() for _ in range(5))], [*columns[1], *(r.choice(lengths) for _ in range(5))]
        assert table.get_all(*asked) == plain.get_all(*asked)
        if r.random() < 0.3:
            table.add(0, 9, 5)
            plain.add(0, 9, 5)
    assert list(table.items()) == list(plain.items()) and len(table) == len(plain)


def test_poptrie_in_bulk() -> None:
    engine, table = lpm(U32)
    table = table.table
    assert isinstance(table, Poptrie)
    rng = np.random.default_rng(2)
    lengths = rng.choice([8, 16, 20, 22, 24, 24, 24, 28, 32], 4000)
    keys = rng.integers(0, 1 << 22, 4000) << 10 >> (32 - lengths) << (32 - lengths)
    values = rng.integers(0, 50, 4000)
    table.load_arrays(keys, lengths, values)
    plain = store.Lpm(U32)
    for row in zip(keys.tolist(), lengths.tolist(), values.tolist(), strict=True):
        plain.add(*row)
    assert table.dump() == plain.dump()
    for x in [*(keys[:300] + 5).tolist(), *rng.integers(0, 1 << 32, 300).tolist()]:
        assert engine.call(0, "look", x & 0xFFFF_FFFF) == plain.lookup(x & 0xFFFF_FFFF, 77)


@pytest.mark.parametrize("count", [0, 1, 5, 20, 64])
def test_few_routes_are_built_alike(count: int) -> None:
    r = random.Random(count)
    engine, table = lpm(U32)
    plain = store.Lpm(U32)
    near = r.getrandbits(32)
    keys = [near ^ r.getrandbits(r.randrange(33)) for _ in range(count)]
    rows = [(key, r.choice((0, 8, 17, 18, 19, 24, 25, 30, 31, 32)), r.randrange(1000)) for key in keys]
    table.load(rows)
    plain.load(rows)
    assert table.dump() == plain.dump() and len(table) == len(plain) and table._full is None
    tried = [key ^ r.getrandbits(r.randrange(33)) for key in [*keys, near] for _ in range(20)]
    assert [engine.call(0, "look", key) for key in tried] == [plain.lookup(key, 77) for key in tried]
    table.add(near, 32, 5)
    assert engine.call(0, "look", near) == 5 and len(table) == len(plain) + (plain.get(near, 32) < 0)
