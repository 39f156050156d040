"""docs/examples.md is what the examples say of themselves, and what they say of their variables is true."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = [p for p in (ROOT / "tests").rglob("test_*.py") if p.name != Path(__file__).name]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_examples", ROOT / "docs" / "examples.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


listing = loaded()
ALL = listing.examples()


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "examples.md").read_text(encoding="utf-8") == listing.page(), "run `make docs`"


@pytest.mark.parametrize("example", ALL, ids=lambda e: e.name)
def test_the_command_names_variables_that_there_are(example: listing.Example) -> None:  # type: ignore[name-defined]
    text = (ROOT / "examples" / example.name).read_text(encoding="utf-8")
    defined = set(re.findall(r"[(,]\s*\$(\w+)[ \n]", text))
    given = set(re.findall(r"\s(\w+)=", example.command))
    assert given <= defined


@pytest.mark.parametrize("example", [e for e in ALL if e.name != "record_demo.py"], ids=lambda e: e.name)
def test_a_test_runs_it(example: listing.Example) -> None:  # type: ignore[name-defined]
    """By its name, or as one of all programs (test_examples.py)."""
    in_all = example.name.endswith(".py")
    assert in_all or any(f'"{example.name}"' in p.read_text(encoding="utf-8") for p in TESTS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// No command.\n",
        "// Another file.\n//\n//   mezzo run examples/other.click\n",
        "// no end of a sentence\n//\n//   mezzo run examples/x.click\n",
    ],
)
def test_a_header_that_does_not_say_it(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.click"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"x\.click: its header must be"):
        listing.example(file)
