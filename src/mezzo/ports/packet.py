"""Interfaces by AF_PACKET: the kernel copies every packet into a ring that both see; packets leave by sendmmsg.

It works on every interface, beside the kernel's own stack (SNIFFER) or instead of it (SNIFFER false).  The kernel says
exactly what it left to the device: a virtio-net header in front of each packet tells of unfinished checksums, which are
finished, and of super-packets, which are cut (`_cut`); a VLAN tag that it took out is put back.

Several ends with a QUEUE each share the packets of a device by flow (PACKET_FANOUT); ends with the same QUEUE have a
copy of each packet.  A packet that does not fit the ring's frames is beside the ring (`_packet_socket`).
"""

import os
import select
import socket
import struct
from contextlib import suppress

from mezzo.base import Diagnostic, MezzoError, Note
from mezzo.elements import (
    NO_FRAME,
    Arg,
    Bool,
    Duration,
    Int,
    Named,
    bounded,
    flag,
    frame_address,
    i64,
    libc,
    mem_copy,
    mem_u8,
    mem_u16,
    mem_u32,
    rare,
    set_mem_u32,
    u8,
    u16,
    u32,
    u64,
)
from mezzo.ports import _attach, _packet_filter, privileged
from mezzo.ports import _packet_socket as ps
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
from mezzo.ports._messages import BATCH, MESSAGE, VECTOR
from mezzo.ports._mtu import _WithMtu, set_mtu
from mezzo.ports._packet_ring import _Walking
from mezzo.ports._packet_send import DONT_WAIT, _ByMessages, _ByRing
from mezzo.ports._segment import HEADER_SIZE, KIND
from mezzo.ports._slots import HEAD, OUTGOING, TAIL, after, between, put_slot
from mezzo.ports._watch import Watching
from mezzo.ports.from_device import FromDevice
from mezzo.ports.port import placed
from mezzo.ports.ring import RECEIVE, TRANSMIT, Ring
from mezzo.ports.to_device import ToDevice

COPY, TAGGED, PROTOCOL_VALID = 0x2, 0x10, 0x40
NOTHING, PACKET, PIECE, LATER = 0, 1, 2, 3
SENT_BY_HOST = 4  # PACKET_OUTGOING
VLAN = 0x8100
SOL_SOCKET, SO_ERROR = 1, 4
FRAMES = 4096  # of a receive ring
BYTES = 8 << 20  # of one of blocks
BEFORE = 80  # bytes in front of a packet in a ring frame: header, sockaddr_ll, the virtio-net header
SLOTS = 4 * BATCH  # of a transmit ring
SHORT = 64  # bytes that are copied at once
LOOK = 16  # of so many empty looks at the ring, one asks for the socket's error
SHARING = {"hash": ps.FANOUT_HASH, "balance": ps.FANOUT_LOAD_BALANCE, "cpu": ps.FANOUT_CPU, "queue": ps.FANOUT_QUEUE}


