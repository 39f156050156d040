"""writes a configuration without compounds, groups and variables, as Click's click-flatten does

Elements are declared one a line, then the connections; reading the result gives the same router.  With one of
--classes, --names, --declarations only that list is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import Source, read_source, source_arguments


def arguments(parser: argparse.ArgumentParser) -> None:
    source_arguments(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-c", "--classes", action="store_true", help="only the element classes, each once")
    what.add_argument("-n", "--names", action="store_true", help="only the names of the elements")
    what.add_argument("-d", "--declarations", action="store_true", help="only the declarations")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="where to write it")


def main(args: argparse.Namespace) -> int:
    text = flatten(read_source(args), args)
    if args.output == "-":
        print(text, end="")
        return 0
    try:
        Path(args.output).write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"{args.output}: {trouble.strerror}")) from None
    return 0


def flatten(source: Source, args: argparse.Namespace) -> str:
    from mezzo.elements import library
    from mezzo.frontends.click import parse_click, unparse
    from mezzo.pipeline.compile import is_class

    flat = parse_click(
        source.text, source.file, source.variables, source.library_path, is_class, library.names_of_files()
    )
    if args.classes:
        return "".join(f"{name}\n" for name in sorted({e.cls for e in flat.elements}))
    if args.names:
        return "".join(f"{e.name}\n" for e in flat.elements)
    return unparse(flat.elements, () if args.declarations else flat.connections, flat.requirements)
