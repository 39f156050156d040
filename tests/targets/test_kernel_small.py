"""Programs stay small: what is written once, what is left out, and that it is still the same."""

from __future__ import annotations

import re

import pytest

from mezzo.base import bpf
from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.ops import KILL, Expr
from mezzo.ir.types import I64, PACKET, U8, U16, U32, U64, VOID
from mezzo.targets import kernel
from mezzo.targets.kernel import Part
from mezzo.targets.kernel.roads import Wire
from tests.targets.native_units import TARGETS, P, bump, c, loc, plain, unit_of
from tests.targets.test_kernel_ops import both, process

pytestmark = pytest.mark.needs_root
FRAME = bytes(range(64))
DEATH = re.compile(r"^death\d+_\d+:", re.MULTILINE)


@pytest.fixture(autouse=True)
def with_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "kernel", kernel)


def byte(at: int) -> Expr:
    return ops.Cast(U32, ops.PLoad(U8, P, "data", c(at)))


def is_(value: Expr, number: int) -> Expr:
    return ops.Cmp("eq", value, c(number))


def wired(unit: Unit) -> Part:
    program = Program((Linked("x", unit, (None, None, None), (None,)),), (), ())
    wires = {(0, 0): Wire("tx")}
    return Part(program, [0], [(0, 0)], plain(program), wire=True, wires=wires, use_disk=False)


def test_a_reason_has_one_place() -> None:
    """However many ways lead to it."""
    gone = ops.Return(c(KILL), 0)
    steps = [ops.If(is_(byte(n), 200), (gone,)) for n in range(20)]
    part = wired(process(*steps, ops.Return(c(0)), reasons=("gone",)))
    text = part.roots[0].text
    packets = [FRAME, *(FRAME[:n] + b"\xc8" + FRAME[n + 1 :] for n in range(20))]
    assert [bpf.test_run(part.fd, b"", data).verdict for data in packets] == [3, *[1] * 20]
    assert part.drops(0) == {"gone": 20}
    assert len(DEATH.findall(text)) == 2  # and the fault's
    part.close()


@pytest.mark.parametrize("numbers", [(2, 3, 4, 5), (2, 3, 4, 9), (5, 4, 3, 2), (0, 1, 2, 3)])
def test_a_row_of_reasons(numbers: tuple[int, ...]) -> None:
    why = loc("why")
    row = [ops.If(is_(why, n), (ops.Return(c(7), reason),)) for reason, n in enumerate(numbers)]
    unit = process(ops.Set("why", byte(0)), *row, ops.Return(c(7), 4), reasons=("a", "b", "c", "d", "other"))
    got = both(unit, [bytes([n]) + b"rest" for n in (*range(12), 255)])
    assert sum(got["drops"].values()) == 13
    assert got["drops"]["other"] == 9


def test_a_row_whose_output_is_connected() -> None:
    why = loc("why")
    row = [ops.If(is_(why, n), (ops.Return(c(1), n),)) for n in range(4)]
    unit = process(ops.Set("why", byte(0)), *row, ops.Return(c(0)), reasons=("a", "b", "c", "d"))
    got = both(unit, [bytes([n]) for n in range(6)])
    assert (len(got["out"][0]), len(got["out"][1]), got["drops"]) == (2, 4, {})


def test_the_last_things_a_packet_sees() -> None:
    """`kill` and return, in a `push`."""
    dies = ops.If(is_(byte(0), 1), (bump("n"), ops.Kill(P, 1), ops.Return(None)))
    params = (Param("port", U32), Param("p", PACKET))
    push = Function("push", params, VOID, (dies, ops.Emit(c(0), P, -1)))
    unit = unit_of(push, states=(State("n", "scalar", U64),), reasons=("x", "y"))
    got = both(unit, [b"\1", b"\2", b"\1"])
    assert (got["drops"], got["states"]["n"], len(got["out"][0])) == ({"y": 2}, 2, 1)


def tailed() -> Unit:
    """`last` is reached from three places, by way of `middle` too, with other arguments and reasons."""
    number = Param("number", U32)
    last = Function(
        "last",
        (Param("p", PACKET), number),
        U32,
        (
            ops.PStore(P, "data", c(1), ops.Cast(U8, loc("number"))),
            ops.If(ops.Cmp("gt", loc("number"), c(4)), (ops.Return(c(KILL)),)),
            ops.Return(ops.Bin("and", U32, loc("number"), c(1))),
        ),
    )

    def call(number: Expr, name: str = "last") -> Expr:
        return ops.Call(U32, name, (P, number))

    middle = Function(
        "middle",
        (Param("p", PACKET), number),
        U32,
        (
            ops.If(is_(loc("number"), 3), (ops.Return(call(c(4))),)),
            ops.Return(call(ops.Bin("add", U32, loc("number"), c(1)))),
        ),
    )
    first = loc("first")
    body = (
        ops.Set("first", byte(0)),
        ops.If(is_(first, 1), (ops.Return(call(c(1)), 0),)),
        ops.If(is_(first, 2), (ops.Return(call(c(5)), 1),)),
        ops.If(ops.Cmp("lt", first, c(5)), (ops.Return(call(first, "middle"), 0),)),
        ops.Return(call(c(9), "middle"), 0),
    )
    return unit_of(Function("process", (Param("p", PACKET),), U32, body), last, middle, reasons=("a", "b"))


