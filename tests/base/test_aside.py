"""Another Python that works for this one."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from mezzo.base.aside import Worker

MODULE = """
import time
def upper(text): return text.upper().encode()
def bad(text): raise ValueError(text)
def slow(text): time.sleep(60)
def large(text): return bytes(1 << 20)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "work_aside.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "work_aside"


def test_texts_become_bytes(module: str) -> None:
    with Worker(module, "upper", ["a", "", "née\n'"]) as worker:
        assert worker.results() == {"a": b"A", "": b"", "née\n'": "NÉE\n'".encode()}


def test_results_may_be_large(module: str) -> None:
    with Worker(module, "large", ["a", "b" * 300_000]) as worker:
        assert [len(made) for made in worker.results().values()] == [1 << 20] * 2


def test_what_fails_gives_nothing(module: str) -> None:
    with Worker(module, "bad", ["a"]) as worker:
        assert worker.results() == {}


@pytest.mark.parametrize("python", ["", "/nowhere/python", "/bin/false"])
def test_no_python_gives_nothing(module: str, python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", python)
    with Worker(module, "upper", ["a"]) as worker:
        assert worker.results() == {}


def test_a_program_with_a_python_inside_is_not_started_again(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with Worker(module, "upper", ["a"]) as worker:
        assert worker.results() == {}


def test_nothing_is_left(module: str) -> None:
    before, begun = sorted(os.listdir("/proc/self/fd")), time.monotonic()
    with Worker(module, "slow", ["a"]) as worker:
        process = worker._process
    assert process is not None and process.returncode == -9
    assert time.monotonic() - begun < 30
    assert len(os.listdir("/proc/self/fd")) == len(before)
