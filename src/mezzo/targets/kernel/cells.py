"""State in maps, with the faces of `elements.store`: what handlers read and write while programs run.

Values that Python maps into its memory (@state, @lanes, large arrays) are read and written there; tables and prefixes
through the bpf system call.  The kernel never waits: a word is read whole, a table's entry replaced whole.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from typing import Any

from mezzo.base import bpf
from mezzo.elements import store
from mezzo.ir.module import State
from mezzo.ir.types import I64
from mezzo.targets.kernel.layout import Layout, Place, key_bytes, mem_bytes
from mezzo.targets.kernel.load import Maps

KEY = bytes(4)  # of the one value of an array


class Views:
    """The values that Python maps, by symbol."""

    def __init__(self, maps: Maps) -> None:
        self.maps = maps
        self._views: dict[str, mmap.mmap] = {}

    def view(self, symbol: str) -> mmap.mmap:
        if symbol not in self._views:
            size = -(-self.maps.layout.maps[symbol].value // mmap.PAGESIZE) * mmap.PAGESIZE
            self._views[symbol] = mmap.mmap(self.maps.descriptors[symbol], size)
        return self._views[symbol]

    def get(self, symbol: str, at: int, size: int) -> int:
        return int.from_bytes(self.view(symbol)[at : at + size], "little")

    def put(self, symbol: str, at: int, size: int, value: int) -> None:
        self.view(symbol)[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def close(self) -> None:
        for view in self._views.values():
            view.close()
        self._views.clear()


class Scalar:
    def __init__(self, views: Views, place: Place, state: State) -> None:
        self.type, self._views, self._place = state.type, views, place

    @property
    def value(self) -> int:
        return self.type.wrap(self._views.get(self._place.symbol, self._place.offset, mem_bytes(self.type)))

    @value.setter
    def value(self, value: int) -> None:
        told = self.type.wrap(int(value))
        self._views.put(self._place.symbol, self._place.offset, mem_bytes(self.type), told)

    def dump(self) -> int:
        return self.value

    def load(self, value: int) -> None:
        self.value = value


class Sum:
    """A scalar with a part in each lane; what Python sets is a part of its own, so that no packet's is lost."""

    def __init__(self, views: Views, place: Place, state: State, layout: Layout) -> None:
        self.type, self._views = state.type, views
        self._places = [place.offset + layout.lane * n for n in range(layout.lanes)]
        self._set = 0

    def go_on(self, before: Sum) -> None:
        self._set = before._set

    @property
    def counted(self) -> int:
        return sum(self._views.get("lanes", at, 8) for at in self._places)

    @property
    def value(self) -> int:
        return self.type.wrap(self._set + self.counted)

    @value.setter
    def value(self, value: int) -> None:
        self._set = int(value) - self.counted

    def dump(self) -> int:
        return self.value

    def load(self, value: int) -> None:
        self.value = value


class Array:
    def __init__(self, views: Views, place: Place, state: State) -> None:
        self.type, self._count, self._views, self._place = state.type, state.size, views, place
        self._size = mem_bytes(state.type)

    def __len__(self) -> int:
        return self._count

    def _at(self, index: int) -> int:
        if not -self._count <= index < self._count:
            raise IndexError("array index out of range")
        return self._place.offset + index % self._count * self._size

    def __getitem__(self, index: int) -> int:
        return self.type.wrap(self._views.get(self._place.symbol, self._at(index), self._size))

    def __setitem__(self, index: int, value: int) -> None:
        self._views.put(self._place.symbol, self._at(index), self._size, self.type.wrap(value))

    def dump(self) -> list[int]:
        size, wrap = self._size, self.type.wrap
        whole = self._views.view(self._place.symbol)[self._at(0) : self._at(0) + size * self._count]
        return [wrap(int.from_bytes(whole[at : at + size], "little")) for at in range(0, len(whole), size)]

    def load(self, values: Iterable[int]) -> None:
        wrap, mask, values = self.type.wrap, (1 << 8 * self._size) - 1, list(values)
        if any(values):
            whole = b"".join((wrap(v) & mask).to_bytes(self._size, "little") for v in values)
        else:
            whole = bytes(self._size * len(values))
        self._views.view(self._place.symbol)[self._at(0) : self._at(0) + len(whole)] = whole


