"""Interfaces by AF_PACKET: the kernel copies every packet into a ring that both see; packets leave by sendmmsg.

It works on every interface, beside the kernel's own stack (SNIFFER) or instead of it (SNIFFER false).  The kernel says
exactly what it left to the device: a virtio-net header in front of each packet tells of unfinished checksums, which are
finished, and of super-packets, which are cut (`_cut`); a VLAN tag that it took out is put back.

Several ends with a QUEUE each share the packets of a device by flow (PACKET_FANOUT); ends with the same QUEUE have a
copy of each packet.  A packet that does not fit the ring's frames is beside the ring (`_packet_socket`).
"""

import errno
import os
import select
import socket
import struct

from mezzo.elements import (
    NO_FRAME,
    Arg,
    Bool,
    Int,
    Named,
    bounded,
    flag,
    frame_address,
    i64,
    libc,
    load_acquire_u32,
    mem_copy,
    mem_u8,
    mem_u16,
    mem_u32,
    mem_u64,
    set_mem_u32,
    set_mem_u64,
    store_release_u32,
    u16,
    u32,
    u64,
)
from mezzo.ports import _packet_socket as ps
from mezzo.ports import privileged
from mezzo.ports._cut import (
    FIRST,
    FRAME_START,
    LARGEST,
    MARGIN,
    STAGGER,
    TAG_SIZE,
    _Cutting,
    finish_as_told,
    put_tag,
    shift_start,
)
from mezzo.ports._libc import address_of
from mezzo.ports._memory import Memory
from mezzo.ports._mtu import _WithMtu, set_mtu
from mezzo.ports._segment import HEADER_SIZE, KIND
from mezzo.ports._slots import HEAD, OUTGOING, TAIL, after, between, put_slot, slot_at
from mezzo.ports._watch import Watching
from mezzo.ports.from_device import FromDevice
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring
from mezzo.ports.to_device import ToDevice

# struct tpacket2_hdr; sockaddr_ll is 32 bytes behind it
LENGTH, KEPT, PLACE, TAG, TAG_PROTOCOL, TYPE = 4, 8, 12, 24, 26, 42
USER, COPY, TAGGED, PROTOCOL_VALID = 0x1, 0x2, 0x10, 0x40
SENT_BY_HOST = 4  # PACKET_OUTGOING
VLAN = 0x8100
DONT_WAIT = 0x40
SOL_SOCKET, SO_ERROR = 1, 4
AGAIN, NO_BUFFERS = errno.EAGAIN, errno.ENOBUFS
DOWN, NO_DEVICE, NO_ADDRESS = errno.ENETDOWN, errno.ENODEV, errno.ENXIO
BATCH = 64
MOST = 1 << 16
FRAMES = 4096  # of a receive ring
LOOK = 16  # of so many empty looks at the ring, one asks for the socket's error
MESSAGE, VECTOR = 64, 16  # struct mmsghdr; struct iovec
SHARING = {"hash": ps.FANOUT_HASH, "balance": ps.FANOUT_LOAD_BALANCE, "cpu": ps.FANOUT_CPU, "queue": ps.FANOUT_QUEUE}


