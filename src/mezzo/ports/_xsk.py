"""AF_XDP sockets by system calls: memory, rings, binding, statistics (Documentation/networking/af_xdp).

One socket serves one queue of one interface.  Its memory (UMEM) is the data region of the arena, so address a in a ring
is byte a % frame_size of frame a // frame_size, the same for every socket of the router: what came in by one leaves by
another without a copy.  The kernel's chunks are at most a page; a larger frame is several chunks in a row.

The first socket registers the memory, others share it.  Who shares inherits mode and flags of the first (the kernel
takes none from a sharer), so one that must differ registers the same memory once more; the kernel does not mind.
Fill and completion rings are per (interface, queue), and each socket here has its own.

Nothing here needs a right: the bare socket does, and comes from `privileged`.  Pinned memory counts against
RLIMIT_MEMLOCK of a process without CAP_IPC_LOCK.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from mezzo.base import Diagnostic, MezzoError
from mezzo.packet.arena import Arena

AF_XDP, SOL_XDP = 44, 283
MMAP_OFFSETS, RX_RING, TX_RING, UMEM_REG, FILL_RING, COMPLETION_RING, STATISTICS, OPTIONS, TX_BUDGET = range(1, 10)
SHARED, COPY, ZERO_COPY, NEED_WAKEUP, SCATTER = 1, 2, 4, 8, 16  # flags of bind
PAGES = {"rx": 0, "tx": 0x8000_0000, "fill": 0x1_0000_0000, "completion": 0x1_8000_0000}
OPTION_OF = {"rx": RX_RING, "tx": TX_RING, "fill": FILL_RING, "completion": COMPLETION_RING}
ENTRY = {"rx": 16, "tx": 16, "fill": 8, "completion": 8}
KERNEL_HEADROOM = 256  # XDP_PACKET_HEADROOM: a packet begins this far into its chunk
PAGE = mmap.PAGESIZE
LEAST, LARGEST = 64, 1 << 15
PATIENCE_S = 1.0
MOST_QUEUES = 64
WAKE_UP = 1  # XDP_RING_NEED_WAKEUP, a flag of a ring
MORE = 1  # XDP_PKT_CONTD, an option of a descriptor: the packet goes on in the next one
SO_PREFER_BUSY_POLL, SO_BUSY_POLL, SO_BUSY_POLL_BUDGET = 69, 46, 70
COUNTS = ("rx_dropped", "rx_invalid", "tx_invalid", "rx_ring_full", "fill_ring_empty", "tx_ring_empty")
MAP_POPULATE = 0x8000
_LIBC = ctypes.CDLL(None, use_errno=True)
# A record tells packet code where the rings of one socket are; all its words are u64.
RECORD = 256
FD, RX_PRODUCER, RX_CONSUMER, RX_ENTRIES, RX_MASK = range(0, 40, 8)
FILL_PRODUCER, FILL_CONSUMER, FILL_ENTRIES, FILL_MASK, FILL_FLAGS = range(40, 80, 8)
TX_PRODUCER, TX_CONSUMER, TX_ENTRIES, TX_MASK, TX_FLAGS = range(80, 120, 8)
DONE_PRODUCER, DONE_CONSUMER, DONE_ENTRIES, DONE_MASK = range(120, 152, 8)
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_LIBC.mmap.restype = ctypes.c_void_p
_FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True, slots=True)
class Sizes:
    """Slots of the rings.  Fill is at least twice rx: the kernel holds frames of both, and a driver some more."""

    rx: int = 2048
    tx: int = 2048
    fill: int = 4096
    completion: int = 2048

    def __post_init__(self) -> None:
        for name in ("rx", "tx", "fill", "completion"):
            size = getattr(self, name)
            if size & (size - 1) or not LEAST <= size <= LARGEST:
                above = min(max(LEAST, 1 << max(size - 1, 0).bit_length()), LARGEST)
                raise MezzoError(
                    Diagnostic(
                        f"a {name} ring of {size} slots: the kernel takes powers of two, and fewer than {LEAST} stall",
                        hint=f"say {above}, or any power of two from {LEAST} to {LARGEST}",
                    )
                )
        if self.fill < 2 * self.rx:
            raise MezzoError(
                Diagnostic(
                    f"a fill ring of {self.fill} slots does not feed a receive ring of {self.rx}",
                    hint=f"say {2 * self.rx} or more: the kernel needs frames to fill while {self.rx} wait to be read",
                )
            )
        if self.completion < self.tx:
            raise MezzoError(
                f"a completion ring of {self.completion} slots: a transmit ring of {self.tx} needs as many"
            )


MASK32 = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Ring:
    """Where a ring is in memory: addresses of its words and of its first entry."""

    producer: int
    consumer: int
    flags: int
    entries: int
    size: int


def chunk_of(frame_size: int) -> int:
    """The kernel's chunk for these frames: it serves none larger than a page."""
    return min(frame_size, PAGE)