class Table:
    """A hash of the kernel, all entries made beforehand: it is full at its capacity, not before."""

    def __init__(self, fd: int, state: State) -> None:
        assert state.key is not None
        self.key, self.type, self.capacity, self.fd = state.key, state.type, state.size, fd
        self._key, self._value = key_bytes(state), mem_bytes(state.type)

    def _pack(self, key: int) -> bytes:
        return (key & ((1 << 8 * self._key) - 1)).to_bytes(self._key, "little")

    def _packed(self, value: int) -> bytes:
        return (self.type.wrap(value) & ((1 << 8 * self._value) - 1)).to_bytes(self._value, "little")

    def __len__(self) -> int:
        return len(self._rows())

    def _rows(self) -> list[tuple[bytes, bytes]]:
        return bpf.map_items(self.fd, self._key, self._value, self.capacity)

    def __contains__(self, key: int) -> bool:
        return bpf.map_get(self.fd, self._pack(key), self._value) is not None

    def get(self, key: int, default: int = 0) -> int:
        found = bpf.map_get(self.fd, self._pack(key), self._value)
        return default if found is None else self.type.wrap(int.from_bytes(found, "little"))

    def set(self, key: int, value: int) -> bool:
        """False, and nothing done, when the key is new and the table full."""
        try:
            bpf.map_put(self.fd, self._pack(key), self._packed(value))
        except OSError:
            return False
        return True

    def delete(self, key: int) -> bool:
        return bpf.map_delete(self.fd, self._pack(key))

    def clear(self) -> None:
        for key, _ in self._rows():
            bpf.map_delete(self.fd, key)

    def items(self) -> list[tuple[int, int]]:
        """Sorted by key."""
        wrap, number = self.type.wrap, int.from_bytes
        return sorted((number(key, "little"), wrap(number(value, "little"))) for key, value in self._rows())

    def dump(self) -> list[tuple[int, int]]:
        return self.items()

    def load(self, items: Iterable[tuple[int, int]]) -> None:
        self.clear()
        rows = dict(items)
        keys, values = map(self._pack, rows), map(self._packed, rows.values())
        bpf.map_put_many(self.fd, b"".join(keys), b"".join(values), len(rows))


class LruTable(Table):
    """A hash of the kernel that forgets; a use is what a program looks for, and what anybody sets.

    The kernel does not say how many it forgot: they are those that were made, less those deleted, less those there are.
    Programs and native code count the first two in a word; what Python made is in `_mine`."""

    def __init__(self, fd: int, state: State, views: Views, word: int) -> None:
        super().__init__(fd, state)
        self._views, self._word = views, word
        self._mine = {"made": 0, "forgotten": 0}

    def go_on(self, before: LruTable) -> None:
        self._mine = before._mine

    @property
    def forgotten(self) -> int:
        """Entries that went for want of room.  What packets do meanwhile may be counted later; it never goes down."""
        made = self._mine["made"] + I64.wrap(self._views.get("state", self._word, 8))
        self._mine["forgotten"] = max(self._mine["forgotten"], made - len(self))
        return self._mine["forgotten"]

    def use(self, key: int) -> bool:
        return key in self

    def find(self, key: int, default: int) -> int:
        return self.get(key, default)

    def set(self, key: int, value: int) -> bool:
        """Always True."""
        packed = self._pack(key), self._packed(value)
        if key not in self and bpf.map_put_new(self.fd, *packed):
            self._mine["made"] += 1
        else:
            bpf.map_put(self.fd, *packed)
        return True

    def delete(self, key: int) -> bool:
        was = super().delete(key)
        self._mine["made"] -= was
        return was

    def clear(self) -> None:
        for key, _ in self._rows():
            self._mine["made"] -= bpf.map_delete(self.fd, key)

    def dump(self) -> Any:
        """How many it forgot, and what it has; the order of use the kernel keeps for itself."""
        return self.forgotten, self.items()

    def load(self, content: Any) -> None:
        """What finds no room counts as forgotten; it is for who comes before the packets."""
        forgotten, items = content
        kept = items[-self.capacity :]
        super().load(kept)
        forgotten += len(items) - len(kept)
        counted = I64.wrap(self._views.get("state", self._word, 8))
        self._mine.update(made=len(kept) + forgotten - counted, forgotten=forgotten)