class Port(Watching):
    """The sockets of one interface: one with a ring for each receiving end, one for each sending end."""

    method = "packet"
    shares_queues = True  # every socket has its own copy of each packet

    def __init__(self, device="", **hooks):
        super().__init__(device, **hooks)
        self.link = {}
        self.sockets = {}
        self.rings = {}
        self.group = None

    @staticmethod
    def refusal(device):
        """Why an interface cannot be had this way: every one can."""
        return ""

    def open(self, arena):
        set_mtu(self)
        for number, end in self.receivers.items():
            self.open_receiver(number, end, arena)
        self.share()
        for end in self.transmitters.values():
            self.open_transmitter(end)
        first = self.ends[0]
        self.watch_link(self.link["index"], lambda line: first.say(f"{first.name}: {line}"))

    def ask_socket(self):
        (descriptor,), self.link = privileged.ask({"do": "packet", "device": self.device})
        return descriptor

    def open_receiver(self, number, end, arena):
        made = ps.ReceiveRing(self.ask_socket(), self.device, self.link["mtu"], FRAMES, end.outbound)
        self.defer("closing the socket", made.close)
        self.keep("the kernel's ring", made.free)
        self.sockets[number] = made
        made.start(end.protocol or ps.ALL)
        if end.promisc:
            made.be_promiscuous()
        if end.sniffer is False:
            (link,), _ = privileged.ask({"do": "alone", "device": self.device})
            self.defer("giving the host its packets again", lambda: os.close(link))
        memory = Memory(MARGIN + LARGEST)
        self.keep("memory of super-packets", memory.free)
        end.kernel_at, end.kernel_size, end.kernel_frames = made.address, made.frame_size, made.frames
        end.fd, end.whole, end.frame_room = made.fd, memory.address, arena.frame_size
        end.recv_at, end.getsockopt_at = address_of("recv"), address_of("getsockopt")
        self.make_ring(end, RECEIVE, 2 * BATCH)

    def make_ring(self, end, direction, slots):
        self.rings[end] = Ring.make(end.slots_ or slots, direction, end.queue)
        self.keep("the ring", self.rings[end].close)

    def share(self):
        """Ends with queues of their own share the packets by flow."""
        sharing = [number for number in self.sockets if number >= 0]
        if len(sharing) > 1:
            for number in sharing:
                self.group = self.sockets[number].join(self.group, self.receivers[number].fanout)

    def open_transmitter(self, end):
        listening = next((s for s in self.sockets.values() if s.outgoing), None)
        if listening is None:
            made = socket.socket(fileno=self.ask_socket())
            self.defer("closing the socket", made.close)
            made.bind((self.device, 0))
        else:
            # A socket does not hear what it sends itself.  One that hears what the host sends would hear another.
            made = listening.socket
        ps.enlarge(made, socket.SO_SNDBUF, ps.SO_SNDBUFFORCE, ps.QUEUED)
        if end.bypass:
            made.setsockopt(ps.SOL_PACKET, ps.QDISC_BYPASS, 1)
        memory = Memory(BATCH * (MESSAGE + 2 * VECTOR) + HEADER_SIZE)
        self.keep("memory of messages", memory.free)
        write_messages(memory, prefixed=listening is not None)
        end.messages, end.vectors = memory.address, memory.address + BATCH * MESSAGE + VECTOR
        end.fd, end.send_at = made.fileno(), address_of("sendmmsg")
        self.make_ring(end, TRANSMIT, 4 * BATCH)

    # -- what it tells

    def facts(self):
        told = super().facts() | {k: self.link[k] for k in ("index", "kind", "mac", "mtu") if k in self.link}
        if self.sockets:
            told["promiscuous"] = any(end.promisc for end in self.receivers.values())
            told["checksums"] = "unfinished ones are finished"
            told["super-packets"] = "are cut into frames"
            told["VLAN tags"] = "are put back"
        if self.group is not None:
            told["fanout"] = f"group {self.group}"
        return told

    def statistics(self):
        if self.state == "open":
            for made in self.sockets.values():
                made.count()
        received, dropped = (sum(getattr(s, n) for s in self.sockets.values()) for n in ("received", "dropped"))
        return {"received": received, "dropped": dropped} if self.sockets else {}

    def kernel_drops(self):
        return self.statistics().get("dropped")

    def descriptors(self):
        found = [(self.receivers[number], made.fd, select.POLLIN) for number, made in self.sockets.items()]
        return found + [(end, end.fd, select.POLLOUT) for end in self.transmitters.values()]

    def frames(self):
        return {f"ring of {end.name}": len(ring.slots()) for end, ring in self.rings.items()}

    def longest(self):
        return self.link["mtu"] + 14 + TAG_SIZE

    def mac(self):
        return int(self.link.get("mac", "").replace(":", "") or "0", 16)


