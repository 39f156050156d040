"""Hand-built units and the two engines that run them, for the tests of the native target."""

from __future__ import annotations

from typing import Any

from mezzo.elements.store import make_cell
from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.ops import Body, Const, Expr, Local
from mezzo.ir.types import PACKET, U32, U64, Type
from mezzo.packet.arena import Arena
from mezzo.targets import native, python

TARGETS = {"python": python, "native": native}
P = Local(PACKET, "p")


def c(value: int, type: Type = U32) -> Const:
    return Const(type, value)


def loc(name: str, type: Type = U32) -> Local:
    return Local(type, name)


def bump(state: str, by: Expr | None = None) -> ops.Stmt:
    """state += by, for a u64 scalar."""
    return ops.Put(state, ops.Bin("add", U64, ops.Get(U64, state), by or c(1, U64)))


def entry(name: str, ret: Type, body: Body, *params: Param) -> Function:
    return Function(name, params, ret, body, entry=True)


def unit_of(
    *functions: Function, states: tuple[State, ...] = (), reasons: tuple[str, ...] = (), hosts: Any = ()
) -> Unit:
    return Unit("Test", functions, states, reasons, tuple(hosts))


def alone(unit: Unit) -> Program:
    return Program((Linked("x", unit),), (), ())


def plain(program: Program) -> list[dict[str, Any]]:
    return [{s.name: make_cell(s) for s in x.unit.states} for x in program.instances]


def start(target: str, program: Program, **more: Any) -> Any:
    """An engine with an arena of its own, `more` as for build (cells and hosts too)."""
    arena = more.pop("arena", None) or Arena(64)
    cells, hosts = more.pop("cells", None) or plain(program), more.pop("hosts", {})
    return TARGETS[target].build(program, arena, cells, hosts, **{"cache": False, "virtual": True, **more})


def evaluate(expr: Expr, target: str = "native", states: tuple[State, ...] = (), data: bytes = b"") -> int:
    """The value of `expr`, with the lent packet `p` holding `data`."""
    unit = unit_of(entry("f", expr.type, (ops.Return(expr),), Param("p", PACKET)), states=states)
    engine = start(target, alone(unit))
    packet = engine.arena.make_from(data)
    value = engine.call(0, "f", packet)
    engine.arena.free(packet.frame)
    assert engine.arena.held == 0
    return value
