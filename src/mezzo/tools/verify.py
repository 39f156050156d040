"""runs the same packets through the python, native and kernel targets, and shows the least packet on which they differ

    mezzo verify DecIPTTL                 a class, as in its example
    mezzo verify 'Paint(3)'               under a configuration of one's own
    mezzo verify router.click             all of a configuration that can be in the kernel, together
    mezzo verify --all                    every class of the library; those that stay out of the kernel, with the reason

Bytes, outputs, marks, annotations, drops with their reasons, and all state must be the same.  (In the kernel, after
the first entry that an LRUTable forgets, only that it holds no more than it has room for.)  The packets are sound,
damaged and noise, from --seed; a failure is made smaller until nothing can be left out.  Needs the right to load
programs into the kernel (root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON); --targets python,native does without.
--log prints all that the kernel's verifier says of a program that it refuses.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import elements_argument, find_source, load_elements
from mezzo.tools._terminal import print_errors, table
from mezzo.tools.ir import maybe_class

if TYPE_CHECKING:
    from mezzo.elements.element import Element
    from mezzo.pipeline import Plan
    from mezzo.tools._agree import Agreement, Bench, Difference

TARGETS = ("python", "native", "kernel")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="ELEMENT|FILE", help="a class, with its configuration, or a file")
    parser.add_argument("-e", "--expression", metavar="EXPR", help="a configuration instead of a file")
    parser.add_argument("--all", action="store_true", help="every class of the library")
    parser.add_argument("--packets", type=int, default=300, metavar="N", help="how many packets (300)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which packets (1)")
    parser.add_argument("--targets", default=",".join(TARGETS), metavar="A,B", help="held against python")
    parser.add_argument("--log", action="store_true", help="the whole log of the kernel's verifier")
    elements_argument(parser)


def main(args: argparse.Namespace) -> int:
    load_elements(args.elements)
    if args.packets < 1:
        raise MezzoError(Diagnostic(f"--packets {args.packets}: give 1 or more"))
    targets = _targets(args.targets)
    if args.all:
        return _verify_all(targets, args.packets, args.seed)
    if not args.words and args.expression is None:
        raise MezzoError(Diagnostic("verify what?", hint="name an element class or a configuration file, or say --all"))
    bench, refused = _bench(args)
    if bench is None:
        print_errors(refused)
    else:
        for line in _summed_up(refused):
            print(line, file=sys.stderr)
    if bench is None:
        print("nothing of it goes into the kernel")
        return 1 if not refused else 0
    return _report(_run(bench, targets, args.packets, args.seed, args.log))


def _summed_up(refused: list[Diagnostic]) -> list[str]:
    """A line for each element that stays out, with its reasons."""
    reasons: dict[str, list[str]] = {}
    for one in refused:
        element, _, reason = one.message.partition(": ")
        reasons.setdefault(element, []).append(reason)
    return [f"{element}: {'; '.join(found)}" for element, found in reasons.items()]


def _targets(text: str) -> tuple[str, ...]:
    named = [word for word in text.split(",") if word]
    for word in named:
        if word not in TARGETS:
            raise MezzoError(Diagnostic(f"there is no target `{word}`", hint=f"there are {', '.join(TARGETS)}"))
    return ("python", *(t for t in TARGETS[1:] if t in named))


def _run(bench: Bench, targets: tuple[str, ...], packets: int, seed: int, log: bool) -> Agreement | Difference:
    from mezzo.targets.kernel import KernelRefusal
    from mezzo.tools._agree import Difference, compare, smaller
    from mezzo.tools._random_packets import cases

    try:
        found = compare(bench, targets, list(cases(packets, seed, len(bench.entries))))
    except PermissionError as refusal:
        hint = "run it as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON, or say --targets python,native"
        raise MezzoError(Diagnostic(f"the kernel loads no program for us: {refusal.strerror}", hint=hint)) from refusal
    except KernelRefusal as refusal:
        if log:
            print(refusal.log)
        raise
    return smaller(bench, found) if isinstance(found, Difference) else found


def _report(found: Agreement | Difference) -> int:
    from mezzo.tools._agree import Agreement

    if isinstance(found, Agreement):
        print(_agreed(found))
        return 0
    print(f"{found.target} differs from python: {found.what}")
    print(f"    python  {found.wanted}\n    {found.target:<7} {found.got}")
    print("on the packet" if len(found.cases) == 1 else f"on the last of {len(found.cases)} packets")
    for case in found.cases:
        print(f"    {case}")
    return 1


def _agreed(found: Agreement) -> str:
    out = ", ".join(f"{count} by {name}" for name, count in sorted(found.out.items()))
    up = f"; usual work in the kernel, {found.punted} of {found.packets} went up" if found.punted else ""
    free = f"; what was forgotten before the last {found.chosen} was the kernel's choice" if found.chosen else ""
    return f"the targets agree on {found.packets} packets; {out or 'none came out'}{up}{free}"


# -- what is compared


def _bench(args: argparse.Namespace) -> tuple[Bench | None, list[Diagnostic]]:
    """The bench, and why some elements are not on it."""
    named = maybe_class(args.words) if args.words else None
    if named is not None:
        return class_bench(*named)
    from mezzo.pipeline import compile_text

    source = find_source(args.words, args.expression)
    plan = compile_text(source.text, source.file, source.variables, source.folders, virtual=True)
    return _of_plan(plan, lambda element: True)


def class_bench(cls: type[Element], config: str | None) -> tuple[Bench | None, list[Diagnostic]]:
    """A bench of one element: configured so, or the first of its class in the class's example."""
    from mezzo.pipeline import compile_text
    from mezzo.tools._targets import alone

    if config is None and cls.example:
        plan = compile_text(cls.example, f"{cls.__name__}'s example", virtual=True)
        return _of_plan(plan, lambda element: isinstance(element, cls))
    text = alone(cls, config or "")
    return _of_plan(compile_text(text, cls.__name__, virtual=True), lambda element: element.name == "x")