def write_messages(memory, prefixed):
    """What stays the same in BATCH messages: each has two vectors, of which the first is an empty virtio-net header,
    for a socket that wants one."""
    vectors = memory.address + BATCH * MESSAGE
    header = vectors + BATCH * 2 * VECTOR
    for k in range(BATCH):
        pair = vectors + k * 2 * VECTOR
        at, count = (pair, 2) if prefixed else (pair + VECTOR, 1)
        struct.pack_into("=QI4xQQQQi4xI4x", memory.map, k * MESSAGE, 0, 0, at, count, 0, 0, 0, 0)
        struct.pack_into("=QQ", memory.map, pair - memory.address, header, HEADER_SIZE)


class Receiver(FromDevice, _Cutting, _WithMtu):
    """From the kernel's ring into frames of the arena."""

    knows = ("promisc", "sniffer", "outbound", "protocol")
    fanout = Arg(Named(SHARING, Int(0, 5)), 0, "how ends with a QUEUE share", positional=False)

    kernel_at: u64  # the kernel's ring
    kernel_size: u32
    kernel_frames: u32
    kernel_next: u32
    fd: i64
    recv_at: u64
    getsockopt_at: u64
    looks: u32
    missed: u64
    downs: u64
    reads = {
        "missed": "long packets that came while no room was left beside the ring",
        "downs": "how often the interface went down",
    }

    def initialize(self):
        super().initialize()
        self.use_ring(self.port.rings[self])

    def receive(self) -> u32:
        head, tail, n = mem_u32(self.ring + HEAD), mem_u32(self.ring + TAIL), self.slots
        room = min(n - 1 - between(head, tail, n), BATCH)
        for _ in bounded(room, BATCH):
            at = self.kernel_at + u64(self.kernel_next) * self.kernel_size
            status: u32 = 0
            if not self.cutting():
                status = load_acquire_u32(at)
                if status & USER == 0:
                    break
                if self.is_long(at):
                    self.take_long(at, status)
                    self.hand_back(at)
                    continue
            f = self.take_frame()
            if f == NO_FRAME:
                break
            start = FRAME_START + (f & 3) * STAGGER
            to = frame_address(f) + start
            if self.cutting():
                put_slot(self.ring, tail, u64(f) | u64(self.next_piece(to)) << 32, start)
            else:
                length = mem_u32(at + KEPT)
                source = at + mem_u16(at + PLACE)
                mem_copy(to, source, length)
                finish_as_told(source - HEADER_SIZE, to, length)
                if status & TAGGED != 0:
                    put_tag(to, self.tag_protocol(at, status), mem_u16(at + TAG))
                    start -= TAG_SIZE
                    length += TAG_SIZE
                put_slot(self.ring, tail, u64(f) | u64(length) << 32 | self.flags_of(at), start)
                self.hand_back(at)
            tail = after(tail, n)
        set_mem_u32(self.ring + TAIL, tail)
        if head == tail:
            self.look()
        return between(head, tail, n)

    def is_long(self, at: u64) -> flag:
        """Does a packet need more than to be copied into a frame?"""
        length = mem_u32(at + KEPT)
        kind = mem_u8(at + mem_u16(at + PLACE) - HEADER_SIZE + KIND)
        return kind != 0 or mem_u32(at + LENGTH) != length or length + FIRST > self.frame_room

    def take_long(self, at: u64, status: u32):
        """Takes a packet in hand, out of the ring or from beside it."""
        to = self.whole + MARGIN
        length = mem_u32(at + KEPT)
        if status & COPY != 0:
            got = libc(self.recv_at, self.fd, to - HEADER_SIZE, LARGEST, DONT_WAIT)
            if got < HEADER_SIZE or got == LARGEST:
                self.missed += 1
                return
            length = u32(got) - HEADER_SIZE
        elif mem_u32(at + LENGTH) != length:
            self.missed += 1
            return
        else:
            mem_copy(to - HEADER_SIZE, at + mem_u16(at + PLACE) - HEADER_SIZE, length + HEADER_SIZE)
        mem_copy(self.whole, to - HEADER_SIZE, HEADER_SIZE)
        if status & TAGGED != 0:
            put_tag(to, self.tag_protocol(at, status), mem_u16(at + TAG))
            shift_start(self.whole)
            to -= TAG_SIZE
            length += TAG_SIZE
        self.begin(self.whole, to, length)

    def tag_protocol(self, at: u64, status: u32) -> u16:
        return mem_u16(at + TAG_PROTOCOL) if status & PROTOCOL_VALID != 0 else u16(VLAN)

    def flags_of(self, at: u64) -> u64:
        """The flags of a slot, at their place in its first word."""
        return u64(OUTGOING) << 48 if self.outbound and mem_u8(at + TYPE) == SENT_BY_HOST else u64(0)

    def hand_back(self, at: u64):
        """The frame of the kernel's ring is the kernel's again."""
        store_release_u32(at, 0)
        self.kernel_next = after(self.kernel_next, self.kernel_frames)

    def look(self):
        """Takes an error off the socket, which would wake us for ever: the interface went down."""
        self.looks += 1
        if self.looks % LOOK == 0:
            size, error = self.whole + 16, self.whole + 24
            set_mem_u32(size, 4)
            libc(self.getsockopt_at, self.fd, SOL_SOCKET, SO_ERROR, error, size)
            if mem_u32(error) != 0:
                self.downs += 1


