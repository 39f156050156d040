"""Statements of which all that is seen is a counter: `kill` and return, and a row of `if why == 3: return 1, "…"`."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.ops import Body, Const
from mezzo.targets.kernel.frame import Frame
from mezzo.targets.native.text import ll

LEAST = 3  # comparisons in a row that are worth a sum


def deaths(f: Frame, body: Body) -> int:
    """Writes the first statements where packets die by them; how many those are."""
    if f.scope.done:
        return 0
    match body[:2]:
        case (ops.Kill(reason=reason), ops.Return(value=None)) if reason >= 0:
            f.drop(reason)
            return 2
    return 0 if f.inside else _row(f, body)


def _row(f: Frame, body: Body) -> int:
    """Comparisons of a local with numbers that grow by one, as the counters behind them do: a sum finds the counter."""
    first, row = _death(f, body[0]), 0
    while first and row < len(body):
        one = _death(f, body[row])
        if one is None or one != (first[0], first[1] + row, first[2] + row):
            break
        row += 1
    if first is None or row < LEAST:
        return 0
    t, (local, number, reason) = f.t, first
    many, other = t.label("row"), t.label("other")
    type = ll(local.type)
    step = t.op(f"sub {type} {f.read(local.name)}, {number}")
    t.branch(t.op(f"icmp ult {type} {step}, {row}"), many, other)
    t.at(many)
    f.accuse(reason, t.widen(step, type, "i64"))
    t.jump("dying")
    t.at(other)
    return row


def _death(f: Frame, stmt: ops.Stmt) -> tuple[ops.Local, int, int] | None:
    """(local, number, reason) of a comparison by which packets die."""
    match stmt:
        case ops.If(
            cond=ops.Cmp(op="eq", a=ops.Local() as local, b=Const(value=number)),
            then=(ops.Return(value=Const(value=port), reason=reason),),
            orelse=(),
        ) if reason >= 0 and local.type.bits <= 32 and f.ends(port):
            return local, number, reason
    return None
