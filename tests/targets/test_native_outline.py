"""What the native target takes out of the road, and what stays on it."""

from __future__ import annotations

import pytest

from mezzo.elements.library import maybe_find
from mezzo.ir import ops
from mezzo.pipeline import compile_text
from mezzo.targets.native.layout import walk
from mezzo.targets.native.outline import Leave, as_push, outline, returns, role_of, size


def unit_of(text: str, name: str):
    plan = compile_text(text)
    return plan.whole().instances[plan.program.index(name)].unit


def sizes(unit) -> dict[str, int]:
    return {f.name: size(f.body) for f in unit.functions if role_of(f.name) in ("process", "push", "pull")}


@pytest.mark.parametrize(
    ("element", "role"),
    [
        ("IPFragmenter(1500)", "push"),
        ("CheckIPHeader", "process"),
        ("ARPQuerier(1.0.0.1, 2:2:2:2:2:2)", "push"),
    ],
)
def test_the_rare_side_is_taken_out(element, role):
    inputs = "Idle -> [1] e;" if element.startswith("ARP") else ""
    text = f"Idle -> e :: {element} -> Idle; {inputs}"
    found = sizes(outline(unit_of(text, "e")))
    assert f"{role}.rare1" in found
    assert found[role] < 120


def test_a_setting_does_not_make_a_side_rare():
    assert list(sizes(outline(unit_of("Idle -> e :: DecIPTTL -> Idle;", "e")))) == ["process"]


def test_all_ways_out_of_a_classifier_are_main():
    text = "Idle -> e :: Classifier(12/0806, 12/0800, -); e[0] -> Idle; e[1] -> Idle; e[2] -> Idle;"
    assert list(sizes(outline(unit_of(text, "e")))) == ["process"]


def test_a_process_that_pushes_returns_no_port():
    unit = outline(unit_of("Idle -> e :: CheckLength(60) -> Idle;", "e"))
    body = as_push(unit.function("process")).body
    assert all(s.value is None for s in walk(body) if isinstance(s, ops.Return))
    assert sum(isinstance(s, ops.Emit) for s in walk(body)) == 2


def test_every_unit_of_the_library_keeps_its_returns():
    unit = outline(unit_of("Idle -> e :: IPGWOptions(1.0.0.1) -> Idle;", "e"))
    for function in unit.functions:
        if role_of(function.name) == "process":
            assert returns(function.body)
    assert maybe_find("IPGWOptions") is not None
    assert any(isinstance(n, Leave) for f in unit.functions for n in walk(f.body)) == any(
        ".rare" in f.name for f in unit.functions
    )
