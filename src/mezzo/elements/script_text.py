"""Substitutions in script text: `$name`, `${name}`, `${name-default}` and `$(handler argument...)`.

`$?`, `$#` and `$$` are names, too.  Between single quotes nothing is substituted.  Between double quotes a value is
escaped, so that it stays inside them.  Outside quotes a value stands as it is, or with `quoted` in quotes of its own,
so that taking quotes away afterwards takes away those that were written and none that came with a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mezzo.elements.confparse import quote_inner

_NAME = re.compile(r"\$(?:(\w+|[?#$])|\{([^}]*)\})")
MOST_DEPTH = 64  # calls inside calls
MOST_TEXT = 1 << 24  # characters: a text that doubles in a loop must not take all memory

Variable = Callable[[str], "str | None"]  # the value of a name
Call = Callable[[str], str]  # the value of `handler arguments`


class TooLong(ValueError):
    """A text has more than MOST_TEXT characters."""

    def __init__(self, length: int) -> None:
        super().__init__(f"the text is longer than {MOST_TEXT} characters")
        self.length = length


def expand(text: str, variable: Variable, call: Call, quoted: bool = False, depth: int = 0) -> str:
    """The text with its substitutions made; a name without value stays as it is written."""
    if depth > MOST_DEPTH:
        raise ValueError(f"$(...) stands inside $(...) more than {MOST_DEPTH} times")
    return _Expander(text, variable, call, quoted, depth).run()


class _Expander:
    def __init__(self, text: str, variable: Variable, call: Call, quoted: bool, depth: int) -> None:
        self.text, self.variable, self.call, self.quoted, self.depth = text, variable, call, quoted, depth
        self.out: list[str] = []
        self.length = 0
        self.quote = ""

    def run(self) -> str:
        if "$" not in self.text:
            return self.text
        at = 0
        while at < len(self.text):
            at = self.step(at)
        return "".join(self.out)

    def step(self, at: int) -> int:
        char = self.text[at]
        if char == "$" and self.quote != "'":
            return self.substitute(at)
        if char in "\"'" and self.quote in ("", char):
            self.quote = "" if self.quote else char
        elif char == "\\" and self.quote == '"':
            self.out.append(self.text[at : at + 2])
            return at + 2
        self.out.append(char)
        return at + 1

    def substitute(self, at: int) -> int:
        """One `$`; says where the text goes on."""
        if self.text.startswith("$(", at):
            end = closing(self.text, at + 1)
            if end < 0:
                self.out.append("$")
                return at + 1
            inner = expand(self.text[at + 2 : end], self.variable, self.call, depth=self.depth + 1)
            self.put(self.call(inner))
            return end + 1
        match = _NAME.match(self.text, at)
        if match is None:
            self.out.append("$")
            return at + 1
        value = self.value(match)
        if value is None:
            self.out.append(match[0])
        else:
            self.put(value)
        return match.end()

    def value(self, match: re.Match[str]) -> str | None:
        if match[1] is not None:
            return self.variable(match[1])
        name, dash, default = match[2].partition("-")
        found = self.variable(name)
        return default if found is None and dash else found

    def put(self, value: str) -> None:
        if self.quote == '"':
            value = quote_inner(value)
        elif self.quoted:
            value = '"' + quote_inner(value) + '"'
        self.length += len(value)
        if self.length > MOST_TEXT:
            raise TooLong(self.length)
        self.out.append(value)


def closing(text: str, start: int) -> int:
    """Where the parenthesis that opens at `start` closes; -1 where it does not."""
    depth, quote, at = 0, "", start
    while at < len(text):
        char = text[at]
        if quote:
            at += char == "\\" and quote == '"'
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "()":
            depth += 1 if char == "(" else -1
            if depth == 0:
                return at
        at += 1
    return -1
