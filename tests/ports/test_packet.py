"""AF_PACKET on real veth pairs: the same bytes at both ends, offloads finished, and what goes wrong is told."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether

from mezzo.base import MezzoError
from mezzo.ports import _packet_filter
from mezzo.runtime import Router
from mezzo.targets import target_names
from tests.ports.netlab import End, Pair, inside, ip, namespace, raw_socket, run_in, started_in, veth_pair

pytestmark = pytest.mark.needs_root
both_targets = pytest.mark.parametrize("target", target_names())
# (FromDevice, ToDevice): how the rings are used
WAYS = {"default": ("", ""), "rings": (", TPACKET 3", ", TX_RING true"), "one": (", TPACKET 2", ", TX_RING true")}
both_ways = pytest.mark.parametrize("way", ["default", "rings"])
OWN = 0x88B5  # an Ethernet type for experiments
UDP_SEGMENT = 103


@contextmanager
def router(ns: str, text: str, **options: Any) -> Iterator[Router]:
    """A router in a namespace; `close` proves that every frame is accounted for."""
    with inside(ns), Router.from_click(text, **{"frames": 4096, **options}) as made:
        yield made


@contextmanager
def running(made: Router) -> Iterator[Router]:
    """The router runs in a thread of its own while the block does."""
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.please_stop()
        thread.join(10)
        assert not thread.is_alive()


def frame(number: int = 0, size: int = 60, to: bytes = b"\xff" * 6, kind: int = OWN) -> bytes:
    head = to + b"\x02\0\0\0\0\x01" + kind.to_bytes(2, "big") + number.to_bytes(4, "big")
    return (head + bytes(x & 255 for x in range(size)))[:size]


def run_until(made: Router, element: str, count: int, seconds: float = 5) -> None:
    made.run(seconds=seconds, until=lambda: int(made.read(f"{element}.count")) >= count)


def ours(sock: socket.socket, count: int) -> list[bytes]:
    """Frames of this test that arrive at a socket."""
    found: list[bytes] = []
    while len(found) < count:
        data = sock.recv(65536)
        found += [data] if data[12:14] == OWN.to_bytes(2, "big") else []
    return found


@contextmanager
def patched(target: str = "native", method: str = "PACKET", way: str = "default") -> Iterator[tuple[End, End, Router]]:
    """Two hosts with a router between that hands every frame over: (left, right, router)."""
    with (
        namespace() as left,
        namespace() as middle,
        namespace() as right,
        veth_pair(left, middle) as a,
        veth_pair(middle, right) as b,
    ):
        ip("address", "add", "10.7.0.1/24", "dev", a.a.name, ns=left)
        ip("address", "add", "10.7.0.2/24", "dev", b.b.name, ns=right)
        how, (reads, sends) = f"METHOD {method}", WAYS[way]
        text = "".join(
            f"f{k} :: FromDevice({x}, {how}, PROMISC true{reads}) -> Queue -> t{k} :: ToDevice({y}, {how}{sends});"
            for k, (x, y) in enumerate([(a.b.name, b.a.name), (b.a.name, a.b.name)])
        )
        with router(middle, text, target=target) as made, running(made):
            yield a.a, b.b, made


def transfer(left: End, right: End, size: int, address: str = "10.7.0.2") -> None:
    """A TCP connection from left to right carries `size` bytes, and they are the right ones."""
    data = os.urandom(1 << 16)
    with inside(right.ns):
        server = socket.create_server((address, 5001))
    with inside(left.ns):
        client = socket.socket()
    got = bytearray()

    def receive() -> None:
        connection, _ = server.accept()
        with connection:
            while piece := connection.recv(1 << 20):
                got.extend(piece)

    thread = threading.Thread(target=receive)
    thread.start()
    with server, client:
        client.settimeout(20)
        client.connect((address, 5001))
        for _ in range(-(-size // len(data))):
            client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        thread.join(20)
    assert not thread.is_alive()
    assert bytes(got) == data * -(-size // len(data))


# -- packets in and out


@both_ways
@both_targets
def test_frames_come_in_and_go_out_unchanged(pair: Pair, target: str, way: str) -> None:
    name, (reads, sends) = pair.b.name, WAYS[way]
    text = f"""f :: FromDevice({name}, METHOD PACKET{reads}) -> Classifier(12/88b5) -> c :: Collect;
               i :: Feed -> Queue -> t :: ToDevice({name}, METHOD PACKET{sends})"""
    with router(pair.b.ns, text, target=target) as made, raw_socket(pair.a) as wire:
        sent = [frame(k, size) for k, size in enumerate([14, 60, 61, 777, 1514] * 9)]
        for data in sent:
            wire.send(data)
        run_until(made, "c", len(sent))
        assert made.collect("c") == sent
        made.feed("i", sent)
        run_until(made, "t", len(sent))
        assert ours(wire, len(sent)) == sent
        told = dict(line.split("\t") for line in made.read("f.port").splitlines())
        assert (told["method"], told["device"], told["mtu"]) == ("packet", name, "1500")
        assert made.read("f.kernel_drops") == "0"


def test_packets_have_their_type_and_time(pair: Pair) -> None:
    seen: list[tuple[int, int]] = []

    def look(element: Any, port: int, packet: Any) -> None:
        if element.name == "c":
            seen.append((packet.packet_type, packet.timestamp))

    text = f"FromDevice({pair.b.name}, METHOD PACKET) -> Classifier(12/88b5) -> c :: Counter -> Discard"
    with router(pair.b.ns, text, trace=look) as made, raw_socket(pair.a) as wire:
        for to in (pair.b.mac_bytes, b"\xff" * 6, b"\x01\0\x5e\0\0\1", b"\x02\0\0\0\0\x99"):
            wire.send(frame(to=to))
        run_until(made, "c", 4)
    assert [kind for kind, _ in seen] == [0, 1, 2, 3]  # to us, broadcast, multicast, to others
    assert all(abs(stamp - time.time_ns()) < 60 * 10**9 for _, stamp in seen)


@both_ways
@both_targets
def test_io11_vlan_tags_are_where_they_were(pair: Pair, target: str, way: str) -> None:
    tags = ["8100 0007", "8100 e123", "88a8 0009", "88a8 0009 8100 0007", "8100 0001 8100 0002"]
    sent = [
        frame(k)[:12] + bytes.fromhex(tag) + frame(k, kind=OWN)[12:] for k, tag in enumerate(tags) for _ in range(2)
    ]
    name, (reads, sends) = pair.b.name, WAYS[way]
    text = f"""FromDevice({name}, METHOD PACKET{reads}) -> c :: Collect;
               i :: Feed -> Queue -> t :: ToDevice({name}, METHOD PACKET{sends})"""
    with router(pair.b.ns, text, target=target) as made, raw_socket(pair.a) as wire:
        for data in sent:
            wire.send(data)
        run_until(made, "c", len(sent))
        assert [p for p in made.collect("c") if OWN.to_bytes(2, "big") in p[12:24]] == sent
        # A longest packet with a tag goes out, too.
        longest = frame(1, 1514)
        tagged = longest[:12] + bytes.fromhex("81000007") + longest[12:]
        made.feed("i", [tagged])
        run_until(made, "t", 1)
        assert made.read("t.errors") == "0"


# -- offloads


@both_ways
@both_targets
def test_io10_tcp_and_udp_pass_with_default_offloads(target: str, way: str) -> None:
    with patched(target, way=way) as (left, right, made):
        run_in(left.ns, ["ping", "-c2", "-i0.01", "-W2", "10.7.0.2"])
        transfer(left, right, 10 << 20 if target == "native" else 200_000)
        transfer(right, left, 200_000, "10.7.0.1")
        if target == "native":
            assert int(made.read("f0.super_packets")) > 0
        assert (made.read("f0.uncut"), made.read("f0.too_long"), made.read("f0.missed")) == ("0", "0", "0")
        assert made.drops() == {}


@pytest.mark.parametrize("checksum", ["noudpcsum", "udpcsum"])
@pytest.mark.parametrize("method", ["PACKET", "XDP"])
def test_tcp_passes_in_a_tunnel(checksum: str, method: str) -> None:
    """Super-packets have the tunnel's headers in front; all lengths and checksums are set for each segment."""
    with patched(method=method) as (left, right, made):
        for end, k in ((left, 1), (right, 2)):
            where = ["remote", f"10.7.0.{3 - k}", "local", f"10.7.0.{k}", "dstport", "4789"]
            try:
                ip("link", "add", "v0", "mtu", "1400", "type", "vxlan", "id", "7", *where, checksum, ns=end.ns)
            except subprocess.CalledProcessError as trouble:
                pytest.skip(f"this kernel has no VXLAN: {trouble.stderr.strip()}")
            ip("address", "add", f"10.8.0.{k}/24", "dev", "v0", ns=end.ns)
            ip("link", "set", "v0", "up", ns=end.ns)
        transfer(left, right, 2 << 20, "10.8.0.2")
        if method == "PACKET":
            assert int(made.read("f0.super_packets")) > 0
            assert made.read("f0.uncut") == "0"


