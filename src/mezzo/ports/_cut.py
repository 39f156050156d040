"""What receivers share whose wire brings super-packets: the one that is being cut, and where it got to.

A driver that meets a packet with a virtio-net header that says so, or one that is longer than it has a quick way for,
puts it into `whole` and calls `begin`; from then on `cutting()` is true and `next_piece` makes one frame after the
other, over as many runs of `receive` as it takes.
"""

from mezzo.elements import (
    Element,
    flag,
    mem_copy,
    mem_u8,
    mem_u16,
    mem_u32,
    mem_u64,
    set_mem_u16,
    set_mem_u32,
    set_mem_u64,
    u8,
    u16,
    u32,
    u64,
)
from mezzo.packet.arena import HEADROOM
from mezzo.ports._checksum import finish, network_offset, set_net16
from mezzo.ports._segment import (
    FLAGS,
    KIND,
    NEEDS_CHECKSUM,
    NOWHERE,
    OFFSET,
    SIZE,
    START,
    WHOLE,
    headers_of,
    innermost,
    segment,
    segments_of,
    set_outer,
)

FRAME_START, STAGGER = HEADROOM, 64  # where the data of a received packet begins (mezzo.packet.arena.first_byte)
FIRST = FRAME_START + 3 * STAGGER  # the latest such place
MARGIN = 64  # in front of a super-packet in memory: for its virtio-net header and a tag
LARGEST = 1 << 17  # a super-packet; the kernel makes none over 64 kB unless told to (gso_max_size)
TAG_SIZE = 4


class _Cutting(Element):
    """The packet in hand, for a receiver to inherit."""

    runtime = True
    ethernet = True

    whole: u64  # memory for a super-packet: MARGIN bytes, then room for LARGEST
    whole_at: u64  # where the one in hand begins
    whole_length: u32
    whole_net: u32
    whole_ip: u32  # as whole_net, but for packets in a tunnel
    whole_start: u32
    whole_headers: u32
    whole_size: u32
    whole_kind: u8
    cut_next: u32
    cut_count: u32
    frame_room: u32  # bytes of a frame of the arena
    super_packets: u64
    too_long: u64
    uncut: u64
    reads = {
        "super_packets": "super-packets that were cut into frames",
        "too_long": "packets that no frame can hold",
        "uncut": "super-packets of a kind that is not known, or damaged",
    }

    def begin(self, header: u64, at: u64, length: u32):
        """Takes the packet at `at`, with a virtio-net header at `header`, in hand."""
        kind = mem_u8(header + KIND)
        self.whole_at = at
        self.whole_length = length
        self.whole_kind = kind
        if kind == WHOLE:
            if length + FIRST > self.frame_room:
                self.too_long += 1
                return
            finish_as_told(header, at, length)
            self.cut_next = 0
            self.cut_count = 1
            return
        net = network_offset(at, length) if self.ethernet else u32(0)
        start, size = u32(mem_u16(header + START)), u32(mem_u16(header + SIZE))
        ip = innermost(at, length, net, start, kind)
        headers = headers_of(at, length, ip, start, kind) if ip != NOWHERE else u32(0)
        if headers == 0 or size == 0:
            self.uncut += 1
            return
        if headers + size + FIRST > self.frame_room:
            self.too_long += 1
            return
        self.whole_net = net
        self.whole_ip = ip
        self.whole_start = start
        self.whole_headers = headers
        self.whole_size = size
        self.cut_next = 0
        self.cut_count = segments_of(length, headers, size)
        self.super_packets += 1

    def cutting(self) -> flag:
        return self.cut_next != self.cut_count

    def next_piece(self, to: u64) -> u32:
        """Writes the next piece of the packet in hand to `to`; gives its length."""
        index, at, length = self.cut_next, self.whole_at, self.whole_length
        self.cut_next += 1
        if self.whole_kind == WHOLE:
            mem_copy(to, at, length)
            return length
        ip, start, headers = self.whole_ip, self.whole_start, self.whole_headers
        made = segment(to, at, length, ip, start, headers, self.whole_size, index, self.whole_kind)
        if ip != self.whole_net:
            set_outer(to, made, self.whole_net, index)
        return made


def finish_as_told(header: u64, at: u64, length: u32):
    """Finishes the checksum of the packet at `at` when its virtio-net header says that it is not."""
    if mem_u8(header + FLAGS) & NEEDS_CHECKSUM != 0:
        finish(at, length, u32(mem_u16(header + START)), u32(mem_u16(header + OFFSET)))


def put_tag(at: u64, protocol: u16, tag: u16):
    """Puts a VLAN tag back behind the addresses; the frame at `at` begins TAG_SIZE earlier after that."""
    set_mem_u64(at - TAG_SIZE, mem_u64(at))
    set_mem_u32(at + TAG_SIZE, mem_u32(at + 8))
    set_net16(at + 8, protocol)
    set_net16(at + 10, tag)


def shift_start(header: u64):
    """A tag was put in: the transport header is that much later."""
    set_mem_u16(header + START, mem_u16(header + START) + TAG_SIZE)
