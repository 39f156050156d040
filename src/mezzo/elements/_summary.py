"""A packet as IP summary dumps see it, and one put together from a line of theirs.

Lengths.  The length is what the IP header says; without one, the captured bytes and the missing ones.  A packet made
from a line has headers and the payload that was written down; what is missing to its length is its extra length.
"""

import struct
from dataclasses import dataclass, field
from typing import Any

from mezzo.wire.checksum import internet_checksum, transport_checksum

ICMP, TCP, UDP = 1, 6, 17
HEADER_SIZE = {ICMP: 8, TCP: 20, UDP: 8}
COUNT_ANNO, LENGTH_ANNO, AGGREGATE_ANNO, PAINT_ANNO = 24, 28, 20, 16


@dataclass
class Look:
    """A packet and where its parts are; `bad` says why its headers cannot be trusted, and hides them then."""

    packet: Any
    ip: bytes = b""
    transport: bytes = b""  # of a first fragment only
    payload: bytes = b""
    proto: int = -1
    ip_size: int = 0  # bytes of the IP header
    bad: str = ""

    def anno(self, at: int, size: int = 4) -> int:
        return int.from_bytes(self.packet.anno[at : at + size], "little")

    @property
    def is_v4(self) -> bool:
        return bool(self.ip) and self.ip[0] >> 4 == 4

    @property
    def frag(self) -> int:
        return int.from_bytes(self.ip[6:8], "big") if self.is_v4 else 0

    @property
    def length(self) -> int:
        if not self.ip:
            return len(self.packet) + self.anno(LENGTH_ANNO)
        return int.from_bytes(self.ip[2:4], "big") if self.is_v4 else 40 + int.from_bytes(self.ip[4:6], "big")


def look_at(packet: Any) -> Look:
    """Finds the headers, from the network mark on."""
    seen = Look(packet)
    raw = bytes(packet.network) if packet.network is not None else b""
    if not raw:
        seen.bad = "no IP header"
        return seen
    version = raw[0] >> 4
    size = 40 if version == 6 else 4 * (raw[0] & 15)
    if version not in (4, 6) or size < 20 or len(raw) < size:
        seen.bad = "bad IP version" if version not in (4, 6) else "truncated IP header"
        return seen
    seen.ip, seen.ip_size, seen.proto = raw[:size], size, raw[6] if version == 6 else raw[9]
    body = raw[size : max(size, seen.length)]
    if not seen.frag & 0x1FFF:
        seen.transport = body
    seen.payload = body[transport_size(seen) :] if seen.transport else body
    if len(seen.transport) < transport_size(seen) and not seen.frag & 0x1FFF:
        seen.bad = "truncated transport header"
    return seen


def transport_size(seen: Look) -> int:
    if seen.proto == TCP and len(seen.transport) >= 13:
        return 4 * (seen.transport[12] >> 4)
    return HEADER_SIZE.get(seen.proto, 0)


@dataclass
class Draft:
    """A packet in the making, as plain numbers."""

    time_ns: int = 0
    values: dict[str, int] = field(default_factory=dict)
    payload: bytes = b""
    ip_len: int | None = None
    payload_len: int | None = None
    count: int = 1

    def build(self, proto: int, sums: bool) -> tuple[bytes, int]:
        """(bytes, length of the whole packet)."""
        v = self.values
        proto = v.get("ip_proto", proto)
        first = not v.get("frag", 0) & 0x1FFF
        head = transport_header(proto, v, len(self.payload)) if first else b""
        made = 20 + len(head) + len(self.payload)
        whole = 20 + len(head) + self.payload_len if self.payload_len is not None else made
        whole = max(20, min(0xFFFF, self.ip_len if self.ip_len is not None else whole))
        ip = struct.pack(
            ">BBHHHBBHII", 0x45, v.get("ip_tos", 0), whole, v.get("ip_id", 0), v.get("frag", 0), v.get("ip_ttl", 100),
            proto, 0, v.get("ip_src", 0), v.get("ip_dst", 0),
        )  # fmt: skip
        body = (head + self.payload)[: whole - 20]
        if sums:
            ip = ip[:10] + internet_checksum(ip).to_bytes(2, "big") + ip[12:]
            if first and 20 + len(body) == whole:
                body = summed(proto, v.get("ip_src", 0), v.get("ip_dst", 0), body)
        return ip + body, whole


def transport_header(proto: int, v: dict[str, int], payload: int) -> bytes:
    sport, dport = v.get("sport", 0), v.get("dport", 0)
    if proto == TCP:
        numbers = v.get("tcp_seq", 0), v.get("tcp_ack", 0), v.get("tcp_flags", 0) | 5 << 12, v.get("tcp_window", 0)
        return struct.pack(">HHIIHHHH", sport, dport, *numbers, 0, v.get("tcp_urp", 0))
    if proto == UDP:
        return struct.pack(">HHHH", sport, dport, v.get("udp_len", min(0xFFFF, 8 + payload)), 0)
    if proto == ICMP:
        return struct.pack(">BBHI", v.get("icmp_type", 0), v.get("icmp_code", 0), 0, 0)
    return b""


def summed(proto: int, src: int, dst: int, body: bytes) -> bytes:
    """A whole segment with its checksum."""
    at = {TCP: 16, UDP: 6, ICMP: 2}.get(proto)
    if at is None or len(body) < at + 2:
        return body
    value = internet_checksum(body) if proto == ICMP else transport_checksum(src, dst, proto, body)
    return body[:at] + value.to_bytes(2, "big") + body[at + 2 :]
