"""The element contract.

An element class has two halves.  *Configuration time* is ordinary Python: arguments, `configure`, handlers.  *Packet
time* is written in the packet language (docs/design/0001): the methods named in `ROLES`, those marked `@entry`, and
what they call.  State is declared by annotation and is the same object to both halves:

    class Counter(Element):
        '''Counts packets.'''
        count: u64
        limit = Arg(Int(), -1, "stop after this many")

        def process(self, p: Packet) -> Port:
            self.count += 1
            return 0

The life of an instance: `__init__`, `setup(words, env)` (arguments, then `configure`), code is built, `bind(engine)`,
`initialize()`, packets flow, `cleanup()`.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mezzo.elements.args import Arg, Env, read_arguments
from mezzo.elements.store import make_cell
from mezzo.elements.wiring import PortOf, Wired, config_text
from mezzo.ir.module import ROLES, State
from mezzo.ir.types import BOOL, U32, VOID, Type

_serial = itertools.count()
RESERVED = {
    "name", "config", "serial", "wires_in", "wires_out", "ninputs", "noutputs", "input_kinds", "output_kinds",
    "args", "words", "env", "cells", "engine", "index", "router", "troubles", "setup", "configure", "call",
    "cell", "bind", "say", "error",
}  # fmt: skip


@dataclass(frozen=True)
class StateSpec:
    """A declared state before its size is known; `size` is a number or the name of an attribute that holds it."""

    kind: str
    type: Type
    size: int | str = 0
    key: Type | None = None


class _Sized:
    """`Array[u32, 256]`: what a subscript in a state annotation builds."""

    def __init__(self, name: str, kind: str, shape: str) -> None:
        self.name, self.kind, self.shape = name, kind, shape

    def __getitem__(self, given: Any) -> StateSpec:
        parts = list(given) if isinstance(given, tuple) else [given]
        if len(parts) != len(self.shape.split(",")):
            raise TypeError(f"{self.name} is written with [{self.shape}]")
        key = parts.pop(0) if self.shape.startswith("key") else None
        type_ = parts.pop(0) if "type" in self.shape else VOID
        return StateSpec(self.kind, type_, parts[0] if parts else 0, key)


Array = _Sized("Array", "array", "type, size")
Table = _Sized("Table", "table", "key, type, size")
LRUTable = _Sized("LRUTable", "lru", "key, type, size")
Ring = _Sized("Ring", "ring", "size")
Slots = _Sized("Slots", "slots", "size")
Buffer = _Sized("Buffer", "buffer", "size")
LPM = _Sized("LPM", "lpm", "key")
Blob = StateSpec("blob", VOID)


class StateField:
    """Reads and writes one state of an instance from configuration code and handlers."""

    def __init__(self, name: str, spec: StateSpec) -> None:
        self.name, self.spec = name, spec

    def __get__(self, element: Any, owner: type | None = None) -> Any:
        if element is None:
            return self
        cell = element.cell(self.name)
        if self.spec.kind != "scalar":
            return cell
        return bool(cell.value) if self.spec.type is BOOL else cell.value

    def __set__(self, element: Any, value: Any) -> None:
        element.cell(self.name).load(value)


@dataclass(frozen=True)
class Handler:
    """A named door of an element.  flags as Click prints them: r w + % . $ b c U D (without r and w).

    `private`: for scripts and the command line; who comes by a control socket finds no such handler.
    """

    name: str
    read: Callable[[Any, str], Any] | None = None
    write: Callable[[Any, str], None] | None = None
    doc: str = ""
    flags: str = ""
    private: bool = False


def read(name: str, doc: str = "", *, param: bool = False, flags: str = "") -> Callable[[Any], Any]:
    """Marks a read handler: `def f(self)` or, with `param`, `def f(self, text)`; what it gives back is printed."""

    def mark(method: Any) -> Any:
        method.__handlers__ = [*getattr(method, "__handlers__", []), ("read", name, doc, param, flags)]
        return method

    return mark


def write(name: str, doc: str = "", *, flags: str = "") -> Callable[[Any], Any]:
    """Marks a method as a write handler: `def f(self, text)`.  ValueError is the caller's mistake."""

    def mark(method: Any) -> Any:
        method.__handlers__ = [*getattr(method, "__handlers__", []), ("write", name, doc, True, flags)]
        return method

    return mark


