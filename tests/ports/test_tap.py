"""Tap and tun devices: the host's own stack is at the other end, at full speed, and finds nothing wrong."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mezzo.base import MezzoError
from mezzo.targets import target_names
from tests.ports.netlab import End, inside, ip, namespace, run_in, veth_pair
from tests.ports.test_packet import UDP_SEGMENT, frame, ours, router, run_until, running, transfer

pytestmark = pytest.mark.needs_root
both_targets = pytest.mark.parametrize("target", target_names())


@pytest.fixture
def ns() -> Iterator[str]:
    with namespace() as made:
        yield made


@contextmanager
def host_socket(ns: str, name: str) -> Iterator[socket.socket]:
    with inside(ns), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as made:
        made.bind((name, 3))
        made.settimeout(2)
        yield made


@both_targets
def test_frames_cross_unchanged(ns: str, target: str) -> None:
    text = """FromDevice(t0, METHOD TAP) -> Classifier(12/88b5) -> c :: Collect;
              i :: Feed -> Queue -> t :: ToDevice(t0, METHOD TAP)"""
    sent = [frame(k, size) for k, size in enumerate([60, 61, 777, 1514] * 10)]
    with router(ns, text, target=target) as made, host_socket(ns, "t0") as host:
        for data in sent:
            host.send(data)
        run_until(made, "c", len(sent))
        assert made.collect("c") == sent
        made.feed("i", sent)
        run_until(made, "t", len(sent))
        made.run(seconds=0.01)
        assert ours(host, len(sent)) == sent
        assert "super-packets\tare cut into frames" in made.read("t.port")


@both_targets
def test_tcp_through_a_tap_and_a_veth(ns: str, target: str) -> None:
    with namespace() as far, veth_pair(ns, far) as wire:
        ip("address", "add", "10.7.0.2/24", "dev", wire.b.name, ns=far)
        text = f"""f :: FromDevice(t0, METHOD TAP) -> Queue -> ToDevice({wire.a.name}, METHOD PACKET);
                   FromDevice({wire.a.name}, METHOD PACKET, PROMISC true) -> Queue -> ToDevice(t0, METHOD TAP)"""
        with router(ns, text, target=target) as made, running(made):
            ip("address", "add", "10.7.0.1/24", "dev", "t0", ns=ns)
            here, there = End(ns, "t0", ""), End(far, wire.b.name, wire.b.mac)
            size = 10 << 20 if target == "native" else 200_000
            transfer(here, there, size)
            transfer(there, here, size, "10.7.0.1")
            assert int(made.read("f.super_packets")) > 0
            assert (made.read("f.uncut"), made.read("f.too_long")) == ("0", "0")
            assert made.drops() == {}


def test_the_device_is_made_and_gone(ns: str) -> None:
    with router(ns, "FromDevice(t0, METHOD TAP) -> Discard"):
        assert "state" in ip("link", "show", "t0", ns=ns) and ",UP" in ip("link", "show", "t0", ns=ns)
    assert "t0" not in ip("link", ns=ns)
    with router(ns, "FromDevice(t0, METHOD TAP, PERSISTENT true) -> Discard"):
        pass
    assert "t0" in ip("link", ns=ns)
    with router(ns, "FromDevice(t0, METHOD TAP) -> Discard"):  # it is there already: attached to, and left
        pass
    assert "t0" in ip("link", ns=ns)


@both_targets
def test_large_packets_with_a_large_mtu(ns: str, target: str) -> None:
    text = """f :: FromDevice(t0, METHOD TAP, MTU 9000) -> Classifier(12/88b5) -> c :: Collect;
              i :: Feed -> Queue -> t :: ToDevice(t0, METHOD TAP)"""
    sent = [frame(k, size) for k, size in enumerate([60, 9014, 3000])]
    with router(ns, text, target=target, frames=512, frame_size=16384) as made, host_socket(ns, "t0") as host:
        assert "mtu\t9000" in made.read("f.port")
        for data in sent:
            host.send(data)
        run_until(made, "c", len(sent))
        assert made.collect("c") == sent
        made.feed("i", sent)
        run_until(made, "t", len(sent))
        assert ours(host, len(sent)) == sent


def test_every_queue_gets_flows_of_its_own(ns: str) -> None:
    ends = [f"f{q} :: FromDevice(t0, METHOD TAP, QUEUE {q}) -> Discard;" for q in range(2)]
    with router(ns, "".join(ends)) as made:
        ip("address", "add", "10.7.0.1/24", "dev", "t0", ns=ns)
        ip("neighbour", "add", "10.7.0.2", "lladdr", "02:00:00:00:00:02", "dev", "t0", ns=ns)
        with inside(ns):
            senders = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(64)]
        for sender in senders:
            sender.sendto(b"x", ("10.7.0.2", 9))
            sender.close()
        made.run(seconds=2, until=lambda: sum(int(made.read(f"f{q}.count")) for q in range(2)) >= 64)
        assert all(int(made.read(f"f{q}.count")) > 0 for q in range(2))


def test_a_device_that_is_down_is_counted(ns: str) -> None:
    with router(ns, "i :: Feed -> Queue -> t :: ToDevice(t0, METHOD TAP)") as made:
        ip("link", "set", "t0", "down", ns=ns)
        made.feed("i", [frame(1)] * 3)
        run_until(made, "t", 3)
        assert made.read("t.downs") == "3"
        ip("link", "set", "t0", "up", ns=ns)


@pytest.mark.parametrize("source", ["FromDevice(t0, METHOD TAP)", "KernelTun(10.99.0.1/24, DEVNAME t0)"])
def test_a_device_that_is_removed_is_told_and_the_rest_goes_on(ns: str, source: str) -> None:
    said: list[str] = []
    with router(ns, f"x :: {source} -> Discard; i :: Feed -> c :: Counter -> Discard") as made:
        made.say = said.append  # type: ignore[method-assign]
        ip("link", "del", "t0", ns=ns)
        made.run(seconds=5, until=lambda: said[-1:] == ["x: t0 is gone; the rest goes on"])
        assert said[-1:] == ["x: t0 is gone; the rest goes on"]
        assert "state\tgone" in made.read("x.port")
        before = time.process_time()
        made.run(seconds=0.3)
        assert time.process_time() - before < 0.15  # it does not spin
        made.feed("i", [frame(1)])
        run_until(made, "c", 1)
        assert made.read("c.count") == "1"


def test_a_device_may_be_moved_to_another_namespace(ns: str) -> None:
    said: list[str] = []
    text = "FromDevice(t0, METHOD TAP) -> Classifier(12/88b5) -> c :: Collect"
    with namespace() as other, router(ns, text) as made:
        made.say = said.append  # type: ignore[method-assign]
        ip("link", "set", "t0", "netns", other, ns=ns)
        ip("link", "set", "t0", "up", ns=other)
        made.run(seconds=5, until=lambda: any("namespace" in line for line in said))
        assert "t0 is in another namespace now" in said[-1]
        with host_socket(other, "t0") as host:
            host.send(frame(1))
        run_until(made, "c", 1)
        assert made.collect("c") == [frame(1)]


def test_a_name_that_cannot_be_is_refused(ns: str) -> None:
    text = "FromDevice(muchtoolonganame0, METHOD TAP) -> Discard"
    with pytest.raises(MezzoError, match="at most 15 bytes"), router(ns, text):
        pass


# -- KernelTun and KernelTap

PING_TUN = "tun :: KernelTun(10.99.0.1/24{more}) -> ICMPPingResponder -> {queue} tun"
PING_TAP = """tap :: KernelTap(10.98.0.1/24, ETHER 02:00:00:00:00:77) -> cl :: Classifier(12/0806, 12/0800, -);
    cl[0] -> ARPResponder(0.0.0.0/0 1:1:1:1:1:1) -> q :: Queue -> tap; cl[2] -> Discard;
    cl[1] -> Strip(14) -> CheckIPHeader -> ICMPPingResponder
          -> EtherEncap(0x0800, 1:1:1:1:1:1, 02:00:00:00:00:77) -> q"""


def ping(ns: str, to: str, *more: str) -> None:
    run_in(ns, ["ping", "-c2", "-i0.01", "-W2", *more, to])


@both_targets
@pytest.mark.parametrize("queue", ["", "Queue ->"])
def test_kernel_tun_answers_the_host(ns: str, target: str, queue: str) -> None:
    with router(ns, PING_TUN.format(more="", queue=queue), target=target) as made:
        with running(made):
            ping(ns, "10.99.0.2")
            ping(ns, "10.99.0.77", "-s", "1400")
        assert int(made.read("tun.count")) >= 4
        assert made.read("tun.sent") == "4"
        assert made.read("tun.dev_name").startswith("tun")
    assert "tun" not in ip("link", ns=ns)


@both_targets
def test_kernel_tap_answers_the_host(ns: str, target: str) -> None:
    with router(ns, PING_TAP, target=target) as made, running(made):
        ping(ns, "10.98.0.2")
        assert "02:00:00:00:00:77" in ip("link", "show", made.read("tap.dev_name"), ns=ns)


def test_gateway_and_mtu(ns: str) -> None:
    more = ", 10.99.0.9, MTU 1300, DEVNAME wire0"
    with router(ns, PING_TUN.format(more=more, queue="")) as made, running(made):
        assert "default via 10.99.0.9 dev wire0" in ip("route", ns=ns)
        assert "mtu 1300" in ip("link", "show", "wire0", ns=ns)
        ping(ns, "192.0.2.7")  # by the default route
        ping(ns, "10.99.0.2", "-s", "1200")
    assert "default" not in ip("route", ns=ns)


@both_targets
def test_what_the_host_cannot_take_is_counted(ns: str, target: str) -> None:
    text = "i :: Feed -> MarkIPHeader(14) -> tun :: KernelTun(10.99.0.1/24, MTU 1000) -> Discard; j :: Feed -> tun"
    packet = bytes.fromhex("4500001c000100004011000000000000" "0a630001") + bytes(8)
    with router(ns, text, target=target) as made:
        made.feed("i", [bytes(14) + packet, bytes(14) + packet + bytes(1000)])
        made.feed("j", [packet])
        made.run(seconds=0.05)
        assert [made.read(f"tun.{name}") for name in ("sent", "too_big", "unmarked")] == ["1", "1", "1"]


def test_what_is_no_ip_leaves_by_the_second_output(ns: str) -> None:
    text = "tun :: KernelTun(10.99.0.1/24); tun[0] -> a :: Counter -> Discard; tun[1] -> b :: Collect"
    with router(ns, text) as made:
        with host_socket(ns, made.read("tun.dev_name")) as host:
            host.send(b"\x10 no IP at all, this is")
        made.run(seconds=2, until=lambda: int(made.read("b.count")) > 0)
        assert made.collect("b") == [b"\x10 no IP at all, this is"]


@both_targets
def test_kernel_tun_cuts_super_packets(ns: str, target: str) -> None:
    text = "tun :: KernelTun(10.99.0.1/24) -> CheckIPHeader -> CheckUDPHeader -> c :: Collect"
    data = bytes(range(200)) * 16
    with router(ns, text, target=target) as made:
        with inside(ns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
            client.sendto(data, ("10.99.0.2", 9))
        run_until(made, "c", 4)
        assert b"".join(p[28:] for p in made.collect("c")) == data
        assert made.read("tun.super_packets") == "1"
        assert made.drops() == {}


def test_arguments_are_checked(ns: str) -> None:
    for text, match in (
        ("KernelTun(10.99.0.1/24, 10.98.0.9) -> Discard", "GATEWAY 10.98.0.9 is not in 10.99.0.1/24"),
        ("KernelTun(10.99.0.1/24, MTU 9000) -> Discard", "MTU 9000: a frame of 2048 bytes holds"),
        ("KernelTun(10.99.0.1/24, HEADROOM 999) -> Discard", "HEADROOM"),
        ("KernelTun() -> Discard", "ADDR is missing"),
    ):
        with pytest.raises(MezzoError, match=match), router(ns, text):
            pass
