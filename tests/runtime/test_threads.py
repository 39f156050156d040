"""Routers on several threads: nothing lost, order kept, counters exact, sleepers woken, Python let in."""

import ctypes
import os
import random
import select
import threading
import time

import pytest

from mezzo.base import MezzoError
from mezzo.elements import (
    Arg,
    Array,
    Element,
    Int,
    Packet,
    Port,
    i64,
    libc,
    library,
    load_acquire_u32,
    now,
    python,
    u32,
    u64,
)
from mezzo.packet.arena import Arena
from mezzo.pipeline import compile_text
from mezzo.runtime import Router
from mezzo.targets.native.build import Code

LONG = 60  # seconds: a run that reaches it hangs


def finish(router: Router) -> None:
    """Runs until nothing can happen any more."""
    assert router.run(seconds=LONG) == "done"


def counts(router: Router, *names: str) -> list[int]:
    return [int(router.read(f"{name}.count")) for name in names]


@library.register
class Sequenced(Element):
    """Makes packets that say FLOW and a growing number, while there is room."""

    ports, processing = "0/1", "h"
    flow_number = Arg(Int(0, 7), 0, keyword="FLOW")
    limit = Arg(Int(), 1000)
    made: u32

    def task(self) -> bool:
        for _ in range(16):
            if self.made >= self.limit:
                return False
            if not self.ready(0):
                return False
            p = self.make(8)
            if p is None:
                return True
            p.set_u32(0, self.flow_number)
            p.set_u32(4, self.made)
            self.made += 1
            self.push(0, p)
        return True


@library.register
class Ordered(Element):
    """Counts packets of Sequenced, and those that are not the next of their flow."""

    count: u64
    wrong: u64
    after: Array[u32, 8]
    reads = ("count", "wrong")

    def process(self, p: Packet) -> Port:
        flow, number = p.u32(0), p.u32(4)
        if number != self.after[flow]:
            self.wrong += 1
        self.after[flow] = number + 1
        self.count += 1
        return 0


def test_one_queue_between_two_threads_keeps_the_order() -> None:
    text = """
        StaticThreadSched(s 0, u 1);
        s :: Sequenced(LIMIT 200000) -> q :: Queue(100) -> u :: Unqueue(8) -> o :: Ordered -> Discard;
    """
    with Router.from_click(text, threads=2, frames=1024) as router:
        finish(router)
        assert counts(router, "o") == [200_000]
        assert router.read("o.wrong") == "0"
        assert router.drops() == {}
        assert "q\t0, 1\tspsc\t" in router.read("threads")
        assert router.read("u.home_thread") == "1"


def test_several_producers_into_a_small_queue_never_stop() -> None:
    """Fo11.  Both may be told of the same room: what then does not fit is counted."""
    text = """
        StaticThreadSched(a 0, b 1, u 2);
        a :: Sequenced(FLOW 0, LIMIT 20000) -> q :: Queue(4) -> u :: Unqueue -> o :: Ordered -> Discard;
        b :: Sequenced(FLOW 1, LIMIT 20000) -> q;
    """
    with Router.from_click(text, threads=3) as router:
        finish(router)
        assert counts(router, "o")[0] + int(router.read("q.drops")) == 40_000
        assert sum(router.drops().values()) == int(router.read("q.drops"))


@pytest.mark.slow
def test_Fo11_ten_million_packets_from_two_unqueues_never_stop() -> None:
    """The sources sleep while their queues are full; an Unqueue does not, so most packets die at the small queue."""
    flows = "".join(
        f"s{k} :: Sequenced(FLOW {k}, LIMIT 5000000) -> Queue(64) -> u{k} :: Unqueue -> q;"
        f"StaticThreadSched(s{k} {k}, u{k} {k});"
        for k in range(2)
    )
    text = "q :: Queue(4) -> u :: Unqueue -> d :: Discard; StaticThreadSched(u 2);" + flows
    with Router.from_click(text, threads=3) as router:
        finish(router)
        assert counts(router, "u0", "u1") == [5_000_000] * 2
        assert counts(router, "d")[0] + int(router.read("q.drops")) == 10_000_000


