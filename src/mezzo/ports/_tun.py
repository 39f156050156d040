"""One queue of /dev/net/tun: frames are read and written one by one, each behind a virtio-net header.

With TUNSETOFFLOAD the kernel leaves checksums unfinished and packets uncut, as it does for a device that can do both
itself; so its own stack runs at full speed, and what it left is done here (`_cut`).  A packet is read to where a
super-packet would have room, and copied to its frame: that costs less than a read in two parts.  It is written from its
frame, with the header in front of it in the frame's headroom.

A tap carries Ethernet frames, a tun device IP packets.
"""

import errno
import fcntl
import os
import select
import struct

from mezzo.elements import (
    frame_address,
    i64,
    libc,
    mem_copy,
    mem_u8,
    set_mem_u16,
    set_mem_u64,
    u32,
    u64,
)
from mezzo.ports import privileged
from mezzo.ports._cut import FRAME_START, LARGEST, MARGIN, STAGGER, _Cutting, finish_as_told
from mezzo.ports._libc import address_of, call_number
from mezzo.ports._memory import Memory
from mezzo.ports._segment import HEADER_SIZE, KIND, WHOLE
from mezzo.ports._watch import Watching

TUNSETOFFLOAD, TUNGETIFF = 0x4004_54D0, 0x8004_54D2
CHECKSUM, TSO4, TSO6, TSO_ECN, USO4, USO6 = 0x1, 0x2, 0x4, 0x8, 0x20, 0x40
OFFLOADS = (CHECKSUM | TSO4 | TSO6 | TSO_ECN | USO4 | USO6, CHECKSUM | TSO4 | TSO6 | TSO_ECN, CHECKSUM, 0)
NOTHING, AGAIN = 0, 0xFFFF_FFFF  # what `fill` gives beside lengths
WOULD_BLOCK, NO_BUFFERS, IO, BAD_STATE = errno.EAGAIN, errno.ENOBUFS, errno.EIO, errno.EBADFD
VECTOR = 16  # struct iovec
READ, WRITE, WRITEV = map(call_number, ("read", "write", "writev"))


def open_queues(device, kind, queues, persistent=False):
    """Makes the device, or attaches to one that is there; descriptors, facts, and what is left to us to do."""
    request = {"do": "tap", "device": device, "kind": kind, "vnet_header": True, "queues": queues}
    descriptors, facts = privileged.ask(request | {"persistent": persistent})
    return descriptors, facts, min(offer(descriptor) for descriptor in descriptors)


def offer(descriptor):
    """Tells the kernel all that it may leave to us; older ones do not know all of it."""
    for flags in OFFLOADS:
        try:
            fcntl.ioctl(descriptor, TUNSETOFFLOAD, flags)
            return flags
        except OSError as trouble:
            if trouble.errno != errno.EINVAL:
                raise
    return 0


def offload_facts(flags):
    """What is done here, for people."""
    return {
        "checksums": "unfinished ones are finished" if flags & CHECKSUM else "the kernel finishes them",
        "super-packets": "are cut into frames" if flags & TSO4 else "the kernel cuts them",
    }


class TunPort(Watching):
    """A port with `queues`, descriptors of /dev/net/tun."""

    queues: tuple[int, ...] = ()

    def leave(self):
        """A queue without a device is in error for ever; what is watched instead, an empty epoll, is never ready.

        A device that was moved to another namespace still has its queues.
        """
        try:
            fcntl.ioctl(self.queues[0], TUNGETIFF, bytes(40))
            return "is in another namespace now"
        except OSError:
            with select.epoll() as quiet:
                for descriptor in self.queues:
                    os.dup2(quiet.fileno(), descriptor, inheritable=False)
            return super().leave()

    def tell(self, line):
        end = self.ends[0]
        end.say(f"{end.name}: {line}")


class _Tun(_Cutting):
    """Reading and writing one queue, for an element to inherit."""

    tun_fd: i64
    syscall_at: u64
    downs: u64
    errors: u64
    reads = {"downs": "packets dropped because the interface is down", "errors": "packets that the kernel refused"}

    def use_queue(self, descriptor, arena):
        """Python: from now on packet code works on this descriptor.  Gives memory to free at the end."""
        memory = Memory(MARGIN + LARGEST + 2 * VECTOR + HEADER_SIZE)
        at = MARGIN + LARGEST
        struct.pack_into("=QQ", memory.map, at, memory.address + at + 2 * VECTOR, HEADER_SIZE)
        self.tun_fd, self.whole, self.frame_room = descriptor, memory.address, arena.frame_size
        self.syscall_at = address_of("syscall")
        return memory

    def fill(self, f: u32) -> u32:
        """The next packet into frame `f`, at `start_in(f)`: its length, NOTHING, or AGAIN."""
        start = start_in(f)
        to = frame_address(f) + start
        if self.cutting():
            return self.next_piece(to)
        at = self.whole + MARGIN
        header = at - HEADER_SIZE
        got = libc(self.syscall_at, READ, self.tun_fd, header, LARGEST)
        if got <= HEADER_SIZE:
            return NOTHING
        length = u32(got) - HEADER_SIZE
        if mem_u8(header + KIND) != WHOLE or start + length > self.frame_room:
            self.begin(header, at, length)
            return AGAIN
        mem_copy(to, at, length)
        finish_as_told(header, to, length)
        return length

    def emit(self, at: u64, length: u32, headroom: u32) -> i64:
        """Writes the packet at `at`: how many bytes, or what is wrong."""
        if headroom >= HEADER_SIZE:
            set_mem_u64(at - HEADER_SIZE, 0)
            set_mem_u16(at - 2, 0)
            return libc(self.syscall_at, WRITE, self.tun_fd, at - HEADER_SIZE, length + HEADER_SIZE)
        vectors = self.whole + MARGIN + LARGEST
        set_mem_u64(vectors + VECTOR, at)
        set_mem_u64(vectors + VECTOR + 8, length)
        return libc(self.syscall_at, WRITEV, self.tun_fd, vectors, 2)


def start_in(f: u32) -> u32:
    return FRAME_START + (f & 3) * STAGGER
