"""says why no minimal driver has to be built, and which element classes configurations need

Click's tool writes a Makefile for a driver with only the elements that some configurations use.  Here an element class
is imported when a configuration names it, and only the code of its instances is compiled, so every router is minimal.
With --list the classes are printed, one a line.
"""

from __future__ import annotations

import argparse
import sys

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import Source, elements_argument, find_source, load_elements
from mezzo.tools._tool import flat_of, refuse_kernel

WHY = "no driver has to be built: a router loads and compiles only the element classes that its configuration uses"


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="FILE", help="configurations")
    add("-f", "--file", action="append", default=[], metavar="FILE", help="a configuration")
    add("-e", "--expression", action="append", default=[], metavar="EXPR", help="a configuration, as text")
    add("-E", dest="needed", action="append", default=[], metavar="CLASSES", help="further classes")
    add("-C", "--clickpath", metavar="PATH", default="", help="where libraries are looked for")
    add("--list", action="store_true", help="print the classes")
    add("-p", "--package", metavar="NAME", help=argparse.SUPPRESS)
    add("-d", "--directory", metavar="FOLDER", help=argparse.SUPPRESS)
    for short, option in (("-a", "--all"), ("-u", "--userlevel"), ("-V", "--verbose")):
        add(short, option, action="store_true", help=argparse.SUPPRESS)
    for option in ("--check", "--no-check", "--extras", "--no-extras"):
        add(option, action="store_true", help=argparse.SUPPRESS)
    add("-k", "-l", "--kernel", "--linuxmodule", action="store_true", help="refused: there is no kernel module")
    elements_argument(parser)


def main(args: argparse.Namespace) -> int:
    refuse_kernel(args)
    load_elements(args.elements)
    needed = classes(args)
    refuse_unknown(needed)
    print(WHY, file=sys.stderr)
    if args.list:
        print("\n".join(sorted(needed)))
    return 0


def classes(args: argparse.Namespace) -> set[str]:
    """All classes that the configurations name."""
    sources: list[Source] = [find_source([name], None, args.clickpath) for name in [*args.file, *args.words]]
    sources += [find_source([], text, args.clickpath) for text in args.expression]
    if not sources and not args.needed and args.as_click:
        sources.append(find_source(["-"], None, args.clickpath))
    if not sources and not args.needed:
        raise MezzoError(Diagnostic("no configuration is given", hint="name files, or classes with -E"))
    found = {element.cls for source in sources for element in flat_of(source).elements}
    return found | {word for text in args.needed for word in text.split()}


def refuse_unknown(names: set[str]) -> None:
    from mezzo.elements import library

    unknown = sorted(name for name in names if library.maybe_find(name) is None)
    if unknown:
        raise MezzoError(Diagnostic(f"there is no element class {', '.join(unknown)}"))
