"""lists the element classes, or those whose name or first line has a word in it

`mezzo help NAME` shows the page of one.  --targets tells where each of them can run: natively, and what of it in the
kernel.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._page import facts, first_line

if TYPE_CHECKING:
    from mezzo.elements.element import Element


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "word", nargs="?", default="", metavar="WORD", help="only elements that have it in name or first line"
    )
    parser.add_argument("--targets", action="store_true", help="on which targets they run, and why not on others")
    parser.add_argument("--write", metavar="FILE.md", help="with --targets: write the table there")
    parser.add_argument("--json", action="store_true", help="everything that pages know, as JSON")


def main(args: argparse.Namespace) -> int:
    from mezzo.elements import library

    word = args.word.lower()
    classes = [cls for name in library.names() if (cls := library.maybe_find(name)) is not None]
    found = [c for c in classes if word in c.__name__.lower() or word in first_line(c).lower()]
    if not found:
        near = library.near(args.word)
        raise MezzoError(
            Diagnostic(
                f"no element has `{args.word}` in its name or first line",
                hint=f"did you mean {', '.join(near)}?" if near else "",
            )
        )
    if args.write and not args.targets:
        hint = "say --targets, too; the pages of elements are written by `mezzo help --write`"
        raise MezzoError(Diagnostic("--write: what?", hint=hint))
    if args.targets:
        return print_targets(found, args.write, args.json)
    if args.json:
        print(json.dumps([facts(c) for c in found], indent=2))
        return 0
    width = max(len(c.__name__) for c in found)
    for c in found:
        print(f"{c.__name__:<{width}}  {first_line(c)}")
    return 0


def print_targets(classes: Sequence[type[Element]], write: str | None, as_json: bool) -> int:
    from mezzo.tools._targets import markdown, rows
    from mezzo.tools._terminal import table

    found = rows(classes)
    if write:
        Path(write).write_text(markdown(found), encoding="utf-8")
    elif as_json:
        print(json.dumps([asdict(row) for row in found], indent=2))
    else:
        print(table(("element", "native", "kernel"), [(r.name, r.native, r.kernel) for r in found]))
    return 0
