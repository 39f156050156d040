"""What a condition tells: comparisons of the packet's length become comparisons of addresses, from which the verifier
learns what may be read, and so does `facts`; the accesses behind them need no comparison of their own.

    length >= 34                     data + 34 <= end
    length >= net + 20               the address of `net` + 20 <= end, where that place is in reach at all
    answer == 3                      what is known on the ways that gave this answer

An address of a place that is not known is worked out in front of the whole condition, since what is worked out inside
of one is not there behind it.  (A mark in front of all memory that came along with a packet is never in reach.)
"""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.ops import Const, Expr
from mezzo.ir.spec import called, nodes
from mezzo.ir.types import I64
from mezzo.passes.shape import ACTS
from mezzo.targets.kernel.facts import UNSET, all_nodes
from mezzo.targets.kernel.frame import FARTHEST, Frame

LEAST = {"ge": 0, "gt": 1, "lt": 0, "le": 1}  # the length that the comparison is about, beyond its number


def _measured(e: Expr) -> tuple[str, int] | None:
    """(mark, bytes) where a comparison tells whether the packet has so many bytes from there."""
    if not isinstance(e, ops.Cmp) or e.op not in LEAST:
        return None
    if isinstance(e.a, ops.Meta) and e.a.field == "length" and isinstance(e.b, Const):
        return "data", e.b.value + LEAST[e.op]
    match e.a, e.b:
        case ops.Cast(type=to, a=ops.Meta(field="length")), ops.Bin(op="add", a=ops.Meta(field=mark), b=Const(value=n)):
            return (mark, n + LEAST[e.op]) if to is I64 and mark in ops.MARKS and 0 <= n <= FARTHEST else None
    return None


def prepare(f: Frame, cond: Expr) -> None:
    """Works out addresses that the condition is about."""
    if called(cond):
        return
    for node in nodes(cond):
        told = _measured(node) if isinstance(node, ops.Cmp) else None
        if told and told[0] != "data" and told[0] not in f.facts.known | f.facts.maybe:
            f.facts.maybe[told[0]] = _maybe(f, told[0])


def _maybe(f: Frame, mark: str) -> str:
    """The address of a place; where it is out of reach, one that is behind the end of any packet."""
    t = f.t
    inside = t.opaque("i64", f.plus(f.at(mark), f.at("front"), "sub"), "")
    near = t.op(f"call i64 @llvm.umin.i64(i64 {inside}, i64 {FARTHEST})")
    return t.opaque("ptr", t.op(f"getelementptr i8, ptr {f.start()}, i64 {near}"), "")


def tells_both(f: Frame, e: ops.Logic) -> bool:
    """Whether `has_net and length >= net + 20` is only the comparison: no bytes are behind a mark that is not set."""
    if e.op != "and" or not isinstance(e.a, ops.Meta) or not isinstance(e.b, ops.Cmp) or e.b.op not in ("ge", "gt"):
        return False
    told = _measured(e.b)
    return told is not None and e.a.field == "has_" + told[0] and told[0] in f.facts.maybe and told[1] <= FARTHEST


def length_proof(f: Frame, e: ops.Cmp) -> str:
    """The comparison as one of addresses; "" where it is another one."""
    told, facts = _measured(e), f.facts
    if told is None:
        return ""
    mark, length = told
    if mark in facts.known and "front" in facts.known and facts.known[mark] != UNSET:
        if facts.known[mark] + length <= max(facts.reach, facts.sure):
            return "true" if e.op in ("ge", "gt") else "false"
        inside = max(facts.known[mark] - facts.known["front"] + length, 0)
        return _compare(f, e.op, f.start(), inside) if inside <= FARTHEST else ""
    if mark in facts.maybe and length <= FARTHEST:
        return _compare(f, e.op, facts.maybe[mark], length)
    return ""


def _compare(f: Frame, op: str, pointer: str, length: int) -> str:
    """Opaque, or LLVM would use this address for an access, which the verifier refuses on ways where the comparison
    failed, even on those that cannot be because an earlier one had found more bytes."""
    last = f.t.opaque("ptr", f.t.op(f"getelementptr inbounds nuw i8, ptr {pointer}, i64 {length}"), "")
    return f.t.op(f"icmp {'ule' if op in ('ge', 'gt') else 'ugt'} ptr {last}, {f.stop()}")


def assume(f: Frame, cond: Expr, truth: bool) -> None:
    """Learns from a condition how many bytes there are; a call in it may have moved the packet since."""
    if not called(cond):
        _learn(f, cond, truth)


def _learn(f: Frame, cond: Expr, truth: bool) -> None:
    if isinstance(cond, ops.Not):
        _learn(f, cond.a, not truth)
    elif isinstance(cond, ops.Logic) and (cond.op == "and") == truth:
        _learn(f, cond.a, truth)
        _learn(f, cond.b, truth)
    elif isinstance(cond, ops.Local):
        _learn_answer(f, cond, int(truth))
    elif isinstance(cond, ops.Cmp) and isinstance(cond.a, ops.Local) and isinstance(cond.b, Const):
        if truth == (cond.op == "eq") and cond.op in ("eq", "ne"):
            _learn_answer(f, cond.a, cond.b.value)
    elif isinstance(cond, ops.Cmp) and cond.op in LEAST and truth == (cond.op in ("ge", "gt")):
        _learn_length(f, cond)


def _learn_answer(f: Frame, local: ops.Local, value: int) -> None:
    f.facts.take(f.facts.cases.get(f.scope.slots[local.name], {}).get(value))


def _learn_length(f: Frame, cond: ops.Cmp) -> None:
    told, facts = _measured(cond), f.facts
    if told is None:
        return
    mark, length = told
    if mark in facts.known and "front" in facts.known and facts.known[mark] != UNSET:
        to = facts.known[mark] + length
        if to > max(facts.reach, facts.sure) and to - facts.known["front"] <= FARTHEST:  # else nothing was compared
            facts.reach = to
    elif mark in facts.maybe and length <= FARTHEST:
        low, high = facts.extents.get(mark, (1 << 62, 0)) if mark in facts.pointers else (1 << 62, 0)
        facts.pointers.setdefault(mark, facts.maybe[mark])
        facts.extents[mark] = low, max(high, length)


def is_idle(f: Frame, e: Expr) -> bool:
    """Whether working out `e` does nothing and cannot fail, so that it may be left out."""
    return all(_is_idle(f, node) for node in all_nodes(f.unit, e))


def _is_idle(f: Frame, node: ops.Node) -> bool:
    if isinstance(node, ops.PLoad):
        known = f.facts.known.get(node.mark)
        if known is None or not isinstance(node.offset, Const):
            return False
        return known + node.offset.value + node.type.bits // 8 <= max(f.facts.reach, f.facts.sure)
    if isinstance(node, ops.Stmt):
        return isinstance(node, ops.If | ops.Set | ops.Return)
    return isinstance(node, ops.Call) or not isinstance(node, ACTS)
