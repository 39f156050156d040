"""Interfaces, switches and pipes by netmap: rings that the kernel and the router share (netmap(4)).

    FromDevice(eth0, METHOD NETMAP) -> … -> ToDevice(vale0:a, METHOD NETMAP)

Names are netmap's; `_netmap_abi` lists them: an interface eth0, the host's side of it eth0^, both eth0*, one ring
eth0-3, a port of a switch vale0:a, the ends of a pipe eth0{1 and eth0}1, a monitor eth0/rt.  It needs the kernel module
and the right to open /dev/netmap.  While an interface is open its packets do not reach the host.

Packets are copied between netmap's buffers and frames of the arena; with ZERO_COPY frames are buffers (`_netmap_over`),
and a packet that begins where its buffer does is forwarded without a copy, among ports of one memory.  What is spread
over several slots (NS_MOREFRAG) is joined, and what is longer than a buffer is split when it leaves; a packet is never
sent in part.  One RXSYNC is made when the rings are empty, one TXSYNC a batch.
"""

import select

from mezzo.elements import (
    NO_FRAME,
    Arg,
    Bool,
    bounded,
    flag,
    frame_address,
    load_acquire_u32,
    mem_copy,
    mem_u8,
    mem_u16,
    mem_u32,
    mem_u64,
    now,
    set_mem_u8,
    set_mem_u16,
    set_mem_u32,
    set_mem_u64,
    u16,
    u32,
    u64,
    walltime,
)
from mezzo.packet.arena import HEADROOM
from mezzo.ports import _netmap_abi as abi
from mezzo.ports import _netmap_port
from mezzo.ports._checksum import finish_if_partial
from mezzo.ports._netmap_half import SLOT, STUCK, THEFT, _Half
from mezzo.ports._netmap_port import (
    BROKEN,
    FILLED,
    OURS,
    PARTIAL,
    RECORD,
    RING_AT,
    SEEN,
    SLOTS,
)
from mezzo.ports._slots import HEAD, OUTGOING, TAIL, after, ahead, between, put_slot, release, slot_at, space
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import LARGEST
from mezzo.ports.to_device import ToDevice

Port = _netmap_port.Port
TXSYNC, RXSYNC = abi.TXSYNC, abi.RXSYNC
BUF_CHANGED, REPORT, MORE_FRAG, TX_MON, FIRST_BUFFER = 1, 2, 0x20, 0x40, abi.RESERVED_BUFFERS
POLLIN = select.POLLIN
MOST_RINGS, MOST_PARTS = 1024, 1024
NEVER = (1 << 64) - 1
SHORT_NS, NO_MEMORY_NS = 10**6, 10**6  # until a whole packet may fit; until a frame may be free
TOO_LONG = 1 << 20
STAGGER = 64
SECONDS, MICROSECONDS = abi.RING.offset["ts"], abi.RING.offset["ts"] + 8
# What became of a slot
PART, WHOLE = 0, 1  # or STUCK


