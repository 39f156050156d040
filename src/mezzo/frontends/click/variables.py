"""Variables in configuration strings: `$x`, `${x}`, `${x-default}`, and `${x[2]}`, the third word of `$x`.

Definitions of one scope hold all at once, whatever their order, and may use each other; a definition that would need
itself is an error that shows the round.  `define($x $x)` in a compound means the `$x` around the compound.  A variable
nobody defines stays as written, because Script has variables of its own.

Nothing is replaced inside `'...'`; inside `"..."` the value is escaped so that it reads as itself.

Rules of this file: every substitution is paid from a `Budget`, so definitions that double each other end in an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mezzo.base import Diagnostic, MezzoError, Note, Reporter, Span
from mezzo.elements.confparse import quote_inner, split_words

MAX_SUBSTITUTED = 1 << 26
MAX_CHAIN = 100

_MARK = re.compile(r"\\<[^>]*+>|\\.|['\"]|\$\{|\$[A-Za-z0-9_]+", re.DOTALL)
_INDEXED = re.compile(r"(\w+)\[([^\]]*)\]", re.ASCII)
_LONGEST_INDEX = 9  # digits
_BRACE = re.compile(r"[{}]")

Lookup = Callable[[str], "str | None"]


@dataclass(slots=True)
class Budget:
    """Characters that substitution may still produce in one configuration."""

    left: int = MAX_SUBSTITUTED

    def spend(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise MezzoError(Diagnostic(f"the variables of this configuration expand to over {MAX_SUBSTITUTED} bytes"))


@dataclass(frozen=True, slots=True)
class Definition:
    """A variable's value as written, and where."""

    text: str
    place: Callable[[], Span]


@dataclass(slots=True, eq=False)
class Environment:
    """The variables one scope sees; `depth` is how deep the scope is nested in the text."""

    reporter: Reporter
    budget: Budget
    depth: int = 0
    parent: Environment | None = None
    values: dict[str, str] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    _under_way: list[str] = field(default_factory=list)

    def expand(self, text: str) -> str:
        """The text with each known variable replaced."""
        return substitute(text, self.lookup, self.budget)

    def lookup(self, name: str) -> str | None:
        """The value of a variable, or None if nobody defines it."""
        scope: Environment | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            if name in scope.definitions and scope._under_way[-1:] != [name]:
                return scope._resolve(name)
            scope = scope.parent
        return None

    def outside(self, depth: int) -> Environment:
        """The nearest scope around this one that is less deep: what a class defined at `depth` sees."""
        scope = self
        while scope.depth >= depth and scope.parent is not None:
            scope = scope.parent
        return scope

    def _resolve(self, name: str) -> str:
        if name in self._under_way or len(self._under_way) >= MAX_CHAIN:
            return self._refuse(name)
        self._under_way.append(name)
        value = substitute(self.definitions[name].text, self.lookup, self.budget)
        self._under_way.pop()
        self.values[name] = value
        return value

    def _refuse(self, name: str) -> str:
        if name in self._under_way:
            ring = self._under_way[self._under_way.index(name) :]
            first, *others = ring
            message = f"`${first}` is defined by itself: " + " needs ".join(f"`${n}`" for n in [*ring, first])
            notes = [Note(f"`${other}` is defined here", self.definitions[other].place()) for other in others]
        else:
            first, notes = self._under_way[0], []
            message = f"`${first}` needs a chain of more than {MAX_CHAIN} definitions"
        self.reporter.error(message, self.definitions[first].place(), notes, "define one of them by its value")
        return ""


def substitute(text: str, lookup: Lookup, budget: Budget, depth: int = 0) -> str:
    """Replace the variables that `lookup` knows."""
    if "$" not in text:
        return text
    parts: list[str] = []
    done = 0
    for begin, end, name, default, quoted in _variables(text):
        value = _value(name, lookup, budget, depth)
        if value is None and default is not None and depth < MAX_CHAIN:
            value = substitute(default, lookup, budget, depth + 1)
        if value is not None:
            budget.spend(len(value))
            if quoted:
                value = quote_inner(value)  # each level of quotes may double it
                budget.spend(len(value))
            parts += [text[done:begin], value]
            done = end
    return "".join([*parts, text[done:]])


def _value(name: str, lookup: Lookup, budget: Budget, depth: int) -> str | None:
    """The value of a variable, or of one of its words: empty where it has not so many, None where nobody knows it."""
    m = _INDEXED.fullmatch(name)
    if m is None:
        return lookup(name)
    value = lookup(m.group(1))
    index = substitute(m.group(2), lookup, budget, depth + 1).strip() if depth < MAX_CHAIN else ""
    if value is None or not index.isdecimal() or len(index) > _LONGEST_INDEX:
        return None
    return "".join(split_words(value)[int(index) : int(index) + 1])


def _variables(text: str) -> Iterator[tuple[int, int, str, str | None, bool]]:
    """Each variable outside `'...'`: begin, end, name, default, and whether it stands inside `"..."`."""
    pos, quoted = 0, False
    while (m := _MARK.search(text, pos)) is not None:
        mark, pos = m.group(), m.end()
        if mark == '"':
            quoted = not quoted
        elif mark == "'":
            pos = pos if quoted else _behind(text, "'", pos)
        elif mark == "${":
            closing = _closing_brace(text, pos)
            if closing is not None:
                name, dash, default = text[pos:closing].partition("-")
                pos = closing + 1
                yield m.start(), pos, name, default if dash else None, quoted
        elif mark[0] == "$":
            yield m.start(), pos, mark[1:], None, quoted


def _behind(text: str, char: str, pos: int) -> int:
    found = text.find(char, pos)
    return len(text) if found < 0 else found + 1


def _closing_brace(text: str, pos: int) -> int | None:
    depth = 1
    for m in _BRACE.finditer(text, pos):
        depth += 1 if m.group() == "{" else -1
        if depth == 0:
            return m.start()
    return None
