"""Built packets against two independent readers: scapy and dpkt must find what was put in, with right checksums."""

import dpkt
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether

from mezzo.wire.build import arp, ether, icmp, icmp6, ip, ip6, tcp, udp, vlan

A, B = "00:00:C0:AE:67:EF", "00:00:C0:4F:71:EF"
ENDS = ("18.26.4.2", "18.26.7.2")
ENDS6 = ("2001:db8::1", "2001:db8::2")


def rebuilt(packet):
    """What scapy makes of the same fields when it computes every length and checksum itself."""
    copy = packet.copy()
    for layer in (IP, UDP, TCP, ICMP):
        if layer in copy:
            del copy[layer].chksum
    if IP in copy:
        del copy[IP].len
    return bytes(copy)


def test_udp() -> None:
    frame = ether(A, B, 0x0800, ip(*ENDS, 17, udp(1000, 53, b"hello", ENDS), id=7, tos=0x2E))
    packet = Ether(frame)
    assert (packet.src.upper(), packet.dst.upper()) == (A, B)
    assert (packet[UDP].sport, packet[UDP].dport, bytes(packet[UDP].payload)) == (1000, 53, b"hello")
    assert rebuilt(packet) == frame
    assert dpkt.ethernet.Ethernet(frame).data.data.dport == 53


def test_tcp_with_options() -> None:
    segment = tcp(80, 4000, b"abc", ENDS, seq=1, ack=2, flags=0x18, options=b"\x02\x04\x05\xb4")
    frame = ether(A, B, 0x0800, ip(*ENDS, 6, segment))
    packet = Ether(frame)
    assert packet[TCP].options == [("MSS", 1460)] and packet[TCP].flags == "PA"
    assert rebuilt(packet) == frame


def test_icmp_with_ip_options() -> None:
    frame = ether(A, B, 0x0800, ip(*ENDS, 1, icmp(8, 0, 1 << 16 | 2, b"x" * 7), options=b"\x07\x07\x04" + bytes(4)))
    packet = Ether(frame)
    assert (packet[ICMP].id, packet[ICMP].seq, packet[IP].ihl) == (1, 2, 7)
    assert rebuilt(packet) == frame


def test_fragment_bits() -> None:
    packet = IP(ip(*ENDS, 17, bytes(8), frag=0x2003))
    assert (packet.frag, packet.flags) == (3, "MF")


def test_arp_and_vlan() -> None:
    frame = ether(A, "ff:ff:ff:ff:ff:ff", 0x8100, vlan(7, 0x0806, arp(1, A, "18.26.4.24", 0, "18.26.4.2"), pcp=5))
    packet = Ether(frame)
    assert (packet[Dot1Q].vlan, packet[Dot1Q].prio, packet[ARP].op, packet[ARP].pdst) == (7, 5, 1, "18.26.4.2")


def test_ip6() -> None:
    echo = icmp6(128, 0, 1 << 16 | 2, b"ping", ENDS6)
    packet = IPv6(ip6(*ENDS6, 58, echo, flow_label=9))
    assert packet.fl == 9 and packet[ICMPv6EchoRequest].seq == 2
    del packet[ICMPv6EchoRequest].cksum
    assert bytes(packet)[40:] == echo
    datagram = IPv6(ip6(*ENDS6, 17, udp(1, 2, b"x", ENDS6)))
    want = datagram[UDP].chksum
    del datagram[UDP].chksum
    assert IPv6(bytes(datagram))[UDP].chksum == want


def test_wrong_on_request() -> None:
    assert ip(*ENDS, 17, checksum=0x1234, total_length=9)[2:4] == b"\0\x09"
    assert udp(1, 2, b"x", ENDS, checksum=0)[6:8] == b"\0\0"
