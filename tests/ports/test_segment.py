"""Checksums are finished and super-packets cut as scapy builds the pieces, and as the kernel itself cuts them."""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import select
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop
from scapy.layers.l2 import GRE, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet as Built
from scapy.packet import Raw

from mezzo.elements import Element, entry, flag, u8, u32, u64
from mezzo.ports._checksum import finish, finish_if_partial, network_offset
from mezzo.ports._segment import DATAGRAMS, NOWHERE, TCP4, TCP6, headers_of, innermost, segment, segments_of, set_outer
from mezzo.runtime import Router
from mezzo.targets import target_names
from tests.ports.netlab import inside, ip, namespace, unique


class Workbench(Element):
    """Calls functions of the runtime dialect on memory that a test gives."""

    ports, processing, flow = "0/0", "a/a", ""
    runtime = True

    @entry
    def network_at(self, at: u64, length: u32) -> u32:
        return network_offset(at, length)

    @entry
    def finish_at(self, at: u64, length: u32, start: u32, offset: u32) -> flag:
        return finish(at, length, start, offset)

    @entry
    def look_and_finish(self, at: u64, length: u32) -> flag:
        return finish_if_partial(at, length)

    @entry
    def headers(self, at: u64, length: u32, net: u32, start: u32, kind: u8) -> u32:
        ip = innermost(at, length, net, start, kind)
        return headers_of(at, length, ip, start, kind) if ip != NOWHERE else u32(0)

    @entry
    def inner(self, at: u64, length: u32, net: u32, start: u32, kind: u8) -> u32:
        return innermost(at, length, net, start, kind)

    @entry
    def outer(self, to: u64, length: u32, net: u32, index: u32) -> u32:
        set_outer(to, length, net, index)
        return length

    @entry
    def count(self, length: u32, headers: u32, size: u32) -> u32:
        return segments_of(length, headers, size)

    @entry
    def cut(self, to: u64, at: u64, length: u32, net: u32, start: u32, headers: u32, size: u32, index: u32) -> u32:
        return segment(to, at, length, net, start, headers, size & 0xFFFF, index, u8(size >> 16))


@pytest.fixture(params=target_names())
def bench(request: pytest.FixtureRequest) -> Iterator[Workbench]:
    with _workbench(request.param) as made:
        yield made


@contextmanager
def _workbench(target: str) -> Iterator[Workbench]:
    made = Workbench(name="w")
    with Router.from_elements(made, target=target):
        yield made


class Memory:
    """Bytes with an address."""

    def __init__(self, data: bytes) -> None:
        self.buffer = ctypes.create_string_buffer(data, len(data))
        self.at, self.length = ctypes.addressof(self.buffer), len(data)

    def bytes(self, count: int | None = None) -> bytes:
        return self.buffer.raw[:count]


def frame(version: int, transport: Built, payload: bytes, tags: int = 0, options: int = 0) -> Built:
    built: Built = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    if tags == 2:
        built /= Dot1AD(vlan=7)
    if tags:
        built /= Dot1Q(vlan=5)
    if version == 4:
        built /= IP(src="10.0.0.1", dst="10.9.0.2", id=0xFFFE, options=[b"\x01\x01\x01\x00"] if options else [])
    else:
        built /= IPv6(src="fd00::1", dst="fd00::9:2")
        built = built / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() if options else built
    return built / transport / Raw(payload)


def start_of(built: Built) -> int:
    layer = TCP if TCP in built else UDP
    return len(bytes(built)) - len(bytes(built[layer]))


def unfinished(built: Built) -> tuple[bytes, int, int]:
    """The frame as Linux leaves it to a device: the field has the pseudo header's sum.  Also (start, offset)."""
    data, start = bytearray(bytes(built)), start_of(built)
    ipv4 = IP in built
    net = len(data) - len(bytes(built[IP if ipv4 else IPv6]))
    addresses = data[net + 12 : net + 20] if ipv4 else data[net + 8 : net + 40]
    total = (6 if TCP in built else 17) + len(data) - start
    total += sum(struct.unpack(f"!{len(addresses) // 2}H", addresses))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    offset = 16 if TCP in built else 6
    struct.pack_into("!H", data, start + offset, total)
    return bytes(data), start, offset


