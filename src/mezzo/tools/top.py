"""shows what a running router does, again and again: elements by their time, packets, drops; queues; threads

    mezzo top 7777
    mezzo top router.sock --every 0.5
    mezzo top 7777 --once
    mezzo top 7777 --json

Keys: q ends it, as Ctrl-C does; p sorts by packets, d by drops, t by time, n by name.  The time of elements is sampled
(see docs/seeing.md), at a cost of some thousandths; --no-profile leaves it out.  Without a terminal, or with --once or
--json, one reading is printed, with the rates since one before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from mezzo.base import MezzoError
from mezzo.tools._client import Client, client_arguments, connect, seconds
from mezzo.tools._look import looking
from mezzo.tools._screen import Screen
from mezzo.tools._top import Reading, page


def arguments(parser: argparse.ArgumentParser) -> None:
    client_arguments(parser)
    parser.add_argument("--every", type=seconds, default=1.0, metavar="T", help="how often it is read (1 s)")
    parser.add_argument("--once", action="store_true", help="one reading as text")
    parser.add_argument("--json", action="store_true", help="one reading as JSON, with rates")
    parser.add_argument("--no-profile", action="store_true", help="do not sample the time of elements")
    parser.add_argument("--sort", choices=("time", "packets", "drops", "name"), default="time")


def main(args: argparse.Namespace) -> int:
    with connect(args) as client, profiled(client, args):
        if args.once or args.json or not sys.stdout.isatty():
            return once(client, args)
        return live(client, args)


@contextlib.contextmanager
def profiled(client: Client, args: argparse.Namespace) -> Iterator[None]:
    """Samples while we look, where the router can."""
    with contextlib.ExitStack() as stack:
        args.word = ""
        if not args.no_profile:
            with contextlib.suppress(MezzoError):  # a router on another target has no profile
                args.word = stack.enter_context(looking(client, "profile"))
        yield


def read(client: Client, args: argparse.Namespace) -> Reading:
    if args.word:
        with contextlib.suppress(MezzoError):
            client.read("look", args.word.encode())  # it ends where nobody asks
    return Reading(json.loads(client.read("snapshot")), time.monotonic())


def once(client: Client, args: argparse.Namespace) -> int:
    first = read(client, args)
    time.sleep(args.every)
    now = read(client, args)
    if args.json:
        print(json.dumps(now.as_dict(first), indent=2))
        return 0
    print("\n".join(page(now, first, args.sort, 100, 10_000)))
    return 0


KEYS = {"p": "packets", "d": "drops", "t": "time", "n": "name"}


def live(client: Client, args: argparse.Namespace) -> int:
    sort, before = args.sort, read(client, args)
    due = time.monotonic() + min(args.every, 0.3)
    now: Any = before
    with Screen() as screen:
        while True:
            key = screen.key(max(due - time.monotonic(), 0.0))
            if key in ("q", "Q", "\x03"):
                return 0
            sort = KEYS.get(key, sort)
            if time.monotonic() >= due:
                before, now = now, read(client, args)
                due = time.monotonic() + args.every
            width, height = screen.size()
            screen.show(page(now, before, sort, width, height))
    return 0  # by Ctrl-C
