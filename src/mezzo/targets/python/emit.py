"""IR to Python source.  The rows below, with the helpers of `run.py`, are what every IR op means.

A packet local holds a `Packet` or None; an op that consumes a packet sets its local to None, so that on a fault the
packets still held are those whose locals are not None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.ir import ops
from mezzo.ir.module import ROLES, Function
from mezzo.ir.types import BOOL, PACKET, VOID

WRAPPED = {"add": "+", "sub": "-", "mul": "*"}
PLAIN = {"and": "&", "or": "|", "xor": "^"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def local(name: str) -> str:
    return name.replace(".", "_") + "_"


# -- expressions: one row each --------------------------------------------------------------------------------------


def _bin(x: ops.Bin) -> str:
    a, b = expr(x.a), expr(x.b)
    if x.op in PLAIN:
        return f"({a} {PLAIN[x.op]} {b})"
    if x.op in WRAPPED:
        whole = f"{a} {WRAPPED[x.op]} {b}"
        return f"wrap_i64({whole})" if x.type.signed else f"(({whole}) & {x.type.mask:#x})"
    return f"{x.op}({a}, {b}, {x.type.bits}, {x.type.signed})"


def _cast(x: ops.Cast) -> str:
    inner = expr(x.a)
    if x.type is BOOL:
        return f"int({inner} != 0)"
    if x.type.signed:
        return inner if x.a.type.bits < 64 else f"wrap_i64({inner})"
    return inner if x.a.type.bits <= x.type.bits and not x.a.type.signed else f"({inner} & {x.type.mask:#x})"


def _host(x: ops.Host) -> str:
    args = "".join(", " + expr(a) for a in x.args)
    return f"me.host({x.method!r}, {expr(x.packet) if x.packet is not None else 'None'}{args})"


EXPR: dict[type, Callable[[Any], str]] = {
    ops.Const: lambda x: str(x.value),
    ops.Local: lambda x: local(x.name),
    ops.Bin: _bin,
    ops.Cmp: lambda x: f"int({expr(x.a)} {COMPARE[x.op]} {expr(x.b)})",
    ops.Logic: lambda x: f"({expr(x.a)} {x.op} {expr(x.b)})",
    ops.Not: lambda x: f"int(not {expr(x.a)})",
    ops.Cast: _cast,
    ops.Select: lambda x: f"select({expr(x.cond)}, {expr(x.a)}, {expr(x.b)})",
    ops.PLoad: lambda x: f"load({expr(x.packet)}, {x.mark!r}, {expr(x.offset)}, {x.type.bits // 8}, {x.order!r})",
    ops.Meta: lambda x: f"meta({expr(x.packet)}, {x.field!r})",
    ops.Anno: lambda x: f"anno({expr(x.packet)}, {x.offset}, {x.type.bits // 8}, {x.order!r})",
    ops.Sum16: lambda x: f"sum16({expr(x.packet)}, {x.mark!r}, {expr(x.offset)}, {expr(x.length)}, {expr(x.init)})",
    ops.IsNone: lambda x: f"int({expr(x.packet)} is None)",
    ops.Get: lambda x: f"me.{x.state}.value",
    ops.Index: lambda x: f"index(me.{x.state}, {expr(x.index)})",
    ops.TableGet: lambda x: f"me.{x.state}.get({expr(x.key)}, {expr(x.default)})",
    ops.TableHas: lambda x: f"int({expr(x.key)} in me.{x.state})",
    ops.LruGet: lambda x: f"me.{x.state}.find({expr(x.key)}, {expr(x.default)})",
    ops.LruHas: lambda x: f"int(me.{x.state}.use({expr(x.key)}))",
    ops.LpmGet: lambda x: f"me.{x.state}.lookup({expr(x.key)}, {expr(x.default)})",
    ops.Count: lambda x: f"len(me.{x.state})",
    ops.SlotUsed: lambda x: f"slot_used(me.{x.state}, {expr(x.index)})",
    ops.BlobLoad: lambda x: f"blob_load(me.{x.state}, {expr(x.offset)}, {x.type.bits // 8}, {x.order!r})",
    ops.Now: lambda x: "me.engine.now_ns",
    ops.WallTime: lambda x: "me.engine.wall_ns",
    ops.Random: lambda x: "me.engine.random()",
    ops.Ready: lambda x: f"me.is_ready({x.port})",
    ops.Call: lambda x: f"me.code[{x.function!r}](me{''.join(', ' + expr(a) for a in x.args)})",
    ops.Host: _host,
    ops.MemLoad: lambda x: f"mem_load({expr(x.address)}, {x.type.bits // 8})",
    ops.Atomic: lambda x: f"atomic({x.op!r}, {expr(x.address)}, {expr(x.value)}, {x.type.bits // 8})",
    ops.MemSum16: lambda x: f"mem_sum16({expr(x.address)}, {expr(x.length)}, {expr(x.init)})",
    ops.Libc: lambda x: f"libc({', '.join(expr(a) for a in (x.address, *x.args))})",
    ops.FrameAddress: lambda x: f"frame_address(me.engine.arena, {expr(x.frame)})",
    ops.FrameSize: lambda x: "me.engine.arena.frame_size",
    ops.TakeFrame: lambda x: "me.engine.arena.take_frame()",
}


def expr(x: ops.Expr) -> str:
    return EXPR[type(x)](x)


# -- statements: one row each ---------------------------------------------------------------------------------------


def _gone(text: str, packet: ops.Expr) -> list[str]:
    """`text` consumes the packet."""
    return [text, f"{expr(packet)} = None"]


class Emitter:
    """Writes one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.lines: list[str] = []
        self.packets: list[str] = []

    def run(self) -> str:
        f = self.function
        params = ", ".join(["me", *(local(p.name) for p in f.params)])
        owned = f.name in ("process", "push")
        self.packets = [local(p.name) for p in f.params if p.type is PACKET and owned]
        names = _locals(f)
        lent = {p.name for p in f.params}
        self.lines = [f"def {f.name.replace('.', '_')}({params}):"]
        for name, is_packet in names.items():
            if name not in lent:
                self.lines.append(f"    {local(name)} = {'None' if is_packet else '0'}")
                self.packets += [local(name)] if is_packet else []
        self.lines.append("    try:")
        self.body(f.body, 2)
        if self.lines[-1] == "    try:":
            self.lines.append("        pass")
        held = ", ".join(self.packets)
        role = f.name in ROLES or f.entry
        self.lines.append("    except Fault:")
        self.lines.append(f"        me.fault({held})" if role else f"        me.release({held})")
        self.lines.append(f"        return {FAULT_RESULT.get(f.name, 'None')}" if role else "        raise")
        return "\n".join(self.lines) + "\n"

    def body(self, body: ops.Body, depth: int) -> None:
        for statement in body:
            for line in STMT[type(statement)](self, statement, depth):
                self.lines.append("    " * depth + line)
        if not body:
            self.lines.append("    " * depth + "pass")

    def _if(self, s: ops.If, depth: int) -> list[str]:
        self.lines.append("    " * depth + f"if {expr(s.cond)}:")
        self.body(s.then, depth + 1)
        if s.orelse:
            self.lines.append("    " * depth + "else:")
            self.body(s.orelse, depth + 1)
        return []

    def _for(self, s: ops.For, depth: int) -> list[str]:
        self.lines.append("    " * depth + f"for {local(s.name)} in rounds({expr(s.count)}, {s.limit}):")
        self.body(s.body, depth + 1)
        return []

    def _return(self, s: ops.Return, depth: int) -> list[str]:
        f = self.function
        if f.name == "process":
            return ["return None"] if s.value is None else [f"return ({expr(s.value)}, {s.reason})"]
        return ["return None"] if s.value is None else [f"return {expr(s.value)}"]


