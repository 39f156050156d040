"""Addresses as text and as numbers.

An IPv4 address is a 32-bit number, an IPv6 address a 128-bit one, an Ethernet address a 48-bit one, each with its first
byte in the most significant place.  A prefix is a pair (address, length); bits below the length stay as they
were written, because `18.26.4.24/24` names a host and its network at once; `network()` clears them.
Every refusal is a ValueError whose text says what is wrong and shows a right example.
"""

from __future__ import annotations

import socket

ALL_ONES = 0xFFFFFFFF


def parse_ip(text: str) -> int:
    """An IPv4 address: `18.26.4.24`."""
    parts = text.split(".")
    if len(parts) != 4:
        raise ValueError(f"`{text}` is not an IP address: write four numbers, as in 18.26.4.24")
    return _join([_octet(part, text) for part in parts])


def _octet(part: str, text: str) -> int:
    if not (part.isascii() and part.isdigit()):
        raise ValueError(f"`{text}` is not an IP address: `{part}` is not a number; write for example 18.26.4.24")
    # Some programs read 010 as octal 8, others as 10; nobody can know which was meant.
    if len(part) > 1 and part[0] == "0":
        raise ValueError(f"`{text}` is not an IP address: write `{part.lstrip('0') or '0'}` without the leading zero")
    if len(part) > 3 or int(part) > 255:
        raise ValueError(f"`{text}` is not an IP address: {part[:20]} is more than 255")
    return int(part)


def _join(octets: list[int]) -> int:
    padded = octets + [0] * (4 - len(octets))
    return int.from_bytes(bytes(padded), "big")


def format_ip(address: int) -> str:
    """The dotted text of an IPv4 address."""
    return ".".join(str(byte) for byte in address.to_bytes(4, "big"))


def mask_of(length: int) -> int:
    """The IPv4 netmask of a prefix length."""
    return ALL_ONES << (32 - length) & ALL_ONES


def length_of(mask: int) -> int:
    """The prefix length of an IPv4 netmask; -1 if its ones are not all in front."""
    length = mask.bit_count()
    return length if mask == mask_of(length) else -1


def network(address: int, length: int) -> int:
    """The IPv4 address with the bits below the prefix cleared."""
    return address & mask_of(length)


def parse_prefix(text: str, bare: bool = False) -> tuple[int, int]:
    """An IPv4 prefix: `1.2.3.0/24`, `1.2.3.0/255.255.255.0`, or short, `18.26.4/24`.

    With `bare`, an address alone is a /32.  Returns (address, length).
    """
    address_text, slash, tail = text.partition("/")
    if not slash and not bare:
        raise ValueError(f"`{text}` has no prefix length: write for example {text}/32 or {text}/255.255.255.255")
    length = _prefix_length(tail, text) if slash else 32
    parts = address_text.split(".")
    if slash and len(parts) < 4 and length <= 8 * len(parts):
        return _join([_octet(part, address_text) for part in parts]), length
    return parse_ip(address_text), length


def _prefix_length(tail: str, text: str) -> int:
    if "." in tail:
        length = length_of(parse_ip(tail))
        if length < 0:
            raise ValueError(f"`{text}`: the ones of the mask {tail} are not all in front; write for example /24")
        return length
    if not (tail.isascii() and tail.isdigit()) or len(tail) > 2 or int(tail) > 32:
        raise ValueError(f"`{text}`: a prefix length is 0 to 32, or a mask such as 255.255.255.0")
    return int(tail)


def format_prefix(address: int, length: int) -> str:
    """The text `address/length`."""
    return f"{format_ip(address)}/{length}"


def parse_ether(text: str) -> int:
    """An Ethernet address: `00:00:C0:AE:67:EF`; one-digit bytes and `-` are fine too."""
    separator = "-" if "-" in text else ":"
    parts = text.split(separator)
    if len(parts) != 6:
        raise ValueError(f"`{text}` is not an Ethernet address: write six bytes, as in 00:00:C0:AE:67:EF")
    for part in parts:
        if not 1 <= len(part) <= 2 or any(c not in "0123456789abcdefABCDEF" for c in part):
            raise ValueError(f"`{text}` is not an Ethernet address: `{part}` is not a hexadecimal byte")
    return int.from_bytes(bytes(int(part, 16) for part in parts), "big")


def format_ether(address: int) -> str:
    """The colon text of an Ethernet address, in capitals."""
    return address.to_bytes(6, "big").hex(":").upper()


def parse_ip6(text: str) -> int:
    """An IPv6 address in any of the forms of RFC 4291, 2.2."""
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET6, text), "big")
    except (OSError, ValueError):
        raise ValueError(f"`{text}` is not an IPv6 address: write for example 2001:db8::1") from None


def format_ip6(address: int) -> str:
    """The shortest text of an IPv6 address (RFC 5952)."""
    return socket.inet_ntop(socket.AF_INET6, address.to_bytes(16, "big"))


def parse_prefix6(text: str, bare: bool = False) -> tuple[int, int]:
    """An IPv6 prefix: `2001:db8::/32`.  With `bare`, an address alone is a /128.  Returns (address, length)."""
    address_text, slash, tail = text.partition("/")
    if not slash and not bare:
        raise ValueError(f"`{text}` has no prefix length: write for example {text}/128")
    if slash and (not (tail.isascii() and tail.isdigit()) or len(tail) > 3 or int(tail) > 128):
        raise ValueError(f"`{text}`: an IPv6 prefix length is 0 to 128")
    return parse_ip6(address_text), int(tail) if slash else 128


def format_prefix6(address: int, length: int) -> str:
    """The text `address/length`."""
    return f"{format_ip6(address)}/{length}"
