"""Patterns and their replacements in graphs."""

from __future__ import annotations

import random
import time
from itertools import permutations

import pytest

from mezzo.base import MezzoError
from mezzo.frontends.click import parse_click, unparse
from mezzo.frontends.click.patterns import parse_patterns
from mezzo.graph import Graph, assemble
from mezzo.graph.pattern import Shape
from mezzo.graph.xform import Rule, transform


def rules_of(text: str) -> list[Rule]:
    return [
        Rule(p.name, Shape.of(assemble(p.pattern)), Shape.of(assemble(p.replacement)), p.span)
        for p in parse_patterns(text, "patterns")
    ]


def xform(patterns: str, text: str) -> str:
    graph, _ = transform(assemble(parse_click(text)), rules_of(patterns))
    return unparse(graph.instances, graph.connections)


def flat(text: str) -> str:
    graph = assemble(parse_click(text))
    return unparse(graph.instances, graph.connections)


def pair(pattern: str, replacement: str, name: str = "P") -> str:
    return f"elementclass {name} {{ {pattern} }} elementclass {name}_Replacement {{ {replacement} }}\n"


def test_a_queue_gets_a_shaper_once() -> None:
    rule = pair("input -> Queue -> output", "input -> Queue -> Shaper(200) -> output")
    found = xform(rule, "a :: Idle -> q :: Queue -> d :: Discard;")
    assert found == flat("a :: Idle; q :: Queue; d :: Discard; s :: Shaper(200); a -> q -> s -> d;").replace(
        "d :: Discard;\ns :: Shaper(200);", "P@1/Shaper@2 :: Shaper(200);\nd :: Discard;"
    ).replace("-> s", "-> P@1/Shaper@2")


def test_arguments_are_swapped_by_variables() -> None:
    rule = pair("input -> Meter($a) -> Shaper($b) -> output", "input -> m :: Meter($b) -> s :: Slow($a) -> output")
    found = xform(rule, "i :: Idle -> Meter(1000) -> Shaper(2000) -> d :: Discard;")
    assert "P@1/m :: Meter(2000);" in found and "P@1/s :: Slow(1000);" in found


def test_a_variable_is_the_same_at_each_use_and_text_is_verbatim() -> None:
    rule = pair("input -> A($x) -> B($x, 1) -> output", "input -> C($x) -> output")
    text = "Idle -> A({0}) -> B({1}) -> Discard;"
    assert "C(5)" in xform(rule, text.format("5", "5, 1"))
    for other in (("5", "6, 1"), ("5", "5, 2"), ("5", "5"), ("5, 1", "5, 1")):
        assert "C(" not in xform(rule, text.format(*other))


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("s :: Idle -> a :: A -> b :: B -> Discard;", True),
        ("s :: Idle -> a :: A -> b :: B -> Discard; x :: Idle -> b;", False),  # somebody else comes in
        ("s :: Idle -> a :: A -> b :: B -> Discard; x :: Idle -> a;", True),  # by the port where one may
        ("s :: Idle -> a :: A -> b :: B -> Discard; a [1] -> Discard;", False),  # somebody else goes out
        ("s :: Idle -> a :: A -> [1] b :: B -> Discard;", False),
        ("a :: A -> b :: B -> Discard;", False),  # `input` is not used
        ("s :: Idle -> a :: A -> b :: B -> a;", False),  # a connection inside that the pattern does not have
    ],
)
def test_connections_are_those_of_the_pattern(text: str, matches: bool) -> None:
    assert ("C" in xform(pair("input -> A -> B -> output", "input -> C -> output"), text)) == matches


def test_all_that_a_port_leads_to_must_be_reached_by_one_that_comes_in() -> None:
    pattern = "input -> a :: A; input -> b :: B; a -> output; b -> [1] output"
    rule = pair(pattern, "input -> C => [0] output, [1] output")
    both = "s :: Idle -> x :: A -> Discard; s -> y :: B -> Discard;"
    assert ":: C;" in xform(rule, both)
    assert ":: C;" not in xform(rule, "s :: Idle -> x :: A -> Discard; t :: Idle -> y :: B -> Discard;")


def test_elements_named_alike_keep_the_name_of_what_they_stand_for() -> None:
    rule = pair("input -> q :: Queue($n) -> u :: Unqueue -> output", "input -> q :: Queue($n) -> v :: New -> output")
    found = xform(rule, "i :: Idle -> mine :: Queue(7) -> Unqueue -> d :: Discard;")
    assert found.splitlines()[1:3] == ["mine :: Queue(7);", "P@1/v :: New;"]


def test_patterns_are_tried_in_order_and_again_after_each_replacement() -> None:
    rules = pair("input -> A -> B -> output", "input -> C -> output", "One")
    rules += pair("input -> C -> D -> output", "input -> A -> output", "Two")
    found = xform(rules, "i :: Idle -> A -> B -> D -> B -> D -> d :: Discard;")
    assert next(line for line in found.splitlines() if "@" in line).endswith(":: A;")
    assert found.count("::") == 3


def test_a_replacement_may_be_a_bare_connection() -> None:
    rule = pair("input -> Null -> output", "input -> output")
    assert xform(rule, "i :: Idle -> Null -> Null -> d :: Discard;") == flat("i :: Idle -> d :: Discard;")
    many = xform(rule, "i :: Idle -> n :: Null -> d :: Discard; j :: Idle -> n;")
    assert many == flat("i :: Idle; d :: Discard; j :: Idle; i -> d; j -> d;")


