"""shows what an element, or all of a configuration, becomes: the IR, its worst-case cost, Python, LLVM

    mezzo ir DecIPTTL                   the IR of a class, under its defaults (or as in its example)
    mezzo ir 'Paint(3)' --cost          under a configuration of one's own
    mezzo ir router.click --element q   of one element of a configuration; without --element of each

--threads N says which threads meet in which element when the configuration runs on N threads, and how its code is made
safe for that: plain (one thread), spsc (a ring between two), counting (atomic additions), guarded (a lock); and why.
--cost prints the worst case of each function in abstract operations and the certificate that follows from it;
--python the source that the python target runs; --llvm the assembly of the native target before LLVM's passes.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import elements_argument, find_source, load_elements
from mezzo.tools._terminal import print_errors, table

if TYPE_CHECKING:
    from mezzo.elements.element import Element
    from mezzo.ir.module import Unit
    from mezzo.pipeline import Plan

_CALL = re.compile(r"(\w+)\s*(?:\((.*)\))?\s*", re.S)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="NAME|FILE",
        help="a class, a class with its configuration, or a file (with VAR=VALUE)",
    )
    parser.add_argument("-e", "--expression", metavar="EXPR", help="a configuration instead of a file")
    parser.add_argument("--element", metavar="NAME", help="only this element of the configuration")
    elements_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--threads", type=int, metavar="N", help="what N threads make of each element")
    form.add_argument("--cost", action="store_true", help="worst-case cost and certificate")
    form.add_argument("--python", action="store_true", help="the python target's source")
    form.add_argument("--llvm", action="store_true", help="the native target's assembly")


def main(args: argparse.Namespace) -> int:
    load_elements(args.elements)
    if not args.words and args.expression is None:
        raise MezzoError(Diagnostic("the IR of what?", hint="name an element class or a configuration file"))
    named = maybe_class(args.words)
    plan = plan_of(args) if named is None or args.llvm or args.threads else None
    if args.threads:
        assert plan is not None
        print_errors(plan.warnings)
        print(among_threads(plan))
        return 0
    if args.llvm:
        assert plan is not None
        print(assembly(plan))
        return 0
    if plan is None:
        assert named is not None
        units = [(named[0].__name__, class_unit(*named))]
    else:
        units = plan_units(plan, args.element)
    print(costs(units) if args.cost else "\n".join(printed(unit, args.python) for _, unit in units).rstrip("\n"))
    return 0


def maybe_class(words: list[str]) -> tuple[type[Element], str | None] | None:
    """(class, configuration) where the only word is a class and no file."""
    from mezzo.elements import library

    match = _CALL.fullmatch(words[0]) if len(words) == 1 else None
    if match is None or Path(words[0]).exists():
        return None
    cls = library.maybe_find(match[1])
    if cls is None:
        near = library.near(match[1])
        raise MezzoError(
            Diagnostic(
                f"`{words[0]}` is neither a file nor an element class",
                hint=f"did you mean {' or '.join(near)}?" if near else "",
            )
        )
    return cls, match[2]


def class_unit(cls: type[Element], config: str | None) -> Unit:
    """The unit of an element that stands alone, or stands in its example when it cannot be made without arguments."""
    from mezzo.elements import confparse
    from mezzo.elements.args import Env
    from mezzo.graph.codes import parse_ports, parse_processing
    from mezzo.pipeline.units import make

    element = cls(cls.__name__.lower())
    element.ninputs, element.noutputs = parse_ports(cls.ports).settle(0, 0)
    codes = parse_processing(cls.processing, element.ninputs, element.noutputs)
    element.input_kinds, element.output_kinds = (tuple("pull" if c == "l" else "push" for c in side) for side in codes)
    troubles = element.setup(confparse.split_args(config or ""), Env())
    if not troubles:
        return make(element)
    found = example_unit(cls) if config is None else None
    if found is None:
        hint = (
            f"give its configuration: mezzo ir '{cls.__name__}(…)'"
            if config is None
            else f"`mezzo help {cls.__name__}` lists its arguments"
        )
        raise MezzoError(
            *(f"{cls.__name__}: {t}" for t in troubles[:-1]), Diagnostic(f"{cls.__name__}: {troubles[-1]}", hint=hint)
        )
    return found


def example_unit(cls: type[Element]) -> Unit | None:
    """The unit of the first element of this class in the class's example."""
    from mezzo.pipeline import compile_text

    if not cls.example:
        return None
    plan = compile_text(cls.example, f"{cls.__name__}'s example")
    pairs = zip(plan.elements, plan.whole().instances, strict=True)
    return next((x.unit for e, x in pairs if isinstance(e, cls)), None)


def plan_of(args: argparse.Namespace) -> Plan:
    from mezzo.pipeline import compile_text

    named = maybe_class(args.words)
    if named is not None:
        if not named[0].example:
            raise MezzoError(f"{named[0].__name__} has no example: give a configuration for --llvm")
        return compile_text(named[0].example, f"{named[0].__name__}'s example", threads=args.threads or 1)
    source = find_source(args.words, args.expression)
    return compile_text(source.text, source.file, source.variables, source.folders, threads=args.threads or 1)


def plan_units(plan: Plan, only: str | None) -> list[tuple[str, Unit]]:
    """(names, unit) of the elements; equal units once, with all their names."""
    groups: dict[int, tuple[list[str], Any]] = {}
    for linked in plan.whole().instances[1:]:
        if only in (None, linked.name):
            groups.setdefault(id(linked.unit), ([], linked.unit))[0].append(linked.name)
    if not groups:
        raise MezzoError(Diagnostic(f"there is no element `{only}`", hint=f"there are {', '.join(plan.by_name())}"))
    return [(", ".join(names), unit) for names, unit in groups.values()]


def printed(unit: Unit, as_python: bool) -> str:
    if as_python:
        from mezzo.targets.python.build import source

        return source(unit)
    from mezzo.ir.text import print_unit

    return print_unit(unit)


def among_threads(plan: Plan) -> str:
    from mezzo.pipeline.threads import described

    if plan.threading is None:
        return "one thread: all code is plain"
    rows = [row for row in described(plan.program, plan.threading) if row[0] in plan.by_name()]
    return table(("element", "threads", "code", "why"), rows)


def costs(units: list[tuple[str, Unit]]) -> str:
    from mezzo.ir.cost import certificate, cost

    rows: list[tuple[object, ...]] = []
    for names, unit in units:
        verdict = certificate(unit) or "certified"
        for number, (function, c) in enumerate(cost(unit).items()):
            rows.append(
                (names if not number else "", function, c.ops, c.memory, c.python, verdict if not number else "")
            )
    return table(("element", "function", "operations", "memory", "Python", "certificate"), rows)


def assembly(plan: Plan) -> str:
    from mezzo.packet.arena import Arena
    from mezzo.targets.native.build import Code

    arena = Arena(1024)
    try:
        return Code(plan.whole(), arena, trace=False, cache=True).assembly()
    finally:
        arena.close()
