"""The paint family on every target."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError

A, B = b"a" * 60, b""


def test_paint_and_check(vectors: Any) -> None:
    text = "in0 :: Feed -> Paint(3) -> c :: CheckPaint(3) -> out0 :: Collect;"
    vectors(text, give={"in0": [A, B]}, want={"out0": [A, B]}, drops={})


def test_other_color_is_dropped_or_leaves_by_output_1(vectors: Any) -> None:
    text = "in0 :: Feed -> Paint(3) -> c :: CheckPaint(4) -> out0 :: Collect;"
    vectors(text, give={"in0": [A, B]}, want={"out0": []}, drops={("c", "other color"): 2})
    vectors(text + " c[1] -> out1 :: Collect;", give={"in0": [A, B]}, want={"out0": [], "out1": [A, B]}, drops={})


def test_check_paint_in_a_pull_path(vectors: Any) -> None:
    text = """in0 :: Feed -> Paint(1) -> Queue -> c :: CheckPaint(2) -> out0 :: Collect; c[1] -> out1 :: Collect;"""
    vectors(text, give={"in0": [A, B]}, want={"out0": [], "out1": [A, B]})


def test_color_is_changed_while_packets_flow() -> None:
    with Router.from_click("in0 :: Feed -> p :: Paint(1) -> c :: CheckPaint(1) -> out0 :: Collect;", virtual=True) as r:
        assert r.read("p.color") == "1"
        r.write("p.color", "2")
        r.write("c.color", "0x2")
        r.feed("in0", [A])
        r.run()
        assert r.collect("out0") == [A]
        with pytest.raises(HandlerError, match="256 is out of range"):
            r.write("p.color", "256")


def test_paint_tee_copies_one_color(vectors: Any) -> None:
    text = """in0 :: Feed -> Paint(5) -> t :: PaintTee(5) -> out0 :: Collect; t[1] -> out1 :: Collect;
in1 :: Feed -> Paint(6) -> u :: PaintTee(5) -> out2 :: Collect; u[1] -> out3 :: Collect;"""
    give = {"in0": [A, B], "in1": [A]}
    vectors(text, give=give, want={"out0": [A, B], "out1": [A, B], "out2": [A], "out3": []})


def test_paint_tee_in_a_pull_path(vectors: Any) -> None:
    text = "in0 :: Feed -> Paint(5) -> Queue -> t :: PaintTee(5) -> out0 :: Collect; t[1] -> out1 :: Collect;"
    vectors(text, give={"in0": [A, B]}, want={"out0": [A, B], "out1": [A, B]})


def test_paint_switch(vectors: Any) -> None:
    text = """in0 :: Feed -> Paint(1) -> s :: PaintSwitch; in1 :: Feed -> Paint(255) -> s; in2 :: Feed -> Paint(9) -> s;
s[0] -> out0 :: Collect; s[1] -> out1 :: Collect; s[2] -> out2 :: Collect;"""
    give = {"in0": [A], "in1": [B], "in2": [A, A]}
    vectors(text, give=give, want={"out0": [B], "out1": [A, B], "out2": [B]}, drops={("s", "no such output"): 2})


def test_copies_without_a_frame_are_counted(vectors: Any) -> None:
    text = "in0 :: Feed -> Paint(5) -> t :: PaintTee(5) -> out0 :: Collect; t[1] -> out1 :: Collect;"
    drops = {("pool", "exhausted"): 1}
    vectors(
        text, give={"in0": [A, B]}, want={"out0": [A, B], "out1": [A]}, reads={"t.lost": "1"}, drops=drops, frames=3
    )
    text = "in0 :: Feed -> Paint(255) -> s :: PaintSwitch; s[0] -> out0 :: Collect; s[1] -> out1 :: Collect;"
    vectors(
        text, give={"in0": [A, B]}, want={"out0": [A], "out1": [A, B]}, reads={"s.lost": "1"}, drops=drops, frames=3
    )


def test_set_anno_byte(vectors: Any) -> None:
    text = "in0 :: Feed -> a :: SetAnnoByte(PAINT, 7) -> CheckPaint(7) -> CheckPaint(0, ANNO 40) -> out0 :: Collect;"
    vectors(text, give={"in0": [A]}, want={"out0": [A]}, reads={"a.offset": "16", "a.value": "7"})
