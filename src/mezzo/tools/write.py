"""tells a running router: gives a write handler a text

    mezzo write 7777 q.capacity 500
    mezzo write router.sock rt.ctrl - < routes        what comes by standard input
    mezzo write 7777 stop

WHERE is the PORT (or HOST:PORT) of its ControlSocket or -p, or the file of its UNIX socket.  The words are joined by
blanks.  It is quiet where all is well, and says what the handler refused otherwise.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mezzo.base import MezzoError
from mezzo.tools._client import client_arguments, connect, encoded


def arguments(parser: argparse.ArgumentParser) -> None:
    client_arguments(parser)
    parser.add_argument("handler", metavar="EL.H", help="a write handler")
    parser.add_argument("text", nargs="*", metavar="TEXT", help="what to give it; -: standard input, as it is")
    parser.add_argument("--file", metavar="FILE", help="give it what is in FILE")


def main(args: argparse.Namespace) -> int:
    data = data_of(args)
    with connect(args) as client:
        answer = client.write(args.handler, data)
    warnings = answer.partition("\n")[2]  # the first line says that all is well
    if warnings:
        print(warnings, file=sys.stderr)
    return 0


def data_of(args: argparse.Namespace) -> bytes:
    if args.file is not None and args.text:
        raise MezzoError("give the text on the command line or in a file, not both")
    if args.file is not None:
        return Path(args.file).read_bytes()
    if args.text == ["-"]:
        return sys.stdin.buffer.read()
    return encoded(" ".join(args.text))
