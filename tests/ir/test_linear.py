"""Packets are linear: what the user reads when they are not, and that sound code passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mezzo.base import MezzoError
from mezzo.ir import ops
from mezzo.ir.linear import check_linear
from mezzo.ir.module import Function, Param, Unit
from mezzo.ir.owners import CONFLICT, GONE, LIVE, MAYBE, NONE, PARTLY, POISON, SET, Fact, join
from mezzo.ir.types import PACKET, U32
from tests.frontends.snippet import complaint
from tests.ir.every import every_unit

MISTAKES = {
    "used_after_push": """
def push(self, port, p):
    self.push(0, p)
    self.count += p.length
""",
    "pushed_twice": """
def push(self, port, p):
    self.push(0, p)
    self.push(1, p)
""",
    "forgotten": """
def push(self, port, p):
    self.count += 1
""",
    "forgotten_on_one_path": """
def push(self, port, p):
    if p.length > 100:
        self.push(0, p)
    self.count += 1
""",
    "forgotten_before_return": """
def push(self, port, p):
    if p.length < 20:
        return
    self.push(0, p)
""",
    "used_after_push_on_one_path": """
def push(self, port, p):
    if p.length > 100:
        self.push(1, p)
    self.count += p.length
    self.push(0, p)
""",
    "clone_not_tested": """
def push(self, port, p):
    q = p.clone()
    self.push(1, q)
    self.push(0, p)
""",
    "pull_not_tested": """
def pull(self, port):
    p = self.pull(0)
    self.count += p.length
    return p
""",
    "tested_in_a_conditional_expression": """
def pull(self, port):
    p = self.pull(0)
    self.count += p.length if p is not None else 0
    return p
""",
    "used_where_none": """
def pull(self, port):
    p = self.ring.pop()
    if p is None:
        self.count += p.length
    return p
""",
    "clone_forgotten": """
def process(self, p: Packet) -> Port:
    q = p.clone()
    if q is None:
        self.count += 1
    return 0
""",
    "pulled_and_forgotten": """
def task(self) -> bool:
    p = self.pull(0)
    if p is None or p.length < 60:
        return False
    self.push(0, p)
    return True
""",
    "overwritten": """
def task(self) -> bool:
    p = self.pull(0)
    p = self.pull(1)
    if p is not None:
        self.push(0, p)
    return True
""",
    "kept_from_the_round_before": """
def task(self) -> bool:
    for i in range(4):
        p = self.pull(0)
        if p is not None and p.length > 100:
            self.push(0, p)
    return True
""",
    "pushed_in_a_loop": """
def push(self, port, p):
    for i in range(4):
        self.push(i, p)
""",
    "pushed_in_a_loop_under_a_condition": """
def push(self, port, p):
    for i in range(4):
        if self.codes[i] > 3:
            self.push(i, p)
    self.kill(p)
""",
    "pushed_before_break_or_not": """
def push(self, port, p):
    for i in range(4):
        if self.codes[i] > 3:
            self.push(i, p)
            break
""",
    "returned_after_push": """
def process(self, p: Packet) -> Port:
    if p.length > 100:
        self.push(1, p)
    return 0
""",
    "returned_after_kill": """
def process(self, p: Packet) -> Port:
    self.kill(p, "too long")
    return 0
""",
    "process_without_port": """
def process(self, p: Packet) -> Port:
    if p.length > 100:
        return
    return 0
""",
    "process_falls_off": """
def process(self, p: Packet) -> Port:
    if p.length > 100:
        return 0
""",
    "lent_and_killed": """
def process(self, p: Packet) -> Port:
    self.check(p)
    return 0

def check(self, p: Packet):
    if p.length > 100:
        self.kill(p)
""",
    "lent_when_gone": """
def push(self, port, p):
    self.ring.push(p)
    self.check(p)

def check(self, p: Packet) -> bool:
    return p.length > 100
""",
    "shown_when_gone": """
def push(self, port, p):
    self.slots.put(0, p)
    self.show(p)

@python
def show(self, p):
    print(p)
""",
    "returned_twice_in_pull": """
def pull(self, port):
    p = self.pull(0)
    if p is not None:
        self.ring.push(p)
    return p
""",
    "lost_in_pull": """
def pull(self, port):
    p = self.pull(0)
    if p is not None and p.length > 100:
        return None
    return p
""",
    "born_on_one_path": """
def push(self, port, p):
    if p.length > 100:
        q = p.clone()
    self.push(0, p)
    if q is not None:
        self.push(1, q)
""",
    "number_without_value": """
def process(self, p: Packet) -> Port:
    if p.length > 100:
        port = 1
    return port
""",
    "number_from_a_loop_that_may_not_run": """
def process(self, p: Packet) -> Port:
    for i in bounded(p.length, 64):
        last = i
    self.count = last
    return 0
""",
    "no_value_given_back": """
def ready(self) -> bool:
    if self.count > 3:
        return True
""",
    "used_after_lend": """
runtime = True
def push(self, port, p):
    f = self.lend(p)
    self.count += f + p.length
""",
    "lent_twice": """
runtime = True
def push(self, port, p):
    if p.length > 100:
        self.small = u8(self.lend(p))
    self.count += self.lend(p)
""",
    "adopted_and_forgotten": """
runtime = True
def task(self) -> bool:
    for i in range(4):
        p = self.adopt(self.take_frame(), 128, 60)
        if p.length > self.count:
            self.push(0, p)
    return True
""",
    "several_at_once": """
def push(self, port, p):
    self.push(0, p)
    self.count += p.length

def pull(self, port):
    p = self.pull(0)
    q = self.make(60)
    return p
