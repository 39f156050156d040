"""The arena: the packet pool, in one piece of shared memory (a memfd), and the view of one packet in it.

Layout (all little-endian)
    control   one page: the words of `CONTROL`
    free      `frames` x u32: a stack of free frame numbers, last in first out; `free_count` of them are valid
    meta      `frames` x META_SIZE: what is known of the packet in the frame (`META` lists the fields)
    data      `frames` x frame_size bytes, starting at a multiple of the frame size and of a page

Further threads have views of it, and the depot lies behind the data: see views.py.

A packet is a frame number.  The metadata has a table of its own instead of the head of the frame: equal offsets in
frames a power of two apart fall into the same few sets of the L1 cache (1.6 against 2.8 ns a packet was measured).
For the same reason the first byte of a new packet is staggered by frame number: `first_byte()`.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import weakref
from array import array
from collections.abc import Callable, Iterator

from mezzo.base import MezzoError
from mezzo.packet.views import Depot, View, depot_bytes

META_SIZE = 128
HEADROOM = 128  # at least; a new packet starts at HEADROOM + (frame % 4) * 64
STAGGER = 4
UNSET = 0xFFFF  # an unset mark
ANNO_SIZE = 48
FREE, PACKET, IN_RING = 0, 1, 2  # what `live` says of a frame
NO_FRAME = 0xFFFF_FFFF
CONTROL_SIZE = 4096

# name -> (byte offset in the metadata, bytes).  `data` is the offset of the packet's first byte from the start of its
# frame, `end` of the byte after its last; the marks are offsets from the start of the frame as well.
META = {
    "data": (0, 4),
    "end": (4, 4),
    "mac": (8, 2),
    "net": (10, 2),
    "trans": (12, 2),
    "packet_type": (14, 1),
    "live": (15, 1),  # FREE, IN_RING, or PACKET while somebody owns it (then other values are tags of a tracer)
    "timestamp": (16, 8),
    "anno": (24, ANNO_SIZE),
    "gate": (72, 2),  # of the kernel's level that is up because of the packet, 0 without (targets/kernel/gates.py)
}
# name -> byte offset of a u64 in the control page.
CONTROL = {"frames": 0, "frame_size": 8, "free_count": 16, "exhausted": 24, "too_long": 32, "starved": 40}


def _u(buf: memoryview, at: int, size: int) -> int:
    return int.from_bytes(buf[at : at + size], "little")


class Arena:
    """`frames` frames of `frame_size` bytes (a power of two, 2048 or more).  Exhaustion is counted, never a crash."""

    def __init__(self, frames: int = 32768, frame_size: int = 2048, threads: int = 1) -> None:
        if frame_size < 2048 or frame_size & (frame_size - 1) or frame_size > 1 << 17:
            raise MezzoError(f"a frame of {frame_size} bytes: give a power of two from 2048 to 131072")
        if not 1 <= frames <= 1 << 24:
            raise MezzoError(f"an arena of {frames} frames: give 1 to {1 << 24}")
        if threads > 1 and frames < 4 * threads:
            # Else all could lie on lists of threads that need none.
            raise MezzoError(f"an arena of {frames} frames for {threads} threads: give {4 * threads} or more")
        self.frames, self.frame_size = frames, frame_size
        self.free_offset = CONTROL_SIZE
        self.meta_offset = -(-(self.free_offset + 4 * frames) // 4096) * 4096
        align = max(frame_size, 4096)  # AF_XDP registers whole pages
        self.data_offset = -(-(self.meta_offset + META_SIZE * frames) // align) * align
        self.size = depot = self.data_offset + frames * frame_size
        if threads > 1:
            self.size = -(-(depot + depot_bytes(frames)) // 4096) * 4096
        self.fd = os.memfd_create("mezzo-arena")
        self._descriptor = weakref.finalize(self, os.close, self.fd)  # also of an arena that nobody closes
        self._descriptor.atexit = False
        os.ftruncate(self.fd, self.size)
        self.map = mmap.mmap(self.fd, self.size)
        self.mem = memoryview(self.map)
        self._free = self.mem[self.free_offset : self.free_offset + 4 * frames].cast("I")
        self._control = self.mem[:CONTROL_SIZE].cast("Q")
        self._control[CONTROL["frames"] // 8] = frames
        self._control[CONTROL["frame_size"] // 8] = frame_size
        self._free[:] = memoryview(array("I", range(frames - 1, -1, -1)))  # frame 0 is handed out first
        self.free_count = frames
        self.views: list[View] = []  # of further threads; see views.py
        self.depot: Depot | None = None
        self.refill: Callable[[], None] | None = None  # fetches frames from the depot, while threads run
        if threads > 1:
            self._share(depot, threads)

    def _share(self, offset: int, threads: int) -> None:
        """Makes the views of further threads, and leaves most frames to the depot."""
        self.depot = Depot(self, offset, threads)
        self.views = [View(self) for _ in range(threads - 1)]
        keep, count = self.depot.keep, self.free_count
        self.depot.put(list(self._free[: count - keep]))
        self._free[:keep] = self._free[count - keep : count]
        self.free_count = keep

    @property
    def free_count(self) -> int:
        return self._control[CONTROL["free_count"] // 8]

    @free_count.setter
    def free_count(self, value: int) -> None:
        self._control[CONTROL["free_count"] // 8] = value

    def counter(self, name: str) -> int:
        """exhausted: makes refused for want of a frame; too_long: makes refused because no frame is long enough;
        starved: frames that rings asked for in vain, and will ask for again."""
        at = CONTROL[name] // 8
        return self._control[at] + sum(view.control[at] for view in self.views)

    def _count(self, name: str) -> None:
        self._control[CONTROL[name] // 8] += 1

    def first_byte(self, frame: int) -> int:
        """Where a new packet in `frame` starts, from the start of the frame."""
        return HEADROOM + (frame % STAGGER) * 64

    @property
    def longest(self) -> int:
        """The longest packet that any frame can take when made."""
        return self.frame_size - HEADROOM - (STAGGER - 1) * 64

    @property
    def address(self) -> int:
        """Where the arena is mapped in this process."""
        # The ctypes view goes at once: while it lives the map cannot be closed.
        return ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def frame_address(self, frame: int) -> int:
        """The address of the frame's first byte."""
        return self.address + self.data_offset + frame * self.frame_size

    def _take(self, refused: str) -> int:
        """A frame off the free list, or NO_FRAME, counted as `refused`."""
        if self.free_count == 0 and self.refill is not None:
            self.refill()
        count = self.free_count
        if count == 0:
            self._count(refused)
            return NO_FRAME
        self.free_count = count - 1
        return self._free[count - 1]

    def _give(self, frame: int) -> None:
        count = self.free_count
        self._free[count] = frame
        self.free_count = count + 1

    def make(self, length: int) -> Packet | None:
        """A new zeroed packet, or None (counted) when no frame is free or the length is over `longest`."""
        if length > self.longest:
            self._count("too_long")
            return None
        frame = self._take("exhausted")
        if frame == NO_FRAME:
            return None
        packet = Packet(self, frame)
        packet.reset(self.first_byte(frame), length)
        packet.data[:] = bytes(length)
        return packet

    def make_from(self, data: bytes | bytearray | memoryview) -> Packet | None:
        """A new packet that holds `data`, or None as for `make`."""
        packet = self.make(len(data))
        if packet is not None:
            packet.data[:] = data
        return packet

    def free(self, frame: int) -> None:
        """Gives `frame` back.  Giving it back twice is a bug of ours."""
        packet = Packet(self, frame)
        assert packet.live != FREE, f"frame {frame} freed twice"
        assert packet.live != IN_RING, f"frame {frame} is in a ring"
        packet.live = FREE
        self._give(frame)

    # -- frames in rings: of the kernel, of a device, of another process

    def lend(self, frame: int) -> int:
        """The packet ends; its frame is in a ring."""
        packet = Packet(self, frame)
        assert packet.live not in (FREE, IN_RING), f"frame {frame} holds no packet"
        packet.live = IN_RING
        return frame

    def adopt(self, frame: int, start: int, length: int) -> Packet:
        """A frame in a ring becomes a packet: `length` bytes from `start`, as they are; its metadata is fresh."""
        assert self.in_ring(frame), f"frame {frame} is not in a ring"
        assert start + length <= self.frame_size, f"{length} bytes from {start} are not in a frame"
        packet = Packet(self, frame)
        gate = packet.get("gate")  # what brought the packet into the frame said so
        packet.reset(start, length)
        packet.put("gate", gate)
        return packet

    def take_frame(self) -> int:
        """A free frame goes into a ring; NO_FRAME (counted as starved) when none is free."""
        frame = self._take("starved")
        if frame != NO_FRAME:
            packet = Packet(self, frame)
            packet.live = IN_RING
            packet.put("gate", 0)
        return frame

    def give_frame(self, frame: int) -> None:
        """A frame in a ring is free again."""
        assert self.in_ring(frame), f"frame {frame} is not in a ring"
        Packet(self, frame).live = FREE
        self._give(frame)

    def in_ring(self, frame: int) -> bool:
        return frame < self.frames and Packet(self, frame).live == IN_RING

    @property
    def held(self) -> int:
        """Frames that are not free: packets, and frames in rings."""
        shared = 0 if self.depot is None else len(self.depot)
        lists = (view.control[CONTROL["free_count"] // 8] for view in self.views)
        return self.frames - self.free_count - sum(lists) - shared

    def free_frames(self) -> Iterator[int]:
        """The frames that are free: on the lists of all threads and in the depot."""
        yield from self._free[: self.free_count]
        for view in self.views:
            yield from view.free[: view.control[CONTROL["free_count"] // 8]]
        if self.depot is not None:
            yield from self.depot.listed()

    def live_frames(self) -> Iterator[int]:
        """The frames that are packets: what a leak check lists."""
        return (n for n in range(self.frames) if Packet(self, n).live not in (FREE, IN_RING))

    def ring_frames(self) -> Iterator[int]:
        """The frames in rings."""
        return (n for n in range(self.frames) if Packet(self, n).live == IN_RING)

    def close(self) -> None:
        self.refill = None
        for part in (*self.views, *([self.depot] if self.depot is not None else [])):
            part.close()
        self.views, self.depot = [], None
        self._free.release()
        self._control.release()
        self.mem.release()
        with contextlib.suppress(BufferError):  # a view handed to the caller is alive; the mapping goes with it
            self.map.close()
        self._descriptor()


class Packet:
    """A view of the packet in one frame; owns nothing.  Offsets in frames never show: `data` is the packet's bytes."""

    __slots__ = ("arena", "frame", "meta")

    def __init__(self, arena: Arena, frame: int) -> None:
        self.arena, self.frame = arena, frame
        self.meta = arena.meta_offset + frame * META_SIZE

    def get(self, field: str) -> int:
        at, size = META[field]
        return _u(self.arena.mem, self.meta + at, size)

    def put(self, field: str, value: int) -> None:
        at, size = META[field]
        self.arena.mem[self.meta + at : self.meta + at + size] = value.to_bytes(size, "little")

    def reset(self, data: int, length: int) -> None:
        """Makes this a fresh packet: `length` bytes from `data`, as they are; marks unset, annotations zero."""
        self.arena.mem[self.meta : self.meta + META_SIZE] = bytes(META_SIZE)
        self.put("data", data)
        self.put("end", data + length)
        for mark in ("mac", "net", "trans"):
            self.put(mark, UNSET)
        self.live = PACKET

    @property
    def live(self) -> int:
        return self.get("live")

    @live.setter
    def live(self, value: int) -> None:
        self.put("live", value)

    @property
    def base(self) -> int:
        """Where the frame starts in the arena."""
        return self.arena.data_offset + self.frame * self.arena.frame_size

    @property
    def data(self) -> memoryview:
        """The packet's bytes; writing to them writes the packet."""
        base = self.base
        return self.arena.mem[base + self.get("data") : base + self.get("end")]

    @property
    def length(self) -> int:
        return self.get("end") - self.get("data")

    @property
    def headroom(self) -> int:
        return self.get("data")

    @property
    def tailroom(self) -> int:
        return self.arena.frame_size - self.get("end")

    def __len__(self) -> int:
        return self.length

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    # -- marks: None when unset, else the offset from the first byte (negative: in front of it)

    def mark(self, name: str) -> int | None:
        at = self.get(name)
        return None if at == UNSET else at - self.get("data")

    def set_mark(self, name: str, offset: int | None) -> None:
        self.put(name, UNSET if offset is None else self.get("data") + offset)

    @property
    def network(self) -> memoryview | None:
        """The bytes from the network header on."""
        offset = self.mark("net")
        return None if offset is None or offset < 0 else self.data[offset:]

    @property
    def transport(self) -> memoryview | None:
        offset = self.mark("trans")
        return None if offset is None or offset < 0 else self.data[offset:]

    @property
    def timestamp(self) -> int:
        """Nanoseconds since the Unix epoch; 0 when unset."""
        return self.get("timestamp")

    @timestamp.setter
    def timestamp(self, ns: int) -> None:
        self.put("timestamp", ns)

    @property
    def packet_type(self) -> int:
        return self.get("packet_type")

    @packet_type.setter
    def packet_type(self, value: int) -> None:
        self.put("packet_type", value)

    @property
    def anno(self) -> memoryview:
        """The 48 annotation bytes."""
        at = self.meta + META["anno"][0]
        return self.arena.mem[at : at + ANNO_SIZE]

    # -- size changes; False, and nothing done, where the packet or its room is too small

    def strip(self, count: int) -> bool:
        if count > self.length:
            return False
        self.put("data", self.get("data") + count)
        return True

    def prepend(self, count: int) -> bool:
        if count > self.headroom:
            return False
        self.put("data", self.get("data") - count)
        return True

    def append(self, count: int) -> bool:
        if count > self.tailroom:
            return False
        end = self.get("end")
        self.arena.mem[self.base + end : self.base + end + count] = bytes(count)
        self.put("end", end + count)
        return True

    def trim(self, count: int) -> bool:
        if count > self.length:
            return False
        self.put("end", self.get("end") - count)
        return True

    def clone(self) -> Packet | None:
        """A copy in a frame of its own: same bytes, room, marks, annotations; None when the pool is empty."""
        other = self.arena.make(0)
        if other is None:
            return None
        mem = self.arena.mem
        mem[other.meta : other.meta + META_SIZE] = mem[self.meta : self.meta + META_SIZE]
        other.data[:] = self.data
        return other
