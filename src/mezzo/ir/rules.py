"""The rules that the rows of `ir.spec` are made of: what one field of a node may hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mezzo.ir import ops
from mezzo.ir.lines import META, NAME
from mezzo.ir.module import Function, State, Unit
from mezzo.ir.types import I64, PACKET, U64, VOID, Type

ANNO_BYTES = 48
OWNERS = ("process", "push", "pull")  # functions that packets pass through for good


class Scope:
    """What a rule may ask about the function around the node."""

    def __init__(self, unit: Unit, function: Function) -> None:
        self.unit, self.function = unit, function
        self.states: dict[str, State] = {s.name: s for s in unit.states}
        self.types = {p.name: p.type for p in function.params}
        self.depth = 0  # loops around the node

    def declare(self, name: str, type_: Type) -> str:
        """A local is set here."""
        if not NAME.fullmatch(name):
            return f"is {name!r}, which is not a name"
        known = self.types.setdefault(name, type_)
        return "" if known is type_ else f"is `{name}`, which is {known} already, not {type_}"

    def use(self, name: str, type_: Type) -> str:
        """A local is read here."""
        known = self.types.get(name)
        if known is None:
            return f"is `{name}`, which nothing above sets"
        return "" if known is type_ else f"is `{name}`, which is {known}, not {type_}"

    def body(self, body: ops.Body) -> None:
        """Holds the statements of a block against the table."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rule:
    """What one field may hold; `wrong` says what is not so, or nothing, after the field's name: "Bin.a is u16 …"."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Word(Rule):
    """One of these."""

    choices: tuple[str, ...]

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        return "" if value in self.choices else f"is {value!r}, not one of {', '.join(self.choices)}"


@dataclass(frozen=True)
class Whole(Rule):
    """A plain number from `low` to `high`, known when the code is made."""

    low: int
    high: int

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        fine = isinstance(value, int) and self.low <= value <= self.high
        return "" if fine else f"is {value!r}, not from {self.low} to {self.high}"


@dataclass(frozen=True)
class Flag(Rule):
    """A plain yes or no."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        return "" if isinstance(value, bool) else f"is {value!r}, not True or False"


@dataclass(frozen=True)
class IsType(Rule):
    """A type: any that computes, integers only, or whole bytes (what an access reads)."""

    kind: str = "value"

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        fine = isinstance(value, Type) and _TYPE_KINDS[self.kind][0](value)
        return "" if fine else f"is {value}, not {_TYPE_KINDS[self.kind][1]}"


_TYPE_KINDS: dict[str, tuple[Callable[[Type], bool], str]] = {
    "value": (lambda t: t.bits > 0, "bool or an integer"),
    "int": (lambda t: t.is_int, "an integer"),
    "bytes": (lambda t: t.bits >= 8, "an integer of whole bytes"),
    "word": (lambda t: t.bits in (8, 16, 32, 64) and not t.signed, "u8, u16, u32 or u64"),
    "local": (lambda t: t.bits > 0 or t is PACKET, "a type a local can have"),
    "result": (lambda t: t.bits > 0 or t is VOID, "a type a function can give back"),
}


@dataclass(frozen=True)
class Exactly(Rule):
    """This type and no other."""

    type: Type

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        return "" if value is self.type else f"is {value}, not {self.type}"


@dataclass(frozen=True)
class Literal(Rule):
    """A number that the node's type holds."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        fine = isinstance(value, int) and node.type.holds(value)
        return "" if fine else f"is {value!r}, which {node.type} does not hold"


@dataclass(frozen=True)
class Of(Rule):
    """An expression of this type."""

    type: Type

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        return _typed(value, self.type)


@dataclass(frozen=True)
class Same(Rule):
    """An expression of the type that stands in another field (`type`), or that the expression there has."""

    field: str = "type"

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        other = getattr(node, self.field)
        return _typed(value, other if isinstance(other, Type) else other.type)


@dataclass(frozen=True)
class Number(Rule):
    """An expression of any integer type, or bool too, or of whole bytes, or of a machine word."""

    kind: str = "value"

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        if not isinstance(value, ops.Expr):
            return f"is {value!r}, not an expression"
        return "" if _TYPE_KINDS[self.kind][0](value.type) else f"is {value.type}, not {_TYPE_KINDS[self.kind][1]}"


@dataclass(frozen=True)
class APacket(Rule):
    """A packet local; `optional`: or none."""

    optional: bool = False

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        if value is None and self.optional:
            return ""
        return "" if isinstance(value, ops.Local) and value.type is PACKET else "is not a packet local"


@dataclass(frozen=True)
class Effect(Rule):
    """An expression that may be a call without a value."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        fine = isinstance(value, ops.Expr) and value.type is not PACKET
        return "" if fine else "is not an expression that can be dropped"


