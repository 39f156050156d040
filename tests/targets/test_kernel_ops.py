"""Each op that the kernel target takes, on hand-built units: against values worked out by hand, and the definition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mezzo.base import Diagnostic
from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.ops import Body, Const, Expr
from mezzo.ir.types import BOOL, I64, PACKET, U8, U16, U32, U48, U64, U128, VOID, Type
from mezzo.packet.arena import Arena, Packet
from mezzo.pipeline import compile_text
from mezzo.runtime import Router
from mezzo.targets import kernel
from mezzo.targets.kernel import KernelRefusal, refusals
from mezzo.targets.kernel import part as part_module
from mezzo.tools._agree import Agreement, Running, bench_of, compare
from mezzo.tools._random_packets import cases
from tests.elements.nat_packets import tcp
from tests.targets.native_units import TARGETS, P, bump, c, loc, plain, start, unit_of
from tests.targets.test_native_ops import DATA, VALUES

pytestmark = pytest.mark.needs_root


@pytest.fixture(autouse=True)
def with_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "kernel", kernel)


SINK = Unit(
    "Sink",
    (Function("push", (Param("port", U32), Param("p", PACKET)), VOID, (ops.RingPush("got", P),)),),
    (State("got", "ring", PACKET, 500),),
)


def program_of(unit: Unit, outputs: int = 2) -> Program:
    sinks = [Linked(f"d{i}", SINK, (), (None,)) for i in range(outputs)]
    return Program((Linked("x", unit, tuple((i + 1, 0) for i in range(outputs)), (None,)), *sinks), (), ())


def process(*body: ops.Stmt, states: tuple[State, ...] = (), reasons: tuple[str, ...] = ()) -> Unit:
    return unit_of(Function("process", (Param("p", PACKET),), U32, body), states=states, reasons=reasons)


def play(target: str, unit: Unit, packets: list[bytes], net: int | None = None, **fill: Any) -> dict[str, Any]:
    """All that can be seen of pushes of these packets."""
    program = program_of(unit)
    cells = plain(program)
    for name, content in fill.items():
        cells[0][name].load(content)
    engine = start(target, program, cells=cells, arena=Arena(128))
    for data in packets:
        packet = engine.arena.make_from(data)
        packet.set_mark("net", net)
        engine.push(0, 0, packet.frame)
    out = [list(pictures(engine, sink)) for sink in (1, 2)]
    states = {s.name: engine.cells[0][s.name].dump() for s in unit.states}
    held = len(out[0]) + len(out[1])
    assert engine.arena.held == held
    seen = {"out": out, "states": states, "drops": engine.drops(0), "in kernel": refusals(program.instances[0]) == []}
    engine.close()
    return seen


def pictures(engine: Any, sink: int) -> Iterator[tuple[Any, ...]]:
    for frame in engine.cells[sink]["got"].dump():
        p = Packet(engine.arena, frame)
        marks = tuple(p.mark(m) for m in ops.MARKS[1:])
        yield bytes(p), p.headroom, marks, bytes(p.anno), p.timestamp, p.packet_type


def both(unit: Unit, packets: list[bytes], net: int | None = None, **fill: Any) -> dict[str, Any]:
    """What the definition makes of it, which the kernel makes too."""
    want, got = (play(target, unit, packets, net, **fill) for target in ("python", "kernel"))
    assert got["in kernel"]
    assert got == want
    return want


def number(expr: Expr, states: tuple[State, ...] = (), **fill: Any) -> int:
    """The value of an expression about a packet that holds DATA, kept in a state."""
    unit = process(ops.Put("kept", expr), ops.Return(c(0)), states=(State("kept", "scalar", expr.type), *states))
    return int(both(unit, [DATA], **fill)["states"]["kept"])


def takes(expr: Expr) -> bool:
    wide = isinstance(expr, ops.Bin) and expr.type is U128 and expr.op in ("mul", "div", "mod")
    return not wide


@pytest.mark.parametrize(
    ("expr", "want"), [v for v in VALUES if takes(v[0])], ids=lambda x: type(x).__name__ if isinstance(x, Expr) else ""
)
def test_value(expr: Expr, want: int | None) -> None:
    got = number(expr)
    assert want is None or got == want


WORDS = b"\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20" * 4


def test_sizes_change_and_marks_stay() -> None:
    steps: Body = (
        ops.MetaSet(P, "net", c(4, I64)),
        ops.Resize("strip", P, c(4)),
        ops.PStore(P, "net", c(0), c(0xAB, U8)),
        ops.Resize("prepend", P, c(40)),  # more than comes along: the kernel gives room
        ops.PStore(P, "data", c(0), c(0x0102030405060708, U64)),
        ops.PStore(P, "net", c(1), c(0xCD, U8)),
        ops.Resize("append", P, c(30)),
        ops.Resize("trim", P, c(7)),
        ops.Resize("prepend", P, c(60)),
        ops.MetaSet(P, "trans", c(-3, I64)),
        ops.MarkClear(P, "mac"),
        ops.Return(c(1)),
    )
    seen = both(process(*steps), [WORDS, bytes(200), b"\1\2\3\4\5", b"\1\2\3"])
    assert seen["drops"] == {"fault": 2}
    assert len(seen["out"][1]) == 2


def test_Lo02_reads_after_a_push_and_a_pop_of_a_header_see_the_moved_packet() -> None:
    by = ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))
    steps: Body = (
        ops.Resize("prepend", P, c(100)),
        ops.PStore(P, "data", c(3), ops.PLoad(U32, P, "data", c(101))),
        ops.Resize("strip", P, c(99)),
        ops.Resize("strip", P, by),  # how much, the packet says
        ops.AnnoSet(P, 0, ops.PLoad(U32, P, "data", c(1))),
        ops.Resize("prepend", P, by),
        ops.AnnoSet(P, 4, ops.PLoad(U32, P, "data", by)),
        ops.Return(c(0)),
    )
    assert both(process(*steps), [WORDS, bytes(150), b"\1\2\3\4\5", b""])["drops"] == {"fault": 1}


def test_Lo01_checksums_of_any_length() -> None:
    length = ops.Bin("sub", U32, ops.Meta(U32, P, "length"), c(0))
    steps: Body = (ops.AnnoSet(P, 0, ops.Sum16(P, "data", c(0), length, c(0x1FFFF))), ops.Return(c(0)))
    packets = [bytes((7 * i + n) & 255 for i in range(n)) for n in (*range(70), 511, 512, 513, 1023, 1024, 1479, 1480)]
    seen = both(process(*steps), packets)
    assert len(seen["out"][0]) == len(packets)


@pytest.mark.slow
def test_Lo01_an_element_that_sums_a_tcp_segment_of_any_length() -> None:
    whole = [tcp(("10.0.0.2", 5000), ("9.9.9.9", 80), bytes(7 * i & 255 for i in range(n))) for n in range(1441)]
    spoiled = [p[:36] + b"\xbe\xef" + p[38:] for p in whole]
    with Router.from_click("f :: Feed -> MarkIPHeader -> SetTCPChecksum -> c :: Collect", target="kernel") as r:
        r.feed("f", spoiled)
        r.run()
        assert r.collect("c") == whole


def test_copies_overlap() -> None:
    for length in (c(0), c(5), c(40), c(70), ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))):
        steps: Body = (ops.Copy(P, "data", c(9), P, "data", c(4), length), ops.Return(c(0)))
        both(process(*steps), [bytes(range(30, 120)), bytes(range(5, 90)), b"", bytes(5)])


def test_bytes_of_a_blob() -> None:
    blob = State("blob", "blob", VOID)
    for length in (c(0), c(7), c(24), c(25), ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))):
        offset = ops.Cast(U64, ops.PLoad(U8, P, "data", c(1)))
        steps: Body = (
            ops.CopyBlob(P, "data", c(2), "blob", c(3, U64), length),
            ops.AnnoSet(P, 0, ops.BlobLoad(U16, "blob", offset, "big")),
            ops.AnnoSet(P, 4, ops.Count("blob")),
            ops.Return(c(0)),
        )
        both(
            process(*steps, states=(blob,)),
            [bytes(60), b"\5\26" + bytes(60), b"\x15\27" + bytes(9)],
            blob=bytes(range(24)),
        )


@pytest.mark.parametrize("key", [U8, U16, U32, U48, U64, U128], ids=str)
def test_Lo03_tables_hold_keys_and_values_of_all_widths(key: Type) -> None:
    states = (State("t", "table", U48, 2, key), State("done", "array", U8, 8), State("n", "scalar", U32))
    k = ops.Cast(key, ops.PLoad(U8, P, "data", c(0)))

    def note(at: int, flag: Expr) -> ops.Stmt:
        return ops.Store("done", c(at), ops.Cast(U8, flag))

    steps: Body = (
        ops.TablePut("ok", "t", k, ops.PLoad(U48, P, "data", c(1))), note(0, loc("ok", BOOL)),
        ops.TableDel("was", "t", Const(key, 9)), note(1, loc("was", BOOL)),
        note(2, ops.TableHas("t", k)),
        ops.AnnoSet(P, 0, ops.TableGet(U48, "t", k, c(77, U48))),
        ops.Return(c(0)),
    )  # fmt: skip
    packets = [bytes([n, 1, 2, 3, 4, 5, n]) for n in (1, 2, 3, 1, 9, 2)]
    seen = both(process(*steps, states=states), packets, t=[(9, 5)])
    assert len(seen["states"]["t"]) == 2


@pytest.mark.parametrize("key", [U8, U16, U32, U48, U64, U128], ids=str)
def test_tables_that_forget(key: Type) -> None:
    states = (State("t", "lru", U48, 2, key), State("done", "array", U8, 8))
    k = ops.Cast(key, ops.PLoad(U8, P, "data", c(0)))

    def note(at: int, flag: Expr) -> ops.Stmt:
        return ops.Store("done", c(at), ops.Cast(U8, flag))

    steps: Body = (
        ops.TableDel("was", "t", Const(key, 9)), note(0, loc("was", BOOL)),
        note(1, ops.LruHas("t", k)),
        ops.TablePut("ok", "t", k, ops.PLoad(U48, P, "data", c(1))), note(2, loc("ok", BOOL)),
        ops.AnnoSet(P, 0, ops.LruGet(U48, "t", k, c(77, U48))),
        ops.Return(c(0)),
    )  # fmt: skip
    packets = [bytes([n, 1, 2, 3, 4, 5, n]) for n in (1, 2, 1, 2)]
    seen = both(process(*steps, states=states), packets, t=(4, [(9, 5)]))
    assert seen["states"]["t"][0] == 4 and len(seen["states"]["t"][1]) == 2


@pytest.mark.parametrize("key", [U32, U48, U64, U128], ids=str)
def test_prefixes(key: Type) -> None:
    top = key.bits - 8
    rows = [(0, 0, 5), (0x40 << top, 2, 6), (0x41 << top, 8, 7), ((0x41 << top) | 1, key.bits, 8)]
    k = ops.Bin("or", key, ops.Bin("shl", key, ops.Cast(key, ops.PLoad(U8, P, "data", c(0))), Const(key, top)),
                ops.Cast(key, ops.PLoad(U8, P, "data", c(1))))  # fmt: skip
    steps: Body = (ops.AnnoSet(P, 0, ops.LpmGet(U32, "l", k, c(99))), ops.Return(c(0)))
    unit = process(*steps, states=(State("l", "lpm", U32, 0, key),))
    packets = [bytes(x) for x in ((0x41, 1), (0x41, 2), (0x40, 1), (0x10, 0), (0xFF, 0))]
    for content in (rows, rows[1:]):
        seen = both(unit, packets, l=content)
    assert [int.from_bytes(p[3][:4], "little") for p in seen["out"][0]] == [8, 7, 6, 99, 99]


def test_scalars_and_arrays_of_every_type() -> None:
    types = (BOOL, U8, U16, U32, U48, U64, I64, U128)
    states = tuple(State(f"s{t}", "scalar", t) for t in types) + tuple(State(f"a{t}", "array", t, 3) for t in types)
    states += (State("large", "array", U64, 4096),)
    load = ops.PLoad(U128, P, "data", c(0))
    at = ops.Cast(U32, ops.PLoad(U8, P, "data", c(16)))
    steps: list[ops.Stmt] = []
    for t in types:
        steps += [
            ops.Put(f"s{t}", ops.Cast(t, load)),
            ops.Store(f"a{t}", at, ops.Get(t, f"s{t}")),
            ops.Put(f"s{t}", ops.Index(t, f"a{t}", c(1))),
        ]
    steps += [ops.Store("large", ops.Bin("mul", U32, at, c(1365)), ops.Cast(U64, load)), ops.Return(c(0))]
    packets = [bytes(range(200, 216)) + bytes([n]) for n in (1, 2, 3, 0)]
    assert both(process(*steps, states=states), packets)["drops"] == {"fault": 1}


def test_counters_are_the_same_whatever_else_looks_at_them() -> None:
    states = tuple(State(n, "scalar", t) for n, t in (("a", U64), ("b", U64), ("c", U32), ("d", U8)))
    one = {t: Const(t, 1) for t in (U8, U32, U64)}
    steps: Body = (
        bump("a", ops.Cast(U64, ops.Meta(U32, P, "length"))),
        bump("b"),
        ops.AnnoSet(P, 0, ops.Get(U64, "b")),
        ops.Put("c", ops.Bin("add", U32, ops.Get(U32, "c"), one[U32])),
        ops.Put("d", ops.Bin("add", U8, ops.Get(U8, "d"), Const(U8, 100))),
        ops.Return(c(0)),
    )
    seen = both(process(*steps, states=states), [bytes(n) for n in (1, 2, 3)], a=(1 << 64) - 2, c=7)
    assert seen["states"] == {"a": 4, "b": 3, "c": 10, "d": 44}


def test_chance_is_the_same() -> None:
    steps: Body = (ops.AnnoSet(P, 0, ops.Random()), ops.AnnoSet(P, 4, ops.Random()), ops.Return(c(0)))
    seen = both(process(*steps), [b"x"] * 5)
    assert len({row[3] for row in seen["out"][0]}) == 5


def test_every_way_out() -> None:
    port = ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))
    far = ops.Select(U32, ops.Cmp("eq", port, c(9)), c(ops.KILL), port)
    packets = [bytes([n]) for n in (0, 1, 2, 9, 0)]
    plain_way = both(process(ops.Return(far)), packets)
    assert plain_way["drops"] == {"no output": 1}
    named = both(process(ops.Return(far, 0), reasons=("nowhere",)), packets)
    assert named["drops"] == {"nowhere": 2}
    dead = both(
        process(ops.Kill(P, 0), bump("n"), ops.Return(), states=(State("n", "scalar", U64),), reasons=("so",)), packets
    )
    assert (dead["drops"], dead["states"]["n"]) == ({"so": 5}, 5)


def test_loops_that_ask_for_too_much_fault() -> None:
    count = ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))
    for limit in (4, 20):
        body: Body = (ops.For("i", count, limit, (bump("n"),)), ops.Return(c(0)))
        seen = both(process(*body, states=(State("n", "scalar", U64),)), [bytes([n]) for n in (0, 3, limit, limit + 1)])
        assert (seen["drops"], seen["states"]["n"]) == ({"fault": 1}, 3 + limit)


def test_two_elements_are_one_program() -> None:
    strip = process(ops.Resize("strip", P, c(2)), ops.Return(c(0)))
    check = process(
        ops.If(ops.Cmp("lt", ops.Meta(U32, P, "length"), c(3)), (ops.Return(c(1), 0),)),
        ops.Return(c(0)),
        reasons=("short",),
    )
    instances = (Linked("a", strip, ((1, 0),), (None,)), Linked("b", check, ((2, 0), None), (None,)),
                 Linked("d", SINK, (), (None,)))  # fmt: skip
    engine = start("kernel", Program(instances, (), ()))
    assert len(engine.parts) == 1
    assert len(engine.parts[0].placed) == 2
    for data in (b"\1\2\3\4\5", b"\1\2\3", b"\1"):
        engine.push(0, 0, engine.arena.make_from(data).frame)
    assert [bytes(p[0]) for p in pictures(engine, 2)] == [b"\3\4\5"]
    assert (engine.drops(0), engine.drops(1)) == ({"fault": 1}, {"short": 1})
    engine.close()


STEPS = """
    f :: Feed -> Strip(14) -> ch :: CheckIPHeader -> p :: Paint(3) -> o :: IPGWOptions(10.0.0.9) -> t :: DecIPTTL
      -> n :: Counter -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> out :: Collect;
    ch [1] -> bad :: Collect; o [1] -> bad; t [1] -> ICMPError(10.0.0.9, timeexceeded) -> back :: Collect;
