"""Faults on purpose: what a bad wire does to packets, seeded, so that a run can be had again.

    FromDevice(eth0, FAULT drop 5 duplicate 1 seed 7)
    ToDevice(eth0, FAULT delay 10ms reorder 2 lose 1)

Percentages, each drawn by itself: `drop`; `corrupt` turns one bit over; `duplicate` sends a copy behind; `reorder` lets
the next packet go first; `delay TIME` holds packets back (all, or `some` percent of them); `lose` (sending only)
completions that never come.  `seed` is where the numbers begin; they do not depend on the router's own.

The stage works on slots, which are numbers, and moves them from one ring to another: behind the driver's ring for
receiving, in front of it for sending.
"""

from typing import NamedTuple

from mezzo.elements import (
    Array,
    Env,
    Kind,
    frame_address,
    mem_copy,
    mem_u8,
    now,
    set_mem_u8,
    u8,
    u32,
    u64,
)
from mezzo.elements.units import parse_duration
from mezzo.packet.arena import NO_FRAME
from mezzo.ports._trace import _Traced

ROOM = 4096  # slots that can be held back
PATIENCE_NS = 10 * 10**6  # how long a packet waits for another to go first
WORDS = ("drop", "corrupt", "duplicate", "reorder", "some", "lose")
NEVER = (1 << 64) - 1


class Faults(NamedTuple):
    """Percentages, and the delay in ns."""

    drop: float = 0
    corrupt: float = 0
    duplicate: float = 0
    reorder: float = 0
    some: float = 100
    lose: float = 0
    delay: int = 0
    seed: int = 1


class Fault(Kind):
    """`drop 5 corrupt 0.1 duplicate 1 reorder 2 delay 10ms some 50 lose 1 seed 7`, any of them."""

    words = f"pairs such as `drop 5`: {' '.join(WORDS)} with a percentage, delay with a time, seed with a number"

    def parse(self, text: str, env: Env) -> Faults:
        words = text.replace(",", " ").split()
        if not words or len(words) % 2:
            raise ValueError(f"expected {self.words}, not `{text}`")
        return Faults(**{name: self.value(name, value) for name, value in zip(words[::2], words[1::2], strict=True)})

    def value(self, name: str, text: str) -> float:
        if name == "delay":
            return parse_duration(text)
        if name == "seed" and text.isdigit():
            return int(text)
        if name not in WORDS:
            raise ValueError(f"there is no fault `{name}`; there are {' '.join(WORDS)} delay seed")
        try:
            share = float(text.rstrip("%"))
        except ValueError:
            share = -1.0
        if not 0 <= share <= 100:
            raise ValueError(f"{name}: expected a percentage from 0 to 100, not `{text}`")
        return share

    def show(self, value: Faults | None) -> str:
        return " ".join(f"{k} {v:g}" for k, v in value._asdict().items() if v != getattr(Faults(), k)) if value else ""


def threshold(percent: float) -> int:
    """A percentage as a share of 2^32; all is one more than a draw can be."""
    return round(percent / 100 * (1 << 32))


class _Faulty(_Traced):
    """The stage; an end inherits it and calls `set_faults`.  `fault_put` of the end takes a slot out of the stage."""

    late_room = 1

    fault_now: u64
    fault_held: u64
    fault_held_more: u64
    fault_held_due: u64
    holds: u32
    late: u32
    late_at: u32
    late_word: Array[u64, "late_room"]
    late_more: Array[u64, "late_room"]
    late_due: Array[u64, "late_room"]
    fault_drops: u64
    fault_copies: u64
    fault_bits: u64
    fault_swaps: u64
    fault_delays: u64

    def set_faults(self, faults: Faults | None) -> None:
        """Configuration: None is no faults."""
        self.faulty = faults is not None
        f = faults or Faults()
        self.late_room = ROOM if f.delay else 1
        self.drop, self.corrupt, self.duplicate = threshold(f.drop), threshold(f.corrupt), threshold(f.duplicate)
        self.reorder, self.some, self.lose = threshold(f.reorder), threshold(f.some), threshold(f.lose)
        self.delay, self.fault_now = f.delay, 2 * f.seed + self.is_transmitter

    def draw(self) -> u32:
        """Splitmix64 (Steele, Lea, Flood 2014), its upper half."""
        self.fault_now += 0x9E3779B97F4A7C15
        x: u64 = self.fault_now
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB
        return u32((x ^ (x >> 31)) >> 32)

    def fault_one(self, word: u64, more: u64):
        """One slot goes into the stage; at most three come out of it."""
        if self.drop != 0 and u64(self.draw()) < self.drop:
            self.fault_drops += 1
            self.give_frame(u32(word))
            return
        if self.corrupt != 0 and u64(self.draw()) < self.corrupt:
            self.turn_bit(word, more)
        if self.duplicate != 0 and u64(self.draw()) < self.duplicate:
            self.copy_slot(word, more)
        if self.delay != 0 and u64(self.draw()) < self.some and self.late < self.late_room:
            self.hold_late(word, more)
            return
        if self.reorder != 0 and self.holds == 0 and u64(self.draw()) < self.reorder:
            self.fault_held = word
            self.fault_held_more = more
            self.fault_held_due = now() + PATIENCE_NS
            self.holds = 1
            self.fault_swaps += 1
            return
        self.fault_put(word, more)
        if self.reorder != 0:
            self.let_go()

    def let_go(self):
        if self.holds != 0:
            self.holds = 0
            self.fault_put(self.fault_held, self.fault_held_more)

    def turn_bit(self, word: u64, more: u64):
        length = u32(word >> 32) & 0xFFFF
        if length != 0:
            at = frame_address(u32(word)) + (more & 0xFFFF) + self.draw() % length
            set_mem_u8(at, mem_u8(at) ^ (u8(1) << u8(self.draw() & 7)))
            self.fault_bits += 1

    def copy_slot(self, word: u64, more: u64):
        frame = self.take_frame()
        if frame != NO_FRAME:
            start, length = more & 0xFFFF, u32(word >> 32) & 0xFFFF
            mem_copy(frame_address(frame) + start, frame_address(u32(word)) + start, length)
            self.fault_put((word >> 32 << 32) | frame, more)
            self.fault_copies += 1

    def hold_late(self, word: u64, more: u64):
        at = (self.late_at + self.late) % self.late_room
        self.late_word[at] = word
        self.late_more[at] = more
        self.late_due[at] = now() + self.delay
        self.late += 1
        self.fault_delays += 1

    def fault_due(self) -> u64:
        """When the stage gives something by itself; NEVER when it holds nothing."""
        due: u64 = NEVER
        if self.holds != 0:
            due = self.fault_held_due
        if self.late != 0:
            due = min(due, self.late_due[self.late_at])
        return due

    def fault_release(self):
        """What waited long enough comes out: one at most."""
        if self.late != 0 and self.late_due[self.late_at] <= now():
            at = self.late_at
            self.late_at = (at + 1) % self.late_room
            self.late -= 1
            self.fault_put(self.late_word[at], self.late_more[at])
        elif self.holds != 0 and self.fault_held_due <= now():
            self.let_go()

    def fault_frames(self) -> int:
        """Python: the frames that the stage holds."""
        return int(self.late) + int(self.holds)
