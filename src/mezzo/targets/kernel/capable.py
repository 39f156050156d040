"""What can go into the kernel, and why the rest cannot: the keys of the emit tables, and a few rules beside them.

A program has one packet, the one that it was called for.  It may change it and send it on; it cannot make another, keep
it for later, or do something after it has sent it on, because then the packet is in the next element's hands.
"""

from __future__ import annotations

from collections.abc import Iterator

from mezzo.base import Diagnostic, Span
from mezzo.ir import ops
from mezzo.ir.module import Linked, Unit
from mezzo.ir.spec import called, nodes
from mezzo.targets.kernel.layout import packet_functions
from mezzo.targets.kernel.lower import EXPR
from mezzo.targets.kernel.lower_stmt import STMT

TABLE = EXPR.keys() | STMT.keys()
STORES = "it stores packets, and an XDP program has its packet only until it ends"
MAKES = "it makes packets, and an XDP program has only the one that it was called for"
LATER = "it acts at a time of its own, and an XDP program runs only when a packet comes"
OWN = "it uses the runtime's own operations (memory by address, C functions)"
WHY: dict[type[ops.Node], str] = {
    ops.RingPush: STORES, ops.RingPop: STORES, ops.SlotPut: STORES, ops.SlotTake: STORES, ops.SlotUsed: STORES,
    ops.Make: MAKES, ops.MakeFrom: MAKES, ops.Clone: MAKES,
    ops.Pull: "it pulls, and in the kernel packets are only pushed",
    ops.Host: "it calls Python",
    ops.BufPut: "it writes to a buffer that only Python empties",
    ops.BufPutPacket: "it writes to a buffer that only Python empties",
    ops.Wake: LATER, ops.TimerSet: LATER, ops.TimerClear: LATER,
}  # fmt: skip
DEEPEST_LOOP = 1 << 16  # rounds; the verifier follows each


def refusals(linked: Linked) -> list[Diagnostic]:
    """Why an instance cannot be in the kernel; empty when it can."""
    unit = linked.unit
    functions = packet_functions(unit)
    if not functions or any(linked.pull_inputs):
        what = "packets are pulled through it" if functions else "no packets are pushed to it"
        return [Diagnostic(f"`{linked.name}` stays out of the kernel: {what}")]
    found: dict[str, Diagnostic] = {}
    for function in functions:
        rules = [*_troubles(unit, function.body, function.span)]
        if function.name in ("push", "process"):
            rules += not_last(function.body, function.span)
        for reason, span in rules:
            found.setdefault(reason, Diagnostic(f"`{linked.name}` stays out of the kernel: {reason}", span))
    return list(found.values())


def troubles(unit: Unit, part: object, around: Span | None = None) -> Iterator[tuple[str, Span | None]]:
    """(reason, place) of all in statements or an expression, and in the helpers they call, that does not go."""
    yield from _troubles(unit, part, around)
    for name in helpers(unit, part):
        function = unit.function(name)
        assert function is not None, "the unit is valid"
        yield from _troubles(unit, function.body, function.span)


def helpers(unit: Unit, part: object) -> list[str]:
    """The helpers that statements or an expression call, and those that these call."""
    found: dict[str, None] = {}
    todo = sorted(called(part))
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = None
            function = unit.function(name)
            assert function is not None, "the unit is valid"
            todo += sorted(called(function.body))
    return list(found)


def _troubles(unit: Unit, part: object, around: Span | None) -> Iterator[tuple[str, Span | None]]:
    """(reason, place) of all that the target does not take."""
    if isinstance(part, tuple):
        for one in part:
            yield from _troubles(unit, one, around)
    elif isinstance(part, ops.Node):
        around = getattr(part, "span", None) or around
        if type(part) not in TABLE:
            yield WHY.get(type(part), OWN), around
        elif reason := _rule(unit, part):
            yield reason, around
        for value in vars(part).values():
            if isinstance(value, tuple | ops.Node):
                yield from _troubles(unit, value, around)


def _rule(unit: Unit, node: ops.Node) -> str:
    """What a node that the table has may not be."""
    if isinstance(node, ops.Count) and unit.state(node.state).kind != "blob":
        return f"it asks how many entries `{node.state}` has, which the kernel does not tell a program"
    if isinstance(node, ops.Meta) and node.field == "frame":
        return "it asks for the number of the packet's frame, and here there are no frames"
    if isinstance(node, ops.Bin) and node.type.bits == 128 and node.op in ("mul", "div", "mod"):
        return "it multiplies or divides numbers of 128 bits, which BPF has not"
    if isinstance(node, ops.CopyBlob) and not isinstance(node.source_offset, ops.Const):
        return f"it copies bytes of `{node.state}` from a place that is open until the packet comes"
    if isinstance(node, ops.For) and node.limit > DEEPEST_LOOP:
        return f"it has a loop of up to {node.limit} rounds"
    return ""


def not_last(body: ops.Body, around: Span | None) -> Iterator[tuple[str, Span | None]]:
    """Packets that are sent on before the last thing the function does."""
    for place, statement in enumerate(body):
        around = getattr(statement, "span", None) or around
        rest = body[place + 1 :]
        ends = not rest or (isinstance(rest[0], ops.Return) and rest[0].value is None)
        if isinstance(statement, ops.If | ops.For) and sends(statement):
            inner = (*statement.then, *statement.orelse) if isinstance(statement, ops.If) else statement.body
            sides = (statement.then, statement.orelse) if isinstance(statement, ops.If) else (statement.body,)
            for side in sides:
                yield from not_last(side, around)
            open_end = any(sends(side) and not returns(side) for side in sides)
            if open_end and (not ends or isinstance(statement, ops.For)) and inner:
                yield SENT, around
        elif isinstance(statement, ops.Emit) and not ends:
            yield SENT, around


SENT = "it goes on after it has sent the packet, which is in the next element's hands then"


def sends(part: object) -> bool:
    return any(isinstance(n, ops.Emit) for n in nodes(part))


def returns(body: ops.Body) -> bool:
    """Whether no way leads to what stands behind the body."""
    last = body[-1] if body else None
    if isinstance(last, ops.If):
        return returns(last.then) and returns(last.orelse)
    return isinstance(last, ops.Return)
