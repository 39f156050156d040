"""accepted for configurations that use click-align: packets need no alignment here

Click's tool puts Align elements where a machine that cannot read unaligned words would fail.  Here every access to a
packet is symbolic, and each target reads it in a way that works on its machine.  So the flat configuration is passed on
unchanged; Align and AlignmentInfo in it are allowed and do nothing.
"""

from __future__ import annotations

import argparse

from mezzo.tools._tool import pass_through, tool_arguments

WHY = "packets need no alignment; the configuration is passed on"


def arguments(parser: argparse.ArgumentParser) -> None:
    tool_arguments(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="do not say so")


def main(args: argparse.Namespace) -> int:
    return pass_through(args, WHY)
