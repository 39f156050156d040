"""Pull schedulers on every target: who is served, and that nobody waits."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from mezzo.targets import target_names

EVERY = pytest.mark.parametrize("target", target_names())
KINDS = ["RoundRobinSched", "PrioSched", "StrideSched(1, 1, 1)", "DRRSched"]


def merge(kind: str, inputs: int, rest: str = "-> Unqueue -> out0 :: Collect;") -> str:
    feeds = " ".join(f"in{i} :: Feed -> Queue -> [{i}] s;" for i in range(inputs))
    return f"s :: {kind} {rest} {feeds}"


def packets(letter: str, count: int) -> list[bytes]:
    return [f"{letter}{n}".encode() for n in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_behind(vectors: Any, kind: str) -> None:
    """Inputs of unequal length, one of them empty: everything comes out, each input in order."""
    give = {"in0": packets("a", 3), "in1": [], "in2": packets("c", 20)}
    answer = vectors(merge(kind, 3), give=give, outputs=["out0"], drops={})
    found = answer["out"]["out0"]
    for name, letter in (("in0", b"a"), ("in2", b"c")):
        assert [p for p in found if p[:1] == letter] == give[name]


@pytest.mark.parametrize("kind", ["RoundRobinSched", "PrioSched", "DRRSched"])
@EVERY
def test_it_wakes_for_every_input(target: str, kind: str) -> None:
    with Router.from_click(merge(kind, 2), target=target, virtual=True) as r:
        for name in ("in0", "in1", "in1", "in0"):
            r.feed(name, [name.encode()])
            r.run()
            assert r.collect("out0") == [name.encode()]


def one_pull_each(target: str, kind: str, give: dict[str, list[bytes]], pulls: int) -> list[bytes]:
    """What comes when all queues are filled before the first pull."""
    text = merge(kind, len(give), "-> u :: Unqueue(ACTIVE false, LIMIT 0) -> out0 :: Collect;")
    with Router.from_click(text, target=target, virtual=True) as r:
        for name, items in give.items():
            r.feed(name, items)
        r.run()
        r.write("u.limit", str(pulls))
        r.write("u.active", "true")
        r.run()
        return r.collect("out0")


@EVERY
def test_order_of_service(target: str) -> None:
    give = {"in0": packets("a", 4), "in1": packets("b", 2)}
    assert one_pull_each(target, "RoundRobinSched", give, 6) == [b"a0", b"b0", b"a1", b"b1", b"a2", b"a3"]
    assert one_pull_each(target, "PrioSched", give, 6) == [b"a0", b"a1", b"a2", b"a3", b"b0", b"b1"]


@EVERY
@pytest.mark.parametrize("tickets", [(3, 1), (5, 7), (32768, 1)])
def test_stride_shares_follow_tickets(target: str, tickets: tuple[int, int]) -> None:
    give = {"in0": packets("a", 100), "in1": packets("b", 100)}
    pulls = 96
    found = one_pull_each(target, f"StrideSched({tickets[0]}, {tickets[1]})", give, pulls)
    share = sum(p[:1] == b"a" for p in found)
    assert abs(share - pulls * tickets[0] / sum(tickets)) <= 1


@EVERY
def test_stride_tickets_are_changed(target: str) -> None:
    text = """InfiniteSource -> Queue(64) -> a :: Counter -> [0] s :: StrideSched(1, 1);
        s -> u :: Unqueue(LIMIT 100) -> Discard;
        InfiniteSource -> Queue(64) -> b :: Counter -> [1] s;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run()
        assert (r.read("a.count"), r.read("b.count")) == ("50", "50")
        r.write("s.tickets0", "9")
        assert (r.read("s.tickets0"), r.read("s.tickets1")) == ("9", "1")
        r.write("u.limit", "200")
        r.run()
        assert int(r.read("a.count")) == pytest.approx(140, abs=1)
        with pytest.raises(HandlerError, match="out of range"):
            r.write("s.tickets1", "0")


@EVERY
def test_an_idle_input_gathers_no_credit(target: str) -> None:
    """Input 1 is silent for 50 packets and then gets its half, not 50 packets at once."""
    text = """InfiniteSource -> Queue(64) -> a :: Counter -> [0] s :: StrideSched(1, 1);
        s -> u :: Unqueue(LIMIT 50) -> Discard;
        i :: InfiniteSource(ACTIVE false) -> Queue(64) -> b :: Counter -> [1] s;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run()
        r.write("i.active", "true")
        r.run()
        r.write("u.limit", "70")
        r.run()
        assert int(r.read("b.count")) == pytest.approx(10, abs=1)


@EVERY
def test_Fo09_drr_shares_bytes(target: str) -> None:
    """Flows of 100- and 1000-byte packets, 1000 packets a second for 2 seconds: bytes within 1 %."""
    text = """InfiniteSource(DATA "a", LENGTH 100) -> Queue(50) -> [0] s :: DRRSched -> Shaper(1000)
        -> Unqueue -> c :: Classifier(0/61, -);
        InfiniteSource(DATA "b", LENGTH 1000) -> Queue(50) -> [1] s;
        c [0] -> a :: Counter -> Discard; c [1] -> b :: Counter -> Discard;"""
    with Router.from_click(text, target=target, virtual=True) as r:
        r.run(seconds=2)
        a, b = int(r.read("a.byte_count")), int(r.read("b.byte_count"))
        assert a == pytest.approx(b, rel=0.01)
        assert a + b > 300_000


@EVERY
@pytest.mark.parametrize("quantum", [60, 100_000])
def test_drr_quantum(target: str, quantum: int) -> None:
    """A quantum much smaller than a packet takes rounds, and no pull comes back empty."""
    give = {"in0": [bytes(1500)] * 3, "in1": [b""] * 3, "in2": [bytes(40)] * 3}
    assert len(one_pull_each(target, f"DRRSched({quantum})", give, 9)) == 9


def test_schedulers_without_inputs_or_with_one(vectors: Any) -> None:
    for kind in ("RoundRobinSched", "PrioSched", "DRRSched"):
        vectors(f"{kind} -> Unqueue -> out0 :: Collect;", want={"out0": []})
    vectors(merge("StrideSched(1)", 1), give={"in0": packets("a", 5)}, want={"out0": packets("a", 5)})


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("Idle -> StrideSched(1, 2) -> Idle;", "1 inputs need as many tickets, not 2"),
        ("Idle -> StrideSched(0) -> Idle;", "0 is out of range"),
        ("Idle -> DRRSched(0) -> Idle;", "QUANTUM: 0 is out of range"),
        ("Idle -> PrioSched(1) -> Idle;", "too many arguments"),
    ],
)
def test_bad_configurations(config: str, words: str) -> None:
    with pytest.raises(MezzoError, match=words):
        Router.from_click(config)
