"""IPv4 packets for tests, built with arithmetic of their own so that they can judge the elements."""

from __future__ import annotations

import socket
import struct


def checksum(data: bytes) -> int:
    """RFC 1071, the slow way."""
    data += b"\0" * (len(data) % 2)
    total = sum(data[i] << 8 | data[i + 1] for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def ip(
    payload: bytes = b"",
    src: str = "10.0.0.1",
    dst: str = "10.0.0.2",
    proto: int = 17,
    ttl: int = 64,
    ident: int = 1,
    frag: int = 0,
    tos: int = 0,
    options: bytes = b"",
    length: int | None = None,
    version: int = 4,
    ihl: int | None = None,
    check: int | None = None,
) -> bytes:
    """A packet with a right header checksum, unless told otherwise."""
    options += b"\0" * (-len(options) % 4)
    words = 5 + len(options) // 4 if ihl is None else ihl
    whole = 20 + len(options) + len(payload) if length is None else length
    first = struct.pack(">BBHHHBBH", version << 4 | words, tos, whole, ident, frag, ttl, proto, 0)
    header = first + socket.inet_aton(src) + socket.inet_aton(dst) + options
    sum_ = checksum(header[: words * 4]) if check is None else check
    return header[:10] + struct.pack(">H", sum_) + header[12:] + payload


def pseudo(src: str, dst: str, proto: int, length: int) -> bytes:
    return socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack(">BBH", 0, proto, length)


def udp(
    payload: bytes = b"", src: str = "10.0.0.1", dst: str = "10.0.0.2", ports: tuple[int, int] = (1, 2), **more: int
) -> bytes:
    """A UDP segment; `check=0` leaves it without a checksum."""
    length = more.get("length", 8 + len(payload))
    header = struct.pack(">HHHH", *ports, length, 0)
    sum_ = more.get("check", checksum(pseudo(src, dst, 17, length) + header + payload) or 0xFFFF)
    return header[:6] + struct.pack(">H", sum_) + payload


def tcp(payload: bytes = b"", src: str = "10.0.0.1", dst: str = "10.0.0.2", **more: int) -> bytes:
    """A TCP segment without options."""
    words = more.get("offset", 5)
    header = struct.pack(">HHIIBBHHH", 1, 2, 3, 4, words << 4, 16, 100, 0, 0)
    sum_ = more.get("check", checksum(pseudo(src, dst, 6, 20 + len(payload)) + header + payload))
    return header[:16] + struct.pack(">H", sum_) + header[18:] + payload


def icmp(kind: int, code: int = 0, rest: int = 0, payload: bytes = b"") -> bytes:
    body = struct.pack(">BBHI", kind, code, 0, rest) + payload
    return body[:2] + struct.pack(">H", checksum(body)) + body[4:]
