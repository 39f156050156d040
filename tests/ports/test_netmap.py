"""The netmap driver: packets cross every kind of port, in order and whole, and what goes wrong is told once."""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _ethtool, _netdev, netmap
from mezzo.ports import _netmap_abi as abi
from mezzo.runtime import Router
from mezzo.runtime.device import connect
from tests.ports.netlab import inside, ip, namespace, veth_pair
from tests.ports.netmap_client import SIDES, Client, kernel_side
from tests.ports.netmap_double import NetmapDouble
from tests.ports.netmap_double_rings import RX, TX

TARGETS = ("python", "native")
FORWARD = "f :: FromDevice({a}, METHOD NETMAP{more}) -> q :: Queue(1000) -> t :: ToDevice({b}, METHOD NETMAP{more});"


def frame(k: int, length: int = 60) -> bytes:
    head = bytes.fromhex("02000000000102000000000288b5") + k.to_bytes(4, "big")
    return (head + bytes(x & 255 for x in range(length)))[:length]


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[NetmapDouble]:
    for side in kernel_side("double"):
        monkeypatch.setattr(netmap.Port, "system", side)
        yield side


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The simulated kernel side, and the module where there is one."""
    for made in kernel_side(request.param):
        monkeypatch.setattr(netmap.Port, "system", made)
        yield made


def forward(a: str = "eth0", b: str = "eth1", more: str = "", **options: Any) -> Router:
    text = FORWARD.format(a=a, b=b, more=f", {more}" if more else "")
    return Router.from_click(text, **{"frames": 4096, **options})


def run_until(router: Router, handler: str, count: int, seconds: float = 5) -> None:
    router.run(seconds=seconds, until=lambda: int(router.read(handler)) >= count)


# -- interfaces


def test_packets_are_forwarded_in_order_and_whole(kernel: NetmapDouble, target: str) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    packets = [frame(k, length) for k, length in enumerate([14, 60, 61, 777, 1514, 2048 - 320] * 5)]
    with forward(target=target) as router:
        for data in packets:
            assert a.arrive(data)
        run_until(router, "t.count", len(packets))
        assert b.sent == packets
        assert router.read("f.count") == "30"
        assert router.conservation().balanced
        run_until(router, "t.count", 31, 0.3)
        assert router.read("t.packets_in_flight") == "0"
    assert kernel.files == {}


def test_many_packets_in_bursts_keep_the_rules_of_rings_io13(kernel: NetmapDouble, target: str) -> None:
    a, b = kernel.add_nic("eth0", slots=(16, 16)), kernel.add_nic("eth1", slots=(16, 16))
    chance, sent = random.Random(7), []
    with forward(target=target, more="BURST 5", frames=256) as router:
        kernel.check_rings(*a.krings[RX], *b.krings[TX])
        for _ in range(100 if target == "python" else 400):
            for _ in range(chance.randint(0, 12)):
                if a.arrive(frame(len(sent), chance.randint(14, 300))):
                    sent.append(a.waiting[a.krings[RX][0]][-1])
            b.completions = chance.choice([None, 0, 1, 5])
            router.run(rounds=chance.randint(1, 6))
            kernel.changed()
        b.completions = None
        kernel.changed()
        run_until(router, "t.count", len(sent))
        assert b.sent == sent
        assert router.drops() == {}
        assert kernel.broken == []


def test_all_rings_are_read_and_each_may_have_an_end(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0", rings=(3, 3))
    text = """
    f0 :: FromDevice(eth0, METHOD NETMAP) -> c0 :: Collect;
    f1 :: FromDevice(eth0, METHOD NETMAP, QUEUE 1) -> c1 :: Collect;
    i :: Feed -> Queue -> t :: ToDevice(eth0, METHOD NETMAP, QUEUE 2);
    """
    with Router.from_click(text, target=target) as router:
        for k in range(9):
            nic.arrive(frame(k), k % 3)
        router.feed("i", [frame(99)])
        router.run(seconds=0.02)
        assert sorted(router.collect("c0")) == [frame(k) for k in range(9) if k % 3 != 1]
        assert router.collect("c1") == [frame(k) for k in range(9) if k % 3 == 1]
        assert nic.sent == [frame(99)]
        assert "receive rings\t0 1 2\n" in router.read("f0.port")
    with pytest.raises(MezzoError, match="has no ring 3: it sends by 3, the first is 0"):
        Router.from_click("Idle -> ToDevice(eth0, METHOD NETMAP, QUEUE 3)")


def test_the_hosts_side(kernel: NetmapDouble, target: str) -> None:
    """What the host sends goes to the wire, and back: eth0 is used as if nothing were between."""
    nic = kernel.add_nic("eth0")
    text = """
    FromDevice(eth0^, METHOD NETMAP) -> Queue -> t :: ToDevice(eth0, METHOD NETMAP);
    FromDevice(eth0, METHOD NETMAP) -> Queue -> h :: ToDevice(eth0^, METHOD NETMAP);
    """
    with Router.from_click(text, target=target) as router:
        nic.arrive(frame(1), host=True)
        nic.arrive(frame(2))
        router.run(seconds=0.02)
        assert (nic.sent, nic.to_host) == ([frame(1)], [frame(2)])
        assert "receive rings\thost0\n" in router.ports["eth0^"].ends[0].read_port()


def test_both_sides_by_one_name(kernel: NetmapDouble) -> None:
    nic = kernel.add_nic("eth0", rings=(2, 2))
    text = "f :: FromDevice(eth0*, METHOD NETMAP) -> Queue -> t :: ToDevice(eth0*, METHOD NETMAP, QUEUE 2);"
    with Router.from_click(text) as router:
        nic.arrive(frame(1), 1)
        nic.arrive(frame(2), host=True)
        run_until(router, "t.count", 2)
        assert sorted(nic.to_host) == [frame(1), frame(2)]
        assert "receive rings\t0 1 host0" in router.read("f.port")


def test_unfinished_checksums_of_the_host_are_finished(kernel: NetmapDouble, target: str) -> None:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether

    nic = kernel.add_nic("eth0")
    whole = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP() / UDP() / b"some data")
    pseudo = sum(int.from_bytes(whole[26 + k : 28 + k], "big") for k in range(0, 8, 2)) + 17 + len(whole) - 34
    partial = (pseudo & 0xFFFF) + (pseudo >> 16)
    with forward("eth0^", "eth0", target=target) as router:
        nic.arrive(whole[:40] + partial.to_bytes(2, "big") + whole[42:], host=True)
        run_until(router, "t.count", 1)
        assert nic.sent == [whole]
        assert router.read("f.finished") == "1"


def test_the_time_may_be_the_kernels(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0")
    times: list[int] = []

    def look(element: Any, number: int, packet: Any) -> None:
        if element.name == "d":
            times.append(packet.timestamp)

    text = "f :: FromDevice(eth0, METHOD NETMAP, KERNEL_TIME true) -> d :: Discard;"
    with Router.from_click(text, target=target, trace=look, frames=256) as router:
        for k in range(3):
            nic.arrive(frame(k))
            router.run(seconds=0.005, until=lambda k=k: len(times) > k)
    assert times == [1_700_000_000_123_457_000 + 1000 * k for k in range(3)]


@pytest.mark.needs_root
def test_offloads_and_promiscuous_mode_are_switched_and_put_back(kernel: NetmapDouble) -> None:
    """The interface is real, and only netmap is not: what the host or the peer leaves to a device is switched off."""
    said: list[str] = []
    with namespace() as one, namespace() as other, veth_pair(one, other) as pair, inside(one):
        name = pair.a.name
        kernel.add_nic(name)
        kernel.links[name] = _netdev.link(name)

        def active(feature: str) -> bool:
            return _ethtool.features(name)[feature].active

        with Router.from_click(f"f :: FromDevice({name}*, METHOD NETMAP, PROMISC true) -> Discard;") as router:
            router.say = said.append  # type: ignore[method-assign]
            assert not active("tx-tcp-segmentation") and not active("tx-checksum-ip-generic")
            assert "promiscuity 1" in ip("-d", "link", "show", name)
            port = router.read("f.port")
            assert "promiscuous\tyes\n" in port
            assert "offloads\tswitched off at" in port and "offloads of the host\tswitched off at" in port
            ip("link", "set", name, "down")
            router.run(seconds=5, until=lambda: bool(said))
            assert said == [f"f: {name}* down"]
        assert active("tx-tcp-segmentation") and active("tx-checksum-ip-generic")
        assert "promiscuity 0" in ip("-d", "link", "show", name)


# -- packets of several slots (Io14)


def test_packets_of_several_slots_are_joined_and_split_io14(kernel: NetmapDouble, target: str) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    packets = [frame(k, length) for k, length in enumerate([9000, 60, 2048, 2049, 4096, 9000, 15000])]
    with forward(target=target, frame_size=16384) as router:
        for data in packets:
            assert a.arrive(data)
        run_until(router, "t.count", len(packets))
        assert b.sent == packets
        flags = [b.krings[TX][0].slot(k).flags & abi.MORE_FRAG != 0 for k in range(5)]
        assert flags == [True] * 4 + [False]
        assert router.conservation().balanced


def test_a_packet_is_never_sent_in_part_io14(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0", slots=(8, 8))
    text = "i :: Feed -> Queue -> t :: ToDevice(eth0, METHOD NETMAP, COMPLETION_WAIT 0);"
    with Router.from_click(text, target=target, frame_size=16384, frames=64) as router:
        nic.completions = 0
        router.feed("i", [frame(k, 9000) for k in range(3)])  # five slots each, of seven
        router.run(seconds=0.01)
        assert nic.sent == [frame(0, 9000)]
        ring = nic.krings[TX][0]
        assert (ring.get("head"), ring.get("cur")) == (5, 5)
        assert router.conservation().balanced
        for sent in (2, 3):
            nic.completions = 5
            kernel.changed()
            router.run(seconds=1, until=lambda sent=sent: len(nic.sent) == sent)
        nic.completions = None
        assert nic.sent == [frame(k, 9000) for k in range(3)]
        assert router.read("t.packets_in_flight") == "1"


def test_what_no_frame_can_hold_is_counted(kernel: NetmapDouble, target: str) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    with forward(target=target) as router:
        for data in (frame(1, 9000), frame(2), frame(3, 2048), frame(4)):
            a.arrive(data)
        run_until(router, "t.count", 2)
        assert b.sent == [frame(2), frame(4)]
        assert router.read("f.too_long") == "2"
        assert router.conservation().balanced


# -- pipes and switches, on the module too


def test_a_pipe_between_two_routers_blocks_and_loses_nothing(side: Any, target: str) -> None:
    packets = [frame(k, 60 + k % 900) for k in range(300)]
    left = "i :: Feed -> q :: Queue(1000) -> t :: ToDevice(vale9:mz{1, METHOD NETMAP, RING 64);"
    right = "f :: FromDevice(vale9:mz}1, METHOD NETMAP, RING 64) -> r :: Queue(100) -> u :: Unqueue(ACTIVE false)"
    with (
        Router.from_click(left, target=target, frames=1024) as one,
        Router.from_click(right + " -> c :: Collect;", target=target, frames=1024) as other,
    ):
        one.feed("i", packets)
        for _ in range(20):
            one.run(seconds=0.002)
            other.run(seconds=0.002)
        assert other.read("r.length") == "100"
        waiting = 300 - 100 - int(one.read("q.length"))
        assert 0 < waiting <= 126 + 63, "what the pipe and the reader's ring hold"
        assert int(one.read("t.lost")) == 0
        other.write("u.active", "true")
        found: list[bytes] = []
        for _ in range(100):
            one.run(seconds=0.002)
            other.run(seconds=0.002)
            found += other.collect("c")
            if len(found) == len(packets):
                break
        assert found == packets
        assert one.drops() == other.drops() == {}
        assert one.conservation().balanced and other.conservation().balanced


def test_a_switch_takes_packets_to_where_they_belong(side: Any, target: str) -> None:
    a, b, c = (Client(side, f"vale9:{x}") for x in "abc")
    text = "FromDevice(vale9:mz, METHOD NETMAP) -> EtherMirror -> Queue -> ToDevice(vale9:mz, METHOD NETMAP);"
    hello = bytes.fromhex("02000000009902000000000a88b5") + bytes(46)
    with a, b, c, Router.from_click(text, target=target, frames=512) as router:
        a.send(hello)
        answer: list[bytes] = []
        for _ in range(100):
            router.run(seconds=0.002)
            answer += a.take()
            if answer:
                break
        assert answer == [hello[6:12] + hello[:6] + hello[12:]]
        assert b.take() == [hello] and c.take() == [hello]


@pytest.mark.parametrize("length", [9000, 15000])
def test_long_packets_cross_a_switch(side: Any, length: int) -> None:
    text = """
    i :: Feed -> Queue -> ToDevice(vale9:a, METHOD NETMAP);
    f :: FromDevice(vale9:b, METHOD NETMAP) -> c :: Collect;
    """
    with Router.from_click(text, frame_size=16384, frames=256) as router:
        router.feed("i", [frame(1, length), frame(2)])
        run_until(router, "f.count", 2)
        assert router.collect("c") == [frame(1, length), frame(2)]


def test_a_device_without_a_graph(side: Any) -> None:
    with connect("netmap", "vale9:a") as one, connect("netmap", "vale9:b") as other:
        assert one.send([frame(1), frame(2)]) == 2
        assert other.receive(seconds=2, least=2) == [frame(1), frame(2)]
        assert one.facts()["kind"] == "vale"


def test_memory_is_shared_by_name(side: Any) -> None:
    with Client(side, "vale9:a") as first, connect("netmap", "vale9:b@share=vale9:a") as other:
        assert other.facts()["memory"].startswith(f"{first.told['mem_id']}, ")
    with pytest.raises(MezzoError, match="@share: `vale9:z` has no memory to share"):
        connect("netmap", "vale9:b@share=vale9:z")


# -- monitors


@pytest.mark.parametrize("flags", ["rt", "z"])
def test_a_monitor_tells_which_way_packets_went(kernel: NetmapDouble, target: str, flags: str) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    seen: list[tuple[int, bytes]] = []

    def look(element: Any, number: int, packet: Any) -> None:
        if element.name == "d":
            seen.append((packet.packet_type, bytes(packet)))

    text = f"m :: FromDevice(eth1/{flags}, METHOD NETMAP) -> d :: Discard;"
    with forward("eth0", "eth1", target=target) as router:
        back = Client(kernel, "eth1")
        with Router.from_click(text, target=target, trace=look, frames=256) as monitor:
            for k in range(600):
                a.arrive(frame(k))
                router.run(rounds=4)
                if k % 50 == 49:
                    monitor.run(seconds=0.002)
            b.arrive(frame(1000))
            back.take()
            back.sync(abi.RXSYNC)
            router.run(seconds=0.25)
            monitor.run(seconds=0.01)
        back.close()
        assert b.sent == [frame(k) for k in range(600)], "swapped buffers are told to the hardware"
    assert len(seen) == 601
    assert sorted(kind for kind, _ in seen) == [0] + [4] * 600
    assert [data for kind, data in seen if kind == 4] == b.sent


# -- flow control, and completions that never come (Io02)


def test_a_stopped_device_stops_the_queue_and_wakes_it(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0", slots=(64, 64))
    text = "i :: Feed -> q :: Queue(1000) -> t :: ToDevice(eth0, METHOD NETMAP);"
    with Router.from_click(text, target=target, frames=512) as router:
        nic.completions = 0
        router.feed("i", [frame(k) for k in range(200)])
        router.run(seconds=0.02)
        assert [router.read(h) for h in ("t.count", "q.length", "t.packets_in_flight")] == ["63", "137", "63"]
        assert int(router.read("t.stops")) >= 1
        nic.completions = None
        kernel.changed()
        run_until(router, "t.count", 200)
        assert nic.sent == [frame(k) for k in range(200)]


def test_io02_lost_completions_are_counted_and_hang_nothing(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0", slots=(32, 32))
    said: list[str] = []
    text = "i :: Feed -> q :: Queue(1000) -> t :: ToDevice(eth0, METHOD NETMAP, COMPLETION_WAIT 10ms);"
    with Router.from_click(text, target=target, frames=512) as router:
        router.say = said.append  # type: ignore[method-assign]
        nic.completions = 0
        router.feed("i", [frame(k) for k in range(10)])
        router.run(seconds=2, until=lambda: router.read("t.lost") != "0")
        assert router.read("t.lost") == "10" and router.read("t.packets_in_flight") == "0"
        assert said == ["t: 10 packets were handed to `eth0` and never came back; going on without them"]
        nic.completions = None  # they come late: nobody's
        router.feed("i", [frame(k) for k in range(10, 15)])
        run_until(router, "t.count", 15)
        router.run(seconds=0.25)
        assert (router.read("t.lost"), router.read("t.packets_in_flight")) == ("10", "0")
        assert nic.sent == [frame(k) for k in range(15)]
        assert router.conservation().balanced


def test_a_dead_device_neither_hangs_nor_holds_frames(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0", slots=(32, 32))
    text = "i :: Feed -> q :: Queue(1000) -> t :: ToDevice(eth0, METHOD NETMAP, COMPLETION_WAIT 5ms);"
    with Router.from_click(text, target=target, frames=512) as router:
        router.say = lambda text: None  # type: ignore[method-assign]
        nic.stalled = True
        router.feed("i", [frame(k) for k in range(100)])
        router.run(seconds=2, until=lambda: router.read("t.lost") == "100")
        assert router.read("t.lost") == "100"
        assert router.conservation().balanced


def test_Fo16_each_of_four_queues_stops_starts_and_has_a_limit(
    kernel: NetmapDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One device; its rings 0 and 2 complete nothing."""
    nic = kernel.add_nic("eth0", rings=(4, 4), slots=(64, 64))
    free, honest = {1, 3}, nic.transmit

    def transmit(ring: Any) -> bool:
        nic.completions = None if ring.number in free else 0
        return honest(ring)

    monkeypatch.setattr(nic, "transmit", transmit)
    text = "".join(
        f"InfiniteSource(LENGTH 500, LIMIT 300) -> q{k} :: Queue -> t{k} :: ToDevice(eth0, QUEUE {k}, {more});"
        for k, more in enumerate(["METHOD NETMAP, BQL true, COMPLETION_WAIT 0"] * 4)
    )

    def counts() -> list[int]:
        return [int(router.read(f"t{k}.count")) for k in range(4)]

    with Router.from_click(text, frames=4096) as router:
        router.run(seconds=2, until=lambda: counts()[1] == counts()[3] == 300)
        sent = counts()
        assert sent[1] == sent[3] == 300 and 0 < sent[0] == sent[2] < 63, "bytes stop them, not a full ring"
        free.add(2)
        kernel.changed()
        router.run(seconds=2, until=lambda: counts()[2] == 300)
        assert counts() == [sent[0], 300, 300, 300]
        assert int(router.read("t0.stops")) >= 1 and router.read("t0.packets_in_flight") == str(sent[0])


