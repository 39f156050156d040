"""Sources on every target: how many packets, which, when, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements.infinite_source import TEXT, packet_bytes
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from mezzo.targets import target_names

EVERY = pytest.mark.parametrize("target", target_names())
START = 10**18  # the wall time at which a virtual clock starts


def times(router: Router, name: str) -> list[int]:
    """Timestamps of the packets collected, ns since the start."""
    found: list[int] = router.collect_packets(name, lambda p: p.timestamp - START)
    return found


@pytest.mark.parametrize("burst", [1, 2, 100])
def test_infinite_source_makes_limit_packets(vectors: Any, burst: int) -> None:
    text = f"s :: InfiniteSource(\\<0102>, 7, {burst}) -> out0 :: Collect;"
    vectors(text, want={"out0": [b"\1\2"] * 7}, reads={"s.count": "7", "s.limit": "7", "s.burst": str(burst)}, drops={})


def test_infinite_source_length_cuts_and_repeats(vectors: Any) -> None:
    for length, want in ((5, b"abcab"), (2, b"ab"), (0, b""), (-1, b"abc")):
        vectors(f'InfiniteSource("abc", LIMIT 1, LENGTH {length}) -> out0 :: Collect;', want={"out0": [want]})


def test_packet_bytes() -> None:
    assert packet_bytes(b"", 3) == b"\0\0\0"
    assert len(TEXT) == 64


def test_empty_packets_and_limit_zero(vectors: Any) -> None:
    vectors('InfiniteSource("", LIMIT 3) -> out0 :: Collect;', want={"out0": [b""] * 3})
    vectors("InfiniteSource(LIMIT 0) -> out0 :: Collect;", want={"out0": []})


def test_infinite_source_pulled(vectors: Any) -> None:
    text = "s :: InfiniteSource(\\<05>, LIMIT 4) -> Unqueue -> out0 :: Collect;"
    vectors(text, want={"out0": [b"\5"] * 4}, reads={"s.count": "4"})


@EVERY
def test_active_reset_limit_and_data_while_running(target: str) -> None:
    with Router.from_click(
        "s :: InfiniteSource(\\<01>, 2, ACTIVE false) -> out0 :: Collect;", target=target, virtual=True
    ) as r:
        assert r.run() == "done"
        assert r.collect("out0") == []
        r.write("s.active", "true")
        r.run()
        assert r.collect("out0") == [b"\1"] * 2
        r.write("s.reset")
        r.write("s.data", '"longer"')
        r.run()
        assert r.collect("out0") == [b"longer"] * 2
        r.write("s.limit", "3")
        r.write("s.length", "3")
        r.run()
        assert r.collect("out0") == [b"lon"]
        assert r.read("s.data") == '"longer"' or r.read("s.data") == "longer"
        assert r.read("s.active") == "true"
        for handler, value in (("active", "maybe"), ("burst", "0"), ("limit", "x"), ("length", "-2")):
            with pytest.raises(HandlerError):
                r.write(f"s.{handler}", value)


@EVERY
def test_pulled_source_is_woken_by_its_handlers(target: str) -> None:
    text = "s :: InfiniteSource(\\<01>, 2, ACTIVE false) -> u :: Unqueue -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run()
        r.write("s.active", "true")
        r.run()
        r.write("s.reset")
        r.run()
        assert r.collect("out0") == [b"\1"] * 4


@EVERY
def test_stop_and_end_call(target: str) -> None:
    text = "InfiniteSource(LIMIT 3, STOP true) -> Discard; t :: TimedSource(1) -> Discard;"
    with Router.from_click(text, target=target, virtual=True) as r:
        assert r.run() == "stopped"
        assert r.read("t.count") == "0"
    text = """InfiniteSource(LIMIT 3, END_CALL t.active true) -> Discard;
        t :: TimedSource(1, LIMIT 2, ACTIVE false) -> Discard;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        assert r.run() == "done"
        assert r.read("t.count") == "2"


@EVERY
def test_no_frame_is_waited_for(target: str) -> None:
    """The pool is smaller than the queue: the source tries again when packets have gone home."""
    text = "s :: InfiniteSource(LIMIT 100, BURST 32) -> Queue -> RatedUnqueue(1000) -> d :: Discard;"
    with Router.from_click(text, target=target, virtual=True, frames=16) as r:
        assert r.run() == "done"
        assert r.read("d.count") == "100"
        assert r.drops()["pool", "exhausted"] > 0


@EVERY
def test_no_frame_for_ever_ends_a_virtual_run(target: str) -> None:
    with Router.from_click("s :: InfiniteSource -> q :: Queue -> Idle;", target=target, virtual=True, frames=16) as r:
        assert r.run(rounds=100_000) == "done"
        assert r.read("q.length") == "16"


