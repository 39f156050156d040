"""Queues on every target, against a model in plain Python."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from mezzo.targets import target_names

EVERY = pytest.mark.parametrize("target", target_names())
NUMBERED = [bytes([n]) for n in range(20)]


def test_Fo01_a_full_queue_stops_the_source(vectors: Any) -> None:
    text = "s :: InfiniteSource(LIMIT 15) -> q :: Queue(10) -> Idle;"
    vectors(text, reads={"q.length": "10", "q.drops": "0", "s.count": "10"}, drops={})


@EVERY
def test_Fo01_shrinking_and_growing(target: str) -> None:
    with Router.from_click(
        "s :: InfiniteSource(LIMIT 15) -> q :: Queue(10) -> Idle;", target=target, virtual=True
    ) as r:
        r.run()
        r.write("q.capacity", "5")
        r.run()
        assert (r.read("q.length"), r.read("q.drops"), r.read("s.count")) == ("5", "0", "10")
        assert r.drops() == {("q", "capacity lowered"): 5}
        r.write("q.capacity", "7")
        r.run()
        assert (r.read("q.length"), r.read("s.count")) == ("7", "12")
        r.write("q.reset")
        r.run()
        assert (r.read("q.length"), r.read("s.count")) == ("3", "15")
        r.write("q.reset_counts")
        assert (r.read("q.highwater_length"), r.read("q.drops")) == ("0", "0")
        with pytest.raises(HandlerError, match="it can be 1024 at most"):
            r.write("q.capacity", "1025")
        with pytest.raises(HandlerError, match="out of range"):
            r.write("q.capacity", "-1")


def test_packets_leave_in_order_and_sources_go_on(vectors: Any) -> None:
    text = "InfiniteSource(LIMIT 1000, BURST 32) -> q :: Queue(5) -> u :: Unqueue(3) -> d :: Discard;"
    vectors(text, reads={"d.count": "1000", "q.drops": "0", "q.highwater_length": "5", "u.count": "1000"}, drops={})
    vectors("in0 :: Feed -> Queue -> Unqueue(7) -> out0 :: Collect;", give={"in0": NUMBERED}, want={"out0": NUMBERED})


def test_two_full_queues_behind_a_tee(vectors: Any) -> None:
    """The source waits for the slower of two queues."""
    text = """InfiniteSource(LIMIT 100) -> t :: Tee; t [0] -> a :: Queue(3) -> Unqueue -> c :: Discard;
        t [1] -> b :: Queue(4) -> RatedUnqueue(1000) -> d :: Discard;"""
    vectors(text, reads={"c.count": "100", "d.count": "100", "a.drops": "0", "b.drops": "0"}, drops={})


def test_overflow_leaves_by_output_1(vectors: Any) -> None:
    text = "in0 :: Feed -> q :: SimpleQueue(3) -> Idle; q [1] -> out1 :: Collect;"
    vectors(
        text, give={"in0": NUMBERED}, want={"out1": NUMBERED[3:]}, reads={"q.length": "3", "q.drops": "17"}, drops={}
    )
    text = "in0 :: Feed -> q :: FrontDropQueue(3) -> u :: Unqueue(ACTIVE false) -> Discard; q [1] -> out1 :: Collect;"
    vectors(
        text, give={"in0": NUMBERED}, want={"out1": NUMBERED[:17]}, reads={"q.length": "3", "q.drops": "17"}, drops={}
    )


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue", "FrontDropQueue", "MixedQueue"])
def test_capacity_zero_keeps_nothing(vectors: Any, kind: str) -> None:
    other = "i :: Feed -> [1] q;" if kind == "MixedQueue" else ""
    text = f"in0 :: TimedSource(1, LIMIT 4) -> q :: {kind}(0) -> Unqueue -> d :: Discard; {other}"
    vectors(text, reads={"d.count": "0", "q.drops": "4"}, drops={("q", "full"): 4})


@pytest.mark.parametrize(
    ("alias", "stops"),
    [("FullNoteQueue", True), ("ThreadSafeQueue", True), ("NotifierQueue", False), ("SimpleQueue", False)],
)
def test_names_of_click(vectors: Any, alias: str, stops: bool) -> None:
    vectors(f"InfiniteSource(LIMIT 15) -> q :: {alias}(10) -> Idle;", reads={"q.drops": "0" if stops else "5"})


def model(kind: str, capacity: int, steps: list[int]) -> tuple[list[int], list[int], list[int]]:
    """(delivered, dropped, left): 0 and 1 push to that input, 2 pulls."""
    held: deque[int] = deque()
    out: list[int] = []
    lost: list[int] = []
    for number, step in enumerate(steps):
        if step == 2:
            if held:
                out.append(held.popleft())
        elif len(held) < capacity:
            (held.append if step == 0 else held.appendleft)(number)
        elif kind == "FrontDropQueue" or step == 1:
            lost.append(held.popleft() if step == 0 else held.pop())
            (held.append if step == 0 else held.appendleft)(number)
        else:
            lost.append(number)
    return out, lost, list(held)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    st.sampled_from(["Queue", "SimpleQueue", "FrontDropQueue", "MixedQueue"]),
    st.integers(1, 5),
    st.lists(st.integers(0, 2), max_size=30),
)
def test_queues_do_what_the_model_does(kind: str, capacity: int, steps: list[int]) -> None:
    steps = steps if kind == "MixedQueue" else [0 if s == 1 else s for s in steps]
    out, lost, left = model(kind, capacity, steps)
    text = f"""in0 :: Feed -> q :: {kind} -> u :: Unqueue(ACTIVE false, LIMIT 0) -> out0 :: Collect;
        q [1] -> out1 :: Collect;
        {"in1 :: Feed -> [1] q;" if kind == "MixedQueue" else ""}"""
    for target in target_names():
        with Router.from_click(text, target=target, virtual=True) as r:
            r.write("q.capacity", str(capacity))
            pulls = 0
            for number, step in enumerate(steps):
                if step == 2:
                    # One pull: an Unqueue whose limit grows by one, for as long as there is something to pull.
                    pulls += r.read("q.length") != "0"
                    r.write("u.limit", str(pulls))
                    r.write("u.active", "true")
                else:
                    feed(r, f"in{step}", bytes([number]))
                r.run()
                r.write("u.active", "false")
            assert [p[0] for p in r.collect("out0")] == out, target
            assert [p[0] for p in r.collect("out1")] == lost, target
            assert int(r.read("q.length")) == len(left)
            assert int(r.read("q.drops")) == len(lost)


def feed(router: Router, name: str, packet: bytes) -> None:
    """Pushes past the notification, as an element that does not ask."""
    arena_packet = router.arena.make_from(packet)
    assert arena_packet is not None
    element = router.elements["q"]
    router.engine.push(element.index, int(name[2:]), arena_packet.frame)


def test_unqueue_limit_burst_and_reset(vectors: Any) -> None:
    text = "in0 :: Feed -> Queue -> u :: Unqueue(-1, LIMIT 6) -> out0 :: Collect;"
    vectors(text, give={"in0": NUMBERED}, want={"out0": NUMBERED[:6]}, reads={"u.count": "6"})
    vectors("in0 :: Feed -> Queue -> u :: Unqueue(0) -> out0 :: Collect;", give={"in0": NUMBERED}, want={"out0": []})
    with Router.from_click(text, target="python", virtual=True) as r:
        r.feed("in0", NUMBERED)
        r.run()
        r.write("u.reset")
        r.run()
        assert r.collect("out0") == NUMBERED[:12]


def test_discard_pulls(vectors: Any) -> None:
    vectors("in0 :: Feed -> Queue -> d :: Discard(BURST 4);", give={"in0": NUMBERED}, reads={"d.count": "20"})
    vectors(
        "in0 :: Feed -> q :: Queue -> d :: Discard(ACTIVE false);", give={"in0": NUMBERED}, reads={"q.length": "20"}
    )


def test_idle(vectors: Any) -> None:
    text = "in0 :: Feed -> i :: Idle; i [0] -> out0 :: Collect; i [1] -> Unqueue -> out1 :: Collect;"
    vectors(text, give={"in0": NUMBERED}, want={"out0": [], "out1": []}, drops={("i", "idle"): 20})


@pytest.mark.parametrize(
    ("config", "words"),
    [("Queue(-1)", "out of range"), ("Queue(99999999999)", "out of range"), ("Queue(1, 2)", "too many arguments")],
)
def test_bad_arguments(config: str, words: str) -> None:
    with pytest.raises(MezzoError, match=words):
        Router.from_click(f"Idle -> {config} -> Idle;")
