"""The frames of the demo that no well-behaved host sends, one or more for each thing a router must notice.

The network: host A (18.26.4.2) and its neighbour (18.26.4.3) are on the router's eth0, host B (18.26.7.2) and its
neighbour (18.26.7.3) on its eth1.  Each crafted IP packet has its own identification, from 0xC000 up, so that it, or
the ICMP error about it, can be found again in an output capture.  `record_demo.py` merges them into the recorded
traffic.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from mezzo.wire.address import parse_ip
from mezzo.wire.build import arp, ether, icmp, ip, ip6, tcp, udp, vlan
from mezzo.wire.constants import IP_DF, IP_MF

IP, ARP, VLAN, IP6 = 0x0800, 0x0806, 0x8100, 0x86DD
ICMP, TCP, UDP = 1, 6, 17
BROADCAST = "FF:FF:FF:FF:FF:FF"
STRANGER = "02:00:12:1A:00:99"
NOWHERE = "10.99.0.1"


@dataclass(frozen=True)
class Side:
    """One interface of the router and the hosts behind it."""

    router_mac: str
    router: str
    host_mac: str
    host: str
    neighbour_mac: str
    neighbour: str
    silent: str
    broadcast: str


ETH0 = Side(
    "00:00:C0:AE:67:EF", "18.26.4.24", "02:00:12:1A:04:02", "18.26.4.2", "02:00:12:1A:04:03", "18.26.4.3",
    "18.26.4.99", "18.26.4.255",
)  # fmt: skip
ETH1 = Side(
    "00:00:C0:4F:71:EF", "18.26.7.1", "02:00:12:1A:07:02", "18.26.7.2", "02:00:12:1A:07:03", "18.26.7.3",
    "18.26.7.99", "18.26.7.255",
)  # fmt: skip


SIDES = (ETH0, ETH1)
FIRST_ID = (0xC000, 0xC100)


@dataclass(frozen=True)
class Crafted:
    """A frame arriving at a router's interface; `kind` is its row in the README, `about` says what is special."""

    kind: str
    frame: bytes
    about: str


def arp_replies(device: int) -> list[Crafted]:
    """The hosts' answers, which come first, so that the router knows the hosts before it forwards to them."""
    near = SIDES[device]
    pairs = [(near.host_mac, near.host), (near.neighbour_mac, near.neighbour)]
    replies = [(mac, who, arp(2, mac, who, near.router_mac, near.router)) for mac, who in pairs]
    return [
        Crafted("ARP reply", _padded(ether(mac, near.router_mac, ARP, r)), f"from {who}") for mac, who, r in replies
    ]


def crafted(device: int) -> list[Crafted]:
    """Everything else that arrives on an interface, in order."""
    maker = _Maker(SIDES[device], SIDES[1 - device], count(FIRST_ID[device]))
    parts = (maker.arps, maker.expired, maker.broken, maker.options, maker.sizes, maker.places, maker.frames)
    return [Crafted(kind, frame, about) for part in parts for kind, frame, about in part()]


def all_crafted(device: int) -> list[Crafted]:
    """The ARP replies and the rest."""
    return arp_replies(device) + crafted(device)


def _padded(frame: bytes) -> bytes:
    """With the padding that makes a frame 60 bytes long, as a network card sends it."""
    return frame.ljust(60, b"\0")


Row = tuple[str, bytes, str]


