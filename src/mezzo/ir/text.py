"""The IR as text: what `mezzo ir` shows, what goldens hold, what the compile cache hashes.

    unit Queue
    state ring: ring x 1000
    state drops: u64
    reasons "full"

    push(port: u32, p: packet):
      if self.ring.count() >= 1000:
        self.drops = self.drops + 1u64
        kill p "full"
        return
      self.ring.push(p)
      wake down

Rules.  `parse_unit(print_unit(unit)) == unit` for every valid unit (places are not written).  A number without suffix
is u32; others carry their type (`1u8`, `-3i64`).  Operations nest in parentheses, there is no precedence.  A local
carries its type (`x:u16`) only where no assignment above it says so.  Packet access is big-endian and annotations,
blobs and buffers little-endian unless `le` or `be` stands behind the width.  A name that is also a word of this text
stands in backticks.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from mezzo.ir import ops
from mezzo.ir.lines import BINARY, COMPARE, NAME, RESERVED
from mezzo.ir.module import Function, Linked, Program, State, Unit
from mezzo.ir.parse import parse_unit
from mezzo.ir.types import BOOL, PACKET, U32, U64, VOID, Type

SIGNS = {op: sign for sign, op in BINARY.items()} | {op: sign for sign, op in COMPARE.items()}


def print_unit(unit: Unit) -> str:
    """The unit as text."""
    lines = [f"unit {_name(unit.name)}", *map(_state, unit.states)]
    if unit.reasons:
        lines.append("reasons " + ", ".join(map(json.dumps, unit.reasons)))
    if unit.hosts:
        lines.append("hosts " + ", ".join(unit.hosts))
    for function in unit.functions:
        lines += ["", print_function(function, unit.reasons)]
    return "\n".join(lines) + "\n"


def print_function(function: Function, reasons: tuple[str, ...] = ()) -> str:
    """One function; `reasons` are its unit's."""
    params = ", ".join(f"{_name(p.name)}: {p.type.name}" for p in function.params)
    ret = "" if function.ret is VOID else f" -> {function.ret.name}"
    name = f"`{function.name}`" if function.name in ("entry", "rare") else function.name
    head = f"{'entry ' if function.entry else ''}{'rare ' if function.rare else ''}{name}({params}){ret}:"
    printer = _Printer(reasons, {p.name: p.type for p in function.params})
    printer.body(function.body, "  ")
    return "\n".join([head, *printer.lines])


def print_node(node: ops.Node, reasons: tuple[str, ...] = ()) -> str:
    """One node on one line, valid or not: for messages.  Of a block, its first line."""
    printer = _Printer(reasons, {})
    try:
        if isinstance(node, ops.Expr):
            return printer.top(node)
        assert isinstance(node, ops.Stmt)
        printer.body((node,), "")
    except (AttributeError, KeyError, TypeError):  # a field holds what cannot be printed
        return repr(node)
    return printer.lines[0]


def print_program(program: Program) -> str:
    """The linked router: instances with their connections, then each different unit once."""
    units: dict[int, Unit] = {id(x.unit): x.unit for x in program.instances}
    lines = [_linked(number, x) for number, x in enumerate(program.instances)]
    lines += [f"task {t}: {program.instances[i].name}" for t, i in enumerate(program.tasks)]
    lines += [f"timer {t}: {program.instances[i].name}" for t, i in enumerate(program.timers)]
    texts = dict.fromkeys(print_unit(u) for u in units.values())
    return "\n".join(["program", *lines, "", "\n".join(texts)])


def _linked(number: int, linked: Linked) -> str:
    outs = [f"[{i}] -> " + (f"{t[0]}[{t[1]}]" if t else "none") for i, t in enumerate(linked.outputs)]
    ins = [f"[{i}] <- {t[0]}[{t[1]}]" for i, t in enumerate(linked.inputs) if t]
    return f"{number} {linked.name} :: {linked.unit.name}" + "".join(f"; {x}" for x in [*outs, *ins])


def _state(state: State) -> str:
    if state.kind == "scalar" and not state.size and state.key is None:
        return f"state {state.name}: {state.type.name}"
    key = f"[{state.key.name}]" if state.key is not None else ""
    type_ = f" {state.type.name}" if state.type is not VOID else ""
    return f"state {state.name}: {state.kind}{key}{type_}" + (f" x {state.size}" if state.size else "")


