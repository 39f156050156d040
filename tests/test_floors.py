"""The floors of the house: a room imports only from rooms below it (docs/house.md), also inside functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "mezzo"
FLOORS = (
    "base", "wire", "packet", "ir", "passes", "elements", "frontends", "graph",
    "targets", "pipeline", "ports", "runtime", "stack", "vnet", "sim", "tools",
)  # fmt: skip
LISTS = {"ir/ops.py"}  # the one list of ops: a table, one row after another
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything of mezzo that a file imports."""
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] == "mezzo")
        elif isinstance(node, ast.ImportFrom):
            if node.module == "mezzo":
                yield from ((node.lineno, f"mezzo.{a.name}") for a in node.names)
            elif (node.module or "").startswith("mezzo."):
                yield node.lineno, str(node.module)


def reaches_up(room: str, path: Path) -> bool:
    """A look at the text, which is quicker than a parse and finds too much rather than too little."""
    above = "|".join(FLOORS[floor(room) + 1 :])
    return (
        bool(above)
        and re.search(rf"^[ \t]*(from|import)[ \t]+mezzo(\.({above})\b|[ \t]+import)", text_of(path), re.M) is not None
    )


def floor(name: str) -> int:
    return FLOORS.index(name)


def test_every_room_has_a_floor():
    rooms = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert rooms <= set(FLOORS)


@pytest.mark.parametrize("room", [r for r in FLOORS if (SOURCE / r).is_dir()])
def test_imports_go_down(room):
    wrong = []
    for path in filter(lambda p: reaches_up(room, p), (SOURCE / room).rglob("*.py")):
        for line, name in imports(path):
            parts = name.split(".")
            if len(parts) > 1 and parts[1] in FLOORS and floor(parts[1]) > floor(room):
                wrong.append(f"{path.relative_to(SOURCE)}:{line}: {room} imports {name}, which stands above it")
    assert not wrong, "\n".join(wrong)


def test_importing_the_package_loads_no_room():
    """`import mezzo` is quick: what it offers by name is loaded when it is asked for."""
    loaded = [
        n
        for n in ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8")).body
        if isinstance(n, ast.Import | ast.ImportFrom)
    ]
    assert not [n for n in loaded if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("mezzo.")]


def test_no_file_is_too_long_to_read():
    long = {str(p.relative_to(SOURCE)): n for p in FILES if (n := text_of(p).count("\n")) > 600}
    assert not long.keys() - LISTS, f"split these: {long}"


def test_every_file_opens_with_its_theory():
    bare = [str(p.relative_to(SOURCE)) for p in FILES if not text_of(p).startswith('"""')]
    assert not [b for b in bare if not b.endswith("__init__.py")], bare


def test_imports_are_absolute():
    relative = [str(p.relative_to(SOURCE)) for p in FILES if re.search(r"^[ \t]*from[ \t]+\.", text_of(p), re.M)]
    assert not relative


def test_the_look_at_the_text_finds_imports_that_reach_up(tmp_path):
    for number, line in enumerate(
        ("import mezzo.tools.run", "    from mezzo.runtime import Router", "from mezzo import runtime")
    ):
        file = tmp_path / f"x{number}.py"
        file.write_text(f'"""x"""\n{line.strip()}\n')
        assert reaches_up("base", file)
        assert list(imports(file))
