"""Units: equal ones are one object, skeletons carry what linking needs, and code from disk needs no more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mezzo.pipeline import compile_text, units

NOT_NEEDED = [
    "numpy",
    *(f"mezzo.{room}" for room in ("ir.ops", "ir.linear", "ir.spec", "ir.text", "passes", "frontends.python")),
    *(f"mezzo.targets.native.{module}" for module in ("emit", "lower", "lpm")),
]
ROUTER = (
    "InfiniteSource(LIMIT 5, STOP true) -> c :: Classifier(12/0800, -) -> Discard;"
    "c[1] -> SetIPAddress(10.0.0.1) -> RadixIPLookup(10.0.0.0/8 0) -> Queue -> Unqueue -> Counter -> Discard;"
)
START = f"""
import sys
from mezzo.runtime import Router
with Router.from_click({ROUTER!r}) as router:
    router.run()
    print(router.engine.code.from_disk, *(m for m in {NOT_NEEDED!r} if m in sys.modules))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mezzo"


def test_what_packet_code_does_not_read_makes_no_other_unit(folder: Path) -> None:
    plan = compile_text("Idle -> ICMPError(10.0.0.1, 3) -> ICMPError(10.0.0.2, 11) -> Strip(1) -> Strip(2) -> Discard;")
    made = [x.unit for x in plan.program.instances]
    one, other, first, second = (u for u in made if u.name in ("ICMPError", "Strip"))
    assert one is other and first is not second and first.digest != second.digest


def test_skeletons_are_as_the_units_they_stand_for(folder: Path) -> None:
    whole, skeletons = compile_text(ROUTER).program, compile_text(ROUTER)
    for x, bare in zip(whole.instances, skeletons.program.instances, strict=True):
        assert bare.unit.is_skeleton and not x.unit.is_skeleton
        assert (bare.unit.digest, bare.unit.uses, bare.unit.states) == (x.unit.digest, x.unit.uses, x.unit.states)
    assert skeletons.whole() == whole


def test_constants_of_another_type_differ() -> None:
    assert units._same((1, 2), (1, 2)) and not units._same((1, True), (1, 1)) and not units._same(True, 1)


def test_code_from_disk_needs_neither_the_ir_nor_numpy(folder: Path) -> None:
    run = [sys.executable, "-c", START]
    said = [subprocess.run(run, env=dict(os.environ), capture_output=True, text=True, check=True).stdout for _ in "12"]
    assert said[0].startswith("False") and said[1].split() == ["True"]
