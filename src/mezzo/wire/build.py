"""Small packet builders for tests and examples.

Each returns bytes with right lengths and checksums, and takes its payload last, so that packets nest as they travel:

    ether(HOST, ROUTER, 0x0800, ip("18.26.4.2", "18.26.7.2", 17, udp(1000, 53, b"hello", ("18.26.4.2", "18.26.7.2"))))

Addresses are text or numbers.  A wrong packet is made by passing the wrong value (`checksum=`, `total_length=`).
"""

from __future__ import annotations

from collections.abc import Callable

from mezzo.wire.address import parse_ether, parse_ip, parse_ip6
from mezzo.wire.arp import Arp
from mezzo.wire.checksum import internet_checksum, transport_checksum, transport_checksum6
from mezzo.wire.constants import ETHERTYPE_IP, PROTO_ICMP6, PROTO_TCP, PROTO_UDP
from mezzo.wire.ethernet import Ethernet
from mezzo.wire.icmp import Icmp
from mezzo.wire.icmp6 import Icmp6
from mezzo.wire.ipv4 import Ipv4
from mezzo.wire.ipv6 import Ipv6
from mezzo.wire.tcp import Tcp
from mezzo.wire.udp import Udp
from mezzo.wire.vlan import Vlan

Address = str | int
Ends = tuple[Address, Address]  # (source, destination), for the pseudo-header


def _number(address: Address, parse: Callable[[str], int]) -> int:
    return parse(address) if isinstance(address, str) else address


def ether(src: Address, dst: Address, ethertype: int, payload: bytes = b"") -> bytes:
    """An Ethernet frame, unpadded."""
    return Ethernet.pack(src=_number(src, parse_ether), dst=_number(dst, parse_ether), type=ethertype) + payload


def vlan(vid: int, ethertype: int, payload: bytes = b"", pcp: int = 0) -> bytes:
    """A VLAN tag and what it covers; goes into `ether(..., 0x8100, ...)`."""
    return Vlan.pack(vid=vid, type=ethertype, pcp=pcp) + payload


def arp(
    operation: int,
    sender_hardware: Address,
    sender_protocol: Address,
    target_hardware: Address,
    target_protocol: Address,
) -> bytes:
    """An ARP packet: operation 1 asks, 2 answers."""
    return Arp.pack(
        hardware_type=1,
        protocol_type=ETHERTYPE_IP,
        hardware_length=6,
        protocol_length=4,
        operation=operation,
        sender_hardware=_number(sender_hardware, parse_ether),
        sender_protocol=_number(sender_protocol, parse_ip),
        target_hardware=_number(target_hardware, parse_ether),
        target_protocol=_number(target_protocol, parse_ip),
    )


def ip(
    src: Address,
    dst: Address,
    protocol: int,
    payload: bytes = b"",
    *,
    ttl: int = 64,
    id: int = 0,
    tos: int = 0,
    frag: int = 0,
    options: bytes = b"",
    total_length: int | None = None,
    checksum: int | None = None,
) -> bytes:
    """An IPv4 packet; options are padded with end-of-list bytes to a whole word."""
    options += bytes(-len(options) % 4)
    size = Ipv4.size + len(options)
    head = bytearray(
        Ipv4.pack(
            version=4,
            ihl=size // 4,
            tos=tos,
            total_length=size + len(payload) if total_length is None else total_length,
            id=id,
            frag=frag,
            ttl=ttl,
            protocol=protocol,
            src=_number(src, parse_ip),
            dst=_number(dst, parse_ip),
        )
    )
    Ipv4.checksum.write(head, internet_checksum(head + options) if checksum is None else checksum)
    return bytes(head) + options + payload


def ip6(
    src: Address, dst: Address, next_header: int, payload: bytes = b"", *, hop_limit: int = 64, flow_label: int = 0
) -> bytes:
    """An IPv6 packet."""
    head = Ipv6.pack(
        version=6,
        flow_label=flow_label,
        payload_length=len(payload),
        next_header=next_header,
        hop_limit=hop_limit,
        src=_number(src, parse_ip6),
        dst=_number(dst, parse_ip6),
    )
    return head + payload


def _transport(head: bytearray, payload: bytes, protocol: int, ends: Ends | None, checksum: int | None) -> int:
    if checksum is not None or ends is None:
        return checksum or 0
    if any(isinstance(end, str) and ":" in end for end in ends):
        return transport_checksum6(_number(ends[0], parse_ip6), _number(ends[1], parse_ip6), protocol, head + payload)
    return transport_checksum(_number(ends[0], parse_ip), _number(ends[1], parse_ip), protocol, head + payload)


def udp(
    src_port: int, dst_port: int, payload: bytes = b"", ends: Ends | None = None, *, checksum: int | None = None
) -> bytes:
    """A UDP datagram; `ends` are the addresses its checksum covers, and without them it has none."""
    head = bytearray(Udp.pack(src_port=src_port, dst_port=dst_port, length=Udp.size + len(payload)))
    Udp.checksum.write(head, _transport(head, payload, PROTO_UDP, ends, checksum))
    return bytes(head) + payload


def tcp(
    src_port: int,
    dst_port: int,
    payload: bytes = b"",
    ends: Ends | None = None,
    *,
    seq: int = 0,
    ack: int = 0,
    flags: int = 0x10,
    window: int = 65535,
    options: bytes = b"",
    checksum: int | None = None,
) -> bytes:
    """A TCP segment; `ends` are the addresses its checksum covers."""
    options += bytes(-len(options) % 4)
    head = bytearray(
        Tcp.pack(
            src_port=src_port,
            dst_port=dst_port,
            seq=seq,
            ack=ack,
            offset=(Tcp.size + len(options)) // 4,
            flags=flags,
            window=window,
        )
    )
    Tcp.checksum.write(head, _transport(head + options, payload, PROTO_TCP, ends, checksum))
    return bytes(head) + options + payload


def icmp(type: int, code: int = 0, rest: int = 0, payload: bytes = b"", *, checksum: int | None = None) -> bytes:
    """An ICMP message; for an echo, `rest` is `id << 16 | seq`."""
    head = bytearray(Icmp.pack(type=type, code=code, rest=rest))
    Icmp.checksum.write(head, internet_checksum(head + payload) if checksum is None else checksum)
    return bytes(head) + payload


def icmp6(type: int, code: int, rest: int, payload: bytes, ends: Ends) -> bytes:
    """An ICMPv6 message between two IPv6 addresses."""
    head = bytearray(Icmp6.pack(type=type, code=code, rest=rest))
    src, dst = (_number(end, parse_ip6) for end in ends)
    value = transport_checksum6(src, dst, PROTO_ICMP6, head + payload)
    Icmp6.checksum.write(head, value)
    return bytes(head) + payload
