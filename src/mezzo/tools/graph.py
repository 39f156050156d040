"""draws a configuration as a picture: SVG, a page of HTML, or dot text for Graphviz

    mezzo graph router.click -o router.svg
    mezzo graph --live 7777 -o router.html
    mezzo graph --live router.sock

The form follows the name given with -o; without -o dot text goes to standard output.  Filled ports push, open ports
pull.  With --live it is the graph of a router that runs, with the time that each element takes (sampled, see
docs/seeing.md), packets, drops and queues; without -o it is drawn for the terminal.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._client import Client, seconds
from mezzo.tools._source import Source, read_source, source_arguments

if TYPE_CHECKING:
    from mezzo.graph import Resolved

FORMS = ("svg", "html", "dot")


def arguments(parser: argparse.ArgumentParser) -> None:
    source_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="x.svg, x.html or x.dot")
    parser.add_argument("--live", metavar="WHERE", help="of the router whose control socket this is")
    parser.add_argument("--seconds", type=seconds, default=1.0, metavar="T", help="with --live: look for T (1 s)")
    parser.add_argument("--token", default=os.environ.get("MEZZO_TOKEN", ""), help="with --live: the word it asks for")
    parser.add_argument("--format", choices=FORMS, help="the form, where the name does not tell")


def main(args: argparse.Namespace) -> int:
    text = live(args) if args.live else draw(read_source(args), args.format or form_of(args.output))
    if args.output in (None, "-"):
        print(text)
        return 0
    try:
        Path(args.output).write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"{args.output}: {trouble.strerror}")) from None
    return 0


def live(args: argparse.Namespace) -> str:
    from mezzo.tools import _live_graph

    form = args.format or ("text" if args.output in (None, "-") else form_of(args.output))
    with Client(args.live, token=args.token) as client:
        return _live_graph.draw(args, client, form, resolve)


def form_of(name: str | None) -> str:
    if name in (None, "-"):
        return "dot"
    ending = Path(str(name)).suffix.lstrip(".").lower()
    if ending not in FORMS:
        raise MezzoError(
            Diagnostic(
                f"what form is {name}?", hint=f"end the name in {', '.join('.' + f for f in FORMS)}, or say --format"
            )
        )
    return ending


def resolve(source: Source) -> Resolved:
    from mezzo.elements import library
    from mezzo.frontends.click import parse_click
    from mezzo.graph import assemble
    from mezzo.pipeline.compile import check_graph, is_class

    flat = parse_click(
        source.text, source.file, source.variables, source.folders, is_class, library.names_of_files()
    )
    return check_graph(assemble(flat))


def draw(source: Source, form: str) -> str:
    from mezzo.graph import draw_dot, draw_html, draw_svg

    resolved = resolve(source)
    if form == "html":
        return draw_html(resolved, title=source.file)
    return draw_svg(resolved) if form == "svg" else draw_dot(resolved)
