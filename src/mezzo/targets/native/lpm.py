"""Longest prefix match in native memory: a poptrie for 32-bit keys, a hash table per length for others.

Poptrie (Asai and Ohara, SIGCOMM 2015): the top 18 bits index a directory; below, nodes of 64 ways (6 bits each, the
key taken as 36 bits with four zeros behind) hold two bit vectors: which ways lead to a child node, and at which ways
a new leaf value begins.  Children and leaves of a node are contiguous, so a popcount finds them.

    descriptor  directory, nodes, leaves, values (addresses; values may be null), code of the prefix of length 0
    directory   2^18 x u32: a leaf code, or 2^31 + node number
    node        u64 child vector, u64 leaf vector, u32 first child, u32 first leaf
    code        0: no route; else value + 1, or, once a value has no room in 31 bits, 1 + its place in `values`

The prefix of length 0 is kept apart, hence an empty or default-only table touches nothing.  The routes themselves are
sorted arrays, with a small dictionary of changes that is merged in now and then.  A change rebuilds only the
directory entries that the prefix covers, with the same vectorised code that builds the whole; nodes left behind are
counted, and once they are the greater part everything is built anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mezzo.ir.module import State
from mezzo.targets.native.state import Words

U32s = npt.NDArray[np.uint32]
U64s = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

DIRECT = 18
DEEP = 1 << 31
MERGE = 2048  # changes kept beside the sorted arrays
NODE = np.dtype([("children", "<u8"), ("leaves", "<u8"), ("first_child", "<u4"), ("first_leaf", "<u4")])
WAYS = np.arange(64, dtype=np.uint64)


class Pool:
    """A growing array; its address changes when it grows."""

    def __init__(self, dtype: Any) -> None:
        self.cells = np.zeros(64, dtype)
        self.used = 0

    def add(self, rows: Any) -> int:
        """Appends; the index of the first."""
        first, self.used = self.used, self.used + len(rows)
        if self.used > len(self.cells):
            grown = np.zeros(max(self.used, 2 * len(self.cells)), self.cells.dtype)
            grown[:first] = self.cells[:first]
            self.cells = grown
        self.cells[first : self.used] = rows
        return first


def paint(level: npt.NDArray[np.uint32], row: Ints, start: Ints, count: Ints, codes: U32s) -> None:
    """Sets `count` cells from (row, start) to each code; later, that is longer, prefixes come last and win."""
    if not len(row):
        return
    total = np.cumsum(count)
    offset = np.arange(total[-1]) - np.repeat(total - count, count)
    width = level.shape[1]
    level.reshape(-1)[np.repeat(row * width + start, count) + offset] = np.repeat(codes, count)


class Routes:
    """Prefixes as sorted arrays (`key << 6 | length`, value), and the changes since; a change to None is a removal."""

    def __init__(self) -> None:
        self.ids: U64s = np.zeros(0, np.uint64)
        self.values: U32s = np.zeros(0, np.uint32)
        self.changes: dict[int, int | None] = {}
        self.count = 0

    @staticmethod
    def id_of(key: int, length: int) -> int:
        return (key >> (32 - length) << (32 - length) if length else 0) << 6 | length

    def get(self, id: int) -> int | None:
        if id in self.changes:
            return self.changes[id]
        at = int(np.searchsorted(self.ids, np.uint64(id)))
        return int(self.values[at]) if at < len(self.ids) and int(self.ids[at]) == id else None

    def change(self, id: int, value: int | None) -> bool:
        """Whether the prefix was there before."""
        before = self.get(id)
        if before is None and value is None:
            return False
        self.count += (value is not None) - (before is not None)
        self.changes[id] = value
        if len(self.changes) > MERGE:
            self.merge()
        return before is not None

    def change_all(self, ids: U64s, wanted: Ints) -> None:
        """Gives sorted prefixes their values, or none where that is -1."""
        self.merge()
        gone = wanted < 0
        values = np.where(gone, 0, wanted).astype(np.uint32)
        there, at = self._where(ids)
        self.values[at[there & ~gone]] = values[there & ~gone]
        keep = np.ones(len(self.ids), bool)
        keep[at[there & gone]] = False
        kept_ids, kept_values, fresh = self.ids[keep], self.values[keep], ~there & ~gone
        at = np.searchsorted(kept_ids, ids[fresh])
        self.ids, self.values = np.insert(kept_ids, at, ids[fresh]), np.insert(kept_values, at, values[fresh])
        self.count = len(self.ids)

    def _where(self, ids: U64s) -> tuple[npt.NDArray[np.bool_], Ints]:
        """(which of them are in the sorted arrays, where each is or would go)."""
        at = np.searchsorted(self.ids, ids)
        there = np.zeros(len(ids), bool)
        inside = at < len(self.ids)
        there[inside] = self.ids[at[inside]] == ids[inside]
        return there, at

    def get_all(self, ids: U64s) -> list[int]:
        """The value of each prefix, -1 for none."""
        self.merge()
        there, at = self._where(ids)
        found = np.full(len(ids), -1, np.int64)
        found[there] = self.values[at[there]]
        return found.tolist()

    def merge(self) -> None:
        if self.changes:
            self.ids, self.values = self.between(0, 1 << 32)
            self.changes = {}

    def between(self, low: int, high: int) -> tuple[U64s, U32s]:
        """The prefixes whose key is in [low, high), sorted."""
        first, last = np.searchsorted(self.ids, np.array([low << 6, high << 6], np.uint64))
        ids, values = self.ids[first:last], self.values[first:last]
        changed = [id for id in self.changes if low << 6 <= id < high << 6]
        if not changed:
            return ids, values
        ids, values = ids[keep := ~np.isin(ids, np.array(changed, np.uint64))], values[keep]
        fresh = [(id, v) for id in changed if (v := self.changes[id]) is not None]
        ids = np.concatenate([ids, np.array([id for id, _ in fresh], np.uint64)])
        values = np.concatenate([values, np.array([v for _, v in fresh], np.uint32)])
        order = np.argsort(ids)
        return ids[order], values[order]

    def replace(self, ids: U64s, values: U32s) -> None:
        """Everything anew; of equal prefixes the last counts."""
        order = np.argsort(ids, kind="stable")
        ids, values = ids[order], values[order]
        last = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
        self.ids, self.values, self.changes = ids[last], values[last], {}
        self.count = len(self.ids)


class Poptrie:
    """The native face of `elements.store.Lpm` for 32-bit keys."""

    def __init__(self, memory: Words, at: int, state: State) -> None:
        assert state.key is not None
        self.key = state.key
        self._memory, self._at = memory, at
        self.routes = Routes()
        self._reset()

    def _reset(self) -> None:
        self._directory: U32s = np.zeros(1 << DIRECT, np.uint32)
        self._shallow: U32s = np.zeros(1 << DIRECT, np.uint32)  # codes of prefixes up to /18 alone
        self._nodes, self._leaves = Pool(NODE), Pool(np.uint32)
        self._names: dict[int, int] | None = None  # value -> place, once values need one
        self._named = np.zeros(0, np.uint32)
        self._live_nodes = 0
        self._publish()

    def _publish(self) -> None:
        """Writes the descriptor."""
        addresses = [self._directory, self._nodes.cells, self._leaves.cells]
        for i, array in enumerate(addresses):
            self._memory.put(self._at + 8 * i, 8, array.ctypes.data)
        self._memory.put(self._at + 24, 8, self._named.ctypes.data if self._names is not None else 0)
        root = self.routes.get(0)
        self._memory.put(self._at + 32, 8, 0 if root is None else int(self._codes(np.array([root], np.uint32))[0]))

    def settle(self, memory: Words, at: int) -> None:
        """Where the descriptor is from now on."""
        self._memory, self._at = memory, at

    # -- codes

    def _codes(self, values: U32s) -> U32s:
        if self._names is None:
            return values + np.uint32(1)
        fresh = [int(v) for v in np.unique(values) if int(v) not in self._names]
        self._names.update({v: len(self._names) + i for i, v in enumerate(fresh)})
        self._named = np.append(self._named, np.array(fresh, np.uint32))
        known = np.array(sorted(self._names), np.uint32)
        places = np.array([self._names[int(v)] for v in known], np.uint32)
        return places[np.searchsorted(known, values)] + np.uint32(1)

    def _needs_names(self, values: U32s) -> bool:
        return self._names is None and len(values) > 0 and int(values.max()) >= DEEP - 1

    # -- building

    def _build(self, first: int, last: int) -> None:
        """Rebuilds the directory entries [first, last), from the routes."""
        ids, values = self.routes.between(first << 14, last << 14)
        if self._needs_names(values):
            self._rebuild(named=True)
            return
        length = (ids & np.uint64(63)).astype(np.int64)
        key = (ids >> np.uint64(6)).astype(np.int64)
        inside = length >= max(DIRECT - (last - first).bit_length() + 1, 1)
        key, length, codes = key[inside], length[inside], self._codes(values[inside])
        order = np.argsort(length, kind="stable")
        key, length, codes = key[order], length[order], codes[order]
        self._paint_directory(first, last, key, length, codes)
        deep = length > DIRECT
        self._grow(key[deep] << 4, length[deep], codes[deep])
        self._publish()

    def _build_slots(self, changed: U64s) -> None:
        """Rebuilds the directory entries that these prefixes cover, all together."""
        length, key = (changed & np.uint64(63)).astype(np.int64), (changed >> np.uint64(6)).astype(np.int64)
        flat, deep = (length <= DIRECT) & (length > 0), length > DIRECT
        touched = np.zeros((1, 1 << DIRECT), np.uint32)
        start, count = key[flat] >> 14, 1 << (DIRECT - length[flat])
        paint(touched, np.zeros(len(start), np.int64), start, count, np.ones(len(start), np.uint32))
        touched[0, key[deep] >> 14] = 1
        if flat.any():
            self._paint_shallow()
        slots = np.flatnonzero(touched[0])
        self._live_nodes -= int(np.count_nonzero(self._directory[slots] >= DEEP))
        self._directory[slots] = self._shallow[slots]
        ids = self.routes.ids
        inside = ((ids & np.uint64(63)) > DIRECT) & (touched[0, (ids >> np.uint64(20)).astype(np.int64)] > 0)
        self._grow(*self._by_length(inside, 4))
        self._publish()

    def _paint_shallow(self) -> None:
        """The codes of prefixes up to /18 alone, anew."""
        lengths = self.routes.ids & np.uint64(63)
        key, length, codes = self._by_length((lengths > 0) & (lengths <= DIRECT), 0)
        self._shallow[:] = 0
        row = self._shallow.reshape(1, -1)
        paint(row, np.zeros(len(key), np.int64), key >> 14, 1 << (DIRECT - length), codes)

    def _by_length(self, which: npt.NDArray[np.bool_], shift: int) -> tuple[Ints, Ints, U32s]:
        """(keys with `shift` zeros behind, lengths, codes) of some routes, the shortest first."""
        ids, codes = self.routes.ids[which], self._codes(self.routes.values[which])
        length = (ids & np.uint64(63)).astype(np.int64)
        order = np.argsort(length, kind="stable")
        return (ids[order] >> np.uint64(6)).astype(np.int64) << shift, length[order], codes[order]

    def _paint_directory(self, first: int, last: int, key: Ints, length: Ints, codes: U32s) -> None:
        row = self._shallow[first:last].reshape(1, -1)
        row[:] = self._covering(first, last)
        flat = length <= DIRECT
        key, length = key[flat], length[flat]
        paint(row, np.zeros(len(key), np.int64), (key >> 14) - first, 1 << (DIRECT - length), codes[flat])
        old = self._directory[first:last]
        self._live_nodes -= int(np.count_nonzero(old >= DEEP))
        self._directory[first:last] = row[0]

    def _covering(self, first: int, last: int) -> int:
        """The code of the longest prefix that holds all of [first, last) and more."""
        bits = (last - first).bit_length() - 1
        for length in range(DIRECT - bits - 1, 0, -1):
            value = self.routes.get(Routes.id_of(first << 14, length))
            if value is not None:
                return int(self._codes(np.array([value], np.uint32))[0])
        return 0

    def _grow(self, key: Ints, length: Ints, codes: U32s) -> None:
        """Makes the nodes under the directory; keys have 36 bits here."""
        slots, row = np.unique(key >> 18, return_inverse=True)
        background = self._directory[slots]
        base = self._level(key, length, codes, row, background, 12)
        self._directory[slots] = np.uint32(DEEP) + base + np.arange(len(slots), dtype=np.uint32)
        self._live_nodes += len(slots)

    def _level(self, key: Ints, length: Ints, codes: U32s, row: Ints, background: U32s, shift: int) -> np.uint32:
        """Builds one node for each background; prefix i lies in node row[i].  The number of the first node."""
        count = len(background)
        if not count:
            return np.uint32(0)
        reach = 36 - shift  # the length that ends at this level
        cells = np.repeat(background, 64).reshape(count, 64)
        way = key >> shift & 63
        here = (length <= reach) | (shift == 0)
        paint(cells, row[here], way[here], 1 << np.maximum(reach - length[here], 0), codes[here])
        child, new_row = np.unique(row[~here] * 64 + way[~here], return_inverse=True)
        below = self._level(key[~here], length[~here], codes[~here], new_row, cells.reshape(-1)[child], shift - 6)
        return np.uint32(self._nodes.add(self._vectors(cells, child, int(below))))

    def _vectors(self, cells: U32s, child: Ints, below: int) -> Any:
        """Node rows from their cells; ways that lead to a child take the leaf before them, which costs nothing."""
        count = len(cells)
        inner = np.zeros((count, 64), bool)
        inner.reshape(-1)[child] = True
        source = np.maximum.accumulate(np.where(inner, 0, np.arange(64)), axis=1)
        cells = np.take_along_axis(cells, source, axis=1)
        starts = np.ones((count, 64), bool)
        starts[:, 1:] = cells[:, 1:] != cells[:, :-1]
        nodes = np.zeros(count, NODE)
        nodes["children"] = np.packbits(inner, axis=1, bitorder="little").view(np.uint64)[:, 0]
        nodes["leaves"] = np.packbits(starts, axis=1, bitorder="little").view(np.uint64)[:, 0]
        leaf = self._leaves.add(cells[starts])
        for field, mask, base in (("first_child", inner, below), ("first_leaf", starts, leaf)):
            each = mask.sum(axis=1)
            nodes[field] = base + np.cumsum(each) - each
        return nodes

    def _rebuild(self, named: bool | None = None) -> None:
        """Everything anew, without the nodes left behind."""
        named = self._names is not None if named is None else named
        self.routes.merge()
        self._reset()
        self._names = {} if named else None
        deepest = len(self.routes.ids) and int(self.routes.ids[-1]) > 0
        if deepest:
            self._build(0, 1 << DIRECT)
        self._publish()

    def _changed(self, key: int, length: int) -> None:
        if length == 0:
            value = self.routes.get(0)
            if value is not None and self._needs_names(np.array([value], np.uint32)):
                self._rebuild(named=True)
            self._publish()
            return
        first = key >> 14 if length >= DIRECT else key >> (32 - length) << (DIRECT - length)
        span = 1 << max(DIRECT - length, 0)
        if self._nodes.used > 4 * self._live_nodes + 4096:
            self._rebuild()
        else:
            self._build(first, first + span)

    # -- the face

    def __len__(self) -> int:
        return self.routes.count

    def add(self, key: int, length: int, value: int) -> None:
        """Adds or replaces a prefix; bits of `key` beyond `length` do not count."""
        self.routes.change(Routes.id_of(key, length), value & 0xFFFF_FFFF)
        self._changed(key, length)

    def change(self, keys: Sequence[int], lengths: Sequence[int], values: Sequence[int]) -> None:
        """Adds, replaces or (value -1) removes many prefixes at once; of equal ones the last counts."""
        if not len(keys):
            return
        ids = _ids(keys, lengths)
        order = np.argsort(ids, kind="stable")
        last = order[np.append(ids[order][1:] != ids[order][:-1], True)]
        ids, wanted = ids[last], np.asarray(values, np.int64)[last]
        self.routes.change_all(ids, wanted)
        if self._needs_names(wanted[wanted >= 0].astype(np.uint32)):
            self._rebuild(named=True)
        elif self._nodes.used > 4 * self._live_nodes + 4096:
            self._rebuild()
        else:
            self._build_slots(ids)

    def get_all(self, keys: Sequence[int], lengths: Sequence[int]) -> list[int]:
        """The values of exactly these prefixes, -1 for one that is not there."""
        return self.routes.get_all(_ids(keys, lengths))

    def remove(self, key: int, length: int) -> bool:
        if not self.routes.change(Routes.id_of(key, length), None):
            return False
        self._changed(key, length)
        return True

    def get(self, key: int, length: int, default: int = -1) -> int:
        """The value of exactly this prefix."""
        value = self.routes.get(Routes.id_of(key, length))
        return default if value is None else value

    def lookup(self, key: int, default: int = 0) -> int:
        """As the native code does it."""
        entry = int(self._directory[key >> 14])
        shift = 12
        while entry >= DEEP:
            node = self._nodes.cells[entry - DEEP]
            way = (key << 4) >> shift & 63
            below = (2 << way) - 1
            if int(node["children"]) >> way & 1:
                entry = DEEP + int(node["first_child"]) + (int(node["children"]) & below).bit_count() - 1
                shift -= 6
            else:
                leaf = int(node["first_leaf"]) + (int(node["leaves"]) & below).bit_count() - 1
                entry = int(self._leaves.cells[leaf])
        code = entry or self._memory.get(self._at + 32, 4)
        if not code:
            return default
        return code - 1 if self._names is None else int(self._named[code - 1])

    def clear(self) -> None:
        self.routes = Routes()
        self._reset()

    def items(self) -> Iterator[tuple[int, int, int]]:
        """(key, length, value), sorted by key, then length."""
        self.routes.merge()
        keys, lengths = self.routes.ids >> np.uint64(6), self.routes.ids & np.uint64(63)
        return iter(list(zip(keys.tolist(), lengths.tolist(), self.routes.values.tolist(), strict=True)))

    def dump(self) -> list[tuple[int, int, int]]:
        return list(self.items())

    def load(self, items: Iterable[tuple[int, int, int]]) -> None:
        rows = np.array(list(items), np.uint64).reshape(-1, 3)
        self.load_arrays(rows[:, 0], rows[:, 1], rows[:, 2])

    def load_arrays(self, keys: Any, lengths: Any, values: Any) -> None:
        """Replaces everything, from three arrays."""
        self.routes = Routes()
        self.routes.replace(_ids(keys, lengths), np.asarray(values).astype(np.uint32))
        self._reset()
        self._rebuild(named=self._needs_names(self.routes.values))


def _ids(keys: Any, lengths: Any) -> U64s:
    """Prefixes as `Routes` numbers them."""
    key, length = np.asarray(keys, np.uint64), np.asarray(lengths, np.uint64)
    beyond = np.uint64(32) - length
    ids: U64s = key >> beyond << beyond << np.uint64(6) | length
    return ids


class HashLpm:
    """Any key width: the lengths in use, longest first, each looked up in one hash table of (prefix, length).

    descriptor  table, its mask, rows of the lengths, their number
    table       32 bytes each: u128 prefix, u64 salt of its length (0: free, 1: removed), u32 value
    rows        32 bytes each: u128 mask, u64 salt
    """

    ROW = np.dtype([("low", "<u8"), ("high", "<u8"), ("salt", "<u8"), ("value", "<u8")])

    def __init__(self, memory: Words, at: int, state: State) -> None:
        assert state.key is not None
        self.key = state.key
        self._memory, self._at = memory, at
        self._entries: dict[tuple[int, int], int] = {}
        self._build()

    def settle(self, memory: Words, at: int) -> None:
        """Where the descriptor is from now on."""
        self._memory, self._at = memory, at

    @staticmethod
    def _salt(length: int) -> int:
        return (length + 1) * 0xC2B2AE3D27D4EB4F & 0xFFFF_FFFF_FFFF_FFFF

    def _mask(self, length: int) -> int:
        return ((1 << length) - 1) << (self.key.bits - length)

    @staticmethod
    def _hash(prefix: int, salt: int) -> int:
        low, high, word = prefix & 0xFFFF_FFFF_FFFF_FFFF, prefix >> 64, 0xFFFF_FFFF_FFFF_FFFF
        x = ((low ^ (high * 0xD1B54A32D192ED03 & word)) + salt) & word
        return ((x ^ x >> 32) * 0x9E3779B97F4A7C15 & word) >> 32

    def _build(self) -> None:
        size = max(4, 1 << (4 * len(self._entries)).bit_length())
        self._table = np.zeros(size, self.ROW)
        self._filled = 0  # rows that are not free
        self._lengths = Counter(length for _, length in self._entries)
        for (prefix, length), value in self._entries.items():
            self._table[self._find(prefix, length)] = self._row(prefix, length, value)
            self._filled += 1
        self._publish()

    def _row(self, prefix: int, length: int, value: int) -> tuple[int, int, int, int]:
        return prefix & 0xFFFF_FFFF_FFFF_FFFF, prefix >> 64, self._salt(length), value

    def _find(self, prefix: int, length: int) -> int:
        """Where the prefix is, or the free row where it would go."""
        mask, wanted = len(self._table) - 1, self._row(prefix, length, 0)[:3]
        at = self._hash(prefix, wanted[2]) & mask
        while (row := self._table[at].item())[2] and row[:3] != wanted:
            at = (at + 1) & mask
        return at

    def _publish(self) -> None:
        lengths = sorted(self._lengths, reverse=True)
        self._rows = np.zeros(max(len(lengths), 1), self.ROW)
        for i, length in enumerate(lengths):
            mask = self._mask(length)
            self._rows[i] = (mask & 0xFFFF_FFFF_FFFF_FFFF, mask >> 64, self._salt(length), 0)
        words = (self._table.ctypes.data, len(self._table) - 1, self._rows.ctypes.data, len(lengths))
        for i, word in enumerate(words):
            self._memory.put(self._at + 8 * i, 8, word)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: int, length: int, value: int) -> None:
        """Adds or replaces a prefix; bits of `key` beyond `length` do not count."""
        prefix, value = key & self._mask(length), value & 0xFFFF_FFFF
        known = (prefix, length) in self._entries
        self._entries[prefix, length] = value
        if not known and 2 * (self._filled + 1) > len(self._table):
            self._build()
            return
        self._table[self._find(prefix, length)] = self._row(prefix, length, value)
        if not known:
            self._filled += 1
            self._lengths[length] += 1
            self._publish()

    def remove(self, key: int, length: int) -> bool:
        prefix = key & self._mask(length)
        if self._entries.pop((prefix, length), None) is None:
            return False
        self._table[self._find(prefix, length)]["salt"] = 1
        self._lengths -= Counter([length])
        self._publish()
        return True

    def change(self, keys: Sequence[int], lengths: Sequence[int], values: Sequence[int]) -> None:
        """Adds, replaces or (value -1) removes many prefixes; of equal ones the last counts."""
        for key, length, value in zip(keys, lengths, values, strict=True):
            if value < 0:
                self.remove(key, length)
            else:
                self.add(key, length, value)

    def get_all(self, keys: Sequence[int], lengths: Sequence[int]) -> list[int]:
        """The values of exactly these prefixes, -1 for one that is not there."""
        return [self.get(key, length) for key, length in zip(keys, lengths, strict=True)]

    def get(self, key: int, length: int, default: int = -1) -> int:
        """The value of exactly this prefix."""
        return self._entries.get((key & self._mask(length), length), default)

    def lookup(self, key: int, default: int = 0) -> int:
        for length in sorted(self._lengths, reverse=True):
            value = self._entries.get((key & self._mask(length), length))
            if value is not None:
                return value
        return default

    def clear(self) -> None:
        self._entries = {}
        self._build()

    def items(self) -> Iterator[tuple[int, int, int]]:
        """(key, length, value), sorted by key, then length."""
        return iter(sorted((prefix, length, value) for (prefix, length), value in self._entries.items()))

    def dump(self) -> list[tuple[int, int, int]]:
        return list(self.items())

    def load(self, items: Iterable[tuple[int, int, int]]) -> None:
        self._entries = {(key & self._mask(length), length): value & 0xFFFF_FFFF for key, length, value in items}
        self._build()
