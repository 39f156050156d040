"""Worst-case cost: it bounds, it adds up, and it decides about the certificate."""

from __future__ import annotations

from mezzo.ir import ops
from mezzo.ir.cost import Cost, certificate, cost
from mezzo.ir.module import Unit
from mezzo.ir.text import parse_unit
from tests.frontends.snippet import unit_of
from tests.ir.every import every_unit

HEAD = "unit A\nstate n: u32\n\ntimer():\n"


def timer(*lines: str) -> Cost:
    return cost(parse_unit(HEAD + "".join(f"  {line}\n" for line in lines)))["timer"]


def test_every_node_has_a_cost() -> None:
    assert all(c.ops > 0 for c in cost(every_unit()).values())


def test_a_branch_costs_its_dearer_side() -> None:
    cheap, dear = timer("if true:", "  self.n = 1"), timer("if true:", "  self.n = self.n * 3", "else:", "  self.n = 1")
    assert dear.ops > cheap.ops
    assert dear == timer("if true:", "  self.n = 1", "else:", "  self.n = self.n * 3")


def test_a_loop_costs_its_limit_or_its_known_count() -> None:
    once = timer("self.n = self.n + 1")
    known = timer("for i in range(10) max 64:", "  self.n = self.n + 1")
    open_ = timer("for i in range(self.n) max 64:", "  self.n = self.n + 1")
    assert 10 * once.ops < known.ops < 20 * once.ops
    assert open_.memory == 64 * once.memory + 1


def test_a_call_costs_its_callee() -> None:
    unit = parse_unit("unit A\nstate n: u32\n\ntimer():\n  eval call f()\n  return\n\nf():\n  self.n = 1\n  return\n")
    found = cost(unit)
    assert found["timer"].ops > found["f"].ops


def test_bytes_cost_by_length() -> None:
    short = parse_unit("unit A\n\nf(p: packet):\n  x = p.sum16[net + 0, 20, 0]\n  return\n")
    whole = parse_unit("unit A\n\nf(p: packet):\n  x = p.sum16[net + 0, p.length, 0]\n  return\n")
    assert cost(short)["f"].ops < 20 < 500 < cost(whole)["f"].ops


def test_the_certificate_says_what_is_missing() -> None:
    assert certificate(unit_of("def process(self, p):\n    return 0")) is None
    shown = unit_of("def process(self, p):\n    self.show(p)\n    return 0\n\n@python\ndef show(self, p):\n    pass")
    assert certificate(shown) == "calls Python (show)"
    assert cost(shown)["process"].python == 1
    loop = ops.For("i", ops.u32(1 << 30), 1 << 30, (ops.Put("n", ops.u32(1)),))
    unit = parse_unit(HEAD + "  self.n = 1\n")
    endless = Unit("A", (unit.functions[0].__class__("timer", (), unit.functions[0].ret, (loop,)),), unit.states)
    assert "at most 1000000 are certified" in (certificate(endless) or "")
    clock = parse_unit("unit A\n\ntimer():\n  now = read_clock()\n".replace("now", "t"))
    assert certificate(clock) == "timer uses the runtime's own operations"
    for raw in ("x = mem.u32[8u64]", "x = libc(8u64)", "f = take_frame()"):
        assert certificate(parse_unit(HEAD + f"  {raw}\n")) == "timer uses the runtime's own operations"
