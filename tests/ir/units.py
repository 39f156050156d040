"""Random valid units, built from the table of `ir.spec`: whatever a row allows is drawn sooner or later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from mezzo.ir import ops, rules
from mezzo.ir.lines import META
from mezzo.ir.module import Function, Param, State, Unit
from mezzo.ir.spec import ROWS, SIGNATURES
from mezzo.ir.types import BOOL, I64, PACKET, TYPES, U8, U16, U32, U48, U64, U128, VOID, Type

STATES = (
    State("count", "scalar", U64),
    State("open", "scalar", BOOL),
    State("cells", "array", U16, 8),
    State("none", "array", U48, 2),
    State("put", "table", U32, 100, U128),
    State("last", "lru", U8, 3, U64),
    State("routes", "lpm", VOID, 0, U32),
    State("ring", "ring", VOID, 4),
    State("slots", "slots", VOID, 4),
    State("log", "buffer", VOID, 64),
    State("data", "blob", VOID),
)
NAMES = ("x", "y", "t.1", "self", "u8", "copy", "length")
INTS = tuple(t for t in TYPES.values() if t.is_int)


class Drawer:
    """Draws one function's nodes."""

    def __init__(self, draw: Callable[[Any], Any], unit: Unit, function: Function) -> None:
        self.draw, self.unit, self.function = draw, unit, function
        self.types: dict[str, Type] = {p.name: p.type for p in function.params}
        self.loops = 0

    def pick(self, items: Any) -> Any:
        return self.draw(st.sampled_from(list(items)))

    def body(self, depth: int) -> ops.Body:
        return tuple(self.statement(depth) for _ in range(self.draw(st.integers(0, 3))))

    def statement(self, depth: int) -> ops.Stmt:
        kinds = [k for k in ops.STMTS.values() if self.possible(k, depth)]
        return self.node(self.pick(kinds), {}, depth)

    def possible(self, kind: type[ops.Node], depth: int) -> bool:
        if kind in (ops.Break, ops.Continue):
            return self.loops > 0
        if kind in (ops.If, ops.For):
            return depth > 0
        return PACKET in self.types.values() or not any(r == rules.APacket() for r in ROWS[kind].values())

    def node(self, kind: type[ops.Node], fields: dict[str, Any], depth: int) -> Any:
        for name, rule in ROWS[kind].items():
            if name not in fields:
                fields[name] = self.field(kind, name, rule, fields, depth)
        return kind(**fields)

    def expr(self, type_: Type, depth: int) -> ops.Expr:
        kinds = [k for k in ops.EXPRS.values() if self.gives(k, type_)]
        if depth <= 0:
            kinds = [k for k in kinds if k in (ops.Const, ops.Local, ops.Get)]
        kind = self.pick(kinds)
        return self.node(kind, self.given(kind, type_), depth - 1)

    def gives(self, kind: type[ops.Node], type_: Type) -> bool:
        rule = ROWS[kind]["type"]
        if kind is ops.Local:
            return type_ in self.types.values()
        if kind is ops.Call:
            return any(f.ret is type_ for f in self.unit.functions)
        if kind is ops.Meta:
            return self.possible(kind, 0) and type_ in META.values()
        if isinstance(rule, rules.Elem):
            return bool(self.states(kind, type_))
        fits = rule.type is type_ if isinstance(rule, rules.Exactly) else not rule.wrong(self, None, type_)
        return fits and self.possible(kind, 0)

    def states(self, kind: type[ops.Node], type_: Type) -> list[str]:
        return [s.name for s in STATES if s.kind in ROWS[kind]["state"].kinds and s.type is type_]

    def given(self, kind: type[ops.Node], type_: Type) -> dict[str, Any]:
        if kind is ops.Local:
            return {"type": type_, "name": self.pick(n for n, t in self.types.items() if t is type_)}
        if kind is ops.Call:
            return {"type": type_, "function": self.pick(f.name for f in self.unit.functions if f.ret is type_)}
        if kind is ops.Meta:
            return {"type": type_, "field": self.pick(n for n, t in META.items() if t is type_)}
        if isinstance(ROWS[kind]["type"], rules.Elem):
            return {"type": type_, "state": self.pick(self.states(kind, type_))}
        return {"type": type_}

    def field(self, kind: type[ops.Node], name: str, rule: rules.Rule, fields: dict[str, Any], depth: int) -> Any:
        state = next((s for s in STATES if s.name == fields.get("state")), STATES[0])
        match rule:
            case rules.Word():
                return self.pick(rule.choices)
            case rules.Whole():
                return self.draw(st.integers(rule.low, rule.high))
            case rules.Flag():
                return self.draw(st.booleans())
            case rules.Literal():
                low, high = _range(fields["type"])
                return self.draw(st.integers(low, high))
            case rules.Of():
                return self.expr(rule.type, depth)
            case rules.Same():
                other = fields[rule.field]
                return self.expr(other if isinstance(other, Type) else other.type, depth)
            case rules.Number():
                types = {"bytes": INTS, "word": (U8, U16, U32, U64)}.get(rule.kind, (*INTS, BOOL))
                return self.expr(self.pick(types), depth)
            case rules.Words():
                return tuple(self.expr(U64, depth) for _ in range(self.draw(st.integers(0, rule.most))))
            case rules.APacket():
                packets = [ops.Local(PACKET, n) for n, t in self.types.items() if t is PACKET]
                return self.pick([*packets, None] if rule.optional else packets)
            case rules.Effect():
                return self.expr(self.pick((U32, BOOL, I64)), depth)
            case rules.StateOf():
                return self.pick(s.name for s in STATES if s.kind in rule.kinds)
            case rules.Elem():
                return self.expr(state.type, depth)
            case rules.Key():
                return self.expr(state.key or U32, depth)
            case rules.Born():
                return self.born(rule, fields)
            case rules.AnnoAt():
                size = (fields["type"] if "type" in fields else fields["value"].type).bits // 8
                return self.draw(st.integers(0, 48 - size))
            case rules.MetaType():
                return self.expr(META[fields["field"]], depth)
            case rules.Reason():
                return self.draw(st.integers(-1, len(self.unit.reasons) - 1))
            case rules.HostName():
                return self.pick(self.unit.hosts)
            case rules.Args():
                return self.args(kind, fields, depth)
            case rules.Given():
                return self.value(depth)
            case rules.Exactly():
                return rule.type
        assert isinstance(rule, rules.Block), f"{rule} of {kind.__name__}.{name} is not drawn"
        self.loops += rule.loop
        made = self.body(depth - 1)
        self.loops -= rule.loop
        return made

    def born(self, rule: rules.Born, fields: dict[str, Any]) -> str:
        if rule.optional and self.draw(st.booleans()):
            return ""
        type_ = rule.type or fields["value"].type
        names = [n for n in NAMES if self.types.get(n, type_) is type_]
        name: str = self.pick(names) if names else f"new.{len(self.types)}"
        self.types[name] = type_
        return name

    def args(self, kind: type[ops.Node], fields: dict[str, Any], depth: int) -> tuple[ops.Expr, ...]:
        if kind is ops.Host:
            return tuple(self.expr(I64, depth) for _ in range(self.draw(st.integers(0, 2))))
        callee = self.unit.function(fields["function"])
        assert callee is not None
        return tuple(self.expr(p.type, depth) for p in callee.params)

    def value(self, depth: int) -> ops.Expr | None:
        ret = self.function.ret
        if ret is VOID or (self.function.name in ("process", "pull") and self.draw(st.booleans())):
            return None
        if ret is not PACKET:
            return self.expr(ret, depth)
        packets = [ops.Local(PACKET, n) for n, t in self.types.items() if t is PACKET]
        found: ops.Expr | None = self.pick([*packets, None])
        return found


def _range(type_: Type) -> tuple[int, int]:
    return (-(1 << 63), (1 << 63) - 1) if type_.signed else (0, type_.mask)


@st.composite
def units(draw: Callable[[Any], Any]) -> Unit:
    """A unit with a helper and some roles."""
    unit = Unit("Some", (), STATES, ("full", 'a "quoted" reason \\ ü'), ("show", "tell"))
    for name in ["tools.scale", *draw(st.lists(st.sampled_from(list(SIGNATURES)), unique=True, max_size=3))]:
        types, ret = SIGNATURES.get(name, ((U8, U64), U16))
        params = tuple(Param(n, t) for n, t in zip(("p", "none"), reversed(types), strict=False))
        function = Function(name, tuple(reversed(params)), ret, (), draw(st.booleans()))
        helpers = Unit(unit.name, unit.functions[:1], unit.states, unit.reasons, unit.hosts)
        body = Drawer(draw, helpers, function).body(2)
        made = Function(name, function.params, ret, body, function.entry)
        unit = Unit(unit.name, (*unit.functions, made), unit.states, unit.reasons, unit.hosts)
    return unit
