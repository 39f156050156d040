"""Packets of flows, for the tests of rewriters: the sums are those of `ip_packets`, whole and never patched."""

from __future__ import annotations

import struct

from tests.elements import ip_packets

End = tuple[str, int]
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


def udp(src: End, dst: End, payload: bytes = b"hi", **more: int) -> bytes:
    """A UDP packet; `check=0` leaves out the UDP checksum, other words go to the IP header."""
    inner = {k: more.pop(k) for k in ("check",) if k in more}
    segment = ip_packets.udp(payload, src[0], dst[0], (src[1], dst[1]), **inner)
    return ip_packets.ip(segment, src[0], dst[0], 17, **more)  # type: ignore[arg-type]


def tcp(src: End, dst: End, payload: bytes = b"", flags: int = ACK, **more: int) -> bytes:
    header = struct.pack(">HHIIBBHHH", src[1], dst[1], 1000, 2000, 5 << 4, flags, 100, 0, 0)
    pseudo = ip_packets.pseudo(src[0], dst[0], 6, 20 + len(payload))
    sum_ = ip_packets.checksum(pseudo + header + payload)
    segment = header[:16] + struct.pack(">H", sum_) + header[18:] + payload
    return ip_packets.ip(segment, src[0], dst[0], 6, **more)  # type: ignore[arg-type]


def echo(src: str, dst: str, number: int, reply: bool = False, seq: int = 1, size: int = 7) -> bytes:
    body = ip_packets.icmp(0 if reply else 8, 0, number << 16 | seq, bytes(range(size)))
    return ip_packets.ip(body, src, dst, 1)


def error(src: str, dst: str, about: bytes, kind: int = 3, code: int = 1, quoted: int = 28) -> bytes:
    """An ICMP error that quotes the first bytes of a packet."""
    return ip_packets.ip(ip_packets.icmp(kind, code, 0, about[:quoted]), src, dst, 1)


def pieces(packet: bytes, size: int) -> list[bytes]:
    """Fragments with `size` bytes of data each, a multiple of 8."""
    data, made = packet[20:], []
    src, dst = (".".join(map(str, packet[at : at + 4])) for at in (12, 16))
    for at in range(0, len(data), size):
        more = 0x2000 if at + size < len(data) else 0
        ident = int.from_bytes(packet[4:6], "big")
        made.append(
            ip_packets.ip(data[at : at + size], src, dst, packet[9], ident=ident, frag=at // 8 | more, ttl=packet[8])
        )
    return made
