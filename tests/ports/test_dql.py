"""Byte queue limits: the arithmetic against a model on random histories, and what they are for (Fo15, Fo16)."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from mezzo.runtime import Router

M = 1 << 32
HOLD = 10**9


def ahead(a: int, b: int) -> int:
    d = (a - b) % M
    return d if d < M // 2 else 0


@dataclass
class Model:
    """Dynamic queue limits, written from their description."""

    limit: int = 0
    low: int = 0
    high: int = (M - 1) // 2 - (M - 1) // 16
    queued: int = 0
    done: int = 0
    last: int = 0
    over: int = 0
    queued_then: int = 0
    last_then: int = 0
    slack: int = M - 1
    since: int = 0

    def queue(self, size: int) -> None:
        self.queued, self.last = (self.queued + size) % M, size

    def complete(self, size: int, now: int) -> None:
        done = (self.done + size) % M
        over = ahead(self.queued - self.done, self.limit)
        progress, progress_then = (self.queued - done) % M, (self.queued_then - self.done) % M
        all_then = ahead(self.queued_then, done) == 0
        limit = self.limit
        if (over and not progress) or (self.over and all_then):
            limit = (limit + ahead(done, self.queued_then) + self.over) % M
            self.slack, self.since = M - 1, now
        elif progress and progress_then and not all_then:
            tail = ahead(self.last_then, self.over) if self.over else 0
            self.slack = min(self.slack, max(ahead(limit + self.over, 2 * size), tail))
            if now > self.since + HOLD:
                limit = ahead(limit, self.slack)
                self.slack, self.since = M - 1, now
        limit = min(max(limit, self.low), self.high)
        if limit != self.limit:
            self.limit, over = limit, 0
        self.over, self.last_then, self.done, self.queued_then = over, self.last, done, self.queued


@pytest.mark.parametrize("target", ["python", "native"])
@pytest.mark.parametrize("start", [0, M - 50_000])
def test_the_limit_is_the_models_on_random_histories(target, start):
    chance, model = random.Random(7), Model(queued=start, done=start, queued_then=start)
    with Router.from_click(
        "Idle -> to :: ToDevice(m, METHOD MEMORY, BQL true);", target=target, virtual=True
    ) as router:
        to = router.elements["to"]
        to.queued = to.completed = to.queued_before = start
        clock = router.engine.cells[0]["now"]
        for _ in range(400):
            for _ in range(chance.randint(0, 6)):
                size = chance.choice((60, 576, 1514))
                model.queue(size)
                to.call("note_queued", size)
            size = chance.randint(0, (model.queued - model.done) % M)
            now = router.now_ns + chance.choice((10**6, 3 * 10**8))
            clock.load(now)
            model.complete(size, now)
            to.call("note_completed", size)
            assert (to.limit, to.queued, to.completed) == (model.limit, model.queued, model.done)


SOURCE = "InfiniteSource(LENGTH 1000) -> q :: Queue(1000) -> "
CLOCK = "RatedSource(RATE 1000) -> Discard;"


def drain(router, port, interrupts, packets=10):
    """An interrupt each ms completes `packets`; bytes in flight in front of each."""
    seen = []
    for _ in range(interrupts):
        router.run(seconds=0.001)
        seen.append(int(router.read("to.bytes_in_flight")))
        port.take(packets)
    return seen


@pytest.mark.parametrize("target", ["python", "native"])
def test_fo15_bytes_in_flight_settle_just_above_one_interrupts_worth(target):
    text = SOURCE + "to :: ToDevice(m, METHOD MEMORY, RING 1024, BQL true);" + CLOCK
    with Router.from_click(text, target=target, virtual=True) as router:
        port = router.ports["m"]
        settled = drain(router, port, 300)[100:]
        assert all(10_000 <= n <= 25_000 for n in settled), sorted(set(settled))
        assert router.read("q.length") == "1000"
        assert int(router.read("to.bql_limit")) <= 25_000
        sent = int(router.read("to.count"))
        drain(router, port, 100)
        assert int(router.read("to.count")) - sent == 1000
        router.write("to.bql", "false")
        drain(router, port, 20)
        assert int(router.read("to.packets_in_flight")) >= 1000


def test_the_limit_stays_in_its_bounds_and_they_can_be_moved():
    text = SOURCE + "to :: ToDevice(m, METHOD MEMORY, BQL true, BQL_MIN 3000, BQL_MAX 5000);" + CLOCK
    with Router.from_click(text, virtual=True) as router:
        port = router.ports["m"]
        assert max(drain(router, port, 50)) == 6000
        assert router.read("to.bql_limit") == "5000"
        router.write("to.bql_limit_max", "3500")
        assert max(drain(router, port, 50)[10:]) == 4000
        assert router.read("to.bql_hold_time") == "1000"


def test_fo16_every_queue_has_its_own_limit():
    ends = "".join(
        f"InfiniteSource(LENGTH 500) -> Queue -> to{k} :: ToDevice(m{k}, METHOD MEMORY, BQL true);" for k in range(4)
    )
    with Router.from_click(ends + CLOCK, virtual=True) as router:
        for _ in range(200):
            router.run(seconds=0.001)
            for k in range(4):
                router.ports[f"m{k}"].take(2 << k)
        found = [int(router.read(f"to{k}.bytes_in_flight")) for k in range(4)]
        assert found == sorted(found) and all(n >= 500 * (2 << k) / 2 for k, n in enumerate(found))
        assert found[3] > 4 * found[0]
