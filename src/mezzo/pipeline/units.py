"""The unit of each element: translated, proved, rewritten; once per distinct class and configuration.

What an element's packet code depends on is its `facts`: the class, the sizes of its state, and the plain attributes
that configuration left on it.  Attributes that start with `_` belong to configuration alone and packet code may not
read them.  For classes of mezzo's own library the *skeleton* of a unit is kept on disk under the hash of its facts and
of mezzo's sources, so that a router whose machine code is on disk too starts without translating anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mezzo.base import cache
from mezzo.elements.element import RESERVED, Element
from mezzo.ir.module import Function, Param, State, Unit
from mezzo.ir.types import TYPES

KNOWN = RESERVED - {"ninputs", "noutputs", "input_kinds", "output_kinds"} | {"warnings", "args"}


# What a class was translated to: the states, the attributes that became constants, and the unit.
Made = dict[type[Element], list[tuple[tuple[State, ...], dict[str, Any], Unit]]]


def units_of(elements: Sequence[Element]) -> list[Unit]:
    """A unit, or its skeleton, for each element; equal elements get the same object."""
    known: dict[Any, Unit] = {}
    made: Made = {}
    units = []
    for element in elements:
        facts = facts_of(element)
        unit = known.get(facts) if facts is not None else None
        if unit is None:
            unit = find_or_make(element, facts, made)
            if facts is not None:
                known[facts] = unit
        units.append(unit)
    return units


def find_or_make(element: Element, facts: tuple[Any, ...] | None, made: Made) -> Unit:
    if facts is None or not type(element).__module__.startswith(("mezzo.elements.", "mezzo.ports.")):
        return make_or_share(element, made)
    name = hashlib.sha256(f"{cache.own_stamp()} {facts!r}".encode()).hexdigest() + ".unit"
    kept = cache.load(name)
    if kept is not None:
        return unpack(kept)
    unit = make_or_share(element, made)
    cache.save(name, pack(unit))
    return unit


def make_or_share(element: Element, made: Made) -> Unit:
    """The unit of an element that differs only in what packet code does not read, or a new one."""
    if type(element).generate is not Element.generate:
        return make(element)
    states, alike = element.state_declarations(), made.setdefault(type(element), [])
    for others, constants, unit in alike:
        if others == states and all(_same(getattr(element, n, None), value) for n, value in constants.items()):
            return unit
    read: set[str] = set()
    unit = make(element, read)
    alike.append((states, {n: getattr(element, n, None) for n in read}, unit))
    return unit


def _same(a: Any, b: Any) -> bool:
    """Equal, also in type: to packet code True is not 1.  Tuples may hold such differences, so they show as text."""
    return type(a) is type(b) and a == b and (not isinstance(a, tuple) or repr(a) == repr(b))


def make(element: Element, read: set[str] | None = None) -> Unit:
    """Translates, proves and rewrites; `read` gets the attributes that became constants."""
    # These rooms cost more to import than a skeleton to read.
    from mezzo.frontends.python import translate
    from mezzo.ir.linear import check_linear
    from mezzo.ir.spec import check_unit
    from mezzo.ir.text import print_unit
    from mezzo.passes import PIPELINE
    from mezzo.pipeline.uses import ops_used

    unit = translate(element, read)
    check_unit(unit)
    check_linear(unit)
    for one_pass in PIPELINE:
        unit = one_pass(unit)
    digest = hashlib.sha256(print_unit(unit).encode()).hexdigest()
    return replace(unit, digest=digest, uses=ops_used(unit))


def facts_of(element: Element) -> tuple[Any, ...] | None:
    """What the packet code of an element depends on; None when that cannot be told cheaply."""
    cls = type(element)
    facts: list[Any] = [f"{cls.__module__}.{cls.__qualname__}", tuple(s.size for s in element.state_declarations())]
    private = cls.generate is Element.generate  # an element that generates its code may look at all it has
    values = {n: v for n, v in vars(element).items() if n not in KNOWN and not (private and n[0] == "_")} | element.args
    for name, value in sorted(values.items()):
        if isinstance(value, (int, str, bytes, type(None))):
            facts.append((name, type(value).__name__, value))
        elif isinstance(value, (tuple, list)) and len(value) <= 256:
            facts.append((name, repr(value)))
        else:
            return None
    return tuple(facts)


# -- skeletons as JSON


def pack(unit: Unit) -> bytes:
    functions = [[f.name, [[p.name, p.type.name] for p in f.params], f.ret.name, f.entry] for f in unit.functions]
    states = [[s.name, s.kind, s.type.name, s.size, s.key.name if s.key is not None else None] for s in unit.states]
    return json.dumps([unit.name, functions, states, unit.reasons, unit.hosts, unit.digest, sorted(unit.uses)]).encode()


def unpack(content: bytes) -> Unit:
    name, functions, states, reasons, hosts, digest, uses = json.loads(content)
    return Unit(
        name,
        tuple(
            Function(n, tuple(Param(p, TYPES[t]) for p, t in params), TYPES[ret], (), entry)
            for n, params, ret, entry in functions
        ),
        tuple(State(n, kind, TYPES[t], size, TYPES[key] if key else None) for n, kind, t, size, key in states),
        tuple(reasons),
        tuple(hosts),
        digest,
        frozenset(uses),
        True,
    )
