"""Which questions to its neighbours a unit's code asks: up, down, self (wakes) and ready."""

from __future__ import annotations

from typing import Any

from mezzo.ir import ops
from mezzo.ir.module import Unit


def ops_used(unit: Unit) -> frozenset[str]:
    found: set[str] = set()
    for function in unit.functions:
        _scan(function.body, found)
    return frozenset(found)


def _scan(node: Any, found: set[str]) -> None:
    if isinstance(node, tuple):
        for part in node:
            _scan(part, found)
    elif isinstance(node, ops.Wake):
        found.add(node.who)
    elif isinstance(node, ops.Ready):
        found.add("ready")
    elif isinstance(node, ops.Node):
        for value in vars(node).values():
            if isinstance(value, (tuple, ops.Node)):
                _scan(value, found)
