"""The documentation runs.

Fenced blocks of README.md, CONTRIBUTING.md and docs/*.md, in their order, each file in a folder of its own:

    ```python   executed; blocks of a file share their names
    ```click    checked by `mezzo check`
    ```sh       executed by bash with `mezzo` and `click` on the path; must succeed
    ```text     right after an `sh` or `python` block: what that one printed
    ```console  shown only (it sets something up); a `make` target in it must exist

A python or click block whose first line is a comment with a file name is written to that file too, for what follows.
The pages of docs/elements are what the classes say now, and the example of every element runs on every target.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest

from mezzo.elements import library
from mezzo.runtime import Router
from mezzo.targets import target_names
from mezzo.tools._page import own_classes
from mezzo.tools.help import pages
from mezzo.tools.main import main
from mezzo.tools.run import read_handler

ROOT = Path(__file__).parent.parent
# docs/design.md says what is planned and why; its one class is a sketch.
PAGES = sorted(p for p in (ROOT / "docs").glob("*.md") if p.name != "design.md")
FILES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NAMED = re.compile(r"(?:#|//) ([\w.-]+\.(?:py|click))\n")
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")
# Elements that only Python can feed or read: their use is shown in docs/tutorial.md.
# Those that make a device of the host's need rights, and are shown in docs/ports.md.  Some let no router start.
WITHOUT_EXAMPLE = {"Collect", "Error", "Feed", "KernelHandlerProxy", "KernelTap", "KernelTun", "ToHost"}


@dataclass
class Block:
    language: str
    text: str
    line: int


def blocks(file: Path) -> list[Block]:
    """In order; a `text` block that does not stand right after another block is only a picture, and left out."""
    text, found, end = file.read_text(encoding="utf-8"), [], 0
    for m in FENCE.finditer(text):
        if m[1] != "text" or not text[end : m.start()].strip():
            found.append(Block(m[1], m[2], text.count("\n", 0, m.start()) + 2))
        end = m.end()
    return found


@pytest.fixture(autouse=True)
def only_own_elements(monkeypatch):
    """Classes that a page defines are forgotten after it."""
    monkeypatch.setattr(library, "_registered", dict(library._registered))


class Reader:
    """Does what a reader of one file would do, in `folder`."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.file, self.folder = file, folder
        self.module = types.ModuleType(f"docs_{file.stem}")
        self.printed = ""

    def follow(self, block: Block) -> None:
        named = NAMED.match(block.text)
        if named:
            (self.folder / named[1]).write_text(block.text, encoding="utf-8")
        getattr(self, f"do_{block.language}")(block)

    def do_python(self, block: Block) -> None:
        # The packet compiler reads sources, so a block is a file.
        path = self.folder / f"block_at_line_{block.line}.py"
        path.write_text(block.text, encoding="utf-8")
        sys.modules[self.module.__name__] = self.module
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(block.text, str(path), "exec"), vars(self.module))
        self.printed = out.getvalue()

    def do_click(self, block: Block) -> None:
        path = self.folder / f"block_at_line_{block.line}.click"
        path.write_text(block.text, encoding="utf-8")
        own = [
            w
            for p in sorted(self.folder.glob("*.py"))
            if "class" in p.read_text() and not p.stem.startswith("block")
            for w in ("--elements", str(p))
        ]
        assert main(["check", "-q", str(path), *own]) == 0

    def do_sh(self, block: Block) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        self.printed = done.stdout

    def do_text(self, block: Block) -> None:
        assert self.printed.rstrip() == block.text.rstrip()

    def do_console(self, block: Block) -> None:
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
        for wanted in re.findall(r"\bmake ([\w-]+)", block.text):
            assert wanted in targets, f"there is no `make {wanted}`"


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
def test_every_block_of_a_page_runs(file, tmp_path, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    reader = Reader(file, tmp_path)
    for block in blocks(file):
        try:
            reader.follow(block)
        except Exception as trouble:
            pytest.fail(f"{file.relative_to(ROOT)}:{block.line}: {block.language}: {type(trouble).__name__}: {trouble}")


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
def test_links_lead_somewhere(file):
    text = file.read_text(encoding="utf-8")
    dead = [link for link in LINK.findall(FENCE.sub("", text)) if not (file.parent / link).exists()]
    assert not dead


def test_every_fence_has_a_language_that_is_run():
    known = {"python", "click", "sh", "text", "console"}
    for file in FILES:
        opened = re.findall(r"^```(.*)$", file.read_text(encoding="utf-8"), re.M)[::2]
        assert set(opened) <= known, f"{file.name}: {set(opened) - known}"


def test_the_pages_of_elements_are_up_to_date():
    made = pages()
    there = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "docs" / "elements").glob("*.md")}
    assert sorted(there) == sorted(made), "run `make docs`"
    assert [name for name in made if there[name] != made[name]] == [], "run `make docs`"


def test_every_element_has_an_example_that_reads_something():
    assert [c.__name__ for c in own_classes() if not c.example and c.__name__ not in WITHOUT_EXAMPLE] == []


@pytest.mark.parametrize("cls", own_classes(), ids=lambda c: c.__name__)
def test_the_example_of_an_element_runs_on_every_target(cls, tmp_path, monkeypatch):
    if not cls.example:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for target in target_names():
        with Router.from_click(
            cls.example, f"{cls.__name__}'s example", target=target, virtual=True, frames=4096
        ) as router:
            router.run(seconds=3600, rounds=200_000)
            found = {path: read_handler(router, path) for path in cls.example_reads}
        assert found == cls.example_reads, target
