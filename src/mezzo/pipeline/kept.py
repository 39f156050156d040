"""Placements kept on disk: deciding takes the code of all elements, and a second start should not translate them.

The file's name is the hash of all that decides: mezzo's sources, units, connections, wishes, and what devices say of
themselves.  Elements of other sources are looked at anew each time.  The content is pickled: it stands beside machine
code that is run as it is found there, so reading it trusts the folder no more than that does.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mezzo.base import cache
from mezzo.elements.element import Element
from mezzo.ir.module import Program
from mezzo.pipeline import devices
from mezzo.pipeline.told import Placement
from mezzo.pipeline.units import facts_of
from mezzo.pipeline.wire import has_wire

OWN = ("mezzo.elements.", "mezzo.ports.")


def name_of(elements: Sequence[Element], program: Program, more: object) -> str:
    """The name under which a placement is kept; "" when it is not."""
    facts: list[Any] = [cache.own_stamp(), more, program.tasks, program.timers]
    for element, linked in zip(elements[1:], program.instances[1:], strict=True):
        cls = type(element)
        if not cls.__module__.startswith(OWN) or not linked.unit.digest:
            return ""
        facts += [cls.__qualname__, linked.unit.digest, linked.name, linked.outputs, linked.inputs]
        facts += [linked.pull_outputs, linked.pull_inputs, linked.task, linked.timer]
        if has_wire(element) or devices.is_injector(element):
            own = facts_of(element)
            if own is None:
                return ""
            facts += [own, devices.told_of(element) if has_wire(element) else ()]
    return hashlib.sha256(repr(facts).encode()).hexdigest() + ".place"


def load(name: str, program: Program) -> Placement | None:
    """The placement; the native rest of its program is the given one."""
    content = cache.load(name) if name else None
    if content is None:
        return None
    found: Placement
    found, halves = pickle.loads(content)
    if found.kernel is None:
        return found
    instances = [halves.get(i, linked) for i, linked in enumerate(program.instances)]
    return replace(found, kernel=replace(found.kernel, program=replace(program, instances=tuple(instances))))


def save(name: str, found: Placement) -> None:
    if not name:
        return
    halves, bare = {}, found
    if found.kernel is not None:
        halves = {i: found.kernel.program.instances[i] for i in found.kernel.placed}
        bare = replace(found, kernel=replace(found.kernel, program=Program((), (), ())))
    bare = replace(bare, rows=tuple(replace(row, place=None) for row in bare.rows))
    cache.save(name, pickle.dumps((bare, halves)))