def test_counters_that_all_threads_add_to_are_exact() -> None:
    sources = "".join(f"s{k} :: InfiniteSource(LIMIT 100000, BURST 32) -> c;" for k in range(4))
    placed = ", ".join(f"s{k} {k}" for k in range(4))
    text = f"StaticThreadSched({placed}); c :: Counter -> f :: CheckLength(10) -> Discard; {sources}"
    with Router.from_click(text, threads=4) as router:
        finish(router)
        assert counts(router, "c") == [400_000]
        assert sum(router.drops().values()) == 400_000
        assert "c\t0, 1, 2, 3\tcounting\t" in router.read("threads")


def test_two_threads_wake_each_other() -> None:
    """One packet goes round: each thread sleeps, or is about to, whenever the other works."""
    text = """
        StaticThreadSched(u 0, v 1);
        a :: Queue(10);
        f :: Feed -> Queue -> first :: Unqueue -> a;
        a -> u :: Unqueue -> c :: Counter -> b :: Queue(10) -> v :: Unqueue -> s :: Rounds(20000) -> a;
    """
    with Router.from_click(text, threads=2) as router:
        router.feed("f", [bytes(60)])
        finish(router)
        assert counts(router, "c") == [20_000]


@library.register
class Rounds(Element):
    """Lets so many packets pass but one; then they die."""

    most = Arg(Int(), 1000)
    seen: u64

    def process(self, p: Packet) -> Port:
        self.seen += 1
        if self.seen >= self.most:
            return 1, "enough"
        return 0


def test_a_sleeper_is_woken_by_every_single_packet() -> None:
    """One packet goes round, and waits each time until the other thread goes to sleep.

    A lost wake-up would leave it in `a` for ever: thread 0 is not done before, and nobody else wakes thread 1.
    """
    text = """
        StaticThreadSched(first 0, w 0, u 1);
        f :: Feed -> Queue -> first :: Unqueue -> b :: Queue(10);
        b -> w :: WakesSleeper(200) -> a :: Queue(10) -> u :: Unqueue -> b;
    """
    with Router.from_click(text, threads=2) as router:
        sleeper = router.engine.engines[1].cells[0]
        router.elements["w"].bell = sleeper["bell"].value
        router.feed("f", [bytes(60)])
        finish(router)
        assert router.read("w.count") == "200"
        assert int(sleeper["sleeps"].value) >= 20  # else it was found awake still, between its word and its sleep


@library.register
class WakesSleeper(Element):
    """Passes the packet on when a thread has said that it sleeps: at once, or up to 210 µs later."""

    ports, processing, runtime = "1/1-2", "l/h", True
    most = Arg(Int(), 1000)
    bell: u64
    since: u64
    count: u64
    reads = ("count",)

    def task(self) -> bool:
        if self.count == self.most:
            return False
        if load_acquire_u32(self.bell) == 0:
            self.since = now()
            return True
        if now() - self.since < (self.count % 8) * 30_000:
            return True
        p = self.pull(0)
        if p is None:
            return True
        self.count += 1
        if self.count == self.most:
            self.push(1, p, "enough")
        else:
            self.push(0, p)
        return True


@library.register
class SetsItsTimer(Element):
    """Every packet sets a timer; the last setting holds, and packets that came until it fires are counted then."""

    ports, processing = "1/1", "h/h"
    waiting: u64
    fired: u64
    told: u64
    reads = ("fired", "told")

    def push(self, port, p):
        self.waiting += 1
        self.timer_after(1000)
        self.push(0, p)

    def timer(self):
        self.fired += 1
        self.told += self.waiting
        self.waiting = 0


def test_timers_are_set_across_threads() -> None:
    text = """
        StaticThreadSched(a 0, b 1);
        a :: RatedSource(RATE 20000, LIMIT 300) -> t :: SetsItsTimer -> Discard;
        b :: RatedSource(RATE 30000, LIMIT 500) -> t;
    """
    with Router.from_click(text, threads=2) as router:
        finish(router)
        assert "t\t0, 1\tguarded\tits timer is set by several threads" in router.read("threads")
        assert router.read("t.told") == "800"
        assert int(router.read("t.fired")) > 0


