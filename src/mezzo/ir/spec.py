"""What is valid IR, as a table: one row for each node kind, one rule for each of its fields.

    ops.Index: {"state": StateOf(("array",)), "type": Elem(), "index": Of(U32)}

`check_unit` walks a unit and holds every node against its row; it lists all violations.  They are mistakes of a front
end, a pass or an element that generates code, so a message names the function and shows the node.  The rules are
objects, not code, so that tests build random valid units from the same table.  A row's order is the order of
evaluation: a local that a statement sets comes last.

Beside the rows: names are unique and well-formed, a local has one type in a function, roles have their signature,
Break and Continue stand in a loop, the functions of a unit do not call each other in a circle, and nothing is nested
so deeply that walking it (or Python, compiling the python target's text) would run out of stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from mezzo.base import Reporter, Span
from mezzo.ir import ops
from mezzo.ir.lines import META, NAME
from mezzo.ir.module import STATE_KINDS, TABLES, Function, State, Unit
from mezzo.ir.rules import (
    AnnoAt,
    APacket,
    Args,
    Block,
    Born,
    Callee,
    Effect,
    Elem,
    Exactly,
    Flag,
    Given,
    HostName,
    IsType,
    Key,
    Literal,
    MetaType,
    Number,
    Of,
    Reason,
    Rule,
    Same,
    Scope,
    StateOf,
    Used,
    Whole,
    Word,
    Words,
)
from mezzo.ir.text import print_node
from mezzo.ir.types import BOOL, I64, PACKET, U16, U32, U64, VOID, Type

SIGNATURES: dict[str, tuple[tuple[Type, ...], Type]] = {
    "process": ((PACKET,), U32),
    "push": ((U32, PACKET), VOID),
    "pull": ((U32,), PACKET),
    "task": ((), BOOL),
    "timer": ((), VOID),
    "init": ((), VOID),
    "ready": ((), BOOL),
}
DEEPEST = 90  # levels of statements and expressions together; Python's compiler stops at 100 blocks
FUNCTION_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
STATE_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

Row = dict[str, Rule]
_ORDER = Word(("big", "little"))
_MARK = Word(ops.MARKS)
_MARKS_SET = Word(("mac", "net", "trans"))
_N32, _N64, _BOOL = Of(U32), Of(U64), Of(BOOL)
_FRAME = Whole(0, 1 << 32)

ROWS: dict[type[ops.Node], Row] = {
    ops.Const: {"type": IsType(), "value": Literal()},
    ops.Local: {"type": IsType("local"), "name": Used()},
    ops.Bin: {
        "op": Word(("add", "sub", "mul", "div", "mod", "and", "or", "xor", "shl", "shr")),
        "type": IsType("int"),
        "a": Same(),
        "b": Same(),
    },
    ops.Cmp: {"op": Word(("eq", "ne", "lt", "le", "gt", "ge")), "a": Number(), "b": Same("a"), "type": Exactly(BOOL)},
    ops.Logic: {"op": Word(("and", "or")), "a": _BOOL, "b": _BOOL, "type": Exactly(BOOL)},
    ops.Not: {"a": _BOOL, "type": Exactly(BOOL)},
    ops.Cast: {"type": IsType(), "a": Number()},
    ops.Select: {"type": IsType(), "cond": _BOOL, "a": Same(), "b": Same()},
    ops.PLoad: {"type": IsType("bytes"), "packet": APacket(), "mark": _MARK, "offset": _N32, "order": _ORDER},
    ops.Meta: {"field": Word(tuple(META)), "type": MetaType(), "packet": APacket()},
    ops.Anno: {"type": IsType("bytes"), "packet": APacket(), "offset": AnnoAt(), "order": _ORDER},
    ops.Sum16: {
        "packet": APacket(), "mark": _MARK, "offset": _N32, "length": _N32, "init": _N32, "type": Exactly(U16),
    },
    ops.IsNone: {"packet": APacket(), "type": Exactly(BOOL)},
    ops.Get: {"state": StateOf(("scalar",)), "type": Elem()},
    ops.Index: {"state": StateOf(("array",)), "type": Elem(), "index": _N32},
    ops.TableGet: {"state": StateOf(("table",)), "type": Elem(), "key": Key(), "default": Elem()},
    ops.TableHas: {"state": StateOf(("table",)), "key": Key(), "type": Exactly(BOOL)},
    ops.LruGet: {"state": StateOf(("lru",)), "type": Elem(), "key": Key(), "default": Elem()},
    ops.LruHas: {"state": StateOf(("lru",)), "key": Key(), "type": Exactly(BOOL)},
    ops.LpmGet: {"type": Exactly(U32), "state": StateOf(("lpm",)), "key": Key(), "default": _N32},
    ops.Count: {"state": StateOf(("ring", *TABLES, "buffer", "blob")), "type": Exactly(U32)},
    ops.SlotUsed: {"state": StateOf(("slots",)), "index": _N32, "type": Exactly(BOOL)},
    ops.BlobLoad: {"type": IsType("bytes"), "state": StateOf(("blob",)), "offset": _N64, "order": _ORDER},
    ops.Now: {"type": Exactly(U64)},
    ops.WallTime: {"type": Exactly(U64)},
    ops.Random: {"type": Exactly(U32)},
    ops.Ready: {"port": Whole(0, 0xFFFF), "type": Exactly(BOOL)},
    ops.Call: {"function": Callee(), "type": IsType("result"), "args": Args()},
    ops.Host: {"method": HostName(), "packet": APacket(optional=True), "args": Args(), "type": Exactly(I64)},
    ops.Set: {"value": Number(), "name": Born()},
    ops.Eval: {"value": Effect()},
    ops.If: {"cond": _BOOL, "then": Block(), "orelse": Block()},
    ops.For: {"count": _N32, "limit": _FRAME, "name": Born(U32), "body": Block(loop=True)},
    ops.Break: {},
    ops.Continue: {},
    ops.Return: {"value": Given(), "reason": Reason()},
    ops.PStore: {"packet": APacket(), "mark": _MARK, "offset": _N32, "value": Number("bytes"), "order": _ORDER},
    ops.MetaSet: {
        "packet": APacket(), "field": Word(("timestamp", "packet_type", "mac", "net", "trans")), "value": MetaType(),
    },
    ops.MarkClear: {"packet": APacket(), "mark": _MARKS_SET},
    ops.AnnoSet: {"packet": APacket(), "value": Number("bytes"), "offset": AnnoAt(), "order": _ORDER},
    ops.Resize: {"kind": Word(("strip", "prepend", "append", "trim")), "packet": APacket(), "amount": _N32},
    ops.Copy: {
        "packet": APacket(), "mark": _MARK, "offset": _N32, "source": APacket(), "source_mark": _MARK,
        "source_offset": _N32, "length": _N32,
    },
    ops.CopyBlob: {
        "packet": APacket(), "mark": _MARK, "offset": _N32, "state": StateOf(("blob",)), "source_offset": _N64,
        "length": _N32,
    },
    ops.Make: {"length": _N32, "name": Born(PACKET)},
    ops.MakeFrom: {"state": StateOf(("blob",)), "offset": _N64, "length": _N32, "name": Born(PACKET)},
    ops.Clone: {"packet": APacket(), "name": Born(PACKET)},
    ops.Emit: {"port": _N32, "packet": APacket(), "reason": Reason()},
    ops.Kill: {"packet": APacket(), "reason": Reason()},
    ops.Pull: {"port": _N32, "name": Born(PACKET)},
    ops.Put: {"state": StateOf(("scalar",)), "value": Elem()},
    ops.Store: {"state": StateOf(("array",)), "index": _N32, "value": Elem()},
    ops.TablePut: {"state": StateOf(TABLES), "key": Key(), "value": Elem(), "done": Born(BOOL, optional=True)},
    ops.TableDel: {"state": StateOf(TABLES), "key": Key(), "done": Born(BOOL, optional=True)},
    ops.RingPush: {"state": StateOf(("ring",)), "packet": APacket(), "front": Flag()},
    ops.RingPop: {"state": StateOf(("ring",)), "back": Flag(), "name": Born(PACKET)},
    ops.SlotPut: {"state": StateOf(("slots",)), "index": _N32, "packet": APacket()},
    ops.SlotTake: {"state": StateOf(("slots",)), "index": _N32, "name": Born(PACKET)},
    ops.BufPut: {"state": StateOf(("buffer",)), "value": Number("bytes"), "order": _ORDER},
    ops.BufPutPacket: {
        "state": StateOf(("buffer",)), "packet": APacket(), "mark": _MARK, "offset": _N32, "length": _N32,
    },
    ops.Wake: {"who": Word(("self", "down", "up"))},
    ops.TimerSet: {"at": _N64},
    ops.TimerClear: {},
    ops.MemLoad: {"type": IsType("word"), "address": _N64, "acquire": Flag()},
    ops.MemStore: {"address": _N64, "value": Number("word"), "release": Flag()},
    ops.Atomic: {"op": Word(("add", "swap")), "type": IsType("word"), "address": _N64, "value": Same()},
    ops.MemSum16: {"address": _N64, "length": _N32, "init": _N32, "type": Exactly(U16)},
    ops.MemCopy: {"to": _N64, "source": _N64, "length": _N32},
    ops.MemZero: {"to": _N64, "length": _N32},
    ops.Libc: {"address": _N64, "args": Words(6), "type": Exactly(I64)},
    ops.FrameAddress: {"frame": _N32, "type": Exactly(U64)},
    ops.FrameSize: {"type": Exactly(U32)},
    ops.TakeFrame: {"type": Exactly(U32)},
    ops.GiveFrame: {"frame": _N32},
    ops.PrefetchFrame: {"frame": _N32, "start": _N32},
    ops.Lend: {"packet": APacket(), "name": Born(U32)},
    ops.Adopt: {"frame": _N32, "start": _N32, "length": _N32, "name": Born(PACKET)},
    ops.RunTask: {"index": _N32, "name": Born(BOOL)},
    ops.FireTimer: {"index": _N32},
    ops.ReadClock: {"name": Born(U64)},
}  # fmt: skip


# -- the walk -------------------------------------------------------------------------------------------------------


def check_unit(unit: Unit) -> None:
    """MezzoError lists all that is not valid in the unit."""
    reporter = Reporter()
    for trouble in _declarations(unit):
        reporter.error(f"{unit.name}: {trouble}")
    for function in unit.functions:
        _FunctionCheck(unit, function, reporter).run()
    reporter.raise_if_errors()
    for trouble in _circles(unit):
        reporter.error(f"{unit.name}: {trouble}")
    reporter.raise_if_errors()


class _FunctionCheck(Scope):
    """Holds the nodes of one function against the table."""

    def __init__(self, unit: Unit, function: Function, reporter: Reporter) -> None:
        super().__init__(unit, function)
        self.reporter, self.span, self.level = reporter, function.span, 0

    def run(self) -> None:
        for trouble in _signature(self.function):
            self.report(trouble, self.span)
        self.body(self.function.body)

    def report(self, trouble: str, span: Span | None) -> None:
        self.reporter.error(f"{self.unit.name}.{self.function.name}: {trouble}", span)

    def body(self, body: ops.Body) -> None:
        for statement in body:
            if isinstance(statement, (ops.Break, ops.Continue)) and not self.depth:
                self.report(f"{type(statement).__name__} stands outside a loop", self.span)
            self.node(statement)

    def node(self, node: ops.Node) -> None:
        outer, self.span = self.span, getattr(node, "span", None) or self.span
        self.level += 1
        if self.level <= DEEPEST:
            self.fields(node)
        else:
            self.report(f"this is nested deeper than {DEEPEST} levels; keep parts of it in locals", self.span)
        self.level -= 1
        self.span = outer

    def fields(self, node: ops.Node) -> None:
        for field, rule in ROWS[type(node)].items():
            value = getattr(node, field)
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, ops.Expr):
                    self.node(part)
            trouble = rule.wrong(self, node, value)
            if trouble:
                shown = print_node(node, self.unit.reasons)
                self.report(f"{type(node).__name__}.{field} {trouble}, in `{shown}`", self.span)


def _signature(function: Function) -> Iterator[str]:
    wanted = SIGNATURES.get(function.name)
    if wanted is not None and (tuple(p.type for p in function.params), function.ret) != wanted:
        yield f"the role takes ({', '.join(map(str, wanted[0]))}) and gives back {wanted[1]}"
    if not FUNCTION_NAME.fullmatch(function.name):
        yield "this is not a name"
    yield from (f"the parameter {p.name!r} is not a name" for p in function.params if not NAME.fullmatch(p.name))
    yield from (f"two parameters are `{name}`" for name in _twice(p.name for p in function.params))
    yield from (f"the parameter `{p.name}` has no value of type {p.type}" for p in function.params if p.type is VOID)
    if function.ret is PACKET and function.name != "pull":
        yield "only pull gives back a packet"


def _declarations(unit: Unit) -> Iterator[str]:
    yield from (f"two functions are `{name}`" for name in _twice(f.name for f in unit.functions))
    yield from (f"two states are `{name}`" for name in _twice(s.name for s in unit.states))
    yield from (f"the reason {text!r} is listed twice" for text in _twice(unit.reasons))
    yield from (f"the host method {name!r} is not a name" for name in unit.hosts if not STATE_NAME.fullmatch(name))
    for state in unit.states:
        yield from (f"the state {state.name!r} {trouble}" for trouble in _state(state))


def _state(state: State) -> Iterator[str]:
    if not STATE_NAME.fullmatch(state.name):
        yield "is not a name"
    if state.kind not in STATE_KINDS:
        yield f"is a {state.kind!r}; kinds are {', '.join(STATE_KINDS)}"
    if state.kind in ("scalar", "array", *TABLES) and state.type.bits == 0:
        yield f"cannot hold {state.type}"
    if state.kind in (*TABLES, "lpm") and (state.key is None or not state.key.is_int):
        yield f"has the key {state.key}; it must be an integer"
    if state.kind in ("array", *TABLES, "ring", "slots", "buffer") and state.size < 1:
        yield f"has the size {state.size}; it must be at least 1"


def _twice(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def _circles(unit: Unit) -> list[str]:
    """Functions that reach themselves by calls."""
    calls = {f.name: called(f.body) for f in unit.functions}
    found = []
    for name in calls:
        reached, open_ = set[str](), set(calls[name])
        while open_:
            reached |= open_
            open_ = {c for o in open_ for c in calls.get(o, ())} - reached
        if name in reached:
            found.append(f"`{name}` calls itself; packet code has no recursion")
    return found


def called(part: object) -> set[str]:
    """The functions called in a node or body."""
    return {node.function for node in nodes(part) if isinstance(node, ops.Call)}


def nodes(part: object) -> Iterator[ops.Node]:
    """Every node of a body, or of a node, in no order."""
    todo = [part]
    while todo:
        found = todo.pop()
        if isinstance(found, tuple):
            todo += found
        elif isinstance(found, ops.Node):
            yield found
            todo += vars(found).values()