"""


@pytest.mark.slow
@pytest.mark.parametrize("nodes", [1, 700])
def test_a_part_of_several_programs_is_one_part(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    """Programs go on in each other by tail calls, with all that a packet has."""
    monkeypatch.setattr("mezzo.targets.kernel.roads.MOST_NODES", nodes)
    plan = compile_text(STEPS, virtual=True)
    program = plan.whole()
    placed = [i for i, linked in enumerate(program.instances) if not refusals(linked)]
    bench = bench_of([program.instances[i] for i in placed], placed, [plan.elements[i].all_cells() for i in placed])
    running = Running(bench, "kernel")
    (part,) = running.engine.parts
    assert len(part.programs) == 8 if nodes == 1 else 1 < len(part.programs) < 8
    running.close()
    found = compare(bench, ("python", "kernel"), list(cases(200, 5, len(bench.entries))))
    assert isinstance(found, Agreement), found
    assert {"e[0]", "ch[1]"} <= found.out.keys()


def test_a_program_that_is_too_large_becomes_two(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, refused = part_module.load, []

    def load(text: str, *rest: Any) -> tuple[int, int]:
        if not refused:
            refused.append(text)
            raise KernelRefusal(Diagnostic("too large"), "", is_size=True)
        return whole(text, *rest)

    monkeypatch.setattr(part_module, "load", load)
    with Router.from_click(
        "f :: Feed -> Paint(1) -> Paint(2) -> c :: Collect", target="kernel", virtual=True
    ) as router:
        assert [len(part.programs) for part in router.engine.parts] == [2]
        router.feed("f", [b"abc"])
        router.run(rounds=1000)
        assert router.collect("c") == [b"abc"]
