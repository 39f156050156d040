"""What a part and native code of the same instances have in common: one state, whichever level touches it.

    scalars, arrays   lie in the part's maps, and native code works there
    only counted      each level counts its own, and what Python reads is the sum
    tables            lie in the kernel, and native code asks for them
    prefixes, blobs   are written by Python alone, which writes both

See `targets/native/common` for what native code does about it.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

from mezzo.ir.module import TABLES, Program, State
from mezzo.ir.types import Type
from mezzo.targets.kernel.layout import NAMES, mem_bytes
from mezzo.targets.kernel.part import Part
from mezzo.targets.native.common import Common, Key
from mezzo.targets.native.layout import is_inline
from mezzo.targets.native.state import Memory, mapped


class Summed:
    """A scalar that two levels add to; what Python sets is a part of the native one, so that no packet's is lost."""

    def __init__(self, mine: Any, lanes: list[Any]) -> None:
        self.type: Type = mine.type
        self._mine, self._lanes = mine, lanes
        self._words = (mine.word(), *lanes)

    @property
    def value(self) -> int:
        whole = 0
        for word in self._words:  # a loop: counters are read often, and a sum of a generator takes twice the time
            whole += word.value
        return self.type.wrap(whole)

    @value.setter
    def value(self, value: int) -> None:
        self._mine.value = int(value) - self.counted()

    def dump(self) -> int:
        return self.value

    def load(self, value: int) -> None:
        self.value = value

    def counted(self) -> int:
        """What the other level counted."""
        return sum(lane.value for lane in self._lanes)

    def take(self, before: Summed, memory: Memory, at: int) -> None:
        """Goes on where one with the same lanes was."""
        self._mine.value = before._mine.value


class Twice:
    """State that Python alone writes: each level has a copy, both are written, and the native one is read."""

    WRITES = ("add", "remove", "change", "clear", "load", "load_arrays", "bind")

    def __init__(self, mine: Any, theirs: Any) -> None:
        self._mine, self._theirs = mine, theirs

    def __len__(self) -> int:
        return len(self._mine)

    def take(self, before: Twice, memory: Memory, at: int) -> None:
        """Goes on where one with the same copy in the kernel was."""
        self._mine = before._mine
        self._mine.move(memory, at)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._mine, name)
        if name not in self.WRITES:
            return found
        other = getattr(self._theirs, name)

        def both(*given: Any) -> Any:
            given = tuple(list(x) if hasattr(x, "__next__") else x for x in given)
            other(*given)  # the one that may refuse comes first
            return found(*given)

        return both


def common_of(part: Part, program: Program) -> Common:
    """What native code of `program` and a part of the same instances share.  It outlives the part's programs."""
    views = _Mapped(part)
    found = Common(part.maps.descriptors["state"], part.layout.maps["state"].value)
    found.drops = lambda i: _drops(part, views, i) if i in part.layout.drops else {}
    found.stays, found.placed = frozenset(part.layout.same), frozenset(part.placed)
    for i, cells in part.cells.items():
        for name, cell in cells.items():
            state = program.instances[i].unit.state(name)
            _share(found, part, views, (i, name), state, cell)
    return found


def _drops(part: Part, views: _Mapped, instance: int) -> dict[str, int]:
    """As `Part.drops`, also when the part is gone."""
    layout, view = part.layout, views.view("lanes").cast("Q")
    names, first = [*NAMES, *part.program.instances[instance].unit.reasons], layout.drops[instance]
    places = [(first + lane * layout.lane) // 8 for lane in range(layout.lanes)]
    counts = [sum(view[at + n] for at in places) for n in range(len(names))]
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def _share(found: Common, part: Part, views: _Mapped, key: Key, state: State, cell: Any) -> None:
    place = part.layout.places[key]
    if place.is_lane:
        lanes = [place.offset + part.layout.lane * n for n in range(part.layout.lanes)]
        words = [ctypes.c_uint64.from_buffer(views.view("lanes"), at) for at in lanes]
        found.faces[key] = lambda mine: Summed(mine, words)
    elif state.kind == "scalar" or (state.kind == "array" and place.symbol == "state" and is_inline(state)):
        found.words[key] = place.offset
    elif state.kind == "array":
        size = mem_bytes(state.type) * state.size
        found.bodies[key] = views.view(place.symbol)[place.offset : place.offset + size]
    elif state.kind in TABLES:
        found.hashes[key] = cell.fd
        if state.kind == "lru":
            found.forgets[key] = place.offset, cell.user
        found.faces[key] = _given(cell)
    else:
        found.faces[key] = lambda mine: Twice(mine, cell)


def _given(cell: Any) -> Callable[[Any], Any]:
    return lambda mine: cell


class _Mapped:
    """Values of maps in the memory of this process, as long as anybody looks at them."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._views: dict[str, memoryview] = {}

    def view(self, symbol: str) -> memoryview:
        if symbol not in self._views:
            size = -(-self._part.layout.maps[symbol].value // mmap.PAGESIZE) * mmap.PAGESIZE
            self._views[symbol] = mapped(self._part.maps.descriptors[symbol], size)
        return self._views[symbol]
