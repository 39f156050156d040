"""Flow control of a sending end: stop and wake, packets in flight, completions that never come (Io02)."""

from __future__ import annotations

import pytest

from mezzo.runtime import Router
from tests.ports.test_memory import frame

SENDER = "InfiniteSource(LIMIT {n}, LENGTH 100) -> q :: Queue(1000) -> to :: ToDevice(m, METHOD MEMORY, RING 64{more});"


@pytest.fixture(params=["python", "native"])
def target(request):
    return request.param


def sender(target, n=200, more=""):
    return Router.from_click(SENDER.format(n=n, more=more), target=target, virtual=True)


def test_a_device_without_room_stops_its_queue_and_wakes_it(target):
    with sender(target) as router:
        assert router.run() == "done"
        assert [router.read(f"to.{h}") for h in ("count", "packets_in_flight", "bytes_in_flight")] == [
            "63",
            "63",
            "6300",
        ]
        assert router.read("q.length") == "137"
        assert int(router.read("to.stops")) >= 1
        port = router.ports["m"]
        assert len(port.take(10)) == 10
        router.run()
        assert router.read("to.count") == "73"
        taken = 10
        while got := port.take():
            taken += len(got)
            router.run()
        assert (taken, router.read("q.length"), router.read("to.packets_in_flight")) == (200, "0", "0")


def test_io02_completions_that_never_come_are_counted_and_hang_nothing(target):
    with sender(target, n=10, more=", COMPLETION_WAIT 1s") as router:
        start = router.now_ns
        assert router.run() == "done"
        assert router.read("to.lost") == "10"
        assert 1.0 <= (router.now_ns - start) / 1e9 <= 1.2
        assert router.read("to.packets_in_flight") == "0"


def test_io02_a_stop_does_not_wait_for_them(target):
    router = sender(target, n=10, more=", COMPLETION_WAIT 1s")
    router.run(seconds=0.01)
    assert router.read("to.packets_in_flight") == "10"
    router.close()


def test_io02_lost_slots_are_used_again(target):
    with sender(target, n=300, more=", COMPLETION_WAIT 1s, FAULT lose 100") as router:
        port, taken = router.ports["m"], 0
        for _ in range(20):
            router.run(seconds=0.5)
            taken += len(port.take())
        assert router.read("to.count") == "300"
        assert int(router.read("to.lost")) > 0


def test_some_lost_completions_slow_nothing_down_for_long(target):
    with sender(target, n=2000, more=", COMPLETION_WAIT 100ms, FAULT lose 10 seed 4") as router:
        port, rounds = router.ports["m"], 0
        while router.read("to.count") != "2000" and rounds < 500:
            router.run(seconds=0.05)
            port.take()
            rounds += 1
        router.run()
        assert router.read("to.count") == "2000"
        assert router.conservation().balanced


def test_what_cannot_be_sent_dies_with_a_reason(target):
    text = "src :: FromDevice(in, METHOD MEMORY) -> Queue -> to :: ToDevice(m, METHOD MEMORY);"
    with Router.from_click(text, target=target) as router:
        router.elements["to"].longest = 60
        router.ports["in"].give([frame(1, 61), frame(2, 60)])
        router.run()
        assert (router.read("to.count"), router.read("to.refused")) == ("1", "1")
        assert router.drops() == {("to", "cannot be sent"): 1}


def test_what_faults_drop_does_not_stay_on_the_account_of_the_limit(target):
    with sender(target, n=500, more=", BQL true, BQL_MIN 1000, FAULT drop 50 seed 2") as router:
        port = router.ports["m"]
        for _ in range(300):
            router.run()
            port.take()
        assert router.read("to.count") == "500"