def python(method: Any) -> Any:
    """Marks a method as ordinary Python that packet code may call (at the price of a trip into Python)."""
    method.__python__ = True
    return method


def entry(method: Any) -> Any:
    """Marks a packet-language method that Python calls through `element.call(name, …)`."""
    method.__entry__ = True
    return method


def rare(method: Any) -> Any:
    """Marks a helper that is seldom called: native code keeps it out of the road that packets take."""
    method.__rare__ = True
    return method


class ConfigError(ValueError):
    """What is wrong with an element's configuration."""


PLACED = 20  # troubles of one element that show their argument; the others show the element


class Trouble(str):
    """A text about one argument; `argument` is its index, so that the message can show the place."""

    argument: int

    @classmethod
    def about(cls, text: str, argument: int) -> Trouble:
        made = cls(text)
        made.argument = argument
        return made


class Seats:
    """Where the elements of a program run: `at` has (engine, instance) by number.  When another program takes over all
    move at once: `at` is replaced by another list, and never changed."""

    __slots__ = ("at",)

    def __init__(self, engine: Any, count: int) -> None:
        self.at: list[tuple[Any, int]] = [(engine, i) for i in range(count)]


class Element(Wired):
    """The base of all elements; see the module's text."""

    ports = "1/1"
    processing = "a/a"
    flow = "x/x"
    reads: tuple[str, ...] | dict[str, str] = ()  # states that are read handlers by their own name, and what they say
    example = ""  # a configuration in the Click language
    example_reads: dict[str, str] = {}  # handler -> what it prints after the example ran
    see: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()  # further Click names
    early: tuple[str, ...] = ("encap",)  # handlers that the configuration alone answers, before `initialize`
    stays_native = ""  # why it does not go into the kernel, where its code does not tell
    racy: dict[str, str] = {}  # state that two CPUs may set at once in the kernel, and why that does no harm
    runtime = False  # its packet code may use the runtime dialect (raw memory, C functions, frames): mezzo's own ports
    wants_task = True  # is the task scheduled at the start
    in_python = False  # its packets meet Python each time, so that they had better stay on the thread that has it
    watches = False  # may descriptors make the task runnable (`router.watch`)
    state_specs: dict[str, StateSpec] = {}
    arguments: dict[str, Arg] = {}
    handler_table: dict[str, Handler] = {}
    limits: dict[str, int] = {}  # largest sizes, for pages

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.state_specs = _inherited(cls, "state_specs")
        cls.arguments = _inherited(cls, "arguments")
        scope = vars(sys.modules[cls.__module__])
        for name, note in inspect.get_annotations(cls).items():
            spec = eval(note, dict(scope)) if isinstance(note, str) else note
            spec = StateSpec("scalar", spec) if isinstance(spec, Type) else spec
            if isinstance(spec, StateSpec):
                cls.state_specs[name] = spec
                setattr(cls, name, StateField(name, spec))
        for name, value in cls.__dict__.copy().items():
            if isinstance(value, Arg):
                cls.arguments[name] = value
                if value.live is not None:
                    cls.state_specs[name] = StateSpec("scalar", value.live)
        taken = RESERVED & {*cls.state_specs, *cls.arguments}
        if taken:
            raise TypeError(
                f"{cls.__name__}: `{min(taken)}` is a name every element uses; call this state or argument otherwise"
            )
        said = [name for name in ("ports", "processing", "flow") if not isinstance(getattr(cls, name), str)]
        if said:
            raise TypeError(f"{cls.__name__}: `{said[0]}` is a text that says how its ports are; call this otherwise")
        cls.handler_table = _handlers_of(cls)

    def __init__(self, *args: Any, name: str = "", **keywords: Any) -> None:
        """`Class(1000, LIMIT=5, name="q")`: the arguments are the configuration, as in the Click language."""
        self.name, self.config = name, config_text(args, keywords)
        self.serial = next(_serial)
        self.wires_out: list[tuple[int, Element, int]] = []
        self.wires_in: list[tuple[int, Element, int]] = []
        self.ninputs, self.noutputs = 0, 0
        self.input_kinds: tuple[str, ...] = ()  # "push" or "pull", set before configure
        self.output_kinds: tuple[str, ...] = ()
        self.args: dict[str, Any] = {}
        self.words: list[str] = []
        self.env = Env()
        self.cells: dict[str, Any] = {}
        self._seat: tuple[Seats, int] | None = None
        self.router: Any = None
        self.troubles: list[str] = []
        self.warnings: list[str] = []

    # -- graphs in Python

    def entry(self) -> tuple[Element, int]:
        return self, 0

    def exit(self) -> tuple[Element, int]:
        return self, 0

    def __getitem__(self, port: int | tuple[int, int]) -> PortOf:
        return PortOf(self, port)

    # -- configuration time

    def setup(self, words: list[str], env: Env) -> list[str]:
        """Reads the arguments and configures; returns what is wrong, nothing when all is well."""
        self.words, self.env, self.troubles, self.warnings = list(words), env.within(self.name), [], []
        declared = list(self.arguments.values())
        values = read_arguments(declared, words, self.env, self.error)
        for arg in declared:
            value = values.get(arg.name)
            if arg.live is None:
                self.args[arg.name] = value
            elif value is not None:
                self.cell(arg.name).load(value)
        if not self.troubles:
            try:
                self.configure()
            except ValueError as trouble:
                self.troubles.append(str(trouble))
        return self.troubles

    def configure(self) -> None:
        """Checks the arguments together and fills tables.  Raise ConfigError, or call `error` for several."""

    def error(self, message: str, argument: str | None = None) -> None:
        """Adds one trouble and goes on; `argument` is the argument that it is about, as written."""
        # Finding an argument goes through all of them, and there may be a great many, all wrong.
        known = len(self.troubles) < PLACED and argument in self.words
        at = self.words.index(argument) if known else -1
        self.troubles.append(message if at < 0 else Trouble.about(message, at))

    def warn(self, message: str) -> None:
        """Says that something is odd, and goes on."""
        self.warnings.append(message)

    def generate(self, builder: Any) -> None:
        """An element may build packet functions from its configuration: `builder` is an ir.builder.UnitBuilder."""

    # -- state

    def state_declarations(self) -> tuple[State, ...]:
        """The states with their sizes settled."""
        return tuple(self._declare(name, spec) for name, spec in self.state_specs.items())

    def _declare(self, name: str, spec: StateSpec) -> State:
        size = getattr(self, spec.size) if isinstance(spec.size, str) else spec.size
        return State(name, spec.kind, spec.type, int(size), spec.key)

    def cell(self, name: str) -> Any:
        """The object behind a state; made on first use."""
        found = self.cells.get(name)
        if found is None:
            found = self.cells[name] = make_cell(self._declare(name, self.state_specs[name]))
        return found

    def all_cells(self) -> dict[str, Any]:
        return {name: self.cell(name) for name in self.state_specs}

    # -- running: called by the runtime, usable in handlers

    def bind(self, seats: Seats, number: int) -> None:
        """The code is built: state now lives in an engine."""
        self._seat = seats, number
        engine, index = seats.at[number]
        self.cells = engine.cells[index]

    @property
    def engine(self) -> Any:
        """What runs its code; None before that is built."""
        return None if self._seat is None else self._seat[0].at[self._seat[1]][0]

    @property
    def index(self) -> int:
        """Its number in the program that runs; -1 before there is one."""
        return -1 if self._seat is None else self._seat[0].at[self._seat[1]][1]

    def initialize(self) -> None:
        """Python work once, when the router is about to start (open files …).  Raise ConfigError to refuse."""

    def cleanup(self) -> None:
        """Python work once, when the router has stopped (close files …)."""

    # -- another configuration takes the place of one that runs (runtime/reload)

    def hands_over(self, old: Element) -> Iterable[str]:
        """Asked of an element that takes the place of one of its class and name: the states that it wants of it.  Usual
        are those that its own configuration has not set."""
        return [name for name in self.state_specs if name not in self.cells and name in old.state_specs]

    def initialize_after(self, old: Element | None) -> None:
        """`initialize` beside a router that runs; `old`, whose place this one is to take, still does its work."""
        self.initialize()

    def moved(self, old: Element) -> None:
        """State and code lie elsewhere from now on; `old` is what was here before, which may be this very element."""

    def call(self, function: str, *args: Any) -> Any:
        """Calls a packet-language entry of this element; at a quiescent point only."""
        if self.engine is None:
            raise ConfigError(f"{self.name}: not ready: the router has not started")
        return self.engine.call(self.index, function, *args)

    def other_handler(self, name: str) -> Handler | None:
        """A handler that is in no table: for elements that answer to any name."""
        return None

    def wake_task(self) -> None:
        self.router.wake(self, "self")

    def wake_downstream(self) -> None:
        """Wakes tasks that pull from here: call it when a pull that gave none would now give a packet."""
        self.router.wake(self, "down")

    def wake_upstream(self) -> None:
        """Wakes tasks that push to here: call it when there is room again."""
        self.router.wake(self, "up")

    def fail(self, text: str) -> None:
        """Says a trouble that does not stop the router, but makes the run a failure (exit status 1)."""
        self.say(text)
        if self.router is not None:
            self.router.failures.append(text)

    def say(self, text: str) -> None:
        """A message to the user, as Click's click_chatter."""
        (self.router.say if self.router is not None else print)(text)


