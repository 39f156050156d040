"""Tokens of the Click language.

The text between parentheses after a class is not made of tokens: it is a configuration string, taken verbatim up to
the balancing `)`, with quotes and comments respected.  Only the parser knows which parenthesis opens one, so the
lexer works on demand with one or two tokens of look-ahead, and `config()` continues right behind a `(` just read.

Rules of this file: one regular expression per lexical state, no loop per character (a configuration string may be
tens of megabytes); a line that begins with `#` is a line directive, in tokens and inside configuration strings alike.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from mezzo.base import MezzoError, Reporter
from mezzo.frontends.click.source import ConfigText, SourceText

KEYWORDS = frozenset({"elementclass", "require", "provide", "define"})

# No group is repeated possessively: Python 3.11.2 (Debian 12's) matches those short.
_COMMENT = r"//[^\r\n]*|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/"
_SKIP = re.compile(rf"(?:\s+|{_COMMENT})*", re.ASCII)
_LINE = re.compile(r"[^\r\n]*")
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z0-9_@]+(?:/[A-Za-z0-9_@]+)*)"
    r"|(?P<variable>\$[A-Za-z0-9_]+)"
    r"|(?P<mark>->|=>|::|\|\||\.\.\.|[;,()\[\]{}|\-])"
)
# Everything in a configuration string that neither nests, ends it, nor begins a line directive.
_CONFIG_RUN = re.compile(
    rf"(?:[^()'\"\\/\r\n#]+|{_COMMENT}|/(?![/*])|\r\n?+(?!\#)|\n(?!\#)|(?<![\r\n])\#"
    r"|\"[^\"\\]*+(?:\\.[^\"\\]*+)*\"|'[^']*+'|\\<[^>]*+>|\\(?!<))*",
    re.DOTALL,
)


class Token(NamedTuple):
    """`kind` is "name", "variable", "end", "unknown", or the keyword or mark itself."""

    kind: str
    text: str
    offset: int


class Lexer:
    """Reads one source."""

    def __init__(self, source: SourceText, reporter: Reporter) -> None:
        self.source = source
        self._reporter = reporter
        self._text = source.text
        self._pos = 0
        if source.text.startswith("#!"):  # the line that names an interpreter
            self._pos = _LINE.match(self._text).end()  # type: ignore[union-attr]
        self._ahead: list[Token] = []

    def peek(self) -> Token:
        """The next token, without taking it."""
        if not self._ahead:
            self._ahead.append(self._read())
        return self._ahead[0]

    def peek_second(self) -> Token:
        """The token behind the next."""
        self.peek()
        if len(self._ahead) == 1:
            self._ahead.append(self._read())
        return self._ahead[1]

    def next(self) -> Token:
        """Take the next token."""
        return self._ahead.pop(0) if self._ahead else self._read()

    def config(self, opening: Token) -> ConfigText:
        """The configuration string behind `opening`, a `(` just taken, and its `)` taken too."""
        assert not self._ahead, "a configuration string is read right behind its parenthesis"
        pieces: list[tuple[int, int]] = []
        parts: list[str] = []
        length, begin, pos, depth = 0, opening.offset + 1, opening.offset + 1, 1
        while depth:
            pos = _CONFIG_RUN.match(self._text, pos).end()  # type: ignore[union-attr]
            char = self._text[pos : pos + 1]
            if char == "(":
                depth += 1
            elif char == ")":
                depth -= 1
            elif char in ("\r", "\n"):
                pos = self._line_break(pos)
                hash_offset = pos - 1
                parts.append(self._text[begin:hash_offset])
                pieces.append((length, begin))
                length += hash_offset - begin
                begin = pos = self._directive(hash_offset)
                continue
            else:
                raise self._unclosed_config(opening, pos)
            pos += 1
        self._pos = pos
        parts.append(self._text[begin : pos - 1])
        pieces.append((length, begin))
        return ConfigText("".join(parts), self.source, tuple(pieces))

    def _line_break(self, pos: int) -> int:
        """The offset behind the `#` that begins the line after this line break."""
        return pos + (3 if self._text.startswith("\r\n", pos) else 2)

    def _unclosed_config(self, opening: Token, pos: int) -> MezzoError:
        """The text ended first.  An unclosed quote or comment inside is the likelier mistake, so it is named."""
        what = {'"': "quote", "'": "quote", "/": "comment", "\\": "`\\<`"}.get(self._text[pos : pos + 1])
        if what is None:
            hint = "write the `)` that ends the configuration string"
            self._reporter.error("this `(` is never closed", self.source.span(opening.offset), hint=hint)
        else:
            self._reporter.error(f"this {what} is never closed", self.source.span(pos))
        return MezzoError(*self._reporter.errors)

    def _read(self) -> Token:
        pos = _SKIP.match(self._text, self._pos).end()  # type: ignore[union-attr]
        m = _TOKEN.match(self._text, pos)
        while m is None and self._text.startswith("#", pos) and (pos == 0 or self._text[pos - 1] in "\r\n"):
            pos = _SKIP.match(self._text, self._directive(pos)).end()  # type: ignore[union-attr]
            m = _TOKEN.match(self._text, pos)
        if m is None:
            return self._no_token(pos)
        self._pos = m.end()
        text = m.group()
        kind = m.lastgroup or ""
        if kind == "mark" or text in KEYWORDS:
            kind = text
        return Token(kind, text, pos)

    def _no_token(self, pos: int) -> Token:
        if pos >= len(self._text):
            self._pos = pos
            return Token("end", "", pos)
        if self._text.startswith("/*", pos):
            self._reporter.error("this comment is never closed", self.source.span(pos, 2), hint="end it with `*/`")
            raise MezzoError(*self._reporter.errors)
        self._pos = pos + 1
        return Token("unknown", self._text[pos], pos)

    def _directive(self, offset: int) -> int:
        end = self.source.read_directive(offset)
        if end is not None:
            return end
        self._reporter.error(
            "this line is not a line directive",
            self.source.span(offset),
            hint='write `# LINE "FILE"`; comments begin with `//`',
        )
        return _LINE.match(self._text, offset).end()  # type: ignore[union-attr]


def config_end(text: str, pos: int) -> int:
    """The offset of the `)` that ends the configuration string which begins here, or of the text's end."""
    depth = 1
    while pos < len(text):
        pos = _CONFIG_RUN.match(text, pos).end()  # type: ignore[union-attr]
        depth += {"(": 1, ")": -1}.get(text[pos : pos + 1], 0)
        if depth == 0:
            return pos
        pos += 1
    return len(text)
