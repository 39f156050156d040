"""The running side: memory of a program, its doors, its callbacks."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from mezzo.ir.module import Program, State
from mezzo.ir.types import PACKET
from mezzo.packet.arena import Packet
from mezzo.targets.native.common import Common, Key
from mezzo.targets.native.layout import LEFT, OUT, RUNTIME, Layout, now_offset
from mezzo.targets.native.state import Array, Block, Ground, Memory, address_of, make_cell

if TYPE_CHECKING:
    from mezzo.targets.native.build import Code
    from mezzo.targets.native.threads import Engines

_P = ctypes.c_void_p
DOOR = ctypes.CFUNCTYPE(None, _P, _P, _P, _P, _P)
_U = ctypes.c_uint32
HOST = ctypes.CFUNCTYPE(ctypes.c_int64, _U, _U, _U, _U, _P, _P, _P)
TRACE = ctypes.CFUNCTYPE(None, _U, _U, _U, _P, _P)
NONE = 0xFFFF_FFFF
MAX_ARGS = 16


class Engine:
    """A program with its memory.  `cells[i]`: the native state objects of instance i by name.

    `address` is where its thread sees the arena; an engine that is given `memory` shares it with others.
    """

    def __init__(
        self,
        code: Code,
        cells: list[dict[str, Any]],
        hosts: Mapping[tuple[int, str], Callable[..., int | None]],
        *,
        seed: int,
        virtual: bool,
        trace: Callable[[int, int, int], None] | None,
        memory: Memory | None = None,
        address: int | None = None,
    ) -> None:
        self.code, self.program, self.arena, self.virtual = code, code.program, code.arena, virtual
        self.layout, self.memory = code.layout, memory or memory_of(code.layout, code.common)
        self.blocks = blocks_of(self.layout, self.memory) if memory is None else []
        self.cells = cells
        if memory is None:
            self.cells = take_over(self.program, self.layout, self.memory, self.blocks, cells, code.common)
        self._hosts, self._errors = hosts, list[BaseException]()
        self.depth = 0  # calls under way
        self._doors: dict[tuple[Any, ...], Any] = {}
        self.late: list[Callable[[], None]] = []  # see `catch_up`
        self._arena = address or code.arena.address
        self._now = now_offset(self.program, self.layout)
        self._callbacks = (HOST(self._host), TRACE(self._tracer(trace)))
        for name, callback in zip(("host", "trace"), self._callbacks, strict=True):
            self.memory.put(RUNTIME[name], 8, address_of(callback))
        self.reseed(seed)
        self.epoch_ns = 0 if virtual else time.time_ns() - time.monotonic_ns()

    @property
    def common(self) -> Common | None:
        """What is common with another level."""
        return self.code.common

    def catch_up(self) -> None:
        """Takes in what another level counted since its state was copied (see `inherit`), when it has ended."""
        while self.late:
            self.late.pop()()

    # -- calling

    def run(self, rounds: int) -> int:
        """Calls the scheduler's `run`; outside the GIL."""
        return self.call(0, "run", rounds) or 0

    def call(self, instance: int, function: str, *args: int | Packet) -> int | None:
        """Calls an entry, `init`, or any function that is no `process`, `push` or `pull`."""
        declared = self.program.instances[instance].unit.function(function)
        if declared is None:
            raise KeyError(f"{self.program.instances[instance].name} has no function {function}")
        find = partial(self.code.function_door, instance, function)
        result = self._enter((instance, function), find, instance, args)
        if declared.ret is PACKET:
            return -1 if result == NONE else result
        return declared.ret.wrap(result) if declared.ret.bits else None

    def push(self, instance: int, port: int, frame: int) -> None:
        """Delivers a packet to input `port`; it is consumed."""
        self._enter(("push", instance), partial(self.code.door, f"push{instance}"), instance, (port, frame))

    def pull(self, instance: int, port: int) -> int:
        """A packet pulled from output `port`: its frame, or -1."""
        frame = self._enter(("pull", instance), partial(self.code.door, f"pull{instance}"), instance, (port,))
        return -1 if frame == NONE else frame

    def _enter(
        self, key: tuple[Any, ...], find: Callable[[], int], instance: int, args: tuple[int | Packet, ...]
    ) -> int:
        """Goes in by the door known as `key`, found once; an exception of a callback comes out here."""
        door = self._doors.get(key)
        if door is None:
            door = self._doors[key] = DOOR(find())
        area = (ctypes.c_uint64 * (2 * len(args) + 2))()
        for i, arg in enumerate(args):
            value = (arg.frame if isinstance(arg, Packet) else int(arg)) & ((1 << 128) - 1)
            area[2 * i + 2], area[2 * i + 3] = value & 0xFFFF_FFFF_FFFF_FFFF, value >> 64
        result = ctypes.addressof(area)
        context = self.memory.address
        self.depth += 1
        door(context, context + self.layout.offsets[instance], self._arena, result + 16, result)
        self.depth -= 1
        if self._errors:
            errors, self._errors = self._errors, []
            raise errors[0]
        return area[0] | area[1] << 64

    # -- being called

    def _host(self, instance: int, method: int, frame: int, count: int, area: int, *_: object) -> int:
        try:
            name = self.program.instances[instance].unit.hosts[method]
            words = (ctypes.c_int64 * (3 * count)).from_address(area) if count else ()
            args = [_number(*words[3 * i : 3 * i + 3]) for i in range(count)]
            packet = None if frame == NONE else Packet(self.arena, frame)
            return int(self._hosts[instance, name](*(() if packet is None else (packet,)), *args) or 0)
        except BaseException as error:  # it must not unwind through native code
            self._remember(error)
            return 0

    def _tracer(self, trace: Callable[[int, int, int], None] | None) -> Callable[..., None]:
        def call(instance: int, port: int, frame: int, *_: object) -> None:
            try:
                if trace is not None and not port & LEFT:
                    trace(instance, port & ~OUT, frame)
            except BaseException as error:
                self._remember(error)

        return call

    def _remember(self, error: BaseException) -> None:
        """Keeps an exception for the return, and asks the scheduler to stop."""
        self._errors.append(error)
        if "stop" in self.cells[0]:
            self.cells[0]["stop"].value = 1

    # -- asking

    def drops(self, instance: int) -> dict[str, int]:
        """Packets that died here, by reason; zeros left out."""
        base, unit = self.layout.offsets[instance], self.layout.units[instance]
        names = drop_names(self.program, instance)
        counts = [self.memory.get(base + unit.drops + 8 * i, 8) for i in range(len(names))]
        found = {name: count for name, count in zip(names, counts, strict=True) if count}
        for name, count in self.code.common.drops(instance).items() if self.code.common is not None else ():
            found[name] = found.get(name, 0) + count
        return found

    def reseed(self, seed: int) -> None:
        """Random numbers begin anew."""
        self.memory.put(self.layout.random, 8, seed)

    def go_on(self, old: Engine) -> None:
        """The clock and the random numbers are those of another engine, from where it is."""
        self.epoch_ns = old.epoch_ns
        self.reseed(old.memory.get(old.layout.random, 8))

    @property
    def now_ns(self) -> int:
        return self.memory.get(self._now, 8)

    @now_ns.setter
    def now_ns(self, value: int) -> None:
        assert self.virtual, "the wall clock is not ours to set"
        self.memory.put(self._now, 8, value)

    @property
    def epoch_ns(self) -> int:
        """What to add to `now_ns` for the time since the Unix epoch."""
        return self.memory.get(RUNTIME["epoch"], 8)

    @epoch_ns.setter
    def epoch_ns(self, value: int) -> None:
        self.memory.put(RUNTIME["epoch"], 8, value)

    def forget_doors(self, addresses: Collection[int]) -> None:
        """Finds these anew with the next call: other code has taken their place."""
        gone = [key for key, door in self._doors.items() if ctypes.cast(door, _P).value in addresses]
        for key in gone:
            del self._doors[key]

    def close(self) -> None:
        """Lets go of the code and of the arena's address."""
        self._doors.clear()


