"""From a decision diagram to the IR of `process`.

Packets that are long enough for every test are matched without looking at their length again.  For the others a small
diagram is written once more, as `short`, where each test asks for its bytes first; for a larger one the bytes that
tests are about become locals, the missing ones filled up (`decision_fields`), and the diagram is written once.

A diagram shares nodes; structured code has no goto.  A shared node is written in place where control falls into it:
the statements behind an `if` are the continuation of both its branches.  Where it is reached from elsewhere too it is a
function of its own; so each node is written once, and the code grows with the diagram and not with its paths.  LLVM
makes jumps of the calls and switches out of comparisons of one word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mezzo.elements.decision import ByteTest, Clause, Diagram, Rule
from mezzo.elements.decision_fields import Field, fields_of
from mezzo.ir import ops
from mezzo.ir.builder import UnitBuilder
from mezzo.ir.module import Function, Param
from mezzo.ir.types import I64, KILL, PACKET, U32, by_width

_PACKET = ops.Local(PACKET, "p")
Needs = dict[str, int]  # mark -> bytes behind it that are known to be there


def process(builder: UnitBuilder, rules: Sequence[Rule], ports: Sequence[int], reason: str) -> None:
    """Adds `process`: rule i sends by `ports[i]`, the last port is for no rule; KILL is a drop with `reason`."""
    diagram = Diagram(rules)
    needs = diagram.needs()
    coder = _Coder(builder, diagram, ports, builder.reason(reason), "at", needs)
    if diagram.root < 0:
        builder.process(coder.code(diagram.root, None, True))
        return
    hurry = _Coder(builder, Diagram(_for_short(rules, needs)), ports, coder.reason, "short", {})
    enough = _both([long_enough(mark, need) for mark, need in needs.items()])
    start = hurry.diagram.root
    fields = fields_of(diagram)
    if fields is not None and len(fields) < len(hurry.diagram.nodes):
        coder = _Coder(builder, diagram, ports, coder.reason, "at", needs, fields)
        read = tuple(ops.Set(field.name, field.load(field.width)) for field in fields)
        builder.process((ops.If(enough, read, _filled(fields)), *coder.code(diagram.root, None, True)))
        return
    other = hurry.code(start, None, True) if start < 0 else (ops.Return(hurry.call(start), coder.reason),)
    builder.process((ops.If(enough, coder.code(diagram.root, None, True)), *other))


def _filled(fields: Sequence[Field]) -> ops.Body:
    """Sets the fields as far as a packet has their bytes."""
    body: list[ops.Stmt] = []
    for mark in dict.fromkeys(field.mark for field in fields):
        mine = [field for field in fields if field.mark == mark]
        body += [field.filled(*field.fills[0]) for field in mine]
        there = tuple(
            ops.If(has_bytes(mark, field.offset + count), (field.filled(count, fill),))
            for field in mine for count, fill in field.fills[1:]
        )  # fmt: skip
        body += there if mark == "data" else (ops.If(has_mark(mark), there),)
    return tuple(body)


def _for_short(rules: Sequence[Rule], needs: Needs) -> Sequence[Rule]:
    """The rules as they are for packets that are too short: what needs the last byte is false."""
    if len(needs) != 1:
        return rules
    (need,) = needs.values()
    return [tuple(_short_clause(clause, need) for clause in rule) for rule in rules]


def _short_clause(clause: Clause, need: int) -> Clause:
    return Clause((), not clause.negated) if any(test.need >= need for test in clause.tests) else clause


def asked(test: ByteTest, fields: Sequence[Field]) -> ops.Expr:
    """The test as comparisons of the fields."""
    parts = []
    for field in fields:
        mask, value = field.part(test)
        looked: ops.Expr = field.local
        if mask != field.mask:
            looked = ops.Bin("and", field.type, looked, ops.Const(field.type, mask))
        if mask:
            parts.append(ops.Cmp("eq", looked, ops.Const(field.type, value)))
    return _both(parts)


def condition(test: ByteTest, have: Needs) -> ops.Expr:
    """The test as an expression; its bytes must be there.  Whole words are read where they are known to be there,
    because tests of one word then share the read."""
    if test.offset + test.width <= have.get(test.mark, 0):
        return _compare(test)
    first = next(at for at in range(test.offset, test.need) if test.part(at, 1).mask)
    parts: list[ops.Expr] = []
    while first < test.need:
        width = next(w for w in (4, 2, 1) if first + w <= test.need)
        parts.append(_compare(test.part(first, width)))
        first += width
    return _both(parts)


def _both(parts: Sequence[ops.Expr]) -> ops.Expr:
    whole = parts[0]
    for part in parts[1:]:
        whole = ops.Logic("and", whole, part)
    return whole


def _compare(test: ByteTest) -> ops.Expr:
    type_ = by_width(8 * test.width)
    loaded: ops.Expr = ops.PLoad(type_, _PACKET, test.mark, ops.u32(test.offset))
    if test.mask != type_.mask:
        loaded = ops.Bin("and", type_, loaded, ops.Const(type_, test.mask))
    return ops.Cmp("eq", loaded, ops.Const(type_, test.value))


def long_enough(mark: str, need: int) -> ops.Expr:
    """Whether there are `need` bytes behind the mark."""
    return has_bytes(mark, need) if mark == "data" else ops.Logic("and", has_mark(mark), has_bytes(mark, need))


def has_mark(mark: str) -> ops.Expr:
    return ops.Meta(ops.TRUE.type, _PACKET, "has_" + mark)


def has_bytes(mark: str, need: int) -> ops.Expr:
    """The same, of a mark that is set."""
    length = ops.Meta(U32, _PACKET, "length")
    if mark == "data":
        return ops.Cmp("ge", length, ops.u32(need))
    end = ops.Bin("add", I64, ops.Meta(I64, _PACKET, mark), ops.Const(I64, need))
    return ops.Cmp("ge", ops.Cast(I64, length), end)


class _Coder:
    """Writes one diagram; `have`: the bytes that are known to be there, else every test looks; `fields`: the locals
    that tests are about, where they are not about the packet."""

    def __init__(
        self,
        builder: UnitBuilder,
        diagram: Diagram,
        ports: Sequence[int],
        reason: int,
        prefix: str,
        have: Needs,
        fields: Sequence[Field] = (),
    ) -> None:
        self.builder, self.diagram, self.ports, self.reason = builder, diagram, ports, reason
        self.prefix, self.have, self.fields = prefix, have, fields
        self.reach = self.reached()
        self.looked = [sum(1 << i for i, n in enumerate(diagram.nodes) if f.part(n.test)[0]) for f in fields]
        ends = [end for node in diagram.nodes for end in (node.yes, node.no)]
        self.ways = Counter([diagram.root, *ends])  # that lead to each node and are not written yet

    def reached(self) -> list[int]:
        """For each node the set of nodes it leads to, itself included, as bits."""
        found = [0] * len(self.diagram.nodes)
        for at in range(len(found) - 1, -1, -1):
            node = self.diagram.nodes[at]
            found[at] = 1 << at | (found[node.yes] if node.yes >= 0 else 0) | (found[node.no] if node.no >= 0 else 0)
        return found

    def leads(self, start: int, to: int) -> bool:
        return start >= 0 and to >= 0 and bool(self.reach[start] >> to & 1)

    def leave(self, end: int, owned: bool) -> ops.Stmt:
        """An answer: `owned` where the packet leaves here, else the number goes back to the caller."""
        answer = -1 - end
        reason = self.reason if owned and self.ports[answer] == KILL else -1
        return ops.Return(ops.u32(self.ports[answer]), reason)

    def name(self, at: int) -> str:
        return f"{self.prefix}{at}"

    def call(self, at: int) -> ops.Expr:
        """A call of the function that goes on at a node."""
        name = self.name(at)
        fields = [field for field, looked in zip(self.fields, self.looked, strict=True) if self.reach[at] & looked]
        if name not in self.builder.functions:
            given = tuple(Param(field.name, field.type) for field in fields)
            made = Function(name, given if fields else (Param("p", PACKET),), U32, ())
            self.builder.add(made)  # its place, so that it is written once
            self.builder.add(Function(name, made.params, U32, self.code(at, None, False, top=True)))
        return ops.Call(U32, name, tuple(field.local for field in fields) or (_PACKET,))

    def code(self, at: int, fall: int | None, owned: bool, top: bool = False) -> ops.Body:
        """Statements that end with an answer, or fall off the end where the diagram goes on at `fall`."""
        body: list[ops.Stmt] = []
        while at != fall:
            if at < 0:
                body.append(self.leave(at, owned))
                break
            if not top:
                self.ways[at] -= 1
                if self.ways[at] != 0 or self.name(at) in self.builder.functions:
                    body.append(ops.Return(self.call(at), self.reason if owned else -1))
                    break
            top = False
            at = self.step(at, fall, owned, body)
        else:
            self.ways[at] -= 1
        return tuple(body)

    def step(self, at: int, fall: int | None, owned: bool, body: list[ops.Stmt]) -> int:
        """Writes one test; the branch that is not inside the `if` goes on behind it."""
        node = self.diagram.nodes[at]
        test = asked(node.test, self.fields) if self.fields else condition(node.test, self.have)
        if not self.have:
            test = ops.Logic("and", long_enough(node.test.mark, node.test.need), test)
        if node.yes == fall or (node.no != fall and self.behind(node.yes, node.no)):
            body.append(ops.If(ops.Not(test), self.code(node.no, node.yes, owned)))
            return node.yes
        body.append(ops.If(test, self.code(node.yes, node.no, owned)))
        return node.no

    def behind(self, yes: int, no: int) -> bool:
        """Whether the yes branch is better written behind the `if` than in it."""
        return (no < 0 <= yes) or self.leads(no, yes)
