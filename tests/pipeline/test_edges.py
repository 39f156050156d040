"""Counters on every connection: they count on every target, and nobody sees them."""

from __future__ import annotations

import pytest

from mezzo.graph import Connection, Graph, Instance
from mezzo.pipeline.edges import count_edges
from mezzo.runtime import Router
from mezzo.targets import target_names

TEXT = """s :: InfiniteSource(LIMIT 6) -> t :: Tee;
t[0] -> q :: SimpleQueue(4) -> n :: Null -> u :: Unqueue -> d :: Discard; t[1] -> d;"""


def test_every_connection_gets_a_counter_of_its_own():
    graph = Graph({n: Instance(n, "Null") for n in "ab"}, (Connection("a", 0, "b", 0), Connection("a", 1, "b", 0)))
    counted, edges = count_edges(graph)
    assert list(counted.instances) == ["a", "b", "edge@1", "edge@2"]
    assert [str(c) for c in counted.connections] == [
        "a [0] -> [0] edge@1", "edge@1 [0] -> [0] b", "a [1] -> [0] edge@2", "edge@2 [0] -> [0] b"
    ]  # fmt: skip
    assert edges == dict(zip(("edge@1", "edge@2"), graph.connections, strict=True))


@pytest.mark.parametrize("target", target_names())
def test_counts_by_connection(target):
    with Router.from_click(TEXT, target=target, virtual=True, counted=True) as router:
        router.run()
        counts = {str(c): n for c, n in router.edge_counts().items()}
    assert counts["s [0] -> [0] t"] == counts["t [0] -> [0] q"] == counts["t [1] -> [0] d"] == 6
    assert counts["q [0] -> [0] n"] == counts["n [0] -> [0] u"] == counts["u [0] -> [0] d"]


def test_handlers_show_the_graph_as_it_was_written():
    with (
        Router.from_click(TEXT, target="python", virtual=True, counted=True) as counted,
        Router.from_click(TEXT, target="python", virtual=True) as plain,
    ):
        for path in ("list", "flatconfig", "q.ports", "t.ports", "d.ports"):
            assert counted.read(path) == plain.read(path)
        assert plain.edge_counts() == {}
