"""Proves that packets are linear: on every path each one is pushed, returned, stored or killed exactly once.

The proof follows the paths of a function and keeps what is known about each local (`ir.owners`).  Tests for none refine
it, meeting paths join it, a loop is followed until nothing changes.  On the way it also proves that a number has a
value where it is read and that a function gives back what it promises.

Who owns: `process` and `push` own the packet that comes in, a function owns what it makes, clones, pulls or takes
from its state.  Packets passed to other functions and to Python are lent: they come back.  In `process`, returning a
port gives the packet away; in `pull`, returning the packet does.  Code that no path reaches is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from mezzo.base import Note, Reporter, Span
from mezzo.ir import ops
from mezzo.ir.module import Function, Unit
from mezzo.ir.owners import (
    CONFLICT,
    GONE,
    LENT,
    LIVE,
    MAYBE,
    NONE,
    OWNED,
    PARTLY,
    POISON,
    SET,
    Fact,
    Facts,
    Kind,
    join_facts,
    kinds,
)
from mezzo.ir.spec import ROWS
from mezzo.ir.types import PACKET, VOID

BIRTHS: dict[type[ops.Stmt], str] = {
    ops.Make: "made",
    ops.MakeFrom: "made",
    ops.Clone: "cloned",
    ops.Pull: "pulled",
    ops.RingPop: "taken from the ring",
    ops.SlotTake: "taken from its slot",
    ops.Adopt: "adopted",
}
GIVES: dict[type[ops.Stmt], str] = {
    ops.Emit: "pushed",
    ops.Kill: "killed",
    ops.RingPush: "stored",
    ops.SlotPut: "stored",
    ops.Lend: "lent to a ring",
}
SETS = {
    ops.Set: "name", ops.TablePut: "done", ops.TableDel: "done", ops.RunTask: "name", ops.ReadClock: "name",
    ops.Lend: "name",
}  # fmt: skip
WAYS = "push, return, store or kill it"


def check_linear(unit: Unit) -> None:
    """MezzoError lists every place where a packet is lost, used when it is gone, or may be none."""
    reporter = Reporter()
    for function in unit.functions:
        _Walk(function, reporter).run()
    reporter.raise_if_errors()


@dataclass
class _Loop:
    """The paths that leave a round."""

    breaks: list[Facts] = field(default_factory=list)
    continues: list[Facts] = field(default_factory=list)


class _Walk:
    """Follows the paths of one function."""

    def __init__(self, function: Function, reporter: Reporter) -> None:
        self.function, self.reporter, self.span = function, reporter, function.span
        self.loops: list[_Loop] = []
        self.silent = 0
        self.select = 0
        self.reported: set[tuple[str, Span | None]] = set()

    def run(self) -> None:
        owns = self.function.name in ("process", "push")
        facts: Facts = {}
        for p in self.function.params:
            kind = SET if p.type is not PACKET else LIVE if owns else LENT
            facts[p.name] = Fact(kind, self.function.span, f"`{p.name}` comes in here")
        end = self.body(self.function.body, facts)
        if end is None:
            return
        if self.function.ret in (VOID, PACKET) or self.function.name == "process":
            self.leave(ops.Return(span=self.function.span), end)
        else:
            name, ret = self.function.name, self.function.ret
            self.error(f"{name} may end without giving back a {ret}", self.function.span, hint="end it with a `return`")

    def error(self, message: str, span: Span | None, notes: list[Note] | None = None, hint: str = "") -> None:
        if not self.silent and (message, span) not in self.reported:
            self.reported.add((message, span))
            self.reporter.error(message, span, notes or [], hint)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self.silent += 1
        try:
            yield
        finally:
            self.silent -= 1

    # -- statements

    def body(self, body: ops.Body, facts: Facts | None) -> Facts | None:
        for statement in body:
            if facts is None:
                break
            self.span = getattr(statement, "span", None) or self.span
            facts = self.statement(statement, facts)
        return facts

    def statement(self, node: ops.Stmt, facts: Facts) -> Facts | None:
        match node:
            case ops.If():
                then, orelse = self.test(node.cond, facts)
                return join_facts([self.body(node.then, then), self.body(node.orelse, orelse)])
            case ops.For():
                return self.loop(node, facts)
            case ops.Return():
                self.leave(node, facts)
                return None
            case ops.Break():
                self.loops[-1].breaks.append(facts)
                return None
            case ops.Continue():
                self.loops[-1].continues.append(facts)
                return None
        return self.plain(node, facts)

    def plain(self, node: ops.Stmt, facts: Facts) -> Facts:
        """A statement after which the next one runs."""
        kind = type(node)
        for name in ROWS[kind]:
            value = getattr(node, name)
            if isinstance(value, ops.Expr) and not (kind in GIVES and name == "packet"):
                facts = self.read(value, facts)
        if isinstance(node, (ops.Emit, ops.Kill, ops.RingPush, ops.SlotPut, ops.Lend)):
            facts = self.give(node.packet, GIVES[kind], facts)
        if isinstance(node, (ops.Make, ops.MakeFrom, ops.Clone, ops.Pull, ops.RingPop, ops.SlotTake)):
            return self.birth(node.name, BIRTHS[kind], facts)
        if isinstance(node, ops.Adopt):  # a packet, or a fault
            return self.birth(node.name, BIRTHS[kind], facts, LIVE)
        if kind in SETS and getattr(node, SETS[kind]):
            name = getattr(node, SETS[kind])
            return {**facts, name: Fact(SET, self.span, f"`{name}` is set here")}
        return facts

    def birth(self, name: str, verb: str, facts: Facts, kind: Kind = MAYBE) -> Facts:
        old = facts.get(name)
        fresh = Fact(kind, self.span, f"`{name}` was {verb} here")
        if old is not None and old.kind in (*OWNED, LENT):
            self.overwritten(name, old)
            fresh = fresh.become(POISON)
        return {**facts, name: fresh}

    def overwritten(self, name: str, old: Fact) -> None:
        may = "still holds" if old.kind in (LIVE, LENT) else "may still hold"
        if old.born is not None and old.born == self.span:
            what, notes = f"`{name}` {may} the packet of the round before", []
        else:
            what, notes = f"`{name}` {may} a packet, which would be lost here", self.story(old)
        self.error(what, self.span, notes, f"{WAYS} first, or give the new packet another name")

    # -- loops

    def loop(self, node: ops.For, facts: Facts) -> Facts | None:
        facts = self.read(node.count, facts)
        count = node.count.value if isinstance(node.count, ops.Const) else -1
        if count == 0 or node.limit == 0:
            return facts
        entry = {**facts, node.name: Fact(SET, node.span, f"`{node.name}` is set here")}
        if count != 1 and node.limit != 1:
            entry = self.settle(node, entry)
        back, breaks = self.round(node, entry)
        ended = back if count > 0 else join_facts([facts, back])
        return join_facts([ended, *breaks])

    def round(self, node: ops.For, entry: Facts) -> tuple[Facts | None, list[Facts]]:
        """Where a round that starts with `entry` comes back to, and where it breaks off."""
        self.loops.append(_Loop())
        end = self.body(node.body, entry)
        left = self.loops.pop()
        return join_facts([end, *left.continues]), left.breaks

    def settle(self, node: ops.For, entry: Facts) -> Facts:
        """What is known at the start of any round."""
        before = entry
        while True:
            with self.quiet():
                back, _ = self.round(node, entry)
            grown = join_facts([entry, self.sound(entry, back)]) or entry
            for name in self.lost(node, before, back):
                grown = {**grown, name: grown[name].become(POISON)}
            if kinds(grown) == kinds(entry):
                return entry
            entry = grown

    def sound(self, entry: Facts, back: Facts | None) -> Facts | None:
        """`back` without what a quiet round poisoned: the round that is not quiet will report that."""
        if back is None:
            return None
        poisoned = {name for name, fact in back.items() if fact.kind is POISON}
        kept = {name: fact for name, fact in back.items() if name not in poisoned}
        return kept | {name: entry[name] for name in poisoned & entry.keys()}

    def lost(self, node: ops.For, before: Facts, back: Facts | None) -> Iterator[str]:
        """Packets from before the loop that a round gives away and then goes round again."""
        for name, fact in before.items():
            after = back.get(name) if back is not None and fact.kind in (LIVE, MAYBE) else None
            if after is None or after.kind not in (GONE, CONFLICT):
                continue
            self.error(
                f"`{name}` is {after.verb} in a loop, and the next round would not have it",
                after.left,
                [Note("the loop begins here", node.span), *self.origin(fact)],
                f"give away a clone in the loop (copy = {name}.clone()), or leave it right after (return or break)",
            )
            yield name

    # -- the end of a path

    def leave(self, node: ops.Return, facts: Facts) -> None:
        if self.function.name == "process" and node.value is not None:
            facts = self.read(node.value, facts)
            facts = self.give_by_port(self.function.params[0].name, facts)
        elif self.function.ret is PACKET and isinstance(node.value, ops.Local):
            facts = self.give_back(node.value, facts)
        elif node.value is not None:
            facts = self.read(node.value, facts)
        for name, fact in facts.items():
            if fact.kind in OWNED:
                self.leak(name, fact)

    def give_by_port(self, name: str, facts: Facts) -> Facts:
        fact = facts[name]
        if fact.kind is GONE:
            self.error(
                f"`{name}` is to leave by the output returned here, but it is gone already",
                self.span,
                self.story(fact),
                "write a bare `return` where the packet was given away before",
            )
            return {**facts, name: fact.become(POISON)}
        return self.give(ops.Local(PACKET, name), "returned", facts)

    def give_back(self, local: ops.Local, facts: Facts) -> Facts:
        """`pull` may return a packet that is none."""
        fact = facts.get(local.name)
        if fact is not None and fact.kind in (LIVE, MAYBE, NONE):
            return {**facts, local.name: fact.become(GONE, self.span, "returned")}
        return self.give(local, "returned", facts)

    def leak(self, name: str, fact: Fact) -> None:
        role = self.function.name
        where = f"{role} ends here"
        if fact.kind is CONFLICT:
            what = f"`{name}` is lost on some paths: {where}, and not all of them gave it away"
        else:
            what = f"`{name}` {'is' if fact.kind is LIVE else 'may be'} lost: {where} and still holds it"
        port = role == "process" and name == self.function.params[0].name
        hint = "return its output port (`return 0`), or push, store or kill it" if port else WAYS
        if fact.kind is MAYBE:
            hint = f"where it is one (`if {name} is not None: …`), {WAYS}"
        self.error(what, self.span, self.story(fact), hint + (" on every path" if fact.kind is CONFLICT else ""))

    # -- uses

    def give(self, packet: ops.Expr, verb: str, facts: Facts) -> Facts:
        if not isinstance(packet, ops.Local):
            return facts
        facts = self.use(packet.name, facts)
        fact = facts[packet.name]
        if fact.kind is LENT:
            self.error(
                f"`{packet.name}` is lent to {self.function.name} and cannot be {verb} here",
                self.span,
                self.origin(fact),
                "only process and push own the packet that comes in: give back a number that says what to do with it",
            )
            fact = fact.become(POISON)
        return {**facts, packet.name: fact if fact.kind is POISON else fact.become(GONE, self.span, verb)}

    def read(self, node: ops.Expr, facts: Facts) -> Facts:
        """Everything the expression reads must be there; what was wrong is poisoned in the facts returned."""
        span = self.span
        self.span = getattr(node, "span", None) or span
        match node:
            case ops.Local():
                facts = self.use(node.name, facts) if node.type is PACKET else self.number(node.name, facts)
            case ops.IsNone() | ops.Logic() | ops.Not():
                facts = join_facts(self.test(node, facts)) or facts
            case _:
                self.select += isinstance(node, ops.Select)
                for part in chain.from_iterable(_parts(getattr(node, name)) for name in ROWS[type(node)]):
                    facts = self.read(part, facts)
                self.select -= isinstance(node, ops.Select)
        self.span = span
        return facts

    def test(self, cond: ops.Expr, facts: Facts) -> tuple[Facts | None, Facts | None]:
        """What is known where the condition holds, and where it does not."""
        match cond:
            case ops.Const():
                return (facts, None) if cond.value else (None, facts)
            case ops.Not():
                yes, no = self.test(cond.a, facts)
                return no, yes
            case ops.Logic():
                return self.test_both(cond, facts)
            case ops.IsNone(packet=ops.Local(name=name)):
                return self.test_none(name, cond.span or self.span, facts)
        facts = self.read(cond, facts)
        return facts, facts

    def test_both(self, cond: ops.Logic, facts: Facts) -> tuple[Facts | None, Facts | None]:
        yes, no = self.test(cond.a, facts)
        going, decided = (yes, no) if cond.op == "and" else (no, yes)
        if going is None:
            return yes, no
        yes, no = self.test(cond.b, going)
        return (yes, join_facts([decided, no])) if cond.op == "and" else (join_facts([decided, yes]), no)

    def test_none(self, name: str, span: Span | None, facts: Facts) -> tuple[Facts | None, Facts | None]:
        fact = facts.get(name)
        if fact is not None and fact.kind in (LIVE, LENT):
            return None, facts
        if fact is not None and fact.kind is NONE:
            return facts, None
        if fact is not None and fact.kind is MAYBE:
            return {**facts, name: fact.become(NONE, span)}, {**facts, name: fact.become(LIVE)}
        facts = self.use(name, facts)
        return facts, facts

    def use(self, name: str, facts: Facts) -> Facts:
        """The packet is needed here."""
        fact = facts.get(name, Fact(PARTLY))
        if fact.kind in (LIVE, LENT, POISON):
            return facts
        what, hint = self.complaint(name, fact)
        self.error(what, self.span, self.story(fact), hint)
        return {**facts, name: fact.become(POISON)}

    def complaint(self, name: str, fact: Fact) -> tuple[str, str]:
        if fact.kind is MAYBE:
            hint = f"test it first: `if {name} is None: …`"
            if self.select:
                hint = f"both sides of `a if … else b` are computed; write an if statement: `if {name} is not None: …`"
            return f"`{name}` may be none here", hint
        if fact.kind is NONE:
            return f"`{name}` is none here", f"use it where `{name} is not None` holds"
        if fact.kind is GONE:
            hint = f"use it before it goes, or keep a clone: copy = {name}.clone()"
            return f"`{name}` is gone here: it was {fact.verb} before", hint
        if fact.kind is CONFLICT and fact.verb:
            hint = "return on those paths, or give it away on all"
            return f"`{name}` is gone here on some paths: there it was {fact.verb} before", hint
        return f"`{name}` has a packet only on some paths to here", "use it in the branch that made it"

    def number(self, name: str, facts: Facts) -> Facts:
        fact = facts.get(name)
        if fact is not None and fact.kind in (SET, POISON):
            return facts
        notes = self.origin(fact) if fact is not None else []
        hint = f"give it one before the branch or loop: {name} = 0"
        self.error(f"`{name}` has no value on some paths to here", self.span, notes, hint)
        return {**facts, name: Fact(POISON)}

    # -- the other places

    def origin(self, fact: Fact) -> list[Note]:
        return [Note(fact.birth, fact.born)] if fact.birth and fact.born is not None else []

    def story(self, fact: Fact) -> list[Note]:
        """Where the packet came from, and where it went."""
        if fact.kind is NONE:
            return [Note("it was tested here", fact.left)] if fact.left is not None else self.origin(fact)
        went = [Note(f"it was {fact.verb} here", fact.left)] if fact.verb and fact.left is not None else []
        return went if fact.kind is GONE else [*self.origin(fact), *went]


def _parts(value: object) -> Iterator[ops.Expr]:
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, ops.Expr):
            yield part
