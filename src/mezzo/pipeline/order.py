"""Whether packets that go up can be overtaken by those that do not.

Order within a flow takes gates (targets/kernel/gates.py).  They are left out where nothing that goes up natively comes
to a device to which the kernel sends, and where somebody wishes so: `Place(ORDER loose)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mezzo.elements.element import Element
from mezzo.ir.module import Program
from mezzo.pipeline.devices import is_input
from mezzo.pipeline.wire import has_wire


def behind(program: Program, starts: Iterable[int]) -> set[int]:
    """The instances that packets may come to natively from some, themselves among them."""
    next_to: dict[int, set[int]] = {}
    for i, linked in enumerate(program.instances):
        for to in linked.outputs:
            if to is not None:
                next_to.setdefault(i, set()).add(to[0])
        for source in linked.inputs:  # that it pulls from
            if source is not None:
                next_to.setdefault(source[0], set()).add(i)
    todo, seen = list(starts), set[int]()
    while todo:
        i = todo.pop()
        if i not in seen:
            seen.add(i)
            todo += next_to.get(i, ())
    return seen


def met(program: Program, elements: Sequence[Element], ups: Iterable[int], wires: Iterable[int]) -> list[str]:
    """Of the devices that the kernel sends to, those that packets also come to natively from where they go up; the
    host's stack is `the host`."""
    sent = {device_of(elements[i]) for i in wires}
    ends = {i for i in behind(program, ups) if has_wire_out(elements[i])}
    return sorted(sent & {device_of(elements[i]) for i in ends})


def has_wire_out(element: Element) -> bool:
    """Whether packets leave the router here for a device or the host; by any method."""
    return (hasattr(element, "devname") or has_wire(element)) and not is_input(element)


def device_of(element: Element) -> str:
    return str(getattr(element, "devname", "")) or "the host"
