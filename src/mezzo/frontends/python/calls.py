"""Calls of the packet language: functions, casts, helpers, Python methods, and `self.NAME(…)`."""

from __future__ import annotations

import ast
from typing import Any

from mezzo.base import Note
from mezzo.frontends.python import values
from mezzo.frontends.python.arguments import NOTHING
from mezzo.frontends.python.dialect import Dialect
from mezzo.frontends.python.packet_calls import PacketCalls
from mezzo.frontends.python.state_calls import StateCalls
from mezzo.frontends.python.values import Lit, Method, Num, Pkt, Place, StateRef, Thing, Value, cast, literal
from mezzo.frontends.python.wording import describe, kind_of, suggest
from mezzo.ir import ops
from mezzo.ir.types import BOOL, I64, PACKET, U16, U32, U64, Type


class Calls(PacketCalls, StateCalls, Dialect):
    """Adds calls to expressions."""

    def ex_Call(self, node: ast.Call) -> Value:
        return self.call(node, True, "")

    def call(self, node: ast.Call, wanted: bool, name: str) -> Value:
        if node.keywords:
            self.fail(node, "arguments are given by place in packet code")
        callee = self.expr(node.func)
        if isinstance(callee, Method):
            return self.method(callee, node, wanted, name)
        if isinstance(callee, Thing):
            if isinstance(callee.object, Type):
                return self.convert(callee.object, node)
            return self.function(callee.object, node)
        self.fail(node, f"this is {describe(callee)}, which cannot be called")

    # -- functions

    def convert(self, type_: Type, node: ast.Call) -> Value:
        (arg,) = self.args(node, 1, 1, f"{type_}(value)")
        value = self.expr(arg)
        if isinstance(value, Lit):
            return Num(literal(int(value.value != 0) if type_ is BOOL else value.value, type_))
        if isinstance(value, Num):
            return Num(cast(type_, value.expr))
        self.fail(arg, f"a number is wanted here, and this is {describe(value)}")

    def function(self, target: Any, node: ast.Call) -> Value:
        name = target if isinstance(target, str) else getattr(target, "packet_function", "")
        known = getattr(self, "fn_" + name, None)
        if known is not None:
            result: Value = known(node)
            return result
        if callable(target) and hasattr(target, "__code__"):
            return self.helper(f"{target.__module__.rpartition('.')[2]}.{target.__name__}", target, False, node)
        self.fail(
            node,
            f"`{ast.unparse(node.func)}` cannot be called in packet code",
            "use a method of the element, or a function with typed parameters",
        )

    def fn_now(self, node: ast.Call) -> Value:
        self.args(node, 0, 0, "now()")
        return Num(ops.Now())

    def fn_walltime(self, node: ast.Call) -> Value:
        self.args(node, 0, 0, "walltime()")
        return Num(ops.WallTime())

    def fn_random(self, node: ast.Call) -> Value:
        self.args(node, 0, 0, "random()")
        return Num(self.out.keep(ops.Random()))

    def fn_randrange(self, node: ast.Call) -> Value:
        (arg,) = self.args(node, 1, 1, "randrange(n)")
        # Lemire's multiply-shift: even enough for 32 bits, and no division.
        wide = ops.Bin("mul", U64, cast(U64, self.out.keep(ops.Random())), cast(U64, self.number(arg, U32)))
        return Num(cast(U32, ops.Bin("shr", U64, wide, literal(32, U64))))

    def fn_len(self, node: ast.Call) -> Value:
        (arg,) = self.args(node, 1, 1, "len(state)")
        value = self.expr(arg)
        if isinstance(value, StateRef):
            if value.state.kind in ("array", "slots"):
                return Lit(value.state.size)
            return Num(ops.Count(value.state.name))
        if isinstance(value, Thing) and hasattr(value.object, "__len__"):
            return Lit(len(value.object))
        if isinstance(value, Pkt):
            self.fail(node, "a packet's length is p.length")
        self.fail(node, f"this is {describe(value)}, which has no length")

    def fn_min(self, node: ast.Call) -> Value:
        return self.extreme(node, "lt")

    def fn_max(self, node: ast.Call) -> Value:
        return self.extreme(node, "gt")

    def extreme(self, node: ast.Call, op: str) -> Value:
        left, right = self.args(node, 2, 2, "min(a, b)")
        a, b = self.expr(left), self.expr(right)
        if isinstance(a, Lit) and isinstance(b, Lit):
            return Lit(min(a.value, b.value) if op == "lt" else max(a.value, b.value))
        type_ = self.common(a, b, node, left, right)
        x, y = self.out.keep(self.fit(a, type_, left, "")), self.out.keep(self.fit(b, type_, right, ""))
        return Num(ops.Select(type_, values.compare(op, x, y), x, y))

    def fn_bool(self, node: ast.Call) -> Value:
        (arg,) = self.args(node, 1, 1, "bool(value)")
        return Num(self.condition(arg))

    def fn_checksum_adjust(self, node: ast.Call) -> Value:
        """RFC 1624 eqn. 3: the checksum after one 16-bit word changed from `old` to `new`."""
        check, old, new = (
            self.number(a, U16) for a in self.args(node, 3, 3, "checksum_adjust(checksum, old_word, new_word)")
        )
        ones = literal(0xFFFF, U16)
        parts = [
            cast(U32, values.binary("xor", U16, check, ones)),
            cast(U32, values.binary("xor", U16, old, ones)),
            cast(U32, new),
        ]
        total = self.out.keep(values.binary("add", U32, values.binary("add", U32, parts[0], parts[1]), parts[2]))
        return Num(values.binary("xor", U16, cast(U16, self.fold16(total)), ones))

    def fold16(self, total: ops.Expr) -> ops.Expr:
        """Folds a u32 sum to 16 bits; twice is enough."""
        for _ in range(2):
            high = values.binary("shr", U32, total, ops.u32(16))
            total = self.out.keep(values.binary("add", U32, values.binary("and", U32, total, ops.u32(0xFFFF)), high))
        return total

    # -- methods

    def method(self, method: Method, node: ast.Call, wanted: bool, name: str) -> Value:
        owner = method.owner
        if isinstance(owner, StateRef):
            known = getattr(self, f"st_{owner.state.kind}_{method.name}", None)
            if known is None:
                have = ", ".join(m.split("_", 2)[2] for m in dir(self) if m.startswith(f"st_{owner.state.kind}_"))
                near = suggest(method.name, have.split(", "))
                self.fail(node, f"a {kind_of(owner.state)} has no method `{method.name}`{near}", f"it has {have}")
            return known(owner.state, node, wanted, name)  # type: ignore[no-any-return]
        if isinstance(owner, (Pkt, Place)):
            return self.packet_method(owner, method.name, node, name)
        own = method.name in ("push", "pull", "ready") or not hasattr(type(self.unit.element), method.name)
        if own and hasattr(self, "my_" + method.name):
            return getattr(self, "my_" + method.name)(node, name)  # type: ignore[no-any-return]
        target = getattr(type(self.unit.element), method.name)
        if getattr(target, "__python__", False):
            return self.host(method.name, node)
        return self.helper(method.name, target, True, node)

    def host(self, method: str, node: ast.Call) -> Value:
        packet, numbers = None, []
        for arg in node.args:
            value = self.expr(arg)
            if isinstance(value, Pkt):
                if packet is not None:
                    self.fail(arg, "only one packet can be shown to a Python method at a time")
                packet = value.expr
            else:
                # Numbers travel as i64; wider ones keep their low 64 bits.
                numbers.append(cast(I64, value.expr if isinstance(value, Num) else self.fit(value, I64, arg, "")))
        call = ops.Host(self.unit.builder.host(method), packet, tuple(numbers), span=self.span(node))
        return Num(call)

    def helper(self, name: str, target: Any, bound: bool, node: ast.Call) -> Value:
        function = self.unit.function(name) if bound else self.unit.builder.functions.get(name)
        function = function or self.unit.translate_callable(name, target, False)
        if len(function.params) != len(node.args):
            usage = ", ".join(f"{p.name}: {p.type}" for p in function.params)
            message = f"{name} is called with {len(node.args)} arguments instead of {len(function.params)}"
            self.source.fail(node, message, f"it is {name}({usage})", (Note("declared here", function.span),))
        args = []
        for param, arg in zip(function.params, node.args, strict=True):
            args.append(self.packet(arg).expr if param.type is PACKET else self.number(arg, param.type))
        call = ops.Call(function.ret, name, tuple(args), span=self.span(node))
        if function.ret is PACKET:
            self.fail(node, "a helper gives back a number, not a packet", "keep packets in the method that owns them")
        return Num(call)

    # -- methods of the element: self.push(…)

    def my_push(self, node: ast.Call, name: str) -> Value:
        args = self.args(node, 2, 3, "self.push(port, p) or self.push(port, p, 'reason')")
        port, packet = self.number(args[0], U32), self.packet(args[1])
        reason = self.unit.builder.reason(self.text(args[2])) if len(args) == 3 else -1
        self.out.add(ops.Emit(port, packet.expr, reason, span=self.span(node)))
        return NOTHING

    def text(self, node: ast.expr) -> str:
        raise NotImplementedError  # FunctionTranslator

    def my_kill(self, node: ast.Call, name: str) -> Value:
        args = self.args(node, 1, 2, "self.kill(p, 'reason')")
        reason = self.unit.builder.reason(self.text(args[1])) if len(args) == 2 else -1
        self.out.add(ops.Kill(self.packet(args[0]).expr, reason, span=self.span(node)))
        return NOTHING

    def my_pull(self, node: ast.Call, name: str) -> Value:
        (port,) = self.args(node, 1, 1, "self.pull(port)")
        born = self.birth(node, name)
        self.out.add(ops.Pull(born, self.number(port, U32), span=self.span(node)))
        return Pkt(born)

    def my_make(self, node: ast.Call, name: str) -> Value:
        (length,) = self.args(node, 1, 1, "self.make(length)")
        born = self.birth(node, name)
        self.out.add(ops.Make(born, self.number(length, U32), span=self.span(node)))
        return Pkt(born)

    def my_make_from(self, node: ast.Call, name: str) -> Value:
        blob, offset, length = self.args(node, 3, 3, "self.make_from(self.blob, offset, length)")
        born = self.birth(node, name)
        self.out.add(
            ops.MakeFrom(
                born, self.blob(blob), self.number(offset, U64), self.number(length, U32), span=self.span(node)
            )
        )
        return Pkt(born)

    def my_ready(self, node: ast.Call, name: str) -> Value:
        (port,) = self.args(node, 1, 1, "self.ready(port)")
        return Num(ops.Ready(self.known_int(port, "the output")))

    def my_wake(self, node: ast.Call, name: str) -> Value:
        return self.effect(node, ops.Wake("self"), "self.wake()")

    def my_wake_down(self, node: ast.Call, name: str) -> Value:
        return self.effect(node, ops.Wake("down"), "self.wake_down()")

    def my_wake_up(self, node: ast.Call, name: str) -> Value:
        return self.effect(node, ops.Wake("up"), "self.wake_up()")

    def my_timer_clear(self, node: ast.Call, name: str) -> Value:
        return self.effect(node, ops.TimerClear(), "self.timer_clear()")

    def effect(self, node: ast.Call, statement: ops.Stmt, usage: str) -> Value:
        self.args(node, 0, 0, usage)
        self.out.add(statement)
        return NOTHING

    def my_timer_at(self, node: ast.Call, name: str) -> Value:
        (at,) = self.args(node, 1, 1, "self.timer_at(ns)")
        self.out.add(ops.TimerSet(self.number(at, U64)))
        return NOTHING

    def my_timer_after(self, node: ast.Call, name: str) -> Value:
        (after,) = self.args(node, 1, 1, "self.timer_after(ns)")
        self.out.add(ops.TimerSet(values.binary("add", U64, ops.Now(), self.number(after, U64))))
        return NOTHING

    def my_run_task(self, node: ast.Call, name: str) -> Value:
        (index,) = self.args(node, 1, 1, "self.run_task(i)")
        again = self.out.fresh("again")
        self.out.add(ops.RunTask(again, self.number(index, U32)))
        return Num(ops.Local(BOOL, again))

    def my_fire_timer(self, node: ast.Call, name: str) -> Value:
        (index,) = self.args(node, 1, 1, "self.fire_timer(i)")
        self.out.add(ops.FireTimer(self.number(index, U32)))
        return NOTHING

    def my_read_clock(self, node: ast.Call, name: str) -> Value:
        clock = self.out.fresh("clock")
        self.out.add(ops.ReadClock(clock))
        return Num(ops.Local(U64, clock))


__all__ = ["Calls"]
