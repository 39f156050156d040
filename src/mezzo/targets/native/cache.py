"""Object code on disk: found by the hash of all that decides it, safe under concurrent runs, bounded in size.

A file is the SHA-256 of its content, then the content; one that does not match its hash (torn, damaged) is as good
as absent.  Writes go to a name of their own and are renamed into place.  Reading a file touches it, and the files
touched longest ago go when the directory grows over its bound.  Whatever goes wrong with the disk, the program is
compiled and runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.ops import Node
from mezzo.ir.types import Type
from mezzo.targets.native.layout import field_names

BOUND = 256 << 20  # bytes


def directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "mezzo"


def _text(x: object, out: list[str]) -> None:
    """A text of an IR value; equal values have equal texts, places in the source left out."""
    if isinstance(x, Type):
        out.append(x.name)
    elif isinstance(x, tuple):
        out.append("(")
        for item in x:
            _text(item, out)
        out.append(")")
    elif isinstance(x, Node | Function | Param | State | Unit):
        out.append(type(x).__name__)
        for name in field_names(type(x)):
            _text(getattr(x, name), out)
    else:
        out.append(repr(x))


def unit_text(unit: Unit) -> str:
    out: list[str] = []
    _text((unit.functions, unit.states, unit.reasons, unit.hosts), out)
    return " ".join(out)


def unit_keys(program: Program) -> tuple[list[int], list[str]]:
    """(for each instance the number of its unit, the texts of the distinct units)."""
    by_id: dict[int, int] = {}
    by_text: dict[str, int] = {}
    keys = []
    for linked in program.instances:
        if id(linked.unit) not in by_id:
            by_id[id(linked.unit)] = by_text.setdefault(unit_text(linked.unit), len(by_text))
        keys.append(by_id[id(linked.unit)])
    return keys, list(by_text)


def _links(linked: Linked) -> str:
    """What code depends on in an instance's place."""
    names = ("outputs", "inputs", "pull_outputs", "pull_inputs", "task", "timer", "wake_down", "wake_up", "ready")
    return repr([getattr(linked, name) for name in names])


@cache
def _own_source() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key(program: Program, keys: list[int], units: list[str], more: Iterable[object]) -> str:
    """The name of a program's code; `more`: the machine and the options."""
    digest = hashlib.sha256(_own_source().encode())
    places = [_links(x) for x in program.instances]
    for part in (keys, program.tasks, program.timers, *units, *places, *more):
        digest.update(f"{part}\0".encode())
    return digest.hexdigest()


def load(name: str) -> bytes | None:
    """The object code kept under `name`."""
    path = directory() / f"{name}.o"
    try:
        raw = path.read_bytes()
        with contextlib.suppress(OSError):
            os.utime(path)
    except OSError:
        return None
    content = raw[32:]
    return content if hashlib.sha256(content).digest() == raw[:32] else None


def save(name: str, content: bytes) -> None:
    """Keeps `content`, if the disk lets us."""
    with contextlib.suppress(OSError):
        folder = directory()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, folder / f"{name}.o")
        except OSError:
            os.unlink(temporary)
            raise
        trim(folder)


def trim(folder: Path, bound: int = BOUND) -> None:
    """Removes the files touched longest ago until the rest fits."""
    files = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            stat = path.stat()
            files.append((stat.st_mtime_ns, stat.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= bound:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