class Port(Watching):
    """The sockets of one interface: one with a ring for each receiving end, one for each sending end."""

    method, by_name = "packet", True
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
        program = self.compile_filter(end)
        made = self.sockets[number] = self.open_receiving_ring(end)
        if program:
            made.filter(program)
        made.start(end.protocol or ps.ALL)
        if end.promisc:
            made.be_promiscuous()
        if end.sniffer is False:
            (link,), _ = privileged.ask({"do": "alone", "device": self.device})
            self.defer("giving the host its packets again", lambda: os.close(link))
            self.belongings.descriptors.append(link)
        memory = Memory(MARGIN + LARGEST)
        self.keep("memory of super-packets", memory.free)
        end.use_kernel_ring(made)
        end.fd, end.whole, end.frame_room = made.fd, memory.address, arena.frame_size
        end.recv_at, end.getsockopt_at = address_of("recv"), address_of("getsockopt")
        self.make_ring(end, RECEIVE, 2 * BATCH)

    def open_receiving_ring(self, end):
        descriptor = self.ask_socket()
        if end.version == 2:
            shape = ps.frames_for(self.link["mtu"], BEFORE, FRAMES)
        else:
            shape = ps.blocks_for(BYTES, max(1, -(-end.block_wait // 10**6)))
        layout = ps.LAYOUTS[end.version]
        send = self.shared_slots(layout) if end.outbound and not self.listeners() else None
        return self.hold(ps.Rings(descriptor, self.device, layout, receive=shape, send=send, outgoing=end.outbound))

    def compile_filter(self, end):
        """The program of BPF_FILTER; what is wrong with it is told with the end that has it."""
        try:
            return _packet_filter.compiled(end.bpf_filter, self.device) if end.bpf_filter else b""
        except MezzoError as trouble:
            raise MezzoError(*(placed(d, end) for d in trouble.diagnostics)) from None

    def hold(self, made):
        self.defer("closing the socket", made.close)
        self.keep("the kernel's ring", made.free)
        self.belongings.descriptors.append(made.fd)
        self.belongings.take_map(made.address, made.map, made.let_go)
        return made

    def make_ring(self, end, direction, slots):
        self.rings[end] = Ring.make(end.slots_ or slots, direction, end.queue)
        self.keep("the ring", self.rings[end].close)

    def share(self):
        """Ends with queues of their own share the packets by flow."""
        sharing = [number for number in self.sockets if number >= 0]
        if len(sharing) > 1:
            for number in sharing:
                self.group = self.sockets[number].join(self.group, self.receivers[number].fanout)

    def listeners(self):
        return [made for made in self.sockets.values() if made.outgoing]

    def shared_slots(self, layout):
        """The shape of a ring to send from, for a socket that hears what the host sends and what we must not hear."""
        end = next((end for end in self.transmitters.values() if end.tx_ring), None)
        if end is None:
            return None
        if len(self.transmitters) > 1:
            what = f"`{end.name}`: with OUTBOUND all ends of {self.device} share a socket, and TX_RING is for one"
            raise MezzoError(Diagnostic(what, end.place, hint="leave TX_RING or OUTBOUND away"))
        return self.sending_slots(end, layout)

    def sending_slots(self, end, layout):
        return ps.frames_for(self.link["mtu"], layout.header + HEADER_SIZE, end.slots_ or SLOTS)

    def open_sending_ring(self, end, listening):
        """Its slots are in the mapping of the socket that listens, where there is one."""
        if listening is None:
            descriptor, layout = self.ask_socket(), ps.LAYOUTS[2]
            listening = self.hold(ps.Rings(descriptor, self.device, layout, send=self.sending_slots(end, layout)))
            listening.start(0)
        end.use_kernel_ring(listening)
        return listening.socket

    def open_transmitter(self, end):
        listening = next(iter(self.listeners()), None)
        if end.tx_ring:
            made = self.open_sending_ring(end, listening)
        elif listening is None:
            made = socket.socket(fileno=self.ask_socket())
            self.defer("closing the socket", made.close)
            made.bind((self.device, 0))
        else:
            # A socket does not hear what it sends itself.  One that hears what the host sends would hear another.
            made = listening.socket
        ps.enlarge(made, socket.SO_SNDBUF, ps.SO_SNDBUFFORCE, ps.QUEUED)
        if end.bypass:
            made.setsockopt(ps.SOL_PACKET, ps.QDISC_BYPASS, 1)
        end.fd = made.fileno()
        self.belongings.descriptors.append(end.fd)
        self.make_ring(end, TRANSMIT, SLOTS)
        if not end.tx_ring:
            memory = Memory(BATCH * (MESSAGE + 2 * VECTOR) + HEADER_SIZE)
            self.keep("memory of messages", memory.free)
            write_messages(memory, prefixed=listening is not None)
            end.messages, end.vectors = memory.address, memory.address + BATCH * MESSAGE + VECTOR

    def look_around(self, others):
        """XDP comes first: what a program takes no packet socket hears."""
        with suppress(OSError, MezzoError):
            there = _attach.attached_to(self.link["index"]) if self.receivers else []
            for program in there:
                self.tell_before(program, [p for p in others if p.method == "xdp" and p.device == self.device])

    def tell_before(self, program, ports):
        first = next(iter(self.receivers.values()))
        who = next((end for port in ports for end in port.receivers.values()), None)
        takes = f"`{who.name}` reads by XDP" if who else f"the XDP program `{program.name}` (id {program.id}) takes"
        what = f"packets of {self.device} that {takes} do not come here"
        notes = (Note("which is here", who.place),) if who is not None and who.place is not None else ()
        hint = "read by one method, and give copies of the packets to both (Tee)" if who else ""
        first.say(placed(Diagnostic(what, None, notes, hint, "warning"), first).render())

    # -- what it tells

    def facts(self):
        told = super().facts() | {k: self.link[k] for k in ("index", "kind", "mac", "mtu") if k in self.link}
        if self.sockets:
            told |= self.hearing()
            told["ring"] = ", ".join(sorted({f"TPACKET_V{end.version}" for end in self.receivers.values()}))
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
        names = ["received", "dropped"] + ["freezes"] * any(end.version == 3 for end in self.receivers.values())
        return {name: sum(getattr(s, name) for s in self.sockets.values()) for name in names if self.sockets}

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


class Receiver(FromDevice, _Cutting, _Walking, _WithMtu):
    """From the kernel's ring into frames of the arena."""

    knows = ("promisc", "sniffer", "outbound", "protocol", "bpf_filter")
    fanout = Arg(Named(SHARING, Int(0, 5)), 0, "how ends with a QUEUE share", positional=False)
    tpacket = Arg(Int(2, 3), 2, "the kernel's ring: 2, packet by packet, or 3, block by block", positional=False)
    block_wait = Arg(Duration(), 10**6, "TPACKET 3: how long a block waits to be full; whole ms", positional=False)

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

    def configure(self):
        super().configure()
        self.set_layout(self.tpacket)
        self.direct = not (self.faulty or self.limited or self.traced or self.mends)

    def initialize(self):
        super().initialize()
        self.use_ring(self.port.rings[self])

    def receive(self) -> u32:
        head, tail, n = mem_u32(self.ring + HEAD), mem_u32(self.ring + TAIL), self.slots
        room = min(n - 1 - between(head, tail, n), BATCH)
        if self.version == 2:
            self.touch(room)
        for _ in bounded(room, BATCH):
            found = self.find()
            if found == LATER:
                continue
            f = self.take_frame() if found != NOTHING else u32(NO_FRAME)
            if f == NO_FRAME:
                break
            got = self.fill(f, found)
            put_slot(self.ring, tail, u64(f) | got >> 32 << 32, got & 0xFFFF)
            tail = after(tail, n)
        set_mem_u32(self.ring + TAIL, tail)
        if head == tail:
            self.look()
        return between(head, tail, n)

    def take_all(self) -> u32:
        """As `receive` and what follows it, without slots in between."""
        n, stamp = min(u32(self.burst), BATCH), self.stamp() if self.timestamp else u64(0)
        done: u32 = 0
        if self.version == 2:
            self.touch(n)
        for _ in bounded(n, BATCH):
            found = self.find()
            if found == LATER:
                done += 1
                continue
            f = self.take_frame() if found != NOTHING else u32(NO_FRAME)
            if f == NO_FRAME:
                break
            got = self.fill(f, found)
            self.take_in(u64(f) | got >> 32 << 32, got & 0xFFFF, stamp)
            done += 1
        if done == 0:
            self.look()
        return done

    def find(self) -> u8:
        """What is next: NOTHING, a PACKET, a PIECE of the one in hand, or LATER: one was taken in hand."""
        if not self.cutting() and self.there() and not self.is_long(self.packet_at):
            return PACKET
        return self.find_other()

    @rare
    def find_other(self) -> u8:
        if self.cutting():
            return PIECE
        if not self.there():
            return NOTHING
        self.take_long(self.packet_at)
        self.done()
        return LATER

    def fill(self, f: u32, found: u8) -> u64:
        """Copies it into a frame; gives its start there, its length from bit 32, its flags from bit 48."""
        start = FRAME_START + (f & 3) * STAGGER
        to = frame_address(f) + start
        if found == PIECE:
            return u64(start) | u64(self.piece(to)) << 32
        at = self.packet_at
        length, flags = mem_u32(at + self.at_kept), self.flags_of(at)
        source = at + mem_u16(at + self.at_place)
        if self.version == 2 and length <= SHORT:
            mem_copy(to, source, SHORT)  # without a call; the ring's frames and ours are longer
        else:
            mem_copy(to, source, length)
        finish_as_told(source - HEADER_SIZE, to, length)
        if mem_u32(at + self.at_status) & TAGGED != 0:
            self.put_tag_back(at, to)
            start -= TAG_SIZE
            length += TAG_SIZE
        self.done()
        return u64(start) | u64(length) << 32 | flags

    @rare
    def piece(self, to: u64) -> u32:
        return self.next_piece(to)

    def is_long(self, at: u64) -> flag:
        """Does a packet need more than to be copied into a frame?"""
        length = mem_u32(at + self.at_kept)
        kind = mem_u8(at + mem_u16(at + self.at_place) - HEADER_SIZE + KIND)
        return kind != 0 or mem_u32(at + self.at_length) != length or length + FIRST > self.frame_room

    def take_long(self, at: u64):
        """Takes a packet in hand, out of the ring or from beside it."""
        to = self.whole + MARGIN
        length, status = mem_u32(at + self.at_kept), mem_u32(at + self.at_status)
        if status & COPY != 0:
            got = libc(self.recv_at, self.fd, to - HEADER_SIZE, LARGEST, DONT_WAIT)
            if got < HEADER_SIZE or got == LARGEST:
                self.missed += 1
                return
            length = u32(got) - HEADER_SIZE
        elif mem_u32(at + self.at_length) != length:
            self.missed += 1
            return
        else:
            mem_copy(to - HEADER_SIZE, at + mem_u16(at + self.at_place) - HEADER_SIZE, length + HEADER_SIZE)
        mem_copy(self.whole, to - HEADER_SIZE, HEADER_SIZE)
        if status & TAGGED != 0:
            self.put_tag_back(at, to)
            shift_start(self.whole)
            to -= TAG_SIZE
            length += TAG_SIZE
        self.begin(self.whole, to, length)

    def put_tag_back(self, at: u64, to: u64):
        known = mem_u32(at + self.at_status) & PROTOCOL_VALID != 0
        put_tag(to, mem_u16(at + self.at_tag_protocol) if known else u16(VLAN), mem_u16(at + self.at_tag))

    def flags_of(self, at: u64) -> u64:
        """The flags of a slot, at their place in its first word."""
        return u64(OUTGOING) << 48 if self.outbound and mem_u8(at + self.at_kind) == SENT_BY_HOST else u64(0)

    def look(self):
        """Takes an error off the socket, which would wake us for ever: the interface went down."""
        self.looks += 1
        if self.looks % LOOK == 0:
            size, error = self.whole + 16, self.whole + 24
            set_mem_u32(size, 4)
            libc(self.getsockopt_at, self.fd, SOL_SOCKET, SO_ERROR, error, size)
            if mem_u32(error) != 0:
                self.downs += 1


class Transmitter(ToDevice, _ByMessages, _ByRing, _WithMtu):
    """From frames of the arena to the interface, which has copied them when the call comes back."""

    wait_ns, unsent = 0, True  # what is in the ring has not been taken yet, and there are no completions
    bypass = Arg(Bool(), False, "go past the interface's queueing discipline", positional=False)
    tx_ring = Arg(Bool(), False, "sends from a ring of the kernel's, to which packets are copied", positional=False)

    def configure(self):
        if self.tx_ring:
            self.wait_ns, self.unsent = ToDevice.wait_ns, False
        super().configure()

    def initialize(self):
        super().initialize()
        self.use_ring(self.port.rings[self])
        self.send_at = address_of("send" if self.tx_ring else "sendmmsg")

    def transmit(self):
        if self.tx_ring:
            self.send_slots()
        else:
            self.send_messages()
