"""Tees and switches on every target."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from mezzo.targets import target_names

EVERY = pytest.mark.parametrize("target", target_names())
GIVEN = [bytes([n, 2 * n % 256, 7]) for n in range(12)]


def outputs(name: str, count: int) -> str:
    return " ".join(f"{name} [{i}] -> out{i} :: Collect;" for i in range(count))


@pytest.mark.parametrize("count", [1, 4])
def test_tee(vectors: Any, count: int) -> None:
    text = f"in0 :: Feed -> t :: Tee({count}); {outputs('t', count)}"
    give = [*GIVEN, b"", bytes(1500)]
    vectors(text, give={"in0": give}, want={f"out{i}": give for i in range(count)}, reads={"t.lost": "0"}, drops={})


def test_pull_tee(vectors: Any) -> None:
    text = """in0 :: Feed -> Queue -> t :: PullTee; t [0] -> Unqueue -> out0 :: Collect;
        t [1] -> out1 :: Collect; t [2] -> out2 :: Collect;"""
    vectors(text, give={"in0": GIVEN}, want={"out0": GIVEN, "out1": GIVEN, "out2": GIVEN}, drops={})


@EVERY
def test_copies_keep_annotations_and_are_packets_of_their_own(target: str) -> None:
    text = "in0 :: Feed -> Paint(5) -> t :: Tee; t [0] -> Strip(1) -> out0 :: Collect; t [1] -> out1 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as r:
        r.feed("in0", [b"abc"])
        r.run()
        assert r.collect_packets("out0", lambda p: (bytes(p.data), p.anno[16])) == [(b"bc", 5)]
        assert r.collect_packets("out1", lambda p: (bytes(p.data), p.anno[16])) == [(b"abc", 5)]


@EVERY
def test_tee_without_frames_counts_what_is_lost(target: str) -> None:
    text = "in0 :: Feed -> t :: Tee; t [0] -> out0 :: Collect; t [1] -> out1 :: Collect;"
    with Router.from_click(text, target=target, virtual=True, frames=4) as r:
        r.feed("in0", [b"a", b"b", b"c"])
        r.run()
        assert (r.read("t.lost"), len(r.collect("out0")), r.collect("out1")) == ("2", 1, [b"a", b"b", b"c"])


@EVERY
def test_switch_is_switched(target: str) -> None:
    with Router.from_click(f"in0 :: Feed -> s :: Switch; {outputs('s', 3)}", target=target, virtual=True) as r:
        for position, word in ((0, None), (2, "2"), (-1, "-1"), (1, "1")):
            if word is not None:
                r.write("s.switch", word)
            r.feed("in0", GIVEN)
            r.run()
            assert r.read("s.switch") == str(position)
            for i in range(3):
                assert r.collect(f"out{i}") == (GIVEN if i == position else [])
        assert r.drops() == {("s", "switched off"): len(GIVEN)}
        with pytest.raises(HandlerError, match="there is no output 3"):
            r.write("s.switch", "3")


@pytest.mark.parametrize("kind", ["StaticSwitch", "Switch"])
def test_static_switch(vectors: Any, kind: str) -> None:
    text = f"in0 :: Feed -> s :: {kind}(1); {outputs('s', 2)}"
    vectors(text, give={"in0": GIVEN}, want={"out0": [], "out1": GIVEN})
    text = f"in0 :: Feed -> s :: {kind}(-1); {outputs('s', 1)}"
    vectors(text, give={"in0": GIVEN}, want={"out0": []}, drops={("s", "switched off"): 12})


@EVERY
def test_pull_switch_wakes_the_puller(target: str) -> None:
    text = (
        """in0 :: Feed -> Queue -> s :: PullSwitch(-1) -> Unqueue -> out0 :: Collect; in1 :: Feed -> Queue -> [1] s;"""
    )
    with Router.from_click(text, target=target, virtual=True) as r:
        r.feed("in0", GIVEN[:3])
        r.feed("in1", GIVEN[3:])
        r.run()
        assert r.collect("out0") == []
        r.write("s.switch", "1")
        r.run()
        assert r.collect("out0") == GIVEN[3:]
        r.write("s.switch", "0")
        r.run()
        assert r.collect("out0") == GIVEN[:3]


def test_round_robin_switch(vectors: Any) -> None:
    text = f"in0 :: Feed -> s :: RoundRobinSwitch; {outputs('s', 3)}"
    vectors(text, give={"in0": GIVEN}, want={f"out{i}": GIVEN[i::3] for i in range(3)})
    vectors(f"in0 :: Feed -> s :: RoundRobinSwitch; {outputs('s', 1)}", give={"in0": GIVEN}, want={"out0": GIVEN})


def hashed(packet: bytes, offset: int, length: int, count: int) -> int:
    if len(packet) < offset + length:
        return 0
    total = sum(packet[offset : offset + length])
    return (total ^ (total >> 4)) & (count - 1) if count in (2, 4, 8) else total % count


@pytest.mark.parametrize("count", [3, 4])
def test_hash_switch(vectors: Any, count: int) -> None:
    give = [bytes((n * n + i) % 256 for i in range(6)) for n in range(40)] + [b"", b"abc", b"abcd"]
    want = {f"out{i}": [p for p in give if hashed(p, 1, 3, count) == i] for i in range(count)}
    vectors(f"in0 :: Feed -> s :: HashSwitch(1, 3); {outputs('s', count)}", give={"in0": give}, want=want, drops={})


def test_random_switch_is_fair_and_seeded(vectors: Any) -> None:
    sinks = " ".join(f"r [{i}] -> d{i} :: Discard;" for i in range(3))
    text = f"s :: InfiniteSource(LIMIT 3000) -> r :: RandomSwitch; {sinks}"
    answer = vectors(text, read_also=["d0.count", "d1.count", "d2.count"])
    counts = [int(answer["reads"][f"d{i}.count"]) for i in range(3)]
    assert sum(counts) == 3000
    assert all(900 < n < 1100 for n in counts)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("Idle -> s :: Switch(1) -> Idle;", "there is no output 1; it has 1"),
        ("Idle -> s :: StaticSwitch(1) -> Idle;", "there is no output 1"),
        ("Idle -> s :: PullSwitch(2) -> Idle;", "there is no input 2"),
        ("Idle -> Tee(2) -> Idle;", "2 arms are asked for, and 1 outputs are connected"),
        ("Idle -> HashSwitch(0, 0) -> Idle;", "LENGTH: 0 is out of range"),
        ("Idle -> HashSwitch(0) -> Idle;", "LENGTH is missing"),
    ],
)
def test_bad_configurations(config: str, words: str) -> None:
    with pytest.raises(MezzoError, match=words):
        Router.from_click(config)
