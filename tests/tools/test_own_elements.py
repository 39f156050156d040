"""--elements: element classes out of files of one's own, and what is said when such a file is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from mezzo.elements import library

GOOD = '''from mezzo.elements import Element, Packet, Port, u64


class Mine(Element):
    """Counts."""

    seen: u64
    reads = ("seen",)

    def process(self, p: Packet) -> Port:
        self.seen += 1
        return 0
'''


@pytest.fixture(autouse=True)
def forget_own_elements(monkeypatch):
    monkeypatch.setattr(library, "_registered", dict(library._registered))


@pytest.fixture
def write(tmp_path):
    def make(text):
        file = tmp_path / "mine.py"
        file.write_text(text)
        return str(file)

    return make


def test_every_command_knows_them(mezzo, write):
    own = ("--elements", write(GOOD))
    text = "InfiniteSource(LIMIT 3) -> m :: Mine -> Discard;"
    assert mezzo("run", *own, "-e", text, "--target", "python", "--handlers", "m.seen", "-q").out == "3\n"
    assert mezzo("check", *own, "-q", "-e", text).status == 0
    assert mezzo("graph", *own, "-e", text).status == 0
    assert mezzo("flatten", *own, "-e", text, "-c").out == "Discard\nInfiniteSource\nMine\n"
    assert mezzo("help", *own, "Mine").out.startswith("Mine\n\nCounts.\n")
    assert mezzo("ir", *own, "Mine").out.startswith("unit Mine\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "defines no element class"),
        ("def f(:\n", "mine.py:1:7: invalid syntax\n1 | def f(:"),
        ("\nimport no_such_thing\n", "cannot be imported: ModuleNotFoundError"),
        ("\n1 / 0\n", "mine.py:2:1: "),
        (GOOD.replace("return 0", "while True: pass"), "mine.py:12:9: "),
        (GOOD.replace("return 0", "return"), "mine.py:"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(mezzo, write, text, said):
    done = mezzo("check", "--elements", write(text), "-e", "Idle -> Mine -> Discard;")
    assert done.status == 1
    assert said in done.err
    assert "Traceback" not in done.err


def test_a_file_that_is_not_there(mezzo):
    assert "there is no such Python file" in mezzo("check", "--elements", "/no/such.py", "-e", "").err


def test_the_place_is_known_under_a_relative_name_too(mezzo, write, monkeypatch):
    file = Path(write("\nfrom mezzo.elements import Kounter\n"))
    monkeypatch.chdir(file.parent)
    done = mezzo("check", "--elements", file.name, "-e", "Idle -> Mine -> Discard;")
    assert f"{file.name}:2:1: " in done.err
    assert "2 | from mezzo.elements import Kounter" in done.err
