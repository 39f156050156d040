"""On which targets each class of the library goes, and what of it: found by looking at the code of its example."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mezzo.base import MezzoError
from mezzo.elements.element import Element
from mezzo.ir.module import Linked
from mezzo.tools._page import own_classes

QUEUE = "no: it stores packets; in front of a ToDevice the device's own queue stands in for it"
NOTHING = "no: packets do not come to it"
RETURNS = "yes; packets that were native are there again from here on"
DEVICE = "yes, with METHOD XDP and without TRACE, FAULT and RATE"
HEAD = """# Where elements run

Written by `mezzo elements --targets` from the classes; do not edit it.

Every element runs on the *python* target, which is the definition, and on the *native* one, where `calls Python` marks
those that are there to do so.  *kernel* says what of it an XDP program can do: `yes`, all that it does to packets;
`usual work`, and packets that need the rest go up to the native level as they came; or why not.  `mezzo place FILE`
says it for a configuration, and `mezzo verify` holds the targets against each other.
"""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    native: str
    kernel: str


def rows(classes: Iterable[type[Element]] | None = None) -> list[Row]:
    return [row_of(cls) for cls in (own_classes() if classes is None else classes)]


def row_of(cls: type[Element]) -> Row:
    if callable(getattr(cls, "wire", None)):
        return Row(cls.__name__, "yes", DEVICE)
    if getattr(cls, "injects", False):
        return Row(cls.__name__, "yes", RETURNS)
    if cls.stays_native:
        return Row(cls.__name__, "yes", f"no: {cls.stays_native}")
    linked = in_place(cls)
    if linked is None:
        return Row(cls.__name__, "yes", "no: it is a device by itself" if cls.ports != "0/0" else NOTHING)
    native = "calls Python" if is_python(cls) else "yes"
    return Row(cls.__name__, native, kernel_of(cls, linked))


def is_python(cls: type[Element]) -> bool:
    """Whether what the element is there for is a Python method."""
    roles = (getattr(cls, role, None) for role in ("process", "push", "pull", "task", "timer"))
    return any(getattr(role, "__python__", False) for role in roles)


def kernel_of(cls: type[Element], linked: Linked) -> str:
    from mezzo.pipeline.devices import STANDS_IN
    from mezzo.pipeline.uses import read_by_packets
    from mezzo.targets.kernel.punt import half_of_linked, sets

    if cls in STANDS_IN:
        return QUEUE
    if not linked.inputs:
        return "no: it makes packets" if linked.outputs else NOTHING
    half = half_of_linked(linked, None)
    whys = "; ".join(dict.fromkeys(d.message for d in half.ups))
    if half.unit is None:
        return f"no: {whys}"
    raced = (sets(half.unit) & read_by_packets(linked.unit)) - set(cls.racy)
    alone = f", where one CPU at a time comes to it (`{min(raced)}`)" if raced else ""
    return f"yes{alone}" if half.is_whole else f"usual work{alone}; else {whys}"


def in_place(cls: type[Element]) -> Linked | None:
    """An instance of a class with its code: that of its example, or one without arguments."""
    from mezzo.pipeline import compile_text
    from mezzo.pipeline.units import make

    for text in (cls.example, alone(cls, "")):
        try:
            plan = compile_text(text, cls.__name__, virtual=True) if text else None
        except MezzoError:
            continue
        for element, linked in zip(plan.elements, plan.program.instances, strict=True) if plan is not None else ():
            if type(element) is cls:
                return replace(linked, unit=make(element)) if linked.unit.is_skeleton else linked
    return None


def alone(cls: type[Element], config: str) -> str:
    """A configuration of one element, `x`, with the most ports that it must have."""
    from mezzo.graph.codes import parse_ports

    inputs, outputs = parse_ports(cls.ports).settle(0, 2)
    lines = [f"x :: {cls.__name__}({config});"]
    lines += [f"Idle -> [{i}] x;" for i in range(inputs)] + [f"x[{i}] -> Discard;" for i in range(outputs)]
    return " ".join(lines)


def markdown(found: Iterable[Row]) -> str:
    lines = [f"| [{r.name}](elements/{r.name}.md) | {r.native} | {r.kernel} |" for r in found]
    return "\n".join([HEAD, "| element | native | kernel |", "| --- | --- | --- |", *lines]) + "\n"