def variants() -> Iterator[Built]:
    dice = random.Random(1)
    for version in (4, 6):
        for tags in (0, 1, 2):
            for options in (0, 1):
                for size in (0, 1, 999):
                    for transport in (TCP(sport=1, dport=2, seq=9), UDP(sport=3, dport=4)):
                        yield frame(version, transport.copy(), dice.randbytes(size), tags, options)


def test_an_unfinished_checksum_is_seen_and_finished_and_a_whole_one_stays(bench: Workbench) -> None:
    for built in variants():
        whole = bytes(built)
        data, start, offset = unfinished(built)
        memory = Memory(data)
        assert bench.call("look_and_finish", memory.at, memory.length)
        assert memory.bytes() == whole
        bench.call("look_and_finish", memory.at, memory.length)
        assert memory.bytes() == whole
        memory = Memory(data)
        assert bench.call("finish_at", memory.at, memory.length, start, offset)
        assert memory.bytes() == whole


def test_a_checksum_of_zero(bench: Workbench) -> None:
    """TCP's is 0, UDP's is written as 0xFFFF, because 0 says that there is none (RFC 768)."""
    for version in (4, 6):
        for transport, want in ((TCP(sport=1, dport=2, seq=9), 0), (UDP(sport=3, dport=4), 0xFFFF)):
            layer = type(transport)
            rest = Ether(bytes(frame(version, transport.copy(), b"\0\0")))[layer].chksum
            whole = bytes(frame(version, transport.copy(), struct.pack("!H", rest)))
            assert Ether(whole)[layer].chksum == want
            data, start, offset = unfinished(Ether(whole))
            memory = Memory(data)
            assert bench.call("finish_at", memory.at, memory.length, start, offset)
            assert memory.bytes() == whole


def test_padding_is_not_summed(bench: Workbench) -> None:
    built = frame(4, UDP(sport=3, dport=4), b"x")
    memory = Memory(unfinished(built)[0] + bytes(range(1, 18)))
    assert bench.call("look_and_finish", memory.at, memory.length)
    assert memory.bytes(43) == bytes(built)


def test_what_has_no_unfinished_checksum_is_left_alone(bench: Workbench) -> None:
    none = frame(4, UDP(sport=3, dport=4, chksum=0), b"no checksum")
    piece = frame(4, UDP(sport=3, dport=4), b"x" * 100)
    piece[IP].flags = 1
    for data in (bytes(none), unfinished(piece)[0], bytes(Ether() / Raw(b"\0" * 46)), b"", b"x" * 13):
        memory = Memory(data)
        assert not bench.call("look_and_finish", memory.at, memory.length)
        assert memory.bytes() == data


def test_short_and_random_frames_are_never_read_beyond(bench: Workbench) -> None:
    dice = random.Random(2)
    for built in variants():
        data = unfinished(built)[0]
        for _ in range(2):
            at = dice.randrange(len(data))
            cut = data[:at]
            memory = Memory(cut)
            bench.call("look_and_finish", memory.at, memory.length)
            assert memory.bytes()[: min(at, 12)] == cut[:12][:at]
    memory = Memory(b"\0" * 64)
    assert not bench.call("finish_at", memory.at, 64, 60, 4)


def cut_all(bench: Workbench, data: bytes, net: int, start: int, size: int, kind: int) -> list[bytes]:
    memory = Memory(data)
    headers = bench.call("headers", memory.at, memory.length, net, start, kind)
    assert headers
    ip = bench.call("inner", memory.at, memory.length, net, start, kind)
    pieces = []
    for index in range(bench.call("count", memory.length, headers, size)):
        to = Memory(bytes(headers + size))
        count = bench.call("cut", to.at, memory.at, memory.length, ip, start, headers, size | kind << 16, index)
        if ip != net:
            bench.call("outer", to.at, count, net, index)
        pieces.append(to.bytes(count))
    return pieces


def expected(built: Built, size: int) -> list[bytes]:
    """The segments, built one by one by scapy."""
    payload, tcp = bytes(built[Raw].load), TCP in built
    pieces = []
    for index, at in enumerate(range(0, len(payload), size)):
        one = built.copy()
        one[Raw].load = payload[at : at + size]
        if IP in one:
            one[IP].id = (built[IP].id + index) & 0xFFFF
        if tcp:
            one[TCP].seq = (built[TCP].seq + at) & 0xFFFFFFFF
            last, first = at + size >= len(payload), at == 0
            flags = int(built[TCP].flags)
            one[TCP].flags = flags & (0xFF if last else ~0x09 & 0xFF) & (0xFF if first else 0x7F)
        pieces.append(bytes(one))
    return pieces


