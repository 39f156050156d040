"""Calls of the packet language: functions, casts, methods of packets, of state and of the element."""

from __future__ import annotations

import ast
from typing import Any

from mezzo.base import Note
from mezzo.frontends.python import values
from mezzo.frontends.python.expressions import MARK_OF, Expressions
from mezzo.frontends.python.values import Lit, Method, Num, Pkt, Place, StateRef, Thing, Value, View, cast, literal
from mezzo.frontends.python.wording import describe, suggest
from mezzo.ir import ops
from mezzo.ir.types import BOOL, I64, PACKET, U8, U16, U32, U48, U64, U128, Type
from mezzo.wire.header import Header

WIDTHS: dict[str, Type] = {"u8": U8, "u16": U16, "u32": U32, "u48": U48, "u64": U64, "u128": U128}
NOTHING = Thing(None)


class Calls(Expressions):
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

    def args(self, node: ast.Call, low: int, high: int, usage: str) -> list[ast.expr]:
        if not low <= len(node.args) <= high:
            self.fail(node, f"wrong number of arguments; it is {usage}")
        return node.args

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
        self.fail(node, f"`{ast.unparse(node.func)}` cannot be called in packet code", "use a method of the element, or a function with typed parameters")

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
        check, old, new = (self.number(a, U16) for a in self.args(node, 3, 3, "checksum_adjust(checksum, old_word, new_word)"))
        ones = literal(0xFFFF, U16)
        parts = [cast(U32, values.binary("xor", U16, check, ones)), cast(U32, values.binary("xor", U16, old, ones)), cast(U32, new)]
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
                self.fail(node, f"a {owner.state.kind} has no method `{method.name}`{near}", f"it has {have}")
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

    def birth(self, node: ast.Call, name: str) -> str:
        """The local a new packet is born in."""
        if not name:
            self.fail(node, "give the packet a name", f"write p = {ast.unparse(node)}")
        if name in self.types and self.types[name] is not PACKET:
            self.fail(node, f"`{name}` is {self.types[name]} already", "use another name")
        return name

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
        self.out.add(ops.MakeFrom(born, self.blob(blob), self.number(offset, U64), self.number(length, U32), span=self.span(node)))
        return Pkt(born)

    def blob(self, node: ast.expr) -> str:
        value = self.expr(node)
        if not isinstance(value, StateRef) or value.state.kind != "blob":
            self.fail(node, "a Blob of the element's state is wanted here")
        return value.state.name

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

    # -- methods of packets

    def packet_method(self, owner: Pkt | Place, method: str, node: ast.Call, name: str) -> Value:
        packet, mark = (owner.packet, owner.mark) if isinstance(owner, Place) else (owner, "data")
        stem, order = (method[:-2], "little") if method.endswith("le") else (method, "big")
        span = self.span(node)
        if stem in WIDTHS:
            (at,) = self.args(node, 1, 1, f"{method}(offset)")
            return Num(ops.PLoad(WIDTHS[stem], packet.expr, mark, self.number(at, U32), order, span=span))
        if stem.startswith("set_") and stem[4:] in WIDTHS:
            at, value = self.args(node, 2, 2, f"{method}(offset, value)")
            offset = self.number(at, U32)
            self.out.add(ops.PStore(packet.expr, mark, offset, self.number(value, WIDTHS[stem[4:]]), order, span=span))
            return NOTHING
        if stem.startswith("anno_") and stem[5:] in WIDTHS:
            (at,) = self.args(node, 1, 1, f"{method}(offset)")
            place = self.anno_place(at, WIDTHS[stem[5:]])
            return Num(ops.Anno(WIDTHS[stem[5:]], packet.expr, place, span=span))
        if stem.startswith("set_anno_") and stem[9:] in WIDTHS:
            at, value = self.args(node, 2, 2, f"{method}(offset, value)")
            place = self.anno_place(at, WIDTHS[stem[9:]])
            self.out.add(ops.AnnoSet(packet.expr, place, self.number(value, WIDTHS[stem[9:]]), span=span))
            return NOTHING
        known = getattr(self, "pk_" + method, None)
        if known is None:
            self.fail(node, f"packets have no `{method}`", "see docs/language.md for what packet code can do")
        return known(packet, mark, node, name)  # type: ignore[no-any-return]

    def packet_methods(self) -> frozenset[str]:
        widths = [w + end for w in WIDTHS for end in ("", "le")]
        access = [head + w for head in ("", "set_", "anno_", "set_anno_") for w in widths]
        return frozenset([*access, *(m[3:] for m in dir(self) if m.startswith("pk_"))])

    def anno_place(self, node: ast.expr, type_: Type) -> int:
        place, last = self.known_int(node, "the annotation's offset"), 48 - type_.bits // 8
        if not 0 <= place <= last:
            self.fail(node, f"the annotations have 48 bytes: a {type_} fits at 0 to {last}, not at {place}")
        return place

    def pk_view(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        which, at = self.args(node, 2, 2, "p.view(Header, offset)")
        header = self.expr(which)
        if not isinstance(header, Thing) or not (isinstance(header.object, type) and issubclass(header.object, Header)):
            self.fail(which, "a header class of mezzo.wire is wanted here")
        return View(packet, mark, self.out.keep(self.number(at, U32)), header.object)

    def pk_sum16(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        args = self.args(node, 2, 3, "p.net.sum16(offset, length) or with an initial sum")
        offset, length = self.number(args[0], U32), self.number(args[1], U32)
        init = self.number(args[2], U32) if len(args) == 3 else ops.u32(0)
        return Num(self.out.keep(ops.Sum16(packet.expr, mark, offset, length, init, span=self.span(node))))

    def resize(self, kind: str, packet: Pkt, node: ast.Call) -> Value:
        (amount,) = self.args(node, 1, 1, f"p.{kind}(count)")
        self.out.add(ops.Resize(kind, packet.expr, self.number(amount, U32), span=self.span(node)))
        return NOTHING

    def pk_strip(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("strip", packet, node)

    def pk_prepend(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("prepend", packet, node)

    def pk_append(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("append", packet, node)

    def pk_trim(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.resize("trim", packet, node)

    def set_mark(self, field: str, packet: Pkt, node: ast.Call) -> Value:
        (at,) = self.args(node, 1, 1, "p.set_network(offset from the start of data)")
        value = self.expr(at)
        if isinstance(value, Thing) and value.object is None:
            self.out.add(ops.MarkClear(packet.expr, field, span=self.span(node)))
        else:
            self.out.add(ops.MetaSet(packet.expr, field, self.fit(value, I64, at, "an offset"), span=self.span(node)))
        return NOTHING

    def pk_set_mac(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.set_mark("mac", packet, node)

    def pk_set_network(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.set_mark("net", packet, node)

    def pk_set_transport(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        return self.set_mark("trans", packet, node)

    def pk_clone(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        self.args(node, 0, 0, "p.clone()")
        born = self.birth(node, name)
        self.out.add(ops.Clone(born, packet.expr, span=self.span(node)))
        return Pkt(born)

    def pk_move(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        to, start, count = (self.number(a, U32) for a in self.args(node, 3, 3, "p.move(to, from, count)"))
        self.out.add(ops.Copy(packet.expr, mark, to, packet.expr, mark, start, count, span=self.span(node)))
        return NOTHING

    def pk_copy_from(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        to, source, start, count = self.args(node, 4, 4, "p.copy_from(to, q, from, count)")
        other = self.expr(source)
        if not isinstance(other, (Pkt, Place)):
            self.fail(source, "a packet is wanted here")
        origin, origin_mark = (other, "data") if isinstance(other, Pkt) else (other.packet, other.mark)
        numbers = [self.number(a, U32) for a in (to, start, count)]
        self.out.add(ops.Copy(packet.expr, mark, numbers[0], origin.expr, origin_mark, numbers[1], numbers[2], span=self.span(node)))
        return NOTHING

    def pk_write(self, packet: Pkt, mark: str, node: ast.Call, name: str) -> Value:
        to, blob, start, count = self.args(node, 4, 4, "p.write(to, self.blob, from, count)")
        place = self.number(to, U32)
        self.out.add(
            ops.CopyBlob(packet.expr, mark, place, self.blob(blob), self.number(start, U64), self.number(count, U32), span=self.span(node))
        )
        return NOTHING

    # -- methods of state: st_<kind>_<method>(state, node, wanted, name)

    def st_table_get(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        args = self.args(node, 1, 2, "table.get(key, default)")
        default = self.number(args[1], state.type) if len(args) == 2 else literal(0, state.type)
        return Num(ops.TableGet(state.type, state.name, self.number(args[0], state.key), default))

    def st_table_set(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        key, value = self.args(node, 2, 2, "table.set(key, value)")
        done = self.out.fresh("fits") if wanted else ""
        self.out.add(ops.TablePut(done, state.name, self.number(key, state.key), self.number(value, state.type), span=self.span(node)))
        return Num(ops.Local(BOOL, done)) if wanted else NOTHING

    def st_table_delete(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (key,) = self.args(node, 1, 1, "table.delete(key)")
        done = self.out.fresh("was") if wanted else ""
        self.out.add(ops.TableDel(done, state.name, self.number(key, state.key), span=self.span(node)))
        return Num(ops.Local(BOOL, done)) if wanted else NOTHING

    def st_lpm_lookup(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        args = self.args(node, 1, 2, "lpm.lookup(address, default)")
        default = self.number(args[1], U32) if len(args) == 2 else ops.u32(0)
        return Num(ops.LpmGet(U32, state.name, self.number(args[0], state.key), default))

    def st_ring_push(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (packet,) = self.args(node, 1, 1, "ring.push(p)")
        self.out.add(ops.RingPush(state.name, self.packet(packet).expr, span=self.span(node)))
        return NOTHING

    def st_ring_push_front(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (packet,) = self.args(node, 1, 1, "ring.push_front(p)")
        self.out.add(ops.RingPush(state.name, self.packet(packet).expr, True, span=self.span(node)))
        return NOTHING

    def st_ring_pop(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.pop(state, node, name, False)

    def st_ring_pop_back(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.pop(state, node, name, True)

    def pop(self, state: Any, node: ast.Call, name: str, back: bool) -> Value:
        self.args(node, 0, 0, "ring.pop()")
        born = self.birth(node, name)
        self.out.add(ops.RingPop(born, state.name, back, span=self.span(node)))
        return Pkt(born)

    def st_slots_put(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        index, packet = self.args(node, 2, 2, "slots.put(index, p)")
        self.out.add(ops.SlotPut(state.name, self.number(index, U32), self.packet(packet).expr, span=self.span(node)))
        return NOTHING

    def st_slots_take(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (index,) = self.args(node, 1, 1, "slots.take(index)")
        born = self.birth(node, name)
        self.out.add(ops.SlotTake(born, state.name, self.number(index, U32), span=self.span(node)))
        return Pkt(born)

    def st_slots_used(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (index,) = self.args(node, 1, 1, "slots.used(index)")
        return Num(ops.SlotUsed(state.name, self.number(index, U32), span=self.span(node)))

    def st_blob_read(self, state: Any, type_: Type, order: str, node: ast.Call) -> Value:
        (at,) = self.args(node, 1, 1, "blob.u32(offset)")
        return Num(ops.BlobLoad(type_, state.name, self.number(at, U64), order, span=self.span(node)))

    def st_blob_u8(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U8, "little", node)

    def st_blob_u16le(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U16, "little", node)

    def st_blob_u32le(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U32, "little", node)

    def st_blob_u64le(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U64, "little", node)

    def st_blob_u32(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        return self.st_blob_read(state, U32, "big", node)

    def st_buffer_put(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        (arg,) = self.args(node, 1, 1, "buffer.put(u32(value))")
        value = self.expr(arg)
        if not isinstance(value, Num) or value.type is BOOL:
            self.fail(arg, "the width of this number is open", "write buffer.put(u32(value))")
        self.out.add(ops.BufPut(state.name, value.expr, span=self.span(node)))
        return NOTHING

    def st_buffer_put_packet(self, state: Any, node: ast.Call, wanted: bool, name: str) -> Value:
        packet, offset, length = self.args(node, 3, 3, "buffer.put_packet(p, offset, length)")
        owner = self.packet(packet)
        at, count = self.number(offset, U32), self.number(length, U32)
        self.out.add(ops.BufPutPacket(state.name, owner.expr, "data", at, count, span=self.span(node)))
        return NOTHING


__all__ = ["MARK_OF", "Calls"]
