"""A pipe between two routers, in one process or two: netmap's pipes, in memory that both share.

    FromDevice(x{1, METHOD PIPE) -> …        ToDevice(x{1, METHOD PIPE)         one end of pipe `x1`
    FromDevice(x}1, METHOD PIPE) -> …        ToDevice(x}1, METHOD PIPE)         the other end
    FromDevice(x, METHOD PIPE) -> …                                             whichever end of pipe `x` is free

Packets pass both ways, in order, and none is dropped: where the pipe is full the sender does not pull, sleeps if it has
nothing else to do, and is woken when the reader makes room.  Slots come back when the reader has taken the packet, so
`packets_in_flight` are those it has not taken.  An end may come before the other; what it sends waits.

When the process at the other end is killed, what it had sent wholly is delivered, what it had not taken waits, and
somebody new may take its place.  A packet that it had taken dies with it, and comes a second time to nobody.

Which process may: those of one user, in one network namespace (see `_members`; how it works: see `_shared`).
"""

import os
import re

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import (
    atomic_swap_u32,
    bounded,
    entry,
    flag,
    frame_address,
    i64,
    load_acquire_u32,
    mem_u16,
    mem_u32,
    mem_u64,
    read,
    u32,
    u64,
)
from mezzo.ports._members import Members, Taken
from mezzo.ports._shared import (
    BATCH,
    DATA_WANTED,
    HEAD_AT,
    LINE,
    NEVER,
    ROOM_WANTED,
    SLOTS_AT,
    TAIL_AT,
    Layout,
    SharedPort,
    _Reader,
    _Sleeper,
    put_length,
    put_packet,
    ring_bell,
)
from mezzo.ports._slots import HEAD, after, between, slot_at, space
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring, Slot
from mezzo.ports.to_device import ToDevice

ENDS = "{}"
NAMED = re.compile(r"([A-Za-z0-9_.-]*)([{}])([A-Za-z0-9_.-]*)")
MOST = 1 << 16
BELLS = 4  # reading and writing, of either end


class Port(SharedPort):
    """One end of a pipe."""

    method = "pipe"

    def open(self, arena):
        self.refuse_what_cannot_be()
        self.make_own()
        name, places = parse(self.device)
        self.members = Members("pipe", name, 2)
        self.members.came, self.members.went = self.came, self.went
        layout = Layout(2, self.wanted_slots() or self.default_slots, arena.frame_size)
        try:
            self.members.join(
                places,
                lambda: (layout.facts(), layout.size, BELLS),
                lambda facts: self.check_layout(facts, arena),
                lambda memory, place: 1,
            )
        except Taken as taken:
            raise MezzoError(in_use(name, places, taken.users)) from None
        self.defer("leaving the pipe", self.members.close)
        self.map_segment()
        self.place = self.members.place
        self.rings = {}
        for end in self.ends:
            writes = end.is_transmitter
            sizes = self.layout.slots if writes else 2 * BATCH
            self.rings[end] = Ring.make(sizes, TRANSMIT if writes else RECEIVE)
            self.keep("a ring", self.rings[end].close)

    def channel(self, writes):
        """Where the channel is in the segment that this end writes to, or reads from."""
        mine, others = self.place, 1 - self.place
        return self.layout.channel(mine, others) if writes else self.layout.channel(others, mine)

    def bell(self, place, writes):
        return self.members.bells[2 * place + writes]

    # -- news, from the members' thread

    def came(self, member):
        self.wake_all()

    def went(self, member, polite):
        how = "was closed" if polite else f"is gone with process {member.pid}"
        if member.pid != os.getpid():
            self.tell(f"the other end of `{self.device}` {how}; packets wait for another")
        self.wake_all()

    def wake_all(self):
        """Who was to be woken by somebody that was killed is woken by us."""
        for writes in (0, 1):
            ring_bell(self.bell(self.members.place, writes))

    # -- what it tells

    def facts(self):
        others = self.members.others()
        told = {"end": ENDS[self.place], "slots": self.layout.slots, "longest": self.layout.frame}
        return super().facts() | told | {"other end": f"process {others[0].pid}" if others else "nobody"}

    def statistics(self):
        return {"packets to take": self.words.unread(self.channel(False))} | {
            "packets the other has not taken": self.words.unread(self.channel(True))
        }

    def kernel_drops(self):
        return 0

    def frames(self):
        return {f"ring of {end.name}": end.frames_here() for end in self.rings}


def in_use(name, places, users):
    """What is said of a pipe that has no free end for us."""
    who = f"process {', '.join(users)}" if users else "a process that ended just now"
    which = f"end `{ENDS[places[0]]}` of pipe `{name}` is" if len(places) == 1 else f"both ends of pipe `{name}` are"
    return Diagnostic(f"{which} in use by {who}", hint="name the other end or another pipe, or end that process")


def parse(device):
    """(the pipe's name, the places that this end may take)."""
    found = NAMED.fullmatch(device)
    if found is None:
        return device, (0, 1)
    return found[1] + found[3], (ENDS.index(found[2]),)


class _Half(_Sleeper):
    """What both ends know."""

    channel: u64
    other_event: i64

    def initialize(self):
        super().initialize()
        port = self.port
        self.use_ring(port.rings[self])
        writes = self.is_transmitter
        self.channel = port.base + port.channel(writes)
        self.use_layout(port.layout)
        self.use_bell(port.bell(port.place, writes), port.own.address)
        self.other_event = port.bell(1 - port.place, not writes)
        self.use_indexes(port.words, port.channel(writes))


