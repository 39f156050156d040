"""Graphs written in Python with `>>`."""

from __future__ import annotations

import numpy as np
import pytest

from mezzo.base import MezzoError
from mezzo.elements.loopguard import LoopGuard
from mezzo.elements.memory import Collect, Feed
from mezzo.pipeline import graph_of
from mezzo.runtime import Router
from mezzo.runtime.handlers import flat_text


def test_a_chain_runs():
    with Router.from_elements(Feed(name="a") >> LoopGuard() >> Collect(CAPACITY=2, name="b"), virtual=True) as router:
        router.feed("a", [b"1", b"2", b"3"])
        assert router.run() == "done"
        assert router.collect("b") == [b"1", b"2"]
        assert router.drops() == {("b", "collector full"): 1}


def test_ports_and_names():
    guard = LoopGuard(name="g")
    chain = Feed(name="x") >> guard[0, 1] >> Collect(name="y")
    guard[2] >> Collect(name="z")[3]
    graph, _ = graph_of(chain)
    assert sorted(str(c) for c in graph.connections) == ["g [1] -> [0] y", "g [2] -> [3] z", "x [0] -> [0] g"]


def test_arguments_become_configuration():
    graph, _ = graph_of(Feed(capacity=7) >> Collect())
    assert "Feed(CAPACITY 7)" in flat_text(graph)


def test_two_of_one_name_are_refused():
    with pytest.raises(MezzoError, match="two elements are called `a`"):
        graph_of(Feed(name="a") >> Collect(name="a"))


def test_only_elements_are_joined():
    with pytest.raises(TypeError, match="joins elements"):
        Feed() >> 3


def test_graphs_show_themselves():
    chain = Feed(name="a") >> Collect(name="b")
    assert chain._repr_svg_().startswith("<svg") and "Feed" in chain._repr_svg_()


def test_library_classes_are_imported_by_name():
    from mezzo.elements import Counter

    assert Counter.__name__ == "Counter"
    with pytest.raises(ImportError):
        from mezzo.elements import Kounter  # noqa: F401


def test_arrays_in_and_out():
    rows = np.arange(12, dtype=np.uint8).reshape(3, 4)
    with Router.from_elements(Feed(name="a") >> Collect(name="b"), virtual=True) as router:
        assert router.feed("a", [*rows, b"xy"]) == 4
        router.run()
        data, lengths = router.collect_array("b")
        assert lengths.tolist() == [4, 4, 4, 2]
        assert data[:3].tolist() == rows.tolist()
        assert bytes(data[3]) == b"xy\0\0"


def test_what_is_no_packet_is_refused():
    with Router.from_elements(Feed(name="a") >> Collect(name="b"), virtual=True) as router:
        for wrong in (b"one", ["text"], [None], [7], [np.zeros(4)], [bytes(5000)]):
            with pytest.raises(MezzoError):
                router.feed("a", wrong)
        assert router.feed("a", [bytearray(b"xy"), memoryview(b"abcd")[::2]]) == 2
        router.run()
        assert router.collect("b") == [b"xy", b"ac"]


def test_packets_go_in_by_feed_and_out_by_collect():
    with Router.from_elements(Feed(name="a") >> Collect(name="b"), virtual=True) as router:
        with pytest.raises(MezzoError, match=r"`c` is not there\nthese are Feed elements: a"):
            router.feed("c", [b"x"])
        with pytest.raises(MezzoError, match=r"`b` is no Feed element"):
            router.feed("b", [b"x"])
        with pytest.raises(MezzoError, match=r"`a` is no Collect element"):
            router.collect("a")
    with pytest.raises(MezzoError, match="closed"):
        router.feed("a", [b"x"])
