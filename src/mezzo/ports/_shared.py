"""A segment of memory that processes share, and what pipes and switches do in it.

    header     one page or more: a line for each place: generation (u32), `wanted` of the place's bell (u32)
    table      of a switch: addresses (`switch.py`)
    channels   one for each (sender, receiver), each used by one writer and one reader, so nothing needs a lock

A channel is a ring: `head` is the writer's, `tail` the reader's, both moved once a batch, each on a line of its own
with nobody's beside it, and so are the words by which somebody who falls asleep says that he wants to be woken.  A slot
is one line: the length (u32) and the first 60 bytes of the packet, which for the smallest Ethernet frame is all of it.
The slots lie one behind the other, so small packets cross between CPUs line by line with the prefetchers ahead; what is
longer goes on in the slot's own buffer.  Packets are copied in and out, so nobody ever sees memory of another's router,
and nobody waits for a frame that a killed process holds.

    writer     fills slots, then head = …      a full barrier, reads `data wanted`; if set: 0, and rings the eventfd
    reader     copies slots out, then tail = … a full barrier, reads `room wanted`, likewise
    sleeper    sets the word, a full barrier, looks once more, sleeps

One of writer and sleeper sees the other's store (Dekker), so no wake-up is lost; the barrier is the exchange by which
the index is moved, one a batch, and holds between processes as between threads.  Only a thread that its scheduler is
about to put to sleep says that it wants to be woken, so busy ones make no system calls.

What is killed between two instructions leaves whole words: a slot that is not in front of `head` was never sent, and
one taken out but not yet in front of `tail` is read again by the next reader, for it was not yet delivered.
Words that somebody else wrote are checked before use: an index is below the number of slots, a length fits.
"""

from __future__ import annotations

import os
import select
import struct
from dataclasses import dataclass
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import (
    NO_FRAME,
    Element,
    atomic_swap_u32,
    bounded,
    flag,
    frame_address,
    i64,
    libc,
    load_acquire_u32,
    mem_copy,
    mem_u32,
    now,
    set_mem_u16,
    set_mem_u32,
    u32,
    u64,
)
from mezzo.elements.thread_scheduler import ASLEEP
from mezzo.packet.arena import Arena
from mezzo.ports import port
from mezzo.ports._libc import address_of
from mezzo.ports._members import Members
from mezzo.ports._memory import Memory
from mezzo.ports._slots import HEAD, TAIL, after, ahead, between, put_slot
from mezzo.ports.ring import address_of_map, ring_slots

LINE, APART = 64, 128  # processors fetch lines in pairs
HEAD_AT, TAIL_AT, DATA_WANTED, ROOM_WANTED, SLOTS_AT = 0, 128, 256, 384, 512  # in a channel
DROPS_AT = 8  # beside head: packets that the writer had no room for
INLINE = LINE - 4  # bytes of a packet in its slot
GENERATION, WANTED = 0, 4  # in the line of a place
PAGE = 4096
POLLIN = select.POLLIN
NOTHING = 0xFFFF  # the length of a slot that is no packet
BATCH = 64  # packets that a reader takes at a time
FRAME_START, STAGGER = 128, 64
HUNGRY_NS = 100_000  # until a reader without free frames looks again
NEVER = (1 << 64) - 1


