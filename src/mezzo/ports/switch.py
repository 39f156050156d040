"""A learning switch between routers, in one process or several: netmap's VALE, in memory that all of them share.

    FromDevice(office:anna, METHOD SWITCH) -> …      ToDevice(office:anna, METHOD SWITCH)     port `anna` of `office`

The switch is there as long as somebody has a port of it, and nobody runs it: the sender looks addresses up and copies
packets to their receivers.  A frame goes where its destination was last seen as a source, to all others while that is
unknown or a group, never back; frames of fewer than 14 bytes are dropped.  Where a receiver has no room its copy is
dropped and counted, and the sender never waits.

Nothing is locked.  From each port to each other leads a channel of its own, and an entry of the table of 1024
addresses is one word: address, place, and the generation of who has the place, so what was learned of a port that is
gone, even of one that was killed, is forgotten with it.  Frames that a killed port had sent wholly are delivered.

Which process may: those of one user, in one network namespace (see `_members`; how it works: see `_shared`).
"""

import struct

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import (
    Array,
    atomic_swap_u32,
    bounded,
    flag,
    frame_address,
    i64,
    load_acquire_u32,
    load_acquire_u64,
    mem_u32,
    mem_u64,
    read,
    set_mem_u64,
    store_release_u32,
    store_release_u64,
    u32,
    u64,
)
from mezzo.ports._members import Members, Taken
from mezzo.ports._shared import (
    APART,
    BATCH,
    DROPS_AT,
    GENERATION,
    HEAD_AT,
    NEVER,
    TAIL_AT,
    WANTED,
    Layout,
    SharedPort,
    Words,
    _Reader,
    _Sleeper,
    put_length,
    put_packet,
    ring_bell,
)
from mezzo.ports._slots import HEAD, after, between, slot_at, space
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring
from mezzo.ports.to_device import ToDevice
from mezzo.wire.address import format_ether

PLACES = 32
ADDRESSES = 1024
TABLE = 8 * ADDRESSES
GENERATIONS = 255
LEFT_AT = TAIL_AT + 8  # in a channel: packets that a reader who is gone had not taken
HIGH_AT, THERE_AT = 64, 128  # in the port's own memory: how many places were ever taken, and who has each now
ADDRESS, GROUP = 0xFFFF_FFFF_FFFF, 1
SPREAD = 0x9E37_79B9_7F4A_7C15
NOWHERE = 0xFFFF_FFFF
SHORTEST = 14
MOST = 1 << 16


class Port(SharedPort):
    """One port of a switch."""

    method = "switch"
    default_slots = 512

    def open(self, arena):
        self.refuse_what_cannot_be()
        self.make_own()
        name, label = parse(self.device)
        self.members = Members("switch", name, PLACES, label)
        self.members.came, self.members.went = self.came, self.went
        layout = Layout(PLACES, self.wanted_slots() or self.default_slots, arena.frame_size, TABLE)
        try:
            self.members.join(
                range(PLACES),
                lambda: (layout.facts(), layout.size, PLACES),
                lambda facts: self.check_layout(facts, arena),
                self.take_place,
            )
        except Taken as taken:
            raise MezzoError(in_use(self.device, name, taken)) from None
        self.defer("leaving the switch", self.members.close)
        self.map_segment()
        self.place = self.members.place
        self.dropped_before = self.dropped()
        self.rings = {}
        for end in self.ends:
            direction, least = (TRANSMIT, end.burst + 1) if end.is_transmitter else (RECEIVE, 2 * BATCH)
            self.rings[end] = Ring.make(max(least, 2 * BATCH), direction)
            self.keep("a ring", self.rings[end].close)

    def take_place(self, memory, place):
        """What was sent to who had this place before, and was not taken, is for nobody."""
        layout = Layout(**self.members.facts)
        words = Words(memory, layout)
        for sender in range(PLACES):
            channel = layout.channel(sender, place)
            left = words.unread(channel)
            if left:
                words.add(channel + LEFT_AT, left)
            words.put(channel + TAIL_AT, words.index(channel + HEAD_AT))
        generation = words.get(APART * place + GENERATION) % GENERATIONS + 1
        words.put(APART * place + GENERATION, generation)
        return generation

    # -- news, from the members' thread

    def came(self, member):
        high = max(self.own_word(HIGH_AT), member.place + 1)
        self.set_own(HIGH_AT, high)
        self.set_own(THERE_AT + 4 * member.place, member.generation)

    def went(self, member, polite):
        """A port that is gone is sent nothing; who it was about to wake is woken by us."""
        if self.own_word(THERE_AT + 4 * member.place) == member.generation:
            self.set_own(THERE_AT + 4 * member.place, 0)
        if not polite:
            self.tell(f"port `{member.label}` of the switch is gone with process {member.pid}")
        ring_bell(self.members.bells[self.members.place])

    def own_word(self, at):
        return struct.unpack_from("=I", self.own.map, at)[0]

    def set_own(self, at, value):
        struct.pack_into("=I", self.own.map, at, value)

    # -- what it tells

    def facts(self):
        others = ", ".join(f"{m.label} (process {m.pid})" for m in self.members.others())
        told = {"place": self.place, "slots": self.layout.slots, "longest": self.layout.frame}
        return super().facts() | told | {"other ports": others or "none"}

    def dropped(self):
        """Packets to whoever has this place that its senders found no room for."""
        channels = (self.layout.channel(sender, self.place) for sender in range(PLACES))
        return sum(self.words.get64(channel + DROPS_AT) for channel in channels)

    def kernel_drops(self):
        return self.dropped() - self.dropped_before

    def statistics(self):
        waiting = (self.words.unread(self.layout.channel(sender, self.place)) for sender in range(PLACES))
        return {"packets to take": sum(waiting), "dropped because this port was full": self.kernel_drops()}

    def table(self):
        """(address, place) of all that is known of ports that are there."""
        there = {m.place: m.generation for m in self.members.others()} | {self.place: self.members.generation}
        entries = struct.unpack_from(f"={ADDRESSES}Q", self.members.map, self.layout.table_at)
        known = [(e & ADDRESS, e >> 48 & 0xFF) for e in entries if e and there.get(e >> 48 & 0xFF) == e >> 56]
        return sorted((int.from_bytes(address.to_bytes(6, "little"), "big"), place) for address, place in known)

    def frames(self):
        return {f"ring of {end.name}": end.frames_here() for end in self.rings}


