"""Where everything lies: the context block, the runtime words in it, and each instance's piece.

All state hangs on one pointer, the context; code holds constant offsets from it and never an absolute address, so
object code can be kept on disk and serve another process.

    context  = runtime words, then one block per instance (16-byte aligned)
    block    = scalars, small arrays and the descriptors of large state, in declared order; then the instance number
               and a lock word (u32 each), then the drop counters: fault, no output, and one per reason

A descriptor is a few words: the address of the body (allocated apart, so that the hot words of all instances share
few cache lines and pages, and so that large empty bodies are never touched) and its fill.  Equal units have equal
blocks; code that depends on no connection is therefore shared and takes the block's address.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from mmap import PAGESIZE

from mezzo.ir.module import Program, State, Unit
from mezzo.ir.sharing import Threading
from mezzo.ir.types import Type
from mezzo.targets.native.common import Common

# What traced code adds to a port: the packet was pulled out there; nothing is seen, but the push into the element ends.
OUT, LEFT = 1 << 31, 1 << 30
# Runtime words: name -> byte offset in the context.  `host` and `trace` hold function addresses.
RUNTIME = {"now": 0, "epoch": 8, "random": 16, "host": 24, "trace": 32}
RUNTIME_SIZE = 64
LINES = 128  # what threads write lies so far apart: CPUs fetch cache lines in pairs

INLINE_ARRAY = 512  # arrays up to this many bytes live in the block itself

# kind -> words of its descriptor.
DESCRIPTORS = {
    "array": 1,  # body
    "table": 2,  # body, entries
    "lru": 3,  # body, entries, how many were forgotten
    "ring": 2,  # body, head and tail (u32 each, running freely)
    "slots": 1,  # body
    "buffer": 2,  # body, bytes
    "blob": 2,  # body, bytes
    "lpm": 5,  # see lpm.py
}
LPM_BITS = 32  # keys of this width have the compressed trie; others a hash table per prefix length


def mem_bytes(type: Type) -> int:
    """Bytes a value takes in state memory."""
    return {1: 1, 48: 8}.get(type.bits, type.bits // 8)


def power_of_two(at_least: int) -> int:
    return 1 << max(at_least - 1, 0).bit_length()


@dataclass(frozen=True, slots=True)
class TableShape:
    """An open-addressing table: `slots` entries of key, value and a used word.

    One that `forgets` keeps its entries in a ring in the order of use.  The used word is the number of the next slot in
    it, and one; behind that word is the slot before.  Where the ring begins and ends is one more slot, behind all: the
    one next to it was used last, the one before it longest ago."""

    key: Type
    value: Type
    slots: int
    forgets: bool = False

    @property
    def value_at(self) -> int:
        size = mem_bytes(self.value)
        return -(-mem_bytes(self.key) // size) * size

    @property
    def used_at(self) -> int:
        return -(-(self.value_at + mem_bytes(self.value)) // 4) * 4

    @property
    def stride(self) -> int:
        return -(-(self.used_at + (8 if self.forgets else 4)) // 8) * 8

    @property
    def shift(self) -> int:
        """The hash is the top bits of a 64-bit product."""
        return 64 - (self.slots.bit_length() - 1)


def table_shape(state: State) -> TableShape:
    assert state.key is not None
    return TableShape(state.key, state.type, max(power_of_two(2 * state.size), 4), state.kind == "lru")


def is_inline(state: State) -> bool:
    return state.kind == "array" and mem_bytes(state.type) * state.size <= INLINE_ARRAY


def _extent(state: State) -> tuple[int, int]:
    """(size, alignment) in the block."""
    if state.kind == "scalar":
        size = mem_bytes(state.type)
        return size, min(size, 8)
    if is_inline(state):
        size = mem_bytes(state.type)
        return size * state.size, min(size, 8)
    return 8 * DESCRIPTORS[state.kind], 8


@dataclass(frozen=True)
class UnitLayout:
    """Offsets in a block: of each state, of the instance number, of the drop counters; and the block's size."""

    states: dict[str, int]
    number: int
    drops: int
    size: int

    @staticmethod
    def of(unit: Unit) -> UnitLayout:
        states, at = {}, 0
        for state in unit.states:
            size, align = _extent(state)
            states[state.name] = at = -(-at // align) * align
            at += size
        number = -(-at // 8) * 8
        drops = number + 8
        return UnitLayout(states, number, drops, -(-(drops + 8 * (2 + len(unit.reasons))) // 16) * 16)

    @property
    def lock(self) -> int:
        return self.number + 4

    def drop(self, reason: int) -> int:
        """Offset of the counter of a reason; -1 is no output, -2 fault."""
        return self.drops + 8 * (reason + 2)


@dataclass(frozen=True)
class Layout:
    """The context of one program."""

    units: tuple[UnitLayout, ...]  # per instance
    offsets: tuple[int, ...]  # of each instance's block
    size: int
    random: int = RUNTIME["random"]  # where the generator's state is: a word a thread
    bells: tuple[int, ...] = ()  # of each thread; see elements/thread_scheduler
    lanes: dict[tuple[int, str], int] = field(default_factory=dict)  # of rings between two threads; see shared.py
    own: int = 0  # where what is common with another level begins, if anything is

    @staticmethod
    def of(program: Program, keys: list[int], threads: int = 0) -> Layout:
        """`keys[i]` numbers instance i's unit; equal units have equal numbers.  `threads`: how many, if several."""
        known: dict[int, UnitLayout] = {}
        bells = tuple(RUNTIME_SIZE + LINES * (2 * k) for k in range(threads))
        units, offsets, at = [], [], RUNTIME_SIZE + LINES * 2 * threads
        for linked, key in zip(program.instances, keys, strict=True):
            if key not in known:
                known[key] = UnitLayout.of(linked.unit)
            units.append(known[key])
            at = -(-at // LINES) * LINES if threads > 1 else at
            offsets.append(at)
            at += known[key].size
        return Layout(tuple(units), tuple(offsets), -(-at // 4096) * 4096, bells=bells)

    def with_lanes(self, threading: Threading) -> Layout:
        """With room for the ends of rings between two threads."""
        names = [(i, name) for i, share in enumerate(threading.shares) for name, _, _ in share.rings]
        first = -(-self.size // LINES) * LINES
        lanes = {key: first + 4 * LINES * n for n, key in enumerate(names)}
        return replace(self, lanes=lanes, size=-(-(first + 4 * LINES * len(names)) // 4096) * 4096)

    def with_common(self, common: Common) -> Layout:
        """With the words of another level behind everything, on pages of their own."""
        units, own = list(self.units), -(-self.size // PAGESIZE) * PAGESIZE
        for (i, name), at in common.words.items():
            units[i] = replace(units[i], states={**units[i].states, name: own + at - self.offsets[i]})
        whole = own + -(-common.size // PAGESIZE) * PAGESIZE
        return replace(self, units=tuple(units), size=whole, own=own)

    def seen_by(self, thread: int, scheduler: int) -> Layout:
        """The layout that thread `thread` works on: its scheduler, instance `scheduler`, is its instance 0."""
        random = self.random if thread == 0 else self.bells[thread] + LINES
        units, offsets = (self.units[scheduler], *self.units[1:]), (self.offsets[scheduler], *self.offsets[1:])
        return replace(self, units=units, offsets=offsets, random=random)


# The lanes of a ring between two threads, a line each: the ends as published, then what is each side's own: its end,
# and as far as it is published.
HEAD_LANE, TAIL_LANE, POP_LANE, PUSH_LANE = (LINES * i for i in range(4))


def lane_words(lanes: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The words that hold the head, and those that hold the tail, of a ring between two threads."""
    heads = lanes + HEAD_LANE, lanes + POP_LANE, lanes + POP_LANE + 4
    return heads, (lanes + TAIL_LANE, lanes + PUSH_LANE, lanes + PUSH_LANE + 4)


def now_offset(program: Program, layout: Layout) -> int:
    """Where the clock is: the scheduler's scalar `now`, or a word of the runtime where it has none."""
    states = layout.units[0].states if layout.units else {}
    return layout.offsets[0] + states["now"] if "now" in states else RUNTIME["now"]


def walk(node: object) -> Iterator[object]:
    """Every IR node below `node`, itself included."""
    if isinstance(node, tuple):
        for item in node:
            yield from walk(item)
    elif is_dataclass(node) and not isinstance(node, type | Type):
        yield node
        for name in field_names(type(node)):
            value = getattr(node, name)
            if isinstance(value, tuple) or is_dataclass(value):
                yield from walk(value)


_names: dict[type, tuple[str, ...]] = {}


def field_names(cls: type) -> tuple[str, ...]:
    """The fields of an IR class that carry meaning (places in the source do not)."""
    if cls not in _names:
        _names[cls] = tuple(f.name for f in fields(cls) if f.name != "span")
    return _names[cls]
