"""Headers found in real packets, against dpkt."""

from pathlib import Path

import dpkt
import pytest

from mezzo.packet.capture import open_capture
from mezzo.wire.build import ether, ip, udp, vlan
from mezzo.wire.dissect import dissect
from mezzo.wire.ipv4 import Ipv4
from mezzo.wire.tcp import Tcp
from mezzo.wire.udp import Udp

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data" / "captures"
NAMES = ("example.pcap", "VlanPackets.pcap", "DnsPackets.pcap", "frag_with_padding.pcap", "ip4_fragments.pcap")
FILES = [ROOT / "examples" / "captures" / "demo-traffic.pcap", *(SHARED / name for name in NAMES)]


def by_dpkt(frame: bytes) -> tuple:
    """Addresses and protocol of the IPv4 packet in a frame, and the ports if it starts a TCP or UDP packet."""
    packet = dpkt.ethernet.Ethernet(frame).data
    if not isinstance(packet, dpkt.ip.IP):
        return ()
    inner = packet.data
    ports = (inner.sport, inner.dport) if isinstance(inner, dpkt.tcp.TCP | dpkt.udp.UDP) and not packet.offset else ()
    return (packet.src, packet.dst, packet.p, packet.ttl, packet.id, packet.offset, *ports)


def by_mezzo(frame: bytes) -> tuple:
    found = dissect(frame)
    layer = found.find(Ipv4)
    if layer is None:
        return ()
    addresses = (layer["src"].to_bytes(4, "big"), layer["dst"].to_bytes(4, "big"))
    inner = found.find(Tcp) or found.find(Udp)
    ports = (inner["src_port"], inner["dst_port"]) if inner else ()
    return (*addresses, layer["protocol"], layer["ttl"], layer["id"], layer["fragment_offset"], *ports)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_dpkt_finds_the_same(path) -> None:
    if not path.exists():
        pytest.skip(f"no {path.name} in {path.parent}")
    with open_capture(path) as capture:
        frames = [r.data for r in capture.records()][:1500]
    found = [(by_mezzo(f), by_dpkt(f)) for f in frames]
    assert [pair for pair in found if pair[0] != pair[1]] == []
    assert any(ours for ours, _ in found)


def test_places() -> None:
    frame = ether(1, 2, 0x8100, vlan(5, 0x0800, ip("1.2.3.4", "5.6.7.8", 17, udp(1, 2, b"abc")))) + bytes(9)
    found = dissect(frame)
    assert [(layer.header.short, layer.offset) for layer in found.layers] == [
        ("eth", 0), ("vlan", 14), ("ip", 18), ("udp", 38),
    ]  # fmt: skip
    assert frame[found.payload : found.end] == b"abc"
