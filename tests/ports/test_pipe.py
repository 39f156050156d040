"""Pipes: order, content, nothing lost, blocking, waking, and other processes that are killed."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.device import connect
from tests.ports import shared_child

TARGETS = ("python", "native")
LONG = 30  # seconds: a wait that reaches it hangs
HEADER = bytes.fromhex("020000000001 020000000002 0800".replace(" ", ""))
_numbers = itertools.count()


@pytest.fixture(params=TARGETS)
def target(request):
    return request.param


@pytest.fixture
def name() -> str:
    return f"t{os.getpid()}.{next(_numbers)}"


class Child:
    """A router in another process."""

    def __init__(self, *words: str) -> None:
        script = str(Path(shared_child.__file__))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, script, *words], stdin=pipe, stdout=pipe, text=True)

    def ready(self) -> Child:
        assert self.process.stdout.readline() == "ready\n"
        return self

    def ask(self) -> list[int]:
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    made: list[Child] = []

    def make(*words: str) -> Child:
        made.append(Child(*words))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.wait()
        one.process.stdin.close()
        one.process.stdout.close()


def run_until(router: Router, done: Callable[[], bool]) -> None:
    assert router.run(seconds=LONG, until=done) == "until"


def count(router: Router, element: str) -> int:
    return int(router.elements[element].cell("count").value)


def checks(router: Router, element: str = "o") -> dict[str, int]:
    return {name: int(router.read(f"{element}.{name}")) for name in ("gaps", "again", "broken")}


FINE = {"gaps": 0, "again": 0, "broken": 0}


def both_ways(name: str, limit: int) -> str:
    return f"""
        Numbered(FLOW 1, LIMIT {limit}) -> a :: ToDevice({name}{{, METHOD PIPE);
        Numbered(FLOW 2, LIMIT {limit}) -> b :: ToDevice({name}}}, METHOD PIPE);
        FromDevice({name}{{, METHOD PIPE) -> o :: InOrder -> Discard;
        FromDevice({name}}}, METHOD PIPE) -> p :: InOrder -> Discard;
    """


@pytest.mark.slow
def test_packets_pass_both_ways_in_order_and_whole(name, target):
    limit = 300 if target == "python" else 200_000
    with Router.from_click(both_ways(name, limit), target=target) as router:
        run_until(router, lambda: count(router, "o") + count(router, "p") == 2 * limit)
        assert (checks(router), checks(router, "p")) == (FINE, FINE)
        assert router.read("a.packets_in_flight") == "0"
        assert router.conservation().balanced
        assert router.drops() == {}


@pytest.mark.slow
def test_two_threads(name):
    limit = 300_000
    with Router.from_click(both_ways(name, limit), threads=2) as router:
        run_until(router, lambda: count(router, "o") + count(router, "p") == 2 * limit)
        assert (checks(router), checks(router, "p")) == (FINE, FINE)
        assert router.conservation().balanced
        assert router.drops() == {}


@pytest.mark.slow
def test_a_full_pipe_stops_its_sender_and_drops_nothing(name, target):
    sending = f"n :: Numbered(LIMIT 100) -> to :: ToDevice({name}, METHOD PIPE, RING 16, BURST 4);"
    with Router.from_click(sending, target=target) as sender:
        sender.run(seconds=0.05)
        assert (sender.read("to.count"), sender.read("to.packets_in_flight")) == ("15", "15")
        sizes = [20 + k * 7919 % 600 for k in range(100)]
        assert sender.read("to.bytes_in_flight") == str(sum(sizes[:15]))
        assert sender.conservation().balanced
        got: list[bytes] = []
        with connect("pipe", name, target=target) as reader:
            while len(got) < 100:
                got += reader.receive(seconds=0.0)
                sender.run(seconds=0.001)
        assert [int.from_bytes(p[14:18], "big") for p in got] == list(range(100))
        assert [len(p) for p in got] == sizes
        assert (sender.read("to.packets_in_flight"), sender.read("to.bytes_in_flight")) == ("0", "0")


@pytest.mark.slow
def test_random_bursts_of_random_lengths(name, target):
    chance, total = random.Random(3), 100 if target == "python" else 2000
    lengths = (14, 15, 59, 60, 61, 63, 64, 65, 123, 124, 125, 1500, 1728)
    with (
        connect("pipe", f"{name}{{", target=target, ring=32) as left,
        connect("pipe", f"{name}}}", target=target) as right,
    ):
        sent, got = [], []
        while len(got) < total:
            for _ in range(chance.randint(0, 20) if len(sent) < total else 0):
                sent.append((HEADER + chance.randbytes(1728))[: chance.choice(lengths)])
            left.router.feed("out", sent[fed(left) :])
            left.router.run(seconds=chance.choice((0, 0.0005)))
            right.router.run(seconds=chance.choice((0, 0.0005)))
            got += right.router.collect("in")
        assert got == sent[: len(got)]
        while len(got) < len(sent):
            left.router.run(seconds=0.0005)
            right.router.run(seconds=0.0005)
            got += right.router.collect("in")
        assert got == sent


def fed(device) -> int:
    """Packets given to a device so far."""
    return int(device.router.read("to.count")) + int(device.router.read("out.length"))


def test_slots_that_cannot_be_are_no_packets(name, target):
    text = f"f :: FromDevice({name}{{, METHOD PIPE) -> Discard; Idle -> t :: ToDevice({name}}}, METHOD PIPE);"
    with Router.from_click(text, target=target) as router:
        port = router.ports[f"{name}}}"]
        channel = port.channel(True)
        for k, length in enumerate((0, 13, 2049, 1 << 31, 60)):
            port.words.put(channel + 512 + 64 * k, length)
        port.words.put(channel, 5)
        run_until(router, lambda: count(router, "f") == 1)
        assert router.read("f.refused") == "empty\t1\nrunt\t1\nnot in its frame\t2\n"
        port.words.put(channel, 1 << 30)  # no index of this ring
        router.run(seconds=0.02)
        assert count(router, "f") == 1
        assert router.conservation().balanced


def test_a_reader_without_frames_waits_for_some(name):
    text = f"""Numbered(LIMIT 500) -> ToDevice({name}{{, METHOD PIPE);
        FromDevice({name}}}, METHOD PIPE) -> q :: Queue(500) -> Idle;"""
    with Router.from_click(text, frames=64) as router:
        router.run(seconds=0.02)
        assert 0 < int(router.read("q.length")) <= 64
        router.write("q.reset")
        run_until(router, lambda: int(router.read("q.length")) > 0)


@pytest.mark.slow
def test_who_waits_at_a_pipe_sleeps_and_stale_rings_do_not_wake(name):
    """An eventfd that is rung while nobody asks must not keep a thread awake: looks at the scheduler's own count."""
    text = f"""f :: FromDevice({name}{{, METHOD PIPE) -> Discard;
        Numbered(LIMIT 2000) -> to :: ToDevice({name}{{, METHOD PIPE);"""
    with Router.from_click(text) as router, connect("pipe", f"{name}}}") as other:
        port = router.ports[f"{name}{{"]
        sleeps = router.engine.cells[0]["sleeps"]
        router.run(seconds=0.1)
        port.wake_all()
        router.run(seconds=0.1)
        assert sleeps.value < 20
        assert count(router, "to") == 1023
        assert len(other.receive(seconds=LONG, least=1000)) >= 1000
        router.run(seconds=0.1)
        assert count(router, "to") == 2000
        assert sleeps.value < 40