@pytest.mark.parametrize("target", target_names())
def test_segments_are_what_scapy_builds(target: str) -> None:
    kinds = {("tcp", 4): TCP4, ("tcp", 6): TCP6, ("udp", 4): DATAGRAMS, ("udp", 6): DATAGRAMS}

    with _workbench(target) as bench:

        @settings(max_examples=25, deadline=None, derandomize=True)
        @given(
            st.sampled_from(["tcp", "udp"]),
            st.sampled_from([4, 6]),
            st.integers(0, 2),
            st.integers(1, 12000),
            st.integers(500, 2000),
            st.integers(0, 255),
            st.booleans(),
        )
        def check(name: str, version: int, tags: int, length: int, size: int, flags: int, ecn: bool) -> None:
            tcp = TCP(sport=1, dport=2, seq=0xFFFFF000, flags=flags, options=[("Timestamp", (1, 2)), ("NOP", None)])
            udp = UDP(sport=3, dport=4)
            payload = random.Random(length).randbytes(length)
            built = frame(version, tcp if name == "tcp" else udp, payload, tags)
            data, start, _ = unfinished(built)
            kind = kinds[name, version] | (0x80 if ecn and name == "tcp" else 0)
            assert cut_all(bench, data, 14 + 4 * tags, start, size, kind) == expected(built, size)

        check()


def computed_anew(data: bytes) -> bytes:
    """The same frame with all lengths and checksums as scapy computes them; a UDP checksum of 0 stays."""
    built = Ether(data)
    layer: Any = built
    while layer:
        none = isinstance(layer, UDP) and layer.chksum == 0
        for name in ("len", "plen") if none else ("len", "plen", "chksum"):
            layer.fields.pop(name, None)
        layer = layer.payload
    return bytes(built)


OUTER = {
    "vxlan": lambda ip: ip / UDP(sport=5, dport=4789, chksum=0) / VXLAN(vni=7) / Ether(src="02:00:00:00:00:03"),
    "vxlan with a checksum": lambda ip: ip / UDP(sport=5, dport=4789) / VXLAN(vni=7) / Ether(src="02:00:00:00:00:03"),
    "gre": lambda ip: ip / GRE(),
    "gre with a checksum": lambda ip: ip / GRE(chksum_present=1),
    "ip in ip": lambda ip: ip,
}


@pytest.mark.parametrize("tunnel", list(OUTER))
def test_segments_in_a_tunnel(bench: Workbench, tunnel: str) -> None:
    dice = random.Random(3)
    for outer in (IP(src="192.0.2.1", dst="192.0.2.2", id=9), IPv6(src="fd01::1", dst="fd01::2")):
        for version in (4, 6):
            options = [("Timestamp", (1, 2)), ("NOP", None), ("NOP", None)]
            inner = frame(version, TCP(sport=1, dport=2, seq=7, flags="PA", options=options), dice.randbytes(2500))
            around = OUTER[tunnel](outer.copy())
            built = Ether(bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / around / inner.payload))
            data, start, _ = unfinished(inner)
            data = bytes(built)[: -len(data) + 14] + data[14:]
            start += len(data) - len(bytes(inner))
            pieces = cut_all(bench, data, 14, start, 1000, TCP4 if version == 4 else TCP6)
            assert len(pieces) == 3
            for index, piece in enumerate(pieces):
                told = Ether(piece)
                assert computed_anew(piece) == piece
                assert told[TCP].seq == 7 + 1000 * index
                assert bytes(told[TCP].payload) == bytes(built[TCP].payload)[1000 * index :][:1000]


@pytest.mark.parametrize("tunnel", list(OUTER))
def test_an_unfinished_checksum_in_a_tunnel(bench: Workbench, tunnel: str) -> None:
    for outer in (IP(src="192.0.2.1", dst="192.0.2.2"), IPv6(src="fd01::1", dst="fd01::2")):
        for version in (4, 6):
            inner = frame(version, TCP(sport=1, dport=2), b"payload")
            around = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / OUTER[tunnel](outer.copy())
            whole = bytes(around / inner.payload)
            part = unfinished(inner)[0][14:]
            memory = Memory(whole[: -len(part)] + part)
            assert bench.call("look_and_finish", memory.at, memory.length)
            assert memory.bytes() == whole
            bench.call("look_and_finish", memory.at, memory.length)
            assert memory.bytes() == whole