@cache
def _name(name: str) -> str:
    return f"`{name}`" if name in RESERVED or not NAME.fullmatch(name) else name


@cache
def _number(type_: Type, value: int) -> str:
    if type_ is BOOL and value in (0, 1):
        return "true" if value else "false"
    digits = str(value) if -9999 <= value <= 9999 else hex(value)
    return digits if type_ is U32 else digits + type_.name


class _Printer:
    """Writes bodies; knows the type each local has so far."""

    def __init__(self, reasons: tuple[str, ...], types: dict[str, Type]) -> None:
        self.reasons, self.types = reasons, types
        self.lines: list[str] = []

    def body(self, body: ops.Body, indent: str) -> None:
        for statement in body:
            if isinstance(statement, ops.If):
                self.branch(statement, indent)
            elif isinstance(statement, ops.For):
                count = self.top(statement.count)
                self.types[statement.name] = U32
                self.lines.append(f"{indent}for {_name(statement.name)} in range({count}) max {statement.limit}:")
                self.body(statement.body, indent + "  ")
            else:
                self.lines.append(indent + _STMTS[statement.__class__](self, statement))
        if not body:
            self.lines.append(indent + "pass")

    def branch(self, node: ops.If, indent: str) -> None:
        self.lines.append(f"{indent}if {self.top(node.cond)}:")
        self.body(node.then, indent + "  ")
        if node.orelse:
            self.lines.append(indent + "else:")
            self.body(node.orelse, indent + "  ")

    def top(self, node: ops.Expr) -> str:
        """An expression where nothing stands beside it: without its outer parentheses."""
        text = _EXPRS[node.__class__](self, node)
        return text[1:-1] if text[0] == "(" else text

    def expr(self, node: ops.Expr) -> str:
        return _EXPRS[node.__class__](self, node)

    def local(self, node: ops.Local) -> str:
        known = self.types.get(node.name)
        return _name(node.name) if known is node.type else f"{_name(node.name)}:{node.type.name}"

    def born(self, name: str, type_: Type = PACKET) -> str:
        self.types[name] = type_
        return _name(name)

    def reason(self, number: int) -> str:
        if number == -1:
            return ""
        return " " + (json.dumps(self.reasons[number]) if 0 <= number < len(self.reasons) else f"#{number}")

    def place(self, packet: ops.Expr, mark: str, offset: ops.Expr) -> str:
        return f"{self.expr(packet)}[{mark} + {self.expr(offset)}]"

    def done(self, name: str) -> str:
        return f"{self.born(name, BOOL)} = " if name else ""


def _width(type_: Type, order: str, default: str) -> str:
    return type_.name if order == default else type_.name + ("le" if order == "little" else "be")


def _access(p: _Printer, packet: ops.Expr, type_: Type, order: str, mark: str, offset: ops.Expr) -> str:
    return f"{p.expr(packet)}.{_width(type_, order, 'big')}[{mark} + {p.expr(offset)}]"


def _anno(p: _Printer, n: Any, type_: Type) -> str:
    return f"{p.expr(n.packet)}.anno.{_width(type_, n.order, 'little')}[{n.offset}]"


def _args(p: _Printer, args: tuple[ops.Expr | None, ...]) -> str:
    return ", ".join(p.top(a) for a in args if a is not None)


def _set(p: _Printer, n: Any) -> str:
    value = p.top(n.value)
    return f"{p.born(n.name, n.value.type)} = {value}"


def _birth(p: _Printer, name: str, made: str) -> str:
    return f"{p.born(name)} = {made}"


def _copy(p: _Printer, n: Any) -> str:
    to, length = p.place(n.packet, n.mark, n.offset), p.expr(n.length)
    if isinstance(n, ops.CopyBlob):
        return f"copy {to} from self.{n.state}[{p.top(n.source_offset)}] for {length}"
    return f"copy {to} from {p.place(n.source, n.source_mark, n.source_offset)} for {length}"


