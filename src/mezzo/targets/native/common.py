"""State that another level works on too: where it lies, and what native code does about it.

Programs in the kernel have their state in maps.  An instance that is there as well as here has one copy of it:

    words      scalars and small arrays: in one map, which is mapped right behind the context, so that they are at an
               offset from it like all others (and from their block: such an instance has a key of its own)
    bodies     larger arrays: the descriptor leads to the memory of their map
    hashes     tables: native code asks the kernel (bpf(2)), entry by entry; the descriptor holds the map's number; of
               those that forget also the address of the word in which they count, and the number of the program that
               looks for an entry, which is a use
    faces      what Python gets for the rest: sums of what both levels count, writers of both copies

Native code loads and stores what is common in place, every time (volatile), and adds atomically: somebody else does so
between any two instructions.  What a program only counts, and what only Python writes, needs none of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Key = tuple[int, str]  # an instance and one of its states


@dataclass
class Common:
    """`descriptor`: of the map that holds the words, `size` bytes; `words`: where each is in it."""

    descriptor: int = -1
    size: int = 0
    words: dict[Key, int] = field(default_factory=dict)
    bodies: dict[Key, memoryview] = field(default_factory=dict)
    hashes: dict[Key, int] = field(default_factory=dict)
    # Of hashes that forget: where among the words theirs is, and the program that uses an entry.
    forgets: dict[Key, tuple[int, int]] = field(default_factory=dict)
    faces: dict[Key, Callable[[Any], Any]] = field(default_factory=dict)  # given the native object
    stays: frozenset[int] = frozenset()  # instances that go on in the memory of an engine before
    drops: Callable[[int], dict[str, int]] = lambda instance: {}  # what the other level counted
    placed: frozenset[int] = frozenset()  # instances that are there

    def has(self, instance: int, name: str) -> bool:
        key = instance, name
        return key in self.words or key in self.bodies or key in self.hashes or key in self.faces

    def touches(self, instance: int) -> bool:
        """Whether anything of an instance is on the other level."""
        return instance in self.placed

    def names(self, instance: int) -> frozenset[str]:
        """The states of an instance that native code treats as common memory."""
        return frozenset(name for i, name in (*self.words, *self.bodies) if i == instance)

    def tables(self, instance: int) -> frozenset[str]:
        """The tables of an instance that are asked for in the kernel."""
        return frozenset(name for i, name in self.hashes if i == instance)

    def apart(self, keys: list[int]) -> list[int]:
        """Numbers of units, their own for instances whose code knows of this."""
        mine = {i for i, _ in (*self.words, *self.bodies, *self.hashes)}
        known: dict[tuple[int, int], int] = {}
        return [known.setdefault((key, i if i in mine else -1), len(known)) for i, key in enumerate(keys)]

    def text(self) -> str:
        """All that code depends on: a part of its name on disk."""
        return repr((self.size, sorted(self.words.items()), sorted(self.bodies), sorted(self.hashes)))
