"""Object code on disk: found again, not trusted when damaged, bounded, and not needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mezzo.base.cache import trim
from mezzo.ir import ops
from mezzo.ir.module import Program
from mezzo.ir.types import U32
from mezzo.packet.arena import Arena
from mezzo.targets.native import cache
from mezzo.targets.native.lower_stmt import _pieces
from tests.targets.native_units import alone, c, entry, start, unit_of


def program(value: int) -> Program:
    return alone(unit_of(entry("f", U32, (ops.Return(c(value)),))))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mezzo"


def build(value: int, frames: int = 4) -> tuple[bool, int]:
    """(whether the code came from disk, what it says)."""
    engine = start("native", program(value), cache=True, arena=Arena(frames))
    return engine.code.from_disk, engine.call(0, "f")


def test_found_again(folder: Path) -> None:
    assert [build(5), build(5), build(6), build(5, frames=8)] == [(False, 5), (True, 5), (False, 6), (False, 5)]
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"short", None])
def test_damaged_is_rebuilt(folder: Path, damage: bytes | None) -> None:
    build(5)
    (file,) = folder.iterdir()
    raw = file.read_bytes()
    file.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]) if damage is None else damage)
    assert [build(5), build(5)] == [(False, 5), (True, 5)]


def test_works_without_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert [build(5), build(5)] == [(False, 5), (False, 5)]


def test_the_oldest_go(tmp_path: Path) -> None:
    for i in range(4):
        (tmp_path / f"{i}.o").write_bytes(bytes(100))
        os.utime(tmp_path / f"{i}.o", (i, i))
    trim(tmp_path, 250)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["2.o", "3.o"]


def test_equal_units_have_equal_keys() -> None:
    one, two = program(5).instances[0], program(5).instances[0]
    assert cache.unit_keys(Program((one, two), (), ()))[0] == [0, 0]


def test_pieces_cover_a_copy() -> None:
    for length in range(1, 257):
        covered: set[int] = set()
        for begin, size in _pieces(length):
            assert begin >= 0 and begin + size <= length
            covered |= set(range(begin, begin + size))
        assert len(covered) == length
