"""The kernel's half of an end of a device, as a unit.

`FromDevice` and `ToDevice` work natively on rings; in the kernel's part of a router they are what a packet passes first
and last.  A class with a method `wire` (packet code, as `process`) can be there: that is translated as the `process`
of a unit of its own, with those states of the element that it uses, so counters of both halves are the same cells.
Output `WIRE` leads out of the router.  Where native code hands packets to the kernel (Reinject), those that are there
already pass by the method `through`.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from mezzo.elements.element import Element
from mezzo.ir.module import Unit
from mezzo.ir.spec import nodes

WIRE = 2  # more than a device's end has


def has_wire(element: Element) -> bool:
    return callable(getattr(type(element), "wire", None))


def wire_unit(element: Element) -> Unit:
    """Translated, proved and rewritten, as `units.make` does with the native half."""
    from mezzo.frontends.python import translate_wire
    from mezzo.ir.linear import check_linear
    from mezzo.ir.spec import check_unit
    from mezzo.ir.text import print_unit
    from mezzo.passes import PIPELINE
    from mezzo.pipeline.uses import ops_used

    unit = translate_wire(element, "wire" if has_wire(element) else "through")
    check_unit(unit)
    check_linear(unit)
    for one_pass in PIPELINE:
        unit = one_pass(unit)
    used = {name for f in unit.functions for n in nodes(f.body) if isinstance(name := getattr(n, "state", None), str)}
    unit = replace(unit, states=tuple(s for s in unit.states if s.name in used))
    digest = hashlib.sha256(print_unit(unit).encode()).hexdigest()
    return replace(unit, digest=digest, uses=ops_used(unit))