# -- what is refused


@pytest.mark.slow
def test_a_name_in_use_a_size_that_differs_and_nonsense_are_refused(name):
    with connect("pipe", f"{name}{{", ring=64):
        with pytest.raises(MezzoError, match=rf"end `{{` of pipe `{name}` is in use by process {os.getpid()}"):
            connect("pipe", f"{name}{{")
        with pytest.raises(MezzoError, match="64 slots, not 128"):
            connect("pipe", name, ring=128)
    with connect("pipe", name, frame_size=4096), pytest.raises(MezzoError, match="packets of 4096 bytes"):
        connect("pipe", name, frame_size=2048)
    with connect("pipe", name), connect("pipe", name), pytest.raises(MezzoError, match="both ends of pipe"):
        connect("pipe", name)
    with pytest.raises(MezzoError, match="no name for a pipe"):
        connect("pipe", "a/b")
    with pytest.raises(MezzoError, match="one queue"):
        connect("pipe", name, queue=1)
    with pytest.raises(MezzoError, match="virtual clock"):
        connect("pipe", name, virtual=True)


def test_an_end_may_be_larger_than_the_pipe(name):
    with connect("pipe", name, frame_size=2048), connect("pipe", name, frame_size=4096) as large:
        assert large.port.longest() == 2048


