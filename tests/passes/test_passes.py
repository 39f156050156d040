"""Passes change the form and not the meaning; what goes in valid comes out valid."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mezzo.ir import ops
from mezzo.ir.linear import check_linear
from mezzo.ir.module import Function, Param, Unit
from mezzo.ir.spec import check_unit
from mezzo.ir.text import parse_unit, print_node, print_unit
from mezzo.ir.types import BOOL, I64, U8, U16, U32, U48, U64, U128, VOID, Type
from mezzo.passes import PIPELINE, dead, fold
from tests.frontends.snippet import unit_of
from tests.ir.every import every_unit
from tests.ir.test_linear import SOUND
from tests.ir.units import STATES, Drawer, units
from tests.passes import evaluate

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]
PARAMS = tuple(Param(n, t) for n, t in zip("abcdefgh", (U8, U32, I64, U64, BOOL, U16, U48, U128), strict=True))
KINDS = {
    ops.Const, ops.Local, ops.Bin, ops.Cmp, ops.Logic, ops.Not, ops.Cast, ops.Select, ops.Get, ops.Index, ops.Random,
    ops.Set, ops.Put, ops.Store, ops.Eval, ops.If, ops.For, ops.Return, ops.Break, ops.Continue,
}  # fmt: skip

FOLD = """unit Fold
state n: u32
state small: u8
state cells: array u16 x 4
state at: u64

process(p: packet) -> u32:
  self.n = (1 + 2) * 3
  x = self.n
  self.n = ((x + 5) - 2) + 0
  self.n = (x & 0xff) & 0x0f
  self.n = u32(u8(x)) & 0xff
  self.n = (x / 8) + (x % 16)
  self.n = (x >> 3) >> 40
  self.n = (x * 0) + (p.length * 0)
  self.n = u32(p.u8[net + 0]) * 0
  self.small = u8(u32(self.small) & 0xff)
  self.at = u64(u32(self.n))
  if u32(self.small) < 256:
    self.n = 1
  else:
    self.n = 2
  if 5u8 <= self.small:
    self.n = 3
  if u32(p.u8[net + 1]) == 300:
    self.n = 4
  if not (x == 3) and true:
    self.n = 5
  if u32(x > 3) == 1:
    self.n = 6
  if p.u8[net + 2] == 0u8:
    pass
  if x == 9:
    pass
  else:
    self.n = 7
  for i in range(0) max 9:
    self.n = 8
  for i in range(3) max 9:
    if false:
      break
  eval x + 1
  y = true ? x : self.n
  z = true ? y : u32(self.cells[x])
  self.n = z
  return 0
"""

DEAD = """unit Dead
state n: u32
state cells: array u16 x 4
state seen: table[u32] u32 x 9

process(p: packet) -> u32:
  unused = self.n + 1
  chain = self.n
  chain2 = chain + 1
  load = p.u8[net + 0]
  cell = self.cells[self.n]
  dice = random()
  fits = self.seen.put(1, 2)
  was = self.seen.delete(1)
  if was:
    self.n = 2
  if self.n == 3:
    nothing = 1
  for i in range(4) max 4:
    if self.n == i:
      self.n = 1
      break
      self.n = 2
    else:
      continue
    self.n = 3
  for idle in range(4) max 4:
    unread = 1
  for last in range(4) max 4:
    pass
  self.n = last
  if self.n == 0:
    return 0
  else:
    return 1
  self.n = 4
  return 2
