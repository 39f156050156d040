"""takes one router out of a combined configuration, as Click's click-uncombine does

The configuration must be one that `mezzo combine` wrote, an archive; NAME is the router's name there.  Tools may have
changed it meanwhile: what is connected to the router's elements and is no other's goes with it.
"""

from __future__ import annotations

import argparse

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import VARIABLE
from mezzo.tools._tool import deliver, given, graph_of, text_of, tool_arguments
from mezzo.tools.combine import MAP


def arguments(parser: argparse.ArgumentParser) -> None:
    tool_arguments(parser)
    parser.add_argument("-n", "--name", metavar="NAME", help="the router; it may also be the last word")


def main(args: argparse.Namespace) -> int:
    from mezzo.graph.combine import uncombine

    name = args.name or last_word(args)
    it = given(args)
    if MAP not in it.members:
        hint = "combine without --config keeps what is needed"
        raise MezzoError(Diagnostic(f"{it.source.file} was not written by combine: it has no `{MAP}`", hint=hint))
    components = it.members[MAP].split()
    if not name:
        raise MezzoError(Diagnostic("which router?", hint=f"there are {', '.join(components)}"))
    graph, left = uncombine(graph_of(it.source), components, name)
    members = {MAP: "".join(f"{n}\n" for n in left)} if left else {}
    return deliver(args, text_of(graph), members)


def last_word(args: argparse.Namespace) -> str:
    """Takes the router's name from the words."""
    files = [w for w in args.words if not VARIABLE.match(w)]
    if len(files) + bool(args.file) < 2:
        return ""
    args.words.remove(files[-1])
    return str(files[-1])
