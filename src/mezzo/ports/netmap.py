"""Interfaces, switches and pipes by netmap: rings that the kernel and the router share (netmap(4)).

    FromDevice(eth0, METHOD NETMAP) -> … -> ToDevice(vale0:a, METHOD NETMAP)

Names are netmap's; `_netmap_abi` lists them: an interface eth0, the host's side of it eth0^, both eth0*, one ring
eth0-3, a port of a switch vale0:a, the ends of a pipe eth0{1 and eth0}1, a monitor eth0/rt.  It needs the kernel module
and the right to open /dev/netmap.  While an interface is open its packets do not reach the host.

Packets are copied between netmap's buffers and frames of the arena; with ZERO_COPY frames are buffers (`_netmap_over`),
and a packet that begins where its buffer does is forwarded without a copy, among ports of one memory.  What is spread
over several slots (NS_MOREFRAG) is joined, and what is longer than a buffer is split when it leaves; a packet is never
sent in part.  One RXSYNC is made when the rings are empty, one TXSYNC a batch.

Rules of rings, looked at whenever the driver does: indexes are in the ring, tail never goes back, nobody else moves
head.  A ring where one is broken is told once and left alone; the others go on.
"""

import errno
import select

from mezzo.base import MezzoError
from mezzo.elements import (
    NO_FRAME,
    Arg,
    Bool,
    ConfigError,
    bounded,
    flag,
    frame_address,
    i64,
    libc,
    load_acquire_u32,
    mem_copy,
    mem_u16,
    mem_u32,
    mem_u64,
    now,
    python,
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
from mezzo.ports._end import _End
from mezzo.ports._mtu import _WithMtu
from mezzo.ports._netmap_port import (
    BROKEN,
    BUFFER_COUNT,
    BUFFER_SIZE,
    BUFFERS,
    FILLED,
    OURS,
    PART,
    RECORD,
    RING_AT,
    SEEN,
    SLOTS,
)
from mezzo.ports._slots import HEAD, OUTGOING, TAIL, after, between, put_slot, release, slot_at, space
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import LARGEST
from mezzo.ports.to_device import ToDevice

Port = _netmap_port.Port
TXSYNC, RXSYNC = abi.TXSYNC, abi.RXSYNC
BUF_CHANGED, REPORT, MORE_FRAG, TX_MON, FIRST_BUFFER = 1, 2, 0x20, 0x40, abi.RESERVED_BUFFERS
POLLIN = select.POLLIN
RETRIED = (-errno.EAGAIN, -errno.EINTR, -errno.EBUSY)
MOST_RINGS = 1024
NEVER = (1 << 64) - 1
SHORT_NS, NO_MEMORY_NS = 10**6, 10**6  # until a whole packet may fit; until a frame may be free
TOO_LONG = 1 << 20
STAGGER = 64
SECONDS, MICROSECONDS = abi.RING.offset["ts"], abi.RING.offset["ts"] + 8
# Why a ring is left alone
INDEX, BACKWARDS, STRANGER, SLOT = 1, 2, 3, 4
RULES = {
    INDEX: "an index is out of the ring",
    BACKWARDS: "tail went backwards",
    STRANGER: "somebody else moved head: is another program on the same ring?",
    SLOT: "a slot names no buffer, or more bytes than a buffer has",
}


class _Half(_WithMtu, _End):
    """What both ends know."""

    zero_copy = Arg(Bool(), False, "frames are netmap's buffers, which ports of one memory exchange", positional=False)

    swappable: u64  # frames below this one are buffers
    table: u64  # records of this end's rings
    rings: u32
    fd: i64
    ioctl_at: u64
    system_calls: u64
    busy: u64
    gone: u32

    def sound(self, at: u64, head: u32, tail: u32) -> flag:
        """Do the rules hold in the ring of a record?"""
        n = u32(mem_u64(at + SLOTS))
        if mem_u64(at + BROKEN) != 0:
            return False
        ours, seen = u32(mem_u64(at + OURS)), u32(mem_u64(at + SEEN))
        if head == ours and tail < n and between(head, tail, n) >= between(head, seen, n):
            return True
        rule: u32 = BACKWARDS
        if head != ours:
            rule = STRANGER
        if tail >= n or head >= n:
            rule = INDEX
        self.leave(at, rule)
        return False

    def leave(self, at: u64, rule: u32):
        """A ring where a rule was broken is left alone."""
        set_mem_u64(at + BROKEN, rule)
        self.say_broken(u32((at - self.table) // RECORD), rule)

    def sync(self, request: u64) -> flag:
        """One system call; did it work?"""
        self.system_calls += 1
        answer = libc(self.ioctl_at, self.fd, request, 0)
        if answer >= 0:
            return True
        if answer in RETRIED:
            self.busy += 1
        else:
            self.gone = 1
            self.say_gone(u32(-answer))
        return False

    @python
    def say_broken(self, number, rule):
        self._port.told["trouble"] = f"ring {self.found[number].name}: {RULES[rule]}"
        self.say(f"{self.name}: ring {self.found[number].name} of `{self.device}` is left alone: {RULES[rule]}")

    @python
    def say_gone(self, number):
        said = self._port.state == "gone"
        what = self._port.lose(number)
        for end in self._port.ends:
            end.gone = 1
            self.router.unwatch(end, self._port.fd)
            end.wake_task()
        if not said:
            self.say(f"{self.name}: netmap port `{self.device}`: {what}; the rest goes on")

    # -- Python

    def spec(self):
        try:
            return abi.parse(self.devname)
        except MezzoError as trouble:
            told = trouble.diagnostics[0]
            raise ConfigError(f"{told.message}; {told.hint}" if told.hint else told.message) from None

    def use_rings(self, table, found, ring):
        self.found, self.table, self.rings = found, table.address, len(found)
        self.fd, self.ioctl_at = self._port.fd, self._port.kernel.ioctl_at
        self.swappable = self._port.swappable
        self.use_ring(ring)


class Receiver(_Half, FromDevice):
    """From netmap's buffers into frames."""

    timed = True
    knows = ("promisc", "sniffer", "outbound")

    kernel_time = Arg(Bool(), False, "the timestamp is when the kernel took packets off the device", positional=False)

    kernel_ns: u64
    events_at: u64
    turn: u32
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
        ring = mem_u64(at + RING_AT)
        head, tail = mem_u32(ring + HEAD), load_acquire_u32(ring + TAIL)
        own, had = mem_u32(self.ring + TAIL), space(self.ring, self.slots)
        if not self.sound(at, head, tail) or head == tail:
            return had
        n, buffers, size = u32(mem_u64(at + SLOTS)), mem_u64(at + BUFFERS), mem_u64(at + BUFFER_SIZE)
        count = mem_u64(at + BUFFER_COUNT)
        part: u32 = u32(mem_u64(at + PART))
        filled: u32 = u32(mem_u64(at + FILLED))
        room: u32 = self.slots - 1 - had
        for _ in bounded(between(head, tail, n), LARGEST):
            if room == 0:
                break
            word = mem_u64(slot_at(ring, head))
            index, length, flags = u64(u32(word)), u32(word >> 32) & 0xFFFF, u32(word >> 48)
            if index < FIRST_BUFFER or index >= count or length > size:
                self.leave(at, SLOT)
                break
            if part == NO_FRAME:
                part = self.take_frame()
                if part == NO_FRAME:
                    self.starved += 1
                    self.again_ns = now() + NO_MEMORY_NS
                    break
                filled = 0
                if self.zero_copy and index < self.swappable and flags & MORE_FRAG == 0:
                    set_mem_u64(slot_at(ring, head), u64(part) | u64(length) << 32 | u64(BUF_CHANGED) << 48)
                    head = after(head, n)
                    self.arrive(own, u32(index), 0, length, flags)
                    own = after(own, self.slots)
                    room -= 1
                    part = NO_FRAME
                    continue
            start = self.first + (part & 3) * STAGGER
            if start + filled + length <= self.frame_size:
                mem_copy(frame_address(part) + start + filled, buffers + index * size, length)
            filled = min(filled + length, TOO_LONG)
            head = after(head, n)
            if flags & MORE_FRAG != 0:
                continue
            if start + filled > self.frame_size or filled > 0xFFFF:
                self.too_long += 1
                self.give_frame(part)
            else:
                self.arrive(own, part, start, filled, flags)
                own = after(own, self.slots)
                room -= 1
            part = NO_FRAME
        if self.kernel_time:
            self.kernel_ns = mem_u64(ring + SECONDS) * 1_000_000_000 + mem_u64(ring + MICROSECONDS) * 1000
        set_mem_u64(at + PART, part)
        set_mem_u64(at + FILLED, filled)
        set_mem_u32(self.ring + TAIL, own)
        release(ring, head)
        set_mem_u64(at + OURS, head)
        set_mem_u64(at + SEEN, tail)
        return space(self.ring, self.slots)

    def arrive(self, at: u32, frame: u32, start: u32, length: u32, flags: u32):
        """A packet is whole, in a frame: it gets a slot of ours."""
        mark = u64(OUTGOING) << 48 if flags & TX_MON != 0 else u64(0)
        if self.finishes and finish_if_partial(frame_address(frame) + start, length):
            self.finished += 1
        put_slot(self.ring, at, u64(frame) | u64(length) << 32 | mark, start)

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

    def frames_of_slots(self):
        if self._ring is None:
            return []
        parts = (int.from_bytes(self.records[at : at + 8], "little") for at in self.places())
        return [slot.frame for slot in self._ring.slots()] + [part for part in parts if part != NO_FRAME]

    def places(self):
        return range(PART, self.rings * RECORD, RECORD)


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
        """Copies what there is room for; how many slots that took."""
        end = self.head()
        if self.next == end:
            return 0
        ring = mem_u64(at + RING_AT)
        head, tail = mem_u32(ring + HEAD), load_acquire_u32(ring + TAIL)
        if not self.sound(at, head, tail):
            return 0
        n, buffers, size = u32(mem_u64(at + SLOTS)), mem_u64(at + BUFFERS), mem_u64(at + BUFFER_SIZE)
        room = between(head, tail, n)
        place: u32 = self.next
        last: u32 = head
        used: u32 = 0
        for _ in bounded(self.slots, LARGEST):
            if place == end:
                break
            slot = slot_at(self.ring, place)
            word, start = mem_u64(slot), mem_u64(slot + 8) & 0xFFFF
            frame, length = u32(word), u32(word >> 32) & 0xFFFF
            parts = u32((u64(length) + size - 1) // size) if u64(length) > size else u32(1)
            if used + parts > room:
                break
            if self.zero_copy and start == 0 and parts == 1 and self.swap(slot_at(ring, head), frame, length):
                last = head
                head = after(head, n)
                used += 1
                set_mem_u16(slot + 6, 1)
                place = after(place, self.slots)
                continue
            from_at: u64 = frame_address(frame) + start
            left: u32 = length
            for _ in bounded(parts, LARGEST):
                piece = min(left, u32(size))
                left -= piece
                last = head
                self.put(slot_at(ring, head), buffers, size, from_at, piece, left != 0)
                from_at += piece
                head = after(head, n)
            set_mem_u16(slot + 6, u16(parts))
            self.give_frame(frame)
            used += parts
            place = after(place, self.slots)
        if used != 0:
            self.next = place
            slot = slot_at(ring, last)
            set_mem_u16(slot + 6, mem_u16(slot + 6) | REPORT)
            release(ring, head)
            set_mem_u64(at + OURS, head)
        return used

    def swap(self, slot: u64, frame: u32, length: u32) -> flag:
        """The frame goes into a slot, and the buffer that was there is a free frame; can it be one?"""
        old = mem_u32(slot)
        if old >= self.swappable or old < FIRST_BUFFER or frame >= self.swappable:
            return False
        set_mem_u64(slot, u64(frame) | u64(length) << 32 | u64(BUF_CHANGED) << 48)
        self.give_frame(old)
        return True

    def put(self, slot: u64, buffers: u64, size: u64, from_at: u64, length: u32, more: flag):
        """Into the buffer that the slot has.  The kernel may have put another one there, and says so by a flag."""
        word = mem_u64(slot)
        mem_copy(buffers + u64(u32(word)) * size, from_at, length)
        flags = (word >> 48) & BUF_CHANGED
        if more:
            flags |= MORE_FRAG
        set_mem_u64(slot, u64(u32(word)) | u64(length) << 32 | flags << 48)

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
        self.plain = self.longest <= self._port.buffer_size

    def frames_of_slots(self):
        ring = self._ring
        if ring is None:
            return []
        return [ring.slot(ring.after(self.next, k)).frame for k in range((ring.head - self.next) % ring.size)]