"""


@pytest.mark.parametrize(("name", "run", "text"), [("fold", fold.run, FOLD), ("dead", dead.run, DEAD)])
def test_what_a_pass_does(
    name: str, run: Callable[[Unit], Unit], text: str, golden: Callable[[str, str], None]
) -> None:
    unit = parse_unit(text)
    check_unit(unit)
    made = run(unit)
    check_unit(made)
    golden(f"passes/{name}.txt", print_unit(made))
    assert run(made) == made, "a second run finds nothing"


class Arithmetic(Drawer):
    """Draws code that needs no packet."""

    def possible(self, kind: type[ops.Node], depth: int) -> bool:
        return kind in KINDS and super().possible(kind, depth)

    def gives(self, kind: type[ops.Node], type_: Type) -> bool:
        return kind in KINDS and super().gives(kind, type_)

    def born(self, rule: Any, fields: dict[str, Any]) -> str:
        """A parameter, so that every local has a value on every path."""
        wanted = rule.type or fields["value"].type
        return next(p.name for p in PARAMS if p.type is wanted)

    def field(self, kind: type[ops.Node], name: str, rule: Any, fields: dict[str, Any], depth: int) -> Any:
        if kind is ops.Const and name == "value" and self.draw(st.booleans()):  # small and round numbers meet the rules
            low, high = (-3, 9) if fields["type"].signed else (0, min(9, fields["type"].mask))
            picked: int = self.draw(st.integers(low, high) | st.sampled_from([fields["type"].wrap(-1)]))
            return picked
        if kind is ops.For and name == "limit":
            return self.draw(st.integers(0, 4))
        return super().field(kind, name, rule, fields, depth)


@st.composite
def arithmetic(draw: Callable[[Any], Any]) -> Unit:
    function = Function("work", PARAMS, U32, ())
    body = Arithmetic(draw, Unit("Some", (), STATES), function).body(3)
    return Unit("Some", (Function("work", PARAMS, U32, (*body, ops.Return(ops.u32(1)))),), STATES)


ARGS = st.fixed_dictionaries(
    {
        "a": st.integers(0, 255),
        "b": st.integers(0, 9) | st.integers(0, U32.mask),
        "c": st.integers(-9, 9) | st.integers(-(1 << 63), (1 << 63) - 1),
        "d": st.integers(0, 9) | st.integers(0, U64.mask),
        "e": st.integers(0, 1),
    }
)


@given(arithmetic(), ARGS)
@settings(max_examples=100, deadline=None, suppress_health_check=QUIET, derandomize=True)
def test_the_meaning_stays(unit: Unit, args: dict[str, int]) -> None:
    check_unit(unit)
    want = evaluate.run(unit, "work", args)
    for step in PIPELINE:
        unit = step(unit)
        check_unit(unit)
        assert evaluate.run(unit, "work", args) == want, print_unit(unit)


def drawn(draw: Callable[[Any], Any], type_: Type) -> ops.Expr:
    return Arithmetic(draw, Unit("Some", (), STATES), Function("work", PARAMS, VOID, ())).expr(type_, 4)


@given(st.data(), ARGS)
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET, derandomize=True)
def test_an_expression_keeps_its_value_and_its_faults(data: st.DataObject, args: dict[str, int]) -> None:
    expr = drawn(data.draw, data.draw(st.sampled_from([BOOL, U8, U16, U32, U64, I64])))
    before = _value(expr, args)
    folded = fold.fold(expr)
    assert folded.type is expr.type
    assert _value(folded, args) == before, f"{print_node(expr)}  ->  {print_node(folded)}"
    assert fold.fold(folded) == folded


def _value(expr: ops.Expr, args: dict[str, int]) -> list[object]:
    unit = Unit("Some", (Function("work", PARAMS, expr.type, (ops.Return(expr),)),), STATES)
    return evaluate.run(unit, "work", args)


@given(units())
@settings(max_examples=40, deadline=None, suppress_health_check=QUIET, derandomize=True)
def test_valid_in_valid_out(unit: Unit) -> None:
    for step in PIPELINE:
        unit = step(unit)
        check_unit(unit)
        assert parse_unit(print_unit(unit)) == unit


@pytest.mark.parametrize("name", [*SOUND, "every"])
def test_linear_in_linear_out(name: str) -> None:
    unit = every_unit() if name == "every" else unit_of(SOUND[name])
    for step in PIPELINE:
        unit = step(unit)
        check_unit(unit)
        check_linear(unit)


def test_each_pass_is_one_file_with_run() -> None:
    for step in PIPELINE:
        assert step.__name__ == "run" and (inspect.getmodule(step).__doc__ or "").strip()


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        ("u8(u32(x) & 0xff)", "u8(x)"),
        ("(x ^ x) + 3", "3"),
        ("0 - 1", "0xffffffff"),
        ("1 / 0", "0"),
        ("7 % 0", "7"),
        ("1 << 32", "0"),
        ("(x << 4) << 4", "x << 8"),
        ("(x << 20) << 20", "0"),
        ("5 < x", "x > 5"),
        ("x >= 0", "true"),
        ("x < 0", "false"),
        ("u64(x) < 0x100000000u64", "true"),
        ("u64(x) == 5u64", "x == 5"),
        ("i64(x) < -1i64", "false"),
        ("not (x < 3)", "x >= 3"),
        ("u32(x > 3) != 0", "x > 3"),
        ("(x > 3) or true", "true"),
        ("(random() > 3) or true", "(random() > 3) or true"),
        ("random() & 0", "random() & 0"),
        ("u32(self.cells[9]) == 70000", "u32(self.cells[9]) == 0x11170"),
        ("true ? x : random()", "true ? x : random()"),
        ("false ? x : 3", "3"),
        ("(random() == 1) ? false : false", "(random() == 1) ? false : false"),
        ("(x == 1) ? false : true", "x != 1"),
    ],
)
def test_single_rules(text: str, simpler: str) -> None:
    unit = parse_unit(f"unit A\nstate cells: array u16 x 8\n\nf(x: u32):\n  y = {text}\n  return\n")
    statement = unit.functions[0].body[0]
    assert isinstance(statement, ops.Set)
    made = print_node(fold.fold(statement.value)).replace("x:u32", "x")
    assert made == simpler
