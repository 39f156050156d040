"""What the proof accepts is sound: random code that passes is run along random paths, and no path ever loses a packet,
uses one that is gone or none, or reads a number without a value."""

from __future__ import annotations

from random import Random

import pytest

from mezzo.base import MezzoError
from mezzo.ir import ops
from mezzo.ir.linear import check_linear
from mezzo.ir.module import Function, Param, Unit
from mezzo.ir.types import PACKET, U32

NAMES = ("p", "q")
P = ops.Local(PACKET, "p")


class Broken(Exception):
    """A path that the proof should have refused."""


class Leave(Exception):
    """Return, Break or Continue on its way."""

    def __init__(self, node: ops.Stmt) -> None:
        self.node = node


def random_body(rng: Random, depth: int, loop: bool) -> ops.Body:
    made: list[ops.Stmt] = []
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        made += born_and_tested(rng) if rng.random() < 0.2 else (random_statement(rng, depth, loop),)
    return tuple(made)


def born_and_tested(rng: Random) -> ops.Body:
    """The usual beginning of a packet's life, so that more of the random code is nearly right."""
    q = ops.Local(PACKET, "q")
    use = rng.choice(((ops.Kill(q, -1),), (ops.Set("x", ops.Meta(U32, q, "length")),), (ops.Return(ops.u32(0)),)))
    other = rng.choice(((), (ops.Set("x", ops.u32(1)),), (ops.Return(ops.u32(0)),)))
    birth = rng.choice((ops.Clone("q", P), ops.Pull("q", ops.u32(0))))
    return (birth, ops.If(ops.IsNone(q), other, use))


def random_statement(rng: Random, depth: int, loop: bool) -> ops.Stmt:
    packet = ops.Local(PACKET, rng.choice(NAMES))
    simple: list[ops.Stmt] = [
        ops.Kill(packet, -1),
        ops.Emit(ops.u32(0), packet),
        ops.RingPush("ring", packet),
        ops.Clone("q", P),
        ops.Pull(rng.choice(NAMES), ops.u32(0)),
        ops.Set("x", rng.choice((ops.u32(1), ops.Meta(U32, packet, "length")))),
        ops.Put("n", ops.Local(U32, "x")),
        ops.Return(rng.choice((None, ops.u32(0)))),
        *((ops.Break(), ops.Continue()) if loop else ()),
    ]
    if depth and rng.random() < 0.5:
        if rng.random() < 0.7:
            return ops.If(condition(rng, 2), random_body(rng, depth - 1, loop), random_body(rng, depth - 1, loop))
        count: ops.Expr = rng.choice((ops.u32(1), ops.u32(2), ops.Get(U32, "n")))
        return ops.For("i", count, 3, random_body(rng, depth - 1, True))
    return rng.choice(simple)


def condition(rng: Random, depth: int) -> ops.Expr:
    kind = rng.randrange(5 if depth else 3)
    if kind == 3:
        return ops.Not(condition(rng, depth - 1))
    if kind == 4:
        return ops.Logic(rng.choice(("and", "or")), condition(rng, depth - 1), condition(rng, depth - 1))
    return ops.Ready(0) if kind == 0 else ops.IsNone(ops.Local(PACKET, rng.choice(NAMES)))


class Path:
    """One run; the world's answers are random."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.held: dict[str, bool | None] = {"p": True}  # True a packet, False none, None given away
        self.numbers: set[str] = set()

    def run(self, body: ops.Body) -> None:
        value = None
        try:
            self.body(body)
        except Leave as leave:
            value = leave.node.value if isinstance(leave.node, ops.Return) else None
        if value is not None:
            self.give("p")
        if any(self.held.values()):
            raise Broken("lost")

    def body(self, body: ops.Body) -> None:
        for node in body:
            self.statement(node)

    def statement(self, node: ops.Stmt) -> None:
        match node:
            case ops.Kill() | ops.Emit() | ops.RingPush():
                assert isinstance(node.packet, ops.Local)
                self.give(node.packet.name)
            case ops.Clone() | ops.Pull():
                if isinstance(node, ops.Clone):
                    self.value(ops.Meta(U32, node.packet, "length"))
                if self.held.get(node.name):
                    raise Broken("overwritten")
                self.held[node.name] = self.rng.random() < 0.5
            case ops.Set():
                self.value(node.value)
                self.numbers.add(node.name)
            case ops.Put():
                self.value(node.value)
            case ops.If():
                self.body(node.then if self.value(node.cond) else node.orelse)
            case ops.For():
                self.loop(node)
            case _:
                raise Leave(node)

    def loop(self, node: ops.For) -> None:
        rounds = node.count.value if isinstance(node.count, ops.Const) else self.rng.randrange(4)
        for _ in range(rounds):
            try:
                self.body(node.body)
            except Leave as leave:
                if isinstance(leave.node, ops.Break):
                    return
                if isinstance(leave.node, ops.Return):
                    raise

    def give(self, name: str) -> None:
        if not self.held.get(name):
            raise Broken(f"{name} is not there")
        self.held[name] = None

    def value(self, node: ops.Expr) -> bool:
        match node:
            case ops.Not():
                return not self.value(node.a)
            case ops.Logic():
                return self.value(node.b) if self.value(node.a) is (node.op == "and") else node.op == "or"
            case ops.IsNone(packet=ops.Local(name=name)):
                if self.held.get(name) is None:
                    raise Broken(f"{name} is gone and tested")
                return not self.held[name]
            case ops.Meta(packet=ops.Local(name=name)):
                if not self.held.get(name):
                    raise Broken(f"{name} is not there")
            case ops.Local():
                if node.name not in self.numbers:
                    raise Broken(f"{node.name} has no value")
        return self.rng.random() < 0.5


def accepted(body: ops.Body) -> bool:
    try:
        check_linear(Unit("A", (Function("process", (Param("p", PACKET),), U32, body),), ()))
    except MezzoError:
        return False
    return True


@pytest.mark.slow
def test_no_path_through_accepted_code_breaks_the_rules() -> None:
    rng, sound = Random(1), 0
    for _ in range(4000):
        body = random_body(rng, 2, False)
        if accepted(body):
            sound += 1
            for _ in range(12):
                Path(rng).run(body)
    assert sound > 300, "the test has something to say"


def test_code_without_choices_is_refused_only_for_a_reason() -> None:
    """Where there is one path only, the proof is exact."""
    rng, refused = Random(2), 0
    for _ in range(1500):
        body = tuple(s for s in random_body(rng, 0, False) if not isinstance(s, (ops.Clone, ops.Pull)))
        try:
            Path(rng).run(body)
            fine = True
        except Broken:
            fine = False
        assert accepted(body) is fine, body
        refused += not fine
    assert refused > 300