def test_handlers_during_traffic() -> None:
    """A write happens while no thread runs packet code, and none is missed."""
    text = """
        StaticThreadSched(s 0, u 1);
        s :: InfiniteSource(BURST 32) -> q :: Queue(200) -> u :: Unqueue(32) -> c :: Counter -> Discard;
    """
    with Router.from_click(text, threads=2) as router:
        troubles: list[BaseException] = []

        def ask() -> None:
            try:
                while router.read("c.count") == "0":
                    pass
                for k in range(60):
                    router.write("q.capacity", str(10 + 50 * (k % 3)))
                    assert int(router.read("q.length")) <= 10 + 50 * (k % 3)
                    router.write("q.reset", "")
            except BaseException as trouble:
                troubles.append(trouble)
            finally:
                router.please_stop()

        asker = threading.Thread(target=ask)
        asker.start()
        assert router.run(seconds=LONG) == "stopped"
        asker.join()
        assert troubles == []
        assert int(router.read("c.count")) > 0


@library.register
class Explodes(Element):
    """Python that fails at packet 100."""

    seen: u32

    def process(self, p: Packet) -> Port:
        self.seen += 1
        if self.seen == 100:
            self.bang()
        return 0

    @python
    def bang(self):
        raise OverflowError("at packet 100")


def test_what_python_raises_comes_out_of_run() -> None:
    text = """
        StaticThreadSched(s 1, u 0);
        s :: InfiniteSource(LIMIT 1000) -> q :: Queue -> u :: Unqueue -> Explodes -> c :: Counter -> Discard;
    """
    with Router.from_click(text, threads=2) as router:
        with pytest.raises(OverflowError, match="at packet 100"):
            router.run(seconds=LONG)
        finish(router)
        assert counts(router, "c") == [1000]


def test_a_callback_may_write_handlers() -> None:
    """COUNT_CALL stops the router from inside the packet path, while another thread is busy."""
    text = """
        StaticThreadSched(s 1, u 0);
        s :: InfiniteSource -> q :: Queue -> u :: Unqueue -> c :: Counter(COUNT_CALL 5000 q.reset) -> d :: Discard;
    """
    with Router.from_click(text, threads=2) as router:
        assert router.run(seconds=LONG, until=lambda: int(router.read("c.count")) > 6000) == "until"


def test_limits_of_a_run() -> None:
    text = "StaticThreadSched(s 0, u 1); s :: InfiniteSource -> Queue -> u :: Unqueue -> c :: Counter -> Discard;"
    with Router.from_click(text, threads=2) as router:
        assert router.run(seconds=0.01) == "time"
        assert router.run(rounds=1000) == "rounds"
        before = counts(router, "c")
        assert router.run(seconds=0.01) == "time"
        assert counts(router, "c") > before
        assert threading.active_count() == 1


def test_an_idle_router_costs_nothing() -> None:
    text = "StaticThreadSched(f 0, u 1); f :: RatedSource(RATE 10) -> Queue -> u :: Unqueue -> Discard;"
    with Router.from_click(text, threads=2) as router:
        before = time.process_time()
        assert router.run(seconds=0.5) == "time"
        assert time.process_time() - before < 0.1  # starting and ending threads is most of it


def test_a_timer_of_another_thread_is_waited_for() -> None:
    text = "StaticThreadSched(a 1); a :: RatedSource(RATE 100, LIMIT 5) -> c :: Counter -> Discard;"
    with Router.from_click(text, threads=2) as router:
        finish(router)
        assert counts(router, "c") == [5]


def test_each_thread_has_its_own_chance() -> None:
    text = """
        StaticThreadSched(a 0, b 1);
        a :: InfiniteSource(LIMIT 4000) -> x :: RandomSwitch -> c :: Counter -> Discard; x[1] -> Discard;
        b :: InfiniteSource(LIMIT 4000) -> y :: RandomSwitch -> d :: Counter -> Discard; y[1] -> Discard;
    """
    with Router.from_click(text, threads=2) as router:
        finish(router)
        one, two = counts(router, "c", "d")
        assert abs(one - 2000) < 300
        assert abs(two - 2000) < 300
        assert one != two