def _of_plan(plan: Plan, wanted: object) -> tuple[Bench | None, list[Diagnostic]]:
    """The elements of a plan that are wanted and can be in the kernel; a class's bench has one only."""
    from mezzo.targets.kernel import refusals
    from mezzo.targets.kernel.punt import half_of_linked
    from mezzo.tools._agree import bench_of

    assert callable(wanted)
    chosen = [i for i, element in enumerate(plan.elements) if i and wanted(element)]
    program, refused, placed = plan.whole(), list[Diagnostic](), list[int]()
    for i in chosen:
        goes = half_of_linked(program.instances[i], None).unit is not None
        refused += [] if goes else refusals(program.instances[i])
        placed += [i] if goes else []
    if not placed:
        return None, refused
    linked = [program.instances[i] for i in placed]
    cells = [plan.elements[i].all_cells() for i in placed]
    return bench_of(linked, placed, cells), refused


# -- the whole library


def _verify_all(targets: tuple[str, ...], packets: int, seed: int) -> int:
    rows, differ = list[tuple[object, ...]](), 0
    for name, verdict, detail in library(targets, packets, seed):
        rows.append((name, verdict, detail))
        differ += verdict == "DIFFERS"
    print(table(("element", "kernel", ""), rows))
    count = sum(1 for row in rows if row[1] == "verified")
    print(f"{count} verified, {len(rows) - count - differ} stay out, {differ} differ")
    return 1 if differ else 0


def library(targets: tuple[str, ...], packets: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """(class, verdict, detail) of every class of the library."""
    from mezzo.elements import library as classes
    from mezzo.targets.kernel import KernelRefusal
    from mezzo.tools._agree import Difference

    for name in classes.names():
        cls = classes.maybe_find(name)
        assert cls is not None
        try:
            bench, refused = class_bench(cls, None)
        except MezzoError as trouble:
            yield name, "stays out", f"not compared alone: {trouble.diagnostics[0].message}"
            continue
        if bench is None:
            reasons = [d.message.split(": ", 1)[-1] for d in refused] or ["it is not in its own example"]
            yield name, "stays out", "; ".join(dict.fromkeys(reasons))
            continue
        try:
            found = _run(bench, targets, packets, seed, False)
        except KernelRefusal as refusal:
            yield name, "DIFFERS", f"the kernel refuses it: {refusal.diagnostics[0].message}"
            continue
        if isinstance(found, Difference):
            yield name, "DIFFERS", f"{found.what}: {found.wanted} against {found.got}, on {found.cases[-1]}"
        else:
            yield name, "verified", _agreed(found)
