"""Counters on every target."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements._rates import RateWindow, mean_rate, show_rate
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from mezzo.targets import target_names

EVERY = pytest.mark.parametrize("target", target_names())


def test_counts(vectors: Any) -> None:
    give = [b"", b"a" * 60, b"b" * 1500]
    reads = {"c.count": "3", "c.byte_count": "1560", "d.count": "3"}
    vectors(
        "in0 :: Feed -> c :: Counter -> Queue -> d :: Counter -> Unqueue -> out0 :: Collect;",
        {"in0": give},
        {"out0": give},
        reads,
    )


@EVERY
def test_rates_and_reset(target: str) -> None:
    text = "s :: RatedSource(LENGTH 100, RATE 50) -> c :: Counter -> Discard;"
    with Router.from_click(text, target=target, virtual=True) as r:
        assert r.read("c.rate") == "0"
        r.run(seconds=10)
        assert float(r.read("c.rate")) == pytest.approx(50, rel=0.02)
        r.write("s.rate", "100")
        r.run(seconds=2)
        assert float(r.read("c.rate")) == pytest.approx(100, rel=0.02)
        assert float(r.read("c.byte_rate")) == pytest.approx(10_000, rel=0.02)
        assert float(r.read("c.bit_rate")) == pytest.approx(80_000, rel=0.02)
        r.write("c.reset")
        assert (r.read("c.count"), r.read("c.byte_count"), r.read("c.rate")) == ("0", "0", "0")
        r.run(seconds=1)
        r.write("c.reset_counts")
        assert r.read("c.count") == "0"


def test_rate_window() -> None:
    window = RateWindow(0, 0)
    assert window.rates(0, 5) == [0]
    assert window.rates(500_000_000, 50) == [100]
    for n in range(1, 1000):
        # Frequent readers do not shorten the span below a second, nor fill memory.
        assert 90 <= window.rates(n * 10**7 + 10**9, 100 + n)[0] <= 110
    assert len(window.samples) < 64
    assert show_rate(Fraction(1, 3)) == "0.333"
    assert mean_rate(3, 0) == 0


@EVERY
def test_count_call(target: str) -> None:
    text = """InfiniteSource(LIMIT 9) -> c :: Counter(COUNT_CALL 4 s.switch 1) -> s :: Switch(0);
        s [0] -> a :: Discard; s [1] -> b :: Discard;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run()
        assert (r.read("a.count"), r.read("b.count")) == ("3", "6")
        assert r.read("c.count_call") == "4 s.switch 1"


@EVERY
def test_byte_count_call_is_armed_again_by_reset(target: str) -> None:
    text = """i :: InfiniteSource(LENGTH 10, LIMIT 9) -> c :: Counter(BYTE_COUNT_CALL 35 s.switch 1) -> s :: Switch(0);
        s [0] -> a :: Discard; s [1] -> b :: Discard;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run()
        assert (r.read("a.count"), r.read("b.count")) == ("3", "6")
        for path, value in (("c.reset", ""), ("s.switch", "0"), ("i.reset", "")):
            r.write(path, value)
        r.run()
        assert (r.read("a.count"), r.read("b.count")) == ("6", "12")
        for path, value in (("c.reset", ""), ("c.byte_count_call", "85"), ("s.switch", "0"), ("i.reset", "")):
            r.write(path, value)
        r.run()
        assert (r.read("a.count"), r.read("b.count")) == ("14", "13")


@EVERY
def test_count_call_stops_the_router(target: str) -> None:
    text = "InfiniteSource -> c :: Counter(COUNT_CALL 100 stop) -> Discard;"
    with Router.from_click(text, target=target, virtual=True) as r:
        assert r.run() == "stopped"
        assert int(r.read("c.count")) >= 100


def test_count_call_needs_to_be_built_in() -> None:
    with (
        Router.from_click("Idle -> c :: Counter -> Idle;", target="python") as r,
        pytest.raises(HandlerError, match="built without"),
    ):
        r.write("c.count_call", "5 stop")


@pytest.mark.parametrize("call", ["x stop", "-1 stop", "99999999999999999999 stop"])
def test_bad_calls(call: str) -> None:
    with pytest.raises(MezzoError, match=r"COUNT_CALL|expected an integer"):
        Router.from_click(f"Idle -> Counter(COUNT_CALL {call}) -> Idle;")


@EVERY
def test_average_counter(target: str) -> None:
    text = "RatedSource(LENGTH 10, RATE 10, LIMIT 31) -> c :: AverageCounter(IGNORE 1) -> Discard;"
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run()
        # The packets from second 1 to second 3.
        assert (r.read("c.count"), r.read("c.byte_count"), r.read("c.rate"), r.read("c.byte_rate")) == (
            "21",
            "210",
            "10.5",
            "105",
        )
        r.write("c.reset")
        assert (r.read("c.count"), r.read("c.rate")) == ("0", "0")
