"""Statements of the packet language."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mezzo.frontends.python.calls import Calls
from mezzo.frontends.python.read import Source
from mezzo.frontends.python.values import (
    EFFECTS,
    Lit,
    Method,
    Num,
    Pkt,
    StateRef,
    Thing,
    Value,
    View,
    acts,
    default_type,
)
from mezzo.frontends.python.wording import STATEMENTS, describe, kind_of, refusal, suggest
from mezzo.ir import ops
from mezzo.ir.builder import BodyBuilder
from mezzo.ir.module import TABLES, Function, Param, State
from mezzo.ir.types import BOOL, PACKET, U32, VOID, Type

if TYPE_CHECKING:
    from mezzo.frontends.python.unit import UnitTranslator

ROUNDS = (1 << 32) - 1  # the most rounds a loop may be declared with: its variable is u32


GIVE_BACK = "let the function say what it gives: def f(self) -> u32"


class FunctionTranslator(Calls):
    """One method: its syntax tree in, a Function out."""

    def __init__(self, unit: UnitTranslator, name: str, source: Source, bound: bool) -> None:
        self.unit, self.name, self.source, self.bound = unit, name, source, bound
        self.out = BodyBuilder()
        self.env: dict[str, Value] = {}
        self.types: dict[str, Type] = {}
        self.ret: Type = VOID
        self.depth = 0

    def run(self) -> Function:
        node = self.source.node
        params = self.read_signature(node)
        self.body(node.body)
        if self.ret is VOID or self.name == "process":
            self.out.add(ops.Return(span=self.source.span(node.body[-1])))
        method = getattr(type(self.unit.element), self.name, None)
        entry, rare = (bool(getattr(method, mark, False)) for mark in ("__entry__", "__rare__"))
        return Function(self.name, params, self.ret, self.out.done(), entry, self.source.span(node), rare)

    # -- the signature

    def read_signature(self, node: ast.FunctionDef) -> tuple[Param, ...]:
        from mezzo.frontends.python.unit import SIGNATURES

        names = [a.arg for a in node.args.args]
        if self.bound:
            if not names:
                self.fail(node, f"{self.name} has no `self`", f"write def {self.name}(self, …)")
            self.env[names[0]] = Thing(self.unit.element)
            names = names[1:]
        if node.args.vararg or node.args.kwarg or node.args.kwonlyargs:
            self.fail(node, "packet code has plain parameters only", "name each parameter")
        if node.args.defaults:
            self.fail(
                node.args.defaults[0], "parameters have no defaults in packet code", "give every argument in the call"
            )
        fixed = SIGNATURES.get(self.name) if self.bound else None
        if fixed is not None:
            types, self.ret = list(fixed[0]), fixed[1]
            if len(types) != len(names):
                want = ", ".join(["self", *("port" if t is U32 else "p" for t in types)])
                have = f"{len(names)} instead of {len(types)} beside self"
                self.fail(
                    node, f"{self.name} has the wrong number of parameters: {have}", f"write def {self.name}({want})"
                )
        else:
            types = [self.annotated(a) for a in node.args.args[len(node.args.args) - len(names) :]]
            self.ret = self.type_named(node.returns) if node.returns is not None else VOID
        for name, type_ in zip(names, types, strict=True):
            self.types[name] = type_
            self.env[name] = Pkt(name) if type_ is PACKET else Num(ops.Local(type_, name))
        return tuple(Param(n, t) for n, t in zip(names, types, strict=True))

    def annotated(self, arg: ast.arg) -> Type:
        if arg.annotation is None:
            self.fail(arg, f"the parameter {arg.arg} needs a type", f"write {arg.arg}: u32, or {arg.arg}: Packet")
        return self.type_named(arg.annotation)

    def type_named(self, node: ast.expr) -> Type:
        from mezzo.packet.arena import Packet

        if isinstance(node, ast.Constant) and node.value is None:
            return VOID
        if isinstance(node, ast.Name) and node.id == "bool":
            return BOOL
        found = self.source.scope.get(node.id) if isinstance(node, ast.Name) else None
        if found is Packet:
            return PACKET
        if isinstance(found, Type):
            return found
        self.fail(node, "this is not a type of the packet language", "use bool u8 u16 u32 u48 u64 i64 u128 or Packet")

    # -- statements

    def body(self, nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                continue  # a docstring
            handler = getattr(self, "do_" + type(node).__name__, None)
            if handler is None:
                self.fail(node, *refusal(node, STATEMENTS))
            handler(node)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Expr(self, node: ast.Expr) -> None:
        value = self.expr(node.value, wanted=False)
        if isinstance(value, Num) and acts(value.expr, EFFECTS):
            self.out.add(ops.Eval(value.expr, span=self.source.span(node)))
        elif isinstance(value, Pkt):
            self.fail(
                node,
                "this packet is made and dropped on the floor",
                "give it a name, then push, return, store or kill it",
            )
        elif isinstance(value, Method):
            self.fail(node, f"`{value.name}` is not called here", f"write {ast.unparse(node)}(…)")

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name) or node.value is None:
            self.fail(node, "a declaration is written x: u32 = 0")
        type_ = self.type_named(node.annotation)
        if self.types.setdefault(node.target.id, type_) is not type_:
            self.fail(node, f"{node.target.id} is {self.types[node.target.id]} already", "use another name")
        self.assign_name(node.target, self.expr(node.value), node)

    def do_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            self.fail(node, "one target at a time", "write two assignments")
        self.assign(node.targets[0], node.value, node)

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        read: ast.expr = node.target
        if isinstance(node.target, ast.Subscript):  # the index is computed once
            index = self.number(node.target.slice, U32)
            self.env[".index"] = Num(self.out.keep(index, self.source.span(node)))
            read = ast.copy_location(
                ast.Subscript(node.target.value, ast.copy_location(ast.Name(".index"), node)), node
            )
            target: ast.expr = read
        else:
            target = node.target
        value = ast.copy_location(ast.BinOp(read, node.op, node.value), node)
        self.assign(target, value, node)

    def assign(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> None:
        if isinstance(target, ast.Tuple):
            self.assign_tuple(target, value, node)
        elif isinstance(target, ast.Name):
            self.assign_name(target, self.expr(value, name=target.id), node)
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(target, value, node)
        elif isinstance(target, ast.Subscript):
            owner = self.expr(target.value)
            if not isinstance(owner, StateRef) or owner.state.kind != "array":
                self.fail(
                    target, "only an Array of the element's state is assigned by index", self.hint_subscript(owner)
                )
            stored = self.number(value, owner.state.type)
            index = self.number(target.slice, U32)
            self.out.add(ops.Store(owner.state.name, index, stored, span=self.source.span(node)))
        else:
            self.fail(target, "this cannot be assigned to in packet code")

    def hint_subscript(self, owner: Value) -> str:
        if isinstance(owner, StateRef) and owner.state.kind in TABLES:
            return f"write self.{owner.state.name}.set(key, value)"
        return ""

    def assign_tuple(self, target: ast.Tuple, value: ast.expr, node: ast.stmt) -> None:
        starred = [part for part in target.elts if isinstance(part, ast.Starred)]
        if starred:
            self.fail(starred[0], "unpack into plain names", "write one name for each value")
        if isinstance(value, ast.Tuple):
            if len(value.elts) != len(target.elts):
                self.fail(node, f"{len(value.elts)} values for {len(target.elts)} names", "give each name one value")
            kept = [self.keep_value(self.expr(v)) for v in value.elts]
        else:
            known = self.expr(value)
            if (
                not isinstance(known, Thing)
                or not isinstance(known.object, (tuple, list))
                or len(known.object) != len(target.elts)
            ):
                self.fail(
                    node, "both sides need the same number of values", "loop over it, or give each name one value"
                )
            kept = [self.constant(x, value) for x in known.object]
        for part, item in zip(target.elts, kept, strict=True):
            if not isinstance(part, ast.Name):
                self.fail(part, "unpack into plain names")
            self.assign_name(part, item, node)

    def keep_value(self, value: Value) -> Value:
        return Num(self.out.keep(value.expr)) if isinstance(value, Num) else value

    def assign_name(self, target: ast.Name, value: Value, node: ast.stmt) -> None:
        name = target.id
        if isinstance(value, Pkt):
            if value.name != name:
                self.fail(
                    node,
                    f"`{value.name}` would have two names",
                    "a packet has one owner: keep using its name, or clone() it",
                )
            self.types[name] = PACKET
            self.env[name] = value
            return
        if isinstance(value, Lit) and name not in self.types and isinstance(self.env.get(name), (type(None), Lit)):
            self.types[name] = default_type(value.value)
        if isinstance(value, Num) and value.type is VOID:
            self.fail(node, f"there is nothing to keep in `{name}`: the function gives nothing back", GIVE_BACK)
        if isinstance(value, (Num, Lit)):
            known = self.types.get(name)
            if known is None:
                assert isinstance(value, Num)
                known = self.types[name] = value.type
            expr = self.fit(value, known, node, f"`{name}` is {known}")
            self.out.add(ops.Set(name, expr, span=self.source.span(node)))
            self.env[name] = Num(ops.Local(known, name))
            return
        if name in self.types:
            self.fail(node, f"`{name}` is {self.types[name]} already", "use another name")
        if isinstance(value, Method):
            self.fail(node, f"this is {describe(value)}")
        if isinstance(value, View) and not isinstance(value.offset, ops.Const):
            value = View(value.packet, value.mark, self.out.keep(value.offset), value.header)
        self.env[name] = value

    def assign_attribute(self, target: ast.Attribute, value: ast.expr, node: ast.stmt) -> None:
        owner = self.expr(target.value)
        span = self.source.span(node)
        if isinstance(owner, View):
            self.store_field(owner, target, value, span)
        elif isinstance(owner, Pkt):
            self.store_meta(owner, target, value)
        elif isinstance(owner, Thing) and owner.object is self.unit.element:
            state = self.unit.state_by_name.get(target.attr)
            if state is None or state.kind != "scalar":
                self.fail(target, *self.not_scalar(target.attr, state))
            self.out.add(ops.Put(state.name, self.number(value, state.type), span=span))
        else:
            self.fail(target, "this cannot be assigned to in packet code")

    def not_scalar(self, name: str, state: State | None) -> tuple[str, str]:
        if state is not None:
            change = {"array": f"self.{name}[index] = value"} | dict.fromkeys(TABLES, f"self.{name}.set(key, value)")
            return f"the {kind_of(state)} `{name}` is not assigned as a whole", "write " + change.get(
                state.kind, f"self.{name}.…"
            )
        if name in type(self.unit.element).arguments:
            return (
                f"`{name}` is an argument, a constant here",
                "declare it with live=u32 (or another type) to change it",
            )
        near = suggest(name, self.unit.state_by_name)
        return (
            f"{type(self.unit.element).__name__} has no state `{name}`{near}",
            f"declare it in the class: {name}: u64",
        )

    # -- control

    def do_If(self, node: ast.If) -> None:
        cond = self.condition(node.test)
        if isinstance(cond, ops.Const):
            self.body(node.body if cond.value else node.orelse)
            return
        with self.out.block() as then:
            self.body(node.body)
        with self.out.block() as orelse:
            self.body(node.orelse)
        self.out.add(ops.If(cond, tuple(then), tuple(orelse), span=self.source.span(node)))

    def do_For(self, node: ast.For) -> None:
        if node.orelse:
            self.fail(node, "`for … else` is not part of the packet language")
        bounds = self.loop_bounds(node.iter)
        if bounds is None:
            self.unroll(node)
            return
        start, count, limit = bounds
        if not isinstance(node.target, ast.Name):
            self.fail(node.target, "the loop variable is a plain name")
        inner = self.out.fresh("i")
        name = node.target.id
        if self.types.setdefault(name, U32) is not U32:
            self.fail(node.target, f"`{name}` is {self.types[name]} already", "use another name")
        self.env[name] = Num(ops.Local(U32, name))
        self.depth += 1
        with self.out.block() as body:
            at: ops.Expr = ops.Local(U32, inner)
            self.out.add(ops.Set(name, at if start == ops.u32(0) else ops.Bin("add", U32, start, at)))
            self.body(node.body)
        self.depth -= 1
        self.out.add(ops.For(inner, count, limit, tuple(body), span=self.source.span(node)))

    def loop_bounds(self, node: ast.expr) -> tuple[ops.Expr, ops.Expr, int] | None:
        if (
            not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Name)
            or node.func.id not in ("range", "bounded")
        ):
            return None
        if node.func.id == "bounded":
            if len(node.args) != 2:
                self.fail(node, "bounded takes a count and its largest value", "write bounded(count, 64)")
            limit = self.known_int(node.args[1], "the largest count")
            if not 0 <= limit <= ROUNDS:
                self.fail(
                    node.args[1],
                    f"{limit} rounds are not from 0 to {ROUNDS}",
                    "split the work over several packets or tasks",
                )
            return ops.u32(0), self.out.keep(self.number(node.args[0], U32)), limit
        if len(node.args) == 3:
            self.fail(node, "a loop counts by one", "multiply inside: `for i in range(n):` and then i * step")
        ends = [self.expr(a) for a in node.args]
        if not 1 <= len(ends) <= 2 or not all(isinstance(e, Lit) for e in ends):
            self.fail(
                node,
                "the bounds of this loop are not known here",
                "write `for i in bounded(count, limit):` with the largest count there can be",
            )
        numbers = [e.value for e in ends if isinstance(e, Lit)]
        first, last = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
        count = max(0, last - first)
        if first < 0:
            self.fail(
                node.args[0],
                "a loop counts up from 0 or more: its variable is u32",
                "subtract inside the loop: i64(i) - 3",
            )
        if count > ROUNDS:
            self.fail(
                node, f"{count} rounds are too many; at most {ROUNDS}", "split the work over several packets or tasks"
            )
        return ops.u32(first), ops.u32(count), count

    def unroll(self, node: ast.For) -> None:
        items = self.expr(node.iter)
        if not isinstance(items, Thing) or not isinstance(items.object, (tuple, list, range)):
            self.fail(
                node.iter,
                f"this is {describe(items)}, which cannot be looped over",
                "loop over range(n), bounded(n, limit), or a tuple made in configure()",
            )
        for item in items.object:
            # One round of a For gives `continue` its meaning; `break` would need to skip the rounds behind it.
            for inner in ast.walk(ast.Module(node.body, [])):
                if isinstance(inner, ast.Break):
                    self.fail(
                        inner,
                        "`break` cannot leave a loop over configuration values",
                        "return from a method, or set a flag",
                    )
            with self.out.block() as body:
                self.bind(node.target, self.constant(item, node.iter))
                self.body(node.body)
            if any(isinstance(x, ast.Continue) for x in ast.walk(ast.Module(node.body, []))):
                self.out.add(ops.For(self.out.fresh("i"), ops.u32(1), 1, tuple(body)))
            else:
                self.out.blocks[-1].extend(body)
        self.unbind(node.target)

    def bind(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self.env[target.id] = value
            self.types.pop(target.id, None)
        elif isinstance(target, ast.Tuple) and isinstance(value, Thing) and len(value.object) == len(target.elts):
            for part, item in zip(target.elts, value.object, strict=True):
                self.bind(part, self.constant(item, target))
        else:
            self.fail(target, "the values do not fit these names")

    def unbind(self, target: ast.expr) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self.env.pop(node.id, None)

    def do_Break(self, node: ast.Break) -> None:
        self.out.add(ops.Break())

    def do_Continue(self, node: ast.Continue) -> None:
        self.out.add(ops.Continue())

    def do_Return(self, node: ast.Return) -> None:
        span = self.source.span(node)
        value, reason = node.value, -1
        if isinstance(value, ast.Constant) and value.value is None:
            value = None
        if isinstance(value, ast.Tuple):
            value, reason = self.port_and_reason(value)
        if value is None:
            if self.ret not in (VOID, PACKET) and self.name != "process":
                self.fail(
                    node, f"{self.name} gives back a {self.ret}", f"write a value behind `return`, of type {self.ret}"
                )
            self.out.add(ops.Return(span=span))
        elif self.ret is PACKET:
            packet = self.expr(value)
            if not isinstance(packet, Pkt):
                self.fail(node, f"{self.name} gives back a packet or None, and this is {describe(packet)}")
            self.out.add(ops.Return(packet.expr, span=span))
        elif self.ret is VOID:
            self.fail(node, f"{self.name} gives nothing back", "write a bare `return`")
        else:
            found = self.expr(value)
            if self.name == "process" and isinstance(found, Pkt):
                self.fail(
                    node,
                    "process gives back the output port, not the packet",
                    "write `return 0` to let it leave by output 0",
                )
            self.out.add(
                ops.Return(self.fit(found, self.ret, node, f"{self.name} gives back a {self.ret}"), reason, span=span)
            )

    def port_and_reason(self, node: ast.Tuple) -> tuple[ast.expr, int]:
        if self.name != "process" or len(node.elts) != 2:
            what = (
                "process gives back a port, or a pair" if self.name == "process" else "only process gives back a pair"
            )
            self.fail(node, f"{what}: the port and the reason for a drop there", "write return 1, 'expired'")
        return node.elts[0], self.unit.builder.reason(self.text(node.elts[1]))

    def text(self, node: ast.expr) -> str:
        value = self.expr(node)
        if not isinstance(value, Thing) or not isinstance(value.object, str):
            self.fail(node, "the reason is a text known here", "write it in quotes")
        return value.object
