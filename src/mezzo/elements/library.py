"""Finds element classes by name: the folder is the list.

Files are scanned as text for `class Name(` once, and imported when one of their names is asked for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from mezzo.base import cache as disk
from mezzo.elements.element import Element

_CLASS = re.compile(r"^class (\w+)\((\w+)", re.M)
_ALIASES = re.compile(r"^    aliases\s*=\s*\(([^)]*)\)", re.M)
_ROOMS = ("elements", "ports")  # folders of mezzo that hold elements
_OTHERS = {"Kind", "MezzoError", "NamedTuple"}  # bases of classes that are no elements
_HALVES = {"Receiver", "Transmitter", "Port"}  # of drivers: FromDevice and ToDevice become them
_NOT_ELEMENTS = {
    "__init__",
    "args",
    "confparse",
    "element",
    "library",
    "scheduler",
    "store",
    "thread_scheduler",
    "units",
}

_registered: dict[str, type[Element]] = {}


@cache
def _files() -> dict[str, tuple[str, str]]:
    """Element name (aliases too) -> (module, class name); kept on disk, because reading all files takes 20 ms."""
    name = f"{disk.own_stamp()}.names"
    kept = disk.load(name)
    if kept is not None:
        return {element: (module, cls) for element, (module, cls) in json.loads(kept).items()}
    found = _scan()
    disk.save(name, json.dumps(found).encode())
    return found


def _scan() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    root = Path(__file__).parent.parent
    for room in _ROOMS:
        for path in sorted((root / room).glob("*.py")):
            if path.stem not in _NOT_ELEMENTS:
                found.update(_classes(f"mezzo.{room}.{path.stem}", path.read_text()))
    return found


def _classes(module: str, text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Every name that a file gives to a class that may be an element."""
    found = (m for m in _CLASS.finditer(text) if m[1] not in _HALVES and m[2] not in _OTHERS)
    starts = [(m.start(), m[1]) for m in found if not m[1].startswith("_")]
    for (start, name), (end, _) in zip(starts, [*starts[1:], (len(text), "")], strict=False):
        yield name, (module, name)
        for group in _ALIASES.findall(text[start:end]):
            yield from ((alias, (module, name)) for alias in re.findall(r"[\"'](\w+)[\"']", group))


def register(cls: type[Element]) -> type[Element]:
    """Makes a class of one's own known to configurations; usable as a decorator."""
    for name in (cls.__name__, *cls.aliases):
        _registered[name] = cls
    return cls


def maybe_find(name: str) -> type[Element] | None:
    """The class of that name, or None."""
    if name in _registered:
        return _registered[name]
    place = _files().get(name)
    if place is None:
        return None
    found = getattr(import_module(place[0]), place[1])
    return found if isinstance(found, type) and issubclass(found, Element) else None


def names() -> list[str]:
    """All element names, aliases left out."""
    return sorted(
        {cls for _, cls in _files().values() if maybe_find(cls) is not None}
        | {c.__name__ for c in _registered.values()}
    )


def names_of_files() -> list[str]:
    """All names, aliases too, without importing anything: for hints."""
    return [*_files(), *_registered]


def near(name: str) -> list[str]:
    """Names that look like a mistyped one."""
    import difflib  # only for hints

    return difflib.get_close_matches(name, [*_files(), *_registered], 3, 0.6)
