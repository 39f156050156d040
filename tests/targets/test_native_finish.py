"""Code that is compiled quickly first, and well beside it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llvmlite.binding import ffi

from mezzo.ir import ops
from mezzo.ir.module import Function, State
from mezzo.ir.types import U32, U64
from mezzo.targets.native import finish as finishing
from mezzo.targets.native.build import Draft
from tests.targets.native_units import alone, bump, c, entry, start, unit_of

Jobs = list[Callable[[], None]]
COUNT = entry("count", U64, (bump("n"), ops.Return(ops.Get(U64, "n"))))
OTHER = Function("other", (), U32, (ops.Return(c(7)),))  # no door leads there until somebody asks for one


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mezzo"


def hurried() -> Any:
    program = alone(unit_of(COUNT, OTHER, states=(State("n", "scalar", U64),)))
    return start("native", program, cache=True, hurry=True)


def finished(engine: Any, jobs: Jobs) -> None:
    finishing.finish(engine, jobs.append)
    finishing._wait()


def address(engine: Any) -> int:
    return int(engine.code.function_door(0, "count"))


def test_state_goes_on_in_other_code(folder: Path) -> None:
    engine, jobs = hurried(), Jobs()
    quick = address(engine)
    assert [engine.call(0, "count") for _ in range(3)] == [1, 2, 3]
    assert not folder.exists()
    finished(engine, jobs)
    assert engine.call(0, "count") == 4
    assert address(engine) == quick  # until packet code rests
    jobs.pop()()
    assert engine.call(0, "count") == 5
    assert address(engine) != quick
    assert not jobs
    assert engine.code.draft is None


def test_the_next_start_finds_it(folder: Path) -> None:
    finished(hurried(), Jobs())
    engine, jobs = hurried(), Jobs()
    assert engine.code.from_disk
    finished(engine, jobs)
    assert (engine.call(0, "count"), jobs) == (1, [])


def test_doors_that_were_asked_for_meanwhile_are_there_afterwards(folder: Path) -> None:
    engine, jobs = hurried(), Jobs()
    finished(engine, jobs)
    assert engine.call(0, "other") == 7  # compiled once more, with that door
    jobs.pop()()
    finishing._wait()
    assert engine.code.draft is not None
    jobs.pop()()
    assert (engine.call(0, "other"), engine.call(0, "count")) == (7, 1)
    assert engine.code.draft is None


def test_an_engine_that_is_closed_does_not_care(folder: Path) -> None:
    engine, jobs = hurried(), Jobs()
    finished(engine, jobs)
    engine.close()
    jobs.pop()()


def test_a_child_is_forked_when_llvm_rests(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, begun, may_end = hurried(), threading.Event(), threading.Event()
    real = Draft.finished

    def slow(draft: Draft) -> bytes:
        begun.set()
        may_end.wait(30)
        return real(draft)

    monkeypatch.setattr(Draft, "finished", slow)
    finishing.finish(engine, lambda job: None)
    assert begun.wait(30)
    threading.Timer(0.05, may_end.set).start()
    child = os.fork()
    if not child:
        os._exit(0 if may_end.is_set() and not finishing._under_way else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_who_runs_packet_code_does_not_wait_for_llvm(folder: Path) -> None:
    engine, jobs = hurried(), Jobs()
    finished(engine, jobs)
    told = []

    def at_rest() -> None:
        jobs.pop()()
        told.append(engine.call(0, "count"))

    runner = threading.Thread(target=at_rest)
    with ffi.lib._lock:  # somebody compiles
        runner.start()
        runner.join(10)
        assert told == [1]
    runner.join()
    assert engine.code.draft is None
