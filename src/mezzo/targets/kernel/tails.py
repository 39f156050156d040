"""A helper whose answer is an element's own, `return self.helper(p)`, is written once and jumped to.

What is known of the packet there is what all who jump to it know, so it is written after all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from mezzo.ir import ops
from mezzo.ir.module import Function
from mezzo.ir.spec import called
from mezzo.ir.types import PACKET
from mezzo.targets.kernel.facts import Facts
from mezzo.targets.kernel.frame import Frame
from mezzo.targets.kernel.lower import value
from mezzo.targets.native.text import ll


@dataclass
class Tail:
    """`slots`: the arguments; `reason`: of packets that die by its answer."""

    function: Function
    reason: int
    label: str
    slots: list[str]
    facts: Facts


def jump_to(f: Frame, call: ops.Call, reason: int) -> None:
    """Goes on in a helper, which need not come back."""
    function, t = f.unit.function(call.function), f.t
    assert function is not None, "the unit is valid"
    numbers = [value(f, a) for a in call.args if a.type is not PACKET]
    types = [ll(a.type) for a in call.args if a.type is not PACKET]
    key = call.function, reason
    tail = f.tails.get(key)
    if tail is None:
        tail = Tail(function, reason, t.label("tail"), [t.slot(type) for type in types], f.known())
        f.tails[key] = tail
    tail.facts = tail.facts.both(f.known())
    for slot, type, number in zip(tail.slots, types, numbers, strict=True):
        t.do(f"store {type} {number}, ptr {slot}")
    t.jump(tail.label)


def next_tail(f: Frame) -> Tail | None:
    """One that no other which waits may still jump to."""
    waiting = {tail.function.name for tail in f.tails.values()}
    for key, tail in f.tails.items():
        if not any(tail.function.name in _behind(f, name) for name in waiting):
            return f.tails.pop(key)
    return None


def _behind(f: Frame, name: str) -> set[str]:
    """The helpers that one calls, and those call."""
    found, todo = set[str](), [name]
    while todo:
        function = f.unit.function(todo.pop())
        more = called(function.body) - found if function is not None else set()
        found |= more
        todo += more
    return found