def test_what_arrives_has_valid_checksums() -> None:
    with patched() as (left, right, _), raw_socket(right) as wire:
        wire.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        transfer(left, right, 300_000)
        with inside(left.ns):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sender:
            sender.sendto(b"plain", ("10.7.0.2", 9))
            sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
            sender.sendto(bytes(range(250)) * 13, ("10.7.0.2", 9))
        kinds = {TCP: 0, UDP: 0}
        while kinds[UDP] < 5:
            data = wire.recv(65536)
            assert len(data) <= 1514
            built = Ether(data)
            layer = TCP if TCP in built else UDP if UDP in built else None
            if layer is not None and data[:6] == right.mac_bytes:
                kinds[layer] += 1
                again = Ether(data)
                del again[IP].chksum, again[layer].chksum
                assert bytes(again) == data
        assert kinds[TCP] >= 300_000 // 1448


def test_tshark_finds_no_bad_checksum_behind_the_router(tmp_path: Any) -> None:
    with patched() as (left, right, _):
        file = tmp_path / "far.pcap"
        capture = ["tcpdump", "-U", "-i", right.name, "-w", str(file), "-c", "60", "tcp"]
        with started_in(right.ns, capture) as process:
            assert process.stderr is not None and "listening" in process.stderr.readline()
            transfer(left, right, 500_000)
            process.wait(10)
        bad = "tcp.checksum.status == 0 || ip.checksum.status == 0"
        check = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
        shown = run_in("", ["tshark", "-r", str(file), *check, "-Y", f"({bad}) && eth.dst == {right.mac}"])
        assert shown.stdout == ""


