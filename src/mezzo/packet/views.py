"""Views of the arena: one a thread, each with a control page and a free list of its own.

A view maps the arena's memory once more: pages of its own in front, for control page and free list, and the shared
metadata and data behind, at the same offsets.  So code that is given a view's address works on the shared packets and
the thread's own list, and needs neither a lock nor to know.

Between the lists lies the depot: a stack of free frames at the end of the shared part, under a lock word.  A thread
whose list is empty takes BATCH frames, one whose list grows beyond `most` gives back what is over `keep`.  Native code
moves frames; Python counts them, and moves them only while no thread runs.

    depot      lock (u32) at 0, count (u64) at 64, then `frames` x u32 at 128
"""

from __future__ import annotations

import copy
import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mezzo.packet.arena import Arena

BATCH = 64
MOST = 1024  # frames on a thread's list
DEPOT_COUNT, DEPOT_FRAMES = 64, 128  # offsets

_MAP_FIXED, _MAP_NORESERVE = 0x10, 0x4000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _map(address: int | None, size: int, flags: int, fd: int, offset: int) -> int:
    found = _libc.mmap(address, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, offset)
    if found is None or found == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, f"the arena cannot be mapped once more ({size} bytes)")
    return int(found)


class View:
    """The arena as one further thread sees it: `address` is where; its list starts empty."""

    def __init__(self, arena: Arena) -> None:
        self.size, own = arena.size, arena.meta_offset
        self.address = _map(None, self.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE, -1, 0)
        _map(self.address + own, self.size - own, mmap.MAP_SHARED | _MAP_FIXED, arena.fd, own)
        self._memory = (ctypes.c_char * own).from_address(self.address)
        self.front = memoryview(self._memory).cast("B")
        control, whole = self.front[:4096].cast("Q"), arena.mem[:4096].cast("Q")
        self.control, self.free = (
            control,
            self.front[arena.free_offset : arena.free_offset + 4 * arena.frames].cast("I"),
        )
        control[:2] = whole[:2]  # frames, frame_size

    def seen(self, arena: Arena, refill: Callable[[], None]) -> Arena:
        """The arena for Python that this thread calls: frames are made from, and go to, the thread's own list."""
        seen = copy.copy(arena)
        seen._free, seen._control = self.free, self.control
        seen.views, seen.depot, seen.refill = [], None, refill
        return seen

    def close(self) -> None:
        self.control.release()
        self.free.release()
        self.front.release()
        _libc.munmap(self.address, self.size)


class Depot:
    """Python's side of the depot; `most` and `keep` are for lists."""

    def __init__(self, arena: Arena, offset: int, threads: int) -> None:
        self.offset = offset
        self.keep = max(1, min(MOST // 2, arena.frames // (4 * threads)))
        self.most = 2 * self.keep
        self.batch = min(BATCH, self.keep)
        self._count = arena.mem[offset + DEPOT_COUNT : offset + DEPOT_COUNT + 8].cast("Q")
        start = offset + DEPOT_FRAMES
        self._frames = arena.mem[start : start + 4 * arena.frames].cast("I")

    def __len__(self) -> int:
        return self._count[0]

    def put(self, frames: list[int]) -> None:
        """Adds free frames, while no thread runs."""
        count = len(self)
        for i, frame in enumerate(frames):
            self._frames[count + i] = frame
        self._count[0] = count + len(frames)

    def listed(self) -> Iterator[int]:
        return (self._frames[i] for i in range(len(self)))

    def close(self) -> None:
        self._count.release()
        self._frames.release()


def depot_bytes(frames: int) -> int:
    return DEPOT_FRAMES + 4 * frames
