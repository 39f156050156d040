"""Fields of decision diagrams: what is missing of a packet holds no test, and each test is written once."""

from __future__ import annotations

import random

import pytest

from mezzo.elements.decision import ByteTest, Clause, Diagram
from mezzo.elements.decision_code import process
from mezzo.elements.decision_fields import Field, fields_of
from mezzo.ir import ops
from mezzo.ir.builder import UnitBuilder
from mezzo.ir.module import Unit
from mezzo.ir.spec import nodes
from mezzo.ir.types import KILL

MARKS = ("data", "net")


def random_test(chance: random.Random) -> ByteTest:
    mask = chance.choice((0xFFFFFFFF, 0xFF000000, 0xFFFF0000, 0xFFFF, 0xFF00, 0xFFFFFF00, 0x1FFF, 0xF0000000, 1))
    value = chance.choice((0, 0x01020304, 0x0A000001, chance.getrandbits(32)))
    return ByteTest(chance.choice(MARKS), 4 * chance.randrange(3), 4, mask, value & mask)


def random_diagram(chance: random.Random) -> Diagram:
    clauses = lambda: (Clause((random_test(chance),), chance.random() < 0.2) for _ in range(chance.randint(1, 3)))  # noqa: E731
    return Diagram([tuple(clauses()) for _ in range(chance.randint(2, 6))])


def value_of(field: Field, there: bytes) -> int:
    """The field of a packet that has only these bytes of it."""
    count, fill = max(one for one in field.fills if one[0] <= len(there))
    return int.from_bytes(there[:count], "little") & field.mask | fill


def holds(test: ByteTest, fields: list[Field], packet: dict[str, bytes]) -> bool:
    for field in fields:
        mask, value = field.part(test)
        if value_of(field, packet[field.mark][field.offset : field.offset + field.width]) & mask != value:
            return False
    return True


def really_holds(test: ByteTest, packet: dict[str, bytes]) -> bool:
    have = packet[test.mark]
    word = int.from_bytes(have[test.offset : test.offset + 4].ljust(4, b"\0"), "big")
    return test.need <= len(have) and word & test.mask == test.value


@pytest.mark.parametrize("seed", range(4))
def test_what_is_missing_holds_no_test(seed: int) -> None:
    chance, tried = random.Random(seed), 0
    while tried < 30:
        diagram = random_diagram(chance)
        fields = fields_of(diagram)
        if not fields:
            continue
        tried += 1
        for _ in range(60):
            pool = (b"\0\0\0\0", b"\1\2\3\4", b"\n\0\0\1", chance.randbytes(4))
            whole = {mark: b"".join(chance.choice(pool) for _ in range(3)) for mark in MARKS}
            packet = {mark: whole[mark][: chance.randrange(13)] for mark in MARKS}
            for node in diagram.nodes:
                assert holds(node.test, fields, packet) == really_holds(node.test, packet), (node, packet)


def word(value: int, mask: int = 0xFF000000, offset: int = 0) -> ByteTest:
    return ByteTest("data", offset, 4, mask, value)


def test_there_is_no_value_that_nobody_asks_for() -> None:
    """All 256 values of a byte have a rule."""
    rules = [(Clause((word(n << 24),)),) for n in range(256)]
    assert fields_of(Diagram(rules[:-1])) is not None
    assert fields_of(Diagram(rules)) is None


def test_many_fields_are_not_read_in_advance() -> None:
    rules = [(Clause((word(5 << 24, offset=4 * n),)),) for n in range(9)]
    assert fields_of(Diagram(rules)) is None
    assert len(fields_of(Diagram(rules[:8])) or ()) == 8


def code(diagram_rules: list[tuple[Clause, ...]]) -> Unit:
    builder = UnitBuilder("Test")
    ports = [n % 3 for n in range(len(diagram_rules))]
    process(builder, diagram_rules, [*ports, KILL], "no pattern matches")
    return builder.unit()


def test_tests_are_written_once() -> None:
    """Ten rules of two marks: a packet that is too short takes no code of its own, and a rest that rules share has one
    place, however it is reached."""
    proto, port = word(6 << 24), lambda n: ByteTest("net", 0, 4, 0xFFFF, n)
    host = word(0x0A000001, 0xFFFFFFFF, 4)
    rules = [(Clause((host,)), Clause((proto,)), Clause((port(0),)))]
    rules += [(Clause((proto,)), Clause((port(n),))) for n in range(9)]
    unit = code(rules)
    compared = [n for f in unit.functions for n in nodes(f.body) if isinstance(n, ops.Cmp) and n.op == "eq"]
    assert len(compared) == len(Diagram(rules).nodes)
    assert not [f.name for f in unit.functions if f.name.startswith("short")]
