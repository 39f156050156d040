"""Native state objects: the faces of `elements.store`, over the memory that native code works on.

Nothing is copied: reading a scalar reads the word that the code increments.  Whoever changes anything but a scalar or
an array element does so at a quiescent point of the code.

A cell knows its place in the block of its instance, and the block its `Ground`, that of all instances of a program.
When another program takes over, one assignment says where all these are from then on (`mover`).

Bodies are bytearrays: large ones come zeroed from the system and untouched, so what no packet reaches costs nothing.
numpy, slow to import, is left to what moves large tables (lpm.py) and to blobs that are not bytes.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from array import array
from collections.abc import Iterable
from typing import Any

from mezzo.ir.module import State
from mezzo.ir.types import Type
from mezzo.targets.native.layout import is_inline, lane_words, mem_bytes, power_of_two, table_shape

NONE = 0xFFFF_FFFF  # an empty slot
HUGE = 4 << 20  # bytes
MAP_FIXED = 0x10  # on every Linux but a few that LLVM is not made for here


def body(size: int) -> memoryview:
    """Zeroed bytes that stay where they are while the view lives."""
    if size < HUGE:
        return memoryview(bytearray(size or 1))
    # A large table is read at random: with 4 KB pages each read would miss the TLB too.
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)


def where(view: memoryview) -> int:
    """The address of a body."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def mapped(descriptor: int, size: int, before: int = 0) -> memoryview:
    """What is behind a descriptor, as memory (an mmap object would keep the descriptor open), behind `before` bytes."""
    whole = memoryview(mmap.mmap(-1, before + size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    protection, flags, at = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | MAP_FIXED, where(whole) + before
    if libc.mmap(at, size, protection, flags, descriptor, 0) != at:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return whole


class Memory:
    """The context block of a program: words by offset.  From `own` on it is the map behind `descriptor`."""

    def __init__(self, size: int, own: int = 0, descriptor: int = -1) -> None:
        if descriptor >= 0:
            self.view = mapped(descriptor, size - own, own)
        else:
            whole = body(size + 64)
            skip = -where(whole) % 64
            self.view = whole[skip : skip + size]
        self.address = where(self.view)

    def touch(self) -> None:
        """Has the system find its pages, which takes more time than what is written to them then."""
        for at in range(0, len(self.view), mmap.PAGESIZE):
            self.put(at, 1, self.get(at, 1))

    def get(self, at: int, size: int, signed: bool = False) -> int:
        return int.from_bytes(self.view[at : at + size], "little", signed=signed)

    def put(self, at: int, size: int, value: int) -> None:
        self.view[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def locate(self, at: int) -> Place:
        return self.view, at


Place = tuple[memoryview, int]


class Ground:
    """Where the blocks of a program's instances are; `places` is never changed, but replaced by another list."""

    __slots__ = ("places",)

    def __init__(self, view: memoryview, offsets: Iterable[int]) -> None:
        self.places: list[Place] = [(view, at) for at in offsets]


class Block:
    """The block of one instance, wherever it is: words by offset in it.  `seat`: a ground, and its number there."""

    __slots__ = ("seat",)

    def __init__(self, ground: Ground, number: int) -> None:
        self.seat = ground, number

    def locate(self, at: int) -> Place:
        ground, number = self.seat
        view, start = ground.places[number]
        return view, start + at

    def get(self, at: int, size: int, signed: bool = False) -> int:
        view, at = self.locate(at)
        return int.from_bytes(view[at : at + size], "little", signed=signed)

    def put(self, at: int, size: int, value: int) -> None:
        view, at = self.locate(at)
        view[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")


Words = Memory | Block  # what a cell's words are in

_INTEGERS = {
    (1, False): ctypes.c_uint8, (2, False): ctypes.c_uint16, (4, False): ctypes.c_uint32, (8, False): ctypes.c_uint64,
    (8, True): ctypes.c_int64,
}  # fmt: skip


class Scalar:
    def __init__(self, memory: Words, at: int, state: State) -> None:
        self.type = state.type
        self._memory, self._at, self._size = memory, at, mem_bytes(state.type)

    @property
    def value(self) -> int:
        return self._memory.get(self._at, self._size, self.type.signed)

    @value.setter
    def value(self, value: int) -> None:
        self._memory.put(self._at, self._size, self.type.wrap(int(value)))

    def move(self, memory: Words, at: int) -> None:
        """It lies elsewhere from now on, with what it holds; all kinds have this, and bodies stay where they are."""
        memory.put(at, self._size, self.value)
        self._memory, self._at = memory, at

    def word(self) -> Any:
        """The word itself as a ctypes integer, for who reads it very often; only of those up to 64 bits."""
        return _INTEGERS[self._size, self.type.signed].from_buffer(*self._memory.locate(self._at))

    def dump(self) -> int:
        return self.value

    def load(self, value: int) -> None:
        self.value = value


_FORMS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Array:
    """`given`: memory that is another's too, where it is to lie there."""

    def __init__(self, memory: Words, at: int, state: State, given: memoryview | None = None) -> None:
        self.type, self._count, self._size = state.type, state.size, mem_bytes(state.type)
        self._memory, self._start = memory, at
        self._body: memoryview | None = None  # where it is not in the block itself
        if not is_inline(state):
            self._body = body(self._size * state.size) if given is None else given
            memory.put(at, 8, where(self._body))

    @property
    def _view(self) -> memoryview:
        if self._body is not None:
            return self._body
        view, at = self._memory.locate(self._start)
        return view[at : at + self._size * self._count]

    def move(self, memory: Words, at: int) -> None:
        if self._body is not None:
            memory.put(at, 8, where(self._body))
        else:
            view, start = memory.locate(at)
            view[start : start + self._size * self._count] = self._view
        self._memory, self._start = memory, at

    def __len__(self) -> int:
        return self._count

    def _at(self, index: int) -> int:
        if not -self._count <= index < self._count:
            raise IndexError("array index out of range")
        return index % self._count * self._size

    def __getitem__(self, index: int) -> int:
        at = self._at(index)
        return int.from_bytes(self._view[at : at + self._size], "little", signed=self.type.signed)

    def __setitem__(self, index: int, value: int) -> None:
        at = self._at(index)
        value = self.type.wrap(value) & ((1 << 8 * self._size) - 1)
        self._view[at : at + self._size] = value.to_bytes(self._size, "little")

    def dump(self) -> list[int]:
        form = self._form()
        if not form:
            return [self[i] for i in range(self._count)]
        return self._view[: self._count * self._size].cast(form).tolist()  # type: ignore[call-overload,no-any-return]

    def load(self, values: Iterable[int]) -> None:
        form, values = self._form(), list(values)
        if values.count(0) == len(values):
            self._view[: len(values) * self._size] = bytes(len(values) * self._size)
        elif form:
            whole = self._as_array(form, values)
            self._view[: len(whole) * self._size] = memoryview(whole).cast("B")
        else:
            for index, value in enumerate(values):
                self[index] = value

    def _as_array(self, form: str, values: list[int]) -> array[int]:
        try:
            return array(form, values)
        except (OverflowError, TypeError):
            return array(form, [self.type.wrap(value) if value else 0 for value in values])

    def _form(self) -> str:
        """The letter by which `struct` calls the type, empty if it has none: large arrays are moved whole."""
        form = _FORMS.get(self._size, "")
        return form.lower() if self.type.signed else form


class Table:
    """Open addressing, at most half full; deletion shifts back, so there are no tombstones.  The hash is the one in
    pieces.py."""

    def __init__(self, memory: Words, at: int, state: State) -> None:
        self.shape = table_shape(state)
        self.key, self.type, self.capacity = self.shape.key, self.shape.value, state.size
        self._view = body((self.shape.slots + self.shape.forgets) * self.shape.stride)
        self._memory, self._count_at = memory, at + 8
        memory.put(at, 8, where(self._view))

    def move(self, memory: Words, at: int) -> None:
        memory.put(at, 8, where(self._view))
        memory.put(at + 8, 8, len(self))
        self._memory, self._count_at = memory, at + 8

    def __len__(self) -> int:
        return self._memory.get(self._count_at, 8)

    def _home(self, key: int) -> int:
        x = key if self.key.bits <= 64 else (key ^ ((key >> 64) * 0xD1B54A32D192ED03)) & 0xFFFF_FFFF_FFFF_FFFF
        x ^= x >> 32
        return (x * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF) >> self.shape.shift

    def _read(self, slot: int, at: int, type: Type) -> int:
        start = slot * self.shape.stride + at
        return int.from_bytes(self._view[start : start + mem_bytes(type)], "little", signed=type.signed)

    def _write(self, slot: int, at: int, size: int, value: int) -> None:
        start = slot * self.shape.stride + at
        self._view[start : start + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def _used(self, slot: int) -> bool:
        return self._view[slot * self.shape.stride + self.shape.used_at] != 0

    def _find(self, key: int) -> int:
        """The slot of `key`, or the free one where it would go."""
        slot = self._home(key)
        while self._used(slot) and self._read(slot, 0, self.key) != key:
            slot = (slot + 1) % self.shape.slots
        return slot

    def __contains__(self, key: int) -> bool:
        return self._used(self._find(key))

    def get(self, key: int, default: int = 0) -> int:
        slot = self._find(key)
        return self._read(slot, self.shape.value_at, self.type) if self._used(slot) else default

    def set(self, key: int, value: int) -> bool:
        """False, and nothing done, when the key is new and the table full."""
        slot, count = self._find(key), len(self)
        if not self._used(slot):
            if count >= self.capacity:
                return False
            self._write(slot, 0, mem_bytes(self.key), key)
            self._write(slot, self.shape.used_at, 4, 1)
            self._memory.put(self._count_at, 8, count + 1)
        self._write(slot, self.shape.value_at, mem_bytes(self.type), self.type.wrap(value))
        return True

    def delete(self, key: int) -> bool:
        slot = self._find(key)
        if not self._used(slot):
            return False
        self._cut(slot)
        return True

    def _cut(self, hole: int) -> None:
        stride, mask = self.shape.stride, self.shape.slots - 1
        slot = (hole + 1) & mask
        while self._used(slot):
            home = self._home(self._read(slot, 0, self.key))
            if (slot - home) & mask >= (slot - hole) & mask:
                self._view[hole * stride : (hole + 1) * stride] = self._view[slot * stride : (slot + 1) * stride]
                self._moved(hole)
                hole = slot
            slot = (slot + 1) & mask
        self._write(hole, self.shape.used_at, 4, 0)
        self._memory.put(self._count_at, 8, len(self) - 1)

    def _moved(self, slot: int) -> None:
        """An entry lies there now."""

    def clear(self) -> None:
        if len(self):
            self._view[:] = bytes(len(self._view))
            self._memory.put(self._count_at, 8, 0)

    def items(self) -> list[tuple[int, int]]:
        """Sorted by key."""
        if not len(self):
            return []
        used = bytes(self._view[self.shape.used_at :: self.shape.stride])
        return sorted(self._entry(slot) for slot, is_used in enumerate(used) if is_used)

    def _entry(self, slot: int) -> tuple[int, int]:
        return self._read(slot, 0, self.key), self._read(slot, self.shape.value_at, self.type)

    def dump(self) -> list[tuple[int, int]]:
        return self.items()

    def load(self, items: Iterable[tuple[int, int]]) -> None:
        self.clear()
        for key, value in items:
            self.set(key, value)


class Ring:
    """A power-of-two array of frame numbers; head and tail run freely.

    Between two threads the ends lie apart (`lanes`), and each thread has copies; while nobody runs all are equal.
    """

    def __init__(self, memory: Words, at: int, state: State, lanes: int = -1) -> None:
        self.size = state.size
        whole = body(4 * power_of_two(max(state.size, 1)))
        self._body = whole.cast("I")
        self._sit(memory, at, lanes)
        memory.put(at, 8, where(self._body.cast("B")))

    def _sit(self, memory: Words, at: int, lanes: int) -> None:
        self._memory = memory
        words: tuple[tuple[int, ...], tuple[int, ...]] = ((at + 8,), (at + 12,)) if lanes < 0 else lane_words(lanes)
        self._heads, self._tails = words

    def move(self, memory: Words, at: int, lanes: int = -1) -> None:
        head, tail = self._ends()
        self._sit(memory, at, lanes)
        memory.put(at, 8, where(self._body.cast("B")))
        self._move(self._heads, head)
        self._move(self._tails, tail)

    def _ends(self) -> tuple[int, int]:
        return self._memory.get(self._heads[0], 4), self._memory.get(self._tails[0], 4)

    def _move(self, words: tuple[int, ...], value: int) -> None:
        for at in words:
            self._memory.put(at, 4, value)

    def __len__(self) -> int:
        head, tail = self._ends()
        return (tail - head) & 0xFFFF_FFFF

    def _cell(self, counter: int) -> int:
        return (counter & 0xFFFF_FFFF) % len(self._body)

    def push(self, frame: int, front: bool = False) -> bool:
        """False, and nothing done, when the ring is full."""
        head, tail = self._ends()
        if len(self) >= self.size:
            return False
        self._body[self._cell(head - 1 if front else tail)] = frame
        self._move(*((self._heads, head - 1) if front else (self._tails, tail + 1)))
        return True

    def pop(self, back: bool = False) -> int:
        head, tail = self._ends()
        if head == tail:
            return -1
        self._move(*((self._tails, tail - 1) if back else (self._heads, head + 1)))
        return self._body[self._cell(tail - 1 if back else head)]

    def dump(self) -> list[int]:
        """Frame numbers, front first."""
        head, _ = self._ends()
        return [self._body[self._cell(head + i)] for i in range(len(self))]

    def load(self, frames: Iterable[int]) -> None:
        self._move(self._heads, 0)
        self._move(self._tails, 0)
        for frame in frames:
            self.push(frame)


class Slots:
    def __init__(self, memory: Words, at: int, state: State) -> None:
        whole = memoryview(bytearray(b"\xff" * 4 * max(state.size, 1)))
        self._size, self._body = state.size, whole.cast("I")
        self.move(memory, at)

    def move(self, memory: Words, at: int) -> None:
        memory.put(at, 8, where(self._body.cast("B")))

    def __len__(self) -> int:
        return self._size

    def used(self, index: int) -> bool:
        return self._body[index] != NONE

    def put(self, index: int, frame: int) -> bool:
        """False, and nothing done, when the slot is used."""
        if self.used(index):
            return False
        self._body[index] = frame
        return True

    def take(self, index: int) -> int:
        frame = self._body[index]
        self._body[index] = NONE
        return -1 if frame == NONE else frame

    def dump(self) -> list[int]:
        return [-1 if frame == NONE else frame for frame in self._body[: self._size]]

    def load(self, frames: Iterable[int]) -> None:
        for index, frame in enumerate(frames):
            self._body[index] = NONE if frame < 0 else frame


class Buffer:
    def __init__(self, memory: Words, at: int, state: State) -> None:
        self.size = state.size
        self._body = body(state.size)
        self._memory, self._used_at = memory, at + 8
        memory.put(at, 8, where(self._body))

    def move(self, memory: Words, at: int) -> None:
        memory.put(at, 8, where(self._body))
        memory.put(at + 8, 8, len(self))
        self._memory, self._used_at = memory, at + 8

    def __len__(self) -> int:
        return self._memory.get(self._used_at, 8)

    def append(self, data: bytes | bytearray | memoryview) -> bool:
        """False, and nothing done, when it does not fit."""
        used = len(self)
        if used + len(data) > self.size:
            return False
        self._body[used : used + len(data)] = data
        self._memory.put(self._used_at, 8, used + len(data))
        return True

    def view(self) -> memoryview:
        """The bytes in it; valid until the next append or `clear`."""
        return self._body[: len(self)]

    def clear(self) -> None:
        self._memory.put(self._used_at, 8, 0)

    def dump(self) -> bytes:
        return bytes(self.view())

    def load(self, data: bytes) -> None:
        self.clear()
        self.append(data)


class Blob:
    """Keeps what it is bound to alive; the code reads it in place."""

    def __init__(self, memory: Words, at: int, state: State) -> None:
        self._memory, self._at = memory, at
        self.bind(b"")

    def move(self, memory: Words, at: int) -> None:
        self._memory, self._at = memory, at
        self.bind(self.data)

    def __len__(self) -> int:
        return self._memory.get(self._at + 8, 8)

    def bind(self, data: Any) -> None:
        self.data = data
        self._memory.put(self._at, 8, _address_of_bytes(data) if len(data) else 0)
        self._memory.put(self._at + 8, 8, len(memoryview(data).cast("B")) if len(data) else 0)

    def dump(self) -> Any:
        return self.data

    def load(self, data: Any) -> None:
        self.bind(data)


def _address_of_bytes(data: Any) -> int:
    """Where the bytes of a buffer are, which may be read-only."""
    if isinstance(data, bytes):
        return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0
    # Only numpy gives the address of a buffer that must not be written, such as a mapped file.
    import numpy as np

    return int(np.frombuffer(data, np.uint8).ctypes.data)


KINDS: dict[str, Any] = {
    "scalar": Scalar, "array": Array, "table": Table, "ring": Ring, "slots": Slots, "buffer": Buffer, "blob": Blob,
}


def make_cell(memory: Words, at: int, state: State, lanes: int = -1) -> Any:
    """The native object for one declared state, `at` bytes into a block or the context; `lanes`: of a ring between two
    threads, whose ends lie apart in the context."""
    if lanes >= 0:
        return Ring(memory, at, state, lanes)
    if state.kind == "lpm":
        from mezzo.targets.native.lpm_small import SmallLpm  # it builds on this module

        return SmallLpm(memory, at, state)
    if state.kind == "lru":
        from mezzo.targets.native.lru import LruTable  # so does this

        return LruTable(memory, at, state)
    return KINDS[state.kind](memory, at, state)


def address_of(function: Any) -> int:
    """Where a ctypes callback is."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
