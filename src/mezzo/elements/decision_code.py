"""From a decision diagram to the IR of `process`.

Packets that are long enough for every test are matched without looking at their length again; the others take the
function `short`, where each test asks for its bytes first.

A diagram shares nodes; structured code has no goto.  A shared node is written in place where control falls into it:
the statements behind an `if` are the continuation of both its branches.  Where it is reached from elsewhere it is a
function of its own; so each node is written at most twice, and the code grows with the diagram and not with its
paths.  LLVM makes jumps of the calls and switches out of comparisons of one word.
"""

from __future__ import annotations

from collections.abc import Sequence

from mezzo.elements.decision import ByteTest, Clause, Diagram, Rule
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
    other = hurry.code(start, None, True) if start < 0 else (ops.Return(hurry.call(start), coder.reason),)
    builder.process((ops.If(enough, coder.code(diagram.root, None, True)), *other))


def _for_short(rules: Sequence[Rule], needs: Needs) -> Sequence[Rule]:
    """The rules as they are for packets that are too short: what needs the last byte is false."""
    if len(needs) != 1:
        return rules
    (need,) = needs.values()
    return [tuple(_short_clause(clause, need) for clause in rule) for rule in rules]


def _short_clause(clause: Clause, need: int) -> Clause:
    return Clause((), not clause.negated) if any(test.need >= need for test in clause.tests) else clause


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
    length = ops.Meta(U32, _PACKET, "length")
    if mark == "data":
        return ops.Cmp("ge", length, ops.u32(need))
    end = ops.Bin("add", I64, ops.Meta(I64, _PACKET, mark), ops.Const(I64, need))
    return ops.Logic("and", ops.Meta(ops.TRUE.type, _PACKET, "has_" + mark), ops.Cmp("ge", ops.Cast(I64, length), end))


class _Coder:
    """Writes one diagram; `have`: the bytes that are known to be there, else every test looks."""

    def __init__(
        self, builder: UnitBuilder, diagram: Diagram, ports: Sequence[int], reason: int, prefix: str, have: Needs
    ) -> None:
        self.builder, self.diagram, self.ports, self.reason = builder, diagram, ports, reason
        self.prefix, self.have = prefix, have
        self.written: set[int] = set()
        self.reach = self.reached()

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

    def call(self, at: int) -> ops.Expr:
        """A call of the function that goes on at a node."""
        name = f"{self.prefix}{at}"
        if name not in self.builder.functions:
            made = Function(name, (Param("p", PACKET),), U32, ())
            self.builder.add(made)  # its place, so that it is written once
            self.builder.add(Function(name, made.params, U32, self.code(at, None, False, top=True)))
        return ops.Call(U32, name, (_PACKET,))

    def code(self, at: int, fall: int | None, owned: bool, top: bool = False) -> ops.Body:
        """Statements that end with an answer, or fall off the end where the diagram goes on at `fall`."""
        body: list[ops.Stmt] = []
        while at != fall:
            if at < 0:
                body.append(self.leave(at, owned))
                break
            if at in self.written and not top:
                body.append(ops.Return(self.call(at), self.reason if owned else -1))
                break
            self.written.add(at)
            top = False
            at = self.step(at, fall, owned, body)
        return tuple(body)

    def step(self, at: int, fall: int | None, owned: bool, body: list[ops.Stmt]) -> int:
        """Writes one test; the branch that is not inside the `if` goes on behind it."""
        node = self.diagram.nodes[at]
        test = condition(node.test, self.have)
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
