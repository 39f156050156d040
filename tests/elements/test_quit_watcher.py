"""QuitWatcher on every target: when it stops the router."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names

TARGETS = pytest.mark.parametrize("target", target_names())
OTHER = "RatedSource(RATE 1) -> Discard;"


def ended(text: str, target: str) -> tuple[str, float]:
    with Router.from_click(f"{text} {OTHER}", target=target, virtual=True) as router:
        return router.run(seconds=60), router.now_ns / 1e9


@TARGETS
@pytest.mark.parametrize(
    ("source", "seconds"),
    [
        ("s :: InfiniteSource(LIMIT 5) -> Discard;", 2),
        ("s :: RatedSource(RATE 2, LIMIT 10) -> Discard;", 6),
        ("s :: TimedSource(INTERVAL 3, LIMIT 2) -> Discard;", 7),
        ("a :: InfiniteSource(LIMIT 5) -> Discard; s :: RatedSource(RATE 1, LIMIT 4) -> Discard;", 2),
    ],
)
def test_it_stops_when_one_source_has_ended(source: str, seconds: float, target: str) -> None:
    names = "a, s" if source.startswith("a") else "s"
    why, when = ended(f"{source} QuitWatcher({names});", target)
    assert why == "stopped" and seconds - 1 <= when <= seconds + 1


@TARGETS
def test_a_source_before_a_full_queue_has_not_ended(target: str) -> None:
    text = "s :: InfiniteSource(LIMIT 60) -> Queue(4) -> RatedUnqueue(RATE 5) -> Discard; QuitWatcher(s);"
    why, when = ended(text, target)
    assert why == "stopped" and 11 <= when <= 14


@TARGETS
def test_a_driver_manager_may_go_on(target: str) -> None:
    text = "s :: InfiniteSource(LIMIT 5) -> Discard; QuitWatcher(s); DriverManager(pause, wait 4s, stop);"
    assert ended(text, target)[0] == "stopped"


def test_names_in_a_compound() -> None:
    with Router.from_click("x :: { s :: InfiniteSource(LIMIT 5) -> Discard; QuitWatcher(s) };", virtual=True) as router:
        assert router.run() == "stopped"


@pytest.mark.parametrize(
    ("arguments", "trouble"),
    [("", "too few arguments"), ("q", "there is no element `q`"), ("d", "`d` never runs by itself")],
)
def test_troubles(arguments: str, trouble: str) -> None:
    with pytest.raises(MezzoError, match=trouble):
        Router.from_click(f"Idle -> d :: Null -> Discard; QuitWatcher({arguments});")
