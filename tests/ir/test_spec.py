"""The table of what is valid: complete, and every rule refuses what it should."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from mezzo.base import MezzoError, Span
from mezzo.ir import ops
from mezzo.ir.module import Function, Param, State, Unit
from mezzo.ir.ops import u32
from mezzo.ir.spec import ROWS, check_unit
from mezzo.ir.types import BOOL, I64, PACKET, U8, U16, U32, U64, VOID
from tests.ir.every import STATES, every_unit

P = ops.Local(PACKET, "p")


@pytest.mark.parametrize("kind", [*ops.EXPRS.values(), *ops.STMTS.values()], ids=lambda k: k.__name__)
def test_every_node_kind_has_a_row_with_all_its_fields(kind: type[ops.Node]) -> None:
    assert set(ROWS[kind]) == {f.name for f in fields(kind) if f.name != "span"}  # type: ignore[arg-type]


def test_the_table_has_no_row_without_a_node_kind() -> None:
    assert set(ROWS) == {*ops.EXPRS.values(), *ops.STMTS.values()}


def trouble(body: ops.Body, name: str = "process", ret: object = U32, **unit: object) -> str:
    function = Function(name, (Param("p", PACKET),), ret, (*body, ops.Return()))  # type: ignore[arg-type]
    with pytest.raises(MezzoError) as caught:
        check_unit(replace(Unit("A", (function,), STATES, ("full",), ("show",)), **unit))  # type: ignore[arg-type]
    return str(caught.value)


NODES: list[tuple[ops.Stmt, str]] = [
    (ops.Set("x", ops.Bin("pow", U32, u32(1), u32(2))), "Bin.op is 'pow', not one of add, sub"),
    (ops.Set("x", ops.Bin("add", U32, u32(1), ops.Const(U8, 2))), "Bin.b is u8, not u32, in `1 + 2u8`"),
    (ops.Set("x", ops.Bin("add", BOOL, ops.TRUE, ops.TRUE)), "Bin.type is bool, not an integer"),
    (ops.Set("x", ops.Cmp("lt", u32(1), ops.Const(U16, 2))), "Cmp.b is u16, not u32"),
    (ops.Set("x", ops.Const(U8, 256)), "Const.value is 256, which u8 does not hold"),
    (ops.Set("x", ops.Local(U32, "y")), "Local.name is `y`, which nothing above sets"),
    (ops.Set("x", P), "Set.value is packet, not bool or an integer"),
    (ops.Set("p", u32(1)), "Set.name is `p`, which is packet already, not u32"),
    (ops.Set("a-b", u32(1)), "Set.name is 'a-b', which is not a name"),
    (ops.Set("x", ops.PLoad(BOOL, P, "net", u32(0))), "PLoad.type is bool, not an integer of whole bytes"),
    (ops.Set("x", ops.PLoad(U8, P, "head", u32(0))), "PLoad.mark is 'head'"),
    (ops.Set("x", ops.PLoad(U8, P, "net", ops.Const(U64, 0))), "PLoad.offset is u64, not u32"),
    (ops.Set("x", ops.PLoad(U8, u32(3), "net", u32(0))), "PLoad.packet is not a packet local"),
    (ops.Set("x", ops.Meta(U64, P, "length")), "Meta.type is u64, not u32"),
    (ops.Set("x", ops.Meta(U32, P, "size")), "Meta.field is 'size'"),
    (ops.Set("x", ops.Anno(U64, P, 41)), "Anno.offset is 41, not from 0 to 40"),
    (ops.Set("x", ops.Get(U64, "gone")), "Get.state is 'gone', which is not declared"),
    (ops.Set("x", ops.Get(U64, "cells")), "Get.state is an array, not scalar"),
    (ops.Set("x", ops.Get(U32, "count")), "Get.type is u32, not u64 as count is declared"),
    (ops.Set("x", ops.TableHas("seen", u32(1))), "TableHas.key is u32, not u48"),
    (ops.Set("x", ops.LpmGet(U16, "routes", u32(1), u32(1))), "LpmGet.type is u16, not u32"),
    (ops.Set("x", ops.Host("tell", None, ())), "Host.method is 'tell', which the unit does not list"),
    (ops.Set("x", ops.Host("show", None, (u32(1),))), "Host.args is u32, not i64"),
    (ops.Set("x", ops.Call(U32, "nobody", ())), "Call.function is 'nobody', which the unit does not have"),
    (ops.Eval(ops.Call(U32, "process", (P,))), "Call.function is process, which only the router calls"),
    (ops.Eval(P), "Eval.value is not an expression that can be dropped"),
    (ops.If(u32(1), ()), "If.cond is u32, not bool"),
    (ops.Break(), "Break stands outside a loop"),
    (ops.For("i", u32(3), -1, ()), "For.limit is -1"),
    (ops.Return(ops.Const(U8, 1)), "Return.value is u8, not u32"),
    (ops.Return(u32(0), 7), "Return.reason is 7, not from -1 to 0"),
    (ops.PStore(P, "net", u32(0), ops.TRUE), "PStore.value is bool, not an integer of whole bytes"),
    (ops.MetaSet(P, "length", u32(1)), "MetaSet.field is 'length'"),
    (ops.MetaSet(P, "timestamp", u32(1)), "MetaSet.value is u32, not u64"),
    (ops.MarkClear(P, "data"), "MarkClear.mark is 'data'"),
    (ops.AnnoSet(P, 48, ops.Const(U8, 1)), "AnnoSet.offset is 48, not from 0 to 47"),
    (ops.Resize("grow", P, u32(1)), "Resize.kind is 'grow'"),
    (ops.Make("x", ops.Const(I64, 1)), "Make.length is i64, not u32"),
    (ops.Kill(P, 4), "Kill.reason is 4"),
    (ops.Put("count", u32(1)), "Put.value is u32, not u64"),
    (ops.Store("cells", u32(0), u32(1)), "Store.value is u32, not u16"),
    (ops.RingPush("slots", P), "RingPush.state is a slots, not ring"),
    (ops.RingPush("ring", P, 1), "RingPush.front is 1, not True or False"),  # type: ignore[arg-type]
    (ops.Wake("all"), "Wake.who is 'all'"),
]


@pytest.mark.parametrize(("node", "message"), NODES, ids=[m.split(",")[0][:40] for _, m in NODES])
def test_a_wrong_field_is_named_with_its_node(node: ops.Stmt, message: str) -> None:
    assert message in trouble((node,))


def test_all_troubles_come_at_once_with_their_place() -> None:
    span = Span("a.py", 7, 3, "  x = y")
    text = trouble((ops.Set("x", ops.Local(U8, "y"), span=span), ops.Break()))
    assert "a.py:7:3: A.process: Local.name is `y`" in text and "Break stands outside a loop" in text


def test_signatures_names_and_circles() -> None:
    assert "the role takes (packet) and gives back u32" in trouble((), ret=VOID)
    assert "only pull gives back a packet" in trouble((), "helper", PACKET)
    assert "this is not a name" in trouble((), "a b", VOID)
    assert "calls itself" in trouble((ops.Eval(ops.Call(VOID, "f", (P,))),), "f", VOID)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (State("a b", "scalar", U32), "is not a name"),
        (State("x", "list", U32), "is a 'list'; kinds are scalar, array"),
        (State("x", "scalar", VOID), "cannot hold void"),
        (State("x", "table", U32, 5), "has the key None; it must be an integer"),
        (State("x", "ring", VOID), "has the size 0; it must be at least 1"),
        (State("count", "scalar", U32), "two states are `count`"),
    ],
)
def test_states_are_held_against_their_kind(state: State, message: str) -> None:
    assert message in trouble((), states=(*STATES, state))


def test_what_is_nested_too_deeply_is_refused_and_not_walked() -> None:
    deep: ops.Expr = u32(1)
    for _ in range(5000):
        deep = ops.Bin("add", U32, deep, u32(1))
    assert trouble((ops.Set("x", deep),)).startswith("A.process: this is nested deeper than 90 levels")
    block: ops.Body = ()
    for _ in range(5000):
        block = (ops.If(ops.TRUE, block),)
    assert "this is nested deeper than 90 levels" in trouble(block)


def test_a_callee_gets_what_it_takes() -> None:
    unit = every_unit()
    for args, message in (((), "Call.args are 0, not 1"), ((ops.TRUE,), "Call.args hold bool for n: u32")):
        body = (ops.Eval(ops.Call(VOID, "helper", args)), ops.Return())
        with pytest.raises(MezzoError, match=message):
            check_unit(replace(unit, functions=(Function("timer", (), VOID, body), unit.functions[2])))
