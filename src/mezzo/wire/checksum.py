"""The internet checksum: computing it (RFC 1071), changing it (RFC 1624), and its pseudo-headers.

All values are 16-bit numbers as they stand in the header, big-endian.  A checksum over bytes that already contain a
right checksum is 0.  The one's complement sum has two zeros, and only all-zero data sums to the positive one; `update`
follows RFC 1624 eqn. 3, which keeps to the other for real headers, where the method of RFC 1141 could confuse them.
"""

from __future__ import annotations

import struct

Data = bytes | bytearray | memoryview


def ones_sum(data: Data, start: int = 0) -> int:
    """One's complement sum of 16-bit words; an odd last byte is padded with zero (RFC 1071, 1)."""
    if len(data) % 2:
        data = bytes(data) + b"\0"
    return fold(start + sum(struct.unpack(f">{len(data) // 2}H", data)))


def fold(total: int) -> int:
    """Add the carries back in until 16 bits are left."""
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def internet_checksum(data: Data, start: int = 0) -> int:
    """The checksum of `data`; `start` is the sum of a pseudo-header, if there is one."""
    return ones_sum(data, start) ^ 0xFFFF


def update(checksum: int, old: int, new: int) -> int:
    """The checksum after one 16-bit word changed from `old` to `new` (RFC 1624, eqn. 3)."""
    return fold((checksum ^ 0xFFFF) + (old ^ 0xFFFF) + new) ^ 0xFFFF


def update32(checksum: int, old: int, new: int) -> int:
    """The same for a 32-bit word at an even offset, such as an address."""
    high = update(checksum, old >> 16, new >> 16)
    return update(high, old & 0xFFFF, new & 0xFFFF)


def pseudo_sum(src: int, dst: int, protocol: int, length: int) -> int:
    """Sum of the IPv4 pseudo-header that UDP and TCP checksum first (RFC 768; RFC 9293, 3.1)."""
    return ones_sum(struct.pack(">IIBBH", src, dst, 0, protocol, length))


def pseudo_sum6(src: int, dst: int, next_header: int, length: int) -> int:
    """Sum of the IPv6 pseudo-header (RFC 8200, 8.1)."""
    return ones_sum(src.to_bytes(16, "big") + dst.to_bytes(16, "big") + struct.pack(">II", length, next_header))


def transport_checksum(src: int, dst: int, protocol: int, segment: Data) -> int:
    """The checksum field of a TCP segment or UDP datagram over IPv4, its checksum field being zero.

    A UDP checksum that computes to 0 is sent as 0xffff, since 0 says "none" (RFC 768).
    """
    value = internet_checksum(segment, pseudo_sum(src, dst, protocol, len(segment)))
    return value or 0xFFFF if protocol == 17 else value


def transport_checksum6(src: int, dst: int, protocol: int, segment: Data) -> int:
    """The same over IPv6, where ICMPv6 has a pseudo-header too."""
    value = internet_checksum(segment, pseudo_sum6(src, dst, protocol, len(segment)))
    return value or 0xFFFF if protocol == 17 else value
