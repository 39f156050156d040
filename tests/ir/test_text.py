"""The text form: golden, exact both ways, quick, and its own errors."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from mezzo.base import MezzoError
from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.spec import check_unit
from mezzo.ir.text import parse_unit, print_node, print_program, print_unit
from mezzo.ir.types import BOOL, I64, PACKET, U16, U32, U64, U128, VOID
from tests.ir.every import every_unit
from tests.ir.units import units

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.slow
@given(units())
@settings(max_examples=60, deadline=None, suppress_health_check=QUIET, derandomize=True)
def test_any_valid_unit_reads_back(unit: Unit) -> None:
    check_unit(unit)
    text = print_unit(unit)
    assert parse_unit(text) == unit
    assert print_unit(parse_unit(text)) == text


def test_every_node_has_a_form(golden: Callable[[str, str], None]) -> None:
    unit = every_unit()
    check_unit(unit)
    golden("ir/every.txt", print_unit(unit))
    assert parse_unit(print_unit(unit)) == unit


def test_names_that_are_words_stand_in_backticks() -> None:
    body = (ops.Set("none", ops.u32(1)), ops.Put("n", ops.Local(U32, "none")), ops.Return())
    unit = Unit("A b", (Function("entry", (Param("self", BOOL),), VOID, body),), (State("n", "scalar", U32),))
    assert "`none` = 1" in print_unit(unit)
    assert parse_unit(print_unit(unit)) == unit


def test_a_program_lists_instances_and_each_unit_once() -> None:
    unit = Unit("Null", (Function("process", (Param("p", PACKET),), U32, (ops.Return(ops.u32(0)),)),), ())
    program = Program((Linked("a", unit, ((1, 0),)), Linked("b", unit, (None,), ((0, 0),))), (0,), ())
    text = print_program(program)
    assert text.count("unit Null") == 1
    assert "0 a :: Null; [0] -> 1[0]" in text and "1 b :: Null; [0] -> none; [0] <- 0[0]" in text


def test_printing_is_quick_enough_to_hash() -> None:
    unit = every_unit()
    nodes = print_unit(unit).count("\n")
    best = min(_seconds(lambda: print_unit(unit)) for _ in range(20))
    assert best < 20e-6 * nodes  # 20 us a line, far above what it takes


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def test_numbers_carry_their_type() -> None:
    assert print_node(ops.Const(U32, 5)) == "5"
    assert print_node(ops.Const(U16, 0xFFFF)) == "0xffffu16"
    assert print_node(ops.Const(I64, -3)) == "-3i64"
    assert print_node(ops.Const(U128, 1 << 100)) == f"{1 << 100:#x}u128"
    assert print_node(ops.TRUE) == "true"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = y", "nothing above says which type `y` has; write y:u32 or another type"),
        ("x = 1 +", "expected a value here"),
        ("x = (1 + 2", "expected ) here"),
        ("x = self.other", "there is no state `other`"),
        ("x = self.n.frob(1)", "expected a width such as u16 or u16le here"),
        ("kill p \"lost\"", "this reason is not among the unit's `reasons`"),
        ("x = call f(1)", "there is no function `f`"),
        ("p.u16[net + 0] = 1", "this stores a u32 as u16"),
        ("x = 1 2", "expected the end of the line here"),
        ("if true:", "expected a statement here"),
        ("x = $", "this is not part of the IR's text"),
        ("  x = 1", "expected 2 spaces before this"),
        ("wake everybody", "expected self or down or up here"),
    ],
)
def test_errors_of_the_text_have_a_place(line: str, message: str) -> None:
    text = f"unit A\nstate n: u32\n\nprocess(p: packet) -> u32:\n  {line}\n"
    with pytest.raises(MezzoError) as caught:
        parse_unit(text)
    assert message in str(caught.value)
    assert caught.value.diagnostics[0].span is not None


@pytest.mark.slow
@given(units())
@settings(max_examples=10, deadline=None, suppress_health_check=QUIET, derandomize=True)
def test_damaged_text_gives_an_error_and_no_crash(unit: Unit) -> None:
    text = print_unit(unit)
    for cut in range(0, len(text), max(1, len(text) // 12)):
        for damaged in (text[:cut], text[:cut] + "(" + text[cut:], text[:cut] + text[cut + 3 :]):
            try:
                parse_unit(damaged)
            except MezzoError:
                continue


def test_types_of_locals_show_where_nothing_says_them() -> None:
    assert print_node(ops.Local(U64, "x")) == "x:u64"
