"""Graphs as values, and their way to text and back."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mezzo.frontends.click import parse_click, unparse
from mezzo.graph import Connection, Graph, Instance, assemble, flow_order
from tests.graph.specs import IP_ROUTER


def graph_of(text: str) -> Graph:
    return assemble(parse_click(text))


def in_order(graph: Graph) -> Graph:
    """Text puts connections into chains, and so changes their order."""
    return replace(graph, connections=tuple(sorted(graph.connections, key=str)))


def assert_round_trip(graph: Graph) -> None:
    text = unparse(graph.instances, graph.connections, graph.requirements)
    assert in_order(graph_of(text)) == in_order(graph)


def test_helpers_give_new_graphs() -> None:
    graph = graph_of("a :: Idle -> b :: Tee(2) -> c :: Discard; b [1] -> d :: Discard;")
    assert [str(c) for c in graph.outputs_of("b")] == ["b [0] -> [0] c", "b [1] -> [0] d"]
    assert [c.src for c in graph.inputs_of("b")] == ["a"] and graph.inputs_of("a") == ()
    smaller = graph.without("c")
    assert list(smaller.instances) == ["a", "b", "d"] and len(smaller.connections) == 2
    other = graph.with_config("b", "3").with_instance(Instance("e", "Null")).with_connection(Connection("b", 2, "e", 0))
    assert other.instances["b"].config == "3" and len(other.outputs_of("b")) == 3
    assert graph.instances["b"].config == "2" and len(graph.outputs_of("b")) == 2


def test_argument_places() -> None:
    graph = graph_of("define($x 1)\nq :: Queue(200,\n  $x)")
    queue = graph.instances["q"]
    assert [str(queue.argument_span(i)) for i in (0, 1, 2)] == ["config:2:12", "config:3:3", "config:2:1"]
    assert Instance("a", "A").argument_span(0) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a :: Null;",
        IP_ROUTER,
        "require(package x) a :: Null(\"a)b\", 'c') -> [3] b :: Tee [2] -> a; b [1] -> [1] a // x",
        "x :: E(a // comment\n, b)",
    ],
)
def test_unparse_round_trips(text: str) -> None:
    assert_round_trip(graph_of(text))


def test_unparse_writes_chains_as_click_does() -> None:
    graph = graph_of("a :: T; b :: T; c :: T; d :: T; b -> [1] c; a [1] -> d; a -> b; c -> d -> c; x :: T -> x")
    lines = unparse(graph.instances, graph.connections).splitlines()[6:]
    assert lines == ["a [1] -> d", "    -> c", "    -> d;", "a -> b", "    -> [1] c;", "x -> x;"]


def test_unparse_round_trips_random_graphs() -> None:
    chance = random.Random(4)
    for _ in range(50):
        names = [f"e{i}" for i in range(chance.randint(1, 9))]
        instances = {name: Instance(name, chance.choice("XYZ"), chance.choice(["", "1", '"a, (b"'])) for name in names}
        connections = {
            (chance.choice(names), chance.randint(0, 2), chance.choice(names), chance.randint(0, 2)) for _ in range(9)
        }
        assert_round_trip(Graph(instances, tuple(Connection(*c) for c in sorted(connections))))


def test_flow_order_leads_from_sources_to_sinks() -> None:
    graph = graph_of("d :: Discard; c :: Null -> d; a :: Idle -> b :: Null -> c;")
    assert flow_order(graph) == ("a", "b", "c", "d")
    order = flow_order(graph_of(IP_ROUTER))
    assert order.index("h0/from") < order.index("h0/c") < order.index("rt") < order.index("h1/out")
    assert flow_order(graph_of("z :: Null; y :: Null; x :: Null -> w :: Null -> x")) == ("z", "y", "x", "w")