def test_what_cannot_run_on_several_threads_is_refused() -> None:
    with pytest.raises(MezzoError, match="the python target runs one thread, not 2"):
        Router.from_click("InfiniteSource -> Discard;", target="python", threads=2)
    with pytest.raises(MezzoError, match="tracing follows one thread, not 2"):
        Router.from_click("InfiniteSource -> Discard;", threads=2, trace=lambda e, port, p: None)


def test_frames_go_round_between_threads() -> None:
    """Packets are made on one thread and die on the other, in a pool of which each may keep a part."""
    text = """
        StaticThreadSched(s 0, u 1);
        s :: Sequenced(LIMIT 100000) -> q :: Queue(50) -> u :: Unqueue(16) -> o :: Ordered -> Discard;
    """
    with Router.from_click(text, threads=2, frames=256) as router:
        finish(router)
        assert counts(router, "o") == [100_000]
        assert router.arena.held == 0
        assert router.drops() == {}


def graph_of(rng: random.Random) -> str:
    """Sources, then stages with queues between, all on random threads; only sources ask for room, so what may be small
    is a first queue that one thread fills."""
    sources, stages = rng.randint(1, 3), rng.randint(1, 3)
    threads = [rng.randint(0, 2) for _ in range(sources)]
    placed = [f"s{k} {thread}" for k, thread in enumerate(threads)]
    lines = [f"s{k} :: Sequenced(FLOW {k}, LIMIT {rng.randint(500, 3000)});" for k in range(sources)]
    for k in range(stages):
        size = rng.choice([2, 20, 500]) if not k and len(set(threads)) == 1 else 10000
        kind = rng.choice(["SimpleQueue", "Queue", "FrontDropQueue"]) if size == 10000 else "Queue"
        middle = rng.choice(["Counter", "Null", "Paint(3)", "Tee(1)"])
        lines.append(f"q{k} :: {kind}({size}) -> u{k} :: Unqueue({rng.choice([1, 7, 32])}) -> m{k} :: {middle};")
        placed.append(f"u{k} {rng.randint(0, 2)}")
    lines += [f"s{k} -> q0;" for k in range(sources)] + [f"m{k} -> q{k + 1};" for k in range(stages - 1)]
    return f"StaticThreadSched({', '.join(placed)}); {' '.join(lines)} m{stages - 1} -> o :: Ordered -> Discard;"


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs_do_on_three_threads_what_they_do_on_one(seed: int) -> None:
    text = graph_of(random.Random(seed))
    seen = []
    for threads in (1, 3):
        with Router.from_click(text, threads=threads) as router:
            finish(router)
            last = router.elements["o"].cell("after").dump()
            seen.append((router.read("o.count"), router.read("o.wrong"), last))
    assert seen[0] == seen[1]
    assert seen[0][1] == "0"


def test_one_thread_has_code_without_any_of_this() -> None:
    text = "InfiniteSource -> Counter -> Queue -> Unqueue -> a :: ARPQuerier(1.2.3.4, 1:2:3:4:5:6) -> Discard;"
    plan = compile_text(f"{text} Idle -> [1] a;")
    arena = Arena(64)
    text = Code(plan.whole(), arena, False, False).assembly()
    arena.close()
    assert not [word for word in ("atomic", "sideeffect", "@bell", "@flush", "@refill") if word in text]


@library.register
class Ear(Element):
    """Reads a pipe byte by byte; sleeps while there is none."""

    ports, processing = "0/0", ""
    runtime = True
    watches = True
    fd: i64
    read_at: u64
    place: u64
    heard: u64

    def initialize(self):
        self.end, self.mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._memory = ctypes.create_string_buffer(8)
        self.fd, self.place = self.end, ctypes.addressof(self._memory)
        self.read_at = ctypes.cast(ctypes.CDLL(None).read, ctypes.c_void_p).value
        self.router.watch(self, self.end, select.POLLIN)

    def task(self) -> bool:
        if libc(self.read_at, self.fd, self.place, 1) <= 0:
            return False
        self.heard += 1
        return True

    def cleanup(self):
        os.close(self.end)
        os.close(self.mouth)


