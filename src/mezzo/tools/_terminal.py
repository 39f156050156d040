"""What goes to the terminal: errors (coloured there only), tables, a progress line."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from mezzo.base import Diagnostic

BOLD, RED, YELLOW, PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[0m"
_CARET = re.compile(r"^ +\| .*\^")
_SOURCE = re.compile(r"^ *\d* \|")
# What is no text must not steer the terminal: control characters but newline and tab become dots.
_HARMLESS = {code: "·" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def has_colour(stream: TextIO) -> bool:
    """A terminal that was not asked to do without (https://no-color.org)."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def print_errors(diagnostics: Iterable[Diagnostic], stream: TextIO | None = None) -> None:
    """Errors and warnings with their places, one after another, to stderr."""
    out = stream or sys.stderr
    colour = has_colour(out)
    for d in diagnostics:
        text = harmless(d.render())
        print(paint(text, RED if d.severity == "error" else YELLOW) if colour else text, file=out)
    out.flush()


def harmless(text: str) -> str:
    """Text of somebody else's, for a terminal."""
    return text.translate(_HARMLESS)


def paint(text: str, colour: str) -> str:
    """A rendered diagnostic with its messages bold and its carets coloured."""
    lines = text.split("\n")
    return "\n".join(_painted(line, colour, first=i == 0) for i, line in enumerate(lines))


def _painted(line: str, colour: str, first: bool) -> str:
    if _CARET.match(line):
        return f"{colour}{line}{PLAIN}"
    return f"{BOLD}{line}{PLAIN}" if first and not _SOURCE.match(line) else line


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[_cell(x) for x in row] for row in rows]
    right = [all(_is_number(row[i]) for row in cells) for i in range(len(head))] if cells else [False] * len(head)
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    lines = []
    for row in [list(head), *cells]:
        parts = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True))
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    return text == "" or text.replace(",", "").replace(".", "", 1).lstrip("-").isdigit()


class Progress:
    """One line on a terminal that is written over; nothing elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.shown = False

    def show(self, text: str) -> None:
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[K{text}")
            self.stream.flush()
            self.shown = True

    def clear(self) -> None:
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.shown = False
