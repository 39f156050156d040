"""Several who change the configuration at once: each has a turn, no change is undone, and nobody waits for ever."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements import Element, library
from mezzo.runtime import Router
from mezzo.runtime.metrics import Registry
from mezzo.runtime.paths import Path as Way
from mezzo.runtime.paths import Tracer
from mezzo.tools.run import follow
from tests.runtime.test_reload import running

BOTH = pytest.mark.parametrize("target", ["python", "native"])
PLAIN = "s :: InfiniteSource(LIMIT 100) -> c :: Counter -> %sDiscard;"
BUSY = "s :: InfiniteSource(LIMIT -1) -> a :: Counter -> b :: Counter -> %sDiscard;"


REACHED, FREE, CLEANED = threading.Event(), threading.Event(), list[str]()


@library.register
class ChangeGate(Element):
    """Does not get ready before it may, and does not go in peace."""

    def initialize(self) -> None:
        REACHED.set()
        assert FREE.wait(10)

    def cleanup(self) -> None:
        CLEANED.append(self.name)
        raise OSError("it does not want to")

    def process(self, p):
        return 0


@pytest.fixture(autouse=True)
def _gate() -> None:
    REACHED.clear()
    FREE.clear()
    CLEANED.clear()


def asking(text: str, *changes: str) -> str:
    """The configuration with a script that changes it, in the middle of a task, for each packet."""
    told = ", ".join(f"writeq {change}" for change in changes)
    return f"{text} t :: Feed -> x :: Script(TYPE PACKET, {told}, return 0) -> Discard;"


def made(text: str, target: str = "native", **more: Any) -> Router:
    found = Router.from_click(text, target=target, frames=4096, **more)
    found.reconfigurable = True
    return found


@BOTH
def test_of_two_configurations_in_one_task_the_later_one_holds(target: str) -> None:
    first, second = PLAIN % "d :: Counter -> ", PLAIN % "e :: Queue(300) -> Unqueue -> "
    text = asking(PLAIN % "q :: Queue(100) -> Unqueue -> ", f'hotconfig "{first}"', f'hotconfig "{second}"')
    with made(text, target) as r:
        r.run()
        r.feed("t", [b"x" * 60])
        r.run()
        assert r.text == second and "e" in r.elements and "d" not in r.elements
        assert r.read("c.count") == "100" and r.conservation().balanced


@BOTH
def test_two_elements_may_be_replaced_in_one_task(target: str) -> None:
    text = asking(PLAIN % "n :: Null -> ", 'replace "n Paint(3)"', 'replace "c AverageCounter"')
    with made(text, target) as r:
        r.feed("t", [b"x" * 60])
        r.run()
        assert [type(r.elements[name]).__name__ for name in ("n", "c")] == ["Paint", "AverageCounter"]
        assert "replace" in r.read("hotconfig", "json") and r.reloaded is not None and r.reloaded.blackout_ns > 0


@BOTH
def test_a_mistake_behind_a_change_leaves_that_change(target: str) -> None:
    first = PLAIN % "d :: Counter -> "
    with made(asking(PLAIN % "", f'hotconfig "{first}"', 'hotconfig "-> nonsense"'), target) as r:
        r.feed("t", [b"x" * 60])
        r.run()
        assert r.text == first


def in_a_thread(job: Any) -> tuple[threading.Thread, list[BaseException]]:
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            job()
        except BaseException as found:
            trouble.append(found)

    thread = threading.Thread(target=work)
    thread.start()
    return thread, trouble


@BOTH
def test_a_script_does_not_wait_for_a_change_that_waits_for_it(target: str) -> None:
    said: list[str] = []
    text = asking(BUSY % "", 'replace "a Null"')
    with running(made(text, target)) as r:
        r.hearers.append(said.append)
        other, trouble = in_a_thread(lambda: r.replace("b", "ChangeGate"))
        assert REACHED.wait(10)
        r.feed("t", [b"x" * 60])
        while not said:
            r.read("a.byte_count")
        FREE.set()
        other.join(10)
        assert not other.is_alive() and not trouble
        assert "another change of the configuration is under way" in "".join(said)
        assert [type(r.elements[name]).__name__ for name in "ab"] == ["Counter", "ChangeGate"]
        r.replace("b", "Null")
        assert type(r.elements["b"]).__name__ == "Null" and "reload: OSError: it does not want to" in said
        assert CLEANED == ["b"]


def test_replacements_by_two_at_once_both_hold() -> None:
    with running(made(BUSY % "")) as r:
        one, first = in_a_thread(lambda: r.replace("a", "ChangeGate"))
        assert REACHED.wait(10)
        two, second = in_a_thread(lambda: r.replace("b", "Null"))
        two.join(0.1)
        FREE.set()
        one.join(10)
        two.join(10)
        assert not first and not second
        assert [type(r.elements[name]).__name__ for name in "ab"] == ["ChangeGate", "Null"]
        r.replace("a", "Null")  # it does not go in peace


def test_a_router_that_is_closed_in_the_middle_of_a_change_gives_it_up(tmp_path: Path) -> None:
    new = PLAIN % "ChangeGate -> " + f" Idle -> ToDump({tmp_path}/new.pcap) -> Discard;"
    r = made(PLAIN % "")
    changing, trouble = in_a_thread(lambda: r.reload(new))
    assert REACHED.wait(10)
    ending, none = in_a_thread(r.close)
    ending.join(0.05)
    FREE.set()
    changing.join(10)
    ending.join(10)
    assert not none and r.closed and len(CLEANED) == 1
    assert [str(one) for one in trouble] == ["the router is closed"]
    with pytest.raises(MezzoError, match="closed"):
        r.reload(new)


def test_a_job_that_is_put_off_does_not_hold_those_behind_it() -> None:
    with made(PLAIN % "") as r:
        done: list[int] = []

        def again() -> None:
            done.append(1)
            r._later(again)

        r._later(again)
        r.serve()
        assert done == [1]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_no_counter_goes_down(threads: int) -> None:
    text = (
        "s :: RatedSource(RATE 5000) -> a :: Counter -> q :: ThreadSafeQueue(100) -> u :: Unqueue -> %s d :: Discard;"
    )
    with running(made(text % "", threads=threads)) as r:
        known: dict[str, float] = {}
        while known.get(f'mezzo_thread_rounds_total{{thread="{threads - 1}"}}', 0) < 1000:
            known = counters(r)
        for i in range(4):
            r.reload(text % ("Null -> ", "")[i % 2])
            now = counters(r)
            assert [(name, n, now[name]) for name, n in known.items() if name in now and now[name] < n] == []
            known = now


def counters(router: Router) -> dict[str, float]:
    lines = [line.rpartition(" ") for line in Registry(router).text().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines if "_total" in name}


@BOTH
def test_who_follows_packets_follows_them_in_what_came(target: str) -> None:
    """With `mezzo run --trace`: here packets come from an element that was not there before."""
    paths: list[Way] = []
    tracer = Tracer(2, paths.append)
    text = "f :: Feed -> Null -> c :: Counter -> Discard;"
    with made(text, target, trace=tracer.seen) as r:
        follow(r, tracer)
        r.feed("f", [b"x" * 60])
        r.run()
        r.reload(text.replace("f ::", "g ::"))
        r.feed("g", [b"y" * 60])
        r.run()
        tracer.finish()
        assert [[step.element for step in path.steps] for path in paths] == [
            [x, "Null@2", "c", "Discard@4"] for x in "fg"
        ]


def test_mistakes_have_places_in_what_came(tmp_path: Path) -> None:
    """Not in the file that the router was started with; names of files still count from its folder."""
    with made(PLAIN % "", file=str(tmp_path / "first.click")) as r, pytest.raises(MezzoError) as told:
        r.reload(PLAIN % "Nonsense -> ")
    assert f"{tmp_path}/hotconfig:1:51" in str(told.value) and "first.click" not in str(told.value)


def test_a_router_that_rests_anyway_has_not_been_dark_since_it_ran() -> None:
    with made(PLAIN % "q :: ThreadSafeQueue -> Unqueue -> ", threads=2) as r:
        r.run()
        assert r.team is not None
        r.team.rested_ns = 0
        assert r.replace("c", "Null").blackout_ns < 10**10
