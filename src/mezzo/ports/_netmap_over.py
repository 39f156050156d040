"""Zero copy: the frames of the arena are netmap's own buffers, so a packet is forwarded by changing two numbers.

The part of netmap's memory where its buffers are is mapped over the data of the arena, frame f over buffer f.  What the
router may use then are the buffers that the kernel gave it besides those in rings (nr_extra_bufs); all other frames
count as in rings, for so they are, of this port or of others.  A received buffer is taken out of its slot, a free one
put in its place (NS_BUF_CHANGED); for sending the other way round.  So as many are ours as before.

The first port that wants it lays its memory over; further ports of the same memory share that.  At the end the buffers
go back as the list that the kernel reads (ni_bufs_head), and the arena's own memory comes back.  Should the process be
killed, the list is empty, and the kernel has the buffers again when the last user of its memory ends.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mezzo.packet.arena import Arena
from mezzo.ports._memory import Memory

if TYPE_CHECKING:
    from mezzo.ports._netmap_port import Port

FIXED = 0x10  # MAP_FIXED
LEAST = 64  # frames that a router can do with


def map_over(address: int, size: int, fd: int, offset: int) -> None:
    """Replaces what is mapped at an address."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    got = libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | FIXED, fd, offset)
    if got != address:
        raise OSError(ctypes.get_errno(), "netmap's buffers cannot be mapped over the arena")


class Over:
    """Netmap's buffers as the data of an arena.  `marks` has a byte for each: 1 where it is ours."""

    def __init__(self, port: Port, arena: Arena) -> None:
        self.port, self.arena, self.memory = port, arena, port.answer["mem_id"]
        self.frames = min(arena.frames, port.buffer_count)
        self.marks = Memory(self.frames)
        port.keep("freeing the marks of buffers", self.marks.free)
        listed = list(extra_buffers(port))
        self.rest = [b for b in listed if b >= self.frames]
        port.kernel.map_over(arena.frame_address(0), self.size, port.fd, port.buffers_at)
        while arena.free_count:
            arena.take_frame()
        port.set_list(0)
        for buffer in sorted({b for b in listed if b < self.frames}, reverse=True):
            self.marks.map[buffer] = 1
            arena.give_frame(buffer)

    @property
    def size(self) -> int:
        return self.frames * self.arena.frame_size

    @property
    def ours(self) -> list[int]:
        return [frame for frame, mark in enumerate(self.marks.map[:]) if mark]

    def undo(self) -> None:
        """The buffers go back, and the arena's own memory comes back."""
        head, ours = 0, self.ours
        for buffer in self.rest + ours:
            place = self.port.buffers_at + buffer * self.arena.frame_size
            struct.pack_into("<I", self.port.bytes, place, head)
            head = buffer
        self.port.set_list(head)
        map_over(self.arena.frame_address(0), self.size, self.arena.fd, self.arena.data_offset)
        del _overs[self.arena]
        for frame in set(range(self.arena.frames)).difference(ours):
            self.arena.give_frame(frame)


_overs: WeakKeyDictionary[Arena, Over] = WeakKeyDictionary()


def extra_buffers(port: Port) -> Iterator[int]:
    """The buffers that the kernel gave besides those in rings: each begins with the number of the next."""
    at = port.get_list()
    while at:
        yield at
        at = struct.unpack_from("<I", port.bytes, port.buffers_at + at * port.buffer_size)[0]


def is_over(arena: Arena) -> bool:
    return arena in _overs


def why_not(port: Port, arena: Arena) -> str:
    """What keeps this port from having its buffers as frames; empty when nothing does."""
    there = _overs.get(arena)
    if there is not None:
        numbers = port.answer["mem_id"], there.memory
        same = numbers[0] == numbers[1]
        return "" if same else f"its memory is {numbers[0]}, that of `{there.port.device}` {numbers[1]}"
    if arena.frame_size != port.buffer_size:
        return f"frames have {arena.frame_size} bytes, its buffers {port.buffer_size}"
    if arena.views:
        return "several threads run this router"
    if arena.held or port.beside_xdp():
        return "another port has frames of the arena already"
    spare = list(extra_buffers(port))
    usable = sum(b < arena.frames for b in spare)
    return (
        "" if usable >= LEAST else f"only {usable} of its {len(spare)} spare buffers have a number below {arena.frames}"
    )


def lay_over(port: Port, arena: Arena) -> tuple[int, int]:
    """How many frames are buffers now, and where their marks are; the port's `close` undoes it."""
    made = _overs.get(arena)
    if made is None:
        made = _overs[arena] = Over(port, arena)
        port.defer("giving netmap's buffers back", made.undo)
    return made.frames, made.marks.address


def frames_in_rings(port: Port) -> int:
    """Of the port that laid its memory over: how many frames are not ours, by its marks."""
    there = _overs.get(port.arena) if port.arena is not None else None
    return there.arena.frames - len(there.ours) if there is not None and there.port is port else 0