@both_ways
@both_targets
def test_jumbo_frames_need_frames_that_hold_them(target: str, way: str) -> None:
    with namespace() as a, namespace() as b, veth_pair(a, b, mtu=9000) as pair, raw_socket(pair.a) as wire:
        text = f"f :: FromDevice({pair.b.name}, METHOD PACKET{WAYS[way][0]}) -> Classifier(12/88b5) -> c :: Collect"
        sent = [frame(k, size) for k, size in enumerate([60, 9014, 1700])]
        for size, expected in ((2048, [sent[0], sent[2]]), (16384, sent)):
            with router(b, text, target=target, frames=1024, frame_size=size) as made:
                for data in sent:
                    wire.send(data)
                run_until(made, "c", len(expected))
                assert made.collect("c") == expected
                assert made.read("f.too_long") == str(len(sent) - len(expected))


# -- what is heard


def test_promiscuous_mode_goes_with_the_socket(pair: Pair) -> None:
    def promiscuity() -> str:
        found = re.search(r"promiscuity (\d+)", ip("-d", "link", "show", pair.b.name, ns=pair.b.ns))
        return found[1] if found else ""

    for word, expected in (("false", "0"), ("true", "1")):
        with router(pair.b.ns, f"FromDevice({pair.b.name}, METHOD PACKET, PROMISC {word}) -> Discard"):
            assert promiscuity() == expected
    assert promiscuity() == "0"


def test_without_sniffer_the_host_gets_nothing(pair: Pair) -> None:
    ping = ["ping", "-c1", "-W1", "10.7.0.2"]
    run_in(pair.a.ns, ping)
    text = f"FromDevice({pair.b.name}, METHOD PACKET, SNIFFER false) -> c :: Counter -> Discard"
    with router(pair.b.ns, text) as made:
        assert run_in(pair.a.ns, ["ping", "-c1", "-W0.2", "10.7.0.2"], check=False).returncode == 1
        made.run(seconds=0.05)
        assert int(made.read("c.count")) > 0
    run_in(pair.a.ns, ping)


@pytest.mark.parametrize("method", ["PACKET", "PCAP", "PACKET, TPACKET 3"])
def test_a_filter_of_the_kernels(pair: Pair, method: str) -> None:
    text = f"""f :: FromDevice({pair.b.name}, METHOD {method}, BPF_FILTER "ether proto 0x88b5 and ether[14:4] > 4")
               -> c :: Collect"""
    with raw_socket(pair.a) as wire:
        stop = threading.Event()

        def strangers() -> None:
            while not stop.is_set():
                wire.send(frame(1))

        thread = threading.Thread(target=strangers)
        thread.start()
        try:
            with router(pair.b.ns, text) as made:
                sent = [frame(k) for k in range(5, 10)]
                for data in sent:
                    wire.send(data)
                run_until(made, "f", len(sent))
                assert made.collect("c") == sent
        finally:
            stop.set()
            thread.join()


