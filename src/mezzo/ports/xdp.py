"""Interfaces by AF_XDP: packets come into frames of the arena and leave from them (docs/design/0002, ports/_xsk).

An XDP program on the interface hands packets to sockets, one socket a queue.  The best way that the device takes is
used: zero-copy, else the driver's XDP with a copy, else the generic XDP of any device; why better ones were refused is
in the handler `refusals`.  What goes to a socket does not reach the kernel's own stack.

The receive half makes packets of descriptors (by way of slots where a hook is on) and keeps FILL frames with the
kernel; it makes a system call only when the fill ring asks for it.  The transmit half moves slots to descriptors, kicks
the kernel until it has taken them, and brings the frames that completed home.  Both work on a table of records in
memory, one for each queue (`_xsk.record`).
"""

import os

from mezzo.elements import (
    Arg,
    Bool,
    Int,
    Kind,
    Many,
    bounded,
    flag,
    frame_address,
    frame_size,
    libc,
    load_acquire_u32,
    mem_copy,
    mem_u8,
    mem_u16,
    mem_u32,
    mem_u64,
    now,
    prefetch_frame,
    rare,
    set_mem_u8,
    set_mem_u32,
    set_mem_u64,
    store_release_u32,
    u8,
    u32,
    u64,
    walltime,
)
from mezzo.packet.arena import NO_FRAME
from mezzo.ports import _checksum, _xdp_port, level
from mezzo.ports._end import _End
from mezzo.ports._libc import address_of
from mezzo.ports._memory import Memory
from mezzo.ports._mtu import _WithMtu
from mezzo.ports._risen import FIRST, GATE, SIZE, WHOLE, _Risen
from mezzo.ports._slots import HEAD, TAIL, after, between, put_slot, slot_at, space
from mezzo.ports._xsk import (
    DONE_CONSUMER,
    DONE_ENTRIES,
    DONE_MASK,
    DONE_PRODUCER,
    FD,
    FILL_CONSUMER,
    FILL_ENTRIES,
    FILL_FLAGS,
    FILL_MASK,
    FILL_PRODUCER,
    MORE,
    MOST_QUEUES,
    PAGE,
    RECORD,
    RX_CONSUMER,
    RX_ENTRIES,
    RX_MASK,
    RX_PRODUCER,
    TX_CONSUMER,
    TX_ENTRIES,
    TX_FLAGS,
    TX_MASK,
    TX_PRODUCER,
    WAKE_UP,
)  # fmt: skip
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import LARGEST, RECEIVE, TRANSMIT, Ring
from mezzo.ports.to_device import ToDevice

Port = _xdp_port.Port
DONTWAIT = 0x40  # MSG_DONTWAIT
AGAIN, BUSY, NO_BUFFERS = -11, -16, -105  # the kernel takes the rest with the next call
PER_CALL = 32  # packets that older kernels take of a transmit ring in one call
AHEAD = 8  # descriptors whose frames are on their way to the cache
ROUNDS = LARGEST // PER_CALL
CHUNK, CHUNK_SHIFT = PAGE, PAGE.bit_length() - 1
MOST_PARTS = 17  # chunks that 64 kB touch


class Way(Kind):
    """A way to have AF_XDP."""

    words = f"one of {', '.join(_xdp_port.WAYS)}"

    def parse(self, text, env):
        if text.lower() not in _xdp_port.WAYS:
            raise ValueError(f"expected {self.words}, not `{text}`")
        return text.lower()


class _Half(_WithMtu, _End):
    """What both halves know."""

    table: u64  # records of this end's queues
    queues: u32
    scattered: u32  # 1: a packet may be in several chunks
    with_kernel: u64  # frames in the kernel's rings, by this end's books
    system_calls: u64
    recv_at: u64
    send_at: u64

    def use_sockets(self, sockets, scattered):
        """Python: the sockets of this end, as a table for packet code."""
        self.sockets, self.queues, self.scattered = sockets, len(sockets), int(scattered)
        table = Memory(RECORD * len(sockets))
        table.map[:] = b"".join(s.record() for s in sockets)
        self.table = table.address
        self._port.keep("free the table of sockets", table.free)
        self.recv_at, self.send_at = address_of("recv"), address_of("sendto")
        ring = Ring.make(sockets[0].sizes.rx, TRANSMIT if self.is_transmitter else RECEIVE)
        self._port.keep("free a ring", ring.close)
        self.use_ring(ring)


