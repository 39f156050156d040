"""Where the state of a part lies: in maps that both the program and Python see.

    @state     one value that Python maps into its memory: words of the runtime, then scalars and small arrays
    @lanes     a lane a CPU: scalars that packet code only adds to, drop counters, and room for bytes in passing
    others     large arrays and blobs (one value each), tables (hash, LRU hash), prefixes (LPM trie)

One CPU writes a lane, so counting takes no atomic; Python adds the lanes up.  What packet code adds to and reads as
well is in @state and added to atomically.  A scalar that is set is set plainly: of two CPUs the last one counts.

A table that forgets has a word in @state too: entries made less entries deleted.  What is not there of these has been
forgotten; the kernel does not count it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mezzo.base import bpf
from mezzo.ir import ops
from mezzo.ir.growth import growth
from mezzo.ir.module import TABLES, Function, Program, State, Unit
from mezzo.ir.spec import called, nodes
from mezzo.ir.types import Type
from mezzo.targets.native.text import ll_mem

WORDS = {"now": 0, "epoch": 8, "random": 16}  # of the runtime, in @state
FIRST_BLOCK = 64
PAGE = 4096
SPARE = 1024  # bytes of a lane for counters of elements that come later
LINE = 128  # lanes are so far apart: CPUs fetch cache lines in pairs
SMALL_ARRAY = 4096  # bytes up to which an array lies in @state
ROOM = 4096 + 64  # bytes in passing, a lane
VARIABLES = 2048  # of loops, a lane
# Entries of an LRU hash that a CPU may have put aside as free, and fetches at once (LOCAL_FREE_TARGET in Linux,
# kernel/bpf/bpf_lru_list.c): it forgets entries when so many are not free, whatever others have put aside.
AT_ONCE = 128
PREFIXES = 1 << 22  # entries an LPM trie may have; it takes memory for those it has
# Drops of every instance, before its own reasons.
NAMES = ("no device", "up without socket", "no room for the record", "fault", "no output")
NO_DEVICE, NO_SOCKET, NO_ROOM, FAULT, NO_OUTPUT = range(-len(NAMES), 0)


def mem_bytes(type: Type) -> int:
    return int(ll_mem(type)[1:]) // 8


def key_bytes(state: State) -> int:
    """Of a hash or a trie, as the kernel has it."""
    assert state.key is not None
    return 4 + state.key.bits // 8 if state.kind == "lpm" else mem_bytes(state.key)


@dataclass(frozen=True, slots=True)
class Place:
    """Byte `offset` of the value of map `symbol`; `is_lane`: in each lane.  Of a table that forgets it is the offset of
    its word in @state."""

    symbol: str
    offset: int = 0
    is_lane: bool = False


@dataclass(frozen=True, slots=True)
class Map:
    """A map to be made: of this kind, sizes and flags."""

    kind: int
    key: int
    value: int
    entries: int
    flags: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    maps: dict[str, Map]
    places: dict[tuple[int, str], Place]
    drops: dict[int, int]  # of an instance: where its counters begin in a lane
    lane: int  # bytes of a lane
    lanes: int
    room: int  # where the bytes in passing are, in a lane; behind them variables of loops
    used: tuple[int, int] = (0, 0)  # bytes of @state, and of a lane's counters
    same: Mapping[int, int] = field(default_factory=dict)  # instances that go on with state of an earlier layout
    taken: dict[str, str] = field(default_factory=dict)  # maps that are those of an earlier layout

    def drop(self, instance: int, reason: int) -> int:
        """Where the counter of a reason is in a lane; those of NAMES have negative numbers."""
        return self.drops[instance] + 8 * (reason + len(NAMES))


def lanes_needed() -> int:
    """A power of two, at least the number of the last CPU there may be, and one."""
    return 1 << (cpus() - 1).bit_length()


def cpus() -> int:
    """How many CPUs there may be, as the kernel numbers them."""
    try:
        with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
            return int(file.read().strip().replace("-", ",").split(",")[-1]) + 1
    except (OSError, ValueError):
        return os.cpu_count() or 1


def lru_entries(size: int) -> int:
    """Entries of an LRU hash that forgets nothing while `size` are held: all CPUs but one may have some put aside, and
    that one wants as many again."""
    return size + AT_ONCE * cpus()


def lay_out(
    program: Program,
    placed: Sequence[int],
    blobs: dict[tuple[int, str], int],
    apart: Collection[tuple[int, str]] = (),
    before: Layout | None = None,
    same: Mapping[int, int] | None = None,
) -> Layout:
    """The layout of the placed instances; `blobs`: bytes of each blob; `apart`: scalars that other code looks
    at, so that they have no lanes.

    With `before` it goes on in the maps of a layout that is in use: instances in `same` have their state where it is
    there, others come behind.  A layout that has no room for them is left, and its contents are copied."""
    made = _Plot(program, blobs, apart, before, same or {})
    for i in placed:
        made.add(i)
    found = made.layout()
    return found if found is not None else lay_out(program, placed, blobs, apart)


class _Plot:
    """A layout in the making."""

    def __init__(
        self,
        program: Program,
        blobs: dict[tuple[int, str], int],
        apart: Collection[tuple[int, str]],
        before: Layout | None,
        same: Mapping[int, int],
    ) -> None:
        self.program, self.blobs, self.apart, self.before, self.same = program, blobs, apart, before, same
        self.maps: dict[str, Map] = {}
        self.places: dict[tuple[int, str], Place] = {}
        self.drops: dict[int, int] = {}
        self.taken = {"state": "state", "lanes": "lanes"} if before else {}
        self.shared, self.lane = before.used if before else (FIRST_BLOCK, 0)

    def add(self, i: int) -> None:
        unit, old = self.program.instances[i].unit, self.same.get(i, -1)
        counted = lanes_of(unit, i, self.apart)
        for state in unit.states:
            if old >= 0 and self.before is not None and state.kind != "blob":
                self._take(i, state, self.before.places.get((old, state.name)))
            else:
                self._place(i, state, state.name in counted)
        if old >= 0 and self.before is not None:
            self.drops[i] = self.before.drops[old]
            return
        self.drops[i] = self.lane
        self.lane += 8 * (len(NAMES) + len(unit.reasons))

    def _take(self, i: int, state: State, place: Place | None) -> None:
        """State that stays where it is."""
        if place is None:
            return
        if place.symbol not in ("state", "lanes"):
            symbol = f"m{i}_{state.name}"
            self.maps[symbol], self.taken[symbol] = _map(state, 0), place.symbol
            place = Place(symbol, place.offset)
        self.places[i, state.name] = place

    def _place(self, i: int, state: State, counted: bool) -> None:
        size, count = mem_bytes(state.type) if state.type.bits else 0, max(state.size, 1)
        if counted:
            self.places[i, state.name] = Place("lanes", self.lane, True)
            self.lane += 8
        elif state.kind == "scalar" or (state.kind == "array" and size * count <= SMALL_ARRAY):
            self.shared = -(-self.shared // 8) * 8
            self.places[i, state.name] = Place("state", self.shared)
            self.shared += size * (1 if state.kind == "scalar" else count)
        elif state.kind in ("array", *TABLES, "lpm", "blob"):
            symbol = f"m{i}_{state.name}"
            self.places[i, state.name] = Place(symbol, self._word() if state.kind == "lru" else 0)
            self.maps[symbol] = _map(state, self.blobs.get((i, state.name), 0))

    def _word(self) -> int:
        at = -(-self.shared // 8) * 8
        self.shared = at + 8
        return at

    def layout(self) -> Layout | None:
        """None when there is no room in the layout before."""
        before, lanes = self.before, lanes_needed()
        room = before.room if before else -(-(self.lane + SPARE) // LINE) * LINE
        value = before.maps["state"].value if before else -(-self.shared // PAGE) * PAGE
        if self.lane > room or self.shared > value:
            return None
        lane = -(-(room + ROOM + VARIABLES) // LINE) * LINE
        self.maps["state"] = Map(bpf.MAP_ARRAY, 4, value, 1, bpf.MMAPABLE)
        self.maps["lanes"] = Map(bpf.MAP_ARRAY, 4, lane * lanes, 1, bpf.MMAPABLE)
        used = self.shared, self.lane
        return Layout(self.maps, self.places, self.drops, lane, lanes, room, used, self.same, self.taken)


def lanes_of(unit: Unit, instance: int, apart: Collection[tuple[int, str]]) -> set[str]:
    """Scalars of an instance that have lanes."""
    return {name for name in only_added(unit) if (instance, name) not in apart}


def _map(state: State, length: int) -> Map:
    if state.kind == "array":
        return Map(bpf.MAP_ARRAY, 4, mem_bytes(state.type) * state.size, 1, bpf.MMAPABLE)
    if state.kind == "blob":
        return Map(bpf.MAP_ARRAY, 4, max(length, 8), 1)
    if state.kind == "table":
        return Map(bpf.MAP_HASH, key_bytes(state), mem_bytes(state.type), state.size)
    if state.kind == "lru":
        return Map(bpf.MAP_LRU, key_bytes(state), mem_bytes(state.type), lru_entries(state.size))
    return Map(bpf.MAP_LPM, key_bytes(state), 4, PREFIXES, bpf.NO_PREALLOC)


def only_added(unit: Unit) -> set[str]:
    """Scalars that the packet's functions add to and do nothing else with."""
    functions = packet_functions(unit)
    found = (n for f in functions for n in nodes(f.body) if isinstance(n, ops.Put) and growth(n) is not None)
    return {node.state for node in found} - looked_at(functions)


def looked_at(functions: Iterable[Function]) -> set[str]:
    """Scalars that functions read or set, other than to make them grow."""
    found: set[str] = set()
    for function in functions:
        found |= {n.state for n in nodes(function.body) if isinstance(n, ops.Put) and growth(n) is None}
        found |= set(_read(function.body))
    return found


def _read(part: object) -> Iterator[str]:
    """Scalars that are read, other than to grow."""
    if isinstance(part, tuple):
        for one in part:
            yield from _read(one)
    elif isinstance(part, ops.Put) and (grows := growth(part)) is not None:
        yield from _read(grows)
    elif isinstance(part, ops.Node):
        if isinstance(part, ops.Get):
            yield part.state
        for value in vars(part).values():
            if isinstance(value, tuple | ops.Node):
                yield from _read(value)


def packet_functions(unit: Unit) -> list[Function]:
    """`process` or `push`, and the helpers that it calls, each before those that call it last."""
    role = unit.function("push") or unit.function("process")
    found: dict[str, Function] = {}
    todo = [role] if role is not None else []
    while todo:
        function = todo.pop()
        if function.name not in found:
            found[function.name] = function
            todo += [f for name in sorted(called(function.body)) if (f := unit.function(name)) is not None]
    return list(found.values())