def _table_change(p: _Printer, n: Any) -> str:
    args = _args(p, (n.key, n.value) if isinstance(n, ops.TablePut) else (n.key,))
    word = "put" if isinstance(n, ops.TablePut) else "delete"
    return f"{p.done(n.done)}self.{n.state}.{word}({args})"


def _at(p: _Printer, word: str, *parts: ops.Expr) -> str:
    return f"mem.{word}[{_args(p, parts)}]"


def _mem_store(p: _Printer, n: Any) -> str:
    return f"{_at(p, n.value.type.name + '.release' * n.release, n.address)} = {p.top(n.value)}"


def _lend(p: _Printer, n: Any) -> str:
    packet = p.expr(n.packet)
    return f"{p.born(n.name, U32)} = lend({packet})"


def _return(p: _Printer, n: Any) -> str:
    return "return" + (f" {p.top(n.value)}" if n.value is not None else "") + p.reason(n.reason)


_Row = Callable[[_Printer, Any], str]

_EXPRS: dict[type[ops.Expr], _Row] = {
    ops.Const: lambda p, n: _number(n.type, n.value),
    ops.Local: _Printer.local,
    ops.Bin: lambda p, n: f"({p.expr(n.a)} {SIGNS[n.op]} {p.expr(n.b)})",
    ops.Cmp: lambda p, n: f"({p.expr(n.a)} {SIGNS[n.op]} {p.expr(n.b)})",
    ops.Logic: lambda p, n: f"({p.expr(n.a)} {n.op} {p.expr(n.b)})",
    ops.Not: lambda p, n: f"not {p.expr(n.a)}",
    ops.Cast: lambda p, n: f"{n.type.name}({p.top(n.a)})",
    ops.Select: lambda p, n: f"({p.expr(n.cond)} ? {p.expr(n.a)} : {p.expr(n.b)})",
    ops.PLoad: lambda p, n: _access(p, n.packet, n.type, n.order, n.mark, n.offset),
    ops.Meta: lambda p, n: f"{p.expr(n.packet)}.{n.field}",
    ops.Anno: lambda p, n: _anno(p, n, n.type),
    ops.Sum16: lambda p, n: f"{p.expr(n.packet)}.sum16[{n.mark} + {p.expr(n.offset)}, {_args(p, (n.length, n.init))}]",
    ops.IsNone: lambda p, n: f"({p.expr(n.packet)} is none)",
    ops.Get: lambda p, n: f"self.{n.state}",
    ops.Index: lambda p, n: f"self.{n.state}[{p.top(n.index)}]",
    ops.TableGet: lambda p, n: f"self.{n.state}.get({_args(p, (n.key, n.default))})",
    ops.TableHas: lambda p, n: f"self.{n.state}.has({p.top(n.key)})",
    ops.LruGet: lambda p, n: f"self.{n.state}.get({_args(p, (n.key, n.default))})",
    ops.LruHas: lambda p, n: f"self.{n.state}.has({p.top(n.key)})",
    ops.LpmGet: lambda p, n: f"self.{n.state}.lookup({_args(p, (n.key, n.default))})",
    ops.Count: lambda p, n: f"self.{n.state}.count()",
    ops.SlotUsed: lambda p, n: f"self.{n.state}.used({p.top(n.index)})",
    ops.BlobLoad: lambda p, n: f"self.{n.state}.{_width(n.type, n.order, 'little')}[{p.top(n.offset)}]",
    ops.Now: lambda p, n: "now()",
    ops.WallTime: lambda p, n: "walltime()",
    ops.Random: lambda p, n: "random()",
    ops.Ready: lambda p, n: f"ready({n.port})",
    ops.Call: lambda p, n: f"call {n.function}({_args(p, n.args)})",
    ops.Host: lambda p, n: f"python.{n.method}({_args(p, (n.packet, *n.args))})",
    ops.MemLoad: lambda p, n: _at(p, n.type.name + ".acquire" * n.acquire, n.address),
    ops.Atomic: lambda p, n: _at(p, f"{n.type.name}.{n.op}", n.address, n.value),
    ops.MemSum16: lambda p, n: _at(p, "sum16", n.address, n.length, n.init),
    ops.Libc: lambda p, n: f"libc({_args(p, (n.address, *n.args))})",
    ops.FrameAddress: lambda p, n: f"frame_address({p.top(n.frame)})",
    ops.FrameSize: lambda p, n: "frame_size()",
    ops.TakeFrame: lambda p, n: "take_frame()",
}

