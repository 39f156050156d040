"""What a unit's code asks of its neighbours, and what each role does to the state: words that a skeleton keeps.

`up down self ready` are questions to neighbours.  The other words are `role:what:state`: role is process, push, pull,
task, timer or ready, helpers included; what is

    read write len      of any state (`len` of a ring)
    add                 a scalar grows by something, and nothing else of the statement looks at it
    push pop pushfront popback      of a ring
    host timer          the role calls Python, sets its timer (no state)

Two adjacent `add`s by two threads need no order; that is why they have a word of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

from mezzo.ir import ops
from mezzo.ir.growth import growth
from mezzo.ir.module import Function, Unit
from mezzo.ir.spec import nodes

ROLES = ("process", "push", "pull", "task", "timer", "ready")
USES = ("LruGet", "LruHas")  # who looks changes the order in which entries are forgotten
READS = ("Get", "Index", "TableGet", "TableHas", *USES, "LpmGet", "SlotUsed", "BlobLoad", "CopyBlob", "MakeFrom")
WRITES = ("Put", "Store", "TablePut", "TableDel", *USES, "SlotPut", "SlotTake", "BufPut", "BufPutPacket")


def ops_used(unit: Unit) -> frozenset[str]:
    found: set[str] = set()
    for function in unit.functions:
        for node in nodes(function.body):
            if isinstance(node, ops.Wake):
                found.add(node.who)
            elif isinstance(node, ops.Ready):
                found.add("ready")
    for function in unit.functions:
        if function.name in ROLES:
            found |= {f"{function.name}:{word}" for word in effects(unit, function)}
    return frozenset(found)


def read_by_packets(unit: Unit) -> set[str]:
    """State that the code of roles reads, or asks for its length."""
    words = (word.split(":") for word in unit.uses)
    return {word[2] for word in words if len(word) == 3 and word[1] in ("read", "len")}


def effects(unit: Unit, function: Function) -> set[str]:
    """`what:state` of a function and of the helpers it calls."""
    found: set[str] = set()
    seen, todo = {function.name}, [function]
    while todo:
        for word in _effects(unit, todo.pop().body):
            what, _, name = word.partition(":")
            if what != "call":
                found.add(word)
            elif name not in seen:
                seen.add(name)
                called = unit.function(name)
                assert called is not None
                todo.append(called)
    return found


def _effects(unit: Unit, node: object) -> Iterator[str]:
    if isinstance(node, tuple):
        for item in node:
            yield from _effects(unit, item)
        return
    if not is_dataclass(node):
        return
    grows = growth(node)
    if isinstance(node, ops.Put) and grows is not None:
        yield f"add:{node.state}"
        yield from _effects(unit, grows)
        return
    yield from _own(unit, node)
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, (tuple, ops.Node)):
            yield from _effects(unit, value)


def _own(unit: Unit, node: object) -> Iterator[str]:
    """The effect of the node itself."""
    kind = type(node).__name__
    if kind in READS:
        yield f"read:{node.state}"  # type: ignore[attr-defined]
    if kind in WRITES:
        yield f"write:{node.state}"  # type: ignore[attr-defined]
    elif isinstance(node, ops.Count):
        yield f"{'len' if unit.state(node.state).kind == 'ring' else 'read'}:{node.state}"
    elif isinstance(node, ops.RingPush):
        yield f"{'pushfront' if node.front else 'push'}:{node.state}"
    elif isinstance(node, ops.RingPop):
        yield f"{'popback' if node.back else 'pop'}:{node.state}"
    elif isinstance(node, ops.Host):
        yield "host:"
    elif isinstance(node, (ops.TimerSet, ops.TimerClear)):
        yield "timer:"
    elif isinstance(node, ops.Call):
        yield f"call:{node.function}"
