"""Rate, delay and link elements under the virtual clock: when each packet leaves, to the nanosecond."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names

EVERY = pytest.mark.parametrize("target", target_names())
START = 10**18  # the wall time at which a virtual clock starts
SECOND = 10**9


def arrivals(target: str, text: str, give: list[bytes]) -> list[int]:
    """When the packets fed to in0 came to out0, by their timestamps, ns since the start."""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.feed("in0", give)
        assert r.run(rounds=1_000_000) == "done"
        found: list[int] = r.collect_packets("out0", lambda p: p.timestamp - START)
        assert len(found) == len(give)
        return found


# DelayUnqueue(0) writes the time of leaving into the timestamp.
STAMP = "-> Queue -> DelayUnqueue(0) -> out0 :: Collect;"


@EVERY
@pytest.mark.parametrize("shape", ["RatedUnqueue({}) ", "Shaper({}) -> Unqueue "])
@pytest.mark.parametrize("rate", [7, 1_000_003])
def test_Fo02_evenly_spaced_and_without_drift(target: str, shape: str, rate: int) -> None:
    found = arrivals(target, f"in0 :: Feed -> Queue -> {shape.format(rate)} {STAMP}", [b"x"] * 50)
    assert found == [ceil(Fraction(n * SECOND, rate)) for n in range(50)]


@EVERY
def test_Fo02_ten_seconds_of_seven(target: str) -> None:
    with Router.from_click(
        "InfiniteSource -> Queue -> u :: RatedUnqueue(7) -> Discard;", target=target, virtual=True
    ) as r:
        assert r.run(seconds=10) == "time"
        assert abs(int(r.read("u.count")) - 70) <= 1


@EVERY
def test_Fo03_rate_elements_sleep(target: str) -> None:
    """The clock moves from token to token by timers, in a number of rounds that goes with the packets."""
    text = "InfiniteSource(LIMIT 1500) -> Queue -> s :: Shaper(1000) -> Unqueue -> d :: Discard;"
    with Router.from_click(text, target=target, virtual=True) as r:
        assert r.run(rounds=20_000) == "done"
        assert r.read("d.count") == "1500"
        assert r.now_ns == 1_500_000_000


@EVERY
@pytest.mark.parametrize("shape", ["BandwidthRatedUnqueue(8kbps) ", "BandwidthShaper(1000) -> Unqueue "])
def test_bandwidth_counts_bytes(target: str, shape: str) -> None:
    sizes = [100, 1, 0, 500, 60]
    found = arrivals(target, f"in0 :: Feed -> Queue -> {shape} {STAMP}", [bytes(n) for n in sizes])
    assert found == [sum(sizes[:n]) * SECOND // 1000 for n in range(5)]


@EVERY
def test_catching_up_is_bounded(target: str) -> None:
    """After idle time: what 20 ms bring, or what is asked for."""
    for burst, want in (("", 3), (", BURST_SIZE 5", 6), (", BURST_SIZE 0", 1), (", BURST_DURATION .1", 11)):
        text = f"""s :: InfiniteSource(LIMIT 20, ACTIVE false) -> Queue
            -> u :: RatedUnqueue(100{burst}) -> d :: Discard; t :: TimedSource(1, LIMIT 2) -> Discard;"""
        with Router.from_click(text, target=target, virtual=True) as r:
            r.run(seconds=1)
            r.write("s.active", "true")
            r.run(seconds=0.001)
            assert int(r.read("d.count")) == want, burst


@EVERY
def test_rate_is_changed_while_waiting(target: str) -> None:
    text = """InfiniteSource(LIMIT 20) -> Queue -> u :: RatedUnqueue(1) -> d :: Discard;
        TimedSource(0.01, LIMIT 200) -> Discard;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run(seconds=0.5)
        assert r.read("d.count") == "1"
        r.write("u.rate", "0")
        r.run(seconds=0.3)
        assert r.read("d.count") == "1"
        # Half a packet is owed: 25 ms, then one each 50 ms.
        r.write("u.rate", "20")
        r.run(seconds=0.51)
        assert r.read("d.count") == "11"
        assert r.read("u.rate") == "20"


@EVERY
@pytest.mark.parametrize("shape", ["DelayUnqueue(20ms)", "DelayShaper(20ms) -> Unqueue"])
def test_delay_counts_from_the_timestamp(target: str, shape: str) -> None:
    text = f"RatedSource(RATE 100, LIMIT 5) -> Queue -> {shape} -> out0 :: Collect; in0 :: Feed -> Discard;"
    with Router.from_click(text, target=target, virtual=True) as r:
        assert r.run() == "done"
        found = r.collect_packets("out0", lambda p: p.timestamp - START)
        assert found == [20_000_000 + n * 10_000_000 for n in range(5)]


