"""Strip, Unstrip, Truncate, CheckLength on every target."""

from __future__ import annotations

from typing import Any

DATA = bytes(range(60))


def through(element: str) -> str:
    return f"in0 :: Feed -> x :: {element} -> out0 :: Collect;"


def test_strip(vectors: Any) -> None:
    give = {"in0": [DATA, DATA[:14], DATA[:13], b""]}
    drops = {("x", "shorter than what is stripped"): 2}
    vectors(through("Strip(14)"), give=give, want={"out0": [DATA[14:], b""]}, drops=drops)


def test_strip_nothing(vectors: Any) -> None:
    vectors(through("Strip(0)"), give={"in0": [DATA, b""]}, want={"out0": [DATA, b""]}, drops={})


def test_unstrip_gives_back_what_was_there(vectors: Any) -> None:
    vectors("in0 :: Feed -> Strip(14) -> Unstrip(14) -> out0 :: Collect;", give={"in0": [DATA]}, want={"out0": [DATA]})


def test_unstrip_without_room(vectors: Any) -> None:
    vectors(through("Unstrip(5000)"), give={"in0": [DATA]}, want={"out0": []}, drops={("x", "no room in front"): 1})


def test_truncate(vectors: Any) -> None:
    give = {"in0": [DATA, DATA[:20], DATA[:21], b""]}
    want = {"out0": [DATA[:20]] * 3 + [b""]}
    vectors(through("Truncate(20)"), give=give, want=want, reads={"x.length": "20"}, drops={})


def test_truncated_bytes_are_counted_in_the_extra_length(vectors: Any) -> None:
    text = "in0 :: Feed -> Truncate(50) -> Truncate(20) -> x :: CheckLength(59, EXTRA_LENGTH true) -> out0 :: Collect;"
    vectors(text, give={"in0": [DATA, DATA[:59]]}, want={"out0": [DATA[:20]]}, drops={("x", "too long"): 1})


def test_truncate_without_the_annotation(vectors: Any) -> None:
    text = "in0 :: Feed -> Truncate(20, EXTRA_ANNO false) -> CheckLength(20, true) -> out0 :: Collect;"
    vectors(text, give={"in0": [DATA]}, want={"out0": [DATA[:20]]}, drops={})


def test_check_length(vectors: Any) -> None:
    text = "in0 :: Feed -> x :: CheckLength(20) -> out0 :: Collect; x[1] -> out1 :: Collect;"
    vectors(text, give={"in0": [DATA, DATA[:20], b""]}, want={"out0": [DATA[:20], b""], "out1": [DATA]})
