"""A scalar that grows, `count += n` and `count -= n` as the IR has them, or an array's element.  Several threads may do
it at once, by atomic additions."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.spec import nodes


def growth(node: object) -> ops.Expr | None:
    """What a scalar grows by, where `node` is the growth of a scalar and nothing else in it looks at the scalar."""
    if not isinstance(node, ops.Put) or not isinstance(node.value, ops.Bin):
        return None
    value = node.value
    if value.type.bits not in (8, 16, 32, 64):
        return None
    ways = {
        "add": ((value.a, value.b), (value.b, value.a)),
        "sub": ((value.a, ops.Bin("sub", value.type, ops.Const(value.type, 0), value.b)),),
    }
    for own, other in ways.get(value.op, ()):
        if isinstance(own, ops.Get) and own.state == node.state and not _looks_at(other, node.state):
            return other
    return None


def array_growth(node: object) -> ops.Expr | None:
    """The same of an array's element, `counts[i] += n`."""
    if not isinstance(node, ops.Store) or not isinstance(node.index, ops.Local | ops.Const):
        return None
    value = node.value
    if not isinstance(value, ops.Bin) or value.op != "add" or value.type.bits not in (32, 64):
        return None
    own = ops.Index(value.type, node.state, node.index)
    for mine, other in ((value.a, value.b), (value.b, value.a)):
        if mine == own and not any(isinstance(n, ops.Call | ops.Index) for n in nodes(other)):
            return other
    return None


def _looks_at(value: ops.Expr, state: str) -> bool:
    """Whether a value depends on a scalar; what a helper does is not followed."""
    return any(isinstance(n, ops.Call) or (isinstance(n, ops.Get) and n.state == state) for n in nodes(value))