class Lpm(store.Lpm):
    """A trie of the kernel, which packet code only reads; Python keeps the prefixes too, and writes both.

    The trie's keys are the length, then the bits, the first ones first.
    """

    def __init__(self, fd: int, state: State) -> None:
        assert state.key is not None
        super().__init__(state.key)
        self.fd = fd

    def go_on(self, before: Lpm) -> None:
        self.by_length = before.by_length

    def _pack(self, key: int, length: int) -> bytes:
        kept = self._prefix(key, length) << (self.key.bits - length)
        return length.to_bytes(4, "little") + kept.to_bytes(self.key.bits // 8, "big")

    def add(self, key: int, length: int, value: int) -> None:
        """Adds or replaces a prefix; bits of `key` beyond `length` do not count."""
        super().add(key, length, value)
        bpf.map_put(self.fd, self._pack(key, length), (value & 0xFFFFFFFF).to_bytes(4, "little"))

    def remove(self, key: int, length: int) -> bool:
        return super().remove(key, length) and bpf.map_delete(self.fd, self._pack(key, length))

    def change(self, keys: Sequence[int], lengths: Sequence[int], values: Sequence[int]) -> None:
        """All of them, or after a refusal (the map is full) none."""
        before = [(key, length, self.get(key, length)) for key, length in zip(keys, lengths, strict=True)]
        try:
            super().change(keys, lengths, values)
        except OSError:
            for row in sorted(before, key=lambda row: row[2]):  # what is new goes first: the rest needs its room
                super().change(*([x] for x in row))
            raise

    def clear(self) -> None:
        for key, length, _ in self.items():
            bpf.map_delete(self.fd, self._pack(key, length))
        super().clear()

    def load(self, items: Iterable[tuple[int, int, int]]) -> None:
        self.clear()
        for key, length, value in items:
            super().add(key, length, value)
        rows = list(self.items())
        keys = b"".join(self._pack(key, length) for key, length, _ in rows)
        values = b"".join((value & 0xFFFFFFFF).to_bytes(4, "little") for *_, value in rows)
        bpf.map_put_many(self.fd, keys, values, len(rows))


class Blob:
    """Read-only bytes, as many as when the program was made: a program knows the length."""

    def __init__(self, fd: int, data: bytes, size: int) -> None:
        self.fd, self.data, self._size = fd, data, size
        bpf.map_put(fd, KEY, data.ljust(size, b"\0"))

    def __len__(self) -> int:
        return len(self.data)

    def bind(self, data: Any) -> None:
        content = bytes(data)
        if len(content) != len(self.data):
            raise ValueError(f"a program in the kernel has {len(self.data)} bytes here, not {len(content)}")
        self.data = content
        bpf.map_put(self.fd, KEY, content.ljust(self._size, b"\0"))

    def dump(self) -> Any:
        return self.data

    def load(self, data: Any) -> None:
        self.bind(data)


def make_cell(views: Views, place: Place, state: State, given: Any, before: Any = None) -> Any:
    """The object for one declared state, with the contents that `given` has; or, where it goes on in the map of the
    cell `before`, with what is there."""
    layout, fd = views.maps.layout, views.maps.descriptors[place.symbol]
    if state.kind == "blob":
        return Blob(fd, bytes(given.dump()), layout.maps[place.symbol].value)
    cell: Any
    if place.is_lane:
        cell = Sum(views, place, state, layout)
    elif state.kind in ("scalar", "array"):
        cell = (Scalar if state.kind == "scalar" else Array)(views, place, state)
    elif state.kind == "lru":
        cell = LruTable(fd, state, views, place.offset)
    else:
        cell = (Table if state.kind == "table" else Lpm)(fd, state)
    if before is None:
        cell.load(given.dump())
    elif isinstance(cell, Sum | LruTable | Lpm):
        cell.go_on(before)
    return cell
