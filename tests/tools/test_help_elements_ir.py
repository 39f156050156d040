"""mezzo help, elements, ir: what is known about elements and what they become."""

from __future__ import annotations

import json

import pytest

from mezzo.elements import library
from mezzo.tools._page import facts, first_line, own_classes, port_words


def test_a_page_has_its_parts(mezzo):
    page = mezzo("help", "Queue").out
    assert page.startswith("Queue([CAPACITY])\n\nStores packets")
    for part in (
        "ARGUMENTS\n  CAPACITY",
        "PORTS\n  1 input, push",
        "HANDLERS\n",
        "capacity (rw)",
        "EXAMPLE\n",
        "SEE ALSO\n",
    ):
        assert part in page


def test_a_page_by_an_alias(mezzo):
    assert mezzo("help", "FullNoteQueue").out == mezzo("help", "Queue").out


def test_a_page_as_markdown(mezzo):
    page = mezzo("help", "Queue", "--markdown").out
    assert page.startswith("# Queue\n")
    assert "```click\n" in page


def test_help_on_a_subcommand_is_its_help(mezzo):
    assert mezzo("help", "check").out == mezzo("check", "--help").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Queue", ["1 input, push", "1 to 2 outputs, pull (output 0), push (the others)"]),
        ("Idle", None),
        ("Tee", ["1 input, push", "1 or more outputs, push"]),
        ("InfiniteSource", ["no inputs", "1 output, agnostic"]),
    ],
)
def test_ports_in_words(name, words):
    cls = library.maybe_find(name)
    assert cls is not None
    assert words is None or port_words(cls) == words


@pytest.mark.parametrize("cls", own_classes(), ids=lambda c: c.__name__)
def test_every_element_has_a_page_worth_reading(cls):
    name = cls.__name__
    assert first_line(cls).endswith((".", ":")), f"{name} begins with one sentence on what it does"
    found = facts(cls)
    assert all(a["doc"] for a in found["arguments"]), f"{name}: an argument without a word on what it means"
    unknown = [s for s in cls.see if library.maybe_find(s) is None]
    assert not unknown, f"{name}: see also names no element: {unknown}"


def test_elements_lists_and_searches(mezzo):
    assert "\nQueue " in mezzo("elements").out
    assert {x.split()[0] for x in mezzo("elements", "paint").out.splitlines()} >= {"Paint", "CheckPaint"}


def test_elements_as_json(mezzo):
    found = {e["name"]: e for e in json.loads(mezzo("elements", "--json", "queue").out)}
    assert found["Queue"]["arguments"][0]["name"] == "CAPACITY"
    assert found["Queue"]["ports"] == "1/1-2"


def test_pages_are_written_and_old_ones_go(mezzo, tmp_path):
    (tmp_path / "Gone.md").write_text("old")
    assert mezzo("help", "--write", str(tmp_path)).status == 0
    assert not (tmp_path / "Gone.md").exists()
    assert (tmp_path / "Queue.md").read_text() == mezzo("help", "Queue", "--markdown").out
    assert "[Queue](Queue.md)" in (tmp_path / "README.md").read_text()


def test_ir_of_a_class_and_of_its_configuration(mezzo):
    assert "p.anno.u8[16] = self.color" in mezzo("ir", "Paint(3)").out
    assert mezzo("ir", "Counter").out.startswith("unit Counter")


def test_ir_of_a_configuration_shows_equal_elements_once(mezzo):
    done = mezzo("ir", "-e", "Idle -> a :: Counter -> b :: Counter -> Discard;", "--cost")
    assert [line for line in done.out.splitlines() if line.startswith("a, b ")]
    assert mezzo("ir", "-e", "Idle -> a :: Counter -> Discard;", "--element", "a").out.startswith("unit Counter")


def test_ir_as_python_and_llvm(mezzo):
    assert mezzo("ir", "Counter", "--python").out.startswith("def process(me, p_):")
    assert "define internal fastcc" in mezzo("ir", "-e", "Idle -> Counter -> Discard;", "--llvm").out


def test_ir_says_which_argument_is_missing(mezzo):
    done = mezzo("ir", "Paint(red)")
    assert done.status == 1
    assert "COLOR" in done.err


NO_ROUTER = {"Error", "KernelHandlerProxy"}  # they let no router start


@pytest.mark.slow
@pytest.mark.parametrize("cls", own_classes(), ids=lambda c: c.__name__)
def test_ir_of_every_element(mezzo, cls):
    needed = {"KernelTun": "(10.0.0.1/8)", "KernelTap": "(10.0.0.1/8)", "ToHost": "(lo)"}.get(cls.__name__, "")
    done = mezzo("ir", cls.__name__ + needed, "--cost")
    if cls.__name__ in NO_ROUTER:
        assert done.status == 1 and cls.__name__ in done.err
    else:
        assert (done.status, done.err) == (0, "")
