"""checks a configuration and reports everything that is wrong with it, without running it

Syntax, names, element arguments, port counts, push and pull, loops, packet code: all errors at once, each with its
place and what to write instead.  Exit status 1 when there is an error; warnings alone leave it 0.  With --output or
--filter a configuration that is fine is written on, as Click's click-check does.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import Source, place_argument, read_source, source_arguments
from mezzo.tools._terminal import print_errors
from mezzo.tools._tool import driver_arguments, flat_of, refuse_kernel, without_collector, write_text


def arguments(parser: argparse.ArgumentParser) -> None:
    source_arguments(parser)
    place_argument(parser)
    driver_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it, flat, if it is fine")
    parser.add_argument("-p", "--filter", action="store_const", dest="output", const="-", help="as --output -")
    parser.add_argument("-q", "--quiet", action="store_true", help="no line when all is well")
    parser.add_argument("-w", "--no-warnings", action="store_true", help="errors only")
    parser.add_argument("--json", action="store_true", help="the findings as JSON on standard output")


def main(args: argparse.Namespace) -> int:
    refuse_kernel(args)
    source = read_source(args)
    summary, found = examine(source, args.place)
    errors = [d for d in found if d.severity == "error"]
    shown = errors if args.no_warnings else found
    if args.json:
        print(json.dumps({"ok": not errors, "findings": [as_json(d) for d in shown]}, indent=2))
    else:
        print_errors(shown)
        if not errors and not args.quiet and not args.output:
            print(f"{source.file}: {summary}", file=sys.stdout)
    if args.output and not errors:
        return write_text(args.output, flat_text(source))
    return 1 if errors else 0


def flat_text(source: Source) -> str:
    from mezzo.frontends.click import unparse

    flat = flat_of(source, strict=True)
    return unparse(flat.elements, flat.connections, flat.requirements)


def examine(source: Source, place: Sequence[str] = ()) -> tuple[str, list[Diagnostic]]:
    """(what there is in it, errors and warnings)."""
    from mezzo.pipeline import compile_text

    try:
        with without_collector():
            plan = compile_text(source.text, source.file, source.variables, source.folders, place=place)
    except MezzoError as trouble:
        return "", list(trouble.diagnostics)
    count, joints = len(plan.graph.instances), len(plan.graph.connections)
    return f"fine, {count} element{'s' * (count != 1)}, {joints} connection{'s' * (joints != 1)}", plan.warnings


def as_json(d: Diagnostic) -> dict[str, Any]:
    return {
        "severity": d.severity,
        "message": d.message,
        "place": str(d.span) if d.span else None,
        "notes": [{"message": n.message, "place": str(n.span) if n.span else None} for n in d.notes],
        "hint": d.hint,
    }
