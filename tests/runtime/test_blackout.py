"""What a reload does while no packet code runs, and what it must not do then."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements.scheduler import NOWHERE, fill
from mezzo.runtime import Router
from mezzo.runtime.reload import Reload
from mezzo.runtime.turns import Turns

CHAIN = "i{0} :: Idle -> a{0} :: Counter -> q{0} :: Queue(20) -> u{0} :: Unqueue -> b{0} :: Counter -> d{0} :: Discard;"
LOAD = "s :: InfiniteSource(LIMIT -1) -> c :: Counter -> q :: Queue(%d) -> u :: Unqueue -> Discard;"


def calls_in_the_swap(monkeypatch: pytest.MonkeyPatch, chains: int) -> int:
    """How many calls Python made in it."""
    count, swap = 0, Reload.swap

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    def counted(reload: Reload) -> None:
        sys.setprofile(called)
        try:
            swap(reload)
        finally:
            sys.setprofile(None)

    more = "".join(CHAIN.format(n) for n in range(chains))
    with monkeypatch.context() as patch, Router.from_click(LOAD % 100 + more, frames=1024) as router:
        patch.setattr(Reload, "swap", counted)
        router.reload(LOAD % 101 + more)
        router.reload("x :: Idle -> y :: Discard;" + LOAD % 102 + more)  # others have other numbers then
    return count


def test_it_does_nothing_for_each_element_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert calls_in_the_swap(monkeypatch, 12) == calls_in_the_swap(monkeypatch, 2)


@pytest.mark.parametrize("text", [LOAD, LOAD.replace("u :: Unqueue -> Discard", "ToDevice(stop{0, METHOD PIPE)")])
def test_a_wish_to_stop_in_the_middle_of_it_is_not_lost(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    move = Turns.move
    with Router.from_click(text % 100, frames=1024) as router:

        def stopped(turns: Turns, old: Any, new: Any) -> None:
            router.please_stop()
            move(turns, old, new)

        monkeypatch.setattr(Turns, "move", stopped)
        ended: list[str] = []
        runner = threading.Thread(target=lambda: ended.append(router.run(seconds=20)))
        runner.start()
        while not int(router.read("c.count")):
            pass
        router.reload(text % 101)
        runner.join()
    assert ended == ["stopped"]


def test_the_collector_and_the_threads_are_as_before() -> None:
    with Router.from_click(LOAD % 100, frames=1024) as router:
        before = gc.isenabled(), sys.getswitchinterval(), router.patience
        router.reload(LOAD % 101)
        with pytest.raises(MezzoError):
            router.reload("nonsense ->")
        assert (gc.isenabled(), sys.getswitchinterval(), router.patience) == before


def test_elements_that_stay_know_where_they_are() -> None:
    with Router.from_click("a :: Counter; b :: Counter; Idle -> a -> b -> q :: Queue(5) -> Idle;") as router:
        a, q, old = router.elements["a"], router.elements["q"], router.engine
        router.reload("x :: Null; a :: Counter; q :: Queue(6); Idle -> x -> a -> q -> Idle;")
        assert router.elements["a"] is a and a.engine is router.engine is not old
        assert router.plan.elements[a.index] is a and a.cells is router.engine.cells[a.index]
        assert q.engine is old and router.elements["q"].engine is router.engine


def _by_calls(engine: Any, tasks: list[int], timers: list[tuple[int, int]]) -> None:
    for task in tasks:
        engine.call(0, "wake", task)
    for timer, at in timers:
        engine.call(0, "timer_set", timer, at)


def _filled(engine: Any, tasks: list[int], timers: list[tuple[int, int]]) -> None:
    fill(engine.cells[0], len(engine.program.tasks), tasks, timers, [])


def _order(how: Callable[..., None], target: str) -> list[Any]:
    """What a scheduler has, and in which order its timers come."""
    with Router.from_click("TimedSource(1) -> Discard;" * 9, virtual=True, target=target) as router:
        engine, count = router.engine, len(router.plan.program.timers)
        for task in range(len(router.plan.program.tasks)):
            engine.call(0, "sleep", task)
        for timer in range(count):
            engine.call(0, "timer_clear", timer)
        for name in ("order", "pass_now"):
            engine.cells[0][name].load(0)
        engine.cells[0]["key"].load([0] * len(engine.cells[0]["key"]))
        how(engine, [0] if router.plan.program.tasks else [], [(t, 50 - t * t % 7) for t in reversed(range(count))])
        cells = {name: cell.dump() for name, cell in engine.cells[0].items()}
        found = [cells["order"], cells["task_count"], cells["timer_count"]]
        for _ in range(count):
            found.append((engine.call(0, "next_due"), engine.cells[0]["heap"][len(router.plan.program.tasks)]))
            engine.call(0, "timer_clear", found[-1][1] - len(router.plan.program.tasks))
        assert engine.cells[0]["where"].dump().count(NOWHERE) >= count
        return found


@pytest.mark.parametrize("target", ["native", "python"])
def test_a_scheduler_is_filled_as_if_it_had_been_told(target: str) -> None:
    told = _order(_by_calls, target)
    assert len(told) == 12 and _order(_filled, target) == told
