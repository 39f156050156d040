"""Gates keep a flow's packets in order, though some go up and others do not.

A packet that goes up waits (in a socket's ring, for an address, in a queue), while the kernel would send the next one
at once.  So what goes up raises the gate of its flow, and behind a raised gate all goes up, as it came from the wire:
natively order is kept.  When nothing of the flow is up any more the runtime lowers the gate (runtime/gates.py).

    @gates     a pair of words for each gate: how often it was raised, and that number when it was lowered last

It is up where the two differ.  Programs write the one and the runtime the other, so neither waits for the other, and
what goes up while a gate is lowered raises it again.

The gate is chosen by what every packet of a flow has, fragments too: IPv4 or IPv6 source and destination; of others
the Ethernet addresses and type.  Flows may share a gate; that costs time, not order.  `GATE | index` goes with the
packet, in its record and then in the arena's metadata, from where copies inherit it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mezzo.base import bpf
from mezzo.ir.types import I64
from mezzo.targets.kernel.layout import Map
from mezzo.targets.kernel.text import RARE

if TYPE_CHECKING:
    from mezzo.targets.kernel.frame import Frame

SYMBOL = "gates"
GATES = 4096
GATE = GATES  # the bit that tells a number from none
MAP = Map(bpf.MAP_ARRAY, 4, 8 * GATES, 1, bpf.MMAPABLE)
SPREAD = I64.wrap(0x9E37_79B9_7F4A_7C15)  # 2^64 by the golden ratio (Knuth 6.4)
IPV4, IPV6 = 0x0008, 0xDD86  # Ethernet types as they stand in memory
TYPE, ADDRESSES4, ADDRESSES6 = 12, 26, 22  # where they are in a frame


def watch(f: Frame, slot: str, behind: str) -> None:
    """Notes the gate of a packet from the wire in a slot (i64); where that is up the packet goes to a label."""
    t, mixed = f.t, f.t.slot("i64")
    f.prove_sure()
    ip4, ip6, other, chosen = (t.label(hint) for hint in ("ip4", "ip6", "other", "chosen"))
    kind, is_other = t.load("i16", f.start(), TYPE), t.label("noip4")
    t.branch(t.op(f"icmp eq i16 {kind}, {IPV4}"), ip4, is_other)
    t.at(is_other)
    t.branch(t.op(f"icmp eq i16 {kind}, {_signed(IPV6)}"), ip6, other)
    for label, first, count in ((ip4, ADDRESSES4, 1), (ip6, ADDRESSES6, 4)):
        t.at(label)
        there = t.label("there")
        last = t.op(f"getelementptr inbounds nuw i8, ptr {f.start()}, i64 {first + 8 * count}")
        t.branch(t.op(f"icmp ule ptr {last}, {f.stop()}"), there, other, RARE)
        t.at(there)
        _mix(f, mixed, [first + 8 * n for n in range(count)], chosen)
    t.at(other)
    _mix(f, mixed, [0, 6], chosen)
    t.at(chosen)
    index = t.op(f"lshr i64 {t.op(f'load i64, ptr {mixed}')}, {64 - GATES.bit_length() + 1}")
    t.do(f"store i64 {t.op(f'or disjoint i64 {index}, {GATE}')}, ptr {slot}")
    words = t.load("i64", t.gep(f.map(SYMBOL), t.op(f"shl nuw nsw i64 {index}, 3")))
    raised, lowered = (t.op(f"trunc i64 {word} to i32") for word in (words, t.op(f"lshr i64 {words}, 32")))
    free = t.label("free")
    t.branch(t.op(f"icmp eq i32 {raised}, {lowered}"), free, behind, RARE)
    t.at(free)


def _mix(f: Frame, slot: str, places: list[int], then: str) -> None:
    """Words of the packet as one number, of which the upper bits depend on all."""
    t = f.t
    mixed = "0"
    for at in places:
        word = t.load("i64", f.start(), at)
        mixed = t.op(f"mul i64 {t.op(f'add i64 {mixed}, {word}')}, {SPREAD}")
    t.do(f"store i64 {mixed}, ptr {slot}")
    t.jump(then)


def lift(f: Frame, slot: str) -> None:
    """Raises the gate of the packet that goes up."""
    t = f.t
    index = t.opaque("i64", t.op(f"and i64 {t.op(f'load i64, ptr {slot}')}, {GATES - 1}"))
    inside = t.op(f"and i64 {index}, {GATES - 1}")  # once more, for the verifier
    at = t.gep(f.map(SYMBOL), t.op(f"shl nuw nsw i64 {inside}, 3"))
    t.do(f"atomicrmw add ptr {at}, i32 1 seq_cst, align 8")


def _signed(word: int) -> int:
    return word - 0x1_0000 if word >= 0x8000 else word
