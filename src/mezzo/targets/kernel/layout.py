"""Where the state of a part lies: in maps that both the program and Python see.

    @state     one value that Python maps into its memory: words of the runtime, then scalars and small arrays
    @lanes     a lane a CPU: scalars that packet code only adds to, drop counters, and room for bytes in passing
    others     large arrays and blobs (one value each), tables (hash), prefixes (LPM trie)

One CPU writes a lane, so counting takes no atomic; Python adds the lanes up.  What packet code adds to and reads as
well is in @state and added to atomically.  A scalar that is set is set plainly: of two CPUs the last one counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mezzo.base import bpf
from mezzo.ir import ops
from mezzo.ir.growth import growth
from mezzo.ir.module import Function, Program, State, Unit
from mezzo.ir.spec import called, nodes
from mezzo.ir.types import Type
from mezzo.targets.native.text import ll_mem

WORDS = {"now": 0, "epoch": 8, "random": 16}  # of the runtime, in @state
FIRST_BLOCK = 64
LINE = 128  # lanes are so far apart: CPUs fetch cache lines in pairs
SMALL_ARRAY = 4096  # bytes up to which an array lies in @state
ROOM = 4096 + 64  # bytes in passing, a lane
VARIABLES = 2048  # of loops, a lane
PREFIXES = 1 << 22  # entries an LPM trie may have; it takes memory for those it has
NAMES = ("no device", "up without socket", "fault", "no output")  # drops of every instance, before its own reasons
NO_DEVICE, NO_SOCKET, FAULT, NO_OUTPUT = range(-len(NAMES), 0)


def mem_bytes(type: Type) -> int:
    return int(ll_mem(type)[1:]) // 8


def key_bytes(state: State) -> int:
    """Of a hash or a trie, as the kernel has it."""
    assert state.key is not None
    return 4 + state.key.bits // 8 if state.kind == "lpm" else mem_bytes(state.key)


@dataclass(frozen=True, slots=True)
class Place:
    """Byte `offset` of the value of map `symbol`; `is_lane`: in each lane."""

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

    def drop(self, instance: int, reason: int) -> int:
        """Where the counter of a reason is in a lane; those of NAMES have negative numbers."""
        return self.drops[instance] + 8 * (reason + len(NAMES))


def lanes_needed() -> int:
    """A power of two, at least the number of the last CPU there may be, and one."""
    try:
        with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
            last = int(file.read().strip().replace("-", ",").split(",")[-1])
    except (OSError, ValueError):
        last = (os.cpu_count() or 1) - 1
    return 1 << last.bit_length()


def lay_out(
    program: Program,
    placed: Sequence[int],
    blobs: dict[tuple[int, str], int],
    apart: Collection[tuple[int, str]] = (),
) -> Layout:
    """The layout of the placed instances; `blobs`: bytes of each blob; `apart`: scalars that other code looks
    at, so that they have no lanes."""
    maps: dict[str, Map] = {}
    places: dict[tuple[int, str], Place] = {}
    drops: dict[int, int] = {}
    shared, lane = FIRST_BLOCK, 0
    for i in placed:
        unit = program.instances[i].unit
        counted = {name for name in only_added(unit) if (i, name) not in apart}
        for state in unit.states:
            size, count = mem_bytes(state.type) if state.type.bits else 0, max(state.size, 1)
            if state.name in counted:
                places[i, state.name] = Place("lanes", lane, True)
                lane += 8
            elif state.kind == "scalar" or (state.kind == "array" and size * count <= SMALL_ARRAY):
                shared = -(-shared // 8) * 8
                places[i, state.name] = Place("state", shared)
                shared += size * (1 if state.kind == "scalar" else count)
            elif state.kind in ("array", "table", "lpm", "blob"):
                symbol = f"m{i}_{state.name}"
                places[i, state.name] = Place(symbol)
                maps[symbol] = _map(state, blobs.get((i, state.name), 0))
        drops[i] = lane
        lane += 8 * (len(NAMES) + len(unit.reasons))
    room = -(-lane // LINE) * LINE
    lane, lanes = -(-(room + ROOM + VARIABLES) // LINE) * LINE, lanes_needed()
    maps["state"] = Map(bpf.MAP_ARRAY, 4, -(-shared // 8) * 8, 1, bpf.MMAPABLE)
    maps["lanes"] = Map(bpf.MAP_ARRAY, 4, lane * lanes, 1, bpf.MMAPABLE)
    return Layout(maps, places, drops, lane, lanes, room)


def _map(state: State, length: int) -> Map:
    if state.kind == "array":
        return Map(bpf.MAP_ARRAY, 4, mem_bytes(state.type) * state.size, 1, bpf.MMAPABLE)
    if state.kind == "blob":
        return Map(bpf.MAP_ARRAY, 4, max(length, 8), 1)
    if state.kind == "table":
        return Map(bpf.MAP_HASH, key_bytes(state), mem_bytes(state.type), state.size)
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
