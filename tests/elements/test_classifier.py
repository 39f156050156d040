"""Classifier: its patterns, short packets, and random programs against a plain evaluator of the patterns' text."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements.classifier import Classifier, parse_clause
from mezzo.elements.decision import ByteTest, Clause, Diagram
from mezzo.pipeline import compile_text


def configured(*patterns: str) -> Classifier:
    made = Classifier()
    made.noutputs = len(patterns)
    made.setup(list(patterns), made.env)
    return made


def router(patterns: list[str]) -> str:
    outputs = " ".join(f"c[{i}] -> out{i} :: Collect;" for i in range(len(patterns)))
    return f"in0 :: Feed -> c :: Classifier({', '.join(patterns)}); {outputs}"


def run(vectors: Any, patterns: list[str], packets: list[bytes]) -> list[list[bytes]]:
    outputs = [f"out{i}" for i in range(len(patterns))]
    answer = vectors(router(patterns), give={"in0": packets}, outputs=outputs)
    return [answer["out"][name] for name in outputs]


def ether(type_: int, rest: bytes = bytes(46)) -> bytes:
    return bytes(12) + type_.to_bytes(2, "big") + rest


def test_ethernet_types(vectors: Any) -> None:
    request, reply = (ether(0x0806, bytes(6) + bytes([0, op]) + bytes(38)) for op in (1, 2))
    patterns = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"]
    got = run(vectors, patterns, [request, reply, ether(0x0800), ether(0x86DD), ether(0x0806), b""])
    assert got == [[request], [reply], [ether(0x0800)], [ether(0x86DD), ether(0x0806), b""]]


def test_no_match_is_a_drop(vectors: Any) -> None:
    give, want = {"in0": [ether(0x0806), b"", ether(0x0800)]}, {"out0": [ether(0x0800)]}
    vectors(router(["12/0800"]), give=give, want=want, drops={("c", "no pattern matches"): 2})


def test_Bo03_a_test_of_missing_bytes_is_false(vectors: Any) -> None:
    """Byte 21 of packets cut to 21 bytes."""
    full, low, cut = bytes(20) + b"\0\x80", bytes(22), bytes(21)
    packets = [full, low, cut]
    assert run(vectors, ["21/80%80", "!21/00%80", "-"], packets) == [[full], [cut], [low]]
    assert run(vectors, ["!21/00%80", "-"], packets) == [[full, cut], [low]]


def test_Bo08_a_short_packet_and_a_pattern_turned_round(vectors: Any) -> None:
    short = bytes.fromhex("00112233")
    assert run(vectors, ["12/0800", "!12/0800", "-"], [short]) == [[], [short], []]
    plan = compile_text(router(["12/0800", "!12/0800", "-"]))
    assert [w.message for w in plan.warnings] == ["c :: Classifier: pattern 2 matches no packets"]


@pytest.mark.parametrize(
    ("pattern", "trouble"),
    [
        ("12/080", "odd number of hex digits"),
        ("0/", "has no value"),
        ("abc", "expected a digit"),
        ("12/08 00", "expected `/`"),
        ("6/ff!", "`!` is no hex digit"),
        ("12/0800%ff", "too few hex digits"),
        ("12/08%ffff", "too many hex digits"),
        ("12/08%ff%ff", "one mask"),
        ("99999999/00", "no packet reaches"),
        ("", "is empty"),
    ],
)
def test_Bo10_bad_patterns(pattern: str, trouble: str) -> None:
    with pytest.raises(MezzoError, match=trouble):
        compile_text(f"Idle -> c :: Classifier({pattern}, -); c[0] -> Discard; c[1] -> Discard;")


def test_Bo10_good_patterns() -> None:
    assert parse_clause("12/08??") == Clause((ByteTest("data", 12, 4, 0xFF000000, 0x08000000),))
    assert parse_clause("33/02%12") == Clause((ByteTest("data", 32, 4, 0x00120000, 0x00020000),))
    assert parse_clause("4/0a000001%ffffff00") == Clause((ByteTest("data", 4, 4, 0xFFFFFF00, 0x0A000000),))
    assert parse_clause("!3/112233").negated


def test_a_pattern_for_each_output() -> None:
    with pytest.raises(MezzoError, match="1 patterns for 2 outputs"):
        compile_text("Idle -> c :: Classifier(-); c[0] -> Discard; c[1] -> Discard;")


def test_only_the_bytes_that_are_asked_for_are_needed(vectors: Any) -> None:
    """The last half of the value does not matter, so it may be missing."""
    cut = bytes(12) + b"\x08"
    assert run(vectors, ["12/08??", "-"], [cut, bytes(13)]) == [[cut], [bytes(13)]]
    assert run(vectors, ["12/????", "-"], [b""]) == [[b""], []]


def test_a_clause_of_several_words_is_turned_round_as_a_whole(vectors: Any) -> None:
    a, b = bytes(range(12)), bytes(range(11)) + b"!"
    assert run(vectors, ["!2/02030405060708090a0b", "-"], [a, b, b""]) == [[b, b""], [a]]


def test_program_shows_the_diagram(vectors: Any) -> None:
    text = configured("12/0806 20/0001", "12/0806 20/0002", "12/0800", "-").program()
    assert text.splitlines() == [
        "0   12/08060000%ffff0000  yes->step 1  no->step 3",
        "1   20/00010000%ffff0000  yes->[0]  no->step 2",
        "2   20/00020000%ffff0000  yes->[1]  no->[3]",
        "3   12/08000000%ffff0000  yes->[2]  no->[3]",
        "safe length 22",
    ]
    assert configured("-").program() == "all->[0]\n"


# -- random programs ------------------------------------------------------------------------------------------------


def plain(patterns: list[str], packet: bytes) -> int:
    """Left to right on the text, digit by digit; independent of the parser and of the diagram."""
    for number, pattern in enumerate(patterns):
        if all(plain_clause(word, packet) for word in pattern.split()):
            return number
    return len(patterns)


def plain_clause(word: str, packet: bytes) -> bool:
    if word == "-":
        return True
    if word.startswith("!"):
        return not plain_clause(word[1:], packet)
    offset, value = word.split("/")
    value, _, mask = value.partition("%")
    for i, digit in enumerate(value):
        cares = int(mask[i], 16) if mask else 15
        if digit == "?" or not cares:
            continue
        at = int(offset) + i // 2
        if at >= len(packet):
            return False
        nibble = packet[at] >> 4 if i % 2 == 0 else packet[at] & 15
        if (nibble ^ int(digit, 16)) & cares:
            return False
    return True


def random_clause(rng: random.Random) -> str:
    size = rng.choice([1, 1, 2, 2, 3, 4, 6, 9])
    value = "".join(rng.choice("0011?" if rng.random() < 0.9 else "2f") for _ in range(2 * size))
    mask = "%" + "".join(rng.choice("0ff1") for _ in range(2 * size)) if rng.random() < 0.3 else ""
    return f"{'!' if rng.random() < 0.25 else ''}{rng.randrange(12)}/{value}{mask}"


def random_program(rng: random.Random, rules: int) -> list[str]:
    patterns = [" ".join(random_clause(rng) for _ in range(rng.choice([1, 1, 2, 3]))) for _ in range(rules)]
    return [*patterns, "-"] if rng.random() < 0.5 else patterns


def random_packet(rng: random.Random) -> bytes:
    return bytes(rng.choice([0x00, 0x01, 0x10, 0x11, 0x20, 0xFF]) for _ in range(rng.randrange(24)))


def test_Bo02_diagrams_answer_as_the_patterns_do() -> None:
    rng = random.Random(2)
    for _ in range(100):
        patterns = random_program(rng, rng.randrange(1, 16))
        made = configured(*patterns)
        assert not made.troubles
        diagram = Diagram(made.rules)
        for _ in range(40):
            packet = random_packet(rng)
            assert diagram.answer(lambda test, p=packet: holds(test, p)) == plain(patterns, packet), (patterns, packet)


def holds(test: ByteTest, packet: bytes) -> bool:
    if test.need > len(packet):
        return False
    word = int.from_bytes(packet[test.offset : test.offset + 4].ljust(4, b"\0"), "big")
    return word & test.mask == test.value


@pytest.mark.parametrize("seed", range(3))
def test_Bo02_the_code_answers_as_the_patterns_do(vectors: Any, seed: int) -> None:
    rng = random.Random(seed)
    patterns = random_program(rng, 8)
    packets = [random_packet(rng) for _ in range(200)]
    want: list[list[bytes]] = [[] for _ in range(len(patterns) + 1)]
    for packet in packets:
        want[plain(patterns, packet)].append(packet)
    assert run(vectors, patterns, packets) == want[:-1]


def test_many_rules_stay_few_tests() -> None:
    """A chain of 150 addresses and a port each has a node for each test, and no more."""
    patterns = [f"12/0800 26/{0x0A000000 + i:08x} {40 + 4 * (i % 3)}/{i:04x}" for i in range(150)]
    diagram = Diagram(configured(*patterns).rules)
    assert len(diagram.nodes) <= 2 * (150 + 1)


def test_rules_that_would_explode_fall_back_to_plain_sharing() -> None:
    """Half-overlapping masks everywhere: what is known would differ on every path."""
    rng = random.Random(7)
    word = lambda: f"{rng.randrange(8)}/{rng.randrange(65536):04x}%{rng.randrange(65536):04x}"  # noqa: E731
    patterns = [" ".join(word() for _ in range(4)) for _ in range(40)]
    made = configured(*patterns)
    diagram = Diagram(made.rules)
    assert len(diagram.nodes) <= 5000
    for _ in range(100):
        packet = rng.randbytes(12)
        assert diagram.answer(lambda test, p=packet: holds(test, p)) == plain(patterns, packet)
