"""The parts of a text as an editor colours them (`marks`), also where the text is wrong.

Nothing is looked up: a name is a name, and whether it is a class is for the reader to know.  A `(` opens a
configuration string behind a name or a keyword, and a group elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mezzo.frontends.click.lexer import KEYWORDS, config_end

_PART = re.compile(
    r"(?P<comment>//[^\r\n]*|/\*.*?(?:\*/|\Z))"
    r"|(?P<directive>(?:(?<=\n)|(?<=\r)|\A)\#[^\r\n]*)"
    r"|(?P<name>[A-Za-z0-9_@]+(?:/[A-Za-z0-9_@]+)*)"
    r"|(?P<variable>\$[A-Za-z0-9_]+)"
    r"|(?P<arrow>->|=>)"
    r"|(?P<open>\()"
    r"|(?P<declares>::)"
    r"|(?P<port>\[[^\]\r\n]*\])",
    re.DOTALL,
)


class Mark(NamedTuple):
    """`kind` is comment, directive, keyword, name, declared, class, defined, config, variable, arrow or port.

    A name is declared before `::`, a class behind it, and defined behind `elementclass`.
    """

    kind: str
    begin: int
    end: int


def marks(text: str) -> list[Mark]:
    """The coloured parts in order; what lies between them is plain."""
    parts = list(_parts(text))
    said = [number for number, part in enumerate(parts) if part.kind not in ("comment", "directive")]
    for before, number, behind in zip([-1, *said], said, [*said[1:], -1], strict=False):
        if parts[number].kind == "name":
            around = [parts[n].kind if n >= 0 else "" for n in (before, behind)]
            parts[number] = parts[number]._replace(kind=_kind_of_name(*around))
    return [part._replace(kind=_SHOWN.get(part.kind, part.kind)) for part in parts if part.kind not in _SILENT]


_SILENT = ("declares", "open")
_SHOWN = {"elementclass": "keyword"}


def _kind_of_name(before: str, behind: str) -> str:
    if behind == "declares":
        return "declared"
    return {"declares": "class", "elementclass": "defined"}.get(before, "name")


def _parts(text: str) -> Iterator[Mark]:
    """The parts by their form alone; a keyword `elementclass` has a kind of its own."""
    before, pos = "", 0
    while (m := _PART.search(text, pos)) is not None:
        kind, pos = m.lastgroup or "", m.end()
        if kind == "name" and m.group() in KEYWORDS:
            kind = "elementclass" if m.group() == "elementclass" else "keyword"
        if kind == "open" and before in ("name", "keyword"):
            pos = config_end(text, pos)
            yield Mark("config", m.end(), pos)
        else:
            yield Mark(kind, m.start(), pos)
        before = kind if kind not in ("comment", "directive") else before
