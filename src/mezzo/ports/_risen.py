"""Packets that come up from the kernel's level, with a record (targets/kernel/record): they go on where they stopped.

    the frame:   … | record | memory from `front`, where the packet's data begins at `data`        |
                            ^ the descriptor's address                        and its length ends ^

The record counts places as the kernel does; in the frame they are all shifted alike.  From its byte SAME on it holds
what the arena's metadata has at the same places.  A packet natively continues by that output, behind the end's own two,
which has the number of its way; it was counted when it came to the kernel's half.  One of several buffers was too much
for the program: it comes as the wire brought it, by the way WHOLE.  So does one of a flow of which others are up.

The record names the gate that is up because of the packet (targets/kernel/gates).  The frame's metadata keeps it until
the packet is gone, and whoever lowers gates is woken by the bell.  One that does not come WHOLE found the gate down, so
nothing of its flow was up: FIRST is said of it beside the gate.

Who hands packets to the kernel's level (Reinject) writes such a record, and restores packets by one.
"""

from mezzo.elements import (
    Element,
    Packet,
    i64,
    libc,
    mem_u8,
    mem_u16,
    mem_u32,
    mem_u64,
    set_mem_u8,
    set_mem_u16,
    set_mem_u32,
    set_mem_u64,
    u16,
    u32,
    u64,
)
from mezzo.packet.arena import META, META_SIZE, UNSET, Arena
from mezzo.ports._end import _End
from mezzo.ports._libc import address_of

SIZE = 72  # of a record
WHOLE, GATE, FRONT, DATA = 0xFFFF, 2, 4, 6  # a way; where the gate and both places are in a record
FIRST = 0x2000  # a bit above those of gates
OWN = 2  # outputs of FromDevice in front of those of the ways
MAC, NET, TRANS = META["mac"][0], META["net"][0], META["trans"][0]
KIND, STAMP, ANNO = META["packet_type"][0], META["timestamp"][0], META["anno"][0]


class _Recorded(Element):
    """Packet code that reads and writes records."""

    runtime = True

    def restore(self, p: Packet, at: u64, data: u16):
        """Marks, type, time and annotations, by the record at `at`, in which the packet begins at `data`."""
        mac, net, trans = mem_u16(at + MAC), mem_u16(at + NET), mem_u16(at + TRANS)
        if mac != UNSET:
            p.set_mac(i64(mac) - data)
        if net != UNSET:
            p.set_network(i64(net) - data)
        if trans != UNSET:
            p.set_transport(i64(trans) - data)
        p.packet_type = mem_u8(at + KIND)
        p.timestamp = mem_u64(at + STAMP)
        p.set_anno_u64(0, mem_u64(at + ANNO))
        p.set_anno_u64(8, mem_u64(at + ANNO + 8))
        p.set_anno_u64(16, mem_u64(at + ANNO + 16))
        p.set_anno_u64(24, mem_u64(at + ANNO + 24))
        p.set_anno_u64(32, mem_u64(at + ANNO + 32))
        p.set_anno_u64(40, mem_u64(at + ANNO + 40))

    def record(self, p: Packet, at: u64, front: u16):
        """Writes that of a packet of which the other level gets the memory from byte `front` of the frame on."""
        data = p.frame_start
        set_mem_u32(at, 0)
        set_mem_u16(at + FRONT, front)
        set_mem_u16(at + DATA, u16(data))
        set_mem_u16(at + MAC, u16(data + p.mac_offset) if p.has_mac else u16(UNSET))
        set_mem_u16(at + NET, u16(data + p.network_offset) if p.has_network else u16(UNSET))
        set_mem_u16(at + TRANS, u16(data + p.transport_offset) if p.has_transport else u16(UNSET))
        set_mem_u8(at + KIND, p.packet_type)
        set_mem_u8(at + KIND + 1, 0)
        set_mem_u64(at + STAMP, p.timestamp)
        set_mem_u64(at + ANNO, p.anno_u64(0))
        set_mem_u64(at + ANNO + 8, p.anno_u64(8))
        set_mem_u64(at + ANNO + 16, p.anno_u64(16))
        set_mem_u64(at + ANNO + 24, p.anno_u64(24))
        set_mem_u64(at + ANNO + 32, p.anno_u64(32))
        set_mem_u64(at + ANNO + 40, p.anno_u64(40))


class _Risen(_Recorded, _End):
    """The receiver's part."""

    up = False  # do packets have records; placement sets it
    risen: u64
    misplaced: u64
    whole: u64
    gates_at: u64  # of the gate in the metadata of frame 0
    bell: u64  # a u32, 1 when it was rung, and the descriptor that it rings; 0 where nobody is to be woken
    ring_at: u64
    reads = {
        "risen": "packets that came up from the kernel's level",
        "whole": "packets that came up as they came in, in several buffers or behind others of their flow",
    }

    def note_gate(self, frame: u32, gate: u16):
        """Before it is a packet."""
        set_mem_u16(self.gates_at + u64(frame) * META_SIZE, gate)
        if self.bell != 0 and mem_u32(self.bell) == 0:
            set_mem_u32(self.bell, 1)
            libc(self.ring_at, mem_u32(self.bell + 4), 1)

    def keep_gates(self, arena: Arena, bell: int) -> None:
        """Python: where gates are noted, and who is to be woken."""
        self.gates_at = arena.address + arena.meta_offset + META["gate"][0]
        self.bell, self.ring_at = bell, address_of("eventfd_write")

    def rise(self, frame: u32, start: u32, length: u32, at: u64):
        """The packet whose memory begins at `at`, which is byte `start` of the frame."""
        head = mem_u64(at - SIZE)
        front, data = u16(head >> 32), u16(head >> 48)
        cut = u32(data - front)
        if cut > length:
            self.misplaced += 1
            self.give_frame(frame)
            return
        p = self.adopt(frame, start + cut, length - cut)
        self.restore(p, at - SIZE, data)
        self.risen += 1
        self.push(OWN + u32(u16(head)), p)
