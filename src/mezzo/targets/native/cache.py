"""The name under which a program's object code is kept: the hash of all that decides it (see base/cache).

Units that were translated from elements carry their digest, so a name is found without their bodies; those written by
hand (tests, tools) have none and are named by their text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import is_dataclass

from mezzo.base.cache import own_stamp
from mezzo.ir.module import Linked, Program, Unit
from mezzo.ir.types import Type
from mezzo.targets.native.layout import field_names


def _text(x: object, out: list[str]) -> None:
    """A text of an IR value; equal values have equal texts, places in the source left out."""
    if isinstance(x, Type):
        out.append(x.name)
    elif isinstance(x, tuple):
        out.append("(")
        for item in x:
            _text(item, out)
        out.append(")")
    elif is_dataclass(x):
        out.append(type(x).__name__)
        for name in field_names(type(x)):
            _text(getattr(x, name), out)
    else:
        out.append(repr(x))


def unit_text(unit: Unit) -> str:
    """What tells a unit from others: its digest, or all of it."""
    if unit.digest:
        return unit.digest
    out: list[str] = []
    _text((unit.functions, unit.states, unit.reasons, unit.hosts), out)
    return " ".join(out)


def unit_keys(program: Program) -> tuple[list[int], list[str]]:
    """(for each instance the number of its unit, the texts of the distinct units)."""
    by_id: dict[int, int] = {}
    by_text: dict[str, int] = {}
    keys = []
    for linked in program.instances:
        if id(linked.unit) not in by_id:
            by_id[id(linked.unit)] = by_text.setdefault(unit_text(linked.unit), len(by_text))
        keys.append(by_id[id(linked.unit)])
    return keys, list(by_text)


def _links(linked: Linked) -> str:
    """What code depends on in an instance's place."""
    names = ("outputs", "inputs", "pull_outputs", "pull_inputs", "task", "timer", "wake_down", "wake_up", "ready")
    return repr([getattr(linked, name) for name in names])


def key(program: Program, keys: list[int], units: list[str], more: Iterable[object]) -> str:
    """The name of a program's code; `more`: the machine and the options."""
    digest = hashlib.sha256(own_stamp().encode())
    places = [_links(x) for x in program.instances]
    for part in (keys, program.tasks, program.timers, *units, *places, *more):
        digest.update(f"{part}\0".encode())
    return digest.hexdigest() + ".o"
