"""The kernel's half of an element: its usual work stays, the rest goes up.

A packet that needs what the kernel cannot do, or what is not worth its place there, is *punted*: it goes to the level
above as it came in, and there through the same instance from its input on.  So a way through the code is left where
nothing was changed on it yet: no write to the packet, its marks, its annotations or state, and no random number.

    if p.anno.u8[16] == self.color:           if p.anno.u8[16] == self.color:
      q = clone(p)                              return PUNT
      …                               ->      return 0
    return 0

Rules, for the statements from one place to the end of the function (the rest of a way):
* all of them go, and are short enough: they stay as they are;
* an If that only looks: where its sides changed nothing when they lead on, they and what stands behind are looked at by
  themselves; else each side is taken on with what stands behind it, so that one stays though the other does not.  A
  condition that is known there is not asked again;
* a statement that only looks (sets a local, or is a loop of such): it stays, and the next is looked at;
* else PUNT.

Helpers that neither remaining code calls, and state that it does not use, are not of the half.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mezzo.base import Diagnostic, Span
from mezzo.ir import ops
from mezzo.ir.cost import rounds
from mezzo.ir.growth import array_growth, growth
from mezzo.ir.module import Function, Linked, Unit
from mezzo.ir.spec import nodes
from mezzo.ir.types import PACKET, U32
from mezzo.passes import PIPELINE
from mezzo.targets.kernel.capable import helpers, not_last, returns, sends, troubles
from mezzo.targets.kernel.layout import packet_functions

COSTLY = 400  # nodes of IR of a way that are not worth their place in a program, where nobody asked for them
LARGEST = 4000  # of a half: ways that are taken apart are written several times
LOOKED_THROUGH = 8  # rounds of a loop that cost; the verifier proves one for all of more
LOOKS = (ops.Set, ops.Eval, ops.If, ops.For, ops.Break, ops.Continue, ops.Return)
COST = "it has a way that is long, and not worth its place in a program"
FULL = "its code is more than goes into a program"
RACE = "it changes `{}`, which it also reads, and packets come here on several CPUs"
LEAVES = (ops.Return, ops.Emit, ops.Kill)
PUNT = ops.Const(U32, ops.PUNT)
_SETS = (ops.Put, ops.Store, ops.TablePut, ops.TableDel)


@dataclass(frozen=True, slots=True)
class Half:
    """What of a unit goes into the kernel: `unit`, None when nothing does; `ups`, why some packets go up."""

    unit: Unit | None
    ups: tuple[Diagnostic, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.unit is not None and not self.ups


def half_of(unit: Unit, most: int | None = COSTLY, raced: frozenset[str] = frozenset()) -> Half:
    """The kernel's half of a unit to which packets are pushed.  `most`: nodes of a way, None for any number; `raced`:
    state that it must not change."""
    functions = packet_functions(unit)
    if not functions:
        return Half(None, (Diagnostic("no packets are pushed to it"),))
    role, cut = functions[0], _Cutter(unit, functions[0], most, raced)
    body = cut.rest(role.body)
    ups = tuple(Diagnostic(reason, span) for reason, span in cut.found.items())
    if body == cut.punted:
        return Half(None, ups)
    return Half(_with_body(unit, role, body, (most, sorted(raced))), ups)


def half_of_linked(linked: Linked, most: int | None = COSTLY) -> Half:
    """The half of an instance in its place; one that packets are pulled through has none."""
    if any(linked.pull_inputs):
        return Half(None, (Diagnostic("packets are pulled through it"),))
    return half_of(linked.unit, most)


def sets(unit: Unit) -> set[str]:
    """State that packets set in it, other than by adding to a scalar, or to an array's element."""
    found = (n for f in packet_functions(unit) for n in nodes(f.body) if isinstance(n, _SETS))
    return {n.state for n in found if growth(n) is None and array_growth(n) is None}


def adds_in_arrays(unit: Unit) -> set[str]:
    """Arrays to whose elements packets add in it."""
    found = (n for f in packet_functions(unit) for n in nodes(f.body) if isinstance(n, ops.Store))
    return {n.state for n in found if array_growth(n) is not None}


