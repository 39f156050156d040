"""Which questions to its neighbours a unit's code asks: up, down, self (wakes) and ready."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.module import Unit
from mezzo.ir.spec import nodes


def ops_used(unit: Unit) -> frozenset[str]:
    found: set[str] = set()
    for function in unit.functions:
        for node in nodes(function.body):
            if isinstance(node, ops.Wake):
                found.add(node.who)
            elif isinstance(node, ops.Ready):
                found.add("ready")
    return frozenset(found)
