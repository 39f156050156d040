"""Another configuration takes the place of the one that runs: what stays, what moves, and what an error leaves."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from tests.elements.nat_packets import udp

BOTH = pytest.mark.parametrize("target", ["python", "native"])
FEED = "f :: Feed -> "


def router(text: str, target: str = "native", **more: Any) -> Router:
    return Router.from_click(text, target=target, frames=4096, **more)


@contextmanager
def running(made: Router) -> Iterator[Router]:
    """Run by another thread, until the block ends."""
    trouble: list[BaseException] = []

    def work() -> None:
        try:
            made.run()
        except BaseException as found:
            trouble.append(found)

    thread = threading.Thread(target=work)
    with made:
        thread.start()
        try:
            yield made
        finally:
            made.please_stop()
            thread.join()
        assert not trouble, trouble
        assert made.conservation().balanced


@BOTH
def test_what_is_the_same_goes_on(target: str) -> None:
    with router(FEED + "c :: Counter -> Discard;", target) as r:
        r.feed("f", [b"x" * 60] * 5)
        r.run()
        counter = r.elements["c"]
        report = r.reload(FEED + "c :: Counter -> d :: Counter -> Discard;")
        assert r.elements["c"] is counter and r.read("c.count") == "5"
        r.feed("f", [b"x" * 60] * 2)
        r.run()
        assert (r.read("c.count"), r.read("d.count")) == ("7", "2")
        assert [str(a) for a in report.actions if a.name in ("c", "d")] == ["keep c", "add d: Counter"]
        assert report.blackout_ns > 0


@BOTH
def test_packets_of_a_queue_stay_in_order(target: str) -> None:
    text = FEED + "q :: Queue(%d) -> u :: Unqueue(%s) -> out :: Collect;"
    with router(text % (100, "ACTIVE false"), target) as r:
        sent = [b"%060d" % i for i in range(40)]
        r.feed("f", sent[:25])
        r.run()
        assert r.read("q.length") == "25"
        r.reload(text % (200, "ACTIVE true"))
        assert r.read("q.capacity") == "200"
        r.feed("f", sent[25:])
        r.run()
        assert r.collect("out") == sent


@BOTH
def test_a_smaller_queue_keeps_what_it_has_room_for(target: str) -> None:
    text = FEED + "q :: Queue(%d) -> Idle;"
    with router(text % 3000, target) as r:
        for _ in range(5):
            r.feed("f", [b"x" * 60] * 500)
            r.run()
        report = r.reload(text % 2000)
        assert r.conservation().balanced
        kept = int(r.read("q.length"))
        assert dict(report.lost) == ({"q": 2500 - kept} if kept < 2500 else {})
        assert kept >= 2000


@BOTH
def test_what_goes_frees_its_packets(target: str) -> None:
    with router(FEED + "q :: Queue(100) -> Idle;", target) as r:
        r.feed("f", [b"x" * 60] * 50)
        r.run()
        report = r.reload(FEED + "q :: Counter -> Discard;")
        assert [str(a) for a in report.actions if a.name == "q"] == ["replace q: Queue by Counter"]
        assert dict(report.lost) == {"q": 50} and r.conservation().balanced
        with pytest.raises(HandlerError, match="no handler `length`"):
            r.read("q.length")


@BOTH
def test_an_error_leaves_the_old_one(target: str) -> None:
    text = "s :: InfiniteSource(LIMIT -1) -> c :: Counter -> Discard;"
    for wrong, what in (
        ("s :: InfiniteSource -> c :: Counter ->", "the text ends"),
        ("s :: InfiniteSource -> c :: Counter(NONSENSE 5) -> Discard;", "NONSENSE"),
        ("s :: InfiniteSource -> ToDump(/nowhere/at/all);", "nowhere"),
        ("s :: InfiniteSource -> c :: Counter;", "c"),
    ):
        with running(router(text, target)) as r:
            with pytest.raises(MezzoError, match=what):
                r.reload(wrong)
            before = int(r.read("c.count"))
            while int(r.read("c.count")) == before:
                pass
            assert r.text == text


def test_tables_that_a_configuration_fills_are_those_of_the_new_one() -> None:
    text = "Idle -> rt :: RadixIPLookup(%s); rt[0] -> Discard; rt[1] -> Discard;"
    with router(text % "10.0.0.0/8 0, 11.0.0.0/8 1") as r:
        r.write("rt.add", "12.0.0.0/8 1")
        r.reload(text % "10.0.0.0/8 0, 11.0.0.0/8 1" + " Idle -> Discard;")
        assert "12.0.0.0/8" in r.read("rt.table")  # nobody said otherwise
        r.reload(text % "10.0.0.0/8 1, 11.0.0.0/8 1")
        assert "12.0.0.0/8" not in r.read("rt.table") and "10.0.0.0/8" in r.read("rt.table")


@BOTH
def test_timers_go_on(target: str) -> None:
    text = "s :: TimedSource(0.1) -> c :: Counter -> %sDiscard;"
    with router(text % "", target, virtual=True) as r:
        r.run(seconds=1.05)
        assert r.read("c.count") in ("10", "11")
        before = int(r.read("c.count"))
        r.reload(text % "Null -> ")
        r.run(seconds=1.0)
        assert int(r.read("c.count")) == before + 10


@BOTH
def test_packets_that_wait_for_an_answer_are_released_by_it(target: str) -> None:
    text = (
        FEED + "SetIPAddress(10.0.0.2) -> arp :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1%s) -> cl :: Classifier(12/0806, -);"
        "cl[0] -> asked :: Collect; cl[1] -> sent :: Collect; a :: Feed -> [1] arp;"
    )
    answer = bytes.fromhex("020000000001020000000002080600010800060400020200000000020a0000020200000000010a000001")
    with router(text % "", target, virtual=True) as r:
        r.feed("f", [b"E" * 40] * 3)
        r.run(seconds=0.01)
        assert (r.read("arp.length"), len(r.collect("asked"))) == ("3", 1)
        r.reload(text % ", TIMEOUT 600")
        assert r.read("arp.length") == "3"
        r.feed("a", [answer])
        r.run(seconds=0.01)
        assert (len(r.collect("sent")), r.read("arp.length"), r.read("arp.count")) == (3, "0", "1")


HOUSE = """f :: Feed -> seen :: Counter -> MarkIPHeader -> r :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);
i :: Feed -> MarkIPHeader -> [1] r; r[1] -> home :: Collect;
r[0] -> arp :: ARPQuerier(1.0.0.1, 2:0:0:0:0:1%s) -> ask :: Classifier(12/0806, -); a :: Feed -> [1] arp;
ask[0] -> asked :: Collect; ask[1] -> q :: Queue(%d) -> u :: Unqueue(ACTIVE %s) -> sent :: Collect;"""


@pytest.mark.slow
@BOTH
def test_Ho09_queues_neighbours_flows_and_counts_move_and_a_mistake_changes_nothing(target: str) -> None:
    inside, web, outside = ("10.0.0.2", 5000), ("1.0.0.9", 80), ("1.0.0.1", 1024)
    answer = bytes.fromhex("020000000001020000000009080600010800060400020200000000090100000902000000000101000001")
    framed = bytes.fromhex("0200000000090200000000010800") + udp(outside, web)
    with router(HOUSE % ("", 100, "false"), target, virtual=True) as r:
        r.feed("f", [udp(inside, web)])
        r.run(seconds=0.01)
        r.feed("a", [answer])
        r.run(seconds=0.01)
        before = {name: r.read(name) for name in ("arp.table", "r.mappings", "seen.count", "q.length")}
        assert (before["seen.count"], before["q.length"]) == ("1", "1")
        for wrong in ("f :: Feed ->", HOUSE % (", NONSENSE 1", 100, "true")):
            with pytest.raises(MezzoError, match=r"the text ends|NONSENSE"):
                r.reload(wrong)
        assert {name: r.read(name) for name in before} == before
        r.feed("f", [udp(inside, web)])
        r.run(seconds=0.01)
        assert r.read("q.length") == "2"  # the old one still forwards
        r.reload(HOUSE % (", TIMEOUT 600", 200, "true") + " Idle -> Discard;")
        r.feed("f", [udp(inside, web)])
        r.feed("i", [udp(web, outside)])
        r.run(seconds=0.01)
        assert r.collect("sent") == [framed] * 3 and r.collect("home") == [udp(web, inside)]
        assert (r.read("seen.count"), r.read("q.capacity"), len(r.collect("asked"))) == ("3", "200", 1)


@BOTH
def test_a_script_may_change_the_configuration_it_is_in(target: str) -> None:
    # It goes with the reload that it asks for, in the middle of its own task.
    new = "s :: InfiniteSource(LIMIT 100) -> c :: Counter -> d :: Counter -> Discard;"
    old = new.replace("d :: Counter -> ", "")
    text = f'{old} t :: Feed -> x :: Script(TYPE PACKET, writeq hotconfig "{new}", return 0) -> Discard;'
    with router(text, target) as r:
        r.reconfigurable = True
        r.run()
        r.feed("t", [b"x" * 60])
        r.run()
        assert "d" in r.elements and "x" not in r.elements and r.read("c.count") == "100"
        assert r.conservation().balanced


def test_by_handler_it_takes_leave() -> None:
    text = "s :: InfiniteSource(LIMIT 10) -> c :: Counter -> Discard;"
    with router(text) as r:
        with pytest.raises(HandlerError, match="start the router with -R"):
            r.write("hotconfig", text)
        r.reconfigurable = True
        r.run()
        assert r.read("hotconfig") == ""
        r.write("hotconfig", text.replace("Counter", "AverageCounter"))
        assert r.read("hotconfig").startswith("kept ")
        assert json.loads(r.read("hotconfig", "json"))["counts"]["replace"] == 1
        with pytest.raises(HandlerError, match="syntax error") as told:
            r.write("hotconfig", "-> -> ;")
        assert told.value.code == 520


def test_one_element_while_its_neighbours_run() -> None:
    text = "s :: InfiniteSource(LIMIT -1) -> a :: Counter -> b :: Null -> c :: Counter -> Discard;"
    with running(router(text)) as r:
        report = r.replace("b", "Paint(7)")
        assert [a.what for a in report.actions] == ["keep", "keep", "replace", "keep", "keep"]
        assert type(r.elements["b"]).__name__ == "Paint"
        with pytest.raises(MezzoError, match="did you mean"):
            r.replace("bb", "Null")


@BOTH
def test_reloads_under_load(target: str) -> None:
    plain = "s :: InfiniteSource(LIMIT -1) -> c :: Counter -> q :: Queue(%d) -> u :: Unqueue -> %s Discard;"
    texts = [plain % (100, ""), plain % (200, "d :: Counter ->"), plain % (150, "Paint(3) -> Null ->")]
    with running(router(texts[0], target)) as r:
        seen = 0
        for i in range(30):
            report = r.reload(texts[i % 3])
            count = int(r.read("c.count"))
            assert count >= seen and not report.lost
            seen = count
            assert r.conservation().balanced


@pytest.mark.slow
def test_a_thousand_reloads_under_load() -> None:
    text = "s :: InfiniteSource(LIMIT -1) -> c :: Counter -> q :: Queue(%d) -> u :: Unqueue -> Discard;"
    with running(router(text % 100)) as r:
        seen = 0
        for i in range(1000):
            assert not r.reload(text % (101 + i % 2)).lost
            count = int(r.read("c.count"))
            assert count >= seen
            seen = count
            if i % 50 == 0:
                assert r.conservation().balanced


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_go_on(threads: int) -> None:
    text = (
        "s :: InfiniteSource(LIMIT -1) -> c :: Counter -> q :: ThreadSafeQueue(1000) -> u :: Unqueue -> e :: Counter ->"
        "%s Discard;"
    )
    with running(router(text % "", threads=threads)) as r:
        for i in range(10):
            assert not r.reload(text % ("", "Null ->")[i % 2 == 0]).lost
            assert r.conservation().balanced
        before = int(r.read("e.count"))
        while int(r.read("e.count")) == before:
            pass


def test_the_number_of_threads_stays() -> None:
    from mezzo.pipeline import compile_text

    text = "InfiniteSource -> Discard;"
    with router(text) as r, pytest.raises(MezzoError, match="number of threads"):
        r.reload(text, compile_text(text, threads=2))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pipe_goes_on(threads: int) -> None:
    """Its ends wake each other by what lies in the memory of the code that runs."""
    name = f"reload{threads}"
    text = (
        f"InfiniteSource(LIMIT -1) -> Queue -> to :: ToDevice({name}{{1, METHOD PIPE);"
        f"from :: FromDevice({name}}}1, METHOD PIPE) -> c :: Counter -> %s d :: Discard;"
    )
    with running(router(text % "", threads=threads)) as r:
        for i in range(6):
            assert not r.reload(text % ("", "Null ->")[i % 2 == 0]).lost
            before = int(r.read("c.count"))
            while int(r.read("c.count")) < before + 1000:
                pass
            assert r.conservation().balanced
