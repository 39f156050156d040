"""Elements that hold information or say something."""

from __future__ import annotations

import io
import os
import subprocess
import sys
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


def test_error_takes_anything_and_refuses() -> None:
    text = 'Idle -> e :: Error(a b, "c, d", X 5) => Discard, Discard; e2 :: ErrorElement;'
    with pytest.raises(MezzoError) as caught:
        compile_text(text)
    names = [d.message.partition(" :: ")[0] for d in caught.value.diagnostics]
    assert names == ["e", "e2"], "and nothing else is wrong"
    assert "this router is not to start" in str(caught.value)


def test_kernel_handlers_are_the_routers_own() -> None:
    with pytest.raises(MezzoError, match="there is no kernel module to ask"):
        compile_text("KernelHandlerProxy(VERBOSE true);")


@pytest.mark.parametrize("text", ["ScheduleLinux", "DevirtualizeInfo(a, b c)", 'ClickyInfo("* { x: y }")', "ChangeUID"])
def test_what_needs_nothing_here_is_taken(vectors: Any, text: str) -> None:
    vectors(f"in0 :: Feed -> out0 :: Collect; {text};", give={"in0": [b"a"]}, want={"out0": [b"a"]})


def test_annotation_info_names_places(vectors: Any) -> None:
    text = """AnnotationInfo(mark 40 1, far 36 4); in0 :: Feed -> Paint(7, mark) -> SetIPAddress(1.2.3.4, far)
  -> c :: CheckPaint(7, 40) -> Print("x", MAXLENGTH 0) -> out0 :: Collect;"""
    vectors(text, give={"in0": [b"a"]}, want={"out0": [b"a"]}, drops={})


def test_annotation_info_inside_a_compound_is_known_there() -> None:
    text = "x :: { AnnotationInfo(own 40); input -> Paint(1, own) -> output }; Idle -> x -> MORE Discard;"
    compile_text(text.replace("MORE", ""))
    with pytest.raises(MezzoError, match="expected an integer, not `own`"):
        compile_text(text.replace("MORE", "Paint(1, own) ->"))


@pytest.mark.parametrize(
    ("arguments", "trouble"),
    [
        ("PAINT 3", "`PAINT` cannot be given"),
        ("paint 16", "`paint` cannot be given"),
        ("5 3", "`5` cannot be given"),
        ("a", "expected NAME OFFSET"),
        ("a 1 2 3", "expected NAME OFFSET"),
        ("a 48", "the bytes 0 to 47"),
        ("a -1", "the bytes 0 to 47"),
        ("a 44 5", "the bytes 0 to 47"),
        ("a x", "expected an integer"),
        ("a 1 2, a 1 3", "`a` is a name already, for the bytes 1 to 2"),
        ("a 1 2, CHECK_OVERLAP a b", "there is no annotation `b`"),
        ("a 1 2, b 2 1, CHECK_OVERLAP a b", "overlap: `a` the bytes 1 to 2, `b` the bytes 2 to 2"),
        ("a 14 4, CHECK_OVERLAP PAINT DST_IP a", "overlap: `PAINT` the bytes 16 to 16, `a` the bytes 14 to 17"),
    ],
)
def test_annotation_info_troubles(arguments: str, trouble: str) -> None:
    with pytest.raises(MezzoError, match=trouble):
        compile_text(f"AnnotationInfo({arguments});")


def test_annotations_that_do_not_overlap_are_fine() -> None:
    compile_text("AnnotationInfo(a 1 2, b 3 2, a 1 2, CHECK_OVERLAP a b PAINT AGGREGATE);")


def test_an_annotation_must_be_long_enough() -> None:
    with pytest.raises(MezzoError, match="the annotation `a` has 2 bytes; this takes 4"):
        compile_text("AnnotationInfo(a 1 2); Idle -> SetIPAddress(1.2.3.4, a) -> Discard;")


@pytest.mark.slow
@pytest.mark.needs_root
def test_change_uid_gives_up_rights_for_good() -> None:
    code = """import os
from mezzo.runtime import Router
os.setresgid(65534, 0, 0); os.setresuid(65534, 0, 0)
with Router.from_click("ChangeUID;", cache=False):
    print(os.getresuid(), os.getresgid())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout == "(65534, 65534, 65534) (65534, 65534, 65534)\n"
