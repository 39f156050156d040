"""draws a configuration as a picture: SVG, a page of HTML, or dot text for Graphviz

The form follows the name given with -o; without -o dot text goes to standard output.  Filled ports push, open ports
pull.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import Source, read_source, source_arguments

FORMS = ("svg", "html", "dot")


def arguments(parser: argparse.ArgumentParser) -> None:
    source_arguments(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="x.svg, x.html or x.dot")
    parser.add_argument("--format", choices=FORMS, help="the form, where the name does not tell")


def main(args: argparse.Namespace) -> int:
    form = args.format or form_of(args.output)
    text = draw(read_source(args), form)
    if args.output in (None, "-"):
        print(text)
        return 0
    try:
        Path(args.output).write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"{args.output}: {trouble.strerror}")) from None
    return 0


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


def draw(source: Source, form: str) -> str:
    from mezzo.elements import library
    from mezzo.frontends.click import parse_click
    from mezzo.graph import assemble, draw_dot, draw_html, draw_svg
    from mezzo.pipeline.compile import check_graph, is_class

    flat = parse_click(
        source.text, source.file, source.variables, source.library_path, is_class, library.names_of_files()
    )
    resolved = check_graph(assemble(flat))
    if form == "html":
        return draw_html(resolved, title=source.file)
    return draw_svg(resolved) if form == "svg" else draw_dot(resolved)
