"""Expressions of the packet language: names, numbers, arithmetic, conditions, header fields."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, Any, NoReturn

from mezzo.base import Span
from mezzo.elements.element import RESERVED
from mezzo.frontends.python import values
from mezzo.frontends.python.read import Source
from mezzo.frontends.python.values import Lit, Method, Num, Pkt, Place, StateRef, Thing, Value, View, cast, literal
from mezzo.frontends.python.wording import BUILTINS, EXPRESSIONS, describe, refusal, suggest
from mezzo.ir import ops
from mezzo.ir.builder import BodyBuilder
from mezzo.ir.module import TABLES
from mezzo.ir.types import BOOL, I64, U8, U32, U64, VOID, Type, by_width
from mezzo.wire import headers
from mezzo.wire.header import Field

if TYPE_CHECKING:
    from mezzo.frontends.python.unit import UnitTranslator

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "div", ast.Mod: "mod", ast.BitAnd: "and",
    ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}
LOGICAL = {"and": "a and b", "or": "a or b", "xor": "a != b"}
MARK_OF = {"mac": "data", "network": "net", "transport": "trans"}  # where a header table starts
PLACES = {"net": "net", "trans": "trans", "mac": "mac"}
META_TYPES: dict[str, Type] = {"length": U32, "headroom": U32, "tailroom": U32, "timestamp": U64, "packet_type": U8}
MARK_FIELDS = {"mac_offset": "mac", "network_offset": "net", "transport_offset": "trans"}
HAS_FIELDS = {"has_mac": "has_mac", "has_network": "has_net", "has_transport": "has_trans"}
FRAME_FIELDS = {"frame": "frame", "frame_start": "headroom"}
# sugar for the annotations that Click names: attribute -> (offset, type, order)
ANNOTATIONS: dict[str, tuple[int, Type, str]] = {
    "dst_ip": (0, U32, "big"),
    "paint": (16, U8, "little"),
    "icmp_paramprob": (17, U8, "little"),
    "fix_ip_src": (18, U8, "little"),
    "aggregate": (20, U32, "little"),
}


class Expressions:
    """Turns expression trees into values; effects go to `out` in order."""

    unit: UnitTranslator
    name: str
    source: Source
    out: BodyBuilder
    env: dict[str, Value]
    types: dict[str, Type]

    def fail(self, node: ast.AST, message: str, hint: str = "") -> NoReturn:
        self.source.fail(node, message, hint)

    def span(self, node: ast.AST) -> Span:
        return self.source.span(node)

    # -- the ways an expression is wanted

    def expr(self, node: ast.expr, wanted: bool = True, name: str = "") -> Value:
        """`name`: the local it is about to be assigned to, so that a packet can be born in it."""
        handler = getattr(self, "ex_" + type(node).__name__, None)
        if handler is None:
            self.fail(node, *refusal(node, EXPRESSIONS))
        if isinstance(node, ast.Call):
            return self.call(node, wanted, name)
        result: Value = handler(node)
        return result

    def call(self, node: ast.Call, wanted: bool, name: str) -> Value:
        raise NotImplementedError  # Calls

    def number(self, node: ast.expr, type_: Type) -> ops.Expr:
        """The expression as a `type_`, widened where needed."""
        return self.fit(self.expr(node), type_, node, "")

    def fit(self, value: Value, type_: Type, node: ast.AST, why: str) -> ops.Expr:
        """A value as `type_`: literals must fit, narrower numbers widen, wider ones need a cast that is written."""
        because = f" ({why})" if why else ""
        if isinstance(value, Thing) and isinstance(value.object, bool):
            value = Num(literal(int(value.object), BOOL))
        if isinstance(value, Lit):
            if type_ is BOOL:
                return literal(int(value.value != 0), BOOL)
            if not type_.holds(value.value):
                cut = f"write {type_}({value.value}) to cut it to {type_.wrap(value.value)}"
                self.fail(node, f"{value.value} does not fit {type_}{because}", cut)
            return literal(value.value, type_)
        if not isinstance(value, Num) or value.type is VOID:
            self.fail(node, f"a number is wanted here{because}, and this is {describe(value)}")
        if value.type is type_ or (isinstance(value.expr, ops.Const) and type_.holds(value.expr.value)):
            return cast(type_, value.expr)
        if (
            type_ is BOOL
            or value.type.bits > type_.bits
            or value.type is I64
            or (type_ is I64 and value.type.bits >= 64)
        ):
            self.fail(node, f"this is {value.type} and {type_} is wanted{because}", f"write {type_}(…) to convert it")
        return cast(type_, value.expr)

    def condition(self, node: ast.expr) -> ops.Expr:
        return self.truth(self.expr(node), node)

    def truth(self, value: Value, node: ast.AST) -> ops.Expr:
        if isinstance(value, Lit):
            return ops.TRUE if value.value else ops.FALSE
        if isinstance(value, Num):
            return value.expr if value.type is BOOL else values.compare("ne", value.expr, literal(0, value.type))
        if isinstance(value, Pkt):
            return values.negate(ops.IsNone(value.expr, span=self.span(node)))
        if isinstance(value, Thing):
            return ops.TRUE if value.object else ops.FALSE
        if isinstance(value, StateRef) and value.state.kind in ("ring", *TABLES, "buffer", "blob"):
            return values.compare("ne", ops.Count(value.state.name), ops.u32(0))
        self.fail(node, f"this is {describe(value)}, which is neither true nor false")

    def known_int(self, node: ast.expr, what: str) -> int:
        value = self.expr(node)
        if isinstance(value, Lit):
            return value.value
        if isinstance(value, Num) and isinstance(value.expr, ops.Const):
            return value.expr.value
        self.fail(node, f"{what} must be known here", "use a number, an argument of the element or a constant")

    def packet(self, node: ast.expr) -> Pkt:
        value = self.expr(node)
        if not isinstance(value, Pkt):
            self.fail(node, f"a packet is wanted here, and this is {describe(value)}")
        return value

    def constant(self, obj: Any, node: ast.AST) -> Value:
        """A value of configuration time."""
        if isinstance(obj, bool):
            return Num(literal(int(obj), BOOL))
        if isinstance(obj, int):
            return self.literal(int(obj), node)
        if isinstance(obj, float):
            self.fail(node, "there are no fractions in packet code", "scale it to an integer in configure()")
        return Thing(obj)

    def literal(self, value: int, node: ast.AST) -> Lit:
        if not -(1 << 63) <= value < 1 << 128:
            bits = value.bit_length() + (value < 0)
            self.fail(node, f"this number needs {bits} bits; numbers have 128 at most, negative ones 64")
        return Lit(value)

    # -- leaves

    def ex_Constant(self, node: ast.Constant) -> Value:
        return self.constant(node.value, node)

    def ex_Name(self, node: ast.Name) -> Value:
        if node.id in self.env:
            return self.env[node.id]
        if node.id in self.source.scope:
            return self.constant(self.source.scope[node.id], node)
        if node.id in ("min", "max", "len", "range", "bool"):
            return Thing(node.id)
        if hasattr(builtins, node.id):
            hint = BUILTINS.get(node.id, "do this in configure()")
            self.fail(node, f"`{node.id}` is not part of the packet language", hint)
        near = suggest(node.id, [*self.env, *self.source.scope])
        hint = "assign it first, or make it an attribute of the element"
        self.fail(node, f"`{node.id}` is not known here{near}", hint)

    def ex_Tuple(self, node: ast.Tuple) -> Value:
        self.fail(node, "a tuple is not a value of packet code", "use one name per value")

    def ex_Attribute(self, node: ast.Attribute) -> Value:
        owner = self.expr(node.value)
        if isinstance(owner, Pkt):
            return self.packet_attribute(owner, node)
        if isinstance(owner, View):
            field = owner.header.fields.get(node.attr)
            if field is None:
                self.no_field(node, owner)
            return Num(self.load_field(owner, field, self.span(node)))
        if isinstance(owner, (StateRef, Place)):
            return Method(owner, node.attr)
        if isinstance(owner, Thing):
            if owner.object is self.unit.element:
                return self.own_attribute(node)
            if hasattr(owner.object, node.attr):
                return self.constant(getattr(owner.object, node.attr), node)
        self.fail(node, f"there is no `{node.attr}` of {describe(owner)}")

    def own_attribute(self, node: ast.Attribute) -> Value:
        state = self.unit.state_by_name.get(node.attr)
        if state is not None:
            return Num(ops.Get(state.type, state.name)) if state.kind == "scalar" else StateRef(state)
        if node.attr in SELF_METHODS or node.attr in FRAME_METHODS:
            return Method(Thing(self.unit.element), node.attr)
        cls = type(self.unit.element)
        if callable(getattr(cls, node.attr, None)):
            return Method(Thing(self.unit.element), node.attr)
        if node.attr[0] == "_" or node.attr in RESERVED - {"ninputs", "noutputs", "input_kinds", "output_kinds"}:
            hint = "set an attribute of another name in configure()"
            self.fail(node, f"`{node.attr}` belongs to configuration time and cannot be read in packet code", hint)
        self.unit.read.add(node.attr)
        if not hasattr(self.unit.element, node.attr):
            near = suggest(node.attr, [*self.unit.state_by_name, *cls.arguments, *SELF_METHODS])
            self.fail(
                node,
                f"{cls.__name__} has no `{node.attr}`{near}",
                "declare state in the class, or set constants in configure()",
            )
        return self.constant(getattr(self.unit.element, node.attr), node)

    def packet_attribute(self, packet: Pkt, node: ast.Attribute) -> Value:
        name = node.attr
        if name in META_TYPES:
            return Num(ops.Meta(META_TYPES[name], packet.expr, name, span=self.span(node)))
        if name in MARK_FIELDS:
            return Num(ops.Meta(I64, packet.expr, MARK_FIELDS[name], span=self.span(node)))
        if name in HAS_FIELDS:
            return Num(ops.Meta(BOOL, packet.expr, HAS_FIELDS[name], span=self.span(node)))
        if name in ANNOTATIONS:
            offset, type_, order = ANNOTATIONS[name]
            return Num(ops.Anno(type_, packet.expr, offset, order, span=self.span(node)))
        if name in FRAME_FIELDS:
            self.of_dialect(node, f"{packet.name}.{name}")
            return Num(ops.Meta(U32, packet.expr, FRAME_FIELDS[name], span=self.span(node)))
        if name in PLACES:
            return Place(packet, PLACES[name])
        header = headers().get(name)
        if header is not None and header.mark:
            return View(packet, MARK_OF[header.mark], ops.u32(0), header)
        methods = self.packet_methods()
        if name not in methods:
            known = [*META_TYPES, *MARK_FIELDS, *HAS_FIELDS, *ANNOTATIONS, *PLACES, *headers(), *methods]
            hint = "headers: " + ", ".join(n for n, h in headers().items() if h.mark)
            self.fail(
                node, f"packets have no `{name}`{suggest(name, known)}", hint + "; the rest is in docs/language.md"
            )
        return Method(packet, name)

    def of_dialect(self, node: ast.AST, name: str) -> None:
        raise NotImplementedError  # Dialect

    def packet_methods(self) -> frozenset[str]:
        raise NotImplementedError  # Calls

    def ex_Subscript(self, node: ast.Subscript) -> Value:
        owner = self.expr(node.value)
        if isinstance(owner, StateRef) and owner.state.kind == "array":
            index = self.number(node.slice, U32)
            return Num(ops.Index(owner.state.type, owner.state.name, index, span=self.span(node)))
        if isinstance(owner, Thing) and isinstance(owner.object, (tuple, list, dict)):
            at = self.known_int(node.slice, "the index into configuration values")
            try:
                found = owner.object[at]
            except LookupError:
                self.fail(node, f"there is no [{at}] in this {type(owner.object).__name__} of {len(owner.object)}")
            return self.constant(found, node)
        hint = (
            f"write self.{owner.state.name}.get(key, default)"
            if isinstance(owner, StateRef)
            else "read packets with p.u16(offset)"
        )
        self.fail(node, "this has no elements by index", hint)

    # -- arithmetic

    def ex_BinOp(self, node: ast.BinOp) -> Value:
        op = OPERATORS.get(type(node.op))
        if op is None:
            known = {
                ast.Div: "use // for whole division",
                ast.Pow: "multiply, shift (1 << n), or compute it in configure()",
            }
            hint = known.get(type(node.op), "use + - * // % & | ^ << >>")
            self.fail(node, "this operator is not part of the packet language", hint)
        a, b = self.expr(node.left), self.expr(node.right)
        return self.binary(op, a, b, node)

    def binary(self, op: str, a: Value, b: Value, node: ast.BinOp) -> Value:
        if isinstance(a, Lit) and isinstance(b, Lit):
            if op in ("shl", "shr") and not 0 <= b.value <= 128:
                self.fail(node.right, f"a shift by {b.value} is not from 0 to 128")
            return self.literal(values.fold_bin(op, a.value, b.value), node)
        if op in ("shl", "shr"):
            type_ = a.type if isinstance(a, Num) else U32
            return Num(values.binary(op, type_, self.fit(a, type_, node.left, ""), self.shift_count(b, type_, node)))
        type_ = self.common(a, b, node, node.left, node.right)
        if type_ is BOOL:
            self.fail(
                node, "there is no arithmetic on truth values", f"write {LOGICAL.get(op, 'u8(…) around one of them')}"
            )
        return Num(values.binary(op, type_, self.fit(a, type_, node.left, ""), self.fit(b, type_, node.right, "")))

    def shift_count(self, value: Value, type_: Type, node: ast.BinOp) -> ops.Expr:
        if isinstance(value, Num) and value.type.bits > type_.bits:
            self.fail(
                node.right, f"the shift count is {value.type}, wider than the {type_} it shifts", f"write {type_}(…)"
            )
        return self.fit(value, type_, node.right, "a shift count")

    def common(self, a: Value, b: Value, node: ast.AST, left: ast.AST, right: ast.AST) -> Type:
        """The type both sides widen to."""
        for value, side in ((a, left), (b, right)):
            if not isinstance(value, (Num, Lit)) or (isinstance(value, Num) and value.type is VOID):
                self.fail(side, f"a number is wanted here, and this is {describe(value)}")
        numbers = [x for x in (a, b) if isinstance(x, Num)]
        assert numbers, "two literals are folded before"
        if len(numbers) == 1:
            return numbers[0].type
        x, y = numbers[0].type, numbers[1].type
        if x is y:
            return x
        if I64 in (x, y) and max(x.bits, y.bits) >= 64 and x.signed != y.signed and not (x.bits < 64 or y.bits < 64):
            self.fail(node, f"{x} and {y} do not mix", "convert one side: i64(…) or u64(…)")
        return I64 if I64 in (x, y) else (x if x.bits > y.bits else y)

    def ex_UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return Num(values.negate(self.condition(node.operand)))
        value = self.expr(node.operand)
        if isinstance(value, Lit):
            return Lit(
                -value.value
                if isinstance(node.op, ast.USub)
                else ~value.value
                if isinstance(node.op, ast.Invert)
                else value.value
            )
        if not isinstance(value, Num) or not value.type.is_int:
            hint = "write `not`" if isinstance(value, Num) and value.type is BOOL else ""
            self.fail(node.operand, f"an integer is wanted here, and this is {describe(value)}", hint)
        if isinstance(node.op, ast.Invert):
            return Num(values.binary("xor", value.type, value.expr, literal(-1, value.type)))
        if isinstance(node.op, ast.USub):
            return Num(values.binary("sub", value.type, literal(0, value.type), value.expr))
        return value

    def ex_Compare(self, node: ast.Compare) -> Value:
        sides = [node.left, *node.comparators]
        if len(node.ops) > 1:
            sides = [*(self.once(side) for side in sides[:-1]), sides[-1]]
        result: ops.Expr = ops.TRUE
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            result = values.logic("and", result, self.compare(op, left, right, node))
        return Num(result)

    def once(self, node: ast.expr) -> ast.expr:
        """An expression that may be translated twice, and acts once all the same."""
        value = self.expr(node)
        if not isinstance(value, Num):
            return node
        name = self.out.fresh(".once")
        self.env[name] = Num(self.out.keep(value.expr)) if values.acts(value.expr, values.EFFECTS) else value
        return ast.copy_location(ast.Name(name), node)

    def compare(self, op: ast.cmpop, left: ast.expr, right: ast.expr, node: ast.Compare) -> ops.Expr:
        if isinstance(op, (ast.Is, ast.IsNot)):
            return self.is_none(op, left, right, node)
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
            one, items = self.expr(left), [(self.expr(item), item) for item in right.elts]
            test = values.chain("or", [self.equals(one, value, left, item) for value, item in items])
            return test if isinstance(op, ast.In) else values.negate(test)
        a, b = self.expr(left), self.expr(right)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self.membership(op, a, b, left, right)
        word = COMPARISONS[type(op)]
        if isinstance(a, Lit) and isinstance(b, Lit):
            return ops.TRUE if values.fold_compare(word, a.value, b.value) else ops.FALSE
        type_ = self.common(a, b, node, left, right)
        return values.compare(word, self.fit(a, type_, left, ""), self.fit(b, type_, right, ""))

    def is_none(self, op: ast.cmpop, left: ast.expr, right: ast.expr, node: ast.AST) -> ops.Expr:
        a, b = self.expr(left), self.expr(right)
        if not isinstance(b, Thing) or b.object is not None:
            self.fail(node, "`is` compares a packet with None", "use == for numbers")
        if isinstance(a, Pkt):
            test: ops.Expr = ops.IsNone(a.expr, span=self.span(left))
        elif isinstance(a, Thing):
            test = ops.TRUE if a.object is None else ops.FALSE
        else:
            test = ops.FALSE
        return test if isinstance(op, ast.Is) else values.negate(test)

    def membership(self, op: ast.cmpop, a: Value, b: Value, left: ast.expr, right: ast.expr) -> ops.Expr:
        test: ops.Expr
        if isinstance(b, StateRef) and b.state.kind in TABLES and b.state.key is not None:
            made = ops.LruHas if b.state.kind == "lru" else ops.TableHas
            test = made(b.state.name, self.fit(a, b.state.key, left, "the table's key"))
        elif isinstance(b, Thing) and isinstance(b.object, (tuple, list, frozenset, set)):
            test = values.chain("or", [self.equals(a, self.constant(item, right), left, right) for item in b.object])
        else:
            self.fail(right, f"`in` looks into a Table or a tuple made in configure(), and this is {describe(b)}")
        return test if isinstance(op, ast.In) else values.negate(test)

    def equals(self, a: Value, b: Value, left: ast.expr, right: ast.expr) -> ops.Expr:
        if isinstance(a, Lit) and isinstance(b, Lit):
            return ops.TRUE if a.value == b.value else ops.FALSE
        type_ = self.common(a, b, left, left, right)
        return values.compare("eq", self.fit(a, type_, left, ""), self.fit(b, type_, right, "one of these"))

    def ex_BoolOp(self, node: ast.BoolOp) -> Value:
        op = "and" if isinstance(node.op, ast.And) else "or"
        deciding = ops.FALSE if op == "and" else ops.TRUE
        parts: list[ops.Expr] = []
        for part in node.values:
            with self.out.block() as effects:
                value = self.condition(part)
            if effects and parts:
                hint = "do it in a statement of its own before"
                self.fail(part, "this part acts, and would act even where it is not asked", hint)
            self.out.blocks[-1].extend(effects)
            if value == deciding or not isinstance(value, ops.Const):
                parts.append(value)
            if value == deciding:
                break
        return Num(values.chain(op, parts))

    def ex_IfExp(self, node: ast.IfExp) -> Value:
        cond = self.condition(node.test)
        if isinstance(cond, ops.Const):
            return self.expr(node.body if cond.value else node.orelse)
        with self.out.block() as then:
            a = self.expr(node.body)
        with self.out.block() as orelse:
            b = self.expr(node.orelse)
        if isinstance(a, Lit) and isinstance(b, Lit):
            type_ = values.default_type(min(a.value, b.value) if min(a.value, b.value) < 0 else max(a.value, b.value))
        else:
            type_ = self.common(a, b, node, node.body, node.orelse)
        x, y = self.fit(a, type_, node.body, ""), self.fit(b, type_, node.orelse, "")
        if not (then or orelse or values.acts(x) or values.acts(y)):
            return Num(ops.Select(type_, cond, x, y))
        # Only the branch that is taken may act or fault; a Select evaluates both.
        name = self.out.fresh("either")
        branches = (*then, ops.Set(name, x)), (*orelse, ops.Set(name, y))
        self.out.add(ops.If(cond, *branches, span=self.source.span(node)))
        return Num(ops.Local(type_, name))

    # -- header fields

    def load_field(self, view: View, field: Field, span: Span) -> ops.Expr:
        first, width, shift = self.window(view, field)
        at = values.binary("add", U32, view.offset, ops.u32(first))
        whole = ops.PLoad(by_width(8 * width), view.packet.expr, view.mark, at, span=span)
        if field.bits == 8 * width:
            return whole
        type_ = whole.type
        shifted = values.binary("shr", type_, whole, literal(shift, type_))
        masked = values.binary("and", type_, shifted, literal((1 << field.bits) - 1, type_))
        return cast(by_width(max(8, field.bits)) if field.bits > 1 else BOOL, masked)

    def no_field(self, node: ast.Attribute, view: View) -> NoReturn:
        known = view.header.fields
        message = f"{view.header.__name__} has no field `{node.attr}`{suggest(node.attr, known)}"
        self.fail(node, message, f"it has {', '.join(known)}")

    def window(self, view: View, field: Field) -> tuple[int, int, int]:
        """(first byte, bytes, shift) of an access that covers the field and stays inside the header."""
        first, last = field.offset // 8, (field.offset + field.bits + 7) // 8
        for width in (1, 2, 4, 6, 8, 16):
            start = max(0, min(first, view.header.size - width))
            if start + width >= last and width <= view.header.size:
                return start, width, (start + width) * 8 - (field.offset + field.bits)
        raise AssertionError(f"{field.name} does not fit an access")

    def store_field(self, view: View, target: ast.Attribute, value: ast.expr, span: Span) -> None:
        field = view.header.fields.get(target.attr)
        if field is None:
            self.no_field(target, view)
        first, width, shift = self.window(view, field)
        at = values.binary("add", U32, view.offset, ops.u32(first))
        type_ = by_width(8 * width)
        if field.bits == 8 * width:
            new = self.number(value, type_)
        else:
            given = self.expr(value)
            small = cast(
                type_,
                self.fit(
                    given,
                    BOOL if field.bits == 1 else by_width(max(8, field.bits)),
                    value,
                    f"`{field.name}` has {field.bits} bits",
                ),
            )
            mask = (1 << field.bits) - 1
            placed = values.binary(
                "shl", type_, values.binary("and", type_, small, literal(mask, type_)), literal(shift, type_)
            )
            old = ops.PLoad(type_, view.packet.expr, view.mark, at, span=span)
            new = values.binary("or", type_, values.binary("and", type_, old, literal(~(mask << shift), type_)), placed)
        self.out.add(ops.PStore(view.packet.expr, view.mark, at, new, span=span))

    def store_meta(self, packet: Pkt, target: ast.Attribute, value: ast.expr) -> None:
        name = target.attr
        if name in ("timestamp", "packet_type"):
            self.out.add(ops.MetaSet(packet.expr, name, self.number(value, META_TYPES[name]), span=self.span(target)))
        elif name in ANNOTATIONS:
            offset, type_, order = ANNOTATIONS[name]
            self.out.add(ops.AnnoSet(packet.expr, offset, self.number(value, type_), order, span=self.span(target)))
        else:
            self.fail(
                target,
                f"`{name}` of a packet cannot be assigned",
                "marks are set with p.set_network(offset) and its like",
            )


SELF_METHODS = (
    "push", "pull", "kill", "make", "make_from", "ready", "wake", "wake_down", "wake_up", "timer_at", "timer_after",
    "timer_clear", "run_task", "fire_timer", "read_clock",
)  # fmt: skip
FRAME_METHODS = ("lend", "adopt", "take_frame", "give_frame")  # of the runtime dialect