def _inherited(cls: type, name: str) -> dict[str, Any]:
    """What all bases of a class have in a table; nearer ones win, as with attributes."""
    tables = [vars(base).get(name, {}) for base in reversed(cls.__mro__[1:])]
    return {key: value for table in tables for key, value in table.items()}


def is_packet_method(cls: type, name: str) -> bool:
    method = getattr(cls, name, None)
    return callable(method) and not getattr(method, "__python__", False)


def roles_of(cls: type[Element]) -> list[str]:
    """The roles an element class plays, in order."""
    return [name for name in ROLES if callable(getattr(cls, name, None))]


USUAL_READS = {
    "count": "packets so far",
    "byte_count": "bytes so far",
    "drops": "packets that did not pass",
    "highwater_length": "the most packets it ever held",
    "lost": "copies that were not made, because no frame was free",
}


def _handlers_of(cls: type[Element]) -> dict[str, Handler]:
    table = _inherited(cls, "handler_table")

    def add(name: str, **part: Any) -> None:
        old = table.get(name, Handler(name))
        table[name] = Handler(
            name,
            part.get("read") or old.read,
            part.get("write") or old.write,
            part.get("doc") or old.doc,
            part.get("flags") or old.flags,
            old.private,
        )

    said = USUAL_READS | (cls.reads if isinstance(cls.reads, dict) else {})
    for name in cls.reads:
        add(name, read=lambda e, text, n=name: getattr(e, n), doc=said.get(name, f"the state {name}"))
    for arg in cls.arguments.values():
        if arg.handler:
            add(arg.name, read=lambda e, text, a=arg: a.kind.show(getattr(e, a.name)), doc=arg.doc)
        if arg.live is not None:
            add(arg.name, write=lambda e, text, a=arg: setattr(e, a.name, a.kind.parse(text.strip(), e.env)))
    for attribute in dir(cls):
        method = getattr(cls, attribute, None)
        for kind, name, doc, param, flags in getattr(method, "__handlers__", ()):
            if kind == "write":
                add(name, write=lambda e, text, m=attribute: getattr(e, m)(text), doc=doc, flags=flags)
            elif param:
                add(name, read=lambda e, text, m=attribute: getattr(e, m)(text), doc=doc, flags=flags + "+")
            else:
                add(name, read=lambda e, text, m=attribute: getattr(e, m)(), doc=doc, flags=flags)
    return table


Port = U32  # what `process` returns: the output by which the packet leaves
