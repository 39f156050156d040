"""What the user wants to be where: `--place 'fast/*=kernel'`, and Place elements.

A wish is a pattern of element names and a level; a compound's name stands for all in it.  Of several wishes for an
element the last one counts, and those of the command line come after those of the configuration.

    kernel    in the kernel: an error where that cannot be
    kernel?   in the kernel where that can be
    auto      in the kernel where that can be, and is worth it
    native    not in the kernel
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from mezzo.base import Diagnostic, MezzoError, Reporter, Span
from mezzo.elements.element import Element
from mezzo.elements.place import LEVELS
from mezzo.graph import Graph

ORDERS = {"ORDER=strict": True, "ORDER=loose": False}  # among the wishes of a command line


@dataclass(frozen=True, slots=True)
class Wish:
    """`pattern` of names, `level` of LEVELS; `span`: where a configuration says it."""

    pattern: str
    level: str
    span: Span | None = None

    def is_for(self, name: str) -> bool:
        return fnmatchcase(name, self.pattern) or fnmatchcase(name, f"{self.pattern}/*")

    def __str__(self) -> str:
        return self.level if self.pattern == "*" else f"{self.pattern}={self.level}"


def parse_wish(text: str) -> Wish:
    """`PATTERN=LEVEL`, or a level alone for all elements."""
    pattern, equals, level = text.rpartition("=")
    level = level.strip().lower()
    if pattern == "ORDER" and level not in LEVELS:
        raise MezzoError(Diagnostic(f"--place-order {level}: there is no such order", hint="say strict, or loose"))
    if level not in LEVELS or (equals and not pattern.strip()):
        hint = f"write PATTERN=LEVEL, LEVEL one of {', '.join(LEVELS)}; or auto"
        raise MezzoError(Diagnostic(f"--place {text}: this is no wish for a place", hint=hint))
    return Wish(pattern.strip() or "*", level)


def wishes_for(place: str | Sequence[str], elements: Iterable[Element], graph: Graph) -> list[Wish]:
    """All wishes, those that count most last; a pattern that no element has is an error."""
    texts = [place] * bool(place) if isinstance(place, str) else list(place)
    found = [
        _scoped(Wish(pattern, level, graph.instances[e.name].span), scope, graph)
        for e in elements
        for scope, pattern, level in getattr(e, "placed_by", ())
    ]
    found += [parse_wish(text) for text in texts if text not in ORDERS]
    reporter = Reporter()
    for wish in found:
        if not any(wish.is_for(name) for name in graph.instances):
            near = difflib.get_close_matches(wish.pattern, graph.instances, 1)
            hint = f"did you mean `{near[0]}`?" if near else ""
            reporter.error(f"{wish}: no element has a name like `{wish.pattern}`", wish.span, hint=hint)
    reporter.raise_if_errors()
    return found


def is_ordered(place: str | Sequence[str], elements: Iterable[Element]) -> bool:
    """Whether the packets of a flow are to leave in the order in which they came; the last one who says it counts."""
    words = [f"ORDER={getattr(e, 'order', '')}" for e in elements if hasattr(e, "placed_by")]
    words += [place] if isinstance(place, str) else place
    return next((ORDERS[word] for word in reversed(words) if word in ORDERS), True)


def _scoped(wish: Wish, scope: str, graph: Graph) -> Wish:
    """The wish with full names: of the compound that it stands in, or of one outside."""
    while scope:
        inner = replace(wish, pattern=scope + wish.pattern)
        if any(map(inner.is_for, graph.instances)):
            return inner
        scope = scope[: scope.rfind("/", 0, -1) + 1]
    return wish


def wish_for(name: str, wishes: Sequence[Wish]) -> Wish | None:
    """The wish that counts for an element."""
    return next((w for w in reversed(wishes) if w.is_for(name)), None)