def parse(device):
    name, colon, label = device.partition(":")
    if not colon or not label:
        raise MezzoError(
            Diagnostic(f"`{device}` names no port of a switch", hint="say SWITCH:PORT, such as `office:anna`")
        )
    return name, label


def in_use(device, name, taken):
    """What is said of a port that is taken, or a switch that is full."""
    if not taken.full:
        what = f"port `{device}` is in use by process {taken.users[0]}"
        return Diagnostic(what, hint="name another port, or end that process")
    return Diagnostic(
        f"all {PLACES} ports of switch `{name}` are in use", hint="use a second switch, and a router between"
    )


class _Half(_Sleeper):
    """What both ends know."""

    me: u32
    there: u64  # the address of the port's own memory
    lines: u64  # of the lines of places
    channel_size: u64

    def initialize(self):
        super().initialize()
        port = self.port
        self.use_ring(port.rings[self])
        self.use_bell(port.members.bells[port.place], port.own.address, not self.is_transmitter)
        self.me, self.there, self.lines = port.place, port.own.address, port.base
        self.channel_size = port.layout.channel_size
        self.use_layout(port.layout)
        self.use_channels(port)

    @read("table", "addresses that the switch knows, and the place of each one's port")
    def read_table(self):
        return "".join(f"{format_ether(address)} {place}\n" for address, place in self.port.table())

    def places(self) -> u32:
        """Places that were ever taken, as far as we know."""
        return min(load_acquire_u32(self.there + HIGH_AT), PLACES)


class Receiver(_Half, _Reader, FromDevice):
    """From the channels of all senders, in turn."""

    lossless = True
    timed = True
    knows = ("promisc", "sniffer")  # nothing is filtered, and nobody else hears it

    first: u64  # the channel from place 0 to us
    turn: u32
    next: Array[u32, PLACES]
    reads = {"hungry": "how often no frame was free", "naps": "how often it asked to be woken"}

    def use_channels(self, port):
        self.first = port.base + port.layout.channel(0, self.me)
        for sender in range(PLACES):
            self.next[sender] = port.words.index(port.layout.channel(sender, self.me) + TAIL_AT)

    def receive(self) -> u32:
        self.is_up()
        self.again_ns = NEVER
        self.scan()
        if space(self.ring, self.slots) == 0 and self.is_tired():
            self.want(self.lines + self.me * APART + WANTED)
            self.scan()
        return space(self.ring, self.slots)

    def scan(self):
        """Takes what is there, beginning each time with another sender."""
        count = self.places()
        at: u32 = self.turn if self.turn < count else 0
        self.turn = at + 1
        for _ in bounded(count, PLACES):
            if space(self.ring, self.slots) >= BATCH:
                break
            if at != self.me:
                self.take_from(at)
            at = after(at, count)

    def take_from(self, sender: u32):
        channel = self.first + u64(sender) * PLACES * self.channel_size
        head = load_acquire_u32(channel + HEAD_AT)
        at = self.next[sender]
        if head != at and head < self.depth:
            end = self.take(channel, at, between(at, head, self.depth))
            self.next[sender] = end
            store_release_u32(channel + TAIL_AT, end)


