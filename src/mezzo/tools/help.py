"""shows an element's page: what it does, arguments, ports, handlers, an example

The page is made from the element's class; docs/elements holds the same pages as Markdown.  The name of a subcommand
shows that subcommand's help.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._page import as_markdown, as_text, first_line, own_classes
from mezzo.tools._source import elements_argument, load_elements


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="an element class, or a subcommand")
    parser.add_argument("--markdown", action="store_true", help="the page as Markdown")
    elements_argument(parser)
    parser.add_argument(
        "--write", metavar="FOLDER", help="write the pages of all elements as Markdown, and their index"
    )


def main(args: argparse.Namespace) -> int:
    load_elements(args.elements)
    if args.write:
        write_pages(Path(args.write))
        return 0
    if not args.names:
        raise MezzoError(
            Diagnostic("help on what?", hint="name an element or a subcommand; `mezzo elements` lists the elements")
        )
    print("\n\n".join(page(name, args.markdown) for name in args.names))
    return 0


def pages() -> dict[str, str]:
    """File name -> text of all element pages and their index."""
    classes = own_classes()
    rows = "\n".join(f"| [{c.__name__}]({c.__name__}.md) | {first_line(c)} |" for c in classes)
    head = "# Elements\n\nMade by `make docs` from the element classes.\n\n| element | what it does |\n| --- | --- |"
    return {"README.md": f"{head}\n{rows}\n"} | {f"{c.__name__}.md": as_markdown(c) for c in classes}


def write_pages(folder: Path) -> None:
    """Writes them; pages of elements that are gone go too."""
    made = pages()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text, encoding="utf-8")


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
