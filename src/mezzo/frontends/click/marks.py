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
    return sorted(_marks(text), key=lambda mark: mark.begin)


def _marks(text: str) -> Iterator[Mark]:
    held: Mark | None = None  # a name, until it is known whether `::` or a configuration string follows
    before, pos = "", 0
    while (m := _PART.search(text, pos)) is not None:
        kind, pos = m.lastgroup or "", m.end()
        begin = m.start()
        if kind == "open":
            if before in ("name", "class", "keyword"):
                pos = config_end(text, pos)
                yield from [held] if held else []
                yield Mark("config", m.end(), pos)
                held = None
            before = ""
            continue
        if kind == "declares" and held is not None:
            yield Mark("declared", held.begin, held.end)
            held, before = None, "declares"
            continue
        yield from [held] if held and kind not in ("comment", "directive") else []
        held = None if kind not in ("comment", "directive") else held
        if kind == "name" and m.group() in KEYWORDS:
            kind = "keyword"
        if kind == "name":
            held = Mark({"declares": "class", "elementclass": "defined"}.get(before, "name"), begin, pos)
        elif kind != "declares":
            yield Mark(kind, begin, pos)
        if kind not in ("comment", "directive"):
            before = "elementclass" if m.group() == "elementclass" else kind
    yield from [held] if held else []
