"""Rings: netmap's layout to the byte, and the checker (Io13)."""

from __future__ import annotations

import random
import struct

import pytest

from mezzo.base import MezzoError
from mezzo.ports.ring import HEADER, RECEIVE, TRANSMIT, Ring, RingError, Slot


@pytest.fixture
def ring():
    made = Ring.make(8, RECEIVE)
    yield made
    made.close()


def test_a_fresh_receive_ring_is_empty_and_a_fresh_transmit_ring_has_room_for_all_but_one(ring):
    assert (ring.head, ring.cur, ring.tail, ring.space, ring.pending) == (0, 0, 0, 0, 7)
    other = Ring.make(8, TRANSMIT)
    assert (other.head, other.cur, other.tail, other.space, other.pending) == (0, 0, 7, 7, 0)
    other.close()


def test_the_layout_is_netmaps(ring):
    ring.head, ring.cur, ring.tail = 1, 2, 3
    ring.put(1, Slot(7, 60, 0x20, start=192))
    assert struct.unpack_from("<IIHHIII", ring.mem, 8) == (8, 0, 0, 0, 1, 2, 3)
    assert struct.unpack_from("<IHHQ", ring.mem, HEADER + 16) == (7, 60, 0x20, 192)


@pytest.mark.parametrize(
    "slot", [Slot(1, 2, 3, 4), Slot(1, 60, tag=0), Slot(1, 60, start=200, tag=0xFFFF, partial=(34, 16))]
)
def test_a_slot_comes_back_as_it_was_put(ring, slot):
    ring.put(3, slot)
    assert ring.slot(3) == slot


def test_where_the_parts_of_more_are():
    more = Slot(0, 0, start=0x1234, tag=0xABCD, partial=(34, 16)).more
    assert more & 0xFFFF == 0x1234
    assert more >> 16 & 0xFFFF == 0xABCD
    assert more >> 32 & 1 and more >> 49 & 1
    assert (more >> 33 & 0xFF, more >> 41 & 0xFF) == (34, 16)


@pytest.mark.parametrize("slots", [0, 1, 3, (1 << 16) + 1])
def test_io05_a_ring_that_cannot_be_is_refused_with_the_bounds(slots):
    with pytest.raises(MezzoError, match="give 4 to 65536"):
        Ring.make(slots)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"head": 8}, "indexes are below num_slots"),
        ({"cur": 9}, "indexes are below num_slots"),
        ({"cur": 4}, "head ≤ cur ≤ tail"),
        ({"head": 1, "cur": 2}, "head never goes backwards"),
        ({"tail": 2}, "tail never goes backwards"),
    ],
)
def test_io13_each_broken_rule_is_told_once(ring, change, rule):
    ring.head = ring.cur = 2
    ring.tail = 3
    ring.check()
    for name, value in change.items():
        setattr(ring, name, value)
    with pytest.raises(RingError) as told:
        ring.check()
    assert told.value.rule == rule
    ring.check()


def test_io13_sound_use_is_never_reported():
    chance, ring = random.Random(1), Ring.make(16, RECEIVE)
    for _ in range(5000):
        ring.tail = ring.after(ring.tail, chance.randint(0, ring.pending))
        ring.check()
        ring.head = ring.after(ring.head, chance.randint(0, ring.space))
        ring.cur = ring.after(ring.head, chance.randint(0, ring.space))
        ring.check()
        ring.cur = ring.head
    ring.close()


def test_the_packets_of_a_ring_are_in_the_routers_slots_or_in_flight(ring):
    ring.head = ring.cur = 6
    for k in range(4):
        ring.put(ring.after(6, k), Slot(k, 60))
    ring.tail = 2
    assert [s.frame for s in ring.slots()] == [0, 1, 2, 3]
    other = Ring.make(4, TRANSMIT)
    other.put(0, Slot(9, 60))
    other.head = other.cur = 1
    assert [s.frame for s in other.slots()] == [9]
    other.close()