def drop_names(program: Program, instance: int) -> list[str]:
    """What the counters of dead packets in a block count."""
    return ["fault", "no output", *program.instances[instance].unit.reasons]


def memory_of(layout: Layout, common: Common | None = None) -> Memory:
    """The context of a layout."""
    return Memory(layout.size, layout.own, common.descriptor if common is not None else -1)


def blocks_of(layout: Layout, memory: Memory) -> list[Block]:
    """The blocks of all instances, on a ground of their own."""
    ground = Ground(memory.view, layout.offsets)
    return [Block(ground, i) for i in range(len(layout.offsets))]


def take_over(
    program: Program,
    layout: Layout,
    memory: Memory,
    blocks: list[Block],
    cells: list[dict[str, Any]],
    common: Common | None = None,
) -> list[dict[str, Any]]:
    """The native state objects of every instance, with the contents that `cells` have."""
    made: list[dict[str, Any]] = []
    for i, linked in enumerate(program.instances):
        base, unit = layout.offsets[i], layout.units[i]
        memory.put(base + unit.number, 4, i)
        given, made_here = cells[i] if i < len(cells) else {}, {}
        for state in linked.unit.states:
            at, name, lanes = unit.states[state.name], state.name, layout.lanes.get((i, state.name), -1)
            if common is not None and common.has(i, name):
                there = given.get(name)
                made_here[name] = _common_cell(common, (i, name), memory, layout.own, base + at, state, there)
                continue
            made_here[name] = (
                make_cell(blocks[i], at, state) if lanes < 0 else make_cell(memory, base + at, state, lanes)
            )
            if name in given:
                made_here[name].load(given[name].dump())
        made.append(made_here)
    return made


