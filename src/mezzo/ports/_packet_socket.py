"""AF_PACKET sockets (packet(7)): a receive ring, fanout, and what Click's FromDevice asks of the kernel.

The ring is TPACKET_V2, not V3: a frame is the reader's as soon as it has come, where V3 gives a block when it is full
or a timer of at least a millisecond has run out, twice on the way of every ping.  What V3 saves, room for packets of
any size, PACKET_COPY_THRESH gives as well: a packet that is too long for a ring frame (a super-packet of 64 kB) has
its head in the ring, and is whole in the socket's queue, one recv away.

Rules: the order of options matters to the kernel (version and virtio-net header before the ring, fanout after bind).
Promiscuous mode and the "packets are mine" program go with the socket, so a killed router leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import struct
from contextlib import suppress

SOL_PACKET = 263
ADD_MEMBERSHIP, RX_RING, STATISTICS, COPY_THRESH = 1, 5, 6, 7
VERSION, VNET_HDR, FANOUT, QDISC_BYPASS, IGNORE_OUTGOING = 10, 15, 18, 20, 23
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
TPACKET_V2, PROMISCUOUS = 1, 1
ALL = 3  # ETH_P_ALL
# In front of the packet in a ring frame: struct tpacket2_hdr, sockaddr_ll, and the virtio-net header.
HEAD = 96
BLOCK = 1 << 16
FANOUT_HASH, FANOUT_LOAD_BALANCE, FANOUT_CPU, FANOUT_QUEUE = 0, 1, 2, 5
FANOUT_DEFRAGMENT, FANOUT_UNIQUE, FANOUT_IGNORE_OUTGOING = 0x8000, 0x2000, 0x4000
QUEUED = 16 << 20  # bytes of whole super-packets that may wait beside the ring


def frame_size_for(mtu: int) -> int:
    """Bytes of a ring frame that takes packets of `mtu`; longer ones go beside the ring."""
    size = 2048
    while size < min(mtu + 18 + HEAD, BLOCK):
        size *= 2
    return size


class ReceiveRing:
    """One socket with a receive ring; `address` is the ring's, `frames` frames of `frame_size` bytes."""

    def __init__(self, descriptor: int, name: str, mtu: int, frames: int, outgoing: bool) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self.name, self.outgoing, self.frame_size = name, outgoing, frame_size_for(mtu)
        blocks = -(-frames // (BLOCK // self.frame_size))
        self.frames = blocks * (BLOCK // self.frame_size)
        self.received, self.dropped, self.index = 0, 0, 0
        try:
            self._set_up(blocks)
        except BaseException:
            self.socket.close()
            raise
        self._pin: ctypes.c_char | None = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self._pin)

    def _set_up(self, blocks: int) -> None:
        set_ = self.socket.setsockopt
        set_(SOL_PACKET, VERSION, TPACKET_V2)
        set_(SOL_PACKET, VNET_HDR, 1)
        set_(SOL_PACKET, COPY_THRESH, 1)
        set_(SOL_PACKET, IGNORE_OUTGOING, 0 if self.outgoing else 1)
        enlarge(self.socket, socket.SO_RCVBUF, SO_RCVBUFFORCE, QUEUED)
        set_(SOL_PACKET, RX_RING, struct.pack("=4I", BLOCK, blocks, self.frame_size, self.frames))
        self.map = mmap.mmap(self.fd, BLOCK * blocks)

    def start(self, protocol: int) -> None:
        """From here on packets come: all, or those of one Ethernet type."""
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
        """Adds what the kernel counted since the last time to `received` and `dropped`."""
        received, dropped = struct.unpack("=II", self.socket.getsockopt(SOL_PACKET, STATISTICS, 8))
        self.received += received - dropped
        self.dropped += dropped

    def close(self) -> None:
        """Nothing comes any more; the memory stays until `free`."""
        if self.socket.fileno() >= 0:
            with suppress(OSError):  # ENETDOWN of an interface that has gone is told here again
                self.count()
        self.socket.close()

    def free(self) -> None:
        self._pin = None
        self.map.close()


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
