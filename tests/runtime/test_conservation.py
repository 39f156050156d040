"""Conservation: free + held + in rings is all there is, by walk and by account, and who does not agree is named."""

from __future__ import annotations

import gc
import json
import os
import random
from pathlib import Path

import pytest

from mezzo.elements import FromDevice, Queue, ToDevice
from mezzo.ports import MemoryPort
from mezzo.runtime import Router

FRAME = bytes.fromhex("020000000001020000000002 0800".replace(" ", "")) + bytes(46)


def bridge(port, **options):
    graph = FromDevice(port) >> Queue(50, name="q") >> ToDevice(port, name="to")
    return Router.from_elements(graph, **options)


@pytest.mark.parametrize("target", ["python", "native"])
def test_every_frame_is_somewhere(target):
    port = MemoryPort("m", slots=16)
    with bridge(port, target=target, frames=256) as router:
        port.give([FRAME] * 15)
        router.run()
        port.give([FRAME] * 15)
        router.run()
        found = router.conservation()
        assert found.balanced
        assert (found.frames, found.packets, found.in_rings, found.free) == (256, 15, 15, 226)
        assert found.held == {"q": 15}
        assert found.ports == {"memory:m": {"receive ring": 0, "transmit ring": 15, "lost": 0}}


def test_it_holds_at_every_moment_of_a_random_history():
    chance, port = random.Random(5), MemoryPort(slots=32)
    with bridge(port, frames=64) as router:
        for _ in range(500):
            port.give([FRAME] * chance.randint(0, 20))
            router.run(rounds=chance.randint(1, 6))
            port.take(chance.randint(0, 20))
            assert router.conservation().balanced


def test_a_lost_frame_is_on_the_account_of_the_port():
    port = MemoryPort("m")
    router = bridge(port)
    frame = router.arena.take_frame()
    found = router.conservation()
    assert found.troubles() == ["1 frames are in rings, but memory:m has 0"]
    with pytest.raises(AssertionError, match="memory:m has 0"):
        router.close()
    assert router.closed and frame == 0


def test_closing_goes_on_when_a_step_fails(capsys):
    port = MemoryPort("m")
    router = bridge(port)
    done: list[str] = []
    port.defer("third", lambda: done.append("third"))
    port.defer("second", lambda: 1 / 0)
    port.defer("first", lambda: done.append("first"))
    router.close()
    assert done == ["first", "third"]
    assert port.troubles == ["memory:m: second: division by zero"]
    assert "second: division by zero" in capsys.readouterr().err
    assert port.receive.mem is not None and not port.opened


def test_sockets_are_closed_before_memory_is_freed():
    port, order = MemoryPort("m"), []
    router = bridge(port)
    port.keep("memory", lambda: order.append("memory"))
    port.defer("socket", lambda: order.append("socket"))
    port.defer("program", lambda: order.append("program"))
    router.close()
    assert order == ["program", "socket", "memory"]


def test_the_handler_and_the_command_tell(mezzo_run):
    port = MemoryPort("m")
    with bridge(port) as router:
        assert "every frame is accounted for" in router.read("conservation")
    out = mezzo_run("-e", "InfiniteSource(LIMIT 5) -> q :: Queue -> Idle;", "--conservation", "-q")
    assert "packets" in out and "  q" in out and "every frame is accounted for" in out
    told = json.loads(mezzo_run("-e", "InfiniteSource(LIMIT 5) -> q :: Queue -> Idle;", "--conservation", "--json"))
    assert told["conservation"]["held"] == {"q": 5} and told["conservation"]["balanced"]


@pytest.fixture
def mezzo_run(capsys):
    def run(*words: str) -> str:
        from mezzo.tools.main import main

        assert main(["run", *words]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_ten_million_packets_in_random_bursts_lose_nothing():
    chance = random.Random(9)
    text = (
        "PollDevice(lo, METHOD MEMORY, BURST 13) -> q :: Queue(64)"
        " -> to :: ToDevice(lo, METHOD MEMORY, LOOPBACK true, BURST 7, RING 256);"
    )
    with Router.from_click(text, frames=512) as router:
        port = router.ports["lo"]
        packets = [FRAME + k.to_bytes(2, "big") for k in range(200)]
        assert port.give(packets) == 200
        while int(router.read("to.count")) < 10_000_000:
            router.run(rounds=chance.randint(1, 400_000))
            found = router.conservation()
            assert found.balanced and found.packets + found.in_rings == 200
            port.receive.check()
        router.elements["q"].call("empty")
        assert router.conservation().balanced


@pytest.mark.slow
def test_opening_and_closing_leaves_nothing_behind(tmp_path):
    def held() -> tuple[int, int]:
        gc.collect()
        return len(os.listdir("/proc/self/fd")), len(Path("/proc/self/maps").read_text().splitlines())

    source = f"FromDevice(m, METHOD MEMORY, TRACE {tmp_path}/x.pcap, FAULT drop 1)"
    text = f"{source} -> Queue -> ToDevice(m, METHOD MEMORY);"
    for k in range(30):
        with Router.from_click(text, target="python", frames=256) as router:
            router.run(rounds=4)
        if k == 9:
            before = held()
    after = held()
    assert after[0] == before[0] and after[1] <= before[1] + 4
