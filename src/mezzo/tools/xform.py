"""replaces parts of a configuration by pattern files, as Click's click-xform does

A pattern file has pairs of compounds, `elementclass X { … }` and `elementclass X_Replacement { … }`: wherever the
elements of X stand, connected as there and to the rest by the ports of X only, those of X_Replacement are put.  An
argument `$name` of the pattern stands for any argument, the same at each use, and is put where the replacement has it.
Replacing goes on until nothing matches; what a pattern put there it does not replace again.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import VARIABLE, read_file, search_path
from mezzo.tools._tool import deliver, given, graph_of, text_of, tool_arguments

if TYPE_CHECKING:
    from mezzo.graph.xform import Rule

MOST_ELEMENTS = 200  # of a pattern: the search goes as deep as it has elements


def arguments(parser: argparse.ArgumentParser) -> None:
    tool_arguments(parser)
    parser.add_argument(
        "-p", "--patterns", action="append", default=[], metavar="FILE", help="a pattern file; may be repeated"
    )
    parser.add_argument("-r", "--reverse", action="store_true", help="replace replacements by their patterns")
    parser.add_argument("-V", "--verbose", action="store_true", help="say how often each pattern was replaced")


def main(args: argparse.Namespace) -> int:
    from mezzo.graph.xform import transform

    # Files behind the configuration are pattern files.
    files = [w for w in args.words if not VARIABLE.match(w)]
    behind = files if args.file or args.expression is not None else files[1:]
    args.words = [w for w in args.words if w not in behind]
    names = [*args.patterns, *behind]
    rules = [rule for name in names for rule in read_rules(name, search_path(args.clickpath))]
    it = given(args)
    if not rules:
        print("no patterns are given; name a pattern file with -p", file=sys.stderr)
    graph, applied = transform(graph_of(it.source), reverse(rules) if args.reverse else rules)
    if args.verbose:
        for rule in rules:
            print(f"{rule.name}: replaced {applied[rule.name]} times", file=sys.stderr)
    return deliver(args, text_of(graph), it.members)


def read_rules(name: str, library_path: tuple[Path, ...] = ()) -> list[Rule]:
    """The pairs of a pattern file."""
    from mezzo.frontends.click.patterns import parse_patterns
    from mezzo.graph import assemble
    from mezzo.graph.pattern import Shape
    from mezzo.graph.xform import Rule

    rules = []
    for pair in parse_patterns(read_file(name), name, library_path):
        shapes = [Shape.of(assemble(flat)) for flat in (pair.pattern, pair.replacement)]
        if any(len(shape.roles) > MOST_ELEMENTS for shape in shapes):
            raise MezzoError(Diagnostic(f"pattern `{pair.name}` has more than {MOST_ELEMENTS} elements", pair.span))
        if not all(shape.roles for shape in shapes[:1]):
            raise MezzoError(Diagnostic(f"pattern `{pair.name}` has no elements, so it is everywhere", pair.span))
        rules.append(Rule(pair.name, shapes[0], shapes[1], pair.span))
    if not rules:
        hint = "write pairs `elementclass X { … }` and `elementclass X_Replacement { … }`"
        raise MezzoError(Diagnostic(f"{name} has no patterns", hint=hint))
    return rules


def reverse(rules: list[Rule]) -> list[Rule]:
    from mezzo.graph.xform import Rule

    return [Rule(r.name, r.replacement, r.pattern, r.span) for r in rules[::-1] if r.replacement.roles]
