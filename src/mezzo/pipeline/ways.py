"""By which outputs packets leave a unit, and by which of them they leave changed."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.module import Unit
from mezzo.ir.spec import nodes
from mezzo.targets.kernel.layout import packet_functions

CHANGES = (ops.PStore, ops.Resize, ops.Copy, ops.CopyBlob)


def is_punt(node: ops.Node) -> bool:
    port = node.port if isinstance(node, ops.Emit) else node.value if isinstance(node, ops.Return) else None
    return isinstance(port, ops.Const) and port.value == ops.PUNT


def ports_of(unit: Unit) -> set[int]:
    """Outputs by which packets leave; -1 stands for any."""
    found: set[int] = set()
    role = packet_functions(unit)[0]
    for node in nodes(role.body):
        port = node.port if isinstance(node, ops.Emit) else node.value if isinstance(node, ops.Return) else None
        if isinstance(port, ops.Const):
            found |= {port.value} - {ops.PUNT, ops.KILL}
        elif port is not None:
            found.add(-1)
    return found


def changed_ports(unit: Unit) -> set[int]:
    """Outputs by which packets leave whose bytes were changed; -1 stands for any."""
    role, *callees = packet_functions(unit)
    changing = {f.name for f in callees if any(isinstance(n, CHANGES) for n in nodes(f.body))}
    found: set[int] = set()
    _changed(role.body, changing, False, found)
    return found


def _changed(body: ops.Body, changing: set[str], changed: bool, found: set[int]) -> bool:
    """Adds the outputs of changed packets; whether the packet is changed behind the body."""
    for statement in body:
        if isinstance(statement, ops.If | ops.For):
            sides = (statement.then, statement.orelse) if isinstance(statement, ops.If) else (statement.body,)
            changed = changed or any(
                isinstance(n, ops.Call) and n.function in changing for n in nodes(_head(statement))
            )
            after = [_changed(side, changing, changed, found) for side in sides]
            changed = changed or any(after)
            continue
        inside = list(nodes(statement))
        changed = changed or any(
            isinstance(n, CHANGES) or (isinstance(n, ops.Call) and n.function in changing) for n in inside
        )
        port = statement.port if isinstance(statement, ops.Emit) else None
        port = statement.value if isinstance(statement, ops.Return) else port
        if changed and port is not None and not (isinstance(port, ops.Const) and port.value in (ops.KILL, ops.PUNT)):
            found.add(port.value if isinstance(port, ops.Const) else -1)
    return changed


def _head(statement: ops.If | ops.For) -> ops.Expr:
    return statement.cond if isinstance(statement, ops.If) else statement.count
