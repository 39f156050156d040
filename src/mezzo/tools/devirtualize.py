"""accepted for configurations that use click-devirtualize: the compiler does that already

In Click each connection is a call through a pointer, and the tool writes classes whose calls are fixed.  Here every
element instance is compiled for its place in the graph, and its calls are fixed and inlined (`mezzo ir FILE --llvm`
shows it).  So the flat configuration is passed on unchanged.
"""

from __future__ import annotations

import argparse

from mezzo.tools._tool import driver_arguments, pass_through, refuse_kernel, tool_arguments

WHY = "calls between elements are fixed and inlined by the compiler; the configuration is passed on"


def arguments(parser: argparse.ArgumentParser) -> None:
    tool_arguments(parser)
    driver_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say so")
    parser.add_argument("-s", "--source", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-r", "--reverse", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("-n", "--no-devirtualize", action="append", metavar="CLASS", help=argparse.SUPPRESS)
    parser.add_argument("-i", "--instructions", action="append", metavar="FILE", help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    refuse_kernel(args)
    return pass_through(args, WHY)
