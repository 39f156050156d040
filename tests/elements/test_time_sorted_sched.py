"""TimeSortedSched on every target: the order in which packets leave, and when it stops the router."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names

A, B, UNSORTED = (0.1, 0.2, 1.0, 1.2, 5.5), (0.3, 0.8, 0.9, 1.4), (1.0, 0.2, 0.1, 1.2, 5.5)


@pytest.fixture
def merged(tmp_path: Path) -> Any:
    """`merged(arguments, times...)`: (times as they left, is it well ordered, why it ended, when), on every target."""

    def every_target(arguments: str, *streams: tuple[float, ...], between: str = "") -> Any:
        text = f"t :: TimeSortedSched({arguments}) -> Unqueue -> out0 :: Collect;"
        for i, times in enumerate(streams):
            file = tmp_path / f"in{i}"
            file.write_text("!data timestamp\n" + "".join(f"{t}\n" for t in times))
            text += f"FromIPSummaryDump({file}) {between} -> [{i}] t;"
        found = []
        for target in target_names():
            with Router.from_click(text, target=target, virtual=True) as router:
                why = router.run(rounds=100_000)
                out = router.collect_packets("out0", lambda p: round(p.timestamp / 1e9, 6))
                found.append((out, router.read("t.well_ordered"), why, router.now_ns))
                assert router.drops() == {}
        assert all(one == found[0] for one in found)
        return found[0]

    return every_target


def test_sorted_streams_become_one(merged: Any) -> None:
    assert merged("", A, B) == (sorted(A + B), "true", "done", 0)


def test_a_stream_out_of_order_is_told(merged: Any) -> None:
    found, well, _, _ = merged("", (0.1, 1.0, 0.2, 1.2, 5.5), B)
    assert found == [0.1, 0.3, 0.8, 0.9, 1.0, 0.2, 1.2, 1.4, 5.5]
    assert well == "false"


def test_a_buffer_puts_streams_in_order(merged: Any) -> None:
    assert merged("BUFFER 3", UNSORTED, B)[:2] == (sorted(A + B), "true")
    assert merged("BUFFER 2", UNSORTED, B)[:2] == ([0.2, 0.1, 0.3, 0.8, 0.9, 1.0, 1.2, 1.4, 5.5], "false")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_window_sorts_any_streams(merged: Any, seed: int) -> None:
    """What stands at most BUFFER - 1 places from where it belongs comes out in order."""
    dice = random.Random(seed)
    inputs, buffer = dice.randint(1, 5), dice.randint(1, 6)
    streams = []
    for _ in range(inputs):
        times = sorted(dice.randint(0, 50) for _ in range(dice.randint(0, 60)))
        blocks = [times[i : i + buffer] for i in range(0, len(times), buffer)]
        for block in blocks:
            dice.shuffle(block)
        streams.append(tuple(float(t) for block in blocks for t in block))
    found, well, _, _ = merged(f"BUFFER {2 * buffer}", *streams)
    assert (found, well) == (sorted(t for s in streams for t in s), "true")


def test_equal_times_leave_as_they_came(vectors: Any) -> None:
    text = "in0 :: Feed -> [0] t :: TimeSortedSched(BUFFER 2); in1 :: Feed -> [1] t; t -> Unqueue -> out0 :: Collect;"
    give = {"in0": [b"a0", b"a1", b"a2"], "in1": [b"b0", b"b1"]}
    vectors(text, give=give, want={"out0": [b"a0", b"a1", b"b0", b"b1", b"a2"]}, drops={})


def test_it_stops_the_router_when_nothing_is_left(merged: Any) -> None:
    assert merged("STOP true", A, B) == (sorted(A + B), "true", "stopped", 1_000_000)
    assert merged("STOP true", A, B, between="-> Queue")[2] == "stopped"


@pytest.mark.parametrize("target", target_names())
def test_it_stops_when_all_in_front_is_over_and_not_before(target: str) -> None:
    text = """RatedSource(RATE 10, LIMIT 30) -> Queue -> [0] t :: TimeSortedSched(STOP true);
RatedSource(RATE 1, LIMIT 6) -> Queue -> [1] t; t -> Unqueue -> c :: Counter -> Discard;
DriverManager(pause, print "$(c.count)", stop);"""
    with Router.from_click(text, target=target, virtual=True) as router:
        assert router.run() == "stopped"
        assert router.read("c.count") == "36"
        assert 5_000_000_000 <= router.now_ns <= 8_000_000_000


@pytest.mark.parametrize("target", target_names())
def test_it_wakes_for_every_input_and_sends_home_what_it_holds(target: str) -> None:
    text = "in0, in1 :: Feed; in0 -> [0] t :: TimeSortedSched; in1 -> [1] t; t -> u :: Unqueue -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as router:
        for name in ("in0", "in1", "in1", "in0"):
            router.feed(name, [name.encode()])
            router.run()
            assert router.collect("out0") == [name.encode()]
        router.write("u.limit", "5")
        router.feed("in1", [b"2", b"3"])
        router.feed("in0", [b"1"])
        router.run()
        assert (router.collect("out0"), router.holders()["t"]) == ([b"1"], 1)


def test_it_has_bounds() -> None:
    with pytest.raises(MezzoError, match="2 inputs with 60000 packets each; at most 65536 in all"):
        Router.from_click("t :: TimeSortedSched(BUFFER 60000) -> Unqueue -> Discard; Idle -> [0] t; Idle -> [1] t;")
