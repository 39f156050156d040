"""What every pass needs: which expressions do nothing but compute, and how a node's parts are replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from mezzo.ir import ops
from mezzo.ir.module import Unit
from mezzo.ir.spec import ROWS

# These can fault, act, or give another value the next time.
ACTS = (
    ops.PLoad, ops.Sum16, ops.Index, ops.SlotUsed, ops.BlobLoad, ops.Call, ops.Host, ops.Random, ops.LruGet,
    ops.LruHas, ops.MemLoad, ops.MemSum16, ops.Atomic, ops.Libc, ops.TakeFrame, ops.FrameAddress,
)  # fmt: skip
N = TypeVar("N", bound=ops.Node)


def parts(node: ops.Node) -> Iterator[ops.Expr]:
    """The expressions directly in a node."""
    for name in ROWS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, ops.Expr):
            yield value
        elif isinstance(value, tuple):
            yield from (x for x in value if isinstance(x, ops.Expr))


def is_pure(expr: ops.Expr) -> bool:
    """Leaving it out changes nothing: it cannot fault and does not act."""
    if isinstance(expr, ACTS) or (isinstance(expr, ops.Meta) and expr.field in ops.MARKS):  # an unset mark faults
        return False
    return all(map(is_pure, parts(expr)))


def with_parts(node: N, change: Callable[[ops.Expr], ops.Expr]) -> N:
    """The node with each expression directly in it changed; the same object when none is."""
    new: dict[str, Any] = {}
    for name in ROWS[type(node)]:
        value = getattr(node, name)
        if isinstance(value, ops.Expr):
            made: Any = change(value)
            if made is not value:
                new[name] = made
        elif isinstance(value, tuple) and value and isinstance(value[0], ops.Expr):
            new[name] = tuple(map(change, value))
    return replace(node, **new) if new else node  # type: ignore[type-var]


def effect(expr: ops.Expr) -> ops.Body:
    """What remains of an expression whose value nobody wants."""
    return () if is_pure(expr) else (ops.Eval(expr, span=getattr(expr, "span", None)),)


def branch(node: ops.If, then: ops.Body, orelse: ops.Body) -> ops.Body:
    """The If with new sides, without what is empty."""
    if not then and not orelse:
        return effect(node.cond)
    if not then:
        return (replace(node, cond=negate(node.cond), then=orelse, orelse=()),)
    return (node,) if then is node.then and orelse is node.orelse else (replace(node, then=then, orelse=orelse),)


def loop(node: ops.For, body: ops.Body) -> ops.For:
    """The For with a new body."""
    return node if body is node.body else replace(node, body=body)


INVERSE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def negate(cond: ops.Expr) -> ops.Expr:
    if isinstance(cond, ops.Const):
        return ops.FALSE if cond.value else ops.TRUE
    if isinstance(cond, ops.Cmp):
        return replace(cond, op=INVERSE[cond.op])
    return cond.a if isinstance(cond, ops.Not) else ops.Not(cond)


def with_bodies(unit: Unit, change: Callable[[ops.Body], ops.Body]) -> Unit:
    """The unit with each function's body changed."""
    return replace(unit, functions=tuple(replace(f, body=change(f.body)) for f in unit.functions))
