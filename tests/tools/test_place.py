"""mezzo place, --place and mezzo elements --targets: what runs in the kernel, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mezzo.elements.discard import Discard
from mezzo.elements.paint import PaintTee
from mezzo.elements.queue import Queue
from mezzo.ports.from_device import FromDevice
from mezzo.tools._targets import markdown, row_of, rows

ROOT = Path(__file__).parent.parent.parent
TEXT = """from :: FromDevice(a0, METHOD XDP) -> t :: PaintTee(3) -> c :: Counter
    -> Queue -> to :: ToDevice(b0, METHOD XDP);
t[1] -> d :: Discard;"""


@pytest.fixture(autouse=True)
def interfaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mezzo.ports.level.cannot_redirect", lambda device: "")
    monkeypatch.setattr("mezzo.ports.level.is_veth", lambda device: False)
    monkeypatch.setattr("mezzo.ports.level.queues_at_once", lambda device: 1)


def test_a_line_for_each_element(mezzo):
    done = mezzo("place", "-e", TEXT)
    assert (done.status, done.err) == (0, "")
    summary = "2 in the kernel, 3 in the kernel for their usual work, 1 native"
    lines = done.out[: done.out.index(summary)].splitlines()
    assert lines[0].split() == ["element", "level", "line", "why"]
    assert [line.split()[:2] for line in lines[1:]] == [
        ["from", "kernel"], ["t", "kernel+native"], ["c", "kernel"], ["Queue@4", "kernel+native"],
        ["to", "kernel+native"], ["d", "native"],
    ]  # fmt: skip
    assert "paint.py:" in lines[2] and "it makes packets" in lines[2]
    assert lines[3].startswith("  c") and lines[-1].startswith("  d")  # ways part at t


def test_levels_are_coloured_on_a_terminal(mezzo, monkeypatch):
    monkeypatch.setattr("mezzo.tools.place.has_colour", lambda stream: True)
    lines = mezzo("place", "-e", TEXT).out.splitlines()
    assert lines[1].startswith("\x1b[32mfrom") and lines[2].startswith("\x1b[33mt") and not lines[6].startswith("\x1b")


def test_a_configuration_says_it_itself(mezzo):
    said = mezzo("place", "-e", TEXT + "Place(* auto, c native);").out
    rows = {line.split()[0]: line.split()[1] for line in said.splitlines()[1:-1]}
    assert rows["c"] == "native" and rows["t"] == "native"
    rows = {x.split()[0]: x.split()[1] for x in mezzo("place", "-e", TEXT, "--place", "t=kernel").out.splitlines()[1:]}
    assert (rows["t"], rows["c"]) == ("kernel+native", "native")


def test_pictures(mezzo, tmp_path):
    svg, page = tmp_path / "x.svg", tmp_path / "x.html"
    assert mezzo("place", "-e", TEXT, "-o", str(svg)) == (0, "", "")
    assert mezzo("place", "-e", TEXT, "-o", str(page)).status == 0
    drawn = svg.read_text()
    assert drawn.startswith("<svg") and drawn.count("#cfeacb") == 2 and drawn.count("#fbe9b5") == 3
    assert "kernel+native</text>" in drawn
    assert "it makes packets" in page.read_text() and "<svg" in page.read_text()
    wrong = mezzo("place", "-e", TEXT, "-o", "x.png")
    assert wrong.status == 1 and "end the name in .svg or .html" in wrong.err
    assert mezzo("place", "-e", TEXT, "-o", str(tmp_path / "no" / "x.svg")).status == 1


def test_as_json(mezzo):
    found = json.loads(mezzo("place", "-e", TEXT, "--json").out)
    tee = next(x for x in found["elements"] if x["name"] == "t")
    assert (tee["class"], tee["level"]) == ("PaintTee", "kernel+native") and "paint.py" in tee["line"]
    assert tee["place"].startswith("expression:1")
    assert found["entries"] == [{"element": "from", "device": "a0"}]
    assert found["wires"] == [{"element": "to", "device": "b0"}] and found["ups"] == [{"element": "t", "input": 0}]


def test_wishes_that_cannot_be(mezzo):
    for command in ("place", "check", "run"):
        done = mezzo(command, "-e", TEXT, "--place", "d=kernel")
        assert done.status == 1 and "`d` cannot be in the kernel" in done.err, command
        done = mezzo(command, "-e", TEXT, "--place", "nobody=kernel")
        assert done.status == 1 and "no element has a name like `nobody`" in done.err
        assert "this is no wish" in mezzo(command, "-e", TEXT, "--place", "c=metal").err


def test_what_each_class_can_do():
    assert row_of(Discard).kernel == "yes"
    assert row_of(PaintTee).kernel.startswith("usual work; else it makes packets")
    assert "device's own queue" in row_of(Queue).kernel
    assert row_of(FromDevice).kernel.startswith("yes, with METHOD XDP")


def test_the_table_for_some_words(mezzo):
    found = json.loads(mezzo("elements", "--targets", "PaintTee", "--json").out)
    assert [row["name"] for row in found] == ["PaintTee"]
    assert "say --targets" in mezzo("elements", "--write", "x.md").err
    assert mezzo("elements", "--targets", "PaintTee").out.splitlines()[1].split()[:2] == ["PaintTee", "yes"]


@pytest.mark.slow
def test_the_page_of_the_docs_is_what_the_classes_say_now():
    assert (ROOT / "docs" / "targets.md").read_text(encoding="utf-8") == markdown(rows()), "run `make docs`"


def test_a_run_of_which_nothing_is_in_the_kernel_tells_where_to_ask(mezzo):
    done = mezzo("run", "-e", "InfiniteSource(LIMIT 1, STOP true) -> Discard", "--place", "auto")
    assert done.status == 0 and "placement: 2 native; `mezzo place` says why\n" in done.err
