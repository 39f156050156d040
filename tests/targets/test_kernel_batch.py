"""A batch of routes for the kernel is all or nothing, though the kernel may refuse any of them."""

from __future__ import annotations

import random

import pytest

from mezzo.ir.module import State
from mezzo.ir.types import U32
from mezzo.targets.kernel import cells


class Kernel:
    """A trie that has room for so many prefixes, in the place of the system calls."""

    def __init__(self, room: int) -> None:
        self.room, self.entries = room, dict[bytes, bytes]()

    def map_put(self, fd: int, key: bytes, value: bytes) -> None:
        if key not in self.entries and len(self.entries) >= self.room:
            raise OSError(28, "No space left on device")
        self.entries[key] = value

    def map_delete(self, fd: int, key: bytes) -> bool:
        return self.entries.pop(key, None) is not None


def test_a_batch_that_the_kernel_has_no_room_for_changes_nothing(monkeypatch):
    kernel, chance = Kernel(20), random.Random(1)
    monkeypatch.setattr(cells, "bpf", kernel)
    table, refused = cells.Lpm(-1, State("l", "lpm", U32, 0, U32)), 0
    for _ in range(200):
        rows = [(chance.getrandbits(5) << 27, chance.choice([2, 3, 5]), chance.choice([-1, 1, 2])) for _ in range(12)]
        before, entries = table.dump(), dict(kernel.entries)
        try:
            table.change(*map(list, zip(*rows, strict=True)))
        except OSError:
            refused += 1
            assert (table.dump(), kernel.entries) == (before, entries)
        assert len(table) == len(kernel.entries)
    assert 0 < refused < 200
    with pytest.raises(OSError):
        table.change([x << 27 for x in range(32)], [5] * 32, [1] * 32)