@pytest.mark.parametrize(("target", "threads"), [("python", 1), ("native", 1), ("native", 2)])
def test_a_descriptor_makes_a_task_runnable(target: str, threads: int) -> None:
    text = "StaticThreadSched(a 0, b 1); a :: Ear; b :: Ear;"
    with Router.from_click(text, target=target, threads=threads) as router:
        ears = [router.elements[name] for name in "ab"]
        left = iter(range(20))

        def speak() -> bool:
            """One byte each time the loop comes by; true when all were heard."""
            if next(left, None) is not None:
                for ear in ears:
                    os.write(ear.mouth, b".")
            return all(ear.heard >= 20 for ear in ears)

        for _ in range(20):
            speak()
        assert router.run(seconds=LONG, until=speak) == "until"
        assert router.run(seconds=0.02) == "time"  # a watched descriptor may always bring something
        for ear in ears:
            router.unwatch(ear, ear.end)
        assert router.run(seconds=LONG) == "done"


def test_requests_need_not_wait_for_a_sleeper() -> None:
    with Router.from_click("StaticThreadSched(a 0, b 1); a :: Ear; b :: Ear;", threads=2) as router:
        waited: list[float] = []

        def ask() -> None:
            for _ in range(20):
                begun = time.monotonic()
                router.read("a.name")
                waited.append(time.monotonic() - begun)
            router.please_stop()

        asker = threading.Thread(target=ask)
        asker.start()
        assert router.run(seconds=LONG) == "stopped"
        asker.join()
        assert sorted(waited)[10] < 0.05


@library.register
class AsksPython(Element):
    """Every packet writes a handler from Python, which makes a packet of its own and throws it away."""

    asked: u64
    reads = ("asked",)

    def process(self, p: Packet) -> Port:
        self.ask(p)
        return 0

    @python
    def ask(self, p):
        copy = p.clone()
        p.arena.free(copy.frame)
        self.router.write("other.reset", "")
        self.asked += 1


def test_python_may_be_called_on_any_thread() -> None:
    text = """
        StaticThreadSched(s 1, t 0);
        s :: InfiniteSource(LIMIT 50) -> a :: AsksPython -> c :: Counter -> Discard;
        t :: InfiniteSource -> other :: Counter -> Discard;
    """
    with Router.from_click(text, threads=2) as router:
        ended = router.run(seconds=LONG, until=lambda: int(router.read("a.asked")) == 50)
        assert ended == "until"
        assert counts(router, "c") == [50]
        assert "a\t1\tplain" in router.read("threads")


def test_plain_reads_stop_nobody() -> None:
    text = "StaticThreadSched(s 0, u 1); s :: InfiniteSource -> Queue -> u :: Unqueue -> c :: Counter -> Discard;"
    with Router.from_click(text, threads=2) as router:
        seen: list[int] = []

        def ask() -> None:
            while len(set(seen)) < 5:
                seen.append(int(router.read("c.count")))
            router.please_stop()

        asker = threading.Thread(target=ask)
        asker.start()
        assert router.run(seconds=LONG) == "stopped"
        asker.join()
        assert seen == sorted(seen)
        load = [line.split() for line in router.read("thread_load").splitlines()]
        assert [row[0] for row in load] == ["0", "1"]
        assert all(int(row[1]) > 0 for row in load)


@pytest.mark.slow
def test_code_lies_together_though_memory_is_large() -> None:
    """Six views of an arena of 2 GB: nothing that code addresses by 32 bits may lie beyond them."""
    text = "s :: InfiniteSource(LIMIT 50) -> Queue(100) -> u :: Unqueue -> c :: Counter -> Discard;"
    with Router.from_click(text + "StaticThreadSched(s 0, u 5);", threads=6, frames=1_100_000) as router:
        finish(router)
        assert router.read("c.count") == "50"