class Transmitter(_Half, ToDevice):
    """Looks addresses up and copies packets to their receivers."""

    depth: u32
    rest: u32
    generation: u64
    table: u64
    first: u64  # the channel from us to place 0
    copied: u32
    out: Array[u32, PLACES]  # head of each channel, as we know it
    shown: Array[u32, PLACES]  # as everybody sees it
    told: Array[u32, PLACES]  # tail, as it was last read
    events: Array[u32, PLACES]
    full: u64
    short: u64
    floods: u64
    home: u64
    reads = {
        "full": "copies dropped because their receiver had no room",
        "short": "frames of fewer than 14 bytes, dropped",
        "floods": "frames to everybody",
        "home": "frames to an address at this port, dropped",
    }

    def use_layout(self, layout):
        self.depth, self.rest = layout.slots, layout.rest

    def use_channels(self, port):
        layout, words = port.layout, port.words
        self.first = port.base + layout.channel(self.me, 0)
        self.table = port.base + layout.table_at
        self.generation = port.members.generation
        for place in range(PLACES):
            channel = layout.channel(self.me, place)
            self.out[place] = self.shown[place] = words.index(channel + HEAD_AT)
            self.told[place] = words.index(channel + TAIL_AT)
            self.events[place] = port.members.bells[place]

    def transmit(self):
        n = self.slots
        at = self.copied
        count = between(at, mem_u32(self.ring + HEAD), n)
        if count == 0:
            return
        for _ in bounded(count, MOST):
            place = slot_at(self.ring, at)
            word = mem_u64(place)
            frame = u32(word)
            self.forward(frame_address(frame) + (mem_u64(place + 8) & 0xFFFF), u32(word >> 32) & 0xFFFF)
            self.give_frame(frame)
            at = after(at, n)
        self.copied = at
        self.show()
        self.complete(count)

    def forward(self, at: u64, length: u32):
        if length < SHORTEST:
            self.short += 1
            return
        to, source = mem_u64(at) & ADDRESS, (mem_u64(at + 4) >> 16) & ADDRESS
        if (source & GROUP) == 0:
            self.learn(source)
        place: u32 = NOWHERE
        if (to & GROUP) == 0:
            place = self.find(to)
        if place == self.me:
            self.home += 1
        elif place != NOWHERE:
            self.put(place, at, length)
        else:
            self.floods += 1
            for other in bounded(self.places(), PLACES):
                if other != self.me and self.who(other) != 0:
                    self.put(other, at, length)

    def who(self, place: u32) -> u32:
        """The generation of who has a place; 0: nobody."""
        return mem_u32(self.there + THERE_AT + u64(place) * 4)

    def entry_of(self, address: u64) -> u64:
        return self.table + ((address * SPREAD) >> 54) * 8

    def learn(self, address: u64):
        entry = self.entry_of(address)
        word = address | u64(self.me) << 48 | self.generation << 56
        if load_acquire_u64(entry) != word:
            store_release_u64(entry, word)

    def find(self, address: u64) -> u32:
        word = load_acquire_u64(self.entry_of(address))
        place, generation = u32(word >> 48) & 0xFF, u32(word >> 56)
        if (word & ADDRESS) != address or generation == 0:
            return NOWHERE
        if place == self.me:
            return place if u64(generation) == self.generation else u32(NOWHERE)
        return place if place < PLACES and self.who(place) == generation else u32(NOWHERE)

    def put(self, place: u32, at: u64, length: u32):
        """A copy for a receiver, if it has room."""
        channel = self.first + u64(place) * self.channel_size
        to = self.out[place]
        next = after(to, self.depth)
        if next == self.told[place] and not self.has_moved(channel, place):
            set_mem_u64(channel + DROPS_AT, mem_u64(channel + DROPS_AT) + 1)
            self.full += 1
            return
        put_length(channel, to, length)
        put_packet(channel, to, self.depth, self.rest, at, length)
        self.out[place] = next

    def has_moved(self, channel: u64, place: u32) -> flag:
        """Has the receiver taken something since we looked?"""
        tail = load_acquire_u32(channel + TAIL_AT)
        if tail >= self.depth or tail == self.told[place]:
            return False
        self.told[place] = tail
        return True

    def show(self):
        """All that the batch put into channels is sent."""
        count = self.places()
        for place in bounded(count, PLACES):
            if self.out[place] != self.shown[place]:
                store_release_u32(self.first + u64(place) * self.channel_size + HEAD_AT, self.out[place])
        atomic_swap_u32(self.scratch + 16, 0)  # the barrier between the heads and what the sleepers want
        for place in bounded(count, PLACES):
            if self.out[place] != self.shown[place]:
                self.shown[place] = self.out[place]
                self.wake_other(self.lines + u64(place) * APART + WANTED, i64(self.events[place]))

    def abandon(self):
        """Nothing to do: what is in our ring was copied; the completions were lost on purpose."""

    def frames_here(self):
        return (self._ring.head - int(self.copied)) % self._ring.size