def test_timestamp(vectors: Any) -> None:
    for word, want in (("true", START), ("false", 0)):
        for target in target_names():
            text = f"InfiniteSource(LIMIT 1, TIMESTAMP {word}) -> out0 :: Collect;"
            with Router.from_click(text, target=target, virtual=True) as r:
                r.run()
                assert r.collect_packets("out0", lambda p: p.timestamp) == [want]


@pytest.mark.parametrize("length", [0, 7])
def test_random_source(vectors: Any, length: int) -> None:
    answer = vectors(
        f"s :: RandomSource({length}, LIMIT 40) -> out0 :: Collect;", outputs=["out0"], reads={"s.count": "40"}
    )
    packets = answer["out"]["out0"]
    assert {len(p) for p in packets} == {length}
    if length >= 7:
        assert len(set(packets)) == 40
        assert len({b for p in packets for b in p}) > 100


def test_random_source_pulled(vectors: Any) -> None:
    answer = vectors("RandomSource(9, LIMIT 5) -> Unqueue -> out0 :: Collect;", outputs=["out0"])
    assert len(set(answer["out"]["out0"])) == 5


@pytest.mark.parametrize(
    ("rate", "seconds", "low", "high"),
    [(3, 10, 30, 31), (1, 10, 10, 11), (7, 10, 70, 71), (999_983, 0.01, 9999, 10001)],
)
@EVERY
def test_Fo02_rated_source(target: str, rate: int, seconds: float, low: int, high: int) -> None:
    if target == "python" and rate > 1000:
        seconds, low, high = seconds / 10, low // 10, high // 10 + 1
    with Router.from_click(f"s :: RatedSource(RATE {rate}) -> Discard;", target=target, virtual=True) as r:
        r.run(seconds=seconds)
        assert low <= int(r.read("s.count")) <= high


@EVERY
def test_Fo02_no_drift(target: str) -> None:
    """Packet n of a source of 7 a second is sent at n/7 s, rounded up: the fractions never add up."""
    with Router.from_click("RatedSource(RATE 7, LIMIT 200) -> out0 :: Collect;", target=target, virtual=True) as r:
        r.run()
        assert times(r, "out0") == [-(-n * 10**9 // 7) for n in range(200)]


@EVERY
def test_rated_source_bandwidth_and_pull(target: str) -> None:
    text = "s :: RatedSource(LENGTH 100, BANDWIDTH 8kbps, LIMIT 20) -> u :: Unqueue -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as r:
        assert r.run() == "done"
        assert times(r, "out0") == [n * 10**8 for n in range(20)]
        assert r.read("s.rate") == "10"


@EVERY
def test_rated_source_changes_its_rate(target: str) -> None:
    with Router.from_click("s :: RatedSource(RATE 0) -> out0 :: Collect;", target=target, virtual=True) as r:
        assert r.run() == "done"
        assert times(r, "out0") == []
        r.write("s.rate", "10")
        r.run(seconds=0.55)
        assert len(times(r, "out0")) == 6
        r.write("s.rate", "1000")
        r.run(seconds=0.1)
        assert 95 <= len(times(r, "out0")) <= 110
        r.write("s.active", "false")
        assert r.run() == "done"


@EVERY
def test_timed_source_keeps_its_times(target: str) -> None:
    with Router.from_click(
        "t :: TimedSource(0.1, \\<07>, LIMIT 4) -> out0 :: Collect;", target=target, virtual=True
    ) as r:
        assert r.run() == "done"
        assert times(r, "out0") == [10**8, 2 * 10**8, 3 * 10**8, 4 * 10**8]
        assert r.read("t.interval") == "100ms"
        r.write("t.interval", "1ms")
        r.write("t.reset")
        r.run()
        assert times(r, "out0") == [401 * 10**6 + n * 10**6 for n in range(4)]


@EVERY
def test_Ho07_clock_steps(target: str) -> None:
    """A wall clock that is set back or forward moves timestamps, and no timer."""
    with Router.from_click("t :: TimedSource(100ms) -> out0 :: Collect;", target=target, virtual=True) as r:
        for step in (0, -3600, 3600, 0):
            r.engine.epoch_ns = START + step * 10**9
            before = r.now_ns
            r.run(until=lambda before=before: r.now_ns >= before + 10**9, rounds=100_000)
            assert len(r.collect("out0")) * 10**8 == pytest.approx(r.now_ns - before, abs=2 * 10**8)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("InfiniteSource(BURST 0)", "BURST: 0 is out of range"),
        ("InfiniteSource(LENGTH 70000)", "LENGTH: 70000 is out of range"),
        ("InfiniteSource(LIMIT many)", "expected an integer"),
        ("RatedSource(RATE -1)", "RATE: -1 is out of range"),
        ("TimedSource(0)", "it must be more than 0"),
        ("RandomSource", "LENGTH is missing"),
        ("TimedSource(1, x, y)", "too many arguments"),
    ],
)
def test_bad_arguments(config: str, words: str) -> None:
    with pytest.raises(MezzoError, match=words):
        Router.from_click(f"{config} -> Discard;")
