"""Addresses of this machine's network interfaces: `eth0` stands for them where nothing else has the name."""

import fcntl
import socket
import struct

SIOCGIFADDR, SIOCGIFNETMASK, SIOCGIFHWADDR = 0x8915, 0x891B, 0x8927  # linux/sockios.h
ARPHRD_ETHER, ARPHRD_LOOPBACK = 1, 772


def _ask(request: int, name: str) -> bytes | None:
    """The sockaddr that the kernel gives for an interface; None when there is no such interface or address."""
    encoded = name.encode()
    if not 0 < len(encoded) < 16 or "/" in name:
        return None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            answer = fcntl.ioctl(asker, request, struct.pack("16s24x", encoded))
        except OSError:
            return None
    return bytes(answer[16:32])


def maybe_ether(name: str) -> int | None:
    """The Ethernet address of an interface, or None."""
    answer = _ask(SIOCGIFHWADDR, name)
    if answer is None or int.from_bytes(answer[:2], "little") not in (ARPHRD_ETHER, ARPHRD_LOOPBACK):
        return None
    return int.from_bytes(answer[2:8], "big")


def maybe_ip(name: str) -> int | None:
    """The first IPv4 address of an interface, or None."""
    answer = _ask(SIOCGIFADDR, name)
    return None if answer is None else int.from_bytes(answer[4:8], "big")


def maybe_prefix(name: str) -> tuple[int, int] | None:
    """The network of the first IPv4 address of an interface as (address, length), or None."""
    address, answer = maybe_ip(name), _ask(SIOCGIFNETMASK, name)
    if address is None or answer is None:
        return None
    mask = int.from_bytes(answer[4:8], "big")
    return address & mask, mask.bit_count()
