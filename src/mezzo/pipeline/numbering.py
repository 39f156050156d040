"""The ways up of a router that takes another's place: numbered as they were.

A packet that waits in a socket carries the number of its way.  So a number that programs of the old router gave stands
for the same element and input in the new one, whatever else changes; one whose element is gone leads nowhere, and its
packets die, counted on the device.  Numbers that only a router before the old one gave are free again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from mezzo.elements.element import Element
from mezzo.pipeline.told import Placement
from mezzo.targets.kernel.plan import GONE, Port

if TYPE_CHECKING:
    from mezzo.pipeline.compile import Plan

Way = tuple[str, int]  # an element and one of its inputs
FREE: Way = ("", 0)


def ways_of(plan: Plan) -> tuple[Way, ...]:
    """By number, where packets that come up natively go on, as far as programs send them there."""
    kernel = plan.placement.kernel if plan.placement is not None else None
    if kernel is None:
        return ()
    used, names = set(kernel.ways.values()), [x.name for x in plan.program.instances]
    return tuple((names[i], port) if n in used else FREE for n, (i, port) in enumerate(kernel.ups))


def numbered_as(placement: Placement, elements: Sequence[Element], before: Sequence[Way]) -> Placement:
    """The placement with the numbers of `before` where it has the same ways, and others for the rest."""
    kernel = placement.kernel
    if kernel is None or not before:
        return placement
    known = {e.name: (i, e) for i, e in enumerate(elements, 1)}
    ups = [_place(known, way) for way in before]
    free = (n for n in count() if n >= len(before) or before[n] == FREE)
    for to in kernel.ups:
        if to not in ups:
            at = next(free)
            ups[at : at + 1] = [to]
    ways = {source: ups.index(kernel.ups[n]) for source, n in kernel.ways.items()}
    return replace(placement, kernel=replace(kernel, ups=tuple(ups), ways=ways))


def _place(known: Mapping[str, tuple[int, Element]], way: Way) -> Port:
    """The input in this router; GONE where there is none to which packets are pushed."""
    name, port = way
    if name not in known:
        return GONE
    instance, element = known[name]
    return (instance, port) if element.input_kinds[port : port + 1] == ("push",) else GONE