""",
}

SOUND = {
    "clone_and_push": """
def process(self, p: Packet) -> Port:
    q = p.clone()
    if q is not None:
        self.push(1, q)
    return 0
""",
    "early_return": """
def pull(self, port):
    p = self.pull(0)
    if p is None:
        return None
    if p.length < 60:
        self.kill(p, "short")
        return None
    return p
""",
    "break_after_push": """
def push(self, port, p):
    for i in range(4):
        if self.codes[i] > 3:
            self.push(i, p)
            return
    self.kill(p)
""",
    "loop_that_drains": """
def task(self) -> bool:
    for i in range(4):
        p = self.pull(0)
        if p is None:
            break
        if p.length > 100:
            self.kill(p, "long")
            continue
        self.push(0, p)
    return True
""",
    "either_way": """
def push(self, port, p):
    if p.length > 100:
        self.ring.push(p)
    else:
        self.push(0, p)
    self.wake()
""",
    "refined_by_logic": """
def task(self) -> bool:
    p = self.pull(0)
    q = self.pull(1)
    if p is None or q is None:
        if p is not None:
            self.kill(p)
        if q is not None:
            self.kill(q)
        return False
    self.push(0, p)
    self.push(0, q)
    return True
""",
    "tested_with_not": """
def task(self) -> bool:
    p = self.pull(0)
    if not p:
        return False
    if not (p.length > 3 and p.length < 50):
        self.kill(p)
        return True
    self.push(0, p)
    return True
""",
    "lent": """
def process(self, p: Packet) -> Port:
    if self.check(p):
        return 1
    self.show(p)
    return 0

def check(self, p: Packet) -> bool:
    return p is None or p.length > 100

@python
def show(self, p):
    print(p)
""",
    "adopted_and_lent": """
runtime = True
def task(self) -> bool:
    p = self.adopt(self.take_frame(), 128, 60)
    if p.length > self.count:
        self.push(0, p)
        return True
    self.give_frame(self.lend(p))
    return False
""",
    "python_process": """
@python
def process(self, p):
    return 0
""",
    "made_in_either_branch": """
def task(self) -> bool:
    if self.count > 3:
        p = self.make(60)
    else:
        p = self.make_from(self.image, 0, 60)
    if p is not None:
        self.push(0, p)
    return True
""",
    "a_loop_that_runs_gives_a_value": """
def process(self, p: Packet) -> Port:
    for i in range(3):
        last = i
    self.count = last
    return 0
""",
    "packet_across_rounds": """
def task(self) -> bool:
    p = self.pull(0)
    for i in range(4):
        if p is None:
            break
        self.push(0, p)
        p = self.pull(0)
    if p is not None:
        self.kill(p)
    return True
""",
    "forever_loop": """
def task(self) -> bool:
    for i in range(4):
        if self.count > 3:
            return True
        self.count += 1
    return False
""",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_explained(name: str, golden: Callable[[str, str], None]) -> None:
    text = complaint(MISTAKES[name])
    assert text, "nothing was found"
    golden(f"linear/{name}.txt", text)


@pytest.mark.parametrize("name", SOUND)
def test_sound_code_passes(name: str) -> None:
    assert complaint(SOUND[name]) == ""


def test_every_node_is_followed() -> None:
    check_linear(every_unit())


def linear(*body: ops.Stmt) -> str:
    try:
        check_linear(Unit("A", (Function("process", (Param("p", PACKET),), U32, body),), ()))
    except MezzoError as error:
        return str(error)
    return ""


P = ops.Local(PACKET, "p")


def test_code_that_no_path_reaches_is_not_looked_at() -> None:
    assert linear(ops.Return(ops.u32(0)), ops.Kill(P, -1), ops.Kill(P, -1)) == ""
    assert linear(ops.If(ops.FALSE, (ops.Kill(P, -1),)), ops.Return(ops.u32(0))) == ""
    assert linear(ops.For("i", ops.u32(0), 9, (ops.Kill(P, -1),)), ops.Return(ops.u32(0))) == ""


def test_one_round_is_no_loop() -> None:
    once = ops.For("i", ops.u32(1), 1, (ops.If(ops.Ready(0), (ops.Continue(),)), ops.Set("x", ops.u32(1))))
    assert linear(once, ops.Return(ops.u32(0))) == ""
    assert linear(ops.For("i", ops.u32(1), 1, (ops.Kill(P, -1),)), ops.Return()) == ""


def test_an_end_without_return_is_an_end() -> None:
    assert "`p` is lost: process ends here" in linear(ops.Set("x", ops.u32(1)))
    assert linear(ops.Kill(P, -1)) == ""


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (LIVE, NONE, MAYBE),
        (LIVE, MAYBE, MAYBE),
        (NONE, MAYBE, MAYBE),
        (GONE, NONE, GONE),
        (GONE, LIVE, CONFLICT),
        (GONE, MAYBE, CONFLICT),
        (CONFLICT, NONE, CONFLICT),
        (PARTLY, NONE, PARTLY),
        (PARTLY, LIVE, CONFLICT),
        (SET, PARTLY, PARTLY),
        (POISON, LIVE, POISON),
        (LIVE, None, CONFLICT),
        (NONE, None, PARTLY),
        (GONE, None, GONE),
        (SET, None, PARTLY),
    ],
)
def test_paths_join(a: object, b: object, both: object) -> None:
    facts = [None if kind is None else Fact(kind) for kind in (a, b)]  # type: ignore[arg-type]
    for one, other in (facts, facts[::-1]):
        joined = join(one, other)
        assert joined is not None and joined.kind is both
