"""Damaged packets through every IP element at once: the targets agree, nothing is lost, nothing breaks."""

from __future__ import annotations

import random
from typing import Any

from tests.elements.ip_packets import icmp, ip, tcp, udp

ELEMENTS = (
    "CheckIPHeader",
    "CheckUDPHeader",
    "CheckTCPHeader",
    "CheckICMPHeader",
    "SetIPChecksum",
    "SetUDPChecksum",
    "SetTCPChecksum(true)",
    "DecIPTTL",
    "FixIPSrc(9.9.9.9)",
    "IPGWOptions(1.2.3.4)",
    "IPFragmenter(48)",
    "IPReassembler",
    "ICMPError(10.0.0.9, timeexceeded)",
    "ICMPPingResponder",
    "StripIPHeader",
    "IPEncap(4, 1.1.1.1, DST_ANNO)",
)


def damaged(chance: random.Random) -> bytes:
    """A packet that was right once."""
    load = chance.randbytes(chance.randrange(60))
    segment, proto = chance.choice(((udp(load), 17), (tcp(load), 6), (icmp(chance.randrange(19), payload=load), 1)))
    frag = chance.choice((0, 0, 0x2000, 0x2001, 3, 0x4000))
    options = bytes(chance.choice((0, 4, 40)))
    packet = bytearray(ip(segment, proto=proto, frag=frag, ident=chance.randrange(4), options=options))
    for _ in range(chance.choice((0, 1, 1, 3))):
        packet[chance.randrange(min(len(packet), 44))] = chance.randrange(256)
    cut = chance.choice((len(packet), len(packet), chance.randrange(len(packet) + 1)))
    return bytes(packet[:cut]) + bytes(chance.choice((0, 0, 9)))


def test_damaged_packets(vectors: Any) -> None:
    chance = random.Random(14)
    packets = [damaged(chance) for _ in range(300)]
    lines = [f"in0 :: Feed -> SetAnnoByte(18, 1) -> MarkIPHeader -> t :: Tee({len(ELEMENTS)});"]
    lines += [f"t[{i}] -> e{i} :: {text} -> out{i} :: Collect;" for i, text in enumerate(ELEMENTS)]
    got = vectors("\n".join(lines), {"in0": packets}, outputs=[f"out{i}" for i in range(len(ELEMENTS))])
    dropped: dict[str, int] = {}
    for (name, _), count in got["drops"].items():
        dropped[name] = dropped.get(name, 0) + count
    for i, text in enumerate(ELEMENTS):
        if not text.startswith(("IPFragmenter", "IPReassembler")):
            assert len(got["out"][f"out{i}"]) + dropped.get(f"e{i}", 0) == len(packets), text
