"""Align, AlignmentInfo, Message, ScheduleInfo."""

from __future__ import annotations

import io
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.pipeline import compile_text
from mezzo.runtime import Router


def test_align_passes_packets(vectors: Any) -> None:
    vectors("in0 :: Feed -> Align(4, 2) -> out0 :: Collect;", give={"in0": [b"abc", b""]}, want={"out0": [b"abc", b""]})


def test_Ao07_two_information_elements_of_one_class(vectors: Any) -> None:
    vectors("AlignmentInfo(s 8 2) AlignmentInfo(d 8 2) s :: Idle -> d :: Discard", reads={"d.count": "0"})


def test_message() -> None:
    said = io.StringIO()
    plan = compile_text('Message("hello there")')
    with Router(plan) as router:
        router.output = said
        router.elements["Message@1"].initialize()
    assert said.getvalue() == "hello there\n"
    assert [w.message for w in compile_text("Message(careful, WARNING)").warnings] == ["Message@1 :: Message: careful"]
    with pytest.raises(MezzoError, match="not this way"):
        compile_text("Message(not this way, TYPE ERROR)")


SCHEDULED = """c :: { a :: InfiniteSource(LIMIT 1) -> Discard; b :: InfiniteSource(LIMIT 1) -> Discard;
  ScheduleInfo(a 0.5) };
s :: InfiniteSource(LIMIT 1) -> Discard;"""


@pytest.mark.parametrize(
    ("information", "tickets"),
    [
        ("", {"c/a": 512, "c/b": 1024, "s": 1024}),
        ("ScheduleInfo(c 4, s 2);", {"c/a": 2048, "c/b": 4096, "s": 2048}),
        ("ScheduleInfo(c 4, c/a 2);", {"c/a": 2048, "c/b": 4096}),
    ],
)
def test_schedule_info(vectors: Any, information: str, tickets: dict[str, int]) -> None:
    vectors(SCHEDULED + information, reads={f"{name}.tickets": str(value) for name, value in tickets.items()})


def test_schedule_info_troubles() -> None:
    with pytest.raises(MezzoError, match="there is no element `q`"):
        Router.from_click("ScheduleInfo(q 2);")
    with pytest.raises(MezzoError, match="expected ELEMENT PARAMETER"):
        compile_text("ScheduleInfo(q);")
