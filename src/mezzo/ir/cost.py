"""The worst-case cost of each function, in abstract operations, and the certificate that follows from it.

An operation is about one simple machine instruction; the weights are orders of magnitude, there to compare and to
bound, not to predict nanoseconds.  A branch costs its dearer side, a loop its limit times its body, a call its callee.
Work over bytes (checksums, copies) counts one operation for eight bytes, of a whole frame where the length is open.
"""

from __future__ import annotations

from dataclasses import dataclass

from mezzo.ir import ops
from mezzo.ir.module import Function, Unit
from mezzo.ir.spec import ROWS

FRAME = 4096  # bytes of the largest frame
CERTIFIED = 1_000_000  # operations: more for one packet is not for shared threads

# Nodes that are not here weigh 1; those of the second table also touch packet, state or table memory.
OPS: dict[type[ops.Node], int] = {ops.Const: 0, ops.Local: 0, ops.Cast: 0, ops.Eval: 0, ops.Return: 1, ops.For: 2}
MEMORY: dict[type[ops.Node], int] = {
    ops.PLoad: 3, ops.PStore: 3, ops.Meta: 2, ops.MetaSet: 2, ops.MarkClear: 1, ops.Anno: 1, ops.AnnoSet: 1,
    ops.Resize: 8, ops.Get: 1, ops.Put: 1, ops.Index: 3, ops.Store: 3, ops.TableGet: 20, ops.TableHas: 20,
    ops.TablePut: 40, ops.TableDel: 40, ops.LruGet: 30, ops.LruHas: 30, ops.LpmGet: 20, ops.Count: 1, ops.SlotUsed: 3,
    ops.SlotPut: 4, ops.SlotTake: 4,
    ops.BlobLoad: 3, ops.Random: 6, ops.Ready: 6, ops.Make: 20, ops.MakeFrom: 20, ops.Clone: 20 + FRAME // 8,
    ops.Emit: 4, ops.Kill: 8, ops.Pull: 6, ops.RingPush: 5, ops.RingPop: 5, ops.BufPut: 4, ops.BufPutPacket: 6,
    ops.Copy: 10, ops.CopyBlob: 8, ops.Sum16: 6, ops.Wake: 4, ops.TimerSet: 10, ops.TimerClear: 4, ops.WallTime: 2,
    ops.Host: 2000, ops.MemLoad: 2, ops.MemStore: 2, ops.Atomic: 20, ops.MemSum16: 6, ops.MemCopy: 8, ops.MemZero: 8,
    ops.Libc: 2000, ops.TakeFrame: 8, ops.GiveFrame: 8, ops.PrefetchFrame: 3, ops.Lend: 2, ops.Adopt: 12,
}  # fmt: skip
BY_LENGTH = (
    ops.Sum16, ops.Copy, ops.CopyBlob, ops.BufPutPacket, ops.Make, ops.MakeFrom, ops.MemSum16, ops.MemCopy, ops.MemZero,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """`ops`: operations; `memory`: how often packets, state and tables are touched; `python`: calls of Python."""

    ops: int = 0
    memory: int = 0
    python: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.ops + other.ops, self.memory + other.memory, self.python + other.python)

    def times(self, rounds: int) -> Cost:
        return Cost(self.ops * rounds, self.memory * rounds, self.python * rounds)

    def most(self, other: Cost) -> Cost:
        """What bounds both."""
        return Cost(max(self.ops, other.ops), max(self.memory, other.memory), max(self.python, other.python))


def cost(unit: Unit) -> dict[str, Cost]:
    """The worst case of each function; the unit is valid, so calls end."""
    known: dict[str, Cost] = {}
    for function in unit.functions:
        _function(unit, function, known)
    return {function.name: known[function.name] for function in unit.functions}


def certificate(unit: Unit) -> str | None:
    """Why the unit may not run next to strangers' code, or None: it is bounded and safe."""
    if unit.hosts:
        return f"calls Python ({', '.join(unit.hosts)})"
    worst = cost(unit)
    for function in unit.functions:
        if _holds(function.body, ops.DIALECT):
            return f"{function.name} uses the runtime's own operations"
        if worst[function.name].ops > CERTIFIED:
            return f"{function.name} may take {worst[function.name].ops} operations; at most {CERTIFIED} are certified"
    return None


def _function(unit: Unit, function: Function, known: dict[str, Cost]) -> Cost:
    if function.name not in known:
        known[function.name] = _body(unit, function.body, known)
    return known[function.name]


def _body(unit: Unit, body: ops.Body, known: dict[str, Cost]) -> Cost:
    return sum((_node(unit, statement, known) for statement in body), Cost())


def _node(unit: Unit, node: ops.Node, known: dict[str, Cost]) -> Cost:
    total = _own(node)
    for name in ROWS[type(node)]:
        value = getattr(node, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, ops.Expr):
                total += _node(unit, part, known)
    if isinstance(node, ops.If):
        return total + _body(unit, node.then, known).most(_body(unit, node.orelse, known))
    if isinstance(node, ops.For):
        return total + (_body(unit, node.body, known) + Cost(1)).times(rounds(node))
    if isinstance(node, ops.Call):
        callee = unit.function(node.function)
        assert callee is not None, "the unit is valid"
        return total + Cost(2) + _function(unit, callee, known)
    return total


def _own(node: ops.Node) -> Cost:
    kind = type(node)
    weight = OPS.get(kind, MEMORY.get(kind, 1))
    if isinstance(node, BY_LENGTH):
        weight += (node.length.value if isinstance(node.length, ops.Const) else FRAME) // 8
    return Cost(weight, int(kind in MEMORY), int(kind is ops.Host))


def rounds(node: ops.For) -> int:
    """The most rounds a loop makes."""
    return min(node.count.value, node.limit) if isinstance(node.count, ops.Const) else node.limit


def _holds(part: object, wanted: tuple[type[ops.Node], ...]) -> bool:
    if isinstance(part, tuple):
        return any(_holds(x, wanted) for x in part)
    if not isinstance(part, ops.Node):
        return False
    return isinstance(part, wanted) or any(_holds(getattr(part, name), wanted) for name in ROWS[type(part)])
