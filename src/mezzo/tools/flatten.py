"""writes a configuration without compounds, groups and variables, as Click's click-flatten does

Elements are declared one a line, then the connections; reading the result gives the same router.  With one of
--classes, --names, --declarations only that list is printed, in order of the alphabet.  With --json or --xml the graph
is written for other programs: each port push or pull, each element with its place; the XML is click2xml's.
"""

from __future__ import annotations

import argparse
import json

from mezzo.tools._source import Source
from mezzo.tools._tool import Given, deliver, flat_of, given, resolve, tool_arguments, write_text


def arguments(parser: argparse.ArgumentParser) -> None:
    tool_arguments(parser, ("--config",))
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-c", "--classes", action="store_true", help="only the element classes, each once")
    what.add_argument("-n", "--names", action="store_true", help="only the names of the elements")
    what.add_argument(
        "-d", "--declarations", "--decls", action="store_true", help="only names and classes of the elements"
    )
    what.add_argument("--json", action="store_true", help="the graph as JSON")
    what.add_argument("--xml", action="store_true", help="the graph as XML")
    parser.add_argument("-F", "--flatten", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--expand-vars", action="store_true", help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    it = given(args)
    if args.json or args.xml:
        return write_text(args.output, exported(it.source, args.xml))
    text = flatten(it, args)
    listed = args.classes or args.names or args.declarations
    return write_text(args.output, text) if listed else deliver(args, text, it.members)


def flatten(it: Given, args: argparse.Namespace) -> str:
    from mezzo.frontends.click import unparse

    flat = flat_of(it.source, strict=not args.as_click)
    if args.classes:
        return _lines({e.cls for e in flat.elements})
    if args.names:
        return _lines({e.name for e in flat.elements})
    if args.declarations:
        return _lines({f"{e.name} :: {e.cls}" for e in flat.elements})
    return unparse(flat.elements, flat.connections, flat.requirements)


def exported(source: Source, xml: bool) -> str:
    """The graph as XML or JSON."""
    from mezzo.graph import assemble
    from mezzo.graph.export import to_json, to_xml

    resolved = resolve(assemble(flat_of(source)))
    return to_xml(resolved) if xml else json.dumps(to_json(resolved), indent=2) + "\n"


def _lines(words: set[str]) -> str:
    return "".join(f"{word}\n" for word in sorted(words))
