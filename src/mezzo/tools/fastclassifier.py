"""accepted for configurations that use click-fastclassifier: the compiler does that already

In Click the tool turns the patterns of Classifier, IPClassifier and IPFilter into classes of their own.  Here each of
these elements turns its patterns into a decision diagram when it is configured, and that is compiled (`mezzo ir FILE
--element NAME` shows it).  So the flat configuration is passed on unchanged.
"""

from __future__ import annotations

import argparse

from mezzo.tools._tool import driver_arguments, pass_through, refuse_kernel, tool_arguments

WHY = "classifiers are compiled from their patterns already; the configuration is passed on"


def arguments(parser: argparse.ArgumentParser) -> None:
    tool_arguments(parser)
    driver_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say so")
    for short, option in (("-s", "--source"), ("-r", "--reverse")):
        parser.add_argument(short, option, action="store_true", help=argparse.SUPPRESS)
    for option in ("--combine", "--no-combine", "--compile", "--no-compile"):
        parser.add_argument(option, action="store_true", help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    refuse_kernel(args)
    return pass_through(args, WHY)