def adds(unit: Unit) -> set[str]:
    """Scalars that packets add to in it."""
    found = (n for f in packet_functions(unit) for n in nodes(f.body) if isinstance(n, ops.Put))
    return {n.state for n in found if growth(n) is not None}


def _with_body(unit: Unit, role: Function, body: ops.Body, how: object) -> Unit:
    """The unit with this code for the role, and with what it needs."""
    names = {role.name, *helpers(unit, body)}
    kept = (replace(f, body=body) if f is role else f for f in unit.functions if f.name in names)
    made = replace(unit, functions=tuple(kept))
    for one_pass in PIPELINE:
        made = one_pass(made)
    used = {name for f in made.functions for n in nodes(f.body) if isinstance(name := getattr(n, "state", None), str)}
    digest = hashlib.sha256(f"{unit.digest} {how}".encode()).hexdigest()
    states = tuple(s for s in unit.states if s.name in used)
    return replace(made, states=states, hosts=(), digest=digest)


class _Cutter:
    """Cuts one role; `found` gets the reasons, with the place of the first."""

    def __init__(self, unit: Unit, role: Function, most: int | None, raced: frozenset[str]) -> None:
        self.unit, self.most, self.raced, self.around = unit, most, raced, role.span
        self.found: dict[str, Span | None] = {}
        self.room = LARGEST
        self.goes_on = next(not_last(role.body, role.span), None) is not None
        # Of each statement: what does not go, and its size; it is kept so that its id is its own.
        self.known: dict[int, tuple[tuple[str, Span | None] | None, int, ops.Stmt]] = {}
        packet = next(p.name for p in role.params if p.type is PACKET)
        up = ops.Emit(PUNT, ops.Local(PACKET, packet))
        self.punted: ops.Body = (up, ops.Return()) if role.name == "push" else (ops.Return(PUNT),)

    def rest(self, body: ops.Body) -> ops.Body:
        """What of the statements up to the end of the role stays."""
        kept: list[ops.Stmt] = []
        while (why := self.trouble(body)) is not None:
            first, behind = body[0], body[1:]
            if isinstance(first, ops.If) and self.only_looks(first.cond):
                if not self.meets(first, behind):
                    return self.ended(kept, self.apart(first, behind))
                sides = (self.rest(side) if side else () for side in (first.then, first.orelse))
                kept.append(replace(first, then=next(sides), orelse=next(sides)))
            elif self.only_looks(first) and not isinstance(first, ops.Return):
                kept.append(first)
            else:
                self.found.setdefault(*why)
                return self.ended(kept, self.punted)
            body = behind
        self.room -= sum(map(self.sized, body))
        return (*kept, *body)

    def ended(self, kept: list[ops.Stmt], end: ops.Body) -> ops.Body:
        """What was kept and what comes last; looks that lead to nothing but a punt are not missed."""
        while end == self.punted and kept and not any(isinstance(n, LEAVES) for n in nodes(kept[-1])):
            kept.pop()
        return (*kept, *end)

    def meets(self, first: ops.If, behind: ops.Body) -> bool:
        """Whether what stands behind an If can be cut for both sides at once."""
        sides = (first.then, first.orelse)
        goes = self.trouble(behind) is None and not any(sends(s) and not returns(s) for s in sides)
        return goes or all(map(self.falls_clean, sides))

    def apart(self, first: ops.If, behind: ops.Body) -> ops.Body:
        """An If, each of its sides with what stands behind it."""
        then, orelse = (
            self.rest(side if returns(side) else (*side, *_knowing(behind, first.cond, truth)))
            for side, truth in ((first.then, True), (first.orelse, False))
        )
        return then if then == orelse == self.punted else (replace(first, then=then, orelse=orelse),)

    def falls_clean(self, body: ops.Body) -> bool:
        """Whether nothing was changed on the ways that lead to what stands behind."""
        for place, statement in enumerate(body):
            if isinstance(statement, ops.If) and self.only_looks(statement.cond):
                if not all(map(self.falls_clean, (statement.then, statement.orelse))):
                    return False
            elif not self.only_looks(statement):
                return returns(body[place:])
        return True

    def trouble(self, body: ops.Body) -> tuple[str, Span | None] | None:
        """Why the statements cannot stay as they are."""
        bad = next((why for one in body if (why := self.bad(one)) is not None), None)
        if bad is None and self.goes_on:
            bad = next(not_last(body, self.around), None)
        if bad is not None:
            return bad
        size = sum(map(self.sized, body))
        reason = COST if self.most is not None and size > self.most else FULL if size > self.room else ""
        return (reason, next((s for x in body if (s := getattr(x, "span", None))), self.around)) if reason else None

    def bad(self, statement: ops.Stmt) -> tuple[str, Span | None] | None:
        """The first thing in a statement that does not go."""
        if id(statement) not in self.known:
            found = next(troubles(self.unit, statement, self.around), None) or next(self.races(statement), None)
            self.known[id(statement)] = found, self.size(statement), statement
        return self.known[id(statement)][0]

    def sized(self, statement: ops.Stmt) -> int:
        self.bad(statement)
        return self.known[id(statement)][1]

    def races(self, part: object) -> Iterator[tuple[str, Span | None]]:
        for one in (part, *self.callees(part)) if self.raced else ():
            for node in nodes(one):
                if isinstance(node, _SETS) and node.state in self.raced:
                    yield RACE.format(node.state), node.span

    def callees(self, part: object) -> list[ops.Body]:
        return [f.body for name in helpers(self.unit, part) if (f := self.unit.function(name)) is not None]

    def only_looks(self, part: ops.Node) -> bool:
        """Whether a statement or expression goes and changes nothing."""
        inside = [n for one in (part, *self.callees(part)) for n in nodes(one)]
        if any(isinstance(n, ops.Random) or (isinstance(n, ops.Stmt) and not isinstance(n, LOOKS)) for n in inside):
            return False
        return next(troubles(self.unit, part), None) is None and not (isinstance(part, ops.For) and _leaves(part))

    def size(self, part: object) -> int:
        """Nodes, with those of helpers at each call, and of a loop by its rounds."""
        if isinstance(part, tuple):
            return sum(map(self.size, part))
        if not isinstance(part, ops.Node):
            return 0
        inner = sum(self.size(value) for value in vars(part).values() if isinstance(value, tuple | ops.Node))
        if isinstance(part, ops.Call):
            function = self.unit.function(part.function)
            assert function is not None, "the unit is valid"
            inner += self.size(function.body)
        times = min(rounds(part), LOOKED_THROUGH) if isinstance(part, ops.For) else 1
        return 1 + inner * times


