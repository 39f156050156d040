"""asks a running router: prints what its read handlers say

    mezzo read 7777 c.count
    mezzo read router.sock c.count q.length --json
    mezzo read host:7777 'rt.lookup 10.0.0.1' --token 0123456789
    mezzo read 7777 c.count --watch 1

WHERE is the PORT (or HOST:PORT) of its ControlSocket or -p, or the file of its UNIX socket.  A handler is
ELEMENT.HANDLER, or a global one (list, flatconfig, drops …); what it is asked for stands behind it, in the same word.
"""

from __future__ import annotations

import argparse
import json
import sys

from mezzo.tools._client import Client, ask_all, client_arguments, connect, seconds
from mezzo.tools._terminal import harmless


def arguments(parser: argparse.ArgumentParser) -> None:
    client_arguments(parser)
    parser.add_argument("handlers", nargs="+", metavar="EL.H", help="a read handler, perhaps with an argument")
    parser.add_argument("--json", action="store_true", help="as a JSON object, handler to text")
    parser.add_argument("--watch", type=seconds, metavar="T", help="read every T, with rates, until interrupted")
    parser.add_argument("--times", type=int, metavar="N", help="with --watch: end after N readings")


def main(args: argparse.Namespace) -> int:
    with connect(args) as client:
        if args.watch is not None:
            return watch(client, args)
        found = ask_all(client, args.handlers)
    if args.json:
        print(json.dumps({path: data.decode("utf-8", "replace") for path, data in found.items()}, indent=2))
        return 0
    for path, data in found.items():
        show(path if len(found) > 1 else "", data)
    return 0


def show(head: str, data: bytes) -> None:
    """A value under its name where there are several, as it is but on a terminal; it ends with a line's end."""
    if sys.stdout.isatty():
        data = harmless(data.decode("utf-8", "replace")).encode()
    out = sys.stdout.buffer if hasattr(sys.stdout, "buffer") else None
    if head:
        print(f"{head}:", flush=True)
    if out is None:
        print(data.decode("utf-8", "replace"), end="")
    else:
        sys.stdout.flush()
        out.write(data)
        out.flush()
    if not data.endswith(b"\n"):
        print(flush=True)


def watch(client: Client, args: argparse.Namespace) -> int:
    from mezzo.tools._watch import readings

    def read() -> dict[str, str]:
        return {path: data.decode("utf-8", "replace") for path, data in ask_all(client, args.handlers).items()}

    for number, lines in enumerate(readings(read, args.watch, args.times)):
        if number and len(lines) > 1:
            print()
        print("\n".join(lines), flush=True)
    return 0
