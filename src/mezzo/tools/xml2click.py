"""writes the configuration that an XML file of click2xml describes

The XML may be Click's, with compounds in it.  `mezzo flatten --xml`, which is click2xml, is the way there.
"""

from __future__ import annotations

import argparse

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._source import read_file
from mezzo.tools._tool import output_argument, write_text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILE", help="the XML, - for standard input")
    parser.add_argument("-f", "--file", metavar="FILE", help="the XML, as an option")
    output_argument(parser)


def main(args: argparse.Namespace) -> int:
    from mezzo.graph.from_xml import click_of_xml

    names = [*([args.file] if args.file else []), *args.words] or (["-"] if args.as_click else [])
    if len(names) != 1:
        raise MezzoError(Diagnostic("name one XML file", hint="- is standard input"))
    return write_text(args.output, click_of_xml(read_file(names[0]), names[0]))
