"""Writes docs/examples.md from what the examples say of themselves: `python docs/examples.py`, or `make docs`.

A configuration begins with a comment, a program with a docstring: in its first paragraph a sentence that says what it
is, behind it the command that runs it, indented.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().with_suffix(".md")
EXAMPLES = PAGE.parent.parent / "examples"
INTRODUCTION = """# Examples

Each begins with a comment that says more, and each is run by a test. Those that name interfaces need root, as
[ports](ports.md) says; `eth0` and the others stand for yours. (`make docs` writes this page.)

| example | what it is | how to run it |
| --- | --- | --- |
"""


@dataclass(frozen=True)
class Example:
    name: str
    sentence: str
    command: str


def header(file: Path) -> list[str]:
    """The lines of the comment or docstring at the top."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").splitlines()
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
    return [line[2:].removeprefix(" ") for line in lines[:end]]


def example(file: Path) -> Example:
    """ValueError: the header does not say what it has to."""
    lines = header(file)
    blank = lines.index("") if "" in lines else len(lines)
    sentence = re.split(r"(?<=[.])\s", " ".join(lines[:blank]), maxsplit=1)[0]
    command = next((line.strip() for line in lines[blank:] if line.startswith("  ")), "")
    if not sentence.endswith(".") or f"examples/{file.name}" not in command:
        raise ValueError(f"{file.name}: its header must be a sentence, an empty line, and the command, indented")
    return Example(file.name, sentence, re.sub(r"\s+\[.*", "", command))


def examples() -> list[Example]:
    files = [*sorted(EXAMPLES.glob("*.click")), *sorted(EXAMPLES.glob("*.py"))]
    return [example(file) for file in files]


def page() -> str:
    rows = (f"| [{e.name}](../examples/{e.name}) | {_marked(e.sentence)} | `{e.command}` |" for e in examples())
    return INTRODUCTION + "\n".join(rows) + "\n"


def _marked(sentence: str) -> str:
    """Variables as code: a dollar sign begins a formula in some readers of Markdown."""
    return re.sub(r"\$(\w+)", r"`\1`", sentence)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
