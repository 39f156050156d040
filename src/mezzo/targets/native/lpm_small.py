"""LPM tables of few routes: the poptrie of lpm.py, built route by route, without numpy.

Most tables are small (the addresses of a responder, the routes of an edge router), and importing numpy takes longer
than all else that starting a router from its code on disk does.  A table that changes, or is large, becomes one of
lpm.py; this one only holds what it was loaded with.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable
from typing import Any

from mezzo.ir.module import State
from mezzo.targets.native.layout import DESCRIPTORS, LPM_BITS
from mezzo.targets.native.state import Words, body, where

FEW = 64  # routes
DIRECT = 18  # as in lpm.py
DEEP = 1 << 31
SIZE = 8 * DESCRIPTORS["lpm"]  # of the descriptor

Node = tuple[int, int, int, int]
Row = tuple[int, int, int]  # key (36 bits below the directory), length, code


class SmallLpm:
    """The native face of `elements.store.Lpm` until somebody asks for more than its contents."""

    def __init__(self, memory: Words, at: int, state: State) -> None:
        assert state.key is not None
        self._made = memory, at, state
        self._short = state.key.bits == LPM_BITS
        self._full: Any = None
        self._show({})

    @property
    def table(self) -> Any:
        """The table of lpm.py that this one has become."""
        if self._full is None:
            from mezzo.targets.native.lpm import HashLpm, Poptrie

            self._full = (Poptrie if self._short else HashLpm)(*self._made)
            self._full.load(self.dump_rows())
        return self._full

    def move(self, memory: Words, at: int) -> None:
        """It lies elsewhere from now on; what the descriptor leads to stays where it is."""
        before, start, state = self._made
        (to, begin), (view, old) = memory.locate(at), before.locate(start)
        to[begin : begin + SIZE] = view[old : old + SIZE]
        self._made = memory, at, state
        if self._full is not None:
            self._full.settle(memory, at)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    def __len__(self) -> int:
        return len(self._rows if self._full is None else self._full)

    def dump(self) -> list[Row]:
        return self.dump_rows() if self._full is None else self._full.dump()

    def dump_rows(self) -> list[Row]:
        return sorted((key, length, value) for (key, length), value in self._rows.items())

    def load(self, items: Iterable[Row]) -> None:
        rows = list(items)
        few = len(rows) <= FEW and self._short and all(0 <= value < DEEP - 1 for *_, value in rows)
        if self._full is None and (few or not rows):
            self._show({(_prefix(key, length), length): value for key, length, value in rows})
        else:
            self.table.load(rows)

    def load_arrays(self, keys: Any, lengths: Any, values: Any) -> None:
        """Replaces everything, from three arrays."""
        if len(keys) <= FEW:
            self.load(zip(keys.tolist(), lengths.tolist(), values.tolist(), strict=True))
        else:
            self.table.load_arrays(keys, lengths, values)

    def _show(self, rows: dict[tuple[int, int], int]) -> None:
        """Writes the trie and the descriptor; an empty table for longer keys is a descriptor of zeros."""
        self._rows = rows
        memory, at, _ = self._made
        if self._short:
            codes = sorted((length, key, value + 1) for (key, length), value in rows.items())
            root = codes.pop(0)[2] if codes and codes[0][0] == 0 else 0
            self._parts = _trie([(key, length, code) for length, key, code in codes])
            for i, word in enumerate([*map(where, self._parts), 0, root]):
                memory.put(at + 8 * i, 8, word)


def _prefix(key: int, length: int) -> int:
    return key >> (LPM_BITS - length) << (LPM_BITS - length)


def _trie(rows: list[Row]) -> tuple[memoryview, memoryview, memoryview]:
    """(directory, nodes, leaves) of rows sorted by length."""
    whole = body(4 << DIRECT)
    directory, deep = whole.cast("I"), dict[int, list[Row]]()
    for key, length, code in rows:
        slot = key >> (LPM_BITS - DIRECT)
        if length <= DIRECT:
            span = 1 << (DIRECT - length)
            directory[slot : slot + span] = memoryview(array("I", [code]) * span)
        else:
            deep.setdefault(slot, []).append((key << 4, length, code))
    nodes, leaves = [(0, 0, 0, 0)] * len(deep), array("I")
    for node, (slot, inside) in enumerate(deep.items()):
        _grow(nodes, leaves, node, inside, directory[slot], 12)
        directory[slot] = DEEP + node
    packed = bytearray(b"".join(struct.pack("<QQII", *node) for node in nodes) or 1)
    return whole, memoryview(packed), memoryview(bytearray(leaves.tobytes() or 1))


def _grow(nodes: list[Node], leaves: array[int], at: int, rows: list[Row], code: int, shift: int) -> None:
    """Fills node `at` with the prefixes below it; `code` is that of the longest above it."""
    reach = 36 - shift  # the length that ends at this level
    cells, below = [code] * 64, dict[int, list[Row]]()
    for row in rows:
        way = row[0] >> shift & 63
        if row[1] <= reach:
            span = 1 << (reach - row[1])
            cells[way : way + span] = [row[2]] * span
        else:
            below.setdefault(way, []).append(row)
    child, leaf = len(nodes), len(leaves)
    starts = [way for way in range(64) if way == 0 or way not in below]
    starts = [way for i, way in enumerate(starts) if i == 0 or cells[way] != cells[starts[i - 1]]]
    leaves.extend(cells[way] for way in starts)
    nodes[at] = sum(1 << way for way in below), sum(1 << way for way in starts), child, leaf
    nodes.extend([(0, 0, 0, 0)] * len(below))
    for i, way in enumerate(sorted(below)):
        _grow(nodes, leaves, child + i, below[way], cells[way], shift - 6)