@dataclass(frozen=True)
class Layout:
    """Where what is; all of it follows from these numbers, which every member has."""

    places: int
    slots: int
    frame: int  # bytes of the longest packet
    table: int = 0  # bytes of the table

    @property
    def rest(self) -> int:
        """Bytes of a slot's buffer: an odd number of lines, or the buffers would fall into the same few cache sets."""
        return LINE * (max(self.frame - INLINE, 0) // LINE + 1 | 1)

    @property
    def table_at(self) -> int:
        return _pages(APART * self.places)

    @property
    def channels_at(self) -> int:
        return self.table_at + _pages(self.table)

    @property
    def channel_size(self) -> int:
        return _pages(SLOTS_AT + self.slots * (LINE + self.rest))

    @property
    def size(self) -> int:
        return self.channels_at + self.places**2 * self.channel_size

    def channel(self, sender: int, receiver: int) -> int:
        return self.channels_at + (sender * self.places + receiver) * self.channel_size

    def facts(self) -> dict[str, int]:
        return {"places": self.places, "slots": self.slots, "frame": self.frame, "table": self.table}


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


class Words:
    """The words of a segment, for Python."""

    def __init__(self, memory: Any, layout: Layout) -> None:
        self.memory, self.layout = memory, layout

    def get(self, at: int) -> int:
        return int(struct.unpack_from("=I", self.memory, at)[0])

    def put(self, at: int, value: int) -> None:
        struct.pack_into("=I", self.memory, at, value)

    def get64(self, at: int) -> int:
        return int(struct.unpack_from("=Q", self.memory, at)[0])

    def add(self, at: int, value: int) -> None:
        """Adds to a word of 64 bits."""
        struct.pack_into("=Q", self.memory, at, self.get64(at) + value)

    def index(self, at: int) -> int:
        """An index of a ring, as far as it can be believed."""
        return self.get(at) % self.layout.slots

    def unread(self, channel: int) -> int:
        return (self.index(channel + HEAD_AT) - self.index(channel + TAIL_AT)) % self.layout.slots


class SharedPort(port.Port):
    """What a pipe and a switch have in common, in Python."""

    default_slots = 1024
    members: Members | None = None

    def forget(self) -> None:
        """Others must notice when the parent goes, which they do by its connections."""
        if self.members is not None:
            self.belongings.descriptors += self.members.connections()
        super().forget()

    def wanted_slots(self) -> int:
        """RING of the ends, 0 where it is not said."""
        said = sorted({end.slots_ for end in self.ends if end.slots_})
        if len(said) > 1:
            raise MezzoError(f"{self.name}: RING is {said[0]} here and {said[1]} there; a {self.method} has one size")
        return ring_slots(said[0], f"a {self.method}") if said else 0

    def check_layout(self, facts: dict[str, int], arena: Arena) -> None:
        """The segment is there already: does it suit us?"""
        have, wanted = Layout(**facts), self.wanted_slots()
        if wanted and wanted != have.slots:
            hint = f"say RING {have.slots}, or nothing"
            raise MezzoError(Diagnostic(f"{self.name} has {have.slots} slots, not {wanted}", hint=hint))
        if have.frame > arena.frame_size:
            what = f"{self.name} carries packets of {have.frame} bytes; a frame here has {arena.frame_size}"
            raise MezzoError(Diagnostic(what, hint="give all its routers the same frame size"))

    def refuse_what_cannot_be(self) -> None:
        if any(end.router.virtual for end in self.ends):
            raise MezzoError(f"{self.name}: other processes keep the time of the world, not a virtual clock's")
        strange = next((end for end in self.ends if end.queue), None)
        if strange is not None:
            raise MezzoError(Diagnostic(f"{self.name} has one queue", strange.place, hint="leave QUEUE out"))

    def tell(self, text: str) -> None:
        """Says news, once the router can."""
        if self.ends and self.ends[0].router is not None:
            self.ends[0].say(f"{self.ends[0].name}: {text}")

    def longest(self) -> int:
        return self.layout.frame

    def make_own(self) -> None:
        """A page of our own, with the number 1 for eventfds; first thing in `open`."""
        self.own = Memory(PAGE)
        self.keep("memory of its own", self.own.free)
        struct.pack_into("=Q", self.own.map, 0, 1)

    def map_segment(self) -> None:
        """What every port does once it has a place."""
        self.layout = Layout(**self.members.facts)
        if self.layout.size != len(self.members.map):
            raise MezzoError(f"the memory of {self.name} has {len(self.members.map)} bytes, not {self.layout.size}")
        self.keep("unmapping the segment", self.members.free)
        self.words = Words(self.members.map, self.layout)
        self.base = address_of_map(self.members.map)


def ring_bell(event: int) -> None:
    """Python: wakes who watches an eventfd."""
    os.eventfd_write(event, 1)


# -- packet code: a slot is written and read


def put_length(channel: u64, index: u32, length: u32):
    """Begins to fill a slot.

    One store a slot, for a whole batch, before the packets are copied: so all its lines are on their way to this CPU at
    once.  A loop that copies has more stores a packet than fit into a store buffer's share of one crossing.
    """
    set_mem_u32(channel + SLOTS_AT + u64(index) * LINE, length)


def put_packet(channel: u64, index: u32, slots: u32, rest: u32, at: u64, length: u32):
    """The packet at `at` goes into a slot."""
    slot = channel + SLOTS_AT + u64(index) * LINE
    if length < INLINE:
        mem_copy(slot + 4, at, length)
    else:
        mem_copy(slot + 4, at, INLINE)
        if length != INLINE:
            mem_copy(channel + SLOTS_AT + u64(slots) * LINE + u64(index) * rest, at + INLINE, length - INLINE)


def get_length(channel: u64, index: u32, most: u32) -> u32:
    """The length of the packet in a slot; NOTHING when it cannot be."""
    length = mem_u32(channel + SLOTS_AT + u64(index) * LINE)
    return length if length <= most else u32(NOTHING)


def get_packet(channel: u64, index: u32, slots: u32, rest: u32, to: u64, length: u32):
    """The packet of a slot goes to `to`; `length` is what was found good, whatever stands there by now."""
    slot = channel + SLOTS_AT + u64(index) * LINE
    if length < INLINE:
        mem_copy(to, slot + 4, length)
    else:
        mem_copy(to, slot + 4, INLINE)
        if length != INLINE:
            mem_copy(to + INLINE, channel + SLOTS_AT + u64(slots) * LINE + u64(index) * rest, length - INLINE)


class _Sleeper(Element):
    """An end that falls asleep and is woken by others' words; for FromDevice and ToDevice to inherit.

    Its eventfd is polled only while it wants to be woken: rung too late, it would keep a thread awake that has nothing
    to do.
    """

    runtime = True

    thread_bell: u64  # of the scheduler that runs this end's task
    event: i64
    events: u64  # the address of what is polled for
    scratch: u64  # the number 1, and room to read to
    bell_read: u64
    bell_write: u64
    wanting: flag
    naps: u64

    def use_bell(self, event, scratch, wakes=True):
        """Python: `event` wakes this end's task."""
        self.event, self.scratch = event, scratch
        self.bell_read, self.bell_write = address_of("read"), address_of("write")
        team = self.router.team
        if wakes:
            self.thread_bell = team.desks[team.thread_of(self)].bell
            self.events = self.router.watch(self, event, 0)

    def moved(self, old):
        """Python: the bell of a thread among several lies in the memory of the code that runs."""
        if self.thread_bell:
            self.thread_bell = self.router.team.desks[self.router.team.thread_of(self)].bell

    def is_tired(self) -> flag:
        """Is the scheduler about to put this thread to sleep?"""
        return load_acquire_u32(self.thread_bell + ASLEEP) != 0

    def want(self, word: u64):
        """Asks to be woken; look once more after that."""
        libc(self.bell_read, self.event, self.scratch + 8, 8)
        set_mem_u16(self.events, POLLIN)
        self.wanting = True
        self.naps += 1
        atomic_swap_u32(word, 1)

    def is_up(self):
        """What was wanted is there, or is looked for again."""
        if self.wanting:
            self.wanting = False
            set_mem_u16(self.events, 0)

    def wake_other(self, word: u64, event: i64):
        """Wakes who asked by `word`; a full barrier lies between what he waits for and this."""
        if load_acquire_u32(word) != 0 and atomic_swap_u32(word, 0) != 0:
            libc(self.bell_write, event, self.scratch, 8)


class _Reader(_Sleeper):
    """An end that takes packets out of channels; for FromDevice to inherit."""

    depth: u32  # slots of a channel
    rest: u32
    longest_slot: u32
    hungry: u64
    touched: u32

    def use_layout(self, layout):
        """Python."""
        self.depth, self.rest, self.longest_slot = layout.slots, layout.rest, layout.frame
        self.again_ns = NEVER

    def take(self, channel: u64, at: u32, count: u32) -> u32:
        """Copies packets into frames and slots of our ring; the index of the first that stays."""
        tail, n = mem_u32(self.ring + TAIL), self.slots
        most = min(min(count, n - 1 - between(mem_u32(self.ring + HEAD), tail, n)), BATCH)
        self.touch(channel, at, most)
        for _ in bounded(most, BATCH):
            f = self.take_frame()
            if f == NO_FRAME:
                self.hungry += 1
                self.again_ns = now() + HUNGRY_NS
                break
            length = get_length(channel, at, self.longest_slot)
            start = min(u32(FRAME_START + (f & 3) * STAGGER), self.frame_size - min(length, self.frame_size))
            if length != NOTHING:
                get_packet(channel, at, self.depth, self.rest, frame_address(f) + start, length)
            put_slot(self.ring, tail, u64(f) | u64(length) << 32, start)
            tail = after(tail, n)
            at = after(at, self.depth)
        set_mem_u32(self.ring + TAIL, tail)
        return at

    def touch(self, channel: u64, at: u32, count: u32):
        """Reads a word of each slot and does nothing else, so the misses lie side by side: 19 instead of 27 ns a packet
        between two CPUs."""
        sum: u32 = 0
        for k in bounded(count, BATCH):
            sum += mem_u32(channel + SLOTS_AT + u64(ahead(at, k, self.depth)) * LINE)
        self.touched = sum

    def frames_here(self):
        return len(self._ring.slots())
