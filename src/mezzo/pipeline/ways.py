"""What a unit does with packets that are pushed to it: by which outputs they leave, changed or not; what it drops."""

from __future__ import annotations

from dataclasses import dataclass

from mezzo.ir import ops
from mezzo.ir.module import Unit
from mezzo.ir.spec import nodes
from mezzo.targets.kernel.capable import returns
from mezzo.targets.kernel.layout import packet_functions

CHANGES = (ops.PStore, ops.Resize, ops.Copy, ops.CopyBlob)
ANY = -1  # among outputs: it is told when the packet comes


@dataclass(frozen=True, slots=True)
class Ways:
    """`ports`: outputs by which packets leave; `changed`: those of them by which they leave with other bytes; `punts`:
    some go up as they came; `drops`: some die for a reason; `size`: nodes of IR."""

    ports: frozenset[int]
    changed: frozenset[int]
    punts: bool
    drops: bool
    size: int

    def uses(self, port: int) -> bool:
        return port in self.ports or ANY in self.ports

    def changes(self, port: int) -> bool:
        return port in self.changed or ANY in self.changed

    @property
    def filters(self) -> bool:
        """Whether all it does is to let packets pass or not."""
        return self.drops and bool(self.ports) and not self.changed


def ways_of(unit: Unit) -> Ways:
    role, *callees = packet_functions(unit)
    inside = [n for f in (role, *callees) for n in nodes(f.body)]
    leaves = [port for n in nodes(role.body) if (port := _port(n)) is not None]
    changing = {f.name for f in callees if any(isinstance(n, CHANGES) for n in nodes(f.body))}
    changed: set[int] = set()
    _changed(role.body, changing, False, changed)
    return Ways(
        frozenset(leaves) - {ops.PUNT, ops.KILL},
        frozenset(changed),
        ops.PUNT in leaves,
        any(isinstance(n, ops.Kill) or (isinstance(n, ops.Return) and n.reason >= 0) for n in inside),
        len(inside),
    )


def _port(node: ops.Node) -> int | None:
    """The output by which a packet leaves here."""
    port = node.port if isinstance(node, ops.Emit) else node.value if isinstance(node, ops.Return) else None
    return None if port is None else port.value if isinstance(port, ops.Const) else ANY


def _changed(body: ops.Body, changing: set[str], changed: bool, found: set[int]) -> bool:
    """Adds the outputs of changed packets; whether the packet is changed behind the body."""
    for statement in body:
        if isinstance(statement, ops.If | ops.For):
            head = statement.cond if isinstance(statement, ops.If) else statement.count
            sides = (statement.then, statement.orelse) if isinstance(statement, ops.If) else (statement.body,)
            changed = changed or _is_change(head, changing)
            after = [_changed(side, changing, changed, found) and not returns(side) for side in sides]
            changed = changed or any(after)
        else:
            changed = changed or _is_change(statement, changing)
            port = _port(statement)
            if changed and port is not None and port not in (ops.KILL, ops.PUNT):
                found.add(port)
    return changed


def _is_change(part: ops.Node, changing: set[str]) -> bool:
    inside = nodes(part)
    return any(isinstance(n, CHANGES) or (isinstance(n, ops.Call) and n.function in changing) for n in inside)
