"""asks and tells a running router by hand: completion, history, handlers watched with rates

    mezzo shell 7777
    mezzo shell router.sock -c 'watch c.count times 3'

    c.count                      reads a handler (`read c.count` too); rt.lookup 10.0.0.1 gives it an argument
    write q.capacity 500         gives a write handler a text (`q.capacity = 500` too)
    watch c.count q.length       reads them every second, with rates, until Ctrl-C; every 0.2, times 10
    ls [ELEMENT]                 the elements, or an element's handlers
    help, quit

Commands may come by standard input; the exit status is then 1 where one of them failed.
"""

from __future__ import annotations

import argparse
import sys

from mezzo.tools._client import client_arguments, connect
from mezzo.tools._shell import Shell


def arguments(parser: argparse.ArgumentParser) -> None:
    client_arguments(parser)
    parser.add_argument("-c", "--command", action="append", default=[], metavar="TEXT", help="do this and end")


def main(args: argparse.Namespace) -> int:
    with connect(args) as client:
        shell = Shell(client, __doc__ or "")
        if args.command:
            return shell.script(args.command)
        return shell.interactive() if sys.stdin.isatty() else shell.script(sys.stdin)
