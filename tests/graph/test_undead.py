"""What is dead in a graph, and what its removal leaves."""

from __future__ import annotations

import pytest

from mezzo.base import Reporter
from mezzo.frontends.click import parse_click, unparse
from mezzo.graph import Graph, assemble, check
from mezzo.graph.undead import Notes, undead
from mezzo.pipeline.compile import spec_of


def graph_of(text: str) -> Graph:
    return assemble(parse_click(text))


def without_dead(text: str, **more: tuple[str, ...]) -> str:
    graph = undead(graph_of(text), spec_of, **more)
    if graph.instances:
        reporter = Reporter()
        check(graph, spec_of, reporter)
        reporter.raise_if_errors()
    return unparse(graph.instances, graph.connections)


def flat(text: str) -> str:
    graph = graph_of(text)
    return unparse(graph.instances, graph.connections)


ALIVE = "is :: InfiniteSource -> q :: Queue -> td :: ToDump(b);"


def test_the_example_of_clicks_page() -> None:
    text = """
    Idle -> Counter -> td1 :: ToDump(a);
    is :: InfiniteSource -> ss :: StaticSwitch(1); ss [0] -> ToDump(c);
    ss [1] -> q :: Queue -> rr :: RoundRobinSched; Idle -> [1] rr; rr -> td :: ToDump(b);
    """
    assert without_dead(text) == flat(ALIVE)


@pytest.mark.parametrize(
    "text",
    [
        "is :: InfiniteSource -> Null -> Null -> q :: Queue -> Null -> td :: ToDump(b);",
        "is :: InfiniteSource -> s :: StaticSwitch(OUTPUT 1); s -> Discard; s [1] -> q :: Queue -> td :: ToDump(b);",
        "is :: InfiniteSource -> q :: Queue -> [1] s :: StaticPullSwitch(1); Idle -> [0] s; s -> td :: ToDump(b);",
        "is :: InfiniteSource -> t :: Tee(2) -> q :: Queue -> td :: ToDump(b); t [1] -> Counter -> Discard;",
        "is :: InfiniteSource -> q :: Queue -> t :: PullTee(2) -> td :: ToDump(b); t [1] -> Idle;",
        "is :: InfiniteSource -> q :: Queue -> [1] p :: PrioSched -> td :: ToDump(b); Idle -> p;",
        "is :: InfiniteSource -> q :: Queue -> td :: ToDump(b); Idle -> Null -> Null -> Discard; n :: Null -> n;",
    ],
)
def test_what_does_nothing_goes(text: str) -> None:
    assert without_dead(text) == flat(ALIVE)


def test_a_switch_that_is_off_kills_what_is_behind_it() -> None:
    text = "is :: InfiniteSource -> s :: StaticSwitch(-1); s -> ToDump(a); s [1] -> ToDump(b);"
    assert without_dead(text) == "\n"


def test_many_into_a_null_and_many_out_of_it() -> None:
    text = "a :: InfiniteSource -> n :: Null -> q :: Queue -> ToDump(x); b :: InfiniteSource -> n;"
    assert "a -> q" in without_dead(text) and "b -> q;" in without_dead(text) and "Null" not in without_dead(text)
    pull = "InfiniteSource -> q :: Queue -> n :: Null -> a :: ToDump(x); n -> b :: ToDump(y);"
    assert "q\n    -> a;" in without_dead(pull) and "q -> b;" in without_dead(pull)


def test_tickets_go_with_their_inputs() -> None:
    text = """
    InfiniteSource -> a :: Queue -> s :: StrideSched(1, 2, 3) -> ToDump(x);
    Idle -> b :: Queue -> [1] s; InfiniteSource -> c :: Queue -> [2] s;
    """
    found = without_dead(text)
    assert "s :: StrideSched(1, 3);" in found and "c\n    -> [1] s;" in found


def test_arms_of_a_tee_are_counted_anew() -> None:
    text = "InfiniteSource -> t :: Tee(3) -> ToDump(x); t [1] -> Discard; t [2] -> ToDump(y);"
    found = without_dead(text)
    assert "t :: Tee(2);" in found and "t [1] -> ToDump" in found


def test_ports_that_lost_their_neighbour_get_an_idle() -> None:
    text = "InfiniteSource -> c :: Classifier(12/0800, -); c -> ToDump(x); c [1] -> Discard;"
    assert "c [1] -> Idle@" in without_dead(text)


def test_a_pulling_discard_is_a_sink_and_a_pushed_one_when_asked() -> None:
    assert "Discard" in without_dead("InfiniteSource -> Queue -> Discard;")
    pushed = "InfiniteSource -> c :: Counter -> Discard;"
    assert without_dead(pushed) == "\n"
    assert without_dead(pushed, sinks=("Discard",)) == flat(pushed)


def test_information_elements_and_those_whose_handlers_are_named_stay() -> None:
    text = "Idle -> c :: Counter -> Discard; Idle -> d :: Counter -> Discard;"
    text += "Script(read c.count); AddressInfo(a 1.0.0.1);"
    found = without_dead(text)
    assert "c :: Counter" in found and "d :: Counter" not in found and "AddressInfo" in found


def test_nothing_passes_an_idle() -> None:
    assert without_dead("InfiniteSource -> Idle -> Queue -> ToDump(x);") == "\n"


def test_a_wrong_switch_stays_for_the_check_to_find() -> None:
    text = "InfiniteSource -> s :: StaticSwitch(x) -> ToDump(a);"
    assert "StaticSwitch(x)" in without_dead(text)


def test_notes_say_what_became_of_each() -> None:
    notes = Notes()
    undead(graph_of("Idle -> Null -> Counter -> Discard; " + ALIVE), spec_of, notes=notes)
    said = {f"{instance.cls} {what}" for instance, what in notes.said}
    assert {"Null does nothing", "Counter is dead", "InfiniteSource is a source", "ToDump is a sink"} <= said


def test_long_chains_need_no_recursion() -> None:
    text = "InfiniteSource -> " + "Null -> Counter -> " * 1200 + "ToDump(x);"
    assert without_dead(text).count("Counter;") == 1200