def test_byte_queue_limits(kernel: NetmapDouble) -> None:
    nic = kernel.add_nic("eth0", slots=(256, 256))
    text = "InfiniteSource(LENGTH 1000) -> t :: ToDevice(eth0, METHOD NETMAP, BQL true, RING 256);"
    with Router.from_click(text.replace("->", "-> Queue(300) ->", 1), frames=1024) as router:
        nic.completions = 0
        router.run(seconds=0.01)
        first = len(nic.sent)
        assert 0 < first < 255, "the limit is far below the ring"
        nic.completions = 3
        kernel.changed()
        router.run(seconds=1, until=lambda: len(nic.sent) > first)
        nic.completions = None


def test_packets_wait_while_no_frame_is_free(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0")
    text = """
    f :: FromDevice(eth0, METHOD NETMAP) -> q :: Queue(1000) -> u :: Unqueue(ACTIVE false) -> c :: Counter -> Discard;
    """
    with Router.from_click(text, target=target, frames=64) as router:
        for k in range(200):
            nic.arrive(frame(k))
        router.run(seconds=0.01)
        assert router.read("q.length") == "64"
        assert 1 <= int(router.read("f.starved")) < 100, "it does not spin"
        router.write("u.active", "true")
        run_until(router, "c.count", 200)
        assert router.read("c.count") == "200"


# -- sleeping


def test_an_idle_port_sleeps_and_wakes(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0")
    text = "f :: FromDevice(eth0, METHOD NETMAP) -> c :: Counter -> Discard"
    with Router.from_click(text, target=target, frames=128) as router:
        router.run(seconds=0.01)
        before = len(kernel.calls)
        router.run(seconds=0.05)
        assert len(kernel.calls) - before < 10
        thread = threading.Thread(target=lambda: (time.sleep(0.02), nic.arrive(frame(1))))
        thread.start()
        run_until(router, "c.count", 1, 5)
        thread.join()
        assert router.read("c.count") == "1"


def test_threads_share_a_port(kernel: NetmapDouble) -> None:
    a, b = kernel.add_nic("eth0", rings=(2, 2), slots=(1024, 1024)), kernel.add_nic("eth1", rings=(2, 2))
    text = """
    FromDevice(eth0, METHOD NETMAP) -> Queue(2000) -> t0 :: ToDevice(eth1, METHOD NETMAP);
    FromDevice(eth0, METHOD NETMAP, QUEUE 1) -> Queue(2000) -> t1 :: ToDevice(eth1, METHOD NETMAP, QUEUE 1);
    """
    with Router.from_click(text, threads=2) as router:
        for k in range(1000):
            a.arrive(frame(k), k % 2)
        router.run(seconds=10, until=lambda: len(b.sent) == 1000)
        assert [p for p in b.sent if p[17] % 2 == 0] == [frame(k) for k in range(0, 1000, 2)]
        assert [p for p in b.sent if p[17] % 2] == [frame(k) for k in range(1, 1000, 2)]


# -- what goes wrong


BROKEN = [
    ("f", {"tail": 5000}, "an index is out of the ring"),
    ("t", {"tail": 5000}, "an index is out of the ring"),
    ("f", {"head": 3, "cur": 3}, "somebody else moved head: is another program on the same ring?"),
    ("t", {"head": 3, "cur": 3}, "somebody else moved head: is another program on the same ring?"),
    ("t", {"tail": 5}, "tail went backwards"),
    ("f", {"tail": 11}, "a slot names no buffer, or more bytes than a buffer has"),
    ("t", {}, "a slot names no buffer, or more bytes than a buffer has"),
]


@pytest.mark.parametrize(("end", "change", "what"), BROKEN)
def test_io13_a_broken_ring_is_told_once_and_left_alone(
    kernel: NetmapDouble, target: str, end: str, change: dict[str, int], what: str
) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    said: list[str] = []
    text = FORWARD.format(a="eth0", b="eth1", more="") + "i :: Feed -> q;"
    with Router.from_click(text, target=target, frames=1024) as router:
        router.say = said.append  # type: ignore[method-assign]
        for k in range(10):
            a.arrive(frame(k))
        run_until(router, "t.count", 10)
        ring = a.krings[RX][0] if end == "f" else b.krings[TX][0]
        kept = ring.slot(10)
        if end == "f" or not change:
            ring.put(10, type(kept)(1 << 31, 60))
        for name, value in change.items():
            ring.set(name, value)
        for _ in range(3):
            router.feed("i", [frame(99)])
            router.elements[end].wake_task()
            router.run(seconds=0.01)
        which = "eth0" if end == "f" else "eth1"
        assert said == [f"{end}: ring 0 of `{which}` is left alone: {what}"]
        assert f"trouble\tring 0: {what}\n" in router.read(f"{end}.port")
        assert len(b.sent) == (13 if end == "f" else 10)
        ring.put(10, kept)
        assert router.conservation().balanced


def test_a_module_that_is_removed_is_told_once_and_the_rest_goes_on(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0")
    said: list[str] = []
    text = """
    f :: FromDevice(eth0, METHOD NETMAP) -> c :: Counter -> Discard;
    i :: Feed -> q :: Queue -> t :: ToDevice(eth0, METHOD NETMAP);
    j :: Feed -> rest :: Counter -> Discard;
    """
    with Router.from_click(text, target=target, frames=512) as router:
        router.say = said.append  # type: ignore[method-assign]
        nic.arrive(frame(1))
        run_until(router, "c.count", 1)
        kernel.is_gone = True
        router.feed("i", [frame(k) for k in range(20)])
        router.feed("j", [frame(k) for k in range(20)])
        router.run(seconds=0.05)
        assert len(said) == 1 and said[0].endswith(
            "netmap port `eth0`: the device or the module was removed; the rest goes on"
        )
        assert (router.read("rest.count"), router.read("q.length")) == ("20", "0")
        assert int(router.read("t.vanished")) >= 1
        assert "state\tgone" in router.read("f.port")
        calls = len(kernel.calls)
        router.run(seconds=0.02)
        assert len(kernel.calls) == calls
        assert router.conservation().balanced
        kernel.is_gone = False


def test_a_busy_kernel_is_asked_again(kernel: NetmapDouble, target: str) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    with forward(target=target) as router:
        kernel.fail(abi.RXSYNC, errno.EAGAIN, errno.EINTR)
        kernel.fail(abi.TXSYNC, errno.EBUSY)
        for k in range(5):
            a.arrive(frame(k))
        router.run(seconds=5, until=lambda: len(b.sent) == 5)
        assert b.sent == [frame(k) for k in range(5)]
        assert (router.elements["f"].busy, router.elements["t"].busy) == (2, 1)


REFUSALS = [
    ("nothere", "there is no such interface", "ip link"),
    ("eth0-7", "it has no ring 7, or another memory", "ethtool -l"),
    ("eth0@9", "it cannot have the memory 9", "leave @ out"),
    ("eth1/rt", "`eth1` is not open, so it cannot be monitored", "open it first"),
    ("vale0:a^", "a vale has no host rings", "leave ^ and * out"),
    ("eth0^/T", "nothing receives there", "leave R, T"),
    ("eth0{", "a pipe is BASE{ID or BASE}ID", "for example eth0{1"),
]


@pytest.mark.parametrize(("name", "what", "hint"), REFUSALS, ids=[r[0] for r in REFUSALS])
def test_refusals_say_what_to_do(kernel: NetmapDouble, name: str, what: str, hint: str) -> None:
    kernel.add_nic("eth0")
    kernel.add_nic("eth1")
    with pytest.raises(MezzoError) as told:
        Router.from_click(f'FromDevice("{name}", METHOD NETMAP) -> Discard')
    text = str(told.value)
    assert what in text and hint in text and "config:1:1" in text
    assert kernel.files == {}


@pytest.mark.parametrize(
    ("number", "what"),
    [
        (errno.EBUSY, "its rings are in use"),
        (errno.ENOMEM, "netmap's memory is used up"),
        (errno.EIO, "virtio-net headers"),
        (errno.EINVAL, "refuses it as invalid"),
        (errno.EOPNOTSUPP, "has not all that was asked for"),
        (errno.EDOM, "Numerical argument out of domain"),
    ],
)
def test_each_error_of_the_kernel_has_words(kernel: NetmapDouble, number: int, what: str) -> None:
    kernel.add_nic("eth0")
    kernel.fail(abi.CTRL, number)
    with pytest.raises(MezzoError, match=what):
        Router.from_click("FromDevice(eth0, METHOD NETMAP) -> Discard")
    assert kernel.files == {}


@pytest.mark.parametrize(
    ("number", "what"),
    [(errno.ENOENT, "is not there: this machine has no netmap"), (errno.EACCES, "may not be opened by this user")],
)
def test_a_machine_without_netmap(kernel: NetmapDouble, number: int, what: str) -> None:
    kernel.denied = number
    with pytest.raises(MezzoError, match=what):
        Router.from_click("FromDevice(eth0, METHOD NETMAP) -> Discard")


def test_options_that_cannot_be(kernel: NetmapDouble) -> None:
    kernel.add_nic("eth0")
    with pytest.raises(MezzoError, match="an interface in netmap mode is taken from the host"):
        Router.from_click("FromDevice(eth0, METHOD NETMAP, SNIFFER true) -> Discard")
    with pytest.raises(MezzoError, match="PROTOCOL: METHOD NETMAP cannot do that"):
        Router.from_click("FromDevice(eth0, METHOD NETMAP, PROTOCOL 0x0800) -> Discard")


def test_opening_and_closing_leaves_nothing_behind(kernel: NetmapDouble) -> None:
    kernel.add_nic("eth0")
    before = os.listdir("/proc/self/fd")
    for _ in range(30):
        with forward("eth0", "eth0", frames=64) as router:
            router.run(rounds=5)
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert kernel.memories[1].buffers.used == 2


def test_wrappers_around_the_port(kernel: NetmapDouble, target: str, tmp_path: Any) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    more = f"TRACE {tmp_path}/x.pcap, FAULT drop 20 duplicate 20 seed 3"
    with forward(target=target, more=more) as router:
        for k in range(100):
            a.arrive(frame(k))
        router.run(seconds=0.1)
        assert 50 < len(b.sent) < 150 and len(set(b.sent)) < 100
        assert router.conservation().balanced
    assert (tmp_path / "x.pcap").stat().st_size > 60 * 60


# -- without a copy


def zero_copy(kernel: NetmapDouble, target: str, **options: Any) -> Router:
    return forward(target=target, more="ZERO_COPY true", **{"frames": 1000, **options})


def test_buffers_go_from_ring_to_ring(kernel: NetmapDouble, target: str) -> None:
    a, b = kernel.add_nic("eth0", slots=(64, 64)), kernel.add_nic("eth1", slots=(64, 64))
    with zero_copy(kernel, target) as router:
        received, sending = a.krings[RX][0].buffers(), b.krings[TX][0].buffers()
        packets = [frame(k, 60 + k) for k in range(50)]
        for data in packets:
            assert a.arrive(data)
        run_until(router, "t.count", 50)
        assert b.sent == packets
        assert b.krings[TX][0].buffers()[:50] == received[:50], "what was received is what is sent"
        assert not set(a.krings[RX][0].buffers()) & set(received[:50])
        router.run(seconds=0.25)
        assert router.conservation().balanced
        assert router.arena.free_count == 500 == len(set(router.arena.free_frames()))
        assert set(sending[:50]) <= {*router.arena.free_frames(), *a.krings[RX][0].buffers()}
        assert "zero copy\tframes 0 to 999 are buffers" in router.read("f.port")
        assert router.ports["eth0"].get_list() == 0, "after kill -9 the kernel finds no list of what was overwritten"
    assert kernel.lost() == {}


@pytest.mark.slow
def test_Io14_packets_of_several_slots_with_buffer_swap(kernel: NetmapDouble, target: str) -> None:
    """What fits into a buffer goes by swap; a packet of several is joined and split, and each slot's flag is right."""
    a, b = kernel.add_nic("eth0", slots=(64, 64)), kernel.add_nic("eth1", slots=(64, 64))
    packets = [frame(k, length) for k, length in enumerate([60, 9000, 1000, 4096, 60])]
    with zero_copy(kernel, target, frame_size=16384) as router:
        for data in packets:
            assert a.arrive(data)
        run_until(router, "t.count", len(packets))
        assert b.sent == packets
        assert router.conservation().balanced
    assert kernel.lost() == {}


def test_io16_the_same_interface_in_and_out_loses_nothing(kernel: NetmapDouble, target: str) -> None:
    nic = kernel.add_nic("eth0", slots=(32, 32))
    chance, sent = random.Random(3), []
    text = "f :: FromDevice(eth0, METHOD NETMAP, ZERO_COPY true) -> Queue -> t :: ToDevice(eth0, METHOD NETMAP);"
    with Router.from_click(text, target=target, frames=500) as router:
        kernel.check_rings(*nic.krings[RX], *nic.krings[TX])
        for _ in range(60 if target == "python" else 300):
            for _ in range(chance.randint(0, 20)):
                if nic.arrive(frame(len(sent), chance.randint(14, 1500))):
                    sent.append(nic.waiting[nic.krings[RX][0]][-1])
            router.run(rounds=chance.randint(1, 6))
        run_until(router, "t.count", len(sent))
        assert nic.sent == sent and kernel.broken == []
        assert router.conservation().balanced


def test_what_does_not_begin_where_its_buffer_does_is_copied(kernel: NetmapDouble, target: str) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    text = """
    FromDevice(eth0, METHOD NETMAP, ZERO_COPY true) -> Strip(14)
      -> Queue -> t :: ToDevice(eth1, METHOD NETMAP, ZERO_COPY true);
    i :: Feed -> Queue -> u :: ToDevice(eth0, METHOD NETMAP, ZERO_COPY true);
    """
    with Router.from_click(text, target=target, frames=2000) as router:
        a.arrive(frame(1, 100))
        router.feed("i", [frame(2), frame(3, 1500)])
        run_until(router, "t.count", 1)
        run_until(router, "u.count", 2)
        assert b.sent == [frame(1, 100)[14:]]
        assert a.sent == [frame(2), frame(3, 1500)]
        assert router.conservation().balanced


def test_packets_that_are_held_at_the_end_go_back_too(kernel: NetmapDouble, target: str) -> None:
    a = kernel.add_nic("eth0")
    text = "f :: FromDevice(eth0, METHOD NETMAP, ZERO_COPY true) -> q :: Queue(1000) -> Idle;"
    with Router.from_click(text, target=target, frames=1000) as router:
        for k in range(200):
            a.arrive(frame(k))
        run_until(router, "f.count", 200)
        assert router.read("q.length") == "200"
        assert router.conservation().balanced
    assert kernel.lost() == {}


def test_a_pipe_without_a_copy(kernel: NetmapDouble, target: str) -> None:
    """Two routers, each with the other's buffers over and over."""
    left = "i :: Feed -> q :: Queue(1000) -> t :: ToDevice(vale9:p{1, METHOD NETMAP, ZERO_COPY true, RING 16);"
    right = "f :: FromDevice(vale9:p}1, METHOD NETMAP, ZERO_COPY true, RING 16) -> c :: Collect;"
    with (
        Router.from_click(left, target=target, frames=300) as one,
        Router.from_click(right, target=target, frames=300) as two,
    ):
        found: list[bytes] = []
        for turn in range(20):
            one.feed("i", [frame(20 * turn + k) for k in range(20)])
            one.run(seconds=0.001)
            two.run(seconds=0.001)
            found += two.collect("c")
        for _ in range(100):
            one.run(seconds=0.001)
            two.run(seconds=0.001)
            found += two.collect("c")
            if len(found) == 400:
                break
        assert found == [frame(k) for k in range(400)]
        assert one.conservation().balanced and two.conservation().balanced


@pytest.mark.parametrize("end", ["f", "t"])
def test_a_slot_that_names_a_frame_of_ours_harms_nothing(kernel: NetmapDouble, target: str, end: str) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    said: list[str] = []
    with zero_copy(kernel, target) as router:
        router.say = said.append  # type: ignore[method-assign]
        ring = a.krings[RX][0] if end == "f" else b.krings[TX][0]
        kept, free = ring.slot(0), next(iter(router.arena.free_frames()))
        ring.put(0, type(kept)(free, kept.len))
        a.arrive(frame(1))
        router.run(seconds=0.02)
        which = "eth0" if end == "f" else "eth1"
        assert said == [
            f"{end}: ring 0 of `{which}` is left alone: a slot names a buffer that is a frame of this router"
        ]
        assert router.conservation().balanced
        ring.put(0, kept)


def test_why_frames_are_no_buffers(kernel: NetmapDouble) -> None:
    a, b = kernel.add_nic("eth0"), kernel.add_nic("eth1")
    options = [
        ({"frame_size": 4096}, "zero copy: frames have 4096 bytes, its buffers 2048"),
        ({"threads": 2}, "zero copy: several threads run this router"),
    ]
    for option, why in options:
        with zero_copy(kernel, "native", **option) as router:
            a.arrive(frame(1))
            run_until(router, "t.count", 1)
            assert why in router.read("f.refusals")
            assert "zero copy\tno" in router.read("t.port")
    assert len(b.sent) == 2
    with zero_copy(kernel, "native", frames=64) as router:
        assert "zero copy: only 0 of its 32 spare buffers have a number below 64" in router.read("f.refusals")
    with forward("eth0", "vale9:a", more="ZERO_COPY true", frames=1000) as router:
        assert "zero copy: its memory is 2, that of `eth0` 1" in router.read("t.refusals")


@pytest.mark.parametrize("more", ["", "ZERO_COPY true"])
def test_whatever_the_kernel_does_packets_arrive_once_and_in_order(kernel: NetmapDouble, more: str) -> None:
    """Errors that pass, completions that dribble, rings that stall, long packets: seeded, natively."""
    a, b = kernel.add_nic("eth0", rings=(2, 2), slots=(32, 32)), kernel.add_nic("eth1", slots=(16, 16))
    chance, sent = random.Random(11), {0: [], 1: []}
    text = FORWARD.format(a="eth0", b="eth1", more=f", {more}, COMPLETION_WAIT 0" if more else ", COMPLETION_WAIT 0")
    text = text.replace(", COMPLETION_WAIT 0", "", 1)
    with Router.from_click(text, frames=1000) as router:
        kernel.check_rings(*a.krings[RX], *b.krings[TX])
        for turn in range(600):
            for _ in range(chance.randint(0, 12)):
                ring = chance.randint(0, 1)
                data = bytes([ring]) + frame(turn, chance.choice([14, 60, 300, 1514]))[1:]
                if a.arrive(data, ring):
                    sent[ring].append(data)
            for request in (abi.RXSYNC, abi.TXSYNC):
                if chance.random() < 0.2:
                    kernel.fail(request, *chance.choices([0, errno.EAGAIN, errno.EINTR, errno.EBUSY], k=2))
            b.stalled = chance.random() < 0.2
            b.completions = chance.choice([None, 0, 1, 7])
            router.run(rounds=chance.randint(1, 8))
            kernel.changed()
        kernel.failures.clear()
        b.stalled, b.completions = False, None
        kernel.changed()
        total = len(sent[0]) + len(sent[1])
        router.run(seconds=10, until=lambda: len(b.sent) == total)
        assert [p for p in b.sent if p[0] == 0] == sent[0]
        assert [p for p in b.sent if p[0] == 1] == sent[1]
        assert kernel.broken == [] and router.drops() == {}
        assert router.conservation().balanced