@dataclass(frozen=True)
class StateOf(Rule):
    """The name of a state of one of these kinds."""

    kinds: tuple[str, ...]

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        state = check.states.get(value)
        if state is None:
            return f"is {value!r}, which is not declared"
        return "" if state.kind in self.kinds else f"is {_a(state.kind)}, not {' or '.join(self.kinds)}"


@dataclass(frozen=True)
class Elem(Rule):
    """The type of the state's elements (as a type, or of the expression)."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        state = check.states.get(node.state)
        if state is None:
            return ""
        if isinstance(value, Type):
            return "" if value is state.type else f"is {value}, not {state.type} as {state.name} is declared"
        return _typed(value, state.type)


@dataclass(frozen=True)
class Key(Rule):
    """An expression of the state's key type."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        state = check.states.get(node.state)
        return "" if state is None or state.key is None else _typed(value, state.key)


@dataclass(frozen=True)
class Born(Rule):
    """The name of a local that this statement sets; its type is `type`, or that of the field `value`.
    `optional`: or empty."""

    type: Type | None = None
    optional: bool = False

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        if self.optional and value == "":
            return ""
        return check.declare(value, self.type or node.value.type)


@dataclass(frozen=True)
class Used(Rule):
    """The name of a local, of the node's type."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        return check.use(value, node.type)


@dataclass(frozen=True)
class AnnoAt(Rule):
    """An offset at which the access stays inside the annotations."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        size = (node.type if isinstance(node, ops.Anno) else node.value.type).bits // 8
        return Whole(0, ANNO_BYTES - size).wrong(check, node, value)


@dataclass(frozen=True)
class MetaType(Rule):
    """The type of the metadata field (as a type, or of the expression)."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        want = META.get(node.field)
        if want is None:
            return ""
        if isinstance(value, Type):
            return "" if value is want else f"is {value}, not {want}"
        return _typed(value, want)


@dataclass(frozen=True)
class Reason(Rule):
    """The number of a drop reason of the unit, or -1."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        return Whole(-1, len(check.unit.reasons) - 1).wrong(check, node, value)


@dataclass(frozen=True)
class Callee(Rule):
    """The name of another function of the unit."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        callee = check.unit.function(value)
        if callee is None:
            return f"is {value!r}, which the unit does not have"
        if callee.name in OWNERS:
            return f"is {value}, which only the router calls: packets move there"
        return "" if callee.ret is node.type else f"gives back {callee.ret}, not {node.type}"


@dataclass(frozen=True)
class Args(Rule):
    """Arguments: those of the callee, or integers for a Python method (i64)."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        if isinstance(node, ops.Host):
            return next((x for x in (_typed(a, I64) for a in value) if x), "")
        callee = check.unit.function(node.function)
        if callee is None:
            return ""
        if len(callee.params) != len(value):
            return f"are {len(value)}, not {len(callee.params)}"
        for param, arg in zip(callee.params, value, strict=True):
            if _typed(arg, param.type) or (param.type is PACKET and not isinstance(arg, ops.Local)):
                return f"hold {getattr(arg, 'type', arg)} for {param.name}: {param.type}"
        return ""


@dataclass(frozen=True)
class Words(Rule):
    """Arguments of a C function: at most `most`, each a u64."""

    most: int

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        if len(value) > self.most:
            return f"are {len(value)}; at most {self.most} are passed"
        return next((x for x in (_typed(a, U64) for a in value) if x), "")


@dataclass(frozen=True)
class HostName(Rule):
    """A Python method that the unit lists."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        return "" if value in check.unit.hosts else f"is {value!r}, which the unit does not list"


@dataclass(frozen=True)
class Given(Rule):
    """What the function gives back."""

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        ret, role = check.function.ret, check.function.name
        if value is None:
            return "" if ret in (VOID, PACKET) or role == "process" else f"is missing; {role} gives back {ret}"
        if ret is PACKET:
            return APacket().wrong(check, node, value)
        return f"stands in {role}, which gives nothing back" if ret is VOID else _typed(value, ret)


@dataclass(frozen=True)
class Block(Rule):
    """Statements; `loop`: of a loop."""

    loop: bool = False

    def wrong(self, check: Scope, node: Any, value: Any) -> str:
        check.depth += self.loop
        check.body(value)
        check.depth -= self.loop
        return ""


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def _typed(value: Any, type_: Type) -> str:
    if not isinstance(value, ops.Expr):
        return f"is {value!r}, not an expression"
    return "" if value.type is type_ else f"is {value.type}, not {type_}"
