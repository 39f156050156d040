"""What is known of the packet at a point of the program, while it is written.

Places in the packet are counted from where its first byte was in memory when it came in: known numbers for nearly all
packets, because elements strip, prepend and set marks by constants.  Bytes at a known place are proved by one
comparison of `data + constant` with `data_end`, and all below that constant with it.  A place that is not known gets a
register of its own, compared by itself; the verifier knows what was compared only of that very register, so it is kept.

A fact ends where an op moves what it is about, and where two ways meet that do not agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mezzo.ir import ops
from mezzo.ir.module import Unit
from mezzo.ir.spec import called, nodes

UNSET = 0xFFFF  # where an unset mark is
PLACES = ("data", "front", "mac", "net", "trans")
NOWHERE = -(1 << 62)


@dataclass
class Facts:
    """`known[place]`: its number.  `reach`: bytes up to here are in the packet, and the verifier has seen
    it; up to `sure` they are, but it has not.  `pointers[mark]`: the register with
    the address of a mark that is not known; from there bytes of `extents[mark]` (low, high) are in the packet.
    `maybe[mark]`: the same, or one behind all bytes where the place is out of reach.
    `cases[local]`: what is known beside if the local, a helper's answer, has a value: the ways that gave it met."""

    known: dict[str, int] = field(default_factory=dict)
    reach: int = NOWHERE
    sure: int = NOWHERE
    pointers: dict[str, str] = field(default_factory=dict)
    extents: dict[str, tuple[int, int]] = field(default_factory=dict)
    maybe: dict[str, str] = field(default_factory=dict)
    cases: dict[str, dict[int, Facts]] = field(default_factory=dict)

    def copy(self) -> Facts:
        dicts = dict(self.pointers), dict(self.extents), dict(self.maybe), dict(self.cases)
        return Facts(dict(self.known), self.reach, self.sure, *dicts)

    def both(self, other: Facts) -> Facts:
        """What holds where two ways meet."""
        if other is self:
            return self
        known = {k: v for k, v in self.known.items() if other.known.get(k) == v}
        pointers = {k: v for k, v in self.pointers.items() if other.pointers.get(k) == v}
        extents = {
            k: (max(self.extents[k][0], other.extents[k][0]), min(self.extents[k][1], other.extents[k][1]))
            for k in pointers
        }
        maybe = {k: v for k, v in self.maybe.items() if other.maybe.get(k) == v}
        return Facts(known, min(self.reach, other.reach), min(self.sure, other.sure), pointers, extents, maybe)

    def take(self, case: Facts | None) -> None:
        """It is this case.  Registers that were made on its way are not known where all ways lead."""
        if case is not None:
            self.known |= {place: at for place, at in case.known.items() if place not in self.known}
            self.reach, self.sure = max(self.reach, case.reach), max(self.sure, case.sure)

    def forget(self, place: str) -> None:
        """A place moved."""
        self.cases.clear()
        self.known.pop(place, None)
        self.pointers.pop(place, None)
        self.extents.pop(place, None)
        self.maybe.pop(place, None)

    def data_moved(self) -> None:
        """Ranges that began no lower than the data may now."""
        self.forget("data")
        self.extents = {k: (1 << 62, high) for k, (_, high) in self.extents.items()}

    def memory_moved(self) -> None:
        """The kernel moved an end of the packet: no comparison made before counts."""
        self.pointers, self.extents, self.maybe, self.reach, self.sure = {}, {}, {}, NOWHERE, NOWHERE
        self.cases.clear()

    def enter_loop(self, unit: Unit, body: ops.Body) -> None:
        """Forgets what a round may change."""
        self.cases.clear()
        for node in all_nodes(unit, body):
            if isinstance(node, ops.Resize):
                self.data_moved()
                self.memory_moved()
                self.forget("front")
            elif isinstance(node, ops.Copy | ops.CopyBlob):
                self.memory_moved()
            elif isinstance(node, ops.MetaSet):
                self.forget(node.field)
            elif isinstance(node, ops.MarkClear):
                self.forget(node.mark)


def all_nodes(unit: Unit, body: object) -> list[ops.Node]:
    """The nodes of a body, or of an expression, and of the helpers it calls."""
    found, seen, todo = list(nodes(body)), set[str](), called(body)
    while todo:
        name = todo.pop()
        function = unit.function(name)
        if name in seen or function is None:
            continue
        seen.add(name)
        found += nodes(function.body)
        todo |= called(function.body)
    return found
