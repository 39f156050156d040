"""Computes what is known, simplifies what is not, and takes the branch that is certain.

    (p.u8[net + 0] & 0xffu8) == 300 …   ->   false, where the left side may be left out
    u8(u32(x) & 0xff)                   ->   x
    if true: a else: b                  ->   a

Rules.  An expression is left out only if it is pure (`passes.shape`): a load that may fault stays.  Constants go to
the right side.  `bits_of` knows which bits of an unsigned value can be set; masks, shifts and comparisons use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.ir import ops
from mezzo.ir.arith import compare, compute, convert
from mezzo.ir.module import Unit
from mezzo.ir.types import BOOL, Type
from mezzo.passes.shape import branch, effect, is_pure, loop, negate, parts, with_bodies, with_parts

COMMUTES = ("add", "mul", "and", "or", "xor")
MIRROR = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def run(unit: Unit) -> Unit:
    return with_bodies(unit, _body)


# -- statements -----------------------------------------------------------------------------------------------------


def _body(body: ops.Body) -> ops.Body:
    made: list[ops.Stmt] = []
    for statement in body:
        made += _statement(with_parts(statement, fold))
    return tuple(made)


def _statement(node: ops.Stmt) -> ops.Body:
    match node:
        case ops.If(cond=ops.Const(value=value)):
            return _body(node.then if value else node.orelse)
        case ops.If():
            return branch(node, _body(node.then), _body(node.orelse))
        case ops.For(count=ops.Const(value=0)):
            return ()
        case ops.For():
            return (loop(node, _body(node.body)),)
        case ops.Eval():
            return effect(node.value) if is_pure(node.value) else (node,)
    return (node,)


# -- expressions ----------------------------------------------------------------------------------------------------


def fold(expr: ops.Expr) -> ops.Expr:
    """The expression, simpler where that is possible."""
    expr = with_parts(expr, fold)
    rule = _RULES.get(type(expr))
    while rule is not None:
        simpler = rule(expr)
        if simpler is expr:
            break
        # What a rule builds may hold parts that are new themselves.
        expr = _fold_new(simpler, {id(part) for part in parts(expr)})
        rule = _RULES.get(type(expr))
    return expr


def _fold_new(expr: ops.Expr, folded: set[int]) -> ops.Expr:
    return with_parts(expr, lambda part: part if id(part) in folded else fold(part))


def bits_of(expr: ops.Expr) -> int:
    """The bits that can be set in an unsigned value."""
    match expr:
        case ops.Const():
            return expr.value
        case ops.Cast() if not expr.a.type.signed and expr.type is not BOOL:
            return bits_of(expr.a) & expr.type.mask
        case ops.Bin(op="and"):
            return bits_of(expr.a) & bits_of(expr.b)
        case ops.Bin(op="or" | "xor"):
            return bits_of(expr.a) | bits_of(expr.b)
        case ops.Bin(op="shr", b=ops.Const(value=count)):
            return bits_of(expr.a) >> count
        case ops.Bin(op="shl", b=ops.Const(value=count)) if count < expr.type.bits:
            return (bits_of(expr.a) << count) & expr.type.mask
        case ops.Select():
            return bits_of(expr.a) | bits_of(expr.b)
    return expr.type.mask


def _const(type_: Type, value: int) -> ops.Const:
    return ops.Const(type_, type_.wrap(value))


def _truth(value: bool) -> ops.Const:
    return ops.TRUE if value else ops.FALSE


def _bin(e: ops.Bin) -> ops.Expr:
    a, b = e.a, e.b
    if isinstance(a, ops.Const) and isinstance(b, ops.Const):
        return ops.Const(e.type, compute(e.op, e.type, a.value, b.value))
    if isinstance(a, ops.Const) and e.op in COMMUTES:
        return ops.Bin(e.op, e.type, b, a)
    if isinstance(b, ops.Const):
        return _with_number(e, a, b.value)
    if a == b and is_pure(a) and e.op in ("sub", "xor", "and", "or"):
        return a if e.op in ("and", "or") else _const(e.type, 0)
    if isinstance(a, ops.Const) and a.value == 0 and e.op in ("shl", "shr", "div", "mod") and is_pure(b):
        return a
    return e


def _with_number(e: ops.Bin, a: ops.Expr, n: int) -> ops.Expr:
    """`a op n`."""
    neutral = {"mul": 1, "div": 1, "and": e.type.wrap(-1)}.get(e.op, 0)
    if n == neutral and e.op != "mod":
        return a
    zero = (n == 0 and e.op in ("mul", "and", "div")) or (n == 1 and e.op == "mod")
    if e.op in ("shl", "shr") and not 0 <= n < e.type.bits:
        zero = e.op == "shl" or not e.type.signed
    if zero:
        return _const(e.type, 0) if is_pure(a) else e
    if n == 0 and e.op == "mod":
        return a
    if not e.type.signed:
        simpler = _unsigned(e, a, n)
        if simpler is not e:
            return simpler
    return _chain(e, a, n)


def _unsigned(e: ops.Bin, a: ops.Expr, n: int) -> ops.Expr:
    bits = bits_of(a)
    if e.op == "and" and bits & n == bits:
        return a
    if ((e.op == "and" and not bits & n) or (e.op == "shr" and not bits >> n)) and is_pure(a):
        return _const(e.type, 0)
    if e.op == "div" and n & (n - 1) == 0:
        return ops.Bin("shr", e.type, a, ops.Const(e.type, n.bit_length() - 1))
    if e.op == "mod" and n & (n - 1) == 0:
        return ops.Bin("and", e.type, a, ops.Const(e.type, n - 1))
    return e


def _chain(e: ops.Bin, a: ops.Expr, n: int) -> ops.Expr:
    """`(x op m) op n` as one operation."""
    if not isinstance(a, ops.Bin) or not isinstance(a.b, ops.Const):
        return e
    m = a.b.value
    if a.op == e.op and e.op in COMMUTES:
        return ops.Bin(e.op, e.type, a.a, ops.Const(e.type, compute(e.op, e.type, m, n)))
    if a.op in ("add", "sub") and e.op in ("add", "sub"):
        same = a.op == e.op
        return ops.Bin(a.op, e.type, a.a, _const(e.type, m + n if same else m - n))
    if a.op == e.op and e.op in ("shl", "shr") and not e.type.signed and max(m, n) < e.type.bits:
        if m + n < e.type.bits:
            return ops.Bin(e.op, e.type, a.a, ops.Const(e.type, m + n))
        return _const(e.type, 0) if is_pure(a) else e
    return e


def _cmp(e: ops.Cmp) -> ops.Expr:
    a, b = e.a, e.b
    if isinstance(a, ops.Const) and isinstance(b, ops.Const):
        return _truth(compare(e.op, a.value, b.value))
    if isinstance(a, ops.Const):
        return ops.Cmp(MIRROR[e.op], b, a)
    if isinstance(b, ops.Const):
        return _against(e, a, b.value)
    return _truth(compare(e.op, 0, 0)) if a == b and is_pure(a) else e


def _against(e: ops.Cmp, a: ops.Expr, n: int) -> ops.Expr:
    """`a op n`."""
    if isinstance(a, ops.Cast) and not a.a.type.signed and (a.type.bits > a.a.type.bits):
        if a.a.type.holds(n) and a.a.type is not BOOL:
            return ops.Cmp(e.op, a.a, ops.Const(a.a.type, n))
        if n < 0:  # everything that was widened is above it
            return _truth(compare(e.op, 0, n)) if is_pure(a) else e
    if a.type is BOOL or (isinstance(a, ops.Cast) and a.a.type is BOOL and n in (0, 1)):
        return _against_truth(e, a.a if isinstance(a, ops.Cast) and a.type is not BOOL else a, n)
    if a.type.signed:
        return e
    top = bits_of(a)
    low, high = compare(e.op, 0, n), compare(e.op, top, n)
    certain = (n | top) != top if e.op in ("eq", "ne") else low == high
    return _truth(high) if certain and is_pure(a) else e


def _against_truth(e: ops.Cmp, a: ops.Expr, n: int) -> ops.Expr:
    no, yes = compare(e.op, 0, n), compare(e.op, 1, n)
    if no == yes:
        return _truth(yes) if is_pure(a) else e
    return a if yes else negate(a)


def _logic(e: ops.Logic) -> ops.Expr:
    deciding = ops.FALSE if e.op == "and" else ops.TRUE
    if isinstance(e.a, ops.Const):
        return e.a if e.a == deciding else e.b
    if isinstance(e.b, ops.Const) and (e.b != deciding or is_pure(e.a)):
        return e.b if e.b == deciding else e.a
    return e.a if e.a == e.b and is_pure(e.a) else e


def _not(e: ops.Not) -> ops.Expr:
    return negate(e.a) if isinstance(e.a, (ops.Const, ops.Not, ops.Cmp)) else e


def _cast(e: ops.Cast) -> ops.Expr:
    a = e.a
    if a.type is e.type:
        return a
    if isinstance(a, ops.Const):
        return ops.Const(e.type, convert(e.type, a.value))
    if isinstance(a, ops.Cast) and _through(e.type, a.type, a.a.type):
        return ops.Cast(e.type, a.a)
    if e.type is not BOOL and isinstance(a, ops.Bin) and a.op == "and" and isinstance(a.b, ops.Const):
        kept = e.type.mask if e.type.bits <= a.type.bits else 0
        if kept and a.b.value & kept == kept:
            return ops.Cast(e.type, a.a)
    return e


def _through(to: Type, middle: Type, source: Type) -> bool:
    """Whether a cast by way of `middle` is the same as the direct one."""
    if middle is BOOL:
        return False
    if to is BOOL:
        return middle.bits >= source.bits
    if to.bits <= middle.bits:
        return True
    return middle.bits > source.bits and not source.signed


def _select(e: ops.Select) -> ops.Expr:
    if isinstance(e.cond, ops.Const):
        chosen, other = (e.a, e.b) if e.cond.value else (e.b, e.a)
        return chosen if is_pure(other) else e
    if e.a == e.b and is_pure(e.cond) and is_pure(e.a):
        return e.a
    if e.type is BOOL and isinstance(e.a, ops.Const) and isinstance(e.b, ops.Const) and e.a != e.b:
        return e.cond if e.a.value else negate(e.cond)
    return e


_RULES: dict[type[ops.Expr], Callable[[Any], ops.Expr]] = {
    ops.Bin: _bin,
    ops.Cmp: _cmp,
    ops.Logic: _logic,
    ops.Not: _not,
    ops.Cast: _cast,
    ops.Select: _select,
}