def test_a_filter_knows_of_tags_that_are_beside_the_packet(pair: Pair) -> None:
    text = f'f :: FromDevice({pair.b.name}, METHOD PACKET, BPF_FILTER "vlan 7") -> c :: Collect'
    tagged = [frame(k)[:12] + bytes.fromhex(f"8100000{k}") + frame(k)[12:] for k in range(5, 9)]
    with router(pair.b.ns, text) as made, raw_socket(pair.a) as wire:
        for data in tagged:
            wire.send(data)
        run_until(made, "f", 1)
        assert made.collect("c") == [tagged[2]]


def test_a_filter_that_is_none_is_told(pair: Pair) -> None:
    text = f"a :: FromDevice({pair.b.name}, METHOD PACKET, BPF_FILTER tpc) -> Discard"
    with inside(pair.b.ns), pytest.raises(MezzoError, match="a :: FromDevice: BPF_FILTER: `tpc`: "):
        Router.from_click(text)


def test_without_tcpdump_a_filter_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *args, **keywords: None)
    text = f"FromDevice({pair.b.name}, METHOD PACKET, BPF_FILTER icmp) -> Discard"
    with inside(pair.b.ns), pytest.raises(MezzoError, match="tcpdump, which is not installed") as caught:
        Router.from_click(text)
    assert "apt-get install tcpdump" in str(caught.value)