_STMTS: dict[type[ops.Stmt], _Row] = {
    ops.Set: _set,
    ops.Eval: lambda p, n: f"eval {p.top(n.value)}",
    ops.Break: lambda p, n: "break",
    ops.Continue: lambda p, n: "continue",
    ops.Return: _return,
    ops.PStore: lambda p, n: f"{_access(p, n.packet, n.value.type, n.order, n.mark, n.offset)} = {p.top(n.value)}",
    ops.MetaSet: lambda p, n: f"{p.expr(n.packet)}.{n.field} = {p.top(n.value)}",
    ops.MarkClear: lambda p, n: f"clear {p.expr(n.packet)}.{n.mark}",
    ops.AnnoSet: lambda p, n: f"{_anno(p, n, n.value.type)} = {p.top(n.value)}",
    ops.Resize: lambda p, n: f"{p.expr(n.packet)}.{n.kind}({p.top(n.amount)})",
    ops.Copy: _copy,
    ops.CopyBlob: _copy,
    ops.Make: lambda p, n: _birth(p, n.name, f"make({p.top(n.length)})"),
    ops.MakeFrom: lambda p, n: _birth(p, n.name, f"make_from(self.{n.state}, {_args(p, (n.offset, n.length))})"),
    ops.Clone: lambda p, n: _birth(p, n.name, f"clone({p.expr(n.packet)})"),
    ops.Emit: lambda p, n: f"emit {p.expr(n.packet)} to {p.expr(n.port)}{p.reason(n.reason)}",
    ops.Kill: lambda p, n: f"kill {p.expr(n.packet)}{p.reason(n.reason)}",
    ops.Pull: lambda p, n: _birth(p, n.name, f"pull({p.top(n.port)})"),
    ops.Put: lambda p, n: f"self.{n.state} = {p.top(n.value)}",
    ops.Store: lambda p, n: f"self.{n.state}[{p.top(n.index)}] = {p.top(n.value)}",
    ops.TablePut: _table_change,
    ops.TableDel: _table_change,
    ops.RingPush: lambda p, n: f"self.{n.state}.push{'_front' if n.front else ''}({p.expr(n.packet)})",
    ops.RingPop: lambda p, n: _birth(p, n.name, f"self.{n.state}.pop{'_back' if n.back else ''}()"),
    ops.SlotPut: lambda p, n: f"self.{n.state}.put({_args(p, (n.index, n.packet))})",
    ops.SlotTake: lambda p, n: _birth(p, n.name, f"self.{n.state}.take({p.top(n.index)})"),
    ops.BufPut: lambda p, n: f"self.{n.state}.put{'_be' if n.order == 'big' else ''}({p.top(n.value)})",
    ops.BufPutPacket: lambda p, n: (
        f"self.{n.state}.put_packet({p.place(n.packet, n.mark, n.offset)}, {p.top(n.length)})"
    ),
    ops.Wake: lambda p, n: f"wake {n.who}",
    ops.TimerSet: lambda p, n: f"timer {p.top(n.at)}",
    ops.TimerClear: lambda p, n: "timer clear",
    ops.MemStore: _mem_store,
    ops.MemCopy: lambda p, n: _at(p, "copy", n.to, n.source, n.length),
    ops.MemZero: lambda p, n: _at(p, "zero", n.to, n.length),
    ops.GiveFrame: lambda p, n: f"give_frame({p.top(n.frame)})",
    ops.PrefetchFrame: lambda p, n: f"prefetch_frame({_args(p, (n.frame, n.start))})",
    ops.Lend: _lend,
    ops.Adopt: lambda p, n: _birth(p, n.name, f"adopt({_args(p, (n.frame, n.start, n.length))})"),
    ops.RunTask: lambda p, n: f"{p.born(n.name, BOOL)} = run_task({p.top(n.index)})",
    ops.FireTimer: lambda p, n: f"fire_timer({p.top(n.index)})",
    ops.ReadClock: lambda p, n: f"{p.born(n.name, U64)} = read_clock()",
}

__all__ = ["parse_unit", "print_function", "print_program", "print_unit"]