def largest_plain(frame_size: int, more: int = 0) -> int:
    """The longest packet that one chunk takes in either direction, with `more` bytes of headroom."""
    return chunk_of(frame_size) - KERNEL_HEADROOM - 64 - more


def largest_joined(frame_size: int, more: int = 0) -> int:
    """The longest packet that a frame takes when several chunks are joined in it."""
    return frame_size - KERNEL_HEADROOM - 64 - more


class Owners:
    """Sockets that have registered an arena, by flags and headroom: whom a further one can share with."""

    _of: WeakKeyDictionary[Arena, dict[int, int]] = WeakKeyDictionary()

    @classmethod
    def find(cls, arena: Arena, flags: int) -> int:
        """The descriptor of one with these flags, 0 without."""
        return cls._of.get(arena, {}).get(flags, 0)

    @classmethod
    def add(cls, arena: Arena, flags: int, fd: int) -> None:
        cls._of.setdefault(arena, {})[flags] = fd

    @classmethod
    def drop(cls, arena: Arena, fd: int) -> None:
        of = cls._of.get(arena, {})
        for flags in [k for k, v in of.items() if v == fd]:
            del of[flags]


class Socket:
    """A socket of one queue.  `set_up`, `bind`, then `rings`; `close` in the end."""

    def __init__(self, fd: int, ifindex: int, queue: int, sizes: Sizes) -> None:
        self.fd, self.ifindex, self.queue, self.sizes = fd, ifindex, queue, sizes
        self.rings: dict[str, Ring] = {}
        self.maps: list[tuple[int, int]] = []
        self._arena: Arena | None = None  # registered by this socket

    # -- setting it up

    def join(self, arena: Arena, flags: int, headroom: int = 0) -> None:
        """Binds with the arena as memory: shared with a socket that wants the same of it, else registered here."""
        wanted = flags | headroom << 16
        owner = Owners.find(arena, wanted)
        if owner and self._arena is None:
            return self.bind(SHARED, owner)
        if self._arena is None:
            self.register(arena, headroom)
        self.bind(flags)
        Owners.add(arena, wanted, self.fd)

    def register(self, arena: Arena, headroom: int) -> None:
        """Gives the kernel the arena's frames; `headroom` is beyond what it leaves by itself."""
        size = arena.frames * arena.frame_size
        told = struct.pack("=QQIIII", arena.frame_address(0), size, chunk_of(arena.frame_size), headroom, 0, 0)
        try:
            self._set(UMEM_REG, told)
            self._arena = arena
        except OSError as refusal:
            if refusal.errno == errno.ENOBUFS:
                raise MezzoError(_locked_too_little(size)) from refusal
            raise

    def make_rings(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._set(OPTION_OF[name], struct.pack("=I", getattr(self.sizes, name)))

    def bind(self, flags: int, shared: int = 0) -> None:
        """Binds to the queue.  A queue that a dead process had is busy for a moment more."""
        end = time.monotonic() + PATIENCE_S
        told = struct.pack("=HHIII", AF_XDP, flags, self.ifindex, self.queue, shared)
        while True:
            try:
                return self._call(_LIBC.bind, ctypes.c_char_p(told), len(told))
            except OSError as refusal:
                if refusal.errno != errno.EBUSY or time.monotonic() > end:
                    raise
            time.sleep(0.01)

    def map_rings(self, names: tuple[str, ...]) -> None:
        words = struct.unpack("=16Q", self._get(MMAP_OFFSETS, 128))
        places = dict(zip(("rx", "tx", "fill", "completion"), (words[i : i + 4] for i in range(0, 16, 4)), strict=True))
        for name in names:
            producer, consumer, entries, flags = places[name]
            size = getattr(self.sizes, name)
            length = entries + size * ENTRY[name]
            base = _map(self.fd, length, PAGES[name])
            self.maps.append((base, length))
            self.rings[name] = Ring(base + producer, base + consumer, base + flags, base + entries, size)

    def busy_poll(self, us: int, budget: int) -> None:
        """The kernel's receive work is done when we ask, not by interrupts (af_xdp, SO_PREFER_BUSY_POLL)."""
        for option, value in ((SO_PREFER_BUSY_POLL, 1), (SO_BUSY_POLL, us), (SO_BUSY_POLL_BUDGET, budget)):
            self.plain_option(option, value)

    def widen_budget(self) -> None:
        """Lets one call send as many packets as there are slots (Linux 6.17); older kernels take 32 a call."""
        with suppress(OSError):
            self._set(TX_BUDGET, struct.pack("=I", self.sizes.tx))

    def record(self) -> bytes:
        """This socket for packet code; rings that it has not are zero."""
        words = [self.fd]
        for name, flags in (("rx", False), ("fill", True), ("tx", True), ("completion", False)):
            r = self.rings.get(name) or Ring(0, 0, 0, 0, 1)
            words += [r.producer, r.consumer, r.entries, r.size - 1, *([r.flags] if flags else [])]
        return struct.pack(f"={len(words)}Q", *words).ljust(RECORD, b"\0")

    # -- asking it

    @property
    def is_zero_copy(self) -> bool:
        return bool(int.from_bytes(self._get(OPTIONS, 4), "little") & 1)

    def statistics(self) -> dict[str, int]:
        return dict(zip(COUNTS, struct.unpack("=6Q", self._get(STATISTICS, 48)), strict=True))

    def trouble(self) -> int:
        """The error that the kernel reported last, for instance ENETDOWN when the interface is gone; 0 without."""
        room, length = ctypes.c_int(0), ctypes.c_uint32(4)
        where = (socket.SOL_SOCKET, socket.SO_ERROR, ctypes.byref(room), ctypes.byref(length))
        self._call(_LIBC.getsockopt, *where)
        return room.value

    # -- the end

    def close(self) -> None:
        """Ends it for the kernel; the rings stay in memory until `free`."""
        if self.fd < 0:
            return
        if self._arena is not None:
            Owners.drop(self._arena, self.fd)
        os.close(self.fd)
        self.fd = -1

    def frames(self, frame_size: int) -> list[int]:
        """The frames in its rings; of a socket that is closed they stay where they are."""
        found = []
        for name, ring in self.rings.items():
            first, end = (ctypes.c_uint32.from_address(at).value for at in (ring.consumer, ring.producer))
            stride = ENTRY[name] // 8
            words = (ctypes.c_uint64 * (ring.size * stride)).from_address(ring.entries)
            found += [words[((first + i) % ring.size) * stride] // frame_size for i in range((end - first) & MASK32)]
        return found

    def silence(self, quiet: int) -> None:
        """Puts another descriptor in the place of one whose device is gone, which would be ready for ever."""
        if self._arena is not None:
            Owners.drop(self._arena, self.fd)
        os.dup2(quiet, self.fd, inheritable=False)

    def free(self) -> None:
        self.rings = {}
        for base, length in self.maps:
            _LIBC.munmap(ctypes.c_void_p(base), ctypes.c_size_t(length))
        self.maps = []

    # -- system calls that Python's socket module has not

    def _set(self, option: int, value: bytes) -> None:
        self._call(_LIBC.setsockopt, SOL_XDP, option, ctypes.c_char_p(value), len(value))

    def _get(self, option: int, size: int) -> bytes:
        room, length = ctypes.create_string_buffer(size), ctypes.c_uint32(size)
        self._call(_LIBC.getsockopt, SOL_XDP, option, room, ctypes.byref(length))
        return room.raw

    def _call(self, function: Any, *words: Any) -> None:
        if function(self.fd, *words) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def plain_option(self, option: int, value: int) -> None:
        """An option of any socket (SOL_SOCKET)."""
        told = struct.pack("=i", value)
        self._call(_LIBC.setsockopt, socket.SOL_SOCKET, option, ctypes.c_char_p(told), len(told))


def _map(fd: int, length: int, page: int) -> int:
    """Maps a ring, present from the start; where it is."""
    words = (None, length, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_POPULATE, fd, page)
    at = _LIBC.mmap(*words)
    if at in (None, _FAILED):
        number = ctypes.get_errno()
        raise OSError(number, f"mapping a ring: {os.strerror(number)}")
    return int(at)


def _locked_too_little(size: int) -> Diagnostic:
    wanted = -(-size // 1024)
    return Diagnostic(
        f"the arena of {size >> 20} MB may not be pinned: RLIMIT_MEMLOCK is less",
        hint=f"allow more (ulimit -l {wanted}, or CAP_IPC_LOCK), or have fewer frames (--frames)",
    )