class Receiver(_Half, _Risen, FromDevice):
    """The receiving half."""

    knows = ("promisc", "sniffer")
    force = Arg(Bool(), False, "another's XDP program makes way", positional=False)
    mode = Arg(Way(), "any", "the one way that is taken: zero-copy, native, or generic", positional=False)
    take = Arg(Many(Int(0, 65535)), (), "Ethernet types that come here, others go to the host; all", positional=False)
    fill = Arg(Int(0, LARGEST), 0, "frames that the kernel has to fill; 0: as the arena allows", positional=False)
    busy_poll = Arg(Int(0, 10000), 0, "µs that the kernel polls the device when asked; 0: interrupts", positional=False)
    busy_budget = Arg(Int(1, 1024), 64, "most packets of one such poll", positional=False)

    odd: flag  # are descriptors more than whole packets: see `gather_odd`
    level: u32  # frames to keep with the kernel, each queue
    turn: u32
    starved: u64
    finished: u64
    cut_off: u64
    part: u32  # the frame of a packet whose rest is to come, or NO_FRAME
    part_start: u32
    part_length: u32

    # -- packet code

    def init(self):
        for queue in bounded(self.queues, MOST_QUEUES):
            self.supply(self.table + u64(queue) * RECORD, LARGEST)

    def take_all(self) -> u32:
        return self.ask_queues(u32(self.burst), walltime() if self.timestamp else u64(0))

    def receive(self) -> u32:
        n = space(self.ring, self.slots)
        # No more than the task takes at once: what was looked at here is in the cache still when it is a packet.
        most = min(self.slots - 1, u32(self.burst))
        return n + self.ask_queues(most - n, 0) if n < most else n

    def ask_queues(self, most: u32, stamp: u64) -> u32:
        """Each queue in turn: takes what arrived, and gives frames to fill; how many packets arrived."""
        n: u32 = 0
        asked = False
        for _ in bounded(self.queues, MOST_QUEUES):
            at = self.table + u64(self.turn) * RECORD
            self.turn = after(self.turn, self.queues)
            arrived = self.look(at, most - n)
            if arrived != 0:
                n += self.gather(at, arrived, stamp)
            # No more frames than came: those are in the cache still, which saves 4 ns a packet.
            most = arrived if arrived != 0 else u32(LARGEST)
            wanted = self.supply(at, most) or (self.busy_poll != 0 and arrived == 0)
            if wanted and not asked:
                asked = True
                self.poll_queue(at)
        self.turn = after(self.turn, self.queues)
        return n

    def poll_queue(self, at: u64):
        """Has the kernel look at the fill ring, or at the device."""
        self.system_calls += 1
        libc(self.recv_at, mem_u64(at + FD), 0, 0, DONTWAIT)

    def look(self, at: u64, room: u32) -> u32:
        """How many descriptors arrived, `room` at most.  The frames were with the kernel for long: all of them are
        fetched at once before the first is looked at."""
        consumer = mem_u32(mem_u64(at + RX_CONSUMER))
        n = min(load_acquire_u32(mem_u64(at + RX_PRODUCER)) - consumer, room)
        entries, mask = mem_u64(at + RX_ENTRIES), u32(mem_u64(at + RX_MASK))
        for i in bounded(min(n, AHEAD), AHEAD):
            self.fetch_ahead(entries + u64((consumer + i) & mask) * 16)
        return n

    def fetch_ahead(self, place: u64):
        address = mem_u64(place)
        prefetch_frame(u32(address // frame_size()), u32(address % frame_size()))

    def gather(self, at: u64, n: u32, stamp: u64) -> u32:
        """Takes `n` descriptors; how many packets they were.

        Senders were told to finish checksums.  One that was told otherwise since is caught by its first packet that is
        the first of a batch; from then on each is looked at.
        """
        consumer = mem_u32(mem_u64(at + RX_CONSUMER))
        entries, mask = mem_u64(at + RX_ENTRIES), u32(mem_u64(at + RX_MASK))
        memory = frame_address(0)
        if not self.up and not self.odd:
            first = entries + u64(consumer & mask) * 16
            self.look_at(memory + mem_u64(first), mem_u32(first + 8))
        if self.odd:
            return self.gather_odd(at, n, stamp)
        above: u32 = 0
        bytes: u64 = 0
        for i in bounded(n, LARGEST):
            place = entries + u64((consumer + i) & mask) * 16
            self.fetch_ahead(entries + u64((consumer + i + AHEAD) & mask) * 16)
            address, length = mem_u64(place), mem_u32(place + 8)
            frame, start = u32(address // frame_size()), u32(address % frame_size())
            if self.up and self.comes_up(frame, start, length):
                above += 1
                continue
            bytes += length
            self.hand_on(memory + address, frame, start, length, stamp)
        store_release_u32(mem_u64(at + RX_CONSUMER), consumer + n)
        self.account(n, n - above, bytes)
        return n

    @rare
    def gather_odd(self, at: u64, n: u32, stamp: u64) -> u32:
        """As `gather`, where packets may be in several chunks, or have partial checksums."""
        consumer = mem_u32(mem_u64(at + RX_CONSUMER))
        entries, mask = mem_u64(at + RX_ENTRIES), u32(mem_u64(at + RX_MASK))
        packets: u32 = 0
        above: u32 = 0
        bytes: u64 = 0
        for i in bounded(n, LARGEST):
            place = entries + u64((consumer + i) & mask) * 16
            address = mem_u64(place)
            frame: u32 = u32(address // frame_size())
            start: u32 = u32(address % frame_size())
            length: u32 = mem_u32(place + 8)
            if self.scattered != 0:
                if not self.join(frame, start, length, mem_u32(place + 12) & MORE):
                    continue
                frame = self.part
                start = self.part_start
                length = self.part_length
                self.part = NO_FRAME
            packets += 1
            if self.up and self.comes_up(frame, start, length):
                above += 1
                continue
            bytes_at = frame_address(frame) + start
            self.look_at(bytes_at, length)
            bytes += length
            self.hand_on(bytes_at, frame, start, length, stamp)
        store_release_u32(mem_u64(at + RX_CONSUMER), consumer + n)
        self.account(n, packets - above, bytes)
        return packets

    def hand_on(self, at: u64, frame: u32, start: u32, length: u32, stamp: u64):
        """A slot, where a hook is in between; else a packet."""
        if not self.direct:
            self.put(frame, start, length)
        elif length < self.least or u64(start) + length > frame_size():
            self.turn_away(frame, length)
        else:
            self.deliver(at, frame, start, length, 0, stamp)

    def look_at(self, at: u64, length: u32):
        if _checksum.may_be_partial(at):
            self.finish(at, length)

    @rare
    def finish(self, at: u64, length: u32):
        if _checksum.finish_if_partial(at, length):
            self.finished += 1
            self.odd = True

    def account(self, frames: u32, packets: u32, bytes: u64):
        self.with_kernel -= frames
        if self.direct:
            self.count += packets
            self.byte_count += bytes

    def comes_up(self, frame: u32, start: u32, length: u32) -> flag:
        """One with a record of the kernel's level goes on; is it done with?"""
        at = frame_address(frame) + start
        if u64(start) + length > frame_size() or start < SIZE:
            return False
        gate, is_whole = mem_u16(at - SIZE + GATE), mem_u16(at - SIZE) == WHOLE
        if gate != 0 and self.gates_at != 0:
            self.note_gate(frame, gate if is_whole else gate | FIRST)
        if is_whole:
            self.whole += 1
            return False
        self.rise(frame, start, length, at)
        return True

    def put(self, frame: u32, start: u32, length: u32):
        """As a slot, where a hook is in between."""
        tail = mem_u32(self.ring + TAIL)
        put_slot(self.ring, tail, u64(frame) | u64(length) << 32, u64(start))
        set_mem_u32(self.ring + TAIL, after(tail, self.slots))

    @rare
    def turn_away(self, frame: u32, length: u32):
        """It was counted, and is no packet."""
        self.count -= 1
        self.byte_count -= length
        self.refuse(frame, length)

    @rare
    def join(self, frame: u32, start: u32, length: u32, more: u32) -> flag:
        """One chunk of a packet, put where its first one is; is it the last one of a packet that is whole?"""
        size = frame_size()
        if self.part == NO_FRAME:
            self.part = frame
            self.part_start = start
            self.part_length = length
        else:
            end = self.part_start + self.part_length
            if end + length <= size:
                mem_copy(frame_address(self.part) + end, frame_address(frame) + start, length)
            self.part_length += length
            self.give_frame(frame)
        if more != 0:
            return False
        if self.part_start + self.part_length <= size:
            return True
        self.cut_off += 1
        self.give_frame(self.part)
        self.part = NO_FRAME
        return False

    def supply(self, at: u64, most: u32) -> flag:
        """Gives the kernel frames to fill up to `level`, `most` unless it runs out; does it want to be told?

        The free list is last in, first out; what was freed first is put first.  So frames go round in the order in
        which they lie in memory, for as long as the graph keeps it, and the CPU's prefetchers know the next: in any
        order the kernel's part costs 60 ns a packet more.
        """
        producer = mem_u32(mem_u64(at + FILL_PRODUCER))
        have = producer - load_acquire_u32(mem_u64(at + FILL_CONSUMER))
        if have < self.level:
            wanted = self.level - have
            n = min(wanted, most) if 4 * have >= self.level else wanted
            entries, mask = mem_u64(at + FILL_ENTRIES), u32(mem_u64(at + FILL_MASK))
            place: u32 = producer + n
            for _ in bounded(n, LARGEST):
                frame = self.take_frame()
                if frame == NO_FRAME:
                    self.starved += 1
                    break
                place -= 1
                set_mem_u64(entries + u64(place & mask) * 8, u64(frame) * frame_size())
            left = place - producer
            if left != 0:
                self.close_up(entries, mask, producer, n, left)
            store_release_u32(mem_u64(at + FILL_PRODUCER), producer + n - left)
            self.with_kernel += n - left
        return load_acquire_u32(mem_u64(at + FILL_FLAGS)) & WAKE_UP != 0

    @rare
    def close_up(self, entries: u64, mask: u32, first: u32, n: u32, gap: u32):
        """Of `n` entries the first ones, `gap` of them, are missing."""
        for i in bounded(n - gap, LARGEST):
            entry = mem_u64(entries + u64((first + gap + i) & mask) * 8)
            set_mem_u64(entries + u64((first + i) & mask) * 8, entry)

    # -- Python

    def waiting(self):
        """Frames in slots that are no packets yet."""
        return self._ring.space + (self.part != NO_FRAME)

    def configure(self):
        super().configure()
        if self.sniffer:
            self.error("SNIFFER: what XDP takes does not reach the host; say METHOD PACKET to read beside it")
        self.direct = not (self.faulty or self.limited or self.traced or self.mends)

    def queues_at_once(self):
        """On how many CPUs at once the kernel's half may run."""
        return os.cpu_count() or 1 if self.mode == "generic" else level.queues_at_once(self.devname)

    def use_sockets(self, sockets, scattered):
        super().use_sockets(sockets, scattered)
        sizes, frames = sockets[0].sizes, self._port.arena.frames
        # As many as can arrive, and no more than other ports and queues can spare: what waits at a port where nothing
        # arrives is of no use to those where something does.
        ports = sum(bool(port.receivers) for port in self.router.ports)
        spare = max(frames // (4 * max(ports, 2) * len(sockets)), 1)
        self.level = min(self.fill or min(spare, sizes.rx), sizes.fill, frames)
        self.part = NO_FRAME
        self.odd = scattered or not self._port.checksums_are_whole


class Transmitter(_Half, ToDevice):
    """The sending half."""

    next: u32  # the first slot that the kernel has not
    pieces: u64  # of multi-buffer packets: a byte for each frame, how many chunks of it are with the kernel
    busy: u64

    # -- packet code

    def transmit(self):
        at = self.table
        self.hand_over(at)
        if mem_u32(mem_u64(at + TX_PRODUCER)) != load_acquire_u32(mem_u64(at + TX_CONSUMER)):
            self.kick(at)
        self.bring_home(at)

    def hand_over(self, at: u64):
        """Slots up to head become descriptors, as far as there is room."""
        head = mem_u32(self.ring + HEAD)
        if self.next == head:
            return
        producer = mem_u32(mem_u64(at + TX_PRODUCER))
        entries, mask = mem_u64(at + TX_ENTRIES), u32(mem_u64(at + TX_MASK))
        room = mask + 1 - (producer - load_acquire_u32(mem_u64(at + TX_CONSUMER)))
        place = self.next
        for _ in bounded(self.slots, LARGEST * 2):
            slot = slot_at(self.ring, place)
            word, start = mem_u64(slot), mem_u64(slot + 8) & 0xFFFF
            frame, length = u32(word), u32(word >> 32) & 0xFFFF
            parts = chunks(start, length) if self.scattered != 0 else u32(1)
            if place == head or room < parts:
                break
            address = u64(frame) * frame_size() + start
            if parts == 1:
                put_descriptor(entries + u64(producer & mask) * 16, address, length, 0)
            else:
                put_parts(entries, producer, mask, address, length)
            if self.scattered != 0:
                set_mem_u8(self.pieces + frame, u8(parts))
            producer += parts
            room -= parts
            place = after(place, self.slots)
        store_release_u32(mem_u64(at + TX_PRODUCER), producer)
        self.with_kernel += between(self.next, place, self.slots)
        self.next = place

    def kick(self, at: u64):
        """Has the kernel send until it has taken everything, or takes no more (a full device, or buffers)."""
        consumer_at, producer = mem_u64(at + TX_CONSUMER), mem_u32(mem_u64(at + TX_PRODUCER))
        before = load_acquire_u32(consumer_at)
        for _ in range(ROUNDS):
            if load_acquire_u32(mem_u64(at + TX_FLAGS)) & WAKE_UP == 0:
                return
            self.system_calls += 1
            got = libc(self.send_at, mem_u64(at + FD), 0, 0, DONTWAIT, 0, 0)
            taken = load_acquire_u32(consumer_at)
            if got < 0 and got != AGAIN and got != BUSY and got != NO_BUFFERS:
                return  # the device is down, or gone
            if taken == producer:
                return
            if taken == before:
                self.busy += 1
                return
            before = taken

    def bring_home(self, at: u64):
        """Frames that were sent are free again."""
        consumer = mem_u32(mem_u64(at + DONE_CONSUMER))
        n = load_acquire_u32(mem_u64(at + DONE_PRODUCER)) - consumer
        if n == 0:
            return
        entries, mask = mem_u64(at + DONE_ENTRIES), u32(mem_u64(at + DONE_MASK))
        done: u32 = 0
        for _ in bounded(n, LARGEST):
            frame = u32(mem_u64(entries + u64(consumer & mask) * 8) // frame_size())
            consumer += 1
            if self.scattered != 0:
                left = mem_u8(self.pieces + frame) - 1
                set_mem_u8(self.pieces + frame, left)
                if left != 0:
                    continue
            self.give_frame(frame)
            done += 1
        store_release_u32(mem_u64(at + DONE_CONSUMER), consumer)
        self.with_kernel -= done
        self.complete(done)

    def give_up(self):
        """Lost is what the kernel has taken and does not give back; what it has not taken yet waits for the device."""
        at = self.table
        head, ring = mem_u32(self.ring + HEAD), mem_u32(mem_u64(at + TX_PRODUCER))
        waiting = between(self.next, head, self.slots) + ring - load_acquire_u32(mem_u64(at + TX_CONSUMER))
        self.progress = now()
        if self.flying > waiting:
            n = self.flying - waiting
            self.lost += n
            self.reclaim(n)
            self.flying = waiting
            self.say_lost(n)

    # -- Python

    def wire_trouble(self) -> str:
        """Why the kernel's level cannot send here; "" when it can."""
        return level.cannot_redirect(self.devname)

    def cannot_turn(self) -> bool:
        """A veth whose peer has no program queues what is sent by XDP_TX and does not wake the peer (Linux 6.18)."""
        return level.is_veth(self.devname)

    def waiting(self):
        """Frames in slots that the kernel has not got yet."""
        return (self._ring.head - self.next) % self._ring.size

    def use_sockets(self, sockets, scattered):
        super().use_sockets(sockets, scattered)
        counts = Memory(self._port.arena.frames if scattered else 1)
        self.pieces = counts.address
        self._port.keep("free the counts of pieces", counts.free)


def chunks(start: u64, length: u32) -> u32:
    """How many of the kernel's chunks the bytes touch."""
    return u32(((start & (CHUNK - 1)) + length + CHUNK - 1) >> CHUNK_SHIFT)


def put_descriptor(at: u64, address: u64, length: u32, options: u32):
    set_mem_u64(at, address)
    set_mem_u64(at + 8, u64(length) | u64(options) << 32)


def put_parts(entries: u64, producer: u32, mask: u32, address: u64, length: u32):
    """A packet as one descriptor for each chunk it touches; all but the last say that more follows."""
    at: u64 = address
    left: u32 = length
    place: u32 = producer
    for _ in bounded(MOST_PARTS, MOST_PARTS):
        size = min(left, CHUNK - (u32(at) & (CHUNK - 1)))
        left -= size
        put_descriptor(entries + u64(place & mask) * 16, at, size, MORE if left != 0 else 0)
        place += 1
        at += size
        if left == 0:
            break
