"""Rings of slots, in netmap's layout (netmap(4)), and the one who checks them.

A ring is a header of 256 bytes and `num_slots` slots of 16 bytes.  `head` and `cur` belong to the router, `tail` to the
driver; the slots from head up to tail are the router's, the others the driver's, and head ≤ cur ≤ tail in ring order,
always.  For receive the router's slots are packets that arrived; for transmit they are room.  A ring of n slots has
n - 1 for the router at most, so that full and empty differ.

    byte of the header   20 head   24 cur   28 tail   8 num_slots   16 ringid   18 direction (1: transmit)
    slot                 frame u32, length u16, flags u16, more u64
    more                 bits 0-15 where the data starts in the frame; 16-31 a VLAN tag, there when bit 32 is set;
                         33-40 where a partial checksum starts and 41-48 the offset of its field from there, when
                         bit 49 is set

`Ring` is the view that Python has of one, wherever its memory is: the driver's own (`Ring.make`), or a kernel's.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from dataclasses import dataclass
from typing import Any

from mezzo.base import Diagnostic, MezzoError

HEADER, SLOT = 256, 16
NUM_SLOTS, RINGID, DIRECTION, HEAD, CUR, TAIL = 8, 16, 18, 20, 24, 28
RECEIVE, TRANSMIT = 0, 1
LEAST, LARGEST = 4, 1 << 16  # slots of a ring that mezzo makes
TAGGED, PARTIAL = 1 << 32, 1 << 49
_SLOT = struct.Struct("<IHHQ")


@dataclass(frozen=True)
class Slot:
    """One slot, as a value; `start` is where the data begins in the frame, `tag` a VLAN tag or None."""

    frame: int
    length: int
    flags: int = 0
    start: int = 0
    tag: int | None = None
    partial: tuple[int, int] | None = None

    @property
    def more(self) -> int:
        word = self.start
        if self.tag is not None:
            word |= self.tag << 16 | TAGGED
        if self.partial is not None:
            word |= self.partial[0] << 33 | self.partial[1] << 41 | PARTIAL
        return word

    def pack(self) -> bytes:
        return _SLOT.pack(self.frame, self.length, self.flags, self.more)

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Slot:
        frame, length, flags, more = _SLOT.unpack(data)
        tag = more >> 16 & 0xFFFF if more & TAGGED else None
        partial = (more >> 33 & 0xFF, more >> 41 & 0xFF) if more & PARTIAL else None
        return cls(frame, length, flags, more & 0xFFFF, tag, partial)


class RingError(MezzoError):
    """A rule of rings was broken; `rule` is its name."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(Diagnostic(message, hint=f"the rule is: {rule}"))
        self.rule = rule


def ring_slots(slots: int, what: str = "a ring") -> int:
    """`slots`, or a refusal: what a ring cannot be is said before a kernel says EINVAL."""
    if not LEAST <= slots <= LARGEST:
        raise MezzoError(f"{what} of {slots} slots: give {LEAST} to {LARGEST}")
    return slots


def address_of_map(memory: Any, at: int = 0) -> int:
    """The address of a byte of a mapping, which must outlive what uses the address."""
    return ctypes.addressof(ctypes.c_char.from_buffer(memory, at))


class Ring:
    """A view of one ring.  `size` is the number of its slots."""

    def __init__(self, memory: Any, at: int = 0) -> None:
        self._memory = memory
        self.mem = memoryview(memory)[at:].cast("B")
        self._pin: Any = ctypes.c_char.from_buffer(memory, at)
        self.address = ctypes.addressof(self._pin)
        self.size = self._word(NUM_SLOTS)
        self.broken = ""
        self._seen: tuple[int, int] | None = None

    @classmethod
    def make(cls, slots: int, direction: int = RECEIVE, number: int = 0) -> Ring:
        """A ring in fresh memory of its own; of `slots` the router can have all but one."""
        ring_slots(slots)
        memory = mmap.mmap(-1, HEADER + SLOT * slots)
        struct.pack_into("<IIHH", memory, NUM_SLOTS, slots, 0, number, direction)
        made = cls(memory)
        if direction == TRANSMIT:
            made.tail = slots - 1
        return made

    def close(self) -> None:
        """Lets go of the memory; the address means nothing after that."""
        self.mem.release()
        self._pin = None
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()
        self._memory = None

    def _word(self, at: int) -> int:
        return int.from_bytes(self.mem[at : at + 4], "little")

    def _set(self, at: int, value: int) -> None:
        self.mem[at : at + 4] = value.to_bytes(4, "little")

    head = property(lambda self: self._word(HEAD), lambda self, value: self._set(HEAD, value))
    cur = property(lambda self: self._word(CUR), lambda self, value: self._set(CUR, value))
    tail = property(lambda self: self._word(TAIL), lambda self, value: self._set(TAIL, value))

    @property
    def is_transmit(self) -> bool:
        return self.mem[DIRECTION] == TRANSMIT

    @property
    def space(self) -> int:
        """The router's slots: packets that arrived, or room."""
        return int(self.tail - self.head) % self.size

    @property
    def pending(self) -> int:
        """The driver's slots: room for arrivals, or packets in flight."""
        return self.size - 1 - self.space

    def after(self, index: int, count: int = 1) -> int:
        return (index + count) % self.size

    def slot(self, index: int) -> Slot:
        at = HEADER + SLOT * index
        return Slot.unpack(self.mem[at : at + SLOT])

    def put(self, index: int, slot: Slot) -> None:
        at = HEADER + SLOT * index
        self.mem[at : at + SLOT] = slot.pack()

    def slots(self) -> list[Slot]:
        """The router's slots of a receive ring, or the driver's of a transmit ring: those with packets in them."""
        start, count = (self.after(self.tail), self.pending) if self.is_transmit else (self.head, self.space)
        return [self.slot(self.after(start, k)) for k in range(count)]

    # -- the checker

    def check(self) -> None:
        """Raises RingError when a rule is broken since the last look; once: a broken ring stays broken.

        Every move backwards is seen when one side moved since the last look, so look after each sync.
        """
        if self.broken:
            return
        trouble = self._trouble()
        if trouble is not None:
            self.broken = trouble[0]
            raise RingError(*trouble)
        self._seen = (self.head, self.tail)

    def _trouble(self) -> tuple[str, str] | None:
        head, cur, tail, n = self.head, self.cur, self.tail, self.size
        state = f"head {head}, cur {cur}, tail {tail} of {n} slots"
        if max(head, cur, tail) >= n:
            return "indexes are below num_slots", f"an index left the ring: {state}"
        if (cur - head) % n > (tail - head) % n:
            return "head ≤ cur ≤ tail", f"cur is not between head and tail: {state}"
        if self._seen is None:
            return None
        # How far head, tail and the tail of the last look are from the head of the last look.
        h, t, before = ((x - self._seen[0]) % n for x in (head, tail, self._seen[1]))
        if t == before and h > t:
            return "head never goes backwards", f"head went from {self._seen[0]} back to {head}: {state}"
        if h <= t < before:
            return "tail never goes backwards", f"tail went from {self._seen[1]} back to {tail}: {state}"
        return None
