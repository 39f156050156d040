"""What is known of packets at a point of a function: loaded offsets, and byte ranges already checked.

Headers are read field by field, each access checked.  Here the second access to a header finds the offsets loaded and
the range known, so that a function is a third shorter before LLVM sees it, which is most of its compile time, and
what LLVM cannot prove costs nothing at run time either.

A fact is about a packet local.  It ends where an op moves the packet's ends or marks, lends the packet, or binds the
local anew.  Facts made in one branch hold after it only if the others agree; facts from before a loop hold in it only
if its body touches none of the packet's metadata.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mezzo.ir import ops
from mezzo.ir.ops import Const, Expr, Local
from mezzo.targets.native.layout import walk

Extent = tuple[int, int]  # offsets from `low` up are not before the data; those below `high` are before its end
NOTHING: Extent = (1 << 62, -(1 << 62))
FALSE_OF = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


@dataclass
class Facts:
    """`values[packet, what]`: the register that holds it; `extents[packet, mark]`: the checked range."""

    values: dict[tuple[str, str], str] = field(default_factory=dict)
    extents: dict[tuple[str, str], Extent] = field(default_factory=dict)

    def copy(self) -> Facts:
        return Facts(dict(self.values), dict(self.extents))

    def both(self, other: Facts) -> Facts:
        """What holds where two paths meet."""
        values = {k: v for k, v in self.values.items() if other.values.get(k) == v}
        extents = {
            k: (max(low, other.extents[k][0]), min(high, other.extents[k][1]))
            for k, (low, high) in self.extents.items()
            if k in other.extents
        }
        return Facts(values, extents)

    def forget(self, packet: str, *what: str) -> None:
        """Ends the facts about these offsets of a packet, or about all of it."""
        for table in (self.values, self.extents):
            for key in [k for k in table if k[0] == packet and (not what or k[1] in what)]:
                del table[key]

    def moved_data(self, packet: str) -> None:
        """The start of the data moved: ranges that counted from it, or on it, end."""
        self.forget(packet, "data")
        for key, (_, high) in list(self.extents.items()):
            if key[0] == packet:
                self.extents[key] = NOTHING[0], high

    def moved_end(self, packet: str) -> None:
        self.forget(packet, "end")
        for key, (low, _) in list(self.extents.items()):
            if key[0] == packet:
                self.extents[key] = low, NOTHING[1]

    def marked(self, packet: str, mark: str, value: str, offset: Expr) -> None:
        """`mark` was set to data + offset; the register `value` holds where."""
        self.forget(packet, mark)
        self.values[packet, mark] = value
        if isinstance(offset, Const):
            _, high = self.extents.get((packet, "data"), NOTHING)
            self.extents[packet, mark] = -offset.value, high - offset.value

    def assume(self, cond: Expr, truth: bool) -> None:
        """Learns lengths from a condition that turned out as `truth`; a call in it may have changed them since."""
        if not any(isinstance(node, ops.Call | ops.Host) for node in walk(cond)):
            self._learn(cond, truth)

    def _learn(self, cond: Expr, truth: bool) -> None:
        if isinstance(cond, ops.Not):
            self._learn(cond.a, not truth)
        elif isinstance(cond, ops.Logic) and (cond.op == "and") == truth:
            self._learn(cond.a, truth)
            self._learn(cond.b, truth)
        elif isinstance(cond, ops.Cmp) and isinstance(cond.b, Const) and isinstance(length := cond.a, ops.Meta):
            op = cond.op if truth else FALSE_OF[cond.op]
            least = cond.b.value + (op == "gt")
            if length.field == "length" and isinstance(length.packet, Local) and op in ("gt", "ge", "eq"):
                low, high = self.extents.get((length.packet.name, "data"), (0, 0))
                self.extents[length.packet.name, "data"] = low, max(high, least)

    def enter_loop(self, body: ops.Body) -> None:
        """Forgets what a round of the loop may change."""
        for node in walk(body):
            for packet in touched(node):
                self.forget(packet)
            if isinstance(node, ops.Host):
                self.values, self.extents = {}, {}


CHANGING = (
    ops.MetaSet, ops.MarkClear, ops.Resize, ops.Emit, ops.Kill, ops.RingPush, ops.SlotPut, ops.Host, ops.Lend,
)  # fmt: skip


def touched(node: object) -> list[str]:
    """The packet locals whose metadata, or whose packet, an op may change."""
    if isinstance(node, ops.Make | ops.MakeFrom | ops.Clone | ops.Pull | ops.RingPop | ops.SlotTake | ops.Adopt):
        return [node.name]
    if isinstance(node, ops.Call):
        return [a.name for a in node.args if isinstance(a, Local)]
    if isinstance(node, CHANGING) and isinstance(node.packet, Local):
        return [node.packet.name]
    return []