class Receiver(_Half, FromDevice):
    """From netmap's buffers into frames."""

    timed = True
    knows = ("promisc", "sniffer", "outbound")

    kernel_time = Arg(Bool(), False, "the timestamp is when the kernel took packets off the device", positional=False)

    kernel_ns: u64
    events_at: u64
    turn: u32
    joining: u32  # rings that gave the beginning of a packet and not its end
    starved: u64
    too_long: u64
    finished: u64
    reads = {
        "starved": "how often packets waited because no frame was free",
        "too_long": "packets that no frame can hold",
        "finished": "checksums that were finished",
        "system_calls": "system calls so far",
    }

    # -- packet code

    def stamp(self) -> u64:
        return self.kernel_ns if self.kernel_time else walltime()

    def receive(self) -> u32:
        if self.again_ns != NEVER and now() < self.again_ns:
            return space(self.ring, self.slots)
        self.again_ns = NEVER
        n = self.gather_all()
        if n == 0 and self.gone == 0 and self.again_ns == NEVER and self.sync(RXSYNC):
            n = self.gather_all()
        if self.events_at != 0:
            # Only an end that found nothing sleeps until something comes; one that cannot take it has a timer.
            set_mem_u16(self.events_at, u16(POLLIN if n == 0 and self.again_ns == NEVER else 0))
        return n

    def gather_all(self) -> u32:
        if self.rings == 1:
            return self.gather(self.table)
        for _ in bounded(self.rings, MOST_RINGS):
            self.gather(self.table + u64(self.turn) * RECORD)
            self.turn = after(self.turn, self.rings)
        self.turn = after(self.turn, self.rings)
        return space(self.ring, self.slots)

    def gather(self, at: u64) -> u32:
        """Slots of one ring become slots of ours; how many those are now."""
        ring, n = mem_u64(at + RING_AT), u32(mem_u64(at + SLOTS))
        head, tail = mem_u32(ring + HEAD), load_acquire_u32(ring + TAIL)
        own, had = mem_u32(self.ring + TAIL), space(self.ring, self.slots)
        if not self.sound(at, head, tail) or head == tail:
            return had
        room: u32 = self.slots - 1 - had
        for _ in bounded(between(head, tail, n), LARGEST):
            if room == 0:
                break
            got = self.take(at, slot_at(ring, head), own)
            if got == STUCK:
                break
            head = after(head, n)
            if got == WHOLE:
                own = after(own, self.slots)
                room -= 1
        if self.kernel_time:
            self.kernel_ns = mem_u64(ring + SECONDS) * 1_000_000_000 + mem_u64(ring + MICROSECONDS) * 1000
        set_mem_u32(self.ring + TAIL, own)
        release(ring, head)
        set_mem_u64(at + OURS, head)
        set_mem_u64(at + SEEN, tail)
        return space(self.ring, self.slots)

    def take(self, at: u64, slot: u64, own: u32) -> u32:
        """One slot of the kernel's: WHOLE when slot `own` of ours is a packet now, PART of one, STUCK when it stays."""
        word = mem_u64(slot)
        index, length, flags = u64(u32(word)), u32(word >> 32) & 0xFFFF, u32(word >> 48)
        if index < FIRST_BUFFER or index >= self.buffer_count or length > self.buffer_size:
            return self.leave(at, SLOT)
        from_at = self.buffers + index * self.buffer_size
        if flags & MORE_FRAG != 0 or (self.joining != 0 and mem_u64(at + PARTIAL) != NO_FRAME):
            return self.join(at, own, from_at, length, flags)
        frame = self.take_frame()
        if frame == NO_FRAME:
            return self.starve()
        if self.zero_copy and index < self.swappable:
            return self.swap_in(at, slot, own, frame)
        start = self.start_of(frame)
        if start + length > self.frame_size:
            return self.refuse_long(frame)
        mem_copy(frame_address(frame) + start, from_at, length)
        return self.arrive(own, frame, start, length, flags)

    def start_of(self, frame: u32) -> u32:
        return self.first + (frame & 3) * STAGGER

    def swap_in(self, at: u64, slot: u64, own: u32, frame: u32) -> u32:
        """The buffer is the packet's frame, and the free frame takes its place in the ring."""
        word = mem_u64(slot)
        index = u32(word)
        if mem_u8(self.marks + index) != 0:
            self.give_frame(frame)
            return self.leave(at, THEFT)
        set_mem_u8(self.marks + index, 1)
        set_mem_u8(self.marks + frame, 0)
        length = u32(word >> 32) & 0xFFFF
        set_mem_u64(slot, u64(frame) | u64(length) << 32 | u64(BUF_CHANGED) << 48)
        return self.arrive(own, index, 0, length, u32(word >> 48))

    def join(self, at: u64, own: u32, from_at: u64, length: u32, flags: u32) -> u32:
        """One slot of a packet that has several."""
        frame: u32 = u32(mem_u64(at + PARTIAL))
        filled: u32 = u32(mem_u64(at + FILLED))
        if frame == NO_FRAME:
            frame = self.take_frame()
            if frame == NO_FRAME:
                return self.starve()
            filled = 0
            self.joining += 1
        start = self.start_of(frame)
        if start + filled + length <= self.frame_size:
            mem_copy(frame_address(frame) + start + filled, from_at, length)
        filled = min(filled + length, TOO_LONG)
        more = flags & MORE_FRAG != 0
        set_mem_u64(at + PARTIAL, frame if more else u32(NO_FRAME))
        set_mem_u64(at + FILLED, filled)
        if more:
            return PART
        self.joining -= 1
        if start + filled > self.frame_size or filled > 0xFFFF:
            return self.refuse_long(frame)
        return self.arrive(own, frame, start, filled, flags)

    def starve(self) -> u32:
        """No frame is free: what came waits in the ring."""
        self.starved += 1
        self.again_ns = now() + NO_MEMORY_NS
        return STUCK

    def refuse_long(self, frame: u32) -> u32:
        self.too_long += 1
        self.give_frame(frame)
        return PART

    def arrive(self, at: u32, frame: u32, start: u32, length: u32, flags: u32) -> u32:
        """A packet is whole, in a frame: it gets a slot of ours."""
        mark = u64(OUTGOING) << 48 if flags & TX_MON != 0 else u64(0)
        if self.finishes and finish_if_partial(frame_address(frame) + start, length):
            self.finished += 1
        put_slot(self.ring, at, u64(frame) | u64(length) << 32 | mark, start)
        return WHOLE

    # -- Python

    def configure(self):
        super().configure()
        spec = self.spec()
        if self.sniffer and spec.kind == "nic":
            self.error("SNIFFER: an interface in netmap mode is taken from the host; monitor it with another port")
        self.first = max(HEADROOM, self.headroom)
        self.finishes = spec.kind in ("nic", "host")
        self.lossless = spec.kind == "pipe"
        self.outbound = self.outbound or spec.kind == "monitor"

    def use_rings(self, table, found, ring):
        super().use_rings(table, found, ring)
        self.records = table.map
        if self.kernel_time:
            self._port.stamp_rings(found)

    def frames_here(self):
        places = range(PARTIAL, self.rings * RECORD, RECORD)
        parts = (int.from_bytes(self.records[at : at + 8], "little") for at in places)
        return self._ring.space + sum(part != NO_FRAME for part in parts)


