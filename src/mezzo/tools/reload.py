"""gives a running router another configuration, while packets flow

    mezzo reload 7777 new.click
    mezzo reload router.sock new.click --json
    mezzo reload 7777 --element q 'Queue(500)'        one element, while its neighbours run

WHERE is the PORT (or HOST:PORT) of its ControlSocket or -p, or the file of its UNIX socket; the router must have been
started with -R.  What has the same name, class and words goes on as it is; what has the same name and class takes
over state (packets in queues, tables, counters); devices stay open; nothing that the graph holds is lost.  Where the
configuration is wrong the router goes on with its own, and this says why.  $Variables have the values that the router
was started with.  `mezzo diff OLD NEW` tells beforehand what would be done.
"""

from __future__ import annotations

import argparse

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._client import client_arguments, connect, encoded
from mezzo.tools._source import find_source


def arguments(parser: argparse.ArgumentParser) -> None:
    client_arguments(parser)
    parser.set_defaults(timeout=120.0)  # a large configuration is compiled meanwhile
    parser.add_argument("file", nargs="?", metavar="FILE", help="the configuration, - for standard input")
    parser.add_argument("--element", nargs=2, metavar=("NAME", "CLASS(CONFIG)"), help="only this element is another")
    parser.add_argument("--json", action="store_true", help="what was done, as JSON")


def main(args: argparse.Namespace) -> int:
    if (args.file is None) == (args.element is None):
        raise MezzoError(Diagnostic("give a FILE, or --element NAME 'CLASS(CONFIG)'"))
    with connect(args) as client:
        if args.element:
            client.write("replace", encoded(" ".join(args.element)))
        else:
            client.write("hotconfig", encoded(find_source([args.file], None).text))
        print(client.text("hotconfig", "json" if args.json else ""), end="")
    return 0
