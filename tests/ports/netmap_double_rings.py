"""Memory and rings of the simulated netmap kernel side: allocators, and what the kernel knows of a ring.

The shared region is three pools back to back: interfaces, rings, buffers.  `Kring` is the kernel's half of a ring:
`rhead rcur rtail` are what it saw of the user's half at the last sync, `hwcur` is the next slot it will look at,
`hwtail` the first one that it keeps.  All indexes go round.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass, field
from typing import Any

from mezzo.ports import _netmap_abi as abi

TX, RX = 1, 0  # as `dir` has it in memory
PAGE = 4096


class KernelError(Exception):
    """A system call fails."""

    def __init__(self, errno: int) -> None:
        super().__init__(os.strerror(errno))
        self.errno = errno


@dataclass
class Pool:
    """Objects of one size; what was freed last goes out first, as long as nothing was freed they go out in order."""

    offset: int
    total: int
    size: int
    fresh: int = 0
    freed: list[int] = field(default_factory=list)

    def take(self) -> int:
        if self.freed:
            return self.freed.pop()
        if self.fresh == self.total:
            raise KernelError(12)  # ENOMEM
        self.fresh += 1
        return self.fresh - 1

    def give(self, index: int) -> None:
        assert 0 <= index < self.fresh and index not in self.freed, f"object {index} freed twice"
        self.freed.append(index)

    @property
    def used(self) -> int:
        return self.fresh - len(self.freed)

    def at(self, index: int) -> int:
        return self.offset + index * self.size


class Memory:
    """One allocator: `kinds` is (how many, how large) of interfaces, rings and buffers."""

    def __init__(self, number: int, *kinds: tuple[int, int]) -> None:
        self.number = number
        at, self.pools = 0, []
        for total, size in kinds:
            self.pools.append(Pool(at, total, size))
            at += total * size
        self.ifs, self.rings, self.buffers = self.pools
        self.buffers.fresh = abi.RESERVED_BUFFERS
        self.size = at
        self.fd = os.memfd_create(f"netmap-{number}")
        os.ftruncate(self.fd, at)
        self.mem = mmap.mmap(self.fd, at)  # sparse: what is not touched takes no room

    @classmethod
    def shared(cls) -> Memory:
        return cls(1, (100, 1024), (200, 36864), (163840, 2048))

    @classmethod
    def private(cls, number: int, rings: tuple[int, int], slots: tuple[int, int], extra: int = 0) -> Memory:
        """Sized for a port of `rings` (tx, rx) with `slots`, and two pipes at it."""
        pipes, (tx, rx) = 2, (rings[0] + 1, rings[1] + 1)  # each with a host ring that is not there
        ifs = 2 + 4 * pipes
        ring = -(-max(abi.RING_HEADER + 16 * max(slots), 5 * PAGE) // 64) * 64
        buffers = (4 * pipes + rx) * slots[1] + (4 * pipes + tx) * slots[0] + 2 + extra
        return cls(number, (-(-ifs // 4) * 4, 1024), (tx + rx + 8 * pipes, ring), (buffers, 2048))

    @property
    def buffer_size(self) -> int:
        return self.buffers.size

    def valid(self, index: int) -> bool:
        return abi.RESERVED_BUFFERS <= index < self.buffers.total

    def buffer(self, index: int, length: int) -> bytes:
        at = self.buffers.at(index)
        return self.mem[at : at + length]

    def fill(self, index: int, data: bytes) -> None:
        at = self.buffers.at(index)
        self.mem[at : at + len(data)] = data

    def extra(self, count: int) -> int:
        """A list of buffers, linked through their first words; its head, 0 when there is not one."""
        head = 0
        for _ in range(count):
            try:
                index = self.buffers.take()
            except KernelError:
                break
            self.fill(index, struct.pack("<I", head))
            head = index
        return head

    def give_list(self, head: int) -> None:
        while head:
            following = struct.unpack("<I", self.buffer(head, 4))[0]
            self.buffers.give(head)
            head = following

    def close(self) -> None:
        self.mem.close()
        os.close(self.fd)


@dataclass
class Slot:
    buf: int
    len: int
    flags: int = 0
    ptr: int = 0


class Kring:
    """The kernel's half of one ring of a port."""

    def __init__(self, port: Any, direction: int, number: int, slots: int, is_host: bool = False) -> None:
        self.port, self.direction, self.number, self.n, self.is_host = port, direction, number, slots, is_host
        self.memory: Memory = port.memory
        self.index = -1  # of the ring in its pool; negative: it has no memory
        self.users = 0
        self.exclusive = False
        self.rhead = self.rcur = self.rtail = self.hwcur = self.hwtail = 0
        self.pipe: Kring | None = None
        self.pipe_tail = 0
        self.monitors: list[Any] = []

    # -- its memory

    def create(self, buffers: list[int] | None = None) -> None:
        """Gives it memory, and buffers of its own or those of another ring."""
        self.index = self.memory.rings.take()
        mem, at = self.memory.mem, self.at
        mem[at : at + abi.RING_HEADER] = bytes(abi.RING_HEADER)
        room = self.n - 1 if self.direction == TX else 0
        self.rhead = self.rcur = self.hwcur = 0
        self.hwtail = self.rtail = self.pipe_tail = room
        self.set("buf_ofs", self.memory.buffers.offset - at)
        for name, value in (("num_slots", self.n), ("buf_size", self.memory.buffer_size), ("ringid", self.number)):
            self.set(name, value)
        self.set("dir", self.direction)
        self.set("tail", room)
        taken = buffers or [self.memory.buffers.take() for _ in range(self.n)]
        for k, index in enumerate(taken):
            self.put(k, Slot(index, self.memory.buffer_size))

    def destroy(self, with_buffers: bool = True) -> None:
        for k in range(self.n if with_buffers else 0):
            if self.memory.valid(index := self.slot(k).buf):
                self.memory.buffers.give(index)
        self.memory.rings.give(self.index)
        self.index = -1

    @property
    def at(self) -> int:
        return self.memory.rings.at(self.index)

    def get(self, name: str) -> int:
        return abi.RING.get(self.memory.mem, name, self.at)  # type: ignore[arg-type]

    def set(self, name: str, value: int) -> None:
        abi.RING.set(self.memory.mem, name, value, self.at)  # type: ignore[arg-type]

    def slot(self, k: int) -> Slot:
        return Slot(*struct.unpack_from("<IHHQ", self.memory.mem, self.at + abi.RING_HEADER + 16 * k))

    def put(self, k: int, slot: Slot) -> None:
        place = self.at + abi.RING_HEADER + 16 * k
        struct.pack_into("<IHHQ", self.memory.mem, place, slot.buf, slot.len, slot.flags, slot.ptr)

    def buffers(self) -> list[int]:
        return [self.slot(k).buf for k in range(self.n)]

    # -- going round

    def after(self, k: int, count: int = 1) -> int:
        return (k + count) % self.n

    def walk(self, start: int, end: int) -> list[int]:
        """The indexes of [start, end)."""
        return [(start + k) % self.n for k in range((end - start) % self.n)]

    def room(self) -> int:
        """Of a receive ring: slots that the kernel may fill."""
        return self.n - 1 - (self.hwtail - self.hwcur) % self.n

    # -- the user's half is read and written

    def prologue(self) -> bool:
        """Takes the user's head and cur; False when they cannot be."""
        head, cur, tail = self.get("head"), self.get("cur"), self.get("tail")
        start = self.rhead if self.direction == TX else self.hwcur
        most = (self.rtail - start) % self.n
        sound = head < self.n and cur < self.n
        sound = sound and (head - start) % self.n <= (cur - start) % self.n <= most
        if not sound:
            return False
        if tail != self.rtail:
            self.set("tail", self.rtail)
        self.rhead, self.rcur = head, cur
        return True

    def reinit(self) -> None:
        """A ring that cannot be: slots are made sound, indexes only when one is out of the ring."""
        bad = max(self.get("head"), self.get("cur"), self.get("tail")) >= self.n
        for k in range(self.n):
            slot = self.slot(k)
            if not self.memory.valid(slot.buf):
                slot.buf = slot.len = 0
                self.put(k, slot)
            elif slot.len > self.memory.buffer_size:
                slot.len = 0
                self.put(k, slot)
        if bad:
            self.rhead = self.rcur = self.hwcur
            self.rtail = self.hwtail
            for name, value in (("head", self.hwcur), ("cur", self.hwcur), ("tail", self.hwtail)):
                self.set(name, value)

    def finalize(self) -> None:
        self.rtail = self.hwtail
        self.set("tail", self.hwtail)

    # -- packets in slots

    def packet_slots(self, start: int, end: int, cut: bool = False) -> list[list[tuple[int, Slot]]]:
        """The slots of [start, end) as packets; an unfinished last one is left out, or taken as it is with `cut`."""
        found: list[list[tuple[int, Slot]]] = []
        part: list[tuple[int, Slot]] = []
        for k in self.walk(start, end):
            slot = self.slot(k)
            part.append((k, slot))
            if not slot.flags & abi.MORE_FRAG:
                found.append(part)
                part = []
        return [*found, part] if part and cut else found

    def fits(self, length: int) -> int:
        """How many slots that many bytes take."""
        return max(1, -(-length // self.memory.buffer_size))

    def append(self, data: bytes, flags: int = 0, fragments: bool = False) -> bool:
        """The kernel puts a packet behind hwtail; False when there is no room."""
        count = self.fits(len(data))
        if count > self.room():
            return False
        size = self.memory.buffer_size
        for part in range(count):
            k, slot = self.hwtail, self.slot(self.hwtail)
            piece = data[part * size : (part + 1) * size]
            self.memory.fill(slot.buf, piece)
            slot.len = len(piece)
            more = abi.MORE_FRAG if part < count - 1 else 0
            slot.flags = flags | more | (count << 8 if fragments else 0)
            self.put(k, slot)
            self.hwtail = self.after(k)
        return True