def test_a_filter_without_the_right_to_open_the_interface(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then tcpdump is asked about Ethernet frames; what depends on where the kernel keeps a tag is refused."""
    with inside(pair.b.ns):
        expected = _packet_filter.compiled("tcp port 80", pair.b.name)
    run = _packet_filter._run
    refused = "tcpdump: eth0: You don't have permission to perform this capture on that device"

    def without(program: str, how: list[str], text: str) -> subprocess.CompletedProcess[str]:
        return run(program, how, text) if how[0] == "-y" else subprocess.CompletedProcess([], 1, "", refused)

    monkeypatch.setattr(_packet_filter, "_run", without)
    assert _packet_filter.compiled("tcp port 80", "eth0") == expected
    with pytest.raises(MezzoError, match="permission"):
        _packet_filter.compiled("vlan 7", "eth0")


@pytest.mark.parametrize("way", WAYS)
@both_targets
def test_outbound_hears_the_host_and_not_ourselves(pair: Pair, target: str, way: str) -> None:
    name, (reads, sends) = pair.b.name, WAYS[way]
    text = f"""FromDevice({name}, METHOD PACKET, OUTBOUND true{reads}) -> Classifier(12/88b5) -> c :: Collect;
               i :: Feed -> Queue -> t :: ToDevice({name}, METHOD PACKET{sends})"""
    with router(pair.b.ns, text, target=target) as made, raw_socket(pair.b) as host, raw_socket(pair.a) as wire:
        host.send(frame(1))
        made.feed("i", [frame(2), frame(3, 1514)])
        run_until(made, "t", 2)
        wire.send(frame(4))
        run_until(made, "c", 2)
        assert made.collect("c") == [frame(1), frame(4)]
        assert ours(wire, 3) == [frame(1), frame(2), frame(3, 1514)]


@pytest.mark.parametrize(("threads", "version"), [(1, 2), (2, 2), (2, 3)])
def test_queues_share_flows_and_equal_queues_have_copies(pair: Pair, threads: int, version: int) -> None:
    name, how = pair.b.name, f"METHOD PACKET, TPACKET {version}"
    ends = [f"f{k} :: FromDevice({name}, {how}, QUEUE {q}) -> Discard;" for k, q in enumerate([0, 1, 0])]
    built = [Ether(src="02:00:00:00:00:01", dst=pair.b.mac) / IP(src="10.7.0.1", dst="10.7.0.2") for _ in range(64)]
    with router(pair.b.ns, "".join(ends), threads=threads) as made, raw_socket(pair.a) as wire:
        for port, start in enumerate(built):
            wire.send(bytes(start / UDP(sport=1000 + port, dport=9) / b"x"))
        made.run(seconds=1, until=lambda: int(made.read("f2.count")) >= 64)
        made.run(seconds=0.02)
        counts = [int(made.read(f"f{k}.count")) for k in range(3)]
        # The host answers with ICMP, and asks for an address first; that it hears back.
        assert counts[0] + counts[1] == counts[2] >= 64
        assert counts[0] and counts[1]


# -- trouble


def test_blocks_that_are_all_full_are_counted(pair: Pair) -> None:
    with router(pair.b.ns, f"f :: FromDevice({pair.b.name}, METHOD PACKET, TPACKET 3) -> Discard") as made:
        with raw_socket(pair.a) as wire:
            for k in range(6500):
                wire.send(frame(k, 1500))
        made.run(seconds=5, until=lambda: int(made.read("f.count")) >= 4096)
        made.run(seconds=0.02)
        told = {k: int(n) for k, n in (line.split("\t") for line in made.read("f.statistics").splitlines())}
        assert told["received"] + told["dropped"] >= 6500
        assert int(made.read("f.count")) == told["received"]
        assert (told["dropped"] > 0, told["freezes"]) == (True, 1)


def test_a_block_that_is_not_full_comes_when_its_time_is_up(pair: Pair) -> None:
    text = f"f :: FromDevice({pair.b.name}, METHOD PACKET, TPACKET 3, BLOCK_WAIT 150ms) -> Discard"
    with router(pair.b.ns, text) as made, raw_socket(pair.a) as wire:
        made.run(seconds=0.01)
        begun = time.monotonic()
        wire.send(frame(1))
        run_until(made, "f", 1)
        assert 0.1 < time.monotonic() - begun < 1


@both_targets
def test_a_slot_that_the_kernel_refuses_does_not_stop_the_others(pair: Pair, target: str) -> None:
    text = f"i :: Feed -> Queue -> t :: ToDevice({pair.b.name}, METHOD PACKET, TX_RING true)"
    with router(pair.b.ns, text, target=target) as made, raw_socket(pair.a) as wire:
        ip("link", "set", pair.b.name, "mtu", "500", ns=pair.b.ns)
        sent = [frame(k, 1000 if k % 3 == 1 else 60) for k in range(90)]
        made.feed("i", sent)
        run_until(made, "t", len(sent))
        assert ours(wire, 60) == [data for data in sent if len(data) == 60]
        assert made.read("t.errors") == "30"
        assert made.read("t.packets_in_flight") == "0"


@both_targets
def test_a_ring_sends_again_when_the_interface_is_back(pair: Pair, target: str) -> None:
    text = f"i :: Feed -> Queue -> t :: ToDevice({pair.b.name}, METHOD PACKET, TX_RING true)"
    with router(pair.b.ns, text, target=target) as made, raw_socket(pair.a) as wire:
        made.feed("i", [frame(k) for k in range(5)])
        run_until(made, "t", 5)
        ip("link", "set", pair.b.name, "down", ns=pair.b.ns)
        made.feed("i", [frame(k) for k in range(100, 107)])
        run_until(made, "t", 12)
        assert (made.read("t.downs"), made.read("t.packets_in_flight")) == ("7", "0")
        ip("link", "set", pair.b.name, "up", ns=pair.b.ns)
        made.feed("i", [frame(k) for k in range(5, 9)])
        run_until(made, "t", 16)
        assert ours(wire, 9) == [frame(k) for k in range(9)]


def test_one_socket_has_one_ring_to_send_from(pair: Pair) -> None:
    how = f"{pair.b.name}, METHOD PACKET"
    text = f"""FromDevice({how}, OUTBOUND true) -> Discard; InfiniteSource -> q :: Queue;
               q -> a :: ToDevice({how}, TX_RING true); q -> ToDevice({how}, QUEUE 1)"""
    with inside(pair.b.ns), pytest.raises(MezzoError, match="TX_RING is for one"):
        Router.from_click(text)


def test_what_no_room_was_left_for_is_counted(pair: Pair) -> None:
    with router(pair.b.ns, f"f :: FromDevice({pair.b.name}, METHOD PACKET) -> Discard") as made:
        with raw_socket(pair.a) as wire:
            for k in range(5000):
                wire.send(frame(k))
        made.run(seconds=5, until=lambda: int(made.read("f.count")) >= 4096)
        made.run(seconds=0.02)
        received, dropped = (int(line.split("\t")[1]) for line in made.read("f.statistics").splitlines())
        assert received + dropped >= 5000
        assert int(made.read("f.kernel_drops")) == dropped > 0


def test_an_interface_that_goes_down_comes_up_again(pair: Pair) -> None:
    said: list[str] = []
    text = f"""f :: FromDevice({pair.b.name}, METHOD PACKET) -> Classifier(12/88b5) -> c :: Counter -> Discard;
               i :: Feed -> Queue -> t :: ToDevice({pair.b.name}, METHOD PACKET)"""
    with router(pair.b.ns, text) as made, raw_socket(pair.a) as wire:
        made.say = said.append  # type: ignore[method-assign]
        ip("link", "set", pair.b.name, "down", ns=pair.b.ns)
        made.feed("i", [frame(1)] * 3)
        made.run(seconds=5, until=lambda: any(line.endswith(" down") for line in said))
        assert made.read("t.downs") == "3"
        ip("link", "set", pair.b.name, "up", ns=pair.b.ns)
        made.run(seconds=5, until=lambda: any(line.endswith(" up") for line in said))
        wire.send(frame(2))
        run_until(made, "c", 1)
        assert made.read("c.count") == "1"


def test_an_interface_that_is_removed_is_told_and_the_rest_goes_on(pair: Pair) -> None:
    said: list[str] = []
    with namespace() as other, veth_pair(pair.b.ns, other) as second:
        text = f"""a :: FromDevice({pair.b.name}, METHOD PACKET) -> Discard;
                   b :: FromDevice({second.a.name}, METHOD PACKET) -> Classifier(12/88b5) -> c :: Counter -> Discard;
                   i :: Feed -> Queue -> t :: ToDevice({pair.b.name}, METHOD PACKET)"""
        with router(pair.b.ns, text) as made, raw_socket(second.b) as wire:
            made.say = said.append  # type: ignore[method-assign]
            ip("link", "del", pair.b.name, ns=pair.b.ns)
            made.run(seconds=5, until=lambda: any("gone" in line for line in said))
            assert said[-1] == f"a: {pair.b.name} is gone; the rest goes on"
            assert "state\tgone" in made.read("a.port")
            made.feed("i", [frame(1)] * 3)
            wire.send(frame(2))
            run_until(made, "c", 1)
            assert made.read("t.downs") == "3"
            assert made.conservation().balanced


def test_a_namespace_that_is_deleted_with_the_other_end_is_no_trouble() -> None:
    said: list[str] = []
    with (
        namespace() as here,
        namespace() as there,
        veth_pair(here, there) as pair,
        router(here, f"a :: FromDevice({pair.a.name}, METHOD PACKET) -> Discard") as made,
    ):
        made.say = said.append  # type: ignore[method-assign]
        ip("netns", "del", there)
        made.run(seconds=10, until=lambda: any("is gone" in line for line in said))
        assert any("is gone" in line for line in said)


def test_packets_over_the_mtu_are_refused(pair: Pair) -> None:
    text = f"i :: Feed -> Queue -> t :: ToDevice({pair.b.name}, METHOD PACKET); t[0] -> Discard; t[1] -> c :: Collect"
    with router(pair.b.ns, text) as made:
        made.feed("i", [frame(1), frame(2, 1700)])
        run_until(made, "t", 1)
        run_until(made, "c", 1)
        assert made.collect("c") == [frame(2, 1700)]


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(MezzoError, match="there is no network interface `nothere0`"):
        Router.from_click("FromDevice(nothere0, METHOD PACKET) -> Discard")


def test_opening_and_closing_leaves_nothing(pair: Pair) -> None:
    text = f"FromDevice({pair.b.name}, METHOD PACKET) -> Queue -> ToDevice({pair.b.name}, METHOD PACKET)"
    with router(pair.b.ns, text):
        before = len(os.listdir("/proc/self/fd"))
    after = []
    for _ in range(10):
        with router(pair.b.ns, text):
            after.append(len(os.listdir("/proc/self/fd")))
    assert set(after) == {before}


def test_from_python() -> None:
    from mezzo.runtime.device import connect

    with namespace() as a, namespace() as b, veth_pair(a, b) as pair, raw_socket(pair.a) as wire:
        with inside(b):
            device = connect("packet", pair.b.name, promisc=True)
        with device:
            assert device.send([frame(1), frame(2)]) == 2
            assert ours(wire, 2) == [frame(1), frame(2)]
            wire.send(frame(3))
            assert frame(3) in device.receive(seconds=2)
            assert device.facts()["promiscuous"] == "yes"