@EVERY
def test_delay_without_timestamp_counts_from_the_pull(target: str) -> None:
    text = "in0 :: Feed -> Queue -> d :: DelayShaper(5ms) -> Unqueue -> out0 :: Collect;"
    assert arrivals(target, text, [b"a", b"b"]) == [5_000_000, 10_000_000]


@pytest.mark.slow
def test_Fo12_packets_on_the_wire_count_against_no_queue() -> None:
    """100 ms at 100 Mb/s: 834 packets of 1500 bytes are on the wire, behind a queue of 10."""
    text = """s :: RatedSource(LENGTH 1500, RATE 8333, LIMIT 1700) -> q :: Queue(10) -> l :: LinkUnqueue(100ms, 100Mbps)
        -> d :: Discard;"""
    for target in target_names():
        with Router.from_click(text, target=target, virtual=True) as r:
            r.run(seconds=0.15)
            assert 832 <= int(r.read("l.size")) <= 834
            r.run()
            assert (r.read("d.count"), r.read("q.drops"), r.drops()) == ("1700", "0", {})


def test_Fo12_a_long_fast_wire() -> None:
    """200 ms at 1 Gb/s: 16,667 packets; on the native target, the definition is too slow for it."""
    text = """RatedSource(LENGTH 1500, RATE 83333, LIMIT 25000) -> q :: Queue(10) -> l :: LinkUnqueue(200ms, 1Gbps)
        -> d :: Discard;"""
    with Router.from_click(text, target="native", virtual=True) as r:
        r.run(seconds=0.25)
        assert abs(int(r.read("l.size")) - 16_667) <= 2
        r.run()
        assert (r.read("d.count"), r.read("q.drops"), r.drops()) == ("25000", "0", {})


@EVERY
@pytest.mark.parametrize(("bandwidth", "bits"), [("1Gbps", 10**9), ("100Mbps", 10**8)])
def test_Fo14_bandwidth_adds_only_serialisation(target: str, bandwidth: str, bits: int) -> None:
    found = arrivals(target, f"in0 :: Feed -> Queue -> LinkUnqueue(0, {bandwidth}) {STAMP}", [bytes(98)])
    assert found == [98 * 8 * SECOND // bits]


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    st.lists(st.integers(0, 1500), min_size=1, max_size=30),
    st.sampled_from([(0, 999), (3_000_000, 12_345), (10**9, 125_000_000)]),
)
def test_link_times_are_exact(sizes: list[int], link: tuple[int, int]) -> None:
    """Packet n comes out when all bytes up to it went through the transmitter, and the latency after."""
    latency, bandwidth = link
    want = [int(Fraction(sum(sizes[: n + 1]) * SECOND, bandwidth)) + latency for n in range(len(sizes))]
    text = f"in0 :: Feed -> Queue -> LinkUnqueue({latency}ns, {bandwidth}) {STAMP}"
    for target in target_names():
        assert arrivals(target, text, [bytes(n) for n in sizes]) == want


@EVERY
def test_link_reset_and_handlers(target: str) -> None:
    text = """InfiniteSource(LENGTH 1000, LIMIT 8) -> Queue -> l :: LinkUnqueue(20ms, 8Mbps) -> d :: Discard;
        TimedSource(1ms, LIMIT 50) -> Discard;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run(seconds=0.0045)
        assert (r.read("l.latency"), r.read("l.bandwidth"), r.read("l.size")) == ("20ms", "1000000", "5")
        r.write("l.reset")
        assert r.read("l.size") == "0"
        r.run()
        assert r.read("d.count") == "3"
        assert r.drops() == {("l", "reset"): 5}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("RatedUnqueue(-1)", "out of range"),
        ("RatedUnqueue(fast)", "expected an integer"),
        ("RatedUnqueue", "RATE is missing"),
        ("BandwidthRatedUnqueue(1000GBps)", "out of range"),
        ("LinkUnqueue(1, 0)", "more than 0"),
        ("LinkUnqueue(1)", "BANDWIDTH is missing"),
        ("DelayUnqueue(soon)", "expected a time"),
    ],
)
def test_bad_arguments(config: str, words: str) -> None:
    with pytest.raises(MezzoError, match=words):
        Router.from_click(f"Idle -> {config} -> Idle;")