def test_what_is_no_super_packet_is_refused(bench: Workbench) -> None:
    built = frame(4, TCP(sport=1, dport=2), b"x" * 3000)
    data, start, _ = unfinished(built)
    memory = Memory(data)

    def refused(length: int, net: int, start: int, kind: int) -> bool:
        return not bench.call("headers", memory.at, length, net, start, kind)

    good = (memory.length, 14, start, TCP4)
    assert not refused(*good)
    assert refused(memory.length, 14, start, TCP6)
    assert refused(memory.length, 14, start, DATAGRAMS)
    assert refused(memory.length, 14, start, 3)  # UFO: fragments, which nobody asked the kernel for
    assert refused(start + 20, 14, start, TCP4)  # no payload
    assert refused(start + 10, 14, start, TCP4)
    assert refused(memory.length, 14, 20, TCP4)
    assert refused(memory.length, 14, memory.length, TCP4)
    memory.buffer[start + 12] = b"\x10"  # a TCP header of four bytes
    assert refused(*good)


# -- the kernel as judge: a bridge between two taps cuts a super-packet when the tap it goes out by cannot take it

TUNSETIFF, TUNSETOFFLOAD = 0x4004_54CA, 0x4004_54D0
KIND = 0x2 | 0x1000 | 0x4000  # IFF_TAP IFF_NO_PI IFF_VNET_HDR
EVERYTHING = 1 | 2 | 4 | 8 | 0x20 | 0x40  # TUN_F_CSUM TSO4 TSO6 TSO_ECN USO4 USO6


@contextmanager
def bridged_taps(ns: str) -> Iterator[tuple[int, int]]:
    """Two taps on a bridge; what is written to one comes out of the other."""
    names, descriptors = [unique("t"), unique("t")], []
    with inside(ns):
        try:
            ip("link", "add", "b0", "type", "bridge", ns=ns)
            for name in names:
                descriptors.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
                fcntl.ioctl(descriptors[-1], TUNSETIFF, struct.pack("16sH22x", name.encode(), KIND))
                ip("link", "set", name, "master", "b0", "up", ns=ns)
            ip("link", "set", "b0", "up", ns=ns)
            yield descriptors[0], descriptors[1]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def through(taps: tuple[int, int], written: bytes) -> list[tuple[bytes, bytes]]:
    """What comes out: (virtio-net header, frame) each.  The bridge itself sends something now and then."""
    out: list[tuple[bytes, bytes]] = []
    sender = written[16:22]
    os.write(taps[0], written)
    while select.select([taps[1]], [], [], 0.05 if out else 2)[0]:
        got = os.read(taps[1], 1 << 17)
        out += [(got[:10], got[10:])] if got[16:22] == sender else []
    return out


@pytest.mark.needs_root
@pytest.mark.parametrize("target", target_names())
def test_segments_are_what_the_kernel_makes(target: str) -> None:
    tcp = TCP(sport=1, dport=2, seq=7, flags="PAFC", options=[("Timestamp", (1, 2)), ("NOP", None), ("NOP", None)])
    cases = [(4, tcp, TCP4 | 0x80), (6, tcp, TCP6 | 0x80), (4, UDP(dport=4), DATAGRAMS), (6, UDP(dport=4), DATAGRAMS)]
    with _workbench(target) as bench, namespace() as ns, bridged_taps(ns) as taps:
        for version, transport, kind in cases:
            for length, size in ((3001, 1000), (20_000, 1448)):
                built = frame(version, transport, random.Random(length).randbytes(length))
                data, start, offset = unfinished(built)
                header = struct.pack("=BBHHHH", 1, kind, start + 20, size, start, offset)
                fcntl.ioctl(taps[1], TUNSETOFFLOAD, 0)
                cut = through(taps, header + data)
                assert len(cut) == -(-length // size)
                fcntl.ioctl(taps[1], TUNSETOFFLOAD, EVERYTHING)
                ((told, whole),) = through(taps, header + data)
                _, kind_told, _, size_told, start_told, _ = struct.unpack("=BBHHHH", told)
                assert cut_all(bench, whole, 14, start_told, size_told, kind_told) == [f for _, f in cut]
