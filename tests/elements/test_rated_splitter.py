"""RatedSplitter and BandwidthRatedSplitter on every target, by the virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.pipeline import compile_text

SOURCE = "RatedSource(RATE 1000, LENGTH 125, LIMIT 1000)"


def splitter(element: str) -> str:
    return f"{SOURCE} -> s :: {element}; s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;"


@pytest.mark.parametrize(
    ("element", "within"),
    [
        ("RatedSplitter(250)", 250),
        ("RatedSplitter(2000)", 1000),
        ("BandwidthRatedSplitter(250kbps)", 250),
        ("BandwidthRatedSplitter(999kbps)", 999),
        ("RatedSplitter(0)", 0),
    ],
)
def test_as_much_as_the_rate_passes(vectors: Any, element: str, within: int) -> None:
    reads = {"a.count": str(within), "b.count": str(1000 - within), "s.excess": str(1000 - within)}
    vectors(splitter(element), reads=reads, drops={})


def test_without_output_1_the_rest_is_dropped(vectors: Any) -> None:
    text = f"{SOURCE} -> s :: RatedSplitter(100) -> a :: Counter -> Discard;"
    vectors(text, reads={"a.count": "100"}, drops={("s", "over the rate"): 900})


def test_a_burst_after_idle_time(vectors: Any) -> None:
    """20 ms of 1,000 a second are 20 packets; with BURST_SIZE 5 there are 5, and the one that goes into debt."""
    for words, passed in (("", 21), (", BURST_SIZE 5", 6), (", BURST_DURATION 3ms", 4)):
        text = f"TimedSource(INTERVAL 1, LIMIT 1) -> t :: Tee(40) -> s :: RatedSplitter(1000{words});"
        text += "".join(f"t[{i}] -> s;" for i in range(1, 40))
        text += "s[0] -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;"
        vectors(text, reads={"a.count": str(passed), "b.count": str(40 - passed)}, seconds=3)


def test_the_rate_changes(vectors: Any) -> None:
    vectors(splitter("RatedSplitter(10)"), reads={"a.count": "500", "s.rate": "500"}, writes=[("s.rate", "500")])


@pytest.mark.parametrize("element", ["RatedSplitter", "RatedSplitter(-1)", "RatedSplitter(1000000000000)"])
def test_splitter_arguments(element: str) -> None:
    with pytest.raises(MezzoError):
        compile_text(splitter(element))
