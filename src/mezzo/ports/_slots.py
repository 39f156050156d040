"""Slots and rings as packet code sees them: addresses (the layout is in `ring.py`).

Functions of the runtime dialect that drivers and both ends of a device use.  `ring` is the address of a ring, `n` the
number of its slots, an index is below n.
"""

from mezzo.elements import (
    load_acquire_u32,
    mem_u32,
    mem_u64,
    set_mem_u16,
    set_mem_u32,
    set_mem_u64,
    store_release_u32,
    u16,
    u32,
    u64,
)

HEAD, CUR, TAIL, HEADER = 20, 24, 28, 256
TAG_ETHERTYPE = 0x0081  # 0x8100 as it stands in memory
TAG_SIZE = 4
OUTGOING = 0x80  # a flag of a receive slot: the host itself sent this packet


def slot_at(ring: u64, index: u32) -> u64:
    """The address of a slot."""
    return ring + HEADER + u64(index) * 16


def after(index: u32, n: u32) -> u32:
    """The next index."""
    return 0 if index + 1 == n else index + 1


def ahead(index: u32, count: u32, n: u32) -> u32:
    """The index `count` slots on; count is n at most."""
    return index + count - n if index + count >= n else index + count


def between(start: u32, end: u32, n: u32) -> u32:
    """How many slots lie in [start, end)."""
    return end - start if end >= start else end + n - start


def space(ring: u64, n: u32) -> u32:
    """The router's slots: packets that arrived, or room.  What the driver wrote before it moved tail is seen."""
    return between(mem_u32(ring + HEAD), load_acquire_u32(ring + TAIL), n)


def release(ring: u64, head: u32):
    """The router is done with the slots in front of `head`; who sees it sees what was written there."""
    set_mem_u32(ring + CUR, head)
    store_release_u32(ring + HEAD, head)


def put_slot(ring: u64, index: u32, word: u64, more: u64):
    """`word` is frame, length (from bit 32) and flags (from bit 48)."""
    at = slot_at(ring, index)
    set_mem_u64(at, word)
    set_mem_u64(at + 8, more)


def put_tag(at: u64, tag: u16):
    """Puts a VLAN tag back: the frame at `at` begins 4 bytes earlier after that (IEEE 802.1Q: behind the addresses)."""
    set_mem_u64(at - TAG_SIZE, mem_u64(at))
    set_mem_u32(at + 4, mem_u32(at + 8))
    set_mem_u16(at + 8, TAG_ETHERTYPE)
    set_mem_u16(at + 10, (tag << 8) | (tag >> 8))