def _leaves(loop: ops.For) -> bool:
    """Whether a way leads out of the function from inside a loop."""
    return any(isinstance(n, ops.Return) for n in nodes(loop))


def _knowing(body: ops.Body, cond: ops.Expr, truth: bool) -> ops.Body:
    """The statements where a condition came out so: an If that asks the same local again is decided."""
    if isinstance(cond, ops.Not):
        return _knowing(body, cond.a, not truth)
    if not isinstance(cond, ops.Local) or cond.name in _assigned(body):
        return body
    return _decided(body, cond.name, truth)


def _assigned(body: ops.Body) -> set[str]:
    """The locals that statements set, also as their `done`."""
    found = [getattr(n, field, "") for n in nodes(body) if isinstance(n, ops.Stmt) for field in ("name", "done")]
    return {name for name in found if isinstance(name, str)}


def _decided(body: ops.Body, name: str, truth: bool) -> ops.Body:
    made: list[ops.Stmt] = []
    for statement in body:
        if isinstance(statement, ops.If):
            then, orelse = _decided(statement.then, name, truth), _decided(statement.orelse, name, truth)
            asked, turned = statement.cond, False
            while isinstance(asked, ops.Not):
                asked, turned = asked.a, not turned
            if isinstance(asked, ops.Local) and asked.name == name:
                made += then if truth != turned else orelse
            else:
                made.append(replace(statement, then=then, orelse=orelse))
        else:
            made.append(statement)
    return tuple(made)