def test_helpers_that_need_not_come_back() -> None:
    got = both(tailed(), [bytes([n, 0, 0]) for n in range(8)])
    assert got["drops"] == {"a": 4, "b": 1}
    assert [len(one) for one in got["out"]] == [1, 2]


def test_such_a_helper_is_written_once_for_each_reason() -> None:
    part = wired(tailed())
    assert len(re.findall(r"and i32 %t\d+, 1,", part.roots[0].text)) == 2
    part.close()


def test_what_a_helper_knows_is_what_all_know_who_jump_to_it() -> None:
    """One has looked that twelve bytes are there, another has not."""
    call = ops.Return(ops.Call(U32, "last", (P,)))
    reads = (bump("n", ops.Cast(U64, ops.PLoad(U32, P, "data", c(8)))), ops.Return(c(0)))
    last = Function("last", (Param("p", PACKET),), U32, reads)
    long = ops.Cmp("ge", ops.Meta(U32, P, "length"), c(12))
    body = (ops.If(long, (ops.If(is_(byte(9), 1), (call,)),)), ops.Resize("strip", P, c(1)), call)
    unit = unit_of(Function("process", (Param("p", PACKET),), U32, body), last, states=(State("n", "scalar", U64),))
    got = both(unit, [bytes(range(n)) for n in range(9, 16)] + [b"\1" * n for n in (11, 12, 13)])
    assert got["drops"]["fault"] == 5


def test_a_type_that_nobody_asks_for_costs_nothing() -> None:
    """Not even the comparison that its bytes are there; where they are read, one is enough for the whole header."""
    kind = ops.Cast(U8, ops.Bin("and", U16, ops.PLoad(U16, P, "data", c(4)), c(3, U16)))
    sets = ops.MetaSet(P, "packet_type", kind)
    bare, idle = wired(process(ops.Return(c(0)))), wired(process(sets, ops.Return(c(0))))
    assert idle.instructions == bare.instructions
    asks = wired(process(sets, ops.Return(ops.Cast(U32, ops.Meta(U8, P, "packet_type")))))
    assert asks.instructions > idle.instructions
    reads = wired(process(ops.Return(ops.Bin("and", U32, ops.Bin("add", U32, byte(0), byte(13)), c(0)))))
    compared = [part.roots[0].text.count("icmp ule ptr") for part in (bare, idle, reads)]
    assert compared == [compared[0], compared[0], compared[0] + 1]
    for part in (bare, idle, asks, reads):
        part.close()


def test_the_header_that_is_there_for_sure_is_shown_to_the_verifier() -> None:
    """`length >= 14` is true without a comparison; the load behind it needs one all the same."""
    long = ops.Cmp("ge", ops.Meta(U32, P, "length"), c(14))
    part = wired(process(ops.If(long, (ops.If(is_(byte(12), 12), (ops.Return(c(0)),)),)), ops.Return(c(1))))
    assert [bpf.test_run(part.fd, b"", data).verdict for data in (FRAME, FRAME[:14], b"\1" * 14)] == [3, 3, 1]
    part.close()


def test_packets_that_die_in_a_long_loop() -> None:
    """Its body is a function; the counter is chosen outside."""
    reads = ops.PLoad(U8, P, "data", loc("i"))
    inside = (
        ops.If(ops.Cmp("eq", reads, c(7, U8)), (ops.Return(c(KILL), 1),)),
        ops.If(ops.Cmp("eq", reads, c(8, U8)), (ops.Return(c(KILL), 0),)),
    )
    unit = process(ops.For("i", c(40), 40, inside), ops.Return(c(0)), reasons=("eight", "seven"))
    packets = [bytes(40), bytes(39), bytes(20) + b"\7" + bytes(30), bytes(30) + b"\x08" + bytes(20)]
    got = both(unit, [*packets, packets[2]])
    assert (got["drops"], len(got["out"][0])) == ({"eight": 1, "seven": 2, "fault": 1}, 1)


def test_sums_of_no_bytes() -> None:
    """At the end of the packet they are nothing, beyond it they fault."""
    four = ops.Bin("and", U32, byte(0), c(60))
    at = ops.Bin("add", U32, byte(1), c(0))
    for offset in (at, c(6)):
        total = ops.Sum16(P, "data", offset, four, c(0))
        unit = process(ops.Put("n", ops.Cast(U64, total)), ops.Return(c(0)), states=(State("n", "scalar", U64),))
        both(unit, [bytes([0, n, *range(length)]) for n in (2, 4, 6, 7, 60) for length in (0, 3, 4, 5)])
        both(unit, [bytes([4, n, *range(length)]) for n in (0, 2, 6) for length in (2, 5, 8, 12)])


def test_bytes_in_front_of_a_mark() -> None:
    """A mark that was set is never in front of the data."""
    four = ops.Bin("and", U32, byte(0), c(60))
    total = ops.Sum16(P, "net", c(0), four, c(0))
    steps = (
        ops.MetaSet(P, "net", c(2, I64)),
        ops.If(is_(byte(1), 9), (ops.Resize("strip", P, c(4)),)),
        ops.Put("n", ops.Cast(U64, total)),
        ops.Return(c(0)),
    )
    unit = process(*steps, states=(State("n", "scalar", U64),))
    got = both(unit, [b"\x04\1" + bytes(range(20)), b"\x04\x09" + bytes(range(4, 24))])
    assert got["drops"] == {"fault": 1}