class Transmitter(_Half, ToDevice):
    """From frames into netmap's buffers.

    A frame is free as soon as it was copied.  Its slot of our ring waits until the kernel's slots come back, so what is
    in flight is what the kernel has.
    """

    next: u32  # the first slot of ours that was not copied
    quiet: u32  # calls in a row that had nothing new to send
    loose: u32  # slots that came back and are of a packet that has more
    plain: flag  # is every packet one slot
    forgotten: u32  # slots in flight whose packets were given up
    vanished: u64
    reads = {
        "vanished": "packets dropped because the device is gone, or its ring is broken",
        "system_calls": "system calls so far",
    }

    # -- packet code

    def transmit(self):
        if self.gone != 0 or mem_u64(self.table + BROKEN) != 0:
            self.drop_all()
            return
        sent = self.hand_over(self.table)
        if mem_u64(self.table + BROKEN) != 0:
            return
        self.quiet = 0 if sent != 0 else self.quiet + 1
        # What was sent is looked for with the next batch; by itself only when somebody waits for it.
        if sent != 0 or self.bql or self.quiet > 1 or space(self.ring, self.slots) == 0 or self.next != self.head():
            self.sync(TXSYNC)
        self.collect(self.table)
        if self.next != self.head() and (self.armed <= now() or self.armed > now() + SHORT_NS):
            self.armed = now() + SHORT_NS
            self.timer_at(self.armed)

    def head(self) -> u32:
        return mem_u32(self.ring + HEAD)

    def hand_over(self, at: u64) -> u32:
        """Gives the kernel what there is room for; how many slots that took."""
        end = self.head()
        if self.next == end:
            return 0
        ring, n = mem_u64(at + RING_AT), u32(mem_u64(at + SLOTS))
        head, tail = mem_u32(ring + HEAD), load_acquire_u32(ring + TAIL)
        if not self.sound(at, head, tail):
            return 0
        room = between(head, tail, n)
        place: u32 = self.next
        used: u32 = 0
        for _ in bounded(self.slots, LARGEST):
            if place == end:
                break
            parts = self.send_one(at, slot_at(self.ring, place), head, room - used)
            if parts == 0:
                break
            used += parts
            head = ahead(head, parts, n)
            place = after(place, self.slots)
        if used != 0:
            self.next = place
            last = slot_at(ring, ahead(head, n - 1, n))
            set_mem_u16(last + 6, mem_u16(last + 6) | REPORT)
            release(ring, head)
            set_mem_u64(at + OURS, head)
        return used

    def send_one(self, at: u64, slot: u64, head: u32, room: u32) -> u32:
        """A packet of ours goes into slots from `head` on: how many; 0 when there is no room for all of it."""
        ring = mem_u64(at + RING_AT)
        word, start = mem_u64(slot), mem_u64(slot + 8) & 0xFFFF
        frame, length = u32(word), u32(word >> 32) & 0xFFFF
        parts: u32 = 1
        if length > self.buffer_size:
            parts = (length + self.buffer_size - 1) // self.buffer_size
        if parts > room or not self.have_buffers(at, head, parts):
            return 0
        set_mem_u16(slot + 6, u16(parts))
        if self.zero_copy and start == 0 and parts == 1 and self.swap_out(slot_at(ring, head), frame, length):
            return 1
        self.copy_out(at, head, frame_address(frame) + start, length)
        self.give_frame(frame)
        return parts

    def have_buffers(self, at: u64, head: u32, parts: u32) -> flag:
        """Do the slots from `head` on name buffers, none of them a frame of ours?"""
        ring, n = mem_u64(at + RING_AT), u32(mem_u64(at + SLOTS))
        place: u32 = head
        for _ in bounded(parts, LARGEST):
            index = mem_u32(slot_at(ring, place))
            if index < FIRST_BUFFER or u64(index) >= self.buffer_count:
                self.leave(at, SLOT)
                return False
            if self.zero_copy and u64(index) < self.swappable and mem_u8(self.marks + index) != 0:
                self.leave(at, THEFT)
                return False
            place = after(place, n)
        return True

    def swap_out(self, slot: u64, frame: u32, length: u32) -> flag:
        """The frame goes into the ring, and the buffer that was there is a free frame; can it be one?"""
        old = mem_u32(slot)
        if u64(old) >= self.swappable or u64(frame) >= self.swappable:
            return False
        set_mem_u8(self.marks + old, 1)
        set_mem_u8(self.marks + frame, 0)
        set_mem_u64(slot, u64(frame) | u64(length) << 32 | u64(BUF_CHANGED) << 48)
        self.give_frame(old)
        return True

    def copy_out(self, at: u64, head: u32, from_at: u64, length: u32):
        """Into the buffers that the slots have, one after another; all but the last say that more follows."""
        ring, n = mem_u64(at + RING_AT), u32(mem_u64(at + SLOTS))
        place: u32 = head
        done: u32 = 0
        for _ in bounded(MOST_PARTS, MOST_PARTS):
            slot = slot_at(ring, place)
            word = mem_u64(slot)
            piece = min(length - done, self.buffer_size)
            mem_copy(self.buffers + u64(u32(word)) * self.buffer_size, from_at + done, piece)
            done += piece
            # The kernel may have put another buffer there, which it has to hear of itself.
            flags = (word >> 48) & BUF_CHANGED
            if done != length:
                flags |= MORE_FRAG
            set_mem_u64(slot, u64(u32(word)) | u64(piece) << 32 | flags << 48)
            if done == length:
                break
            place = after(place, n)

    def collect(self, at: u64):
        """Takes back what the kernel is done with."""
        ring = mem_u64(at + RING_AT)
        head, tail = mem_u32(ring + HEAD), load_acquire_u32(ring + TAIL)
        seen, n = u32(mem_u64(at + SEEN)), u32(mem_u64(at + SLOTS))
        if tail == seen or not self.sound(at, head, tail):
            return
        set_mem_u64(at + SEEN, tail)
        moved: u32 = between(seen, tail, n)
        old = min(moved, self.forgotten)
        self.forgotten -= old
        moved += self.loose - old
        if self.plain:
            self.complete(moved)
            return
        done: u32 = 0
        place: u32 = after(mem_u32(self.ring + TAIL), self.slots)
        for _ in bounded(self.slots, LARGEST):
            parts = u32(mem_u16(slot_at(self.ring, place) + 6))
            if place == self.next or parts > moved:
                break
            moved -= parts
            done += 1
            place = after(place, self.slots)
        self.loose = moved
        self.complete(done)

    def abandon(self):
        """The slots in flight are used again: what comes back for them is nobody's."""
        ring = mem_u64(self.table + RING_AT)
        n = u32(mem_u64(self.table + SLOTS))
        seen = u32(mem_u64(self.table + SEEN))
        self.forgotten = between(after(seen, n), mem_u32(ring + HEAD), n)
        self.loose = 0
        self.give_waiting()

    def give_waiting(self) -> u32:
        """Frees the frames that were not copied; how many."""
        end = self.head()
        place: u32 = self.next
        freed: u32 = 0
        for _ in bounded(self.slots, LARGEST):
            if place == end:
                break
            self.give_frame(mem_u32(slot_at(self.ring, place)))
            place = after(place, self.slots)
            freed += 1
        self.next = end
        return freed

    def drop_all(self):
        self.vanished += self.give_waiting()
        self.complete(self.slots - 1 - space(self.ring, self.slots))

    # -- Python

    def configure(self):
        if self.spec().kind == "pipe":
            self.wait_ns = 0  # it is up to the other end when it takes what was sent
        super().configure()

    def initialize(self):
        super().initialize()
        self.plain = self.longest <= self.buffer_size

    def frames_here(self):
        return (self._ring.head - self.next) % self._ring.size