def _common_cell(common: Common, key: Key, memory: Memory, own: int, at: int, state: State, given: Any) -> Any:
    """The object of a state that another level has, too: what lies there, its words from `own` on, has its contents
    already."""
    if key in common.hashes:
        memory.put(at, 8, common.hashes[key])
        if key in common.forgets:
            word, user = common.forgets[key]
            memory.put(at + 8, 8, memory.address + own + word)
            memory.put(at + 16, 8, user)
        return common.faces[key](None)
    if key in common.bodies:
        return Array(memory, at, state, common.bodies[key])
    cell = make_cell(memory, at, state)
    if key in common.words:
        return cell
    if given is not None:
        cell.load(given.dump())
    return common.faces[key](cell)


def inherit(
    new: Engine | Engines, instance: int, old: Engine | Engines, its: int, names: frozenset[str], drops: bool = True
) -> None:
    """Moves state of an instance of `old`, whose code runs no more, to one of `new`: words are copied, bodies stay
    where they are, and the objects that elements know stay the same.  `names`: states of which type and size are equal
    in both; `drops`: its counts of packets that died, too.  (Of many instances that stay: see `mover`.)"""
    base, unit, was = new.layout.offsets[instance], new.layout.units[instance], old.layout.units[its]
    for name in names:
        if _is_common(new, instance, name) or _is_common(old, its, name):
            _go_on(new, instance, old.cells[its][name], name)
        else:
            move_cell(new, instance, name, old.cells[its][name])
    if drops:
        start = old.layout.offsets[its] + was.drops
        size = min(unit.size - unit.drops, was.size - was.drops)
        new.memory.view[base + unit.drops : base + unit.drops + size] = old.memory.view[start : start + size]
        _count_below(new, instance, old, its)


def move_cell(new: Engine | Engines, instance: int, name: str, cell: Any) -> None:
    """The cell is that of an instance of another engine from now on, with what it holds."""
    at, lanes = new.layout.units[instance].states[name], new.layout.lanes.get((instance, name), -1)
    if lanes >= 0:
        cell.move(new.memory, new.layout.offsets[instance] + at, lanes)
    else:
        cell.move(new.blocks[instance], at)
    new.cells[instance][name] = cell


def _count_below(new: Engine | Engines, instance: int, old: Engine | Engines, its: int) -> None:
    """Packets that died on the other level, where its counters do not go on."""
    if old.common is None or (new.common is not None and instance in new.common.stays):
        return
    first, names = new.layout.offsets[instance] + new.layout.units[instance].drops, drop_names(new.program, instance)
    seen: dict[str, int] = {}

    def count(drops: Callable[[int], dict[str, int]] = old.common.drops) -> None:
        for name, n in drops(its).items():
            if name in names:
                at = first + 8 * names.index(name)
                new.memory.put(at, 8, new.memory.get(at, 8) + n - seen.get(name, 0))
                seen[name] = n

    count()
    new.late.append(count)


def _is_common(engine: Engine | Engines, instance: int, name: str) -> bool:
    return engine.common is not None and engine.common.has(instance, name)


def _go_on(new: Engine | Engines, instance: int, before: Any, name: str) -> None:
    """State of another level, too: it is there already where that level goes on in the same memory (which it changes
    meanwhile), but for what is native of it; else it is copied."""
    cell, at = new.cells[instance][name], new.layout.offsets[instance] + new.layout.units[instance].states[name]
    if new.common is None or instance not in new.common.stays or not new.common.has(instance, name):
        cell.load(before.dump())
        if hasattr(before, "counted"):
            new.late.append(partial(_count_late, cell, before, before.counted()))
    elif (instance, name) in new.common.faces and (instance, name) not in new.common.hashes:
        cell.take(before, new.memory, at)


def _count_late(cell: Any, before: Any, seen: int) -> None:
    cell.value += before.counted() - seen


def _number(low: int, high: int, sign: int) -> int:
    """An integer from three words of a wide two's complement number."""
    return (low & 0xFFFF_FFFF_FFFF_FFFF) | (high & 0xFFFF_FFFF_FFFF_FFFF) << 64 | sign << 128