FAULT_RESULT = {"task": "1", "ready": "0"}


def _locals(f: Function) -> dict[str, bool]:
    """Every local a body sets, and whether it is a packet."""
    found: dict[str, bool] = {}

    def visit(body: ops.Body) -> None:
        for s in body:
            if isinstance(s, (ops.Make, ops.MakeFrom, ops.Clone, ops.Pull, ops.RingPop, ops.SlotTake, ops.Adopt)):
                found[s.name] = True
            elif isinstance(s, (ops.Set, ops.RunTask, ops.ReadClock, ops.Lend)):
                found.setdefault(s.name, False)
            elif isinstance(s, (ops.TablePut, ops.TableDel)) and s.done:
                found.setdefault(s.done, False)
            elif isinstance(s, ops.If):
                visit(s.then)
                visit(s.orelse)
            elif isinstance(s, ops.For):
                found.setdefault(s.name, False)
                visit(s.body)

    visit(f.body)
    return found


def _done(name: str, text: str) -> list[str]:
    return [f"{local(name)} = int({text})" if name else text]


STMT: dict[type, Callable[[Emitter, Any, int], list[str]]] = {
    ops.Set: lambda e, s, d: [f"{local(s.name)} = {expr(s.value)}"],
    ops.Eval: lambda e, s, d: [expr(s.value)],
    ops.If: Emitter._if,
    ops.For: Emitter._for,
    ops.Break: lambda e, s, d: ["break"],
    ops.Continue: lambda e, s, d: ["continue"],
    ops.Return: Emitter._return,
    ops.PStore: lambda e, s, d: [
        f"store({expr(s.packet)}, {s.mark!r}, {expr(s.offset)}, {expr(s.value)}, {s.value.type.bits // 8}, {s.order!r})"
    ],
    ops.MetaSet: lambda e, s, d: [f"meta_set({expr(s.packet)}, {s.field!r}, {expr(s.value)})"],
    ops.MarkClear: lambda e, s, d: [f"{expr(s.packet)}.set_mark({s.mark!r}, None)"],
    ops.AnnoSet: lambda e, s, d: [
        f"anno_set({expr(s.packet)}, {s.offset}, {expr(s.value)}, {s.value.type.bits // 8}, {s.order!r})"
    ],
    ops.Resize: lambda e, s, d: [f"need({expr(s.packet)}.{s.kind}({expr(s.amount)}))"],
    ops.Copy: lambda e, s, d: [
        f"copy({expr(s.packet)}, {s.mark!r}, {expr(s.offset)}, "
        f"{expr(s.source)}, {s.source_mark!r}, {expr(s.source_offset)}, {expr(s.length)})"
    ],
    ops.CopyBlob: lambda e, s, d: [
        f"copy_blob({expr(s.packet)}, {s.mark!r}, {expr(s.offset)}, "
        f"me.{s.state}, {expr(s.source_offset)}, {expr(s.length)})"
    ],
    ops.Make: lambda e, s, d: [f"{local(s.name)} = me.engine.arena.make({expr(s.length)})"],
    ops.MakeFrom: lambda e, s, d: [
        f"{local(s.name)} = make_from(me.engine.arena, me.{s.state}, {expr(s.offset)}, {expr(s.length)})"
    ],
    ops.Clone: lambda e, s, d: [f"{local(s.name)} = {expr(s.packet)}.clone()"],
    ops.Emit: lambda e, s, d: [
        *_gone(f"to, gone = {expr(s.port)}, {expr(s.packet)}", s.packet),
        f"me.leave(to, gone, {s.reason})",
    ],
    ops.Kill: lambda e, s, d: _gone(f"me.kill({expr(s.packet)}, {s.reason})", s.packet),
    ops.Pull: lambda e, s, d: [f"{local(s.name)} = me.pull_input({expr(s.port)})"],
    ops.Put: lambda e, s, d: [f"me.{s.state}.value = {expr(s.value)}"],
    ops.Store: lambda e, s, d: [f"index_set(me.{s.state}, {expr(s.index)}, {expr(s.value)})"],
    ops.TablePut: lambda e, s, d: _done(s.done, f"me.{s.state}.set({expr(s.key)}, {expr(s.value)})"),
    ops.TableDel: lambda e, s, d: _done(s.done, f"me.{s.state}.delete({expr(s.key)})"),
    ops.RingPush: lambda e, s, d: _gone(f"need(me.{s.state}.push({expr(s.packet)}.frame, {s.front}))", s.packet),
    ops.RingPop: lambda e, s, d: [f"{local(s.name)} = me.packet(me.{s.state}.pop({s.back}))"],
    ops.SlotPut: lambda e, s, d: _gone(f"slot_put(me.{s.state}, {expr(s.index)}, {expr(s.packet)}.frame)", s.packet),
    ops.SlotTake: lambda e, s, d: [f"{local(s.name)} = me.packet(slot_take(me.{s.state}, {expr(s.index)}))"],
    ops.BufPut: lambda e, s, d: [f"buf_put(me.{s.state}, {expr(s.value)}, {s.value.type.bits // 8}, {s.order!r})"],
    ops.BufPutPacket: lambda e, s, d: [
        f"buf_put_packet(me.{s.state}, {expr(s.packet)}, {s.mark!r}, {expr(s.offset)}, {expr(s.length)})"
    ],
    ops.Wake: lambda e, s, d: [f"me.wake({s.who!r})"],
    ops.TimerSet: lambda e, s, d: [f"me.timer_set({expr(s.at)})"],
    ops.TimerClear: lambda e, s, d: ["me.timer_clear()"],
    ops.MemStore: lambda e, s, d: [f"mem_store({expr(s.address)}, {expr(s.value)}, {s.value.type.bits // 8})"],
    ops.MemCopy: lambda e, s, d: [f"mem_copy({expr(s.to)}, {expr(s.source)}, {expr(s.length)})"],
    ops.MemZero: lambda e, s, d: [f"mem_zero({expr(s.to)}, {expr(s.length)})"],
    ops.GiveFrame: lambda e, s, d: [f"give_frame(me.engine.arena, {expr(s.frame)})"],
    ops.PrefetchFrame: lambda e, s, d: [],
    ops.Lend: lambda e, s, d: _gone(f"{local(s.name)} = me.engine.arena.lend({expr(s.packet)}.frame)", s.packet),
    ops.Adopt: lambda e, s, d: [
        f"{local(s.name)} = adopt(me.engine.arena, {expr(s.frame)}, {expr(s.start)}, {expr(s.length)})"
    ],
    ops.RunTask: lambda e, s, d: [f"{local(s.name)} = me.engine.run_task({expr(s.index)})"],
    ops.FireTimer: lambda e, s, d: [f"me.engine.fire_timer({expr(s.index)})"],
    ops.ReadClock: lambda e, s, d: [f"{local(s.name)} = monotonic_ns()"],
}


def emit(function: Function) -> str:
    """The Python source of one function."""
    assert function.ret in (VOID, PACKET) or function.ret.bits
    return Emitter(function).run()
