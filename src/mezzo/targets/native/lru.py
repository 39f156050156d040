"""The native table that forgets, seen from Python: `state.Table` with its entries in a ring, the one used last first.

`layout.TableShape` says how the ring lies in the entries, tables.py has the code that packets run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mezzo.ir.module import State
from mezzo.ir.types import U32
from mezzo.targets.native.layout import mem_bytes
from mezzo.targets.native.state import Table, Words


class LruTable(Table):
    """Where a new key finds no room, the entry at the end of the ring goes."""

    def __init__(self, memory: Words, at: int, state: State) -> None:
        super().__init__(memory, at, state)
        self._join(self.shape.slots, self.shape.slots)

    def move(self, memory: Words, at: int) -> None:
        memory.put(at + 16, 8, self.forgotten)
        super().move(memory, at)

    @property
    def forgotten(self) -> int:
        """Entries that went for want of room."""
        return self._memory.get(self._count_at + 8, 8)

    def _used(self, slot: int) -> bool:
        return self._read(slot, self.shape.used_at, U32) != 0

    def _next(self, slot: int) -> int:
        return self._read(slot, self.shape.used_at, U32) - 1

    def _last(self, slot: int) -> int:
        return self._read(slot, self.shape.used_at + 4, U32)

    def _join(self, a: int, b: int) -> None:
        self._write(a, self.shape.used_at, 4, b + 1)
        self._write(b, self.shape.used_at + 4, 4, a)

    def _put_first(self, slot: int) -> None:
        self._join(slot, self._next(self.shape.slots))
        self._join(self.shape.slots, slot)

    def _moved(self, slot: int) -> None:
        before, behind = self._last(slot), self._next(slot)
        self._join(before, slot)
        self._join(slot, behind)

    def _cut(self, hole: int) -> None:
        self._join(self._last(hole), self._next(hole))
        super()._cut(hole)

    def use(self, key: int) -> bool:
        """Whether it is there; if so it is the one used last."""
        slot = self._find(key)
        if not self._used(slot):
            return False
        self._join(self._last(slot), self._next(slot))
        self._put_first(slot)
        return True

    def find(self, key: int, default: int) -> int:
        """`get`, as a use."""
        return self.get(key, default) if self.use(key) else default

    def set(self, key: int, value: int) -> bool:
        """Always True; without room for a new key the entry goes that was used longest ago."""
        if not self.use(key):
            if len(self) >= self.capacity:
                self._cut(self._last(self.shape.slots))
                self._memory.put(self._count_at + 8, 8, self.forgotten + 1)
            slot = self._find(key)
            self._write(slot, 0, mem_bytes(self.key), key)
            self._put_first(slot)
            self._memory.put(self._count_at, 8, len(self) + 1)
        self._write(self._find(key), self.shape.value_at, mem_bytes(self.type), self.type.wrap(value))
        return True

    def clear(self) -> None:
        super().clear()
        self._join(self.shape.slots, self.shape.slots)

    def items(self) -> list[tuple[int, int]]:
        """Sorted by key."""
        return sorted(self._rows())

    def _rows(self) -> Iterator[tuple[int, int]]:
        """Used longest ago first; as many as there are, should somebody turn the ring meanwhile."""
        slot = self.shape.slots
        for _ in range(len(self)):
            slot = self._last(slot)
            yield self._entry(slot)

    def dump(self) -> Any:
        """How many it forgot, and what it has, used longest ago first."""
        return self.forgotten, list(self._rows())

    def load(self, content: Any) -> None:
        """What finds no room counts as forgotten."""
        forgotten, items = content
        self._memory.put(self._count_at + 8, 8, forgotten)
        super().load(items)
