"""Random graphs of library elements and random, real-looking and malformed packets: every target like the definition.

A graph is a trunk of elements; every further output ends in a Collect of its own, so that nothing is hidden.
"""

from __future__ import annotations

import random

import pytest

from mezzo.wire.build import arp, ether, icmp, ip, tcp, udp
from tests.vectors import run_both

MACS = ("00:00:C0:AE:67:EF", "02:00:12:1A:04:02")
HOSTS = ("18.26.4.24", "18.26.4.2", "18.26.7.2", "255.255.255.255", "224.0.0.5", "0.0.0.0", "127.0.0.1")

# What a trunk is made of: (configuration, outputs).
ELEMENTS = [
    ("Null", 1),
    ("Counter", 1),
    ("Strip(14)", 1),
    ("Strip(1)", 1),
    ("Unstrip(14)", 1),
    ("Truncate(40)", 1),
    ("CheckLength(64)", 2),
    ("Paint(3)", 1),
    ("CheckPaint(3)", 2),
    ("PaintTee(3)", 2),
    ("SetAnnoByte(16, 3)", 1),
    ("StoreData(0, \\<0102>)", 1),
    ("Align(4, 0)", 1),
    ("EtherMirror", 1),
    ("EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)", 1),
    ("HostEtherFilter(00:00:C0:AE:67:EF)", 2),
    ("Classifier(12/0806, 12/0800, -)", 3),
    ("Classifier(0/45, !9/11, -)", 3),
    ("MarkIPHeader(14)", 1),
    ("MarkIPHeader", 1),
    ("CheckIPHeader(OFFSET 14)", 2),
    ("CheckIPHeader(BADSRC 18.26.4.255)", 2),
    ("CheckIPHeader2", 2),
    ("StripIPHeader", 1),
    ("GetIPAddress(16)", 1),
    ("SetIPChecksum", 1),
    ("SetUDPChecksum", 2),
    ("SetTCPChecksum", 1),
    ("CheckUDPHeader", 2),
    ("CheckTCPHeader", 2),
    ("CheckICMPHeader", 2),
    ("DecIPTTL", 2),
    ("DropBroadcasts", 2),
    ("IPGWOptions(18.26.4.24)", 2),
    ("FixIPSrc(18.26.4.24)", 1),
    ("IPFragmenter(60)", 2),
    ("IPEncap(4, 1.0.0.1, 2.0.0.2)", 1),
    ("UDPIPEncap(1.0.0.1, 5, 2.0.0.2, 6)", 1),
    ("ICMPError(18.26.4.24, timeexceeded)", 1),
    ("ICMPPingResponder", 2),
    ("ARPResponder(18.26.4.24 00:00:C0:AE:67:EF)", 2),
    ("StaticIPLookup(18.26.4.0/24 0, 18.26.4.24/32 1, 0/0 18.26.7.1 2)", 3),
    ("RadixIPLookup(18.26.4.0/24 0, 18.26.4.24/32 1, 0/0 18.26.7.1 2)", 3),
    ("Tee(3)", 3),
    ("Switch(1)", 2),
    ("RoundRobinSwitch", 3),
    ("HashSwitch(12, 4)", 3),
    ("RandomSwitch", 3),
    ("Queue(50) -> Unqueue(BURST 3)", 1),
    ("FrontDropQueue(5) -> Unqueue", 1),
]


def make_graph(chance: random.Random) -> tuple[str, list[str]]:
    lines, outputs, tail = ["in0 :: Feed"], [], "in0"
    for number in range(chance.randint(1, 9)):
        config, count = chance.choice(ELEMENTS)
        name = f"e{number}"
        head, arrow, rest = config.partition(" -> ")
        lines.append(f"{tail} -> {name} :: {head}" + (f" -> {name}b :: {rest}" if arrow else ""))
        last = name + "b" if arrow else name
        trunk = chance.randrange(count)
        for port in range(count):
            if port != trunk:
                outputs.append(f"o{len(outputs)}")
                lines.append(f"{last}[{port}] -> {outputs[-1]} :: Collect")
        tail = f"{last}[{trunk}]"
    outputs.append(f"o{len(outputs)}")
    lines.append(f"{tail} -> {outputs[-1]} :: Collect")
    return ";\n".join(lines) + ";", outputs


def make_packet(chance: random.Random) -> bytes:
    src, dst = chance.choice(HOSTS), chance.choice(HOSTS)
    body = chance.randbytes(chance.choice((0, 1, 8, 30, 31, 200)))
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.choice((0, 1, 13, 14, 20, 33, 34, 60, 1500)))
    if kind == 1:
        packet = arp(chance.choice((1, 2)), MACS[1], src, MACS[0], dst)
        return ether(MACS[0], MACS[1], 0x0806, packet)
    if kind == 2:
        protocol, payload = 17, udp(53, 999, body, (src, dst))
    elif kind == 3:
        protocol, payload = 6, tcp(80, 999, body, (src, dst))
    else:
        protocol, payload = 1, icmp(chance.choice((0, 3, 8)), 0, 7, body)
    packet = ip(
        src, dst, protocol, payload, ttl=chance.choice((0, 1, 2, 64)), frag=chance.choice((0, 0, 0, 0x4000, 0x2000, 5))
    )
    return packet if chance.random() < 0.3 else ether(chance.choice(MACS), MACS[1], 0x0800, packet)


def damage(chance: random.Random, packet: bytes) -> bytes:
    """Sometimes cuts it, sometimes changes a byte, mostly leaves it."""
    what = chance.random()
    if what < 0.15:
        return packet[: chance.randrange(len(packet) + 1)]
    if what < 0.35 and packet:
        at = chance.randrange(min(len(packet), 60))
        return packet[:at] + bytes([chance.randrange(256)]) + packet[at + 1 :]
    return packet


@pytest.mark.parametrize("seed", range(40))
def test_random_graph(seed):
    chance = random.Random(seed)
    text, outputs = make_graph(chance)
    packets = [damage(chance, make_packet(chance)) for _ in range(40)]
    run_both(text, {"in0": packets}, outputs=outputs)
