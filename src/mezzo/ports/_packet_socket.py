"""AF_PACKET sockets (packet(7)): rings, filters, fanout, and what Click's FromDevice asks of the kernel.

A receive ring is of TPACKET_V2, or of V3.  In V2 a frame is the reader's as soon as it has come; in V3 it is when its
block is full, or when a timer of at least a millisecond has run out, twice on the way of every ping (docs/ports.md has
figures).  What V3 gives, room for packets of any size, PACKET_COPY_THRESH gives to V2 as well: a packet that is too
long for a ring frame (a super-packet of 64 kB) has its head in the ring, and is whole in the socket's queue, one recv
away.

Frames are an odd number of cache lines apart.  With a power of two the heads of all frames would share a few sets of
the caches (16 against 24 ns a packet were measured, for a bare loop that copies).

Rules: the order of options matters to the kernel (version and virtio-net header before the rings, filter before bind,
fanout after it).  Promiscuous mode and the "packets are mine" program go with the socket, so a killed router leaves
nothing behind.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

SOL_PACKET = 263
ADD_MEMBERSHIP, RX_RING, STATISTICS, COPY_THRESH = 1, 5, 6, 7
VERSION, TX_RING, VNET_HDR, FANOUT, QDISC_BYPASS, IGNORE_OUTGOING = 10, 13, 15, 18, 20, 23
SO_ATTACH_FILTER, SO_SNDBUFFORCE, SO_RCVBUFFORCE = 26, 32, 33
PROMISCUOUS = 1
ALL = 3  # ETH_P_ALL
FANOUT_HASH, FANOUT_LOAD_BALANCE, FANOUT_CPU, FANOUT_QUEUE = 0, 1, 2, 5
FANOUT_DEFRAGMENT, FANOUT_UNIQUE, FANOUT_IGNORE_OUTGOING = 0x8000, 0x2000, 0x4000
QUEUED = 16 << 20  # bytes of whole super-packets that may wait beside the ring
PAGE, LINE, SECTOR = 4096, 64, 512
LONGEST = 16384  # of a ring frame; longer packets go beside the ring
BLOCK = 1 << 17  # of TPACKET_V3: a super-packet of 64 kB with its header fits


@dataclass(frozen=True)
class Layout:
    """Where a version of the ring has its fields, from the start of a packet's header.

    A `header` is followed by sockaddr_ll where packets come, and by the packet where they go.
    """

    number: int  # as PACKET_VERSION says it
    header: int
    status: int
    length: int
    kept: int
    place: int
    tag: int
    tag_protocol: int

    @property
    def kind(self) -> int:
        """Where it says whom a packet is for: sll_pkttype."""
        return self.header + 10


LAYOUTS = {
    2: Layout(1, 32, 0, 4, 8, 12, 24, 26),  # struct tpacket2_hdr
    3: Layout(2, 48, 20, 16, 12, 24, 32, 36),  # struct tpacket3_hdr
}


@dataclass(frozen=True)
class Shape:
    """A ring of frames: blocks without a gap between them, so that frame k is at k x size."""

    size: int
    frames: int
    block: int
    wait_ms: int = 0  # TPACKET_V3: how long a block that is not full waits

    @property
    def bytes(self) -> int:
        return self.block * self.blocks

    @property
    def blocks(self) -> int:
        return self.frames * self.size // self.block

    def request(self) -> bytes:
        """struct tpacket_req3, of which tpacket_req is the first four words."""
        return struct.pack("=7I", self.block, self.blocks, self.size, self.frames, self.wait_ms, 0, 0)


def frames_for(mtu: int, head: int, count: int) -> Shape:
    """At least `count` frames for packets of `mtu`, with `head` bytes in front of each."""
    need = min(mtu + 18 + head, LONGEST)
    unit = LINE if need <= 2048 else SECTOR
    size, per_block = (-(-need // unit) | 1) * unit, PAGE // unit
    return Shape(size, -(-count // per_block) * per_block, size * per_block)


def blocks_for(size: int, wait_ms: int) -> Shape:
    """TPACKET_V3: blocks of `size` bytes in all; the kernel asks for a frame size, and does not use it."""
    blocks = -(-size // BLOCK)
    return Shape(2048, blocks * (BLOCK // 2048), BLOCK, wait_ms)


class Rings:
    """One socket with a ring for receive, for transmit, or both, in one mapping.

    `address` and `shape` are those of the first, `send_address` and `send_shape` of the second.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        layout: Layout = LAYOUTS[2],
        *,
        receive: Shape | None = None,
        send: Shape | None = None,
        outgoing: bool = False,
    ) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self.name, self.layout, self.outgoing = name, layout, outgoing
        self.shape, self.send_shape = receive, send
        self.received, self.dropped, self.freezes, self.index = 0, 0, 0, 0
        try:
            self._set_up()
        except BaseException:
            self.socket.close()
            raise
        self._pin: ctypes.c_char | None = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self._pin)
        self.send_address = self.address + (receive.bytes if receive else 0)

    def _set_up(self) -> None:
        set_ = self.socket.setsockopt
        set_(SOL_PACKET, VERSION, self.layout.number)
        if self.shape is not None:
            set_(SOL_PACKET, VNET_HDR, 1)
            set_(SOL_PACKET, COPY_THRESH, 1)
            set_(SOL_PACKET, IGNORE_OUTGOING, 0 if self.outgoing else 1)
            enlarge(self.socket, socket.SO_RCVBUF, SO_RCVBUFFORCE, QUEUED)
        size = 0
        for option, shape in ((RX_RING, self.shape), (TX_RING, self.send_shape)):
            if shape is not None:
                set_(SOL_PACKET, option, shape.request()[: 28 if self.layout.number == 2 else 16])
                size += shape.bytes
        self.map = mmap.mmap(self.fd, size)

    @property
    def prefixed(self) -> bool:
        """Is there a virtio-net header in front of each packet?"""
        return self.shape is not None

    def filter(self, program: bytes) -> None:
        """Only packets that a filter (struct sock_filter, one after the other) takes; before `start`."""
        code = ctypes.create_string_buffer(program, len(program))
        told = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, told)

    def start(self, protocol: int) -> None:
        """From here on packets come: all, or those of one Ethernet type; none for 0."""
        self.socket.bind((self.name, protocol))
        self.index = socket_index(self.socket)

    @property
    def fd(self) -> int:
        return self.socket.fileno()

    def be_promiscuous(self) -> None:
        request = struct.pack("=iHH8x", self.index, PROMISCUOUS, 0)
        self.socket.setsockopt(SOL_PACKET, ADD_MEMBERSHIP, request)

    def join(self, group: int | None, mode: int) -> int:
        """Shares the device's packets with the other sockets of a group, or a new one; gives its number."""
        flags = FANOUT_DEFRAGMENT if mode == FANOUT_HASH else 0
        flags |= 0 if self.outgoing else FANOUT_IGNORE_OUTGOING
        flags |= FANOUT_UNIQUE if group is None else 0
        self.socket.setsockopt(SOL_PACKET, FANOUT, struct.pack("=I", (group or 0) | (mode | flags) << 16))
        return self.socket.getsockopt(SOL_PACKET, FANOUT) & 0xFFFF

    def count(self) -> None:
        """Adds what the kernel counted since the last time to `received`, `dropped` and `freezes`."""
        told = self.socket.getsockopt(SOL_PACKET, STATISTICS, 12)
        received, dropped, freezes = struct.unpack("=III", told.ljust(12, b"\0"))
        self.received += received - dropped
        self.dropped += dropped
        self.freezes += freezes

    def close(self) -> None:
        """Nothing comes any more; the memory stays until `free`."""
        if self.socket.fileno() >= 0 and self.shape is not None:
            with suppress(OSError):  # ENETDOWN of an interface that has gone is told here again
                self.count()
        self.socket.close()

    def let_go(self) -> None:
        """Python's map has a descriptor of its own."""
        self._pin = None
        self.map.close()

    def free(self) -> None:
        self.let_go()


def socket_index(made: socket.socket) -> int:
    """The number of the interface a packet socket is bound to; 0 when that has gone."""
    libc = ctypes.CDLL(None, use_errno=True)
    address, size = ctypes.create_string_buffer(32), ctypes.c_uint32(32)
    if libc.getsockname(made.fileno(), address, ctypes.byref(size)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return max(0, int(struct.unpack_from("=HHi", address.raw)[2]))


def enlarge(made: socket.socket, plain: int, force: int, size: int) -> None:
    """A buffer of `size` bytes, or as much as an ordinary user may have."""
    try:
        made.setsockopt(socket.SOL_SOCKET, force, size)
    except OSError as trouble:
        if trouble.errno != errno.EPERM:
            raise
        made.setsockopt(socket.SOL_SOCKET, plain, size)