class Receiver(_Half, _Reader, FromDevice):
    """From the channel into frames of the arena."""

    lossless = True
    timed = True
    knows = ("promisc", "sniffer")  # nothing is filtered, and nobody else hears it

    next: u32  # the slot to take
    seen: u32  # head as it was last read
    reads = {"hungry": "how often no frame was free", "naps": "how often it asked to be woken"}

    def use_indexes(self, words, channel):
        self.next = self.seen = words.index(channel + TAIL_AT)

    def look(self) -> u32:
        head = load_acquire_u32(self.channel + HEAD_AT)
        if head < self.depth:
            self.seen = head
        return between(self.next, self.seen, self.depth)

    def receive(self) -> u32:
        self.is_up()
        there = between(self.next, self.seen, self.depth)
        if there == 0:
            there = self.look()
            if there == 0 and self.is_tired():
                self.want(self.channel + DATA_WANTED)
                there = self.look()
        self.again_ns = NEVER
        if there != 0:
            at = self.take(self.channel, self.next, there)
            if at != self.next:
                self.next = at
                atomic_swap_u32(self.channel + TAIL_AT, at)
                self.wake_other(self.channel + ROOM_WANTED, self.other_event)
        return space(self.ring, self.slots)


class Transmitter(_Half, ToDevice):
    """From frames of the arena into the channel."""

    tells = True
    wait_ns = 0  # no completion is waited for: when the reader takes a packet is its own affair

    depth: u32  # slots of the channel
    rest: u32
    copied: u32  # in our ring: what is from here to head is not in the channel
    out: u32  # in the channel: head
    told: u32  # in the channel: tail, as far as it was told to our ring
    reads = {"naps": "how often it asked to be woken"}

    def configure(self):
        super().configure()
        if self.loses and self.completion_wait is None:
            self.patience = 10**9

    def use_layout(self, layout):
        self.depth, self.rest = layout.slots, layout.rest

    def use_indexes(self, words, channel):
        self.out, self.told = words.index(channel + HEAD_AT), words.index(channel + TAIL_AT)
        unread = words.unread(channel)
        for k in range(unread):
            at = channel + SLOTS_AT + (self.told + k) % self.depth * LINE
            self._ring.put(1 + k, Slot(0, words.get(at) & 0xFFFF))
        self._ring.head = self._ring.cur = self.copied = (1 + unread) % self._ring.size
        self._ring.tail = 0
        self.flying = unread

    def transmit(self):
        self.is_up()
        self.pass_frames()
        room = space(self.ring, self.slots)
        if room < self.slots >> 1 or self.bql:
            self.hear_taken()
            if self.is_tired() and self.is_stuck():
                self.want(self.channel + ROOM_WANTED)
                self.hear_taken()

    def is_stuck(self) -> flag:
        if self.bql and self.flying != 0:
            return True
        return space(self.ring, self.slots) == 0 or self.copied != mem_u32(self.ring + HEAD)

    def pass_frames(self):
        n = self.slots
        at = self.copied
        waiting = between(at, mem_u32(self.ring + HEAD), n)
        if waiting == 0:
            return
        count = min(waiting, self.depth - 1 - between(self.told, self.out, self.depth))
        to = self.out
        ahead = at
        for _ in bounded(count, MOST):
            put_length(self.channel, to, mem_u16(slot_at(self.ring, ahead) + 4))
            ahead = after(ahead, n)
            to = after(to, self.depth)
        to = self.out
        for _ in bounded(count, MOST):
            place = slot_at(self.ring, at)
            word = mem_u64(place)
            frame = u32(word)
            start = u32(mem_u64(place + 8)) & 0xFFFF
            put_packet(self.channel, to, self.depth, self.rest, frame_address(frame) + start, u32(word >> 32) & 0xFFFF)
            self.give_frame(frame)
            at = after(at, n)
            to = after(to, self.depth)
        self.copied = at
        self.out = to
        atomic_swap_u32(self.channel + HEAD_AT, to)
        self.wake_other(self.channel + DATA_WANTED, self.other_event)

    @entry
    def settle(self):
        self.hear_taken()

    def hear_taken(self):
        """What the reader took is room in our ring."""
        tail = load_acquire_u32(self.channel + TAIL_AT)
        if tail < self.depth and between(self.told, tail, self.depth) <= between(self.told, self.out, self.depth):
            taken = between(self.told, tail, self.depth)
            if taken != 0:
                self.told = tail
                self.complete(taken)

    def abandon(self):
        """What is in the channel stays there; what is not yet is given up."""
        head = mem_u32(self.ring + HEAD)
        at = self.copied
        for _ in bounded(between(at, head, self.slots), MOST):
            self.give_frame(mem_u32(slot_at(self.ring, at)))
            at = after(at, self.slots)
        self.copied = head

    def frames_here(self):
        return (self._ring.head - int(self.copied)) % self._ring.size

    @read("packets_in_flight", "packets that the other end has not taken")
    def read_packets_in_flight(self):
        self.call("settle")
        return super().read_packets_in_flight()

    @read("bytes_in_flight", "bytes of those")
    def read_bytes_in_flight(self):
        self.call("settle")
        return super().read_bytes_in_flight()