def test_nonsense_from_a_member_ends_its_connection_only(name):
    with connect("pipe", f"{name}{{") as device:
        members = device.port.members
        for text in (b"x", b"[]", b'{"do": "join"}', b'{"do": "join", "place": 9, "generation": 1, "label": ""}'):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
                stranger.settimeout(LONG)
                stranger.connect(members.address(0))
                stranger.send(text)
                assert stranger.recv(100) == b""
        assert members.others() == []
        with connect("pipe", f"{name}}}") as other:
            assert other.send([HEADER + bytes(46)]) == 1
            assert len(device.receive(seconds=LONG)) == 1


@pytest.mark.parametrize(
    "options", [{"bql": True}, {"fault": "duplicate 100"}, {"fault": "lose 50"}, {"rate": "100Mbps"}]
)
def test_hooks_and_byte_limits_go_with_pipes(name, options):
    with connect("pipe", f"{name}{{", **options) as device, connect("pipe", f"{name}}}") as other:
        sent = [HEADER + bytes([k]) * 46 for k in range(50)]
        assert device.router.feed("out", sent) == 50
        got: list[bytes] = []
        while len(set(got)) < 50:
            device.router.run(seconds=0.001)
            got += other.receive()
        assert sorted(set(got), key=got.index) == sent
        assert device.router.conservation().balanced


# -- other processes


@pytest.mark.slow
def test_another_process_sends_and_echoes(name, child):
    child("echo", "PIPE", f"{name}}}").ready()
    text = f"""Numbered(LIMIT 50000) -> to :: ToDevice({name}{{, METHOD PIPE);
        FromDevice({name}{{, METHOD PIPE) -> o :: InOrder -> Discard;"""
    with Router.from_click(text) as router:
        run_until(router, lambda: count(router, "o") == 50_000)
        assert checks(router) == FINE
        assert router.read("to.packets_in_flight") == "0"


@pytest.mark.slow
def test_no_wake_up_is_lost_between_processes(name, child):
    """Each round trip finds both asleep, or nearly; a lost one would wait for the scheduler's look, 100 ms on."""
    child("echo", "PIPE", f"{name}}}").ready()
    with connect("pipe", f"{name}{{") as device:
        begun = time.monotonic()
        for k in range(100):
            device.send([HEADER + bytes([k]) * 46])
            assert device.receive(seconds=LONG)[0][14] == k
        assert time.monotonic() - begun < 5


@pytest.mark.slow
def test_killed_senders_leave_whole_packets_and_a_free_end(name, child):
    text = f"FromDevice({name}{{, METHOD PIPE) -> o :: InOrder -> Discard;"
    with Router.from_click(text) as router:
        for _ in range(3):
            sender, before = child("send", "PIPE", f"{name}}}").ready(), count(router, "o")
            run_until(router, lambda before=before: count(router, "o") > before + 20_000)
            sender.kill()
            router.run(seconds=0.01)
        assert checks(router) == FINE
        assert int(router.read("o.restarts")) == 2
        assert router.read("FromDevice@1.statistics").startswith("packets to take\t0\n")
        assert router.conservation().balanced


@pytest.mark.slow
def test_killed_readers_cost_only_what_they_had_taken(name, child):
    text = f"Numbered -> to :: ToDevice({name}{{, METHOD PIPE);"
    with Router.from_click(text) as router:
        for _ in range(3):
            reader, before = child("receive", "PIPE", f"{name}}}").ready(), count(router, "to")
            run_until(router, lambda before=before: count(router, "to") > before + 20_000)
            reader.kill()
            router.run(seconds=0.01)
            assert router.read("to.packets_in_flight") == "1023"  # full, and nothing dropped
        last, sent = child("receive", "PIPE", f"{name}}}").ready(), count(router, "to")
        run_until(router, lambda: count(router, "to") > sent + 5_000)
        got, gaps, again, broken = last.ask()
        assert (gaps, again, broken) == (1, 0, 0)  # the one gap: it did not begin at number 0
        assert got > 0
        assert router.conservation().balanced


@pytest.mark.slow
def test_nothing_is_left_behind(name):
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    for _ in range(20):
        with connect("pipe", name) as a, connect("pipe", name) as b:
            a.send([HEADER + bytes(46)])
            assert len(b.receive(seconds=LONG)) == 1
    assert descriptors() == before
    assert name not in Path("/proc/net/unix").read_text()


def test_a_port_can_be_had_from_python_too(name):
    text = f"Numbered(LIMIT 5) -> ToDevice({name}{{1, METHOD PIPE);"
    with Router.from_click(text) as router, connect("pipe", f"{name}}}1") as device:
        router.run(rounds=100)
        assert [p[14:18] for p in device.receive(seconds=LONG, least=5)] == [k.to_bytes(4, "big") for k in range(5)]
        assert device.facts()["other end"] == f"process {os.getpid()}"
