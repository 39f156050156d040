"""Packets for a comparison of targets: sound ones, damaged ones, and noise, with and without marks and annotations."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mezzo.packet.arena import ANNO_SIZE, Arena, Packet
from mezzo.wire import build
from mezzo.wire.constants import ETHERTYPE_ARP, ETHERTYPE_IP, ETHERTYPE_VLAN, PROTO_ICMP, PROTO_TCP, PROTO_UDP

ADDRESSES = (0x0A000001, 0x0A000002, 0x0A0000FF, 0x12440009, 0xC0A80101, 0xE0000005, 0xFFFFFFFF, 0, 0x7F000001)
ETHERS = (0x020000000001, 0x020000000002, 0xFFFFFFFFFFFF, 0x01005E000005, 0x000000000001, 0)
OPTIONS = (b"", b"", b"", b"\1", b"\7\7\4\0\0\0\0", b"\x44\x0c\5\1" + bytes(8), b"\7\3\4", b"\xff\2")
ETHERNET = 14
MARKS = ("mac", "net", "trans")


@dataclass(frozen=True, slots=True)
class Case:
    """A packet as it is given to entry `way`: bytes, marks (None: unset), metadata."""

    way: int
    data: bytes
    marks: tuple[int | None, int | None, int | None] = (None, None, None)
    packet_type: int = 0
    timestamp: int = 0
    anno: bytes = bytes(ANNO_SIZE)

    def packet(self, arena: Arena) -> Packet:
        made = arena.make_from(self.data)
        assert made is not None, "the arena is large enough"
        for mark, offset in zip(MARKS, self.marks, strict=True):
            made.set_mark(mark, offset)
        made.packet_type, made.timestamp, made.anno[:] = self.packet_type, self.timestamp, self.anno
        return made

    def __str__(self) -> str:
        words = [f"{len(self.data)} bytes {self.data.hex() or '(none)'}"]
        words += [f"{mark} at {at}" for mark, at in zip(MARKS, self.marks, strict=True) if at is not None]
        words += [f"type {self.packet_type}"] if self.packet_type else []
        words += [f"time {self.timestamp}"] if self.timestamp else []
        words += [f"annotations {self.anno.hex()}"] if any(self.anno) else []
        return ", ".join(words)


def cases(count: int, seed: int, ways: int) -> Iterator[Case]:
    """`count` packets; the same seed gives the same ones."""
    dice = random.Random(seed)
    for _ in range(count):
        yield _case(dice, dice.randrange(ways))


def _case(dice: random.Random, way: int) -> Case:
    kind = dice.random()
    if kind < 0.1:
        data, marks = dice.randbytes(dice.choice((0, 1, 13, 14, 20, 34, 60, 300))), _any_marks(dice)
    else:
        data, marks = _sound(dice)
        if kind > 0.6:
            data = _damaged(dice, data)
    anno = bytearray(ANNO_SIZE)
    for _ in range(dice.choice((0, 0, 1, 4))):
        anno[dice.randrange(ANNO_SIZE)] = dice.randrange(256)
    if dice.random() < 0.3:
        anno[:4] = dice.choice(ADDRESSES).to_bytes(4, "big")
    stamp = dice.choice((0, dice.getrandbits(62)))
    return Case(way, data, marks, dice.choice((0, 0, 1, 2, 3)), stamp, bytes(anno))


def _any_marks(dice: random.Random) -> tuple[int | None, int | None, int | None]:
    mac, net, trans = (dice.choice((None, None, 0, 14, 20, 34, 400, -14)) for _ in MARKS)
    return mac, net, trans


def _sound(dice: random.Random) -> tuple[bytes, tuple[int | None, int | None, int | None]]:
    """A good packet, from its Ethernet header or from its IP header on."""
    inner, ethertype, header = _inner(dice)
    if dice.random() < 0.5:
        return inner, (None, 0, header) if dice.random() < 0.8 else (None, None, None)
    frame = build.ether(dice.choice(ETHERS), dice.choice(ETHERS), ethertype, inner)
    if dice.random() < 0.1:
        tagged = build.vlan(dice.randrange(4096), ethertype, inner)
        frame = build.ether(dice.choice(ETHERS), dice.choice(ETHERS), ETHERTYPE_VLAN, tagged)
    marked = dice.random() < 0.3
    return frame, (0, ETHERNET, ETHERNET + header) if marked else (None, None, None)


def _inner(dice: random.Random) -> tuple[bytes, int, int]:
    """(packet, ethertype, bytes of its header)."""
    src, dst = dice.choice(ADDRESSES), dice.choice(ADDRESSES)
    if dice.random() < 0.15:
        return build.arp(dice.choice((1, 2)), dice.choice(ETHERS), src, 0, dst), ETHERTYPE_ARP, 28
    payload = dice.randbytes(dice.choice((0, 1, 7, 40, 500, 1401)))
    protocol, make = dice.choice(_TRANSPORTS)
    options = b"".join(dice.choice(OPTIONS) for _ in range(dice.choice((0, 0, 1, 2))))
    body, more = make(dice, payload, (src, dst)), dice.choice((b"", b"", bytes(6)))
    made = build.ip(
        src, dst, protocol, body, ttl=dice.choice((0, 1, 2, 64, 255)), id=dice.randrange(65536),
        tos=dice.choice((0, 3, 0xB8)), frag=dice.choice((0, 0, 0, 0x4000, 0x2000, 5)), options=options,
    )  # fmt: skip
    return made + more, ETHERTYPE_IP, 20 + -(-len(options) // 4) * 4


Maker = Callable[[random.Random, bytes, build.Ends], bytes]
_TRANSPORTS: tuple[tuple[int, Maker], ...] = (
    (PROTO_UDP, lambda dice, payload, ends: build.udp(dice.choice((53, 1000)), dice.choice((53, 69)), payload, ends)),
    (PROTO_TCP, lambda dice, payload, ends: build.tcp(dice.choice((80, 1000)), dice.choice((80, 22)), payload, ends)),
    (PROTO_ICMP, lambda dice, payload, ends: build.icmp(dice.choice((0, 3, 8, 11)), 0, dice.getrandbits(32), payload)),
    (47, lambda dice, payload, ends: payload),
)


def _damaged(dice: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    if dice.random() < 0.4:
        del changed[dice.randrange(len(changed) + 1) :]
    for _ in range(dice.choice((0, 1, 1, 3))):
        if changed:
            changed[min(dice.randrange(len(changed)), dice.randrange(80))] = dice.randrange(256)
    return bytes(changed)