class Transmitter(ToDevice, _WithMtu):
    """From frames of the arena to the interface, which has copied them when the call comes back."""

    wait_ns, unsent = 0, True  # what is in the ring has not been taken yet, and there are no completions
    bypass = Arg(Bool(), False, "go past the interface's queueing discipline", positional=False)

    fd: i64
    send_at: u64
    messages: u64
    vectors: u64
    waits: u64
    full: u64
    downs: u64
    errors: u64
    reads = {
        "waits": "how often the socket's buffer was full",
        "full": "packets that the queueing discipline dropped",
        "downs": "packets dropped because the interface is down",
        "errors": "packets that the kernel refused",
    }

    def initialize(self):
        super().initialize()
        self.use_ring(self.port.rings[self])

    def transmit(self):
        for _ in bounded(MOST, MOST):
            if self.send_some() == 0:
                break

    def send_some(self) -> u32:
        """One system call; how many packets it was the end of."""
        n = self.slots
        first = after(mem_u32(self.ring + TAIL), n)
        count = min(between(first, mem_u32(self.ring + HEAD), n), BATCH)
        if count == 0:
            return 0
        at = first
        for k in bounded(count, BATCH):
            place = slot_at(self.ring, at)
            word = mem_u64(place)
            vector = self.vectors + u64(k) * (2 * VECTOR)
            set_mem_u64(vector, frame_address(u32(word)) + (mem_u64(place + 8) & 0xFFFF))
            set_mem_u64(vector + 8, word >> 32 & 0xFFFF)
            at = after(at, n)
        done = self.judge(libc(self.send_at, self.fd, self.messages, count, DONT_WAIT), count)
        for _ in bounded(done, BATCH):
            self.give_frame(mem_u32(slot_at(self.ring, first)))
            first = after(first, n)
        self.complete(done)
        return done

    def judge(self, answer: i64, count: u32) -> u32:
        """How many packets are done with, by what the system call said."""
        if answer >= 0:
            return u32(answer)
        if answer == -AGAIN:
            self.waits += 1
            return 0
        if answer == -NO_BUFFERS:
            self.full += 1
            return 1
        if answer == -DOWN or answer == -NO_DEVICE or answer == -NO_ADDRESS:
            self.downs += count
            return count
        self.errors += 1
        return 1