def test_parts_that_are_not_connected() -> None:
    pattern = "input -> A -> output; input [1] -> B -> [1] output"
    rule = pair(pattern, "input -> c :: C -> output; input [1] -> [1] c [1] -> [1] output")
    found = xform(rule, "i :: Idle -> A -> a :: Discard; j :: Idle -> B -> b :: Discard;")
    assert "i -> P@1/c\n    -> a;\nj -> [1] P@1/c;\nP@1/c [1] -> b;" in found


def test_patterns_use_compounds_and_definitions_of_their_file() -> None:
    rule = "define($n 3) elementclass Inner { input -> A($n) -> output }"
    rule += pair("input -> Inner -> output", "input -> B -> output")
    assert "B" in xform(rule, "Idle -> A(3) -> Discard;") and "B" not in xform(rule, "Idle -> A(4) -> Discard;")


def test_a_class_may_be_a_pattern_and_a_part_of_another() -> None:
    rules = "elementclass X { input -> A -> output }" + pair("input -> X -> C -> output", "input -> D -> output", "Y")
    rules += "elementclass X_Replacement { input -> B -> output }"
    assert ":: D;" in xform(rules, "Idle -> A -> C -> Discard;")
    assert ":: B;" in xform(rules, "Idle -> A -> Discard;")


def test_rules_that_make_each_others_pattern_end_in_a_message() -> None:
    rules = pair("input -> Q -> output", "input -> Q -> output", "Evil1")
    rules += pair("input -> Q -> output", "input -> Q -> output", "Evil2")
    with pytest.raises(MezzoError, match="go on for ever"):
        xform(rules, "Idle -> Q -> Discard;")


def test_names_do_not_meet_those_that_are_there() -> None:
    rule = pair("input -> A -> output", "input -> x :: B -> output")
    assert "P@2/x :: B;" in xform(rule, "Idle -> P@1/x :: Null -> A -> Discard;")


def matches_somewhere(shape: Shape, graph: Graph) -> bool:
    """The definition of a match, tried on every choice of elements."""
    joined = {(c.src, c.src_port, c.dst, c.dst_port) for c in graph.connections}
    for chosen in permutations(graph.instances, len(shape.roles)):
        cast = dict(zip(shape.roles, chosen, strict=True))
        if all(graph.instances[n].cls == shape.roles[r].cls for r, n in cast.items()) and fits(shape, cast, joined):
            return True
    return False


def fits(shape: Shape, cast: dict[str, str], joined: set[tuple[str, int, str, int]]) -> bool:
    inside = {(cast[c.src], c.src_port, cast[c.dst], c.dst_port) for c in shape.connections}
    roles = {name: role for role, name in cast.items()}
    used_in, used_out = set(), set()
    for a, x, b, y in joined:
        if a in roles and b in roles and (a, x, b, y) not in inside:
            return False
        if a not in roles and b in roles:
            ports = [i for i, ends in shape.inputs.items() if (roles[b], y) in ends
                     and all((a, x, cast[r], p) in joined for r, p in ends)]  # fmt: skip
            used_in |= set(ports[:1]) or {-1}
        if a in roles and b not in roles:
            ports = [o for o, ends in shape.outputs.items() if (roles[a], x) in ends
                     and all((cast[r], p, b, y) in joined for r, p in ends)]  # fmt: skip
            used_out |= set(ports[:1]) or {-1}
    return inside <= joined and used_in == set(shape.inputs) and used_out == set(shape.outputs)


PATTERNS = (
    "input -> A -> B -> output",
    "input -> a :: A -> output; input -> b :: B -> output",
    "input -> a :: A -> b :: A -> output; a -> [1] output",
    "a :: A -> b :: B -> a; input -> a; b -> output",
    "input -> A -> output; input [1] -> B -> [1] output",
)


def planted(shape: Shape, chance: random.Random) -> Graph:
    """The pattern with neighbours, and sometimes with a connection too many, too few, or between others."""
    text = "d :: D; " + "".join(f"{role} :: {i.cls}; " for role, i in shape.roles.items())
    joints = [f"{c.src} [{c.src_port}] -> [{c.dst_port}] {c.dst};" for c in shape.connections]
    for port, ends in shape.inputs.items():
        joints += [f"d [{port}] -> [{p}] {role};" for role, p in ends]
    for port, ends in shape.outputs.items():
        joints += [f"{role} [{p}] -> [{port}] e;" for role, p in ends]
    names = [*shape.roles, "d", "e"]
    joints += [f"{chance.choice(names)} -> {chance.choice(names)};" for _ in range(chance.choice([0, 0, 1, 2]))]
    kept = [joint for joint in joints if chance.random() < 0.95]
    others = "x :: A; y :: B; d -> x -> y -> e;" if chance.random() < 0.3 else ""
    return assemble(parse_click(text + "e :: D;" + others + "".join(kept)))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_random_graphs_match_as_the_definition_says(pattern: str) -> None:
    (rule,) = rules_of(pair(pattern, "input -> C -> output"))
    chance, found = random.Random(7), 0
    for _ in range(120):
        graph = planted(rule.pattern, chance)
        _, applied = transform(graph, [rule])
        found += bool(applied)
        assert bool(applied) == matches_somewhere(rule.pattern, graph), graph.connections
    assert found in range(5, 116)


@pytest.mark.slow
def test_ten_thousand_elements_take_moments() -> None:
    rule = pair("input -> A -> B -> output", "input -> C -> output")
    rule += pair("input -> C -> E -> output", "input -> F -> output", "R")
    lines = "".join("h -> A -> B -> E -> A -> d; " for i in range(2500))
    begun = time.process_time()
    found = xform(rule, "h :: H; d :: Discard;" + lines)
    assert found.count(":: F;") == 2500 and time.process_time() - begun < 12
