"""shows an element's page: what it does, arguments, ports, handlers, an example

The page is made from the element's class; docs/elements holds the same pages as Markdown.  The name of a subcommand
shows that subcommand's help.
"""

from __future__ import annotations

import argparse
from importlib import import_module

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._page import as_markdown, as_text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="an element class, or a subcommand")
    parser.add_argument("--markdown", action="store_true", help="the page as Markdown")


def main(args: argparse.Namespace) -> int:
    print("\n\n".join(page(name, args.markdown) for name in args.names))
    return 0


def page(name: str, markdown: bool) -> str:
    from mezzo.elements import library
    from mezzo.tools.main import command_names, parser_of

    cls = library.maybe_find(name)
    if cls is not None:
        return (as_markdown(cls) if markdown else as_text(cls)).rstrip("\n")
    if name in command_names():
        module = import_module(f"mezzo.tools.{name}")
        parser = parser_of(name, module.__doc__ or "")
        module.arguments(parser)
        return parser.format_help().rstrip("\n")
    near = library.near(name)
    hint = f"did you mean {' or '.join(near)}?" if near else "`mezzo elements` lists them all"
    raise MezzoError(Diagnostic(f"there is no element `{name}`", hint=hint))
