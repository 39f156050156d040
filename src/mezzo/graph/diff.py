"""What is to be done to make one router of another: a function that only computes.

Two elements are the same when they have one name.  What they are in both is told by `Facts`, which `runtime.reload`
and `mezzo diff` take from plans; what follows from a difference is one of

    keep       it goes on as it is: class, words, kinds of ports and code are equal
    hand over  another element of its class takes over its state
    replace    an element of another class stands in its place
    add, remove
    connect, disconnect
    open, close    a device

Equal inputs give equal lists: elements in the order of the new graph, what goes in that of the old one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mezzo.graph.graph import Connection

KEEP, HAND_OVER, REPLACE, ADD, REMOVE = "keep", "hand over", "replace", "add", "remove"
CONNECT, DISCONNECT, OPEN, CLOSE = "connect", "disconnect", "open", "close"


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one element: `words`, its arguments; `ports`, the kinds of its inputs and outputs; `code`, a name of its
    packet code and state; `devices`, those it opens."""

    cls: str
    words: tuple[str, ...] = ()
    ports: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    code: str = ""
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """A router as a whole."""

    elements: Mapping[str, Facts] = field(default_factory=dict)
    connections: Sequence[Connection] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """`what` is done to `name`: an element, a connection or a device; `why`, where that is not plain."""

    what: str
    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.name}" + (f": {self.why}" if self.why else "")


def diff(old: Side, new: Side) -> tuple[Action, ...]:
    """The actions that make `new` of `old`."""
    found = [_action(name, old.elements.get(name), facts) for name, facts in new.elements.items()]
    found += [Action(REMOVE, name) for name in old.elements if name not in new.elements]
    before, after = set(old.connections), set(new.connections)
    found += [Action(DISCONNECT, str(c)) for c in old.connections if c not in after]
    found += [Action(CONNECT, str(c)) for c in new.connections if c not in before]
    had, has = _devices(old), _devices(new)
    found += [Action(CLOSE, name) for name in had if name not in has]
    found += [Action(OPEN, name) for name in has if name not in had]
    return tuple(found)


def _action(name: str, old: Facts | None, new: Facts) -> Action:
    if old is None:
        return Action(ADD, name, new.cls)
    if old.cls != new.cls:
        return Action(REPLACE, name, f"{old.cls} by {new.cls}")
    if old.words != new.words:
        return Action(HAND_OVER, name, _changed(old.words, new.words))
    if old.ports != new.ports:
        return Action(HAND_OVER, name, "its ports are others")
    return Action(KEEP, name) if old.code == new.code else Action(HAND_OVER, name, "its code is another")


def _changed(old: Sequence[str], new: Sequence[str]) -> str:
    """The arguments that differ, in short."""
    gone, come = [w for w in old if w not in new], [w for w in new if w not in old]
    if not gone and not come:
        return "its arguments are in another order"
    return " ".join(w for w in (_listed("without", gone), _listed("with", come)) if w)


def _listed(word: str, words: Sequence[str]) -> str:
    if not words:
        return ""
    shown = ", ".join(w if len(w) <= 40 else w[:37] + "..." for w in words[:3])
    return f"{word} {shown}" + (f" and {len(words) - 3} more" if len(words) > 3 else "")


def _devices(side: Side) -> list[str]:
    return list(dict.fromkeys(d for facts in side.elements.values() for d in facts.devices))


def counts(actions: Sequence[Action]) -> dict[str, int]:
    """How many of each kind, in the order above; zeros left out."""
    kinds = (KEEP, HAND_OVER, REPLACE, ADD, REMOVE, CONNECT, DISCONNECT, OPEN, CLOSE)
    found = {kind: sum(a.what == kind for a in actions) for kind in kinds}
    return {kind: n for kind, n in found.items() if n}
