"""Functions, units and programs.

A `Unit` is what one element instance became: its functions and the declaration of its state.  Equal instances have
equal units, so targets may share their code.  A `Program` is the linked router: who is connected to whom, which
tasks a wake-up reaches, which queues a readiness question asks.  Targets read a Program and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mezzo.base import Span
from mezzo.ir.types import Type

if TYPE_CHECKING:  # a program whose code is on disk needs no ops, and their classes take long to make
    from mezzo.ir.ops import Body

# Functions with a meaning for the runtime; any other name is a helper or an entry that Python calls.
#   process(p) -> port     push(port, p)     pull(port) -> packet     task() -> bool: run me again
#   timer()                init(): once at the start                  ready() -> bool: is there room for a packet
ROLES = ("process", "push", "pull", "task", "timer", "init", "ready")

STATE_KINDS = ("scalar", "array", "table", "lru", "lpm", "ring", "slots", "buffer", "blob")
TABLES = ("table", "lru")


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Function:
    """`entry`: Python may call it (handlers).  `rare`: a helper that is seldom called, and kept out of its callers."""

    name: str
    params: tuple[Param, ...]
    ret: Type
    body: Body
    entry: bool = False
    span: Span | None = field(default=None, compare=False)
    rare: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """One named piece of state.

    scalar: type.  array: type x size.  table: key -> type, at most `size` entries.  lru: a table that forgets the entry
    used longest ago where it has no room.  lpm: key -> type (u32 values).
    ring, slots: `size` packets.  buffer: `size` bytes.  blob: read-only bytes, bound at build (not part of the code).
    """

    name: str
    kind: str
    type: Type
    size: int = 0
    key: Type | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """The code and state of an element class under one configuration.

    Once it is proved and rewritten it carries what others ask of its code: `digest`, its hash, and `uses`, the
    questions to neighbours it asks (up, down, self, ready).  A *skeleton* is a unit whose functions have no bodies:
    enough to link a program and to find its code on disk.
    """

    name: str
    functions: tuple[Function, ...]
    states: tuple[State, ...]
    reasons: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    digest: str = field(default="", compare=False)
    uses: frozenset[str] = field(default=frozenset(), compare=False)
    is_skeleton: bool = field(default=False, compare=False)

    def function(self, name: str) -> Function | None:
        return next((f for f in self.functions if f.name == name), None)

    def state(self, name: str) -> State:
        return next(s for s in self.states if s.name == name)


@dataclass(frozen=True, slots=True)
class Linked:
    """An instance in its place.

    outputs[i]: the (instance index, input port) a push to output i reaches, or None.
    inputs[i]: the (instance index, output port) that a pull from input i asks, or None (also for push inputs).
    task, timer: its number, or -1.  wake_down, wake_up: task numbers.  ready[i]: instances whose `ready` is asked.
    pull_outputs: which outputs are pull.
    """

    name: str
    unit: Unit
    outputs: tuple[tuple[int, int] | None, ...] = ()
    inputs: tuple[tuple[int, int] | None, ...] = ()
    pull_outputs: tuple[bool, ...] = ()
    pull_inputs: tuple[bool, ...] = ()
    task: int = -1
    timer: int = -1
    wake_down: tuple[int, ...] = ()
    wake_up: tuple[int, ...] = ()
    ready: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """All instances; number 0 is the scheduler.  tasks[t], timers[t]: the instance that owns task or timer t."""

    instances: tuple[Linked, ...]
    tasks: tuple[int, ...]
    timers: tuple[int, ...]

    def index(self, name: str) -> int:
        return next(i for i, x in enumerate(self.instances) if x.name == name)
