"""A program on several threads: an engine each, over one memory, behind the face of one engine.

Each engine's code is a module of its own, in which that thread's scheduler is instance 0.  Python calls an instance
through its home's engine, and only while no thread runs: then wakes and timers are set directly, and it does not matter
which thread of the system makes the call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mezzo.ir.module import Program
from mezzo.ir.sharing import Threading
from mezzo.packet.arena import Arena, Packet
from mezzo.targets.native import cache as disk
from mezzo.targets.native.build import Code
from mezzo.targets.native.common import Common
from mezzo.targets.native.layout import Layout
from mezzo.targets.native.run import DOOR, Engine, blocks_of, memory_of, take_over
from mezzo.targets.native.shared import Place
from mezzo.targets.native.state import Block

# Not the generator's own step: else one thread would be a draw behind the other.
APART = 0xD1B5_4A32_D192_ED03
BY_TASK = {"wake", "sleep", "is_scheduled", "set_tickets"}
BY_TIMER = {"timer_set", "timer_clear"}


def build_threads(
    program: Program,
    arena: Arena,
    cells: list[dict[str, Any]],
    hosts: Mapping[tuple[int, str], Callable[..., int | None]],
    threading: Threading,
    *,
    seed: int,
    cache: bool,
    whole: Callable[[], Program] | None,
    common: Common | None = None,
    hurry: bool = False,
) -> Engines:
    """The last instances of `program` are the schedulers of threads 1, 2, …"""
    first = len(program.instances) - threading.count + 1
    schedulers = (0, *range(first, len(program.instances)))
    keys, _ = disk.unit_keys(program)
    keys = keys if common is None else common.apart(keys)
    layout = Layout.of(program, keys, threading.count).with_lanes(threading)
    layout = layout if common is None else layout.with_common(common)
    memory = memory_of(layout, common)
    blocks = blocks_of(layout, memory)
    made = take_over(program, layout, memory, blocks, cells, common)
    engines = []
    for thread, scheduler in enumerate(schedulers):
        place = Place(thread, threading, layout, schedulers)
        whole_view = _whole_view(whole or (lambda: program), scheduler)
        code = Code(view(program, scheduler), arena, False, cache, whole_view, place, common, hurry)
        seen = [made[scheduler], *made[1:]]
        address = arena.views[thread - 1].address if thread else arena.address
        more: dict[str, Any] = {"virtual": False, "trace": None, "memory": memory, "address": address}
        engines.append(Engine(code, seen, hosts, seed=_apart(seed, thread), **more))
    return Engines(threading, engines, made, blocks)


def _apart(seed: int, thread: int) -> int:
    """Where a thread's own random numbers begin."""
    return (seed + thread * APART) & (1 << 64) - 1


def view(program: Program, scheduler: int) -> Program:
    """The program with the scheduler of one thread in the first place."""
    return replace(program, instances=(program.instances[scheduler], *program.instances[1:]))


def _whole_view(whole: Callable[[], Program], scheduler: int) -> Callable[[], Program]:
    return lambda: view(whole(), scheduler)


def _number(args: tuple[int | Packet, ...]) -> int:
    assert isinstance(args[0], int)
    return args[0]


class Engines:
    """The doors of one engine, opened on the right thread's."""

    def __init__(
        self, threading: Threading, engines: list[Engine], cells: list[dict[str, Any]], blocks: list[Block]
    ) -> None:
        self.threading, self.engines, self.cells, self.blocks = threading, engines, cells, blocks
        self.program, self.arena, self.memory = engines[0].program, engines[0].arena, engines[0].memory
        self.layout, self.virtual, self.common = engines[0].layout, False, engines[0].common
        self.late, self.catch_up = engines[0].late, engines[0].catch_up
        self._refill = DOOR(int(engines[0].code.linked["door_refill"]))
        self.arena.refill = partial(self._fetch, self.arena.address)
        for engine, one in zip(engines[1:], self.arena.views, strict=True):
            engine.arena = one.seen(self.arena, partial(self._fetch, one.address))

    def _fetch(self, address: int) -> None:
        """Frames for packets that Python makes, for the list of one thread."""
        nothing = (ctypes.c_uint64 * 2)()
        self._refill(None, None, address, ctypes.addressof(nothing), ctypes.addressof(nothing))

    def home(self, instance: int) -> Engine:
        return self.engines[self.threading.homes[instance]]

    def run(self, rounds: int, thread: int = 0) -> int:
        return self.engines[thread].run(rounds)

    def call(self, instance: int, function: str, *args: int | Packet) -> int | None:
        """Tasks and timers are looked up where they are; other calls of instance 0 are of thread 0's scheduler."""
        if instance:
            return self.home(instance).call(instance, function, *args)
        thread = 0
        if function in BY_TASK:
            thread = self.threading.tasks[_number(args)]
        elif function in BY_TIMER:
            thread = self.threading.timers[_number(args)]
        return self.engines[thread].call(0, function, *args)

    def push(self, instance: int, port: int, frame: int) -> None:
        self.home(instance).push(instance, port, frame)

    def pull(self, instance: int, port: int) -> int:
        return self.home(instance).pull(instance, port)

    def drops(self, instance: int) -> dict[str, int]:
        return self.home(instance).drops(instance)

    def scheduler_of(self, task: int) -> dict[str, Any]:
        """The cells of the scheduler that runs a task."""
        return self.engines[self.threading.tasks[task]].cells[0]

    def bell(self, thread: int) -> int:
        """The address of the line by which the thread's scheduler is woken (see elements/thread_scheduler)."""
        return self.memory.address + self.layout.bells[thread]

    def go_on(self, old: Engines) -> None:
        for mine, its in zip(self.engines, old.engines, strict=True):
            mine.go_on(its)

    @property
    def depth(self) -> int:
        return sum(engine.depth for engine in self.engines)

    def reseed(self, seed: int) -> None:
        for thread, engine in enumerate(self.engines):
            engine.reseed(_apart(seed, thread))

    @property
    def now_ns(self) -> int:
        return self.engines[0].now_ns

    @property
    def epoch_ns(self) -> int:
        return self.engines[0].epoch_ns

    @epoch_ns.setter
    def epoch_ns(self, value: int) -> None:
        self.engines[0].epoch_ns = value

    def close(self) -> None:
        self.arena.refill = None
        for engine in self.engines:
            engine.close()