@dataclass
class _Maker:
    near: Side
    far: Side
    ids: count[int]

    def wrap(self, packet: bytes, dst: str = "", ethertype: int = IP) -> bytes:
        return ether(self.near.host_mac, dst or self.near.router_mac, ethertype, packet)

    def datagram(self, dst: str = "", src: str = "", size: int = 18, via: str = "", **more: Any) -> bytes:
        """A UDP packet from the near host to the far one, unless something else is asked for."""
        src, dst = src or self.near.host, dst or self.far.host
        payload = (b"mezzo " * (size // 6 + 1))[:size]
        # A source-routed packet's checksum covers the last destination, not the next (RFC 9293, 3.1).
        return ip(src, via or dst, UDP, udp(4000, 4001, payload, (src, dst)), id=next(self.ids), **more)

    def echo(self, dst: str, **more: Any) -> bytes:
        return ip(self.near.host, dst, ICMP, icmp(8, 0, 0xC0DE0001, b"mezzo ping"), id=next(self.ids), **more)

    def arps(self) -> Iterator[Row]:
        near = self.near
        for kind, target in (("ARP request for the router", near.router), ("ARP request for others", near.neighbour)):
            body = arp(1, near.host_mac, near.host, 0, target)
            yield kind, _padded(ether(near.host_mac, BROADCAST, ARP, body)), f"who has {target}"

    def expired(self) -> Iterator[Row]:
        yield "expired TTL", self.wrap(self.datagram(ttl=1)), "TTL 1: time exceeded"
        yield "expired TTL", self.wrap(self.datagram(ttl=0)), "TTL 0: time exceeded"
        yield "expired TTL", self.wrap(self.echo(self.far.host, ttl=1)), "an expired echo is reported too"
        error = icmp(3, 3, 0, ip(self.far.host, self.near.host, UDP, udp(1, 2)))
        packet = ip(self.near.host, self.far.host, ICMP, error, ttl=1, id=next(self.ids))
        yield "expired ICMP error", self.wrap(packet), "no error about an error (RFC 1122, 3.2.2)"
        yield "TTL 2", self.wrap(self.datagram(ttl=2)), "just enough: forwarded with TTL 1"

    def broken(self) -> Iterator[Row]:
        sound = bytearray(self.datagram())
        sound[10] ^= 0x55
        yield "bad IP checksum", self.wrap(bytes(sound)), "dropped"
        wrong = (("version 5", b"\x55"), ("header length 4 words", b"\x44"), ("header longer than packet", b"\x4f"))
        for about, first in wrong:
            packet = self.datagram()
            yield "bad IP header", self.wrap(first + packet[1:]), about
        yield "bad IP header", self.wrap(self.datagram(total_length=400)), "total length beyond the frame"
        yield "bad IP header", self.wrap(self.datagram(total_length=16)), "total length below the header"
        for source in (self.near.broadcast, self.far.broadcast):
            yield "bad source address", self.wrap(self.datagram(src=source)), f"source {source}"

    def options(self) -> Iterator[Row]:
        near, far = parse_ip(self.near.router), parse_ip(self.far.host)
        table = (
            ("record route", bytes((7, 11, 4)) + bytes(8) + b"\0", "room for two addresses"),
            ("record route", bytes((7, 7, 8)) + bytes(4) + b"\0", "already full"),
            ("timestamp option", bytes((68, 12, 5, 0)) + bytes(8), "times only, room for two"),
            ("timestamp option", bytes((68, 12, 5, 1)) + bytes(8), "address and time, room for one"),
            ("source route", bytes((137, 7, 8)) + struct.pack(">I", near) + b"\0", "strict, used up"),
            ("bad IP option", bytes((7, 3, 4, 0)), "record route too short: parameter problem"),
            ("bad IP option", bytes((68, 200, 5, 0)), "option longer than the header: parameter problem"),
            ("no-operation option", b"\1\1\1\0", "forwarded"),
            ("router alert", bytes((148, 4, 0, 0)), "forwarded"),
        )
        for kind, options, about in table:
            yield kind, self.wrap(self.datagram(options=options)), about
        route = bytes((131, 7, 4)) + struct.pack(">I", far) + b"\0"
        yield (
            "source route",
            self.wrap(self.datagram(via=self.near.router, options=route)),
            f"loose, on to {self.far.host}",
        )

    def sizes(self) -> Iterator[Row]:
        yield "1500 bytes, DF", self.wrap(self.datagram(size=1472, frag=IP_DF)), "fits an MTU of 1500, no smaller one"
        yield "1600 bytes, DF", self.wrap(self.datagram(size=1572, frag=IP_DF)), "too big: fragmentation needed"
        yield "1600 bytes", self.wrap(self.datagram(size=1572)), "too big: fragmented"
        ends = (self.near.host, self.far.host)
        whole, id = udp(4000, 4001, bytes(range(250)) * 8, ends), next(self.ids)
        for start in range(0, len(whole), 800):
            piece, more = whole[start : start + 800], IP_MF if start + 800 < len(whole) else 0
            packet = ip(*ends, UDP, piece, id=id, frag=more | start // 8)
            yield "fragment", self.wrap(packet), f"bytes from {start} of {len(whole)}"

    def places(self) -> Iterator[Row]:
        near, far = self.near, self.far
        yield "directed broadcast", self.wrap(self.datagram(dst=far.broadcast)), f"to {far.broadcast}"
        yield "limited broadcast", self.wrap(self.datagram(dst="255.255.255.255"), BROADCAST), "to 255.255.255.255"
        yield (
            "unicast IP in a broadcast frame",
            self.wrap(self.datagram(), BROADCAST),
            "not forwarded (RFC 1812, 5.3.4)",
        )
        yield "echo to the router", self.wrap(self.echo(near.router)), f"to {near.router}"
        yield "echo to the router", self.wrap(self.echo(far.router)), f"to its other address, {far.router}"
        yield "UDP to the router", self.wrap(self.datagram(dst=near.router)), "nobody listens"
        yield "unroutable", self.wrap(self.datagram(dst=NOWHERE)), f"to {NOWHERE}: no route, or the default one"
        yield "same network", self.wrap(self.datagram(dst=near.neighbour)), "goes back where it came from: redirect"
        yield "silent host", self.wrap(self.datagram(dst=far.silent)), f"{far.silent} never answers ARP"
        segment = tcp(5000, 80, b"", (near.host, far.neighbour), flags=2, options=b"\x02\x04\x05\xb4")
        packet = ip(near.host, far.neighbour, TCP, segment, id=next(self.ids), frag=IP_DF)
        yield "TCP SYN to the neighbour", self.wrap(packet), "forwarded"

    def frames(self) -> Iterator[Row]:
        yield "padded frame", _padded(self.wrap(self.datagram(size=0))), "18 bytes of padding behind 28 bytes of IP"
        yield "short garbage", b"\xc0\xff\xee", "3 bytes"
        yield "short garbage", self.wrap(b"")[:10], "10 bytes: no type"
        yield "short garbage", self.wrap(b""), "a type of IP and nothing behind"
        yield "short garbage", self.wrap(self.datagram()[:19]), "one byte less than an IP header"
        yield "unknown type", self.wrap(bytes(range(46)), ethertype=0x9999), "type 0x9999"
        yield "wrong destination MAC", self.wrap(self.datagram(), STRANGER), "somebody else's frame"
        yield "VLAN frame", self.wrap(vlan(7, IP, self.datagram()), ethertype=VLAN), "tag 7"
        body = ip6("2001:db8:4::2", "2001:db8:7::2", UDP, udp(1, 2, b"x", ("2001:db8:4::2", "2001:db8:7::2")))
        yield "IPv6 frame", self.wrap(body, ethertype=IP6), "type 0x86dd"
