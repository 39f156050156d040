"""A source text and its places: an offset becomes file, line, column and the line itself.

Line directives (`# 50 "other.h"`, `#line 50`) change what file and line the text behind them belongs to, so that
messages survive a preprocessor.  The lexer reports each one here as it meets it; places are worked out from the
sorted list when somebody asks.

A `ConfigText` is a configuration string that remembers where each part of it was written, because directives are
cut out of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

from mezzo.base import Span
from mezzo.elements.confparse import argument_offsets, unquote

_LINE_END = re.compile(r"\r\n?|\n")
_DIRECTIVE = re.compile(r'#[ \t]*(?:line[ \t]+)?(\d{1,9})[ \t]*("(?:[^"\\\r\n]|\\[^\r\n])*")?[^\r\n]*', re.ASCII)


class SourceText:
    """One file's text."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self._starts = [0, *(m.end() for m in _LINE_END.finditer(text))]
        self._lines: dict[int, str] = {}
        # (first line index the directive governs, file, number of that line); the last one before a line governs it.
        self._governed_from = [0]
        self._governors = [(file, 1)]

    def read_directive(self, offset: int) -> int | None:
        """Take in the line directive at this `#`; the offset of its line's end, or None if it is not one."""
        m = _DIRECTIVE.match(self.text, offset)
        if m is None:
            return None
        file = self._governors[-1][0]
        if m.group(2) is not None:
            file = unquote(m.group(2)) or self.file
        next_line = bisect_right(self._starts, offset)
        if self._governed_from[-1] < next_line:
            self._governed_from.append(next_line)
            self._governors.append((file, int(m.group(1))))
        return m.end()

    def span(self, offset: int, width: int = 1) -> Span:
        """The place of `width` characters from this offset."""
        index = bisect_right(self._starts, offset) - 1
        which = bisect_right(self._governed_from, index) - 1
        file, number = self._governors[which]
        line = number + index - self._governed_from[which]
        return Span(file, line, offset - self._starts[index] + 1, self._line(index), width)

    def _line(self, index: int) -> str:
        line = self._lines.get(index)
        if line is None:
            # Shared by all spans of the line: a generated file may be one line of megabytes.
            end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self.text)
            line = self._lines[index] = self.text[self._starts[index] : end].rstrip("\r\n")
        return line


@dataclass(frozen=True, slots=True, eq=False)
class ConfigText:
    """A configuration string; `pieces` pairs offsets in `text` with the offsets in the source they came from."""

    text: str
    source: SourceText
    pieces: tuple[tuple[int, int], ...]

    def span(self, offset: int = 0, width: int = 1) -> Span:
        """The place of an offset in this string."""
        which = bisect_right(self.pieces, offset, key=lambda piece: piece[0]) - 1
        begin, source_begin = self.pieces[which]
        return self.source.span(source_begin + offset - begin, width)

    def argument_span(self, index: int, width: int = 1) -> Span | None:
        """The place of the argument with this index, if there is one as written."""
        offsets = argument_offsets(self.text)
        if not 0 <= index < len(offsets):
            return None
        offset = offsets[index]
        return self.span(min(offset, len(self.text) - 1) if self.text else 0, width)
