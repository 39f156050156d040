"""Which bits of a value can be set: enough to see that a header's length is a multiple of four and at most sixty."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.module import Function
from mezzo.ir.ops import Const, Expr
from mezzo.ir.spec import nodes

DEEPEST = 12  # locals that are set from each other


def possible_bits(function: Function, e: Expr, depth: int = 0) -> int:
    """A mask that holds each bit which `e` may have set; for unsigned values."""
    if e.type.signed or depth > DEEPEST:
        return e.type.mask
    return _bits(function, e, depth) & e.type.mask


def _bits(function: Function, e: Expr, depth: int) -> int:
    match e:
        case Const():
            return e.value
        case ops.Cast() if not e.a.type.signed:
            return possible_bits(function, e.a, depth)
        case ops.Select():
            return possible_bits(function, e.a, depth) | possible_bits(function, e.b, depth)
        case ops.Bin(op="and"):
            return possible_bits(function, e.a, depth) & possible_bits(function, e.b, depth)
        case ops.Bin(op="or" | "xor"):
            return possible_bits(function, e.a, depth) | possible_bits(function, e.b, depth)
        case ops.Bin(op="shl", b=Const(value=by)) if by < e.type.bits:
            return possible_bits(function, e.a, depth) << by
        case ops.Bin(op="shr", b=Const(value=by)) if by < e.type.bits:
            return possible_bits(function, e.a, depth) >> by
        case ops.Local():
            return _of_local(function, e, depth)
    return e.type.mask


def _of_local(function: Function, e: ops.Local, depth: int) -> int:
    """All that is ever put there; anything where another statement than Set puts it there."""
    if any(p.name == e.name for p in function.params):
        return e.type.mask
    bits = 0
    for node in nodes(function.body):
        if isinstance(node, ops.Set) and node.name == e.name:
            bits |= possible_bits(function, node.value, depth + 1)
        elif isinstance(node, ops.Stmt) and e.name in (getattr(node, "name", None), getattr(node, "done", None)):
            return e.type.mask
    return bits
