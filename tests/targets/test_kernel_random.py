"""Random IR of what can be in the kernel: the same values, the same packets, the same faults as the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mezzo.ir import ops
from mezzo.ir.module import State
from mezzo.ir.ops import Body, Const, Expr
from mezzo.ir.types import BOOL, I64, U32, U128, VOID, Type
from mezzo.targets import kernel
from mezzo.targets.kernel import refusals
from tests.targets import test_native_random as whole
from tests.targets.native_units import TARGETS, P, c, loc, start, unit_of
from tests.targets.test_kernel_ops import program_of

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


@pytest.fixture(autouse=True)
def with_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "kernel", kernel)


OUT = ("ring", "slots", "buf")
# What the kernel forgets is its own affair, so there is room for all.
STATES = tuple(replace(s, size=40) if s.kind == "lru" else s for s in whole.STATES if s.name not in OUT)


class Maker(whole.Maker):
    """Leaves out what an XDP program cannot do."""

    def binary(self, t: Type, depth: int) -> Expr:
        op = self.r.choice(["add", "sub", "and", "or", "xor", "shl", "shr", *(["mul", "div", "mod"] * (t is not U128))])
        return ops.Bin(op, t, self.expr(t, depth), self.expr(t, depth))

    def leaf(self, t: Type, depth: int = 0) -> Expr:
        while True:
            made = super().leaf(t, depth)
            if not isinstance(made, ops.SlotUsed) and not (isinstance(made, ops.Count) and made.state != "blob"):
                return made

    def stmt(self, depth: int, in_loop: bool) -> Body:
        while True:
            made = super().stmt(depth, in_loop)
            if not isinstance(made[0], ops.BufPut | ops.BufPutPacket):
                return made

    def with_packet(self, q: ops.Local) -> Body:
        return (ops.Resize(self.r.choice(["prepend", "append"]), P, Const(U32, self.r.randrange(30))),)


@pytest.mark.parametrize("seed", [*range(24), 163])  # 163: copies in a loop
def test_random_programs_agree(seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(whole, "STATES", (*STATES, State("ring", "ring", VOID, 1)))
    program = Maker(seed).program()
    assert not refusals(program.instances[0])
    assert whole.play("kernel", program, seed) == whole.play("python", program, seed)


def test_long_loops_agree() -> None:
    """A loop of more rounds is a function of its own; its way out, its locals and its packet are those of the whole."""
    i, n = loc("i"), loc("n")
    byte = ops.Cast(U32, ops.PLoad(whole.U8, P, "data", i))
    body: Body = (
        ops.Set("n", c(0)),
        ops.For(
            "i", ops.Meta(U32, P, "length"), 64,
            (
                ops.If(ops.Cmp("eq", byte, c(7)), (ops.Break(),)),
                ops.If(ops.Cmp("eq", byte, c(8)), (ops.Return(c(1)),)),
                ops.If(ops.Cmp("eq", byte, c(9)), (ops.PStore(P, "data", c(99), c(0, whole.U8)),)),
                ops.If(ops.Cmp("eq", byte, c(10)), (ops.Continue(),)),
                ops.Set("n", ops.Bin("add", U32, n, byte)),
                ops.PStore(P, "data", i, ops.Cast(whole.U8, n)),
            ),
        ),
        ops.AnnoSet(P, 4, n),
        ops.Return(c(0)),
    )  # fmt: skip
    unit = unit_of(whole.Function("process", (whole.Param("p", whole.PACKET),), U32, body))
    packets = [b"", b"\1\2\3", b"\1\7\3", b"\1\10\3", b"\1\11\3", b"\1\12\3", bytes(64), bytes(65), bytes([200] * 30)]
    seen = []
    for target in ("python", "kernel"):
        engine = start(target, program_of(unit))
        for data in packets:
            engine.push(0, 0, engine.arena.make_from(data).frame)
        kept = [[whole.picture(whole.Packet(engine.arena, f)) for f in engine.cells[k]["got"].dump()] for k in (1, 2)]
        seen.append((kept, engine.drops(0)))
        engine.close()
    assert seen[0] == seen[1]
    assert seen[0][1] == {"fault": 2}


def test_what_an_answer_tells_ends_with_the_local() -> None:
    """The mark is known where the helper says so, and not where the local got its value from elsewhere."""
    ok = ops.Local(BOOL, "ok")
    helper = whole.Function(
        "sets", (whole.Param("p", whole.PACKET),), BOOL,
        (
            ops.If(ops.Cmp("lt", ops.Meta(U32, P, "length"), c(30)), (ops.Return(ops.FALSE),)),
            ops.MetaSet(P, "net", c(20, I64)),
            ops.Return(ops.TRUE),
        ),
    )  # fmt: skip
    read = ops.If(ok, (ops.AnnoSet(P, 0, ops.PLoad(U32, P, "net", c(0))), ops.Return(c(1))))
    body: Body = (
        ops.Set("ok", ops.Call(BOOL, "sets", (P,))),
        read,
        ops.TablePut("ok", "tab", c(1), c(2, whole.U64)),
        read,
        ops.Return(c(0)),
    )
    process = whole.Function("process", (whole.Param("p", whole.PACKET),), U32, body)
    unit = unit_of(helper, process, states=(State("tab", "table", whole.U64, 4, U32),))
    seen = []
    for target in ("python", "kernel"):
        engine = start(target, program_of(unit))
        for length in (10, 29, 30, 60):
            engine.push(0, 0, engine.arena.make_from(bytes(range(length))).frame)
        kept = [[whole.picture(whole.Packet(engine.arena, f)) for f in engine.cells[k]["got"].dump()] for k in (1, 2)]
        seen.append((kept, engine.drops(0)))
        engine.close()
    assert seen[0] == seen[1]
    assert seen[0][1] == {"fault": 2}
