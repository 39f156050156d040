"""Which packets somebody wants to see: IPFilter's patterns, asked of bytes in Python.

The words are those of IPClassifier (`udp and dst port 53`, `host 10.0.0.1`, `icmp type 8`, `tcp syn`), which are nearly
tcpdump's.  Where the IP header begins is found from the bytes: behind Ethernet and VLAN tags, or at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements.args import Env
from mezzo.elements.decision import ByteTest, Diagram
from mezzo.elements.filter_language import parse_pattern
from mezzo.elements.filter_terms import rules_of

Wanted = Callable[[bytes], bool]
_TAGS = (b"\x81\x00", b"\x88\xa8")


def everything(data: bytes) -> bool:
    return True


def network_offset(data: bytes) -> int:
    """Where the IPv4 header begins; -1 where there seems to be none."""
    at = 12
    while data[at : at + 2] in _TAGS:
        at += 4
    if data[at : at + 2] == b"\x08\x00" and _is_header(data, at + 2):
        return at + 2
    return 0 if _is_header(data, 0) else -1


def _is_header(data: bytes, at: int) -> bool:
    return len(data) >= at + 20 and data[at] >> 4 == 4 and data[at] & 15 >= 5


def compile_filter(text: str) -> Wanted:
    """What tells whether a packet is wanted; an empty text wants all.  MezzoError says what is wrong with it."""
    if not text.strip():
        return everything
    try:
        rules = rules_of(parse_pattern(text, Env()))
    except ValueError as trouble:
        hint = "write it as for IPFilter: udp and port 53"
        raise MezzoError(Diagnostic(f"filter `{text}`: {trouble}", hint=hint)) from None
    diagram = Diagram(rules)

    def wanted(data: bytes) -> bool:
        net = network_offset(data)
        if net < 0:
            return False
        marks = {"data": 0, "net": net, "trans": net + 4 * (data[net] & 15)}
        return diagram.answer(partial(_holds, data, marks)) < diagram.none

    return wanted


def _holds(data: bytes, marks: dict[str, int], test: ByteTest) -> bool:
    start = marks[test.mark] + test.offset
    if len(data) < marks[test.mark] + test.need:
        return False
    word = data[start : start + test.width].ljust(test.width, b"\0")
    return int.from_bytes(word, "big") & test.mask == test.value
