"""Link types of capture files, and where the IP packet begins in a frame of each (tcpdump.org/linktypes.html).

The number in a file says what a frame's first bytes are.  `network_start` skips the link header of the types that carry
IP packets in the open; for others, and for frames that carry something else, it answers -1.
"""

from __future__ import annotations

from collections.abc import Callable

ETHERNET = 1
RAW = 101

NAMES = {
    0: "NULL",
    1: "ETHERNET",
    6: "IEEE802_5",
    7: "ARCNET_BSD",
    8: "SLIP",
    9: "PPP",
    10: "FDDI",
    12: "DLT_RAW",
    14: "DLT_RAW_OPENBSD",
    50: "PPP_HDLC",
    51: "PPP_ETHER",
    100: "ATM_RFC1483",
    101: "RAW",
    104: "C_HDLC",
    105: "IEEE802_11",
    107: "FRELAY",
    108: "LOOP",
    113: "LINUX_SLL",
    114: "LTALK",
    117: "PFLOG",
    119: "IEEE802_11_PRISM",
    127: "IEEE802_11_RADIOTAP",
    143: "DOCSIS",
    147: "USER0",
    187: "BLUETOOTH_HCI_H4",
    189: "USB_LINUX",
    192: "PPI",
    195: "IEEE802_15_4_WITHFCS",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR",
    220: "USB_LINUX_MMAPPED",
    228: "IPV4",
    229: "IPV6",
    230: "IEEE802_15_4_NOFCS",
    239: "NFLOG",
    253: "NETLINK",
    276: "LINUX_SLL2",
}

# IPv4 and IPv6 in a BSD loopback header: 2 everywhere; 10 Linux, 24 NetBSD, 28 FreeBSD, 30 Darwin.
_LOOPBACK_FAMILIES = {2, 10, 24, 28, 30}
_IP_ETHERTYPES = {0x0800, 0x86DD}
_VLAN_ETHERTYPES = {0x8100, 0x88A8, 0x9100}
_IP_PPP = {0x0021, 0x0057}  # RFC 1332, RFC 5072


def linktype_name(number: int) -> str:
    """`ETHERNET` for 1, and so on; the number itself where it has no name here."""
    return NAMES.get(number, str(number))


def linktype_number(word: str) -> int:
    """The number of a name in any case, or of digits; Click's names `IP` and `SLL`, `ETHER` are known too."""
    key = word.upper()
    if key.isascii() and key.isdigit():
        return int(key)
    key = {"ETHER": "ETHERNET", "IP": "RAW", "SLL": "LINUX_SLL", "SLL2": "LINUX_SLL2"}.get(key, key)
    for number, name in NAMES.items():
        if name == key:
            return number
    raise ValueError(f"`{word}` is not a link type; known: ETHER IP {' '.join(NAMES.values())}")


def network_start(linktype: int, frame: bytes) -> int:
    """Where the IPv4 or IPv6 header begins in a frame, or -1 if there is none."""
    finder = _FINDERS.get(linktype)
    return finder(frame) if finder else -1


def _word(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2], "big") if len(frame) >= at + 2 else -1


def _raw(frame: bytes) -> int:
    return 0


def _ethernet(frame: bytes, at: int = 12) -> int:
    while _word(frame, at) in _VLAN_ETHERTYPES:
        at += 4
    return at + 2 if _word(frame, at) in _IP_ETHERTYPES else -1


def _null(frame: bytes) -> int:
    # Written in the byte order of the capturing machine, whatever the file's own is.
    families = {int.from_bytes(frame[:4], "little"), int.from_bytes(frame[:4], "big")}
    return 4 if len(frame) >= 4 and families & _LOOPBACK_FAMILIES else -1


def _cooked(frame: bytes) -> int:
    return _ethernet(frame, 14)


def _cooked2(frame: bytes) -> int:
    return 20 if _word(frame, 0) in _IP_ETHERTYPES else -1


def _ppp(frame: bytes) -> int:
    at = 2 if frame[:2] == b"\xff\x03" else 0
    return at + 2 if _word(frame, at) in _IP_PPP else -1


def _ppp_ether(frame: bytes) -> int:
    return 8 if _word(frame, 6) in _IP_PPP else -1


def _cisco(frame: bytes) -> int:
    return 4 if _word(frame, 2) in _IP_ETHERTYPES else -1


_FINDERS: dict[int, Callable[[bytes], int]] = {
    0: _null,
    1: _ethernet,
    9: _ppp,
    12: _raw,
    14: _raw,
    50: _ppp,
    51: _ppp_ether,
    101: _raw,
    104: _cisco,
    108: _null,
    113: _cooked,
    228: _raw,
    229: _raw,
    276: _cooked2,
}
