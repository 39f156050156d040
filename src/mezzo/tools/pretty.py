"""writes a configuration as a page of HTML, as Click's click-pretty does

The page is one file: the text in colours, with each name leading to its element and each class to what it does; the
picture of the graph; a table of elements with their ports, push or pull, and what they are connected to.  It is
readable by day and by night.  With --dot, --gml or --graphml the graph is written for programs that draw.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError, Reporter
from mezzo.tools._source import Source
from mezzo.tools._terminal import print_errors
from mezzo.tools._tool import (
    CONFIG,
    Given,
    flat_of,
    given,
    refuse_kernel,
    resolve,
    source_arguments_and_output,
    spec_of,
    write_text,
)

if TYPE_CHECKING:
    from mezzo.graph import Resolved

FORMS = ("dot", "gml", "graphml")


def arguments(parser: argparse.ArgumentParser) -> None:
    source_arguments_and_output(parser)
    for form in FORMS:
        parser.add_argument(f"--{form}", dest="form", action="store_const", const=form, help=f"the graph as {form}")
    parser.add_argument(
        "-u", "--class-docs", metavar="URL", default="", help="where classes are described, %%s for the name"
    )
    parser.add_argument("-t", "--template", metavar="FILE", help="refused: the page has one form")
    parser.add_argument("--userlevel", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-k", "--kernel", "--linuxmodule", action="store_true", help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    refuse_kernel(args)
    if args.template:
        raise MezzoError(Diagnostic("templates are not supported: the page has one form", hint="drop -t"))
    it = given(args)
    if args.form:
        return write_text(args.output, drawn(it.source, args.form))
    resolved, errors = looked_at(it.source)
    write_text(args.output, page(it, resolved, errors, args.class_docs))
    print_errors(errors)
    return 1 if errors else 0


def drawn(source: Source, form: str) -> str:
    from mezzo.graph import assemble, draw_dot
    from mezzo.graph.export import to_gml, to_graphml

    resolved = resolve(assemble(flat_of(source)))
    if form == "dot":
        return draw_dot(resolved)
    return to_gml(resolved) if form == "gml" else to_graphml(resolved)


def looked_at(source: Source) -> tuple[Resolved | None, list[Diagnostic]]:
    """The graph, as far as it can be had, and what is wrong: a page of a wrong configuration shows its errors."""
    from mezzo.graph import assemble, check

    try:
        graph = assemble(flat_of(source))
    except MezzoError as trouble:
        return None, list(trouble.diagnostics)
    reporter = Reporter()
    resolved = check(graph, spec_of, reporter)
    return resolved, reporter.errors


def page(it: Given, resolved: Resolved | None, errors: list[Diagnostic], docs: str) -> str:
    from mezzo.elements import library
    from mezzo.frontends.click.marks import marks
    from mezzo.tools._pretty import Page

    text = it.members.get(CONFIG, it.source.text)
    names = {text[m.begin : m.end] for m in marks(text) if m.kind in ("name", "class")}
    if resolved is not None:
        names |= {i.cls for i in resolved.graph.instances.values()}
    classes = {name: cls for name in names if (cls := library.maybe_find(name)) is not None}
    return Page(it.source.file, text, resolved, errors, docs, classes).html()
