"""Packets that come up from the kernel's level, with a record (targets/kernel/record): they go on where they stopped.

    the frame:   … | record | memory from `front`, where the packet's data begins at `data`        |
                            ^ the descriptor's address                        and its length ends ^

The record counts places as the kernel does; in the frame they are all shifted alike.  From its byte SAME on it holds
what the arena's metadata has at the same places.  A packet natively continues by that output, behind the end's own two,
which has the number of its way; it was counted when it came to the kernel's half.  One of several buffers was too much
for the program: it comes as the wire brought it, by the way WHOLE.  So does one of a flow of which others are up.

The record names the gate that is up because of the packet (targets/kernel/gates).  The frame's metadata keeps it until
the packet is gone, and whoever lowers gates is woken by the bell.
"""

from mezzo.elements import i64, libc, mem_u8, mem_u16, mem_u32, mem_u64, set_mem_u16, set_mem_u32, u16, u32, u64
from mezzo.packet.arena import META, META_SIZE, UNSET, Arena
from mezzo.ports._end import _End
from mezzo.ports._libc import address_of

SIZE = 72  # of a record
WHOLE, GATE = 0xFFFF, 2  # a way; where the gate is in a record
OWN = 2  # outputs of FromDevice in front of those of the ways
MAC, NET, TRANS = META["mac"][0], META["net"][0], META["trans"][0]
KIND, STAMP, ANNO = META["packet_type"][0], META["timestamp"][0], META["anno"][0]


class _Risen(_End):
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
        mac, net, trans = mem_u16(at - SIZE + MAC), mem_u16(at - SIZE + NET), mem_u16(at - SIZE + TRANS)
        if mac != UNSET:
            p.set_mac(i64(mac) - data)
        if net != UNSET:
            p.set_network(i64(net) - data)
        if trans != UNSET:
            p.set_transport(i64(trans) - data)
        p.packet_type = mem_u8(at - SIZE + KIND)
        p.timestamp = mem_u64(at - SIZE + STAMP)
        p.set_anno_u64(0, mem_u64(at - SIZE + ANNO))
        p.set_anno_u64(8, mem_u64(at - SIZE + ANNO + 8))
        p.set_anno_u64(16, mem_u64(at - SIZE + ANNO + 16))
        p.set_anno_u64(24, mem_u64(at - SIZE + ANNO + 24))
        p.set_anno_u64(32, mem_u64(at - SIZE + ANNO + 32))
        p.set_anno_u64(40, mem_u64(at - SIZE + ANNO + 40))
        self.risen += 1
        self.push(OWN + u32(u16(head)), p)
