"""A graph while it is changed."""

from __future__ import annotations

from mezzo.frontends.click import parse_click
from mezzo.graph import Connection, Graph, Instance, assemble
from mezzo.graph.draft import Draft, port_counts


def graph_of(text: str) -> Graph:
    return assemble(parse_click(text))


GRAPH = graph_of("a :: A -> b :: B -> c :: C; b [1] -> [2] c; a -> a; require(package x)")


def test_a_draft_that_nothing_was_done_to_is_the_graph() -> None:
    assert Draft(GRAPH).graph() == GRAPH and Draft().graph() == Graph()


def test_connections_keep_their_places_when_they_are_led_elsewhere() -> None:
    draft = Draft(GRAPH)
    (first,) = draft.into("b")
    draft.lead_to(first, ("c", 5))
    (moved,) = draft.into("c", 5)
    draft.lead_from(moved, ("b", 7))
    assert str(draft.graph().connections[0]) == "b [7] -> [5] c"
    assert draft.out_of("b", 7) == [Connection("b", 7, "c", 5)] and draft.into("b") == []


def test_a_connection_is_there_once() -> None:
    draft = Draft(GRAPH)
    draft.connect(GRAPH.connections[2])
    draft.lead_to(GRAPH.connections[1], ("b", 0))
    draft.lead_from(Connection("b", 0, "b", 0), ("a", 0))
    assert [str(c) for c in draft.graph().connections] == ["a [0] -> [0] b", "b [1] -> [2] c", "a [0] -> [0] a"]


def test_an_element_goes_with_its_connections_and_another_takes_its_place() -> None:
    draft = Draft(GRAPH)
    place = draft.place_of("a")
    draft.drop("a")
    draft.add(Instance("z", "Z"), place)
    assert list(draft.graph().instances) == ["z", "b", "c"] and len(draft.graph().connections) == 2
    assert draft.of_class("A") == [] and draft.of_class("Z", "C") == ["z", "c"]
    assert draft.add_anonymous("Z") == "Z@4" and draft.graph().requirements == ("package x",)


def test_configurations_are_changed_one_by_one() -> None:
    draft = Draft(GRAPH)
    draft.configure("b", "1, 2")
    assert draft.graph() == GRAPH.with_config("b", "1, 2")


def test_ports_in_use() -> None:
    assert port_counts(GRAPH.connections) == ({"b": 1, "c": 3, "a": 1}, {"a": 1, "b": 2})
