"""What is known about a local at one point of a function, and how two paths join.

Packet locals are LIVE (one packet), NONE, MAYBE (live or none: fresh from a pull, a make, a clone), GONE (given away),
CONFLICT (given away or never filled on one path, held on another) or LENT (the caller's).  Number locals are SET.
PARTLY is a local that only some paths fill.  POISON is one that an error was reported on: it gives no further ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto

from mezzo.base import Span


class Kind(Enum):
    LIVE = auto()
    NONE = auto()
    MAYBE = auto()
    GONE = auto()
    CONFLICT = auto()
    LENT = auto()
    SET = auto()
    PARTLY = auto()
    POISON = auto()


LIVE, NONE, MAYBE, GONE, CONFLICT, LENT, SET, PARTLY, POISON = Kind
OWNED = (LIVE, MAYBE, CONFLICT)  # somebody must still give these away


@dataclass(frozen=True, slots=True)
class Fact:
    """`born`, `birth`: where the local was filled and in which words.  `left`, `verb`: where and how it was given away
    (of NONE: where it was tested)."""

    kind: Kind
    born: Span | None = None
    birth: str = ""
    left: Span | None = None
    verb: str = ""

    def become(self, kind: Kind, left: Span | None = None, verb: str = "") -> Fact:
        return replace(self, kind=kind, left=left or self.left, verb=verb or self.verb)


Facts = dict[str, Fact]  # of the locals at one point; a name that is missing was not filled on any path

_JOIN: dict[frozenset[Kind], Kind] = {
    frozenset({LIVE, MAYBE}): MAYBE,
    frozenset({LIVE, NONE}): MAYBE,
    frozenset({MAYBE, NONE}): MAYBE,
    frozenset({GONE, NONE}): GONE,
    frozenset({GONE, PARTLY}): GONE,
    frozenset({NONE, PARTLY}): PARTLY,
    frozenset({SET, PARTLY}): PARTLY,
}
_JOIN_MISSING = {LIVE: CONFLICT, MAYBE: CONFLICT, NONE: PARTLY, SET: PARTLY}


def join(a: Fact | None, b: Fact | None) -> Fact | None:
    """What is known where two paths meet."""
    if a is None or b is None:
        one = a or b
        return one and one.become(_JOIN_MISSING.get(one.kind, one.kind))
    if a.kind is b.kind:
        return a
    # What is not in the table is held on one path and not on the other.
    kind = POISON if POISON in (a.kind, b.kind) else _JOIN.get(frozenset({a.kind, b.kind}), CONFLICT)
    held, gone = (a, b) if a.kind in OWNED else (b, a)
    return Fact(kind, held.born or gone.born, held.birth or gone.birth, gone.left or held.left, gone.verb or held.verb)


def join_facts(paths: Iterable[Facts | None]) -> Facts | None:
    """Joins paths; None is one that is never taken."""
    result: Facts | None = None
    for path in paths:
        if result is None or path is None:
            result = result if path is None else path
            continue
        both = [(name, join(result.get(name), path.get(name))) for name in [*result, *path]]
        result = {name: fact for name, fact in both if fact is not None}
    return result


def kinds(facts: Facts | None) -> dict[str, Kind]:
    return {} if facts is None else {name: fact.kind for name, fact in facts.items()}
