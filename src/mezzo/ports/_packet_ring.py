"""The walk of a packet socket's receive ring, for a receiver to inherit: frame by frame (TPACKET_V2), or block by
block, and packet by packet in each (TPACKET_V3).

`packet_at` is the packet in hand.  It is given back by `done`, V2's at once, and V3's with its block when that has no
other.  Where the fields are is said by constants, so that one code serves both.
"""

from mezzo.elements import Element, bounded, flag, load_acquire_u32, mem_u32, mem_u64, store_release_u32, u32, u64
from mezzo.ports import _packet_socket as ps
from mezzo.ports._messages import BATCH

USER = 0x1
# struct tpacket_block_desc, with tpacket_hdr_v1 in it; the first field of struct tpacket3_hdr is how far the next is
BLOCK_STATUS, BLOCK_PACKETS, BLOCK_FIRST = 8, 12, 16


class _Walking(Element):
    runtime = True
    version = 2

    ring_at: u64
    ring_end: u64
    block_at: u64
    packet_at: u64
    left: u32  # packets of the block in hand
    step: u32  # from one frame, or block, to the next
    touched: u64  # so that what is read is read

    def set_layout(self, version):
        """Configuration: the constants of a version."""
        self.version, layout = version, ps.LAYOUTS[version]
        self.at_status, self.at_length, self.at_kept = layout.status, layout.length, layout.kept
        self.at_place, self.at_kind = layout.place, layout.kind
        self.at_tag, self.at_tag_protocol = layout.tag, layout.tag_protocol

    def use_kernel_ring(self, made):
        """Python: from now on packet code walks this ring."""
        self.ring_at = self.packet_at = self.block_at = made.address
        self.ring_end = made.address + made.shape.bytes
        self.step = made.shape.size if self.version == 2 else made.shape.block

    def touch(self, count: u32):
        """Reads a word of each line that is soon looked at.  In so short a loop the CPU has the misses of many packets
        at a time: 26 against 29 ns a packet."""
        at, sum = self.packet_at, u64(0)
        for _ in bounded(count, BATCH):
            if load_acquire_u32(at) & USER == 0:
                break
            sum += mem_u64(at + ps.LINE) + mem_u64(at + 2 * ps.LINE)
            at = self.next_step(at)
        self.touched += sum

    def there(self) -> flag:
        """Is there a packet in hand, or one to take in hand?"""
        if self.version == 2:
            return load_acquire_u32(self.packet_at) & USER != 0
        if self.left == 0:
            self.open_block()
        return self.left != 0

    def open_block(self):
        block = self.block_at
        if load_acquire_u32(block + BLOCK_STATUS) & USER == 0:
            return
        self.left = mem_u32(block + BLOCK_PACKETS)
        self.packet_at = block + mem_u32(block + BLOCK_FIRST)
        if self.left == 0:
            self.close_block()

    def close_block(self):
        store_release_u32(self.block_at + BLOCK_STATUS, 0)
        self.block_at = self.next_step(self.block_at)

    def done(self):
        """The packet in hand is the kernel's again."""
        at = self.packet_at
        if self.version == 2:
            store_release_u32(at, 0)
            self.packet_at = self.next_step(at)
            return
        self.packet_at = at + mem_u32(at)
        self.left -= 1
        if self.left == 0:
            self.close_block()

    def next_step(self, at: u64) -> u64:
        return self.ring_at if at + self.step == self.ring_end else at + self.step
