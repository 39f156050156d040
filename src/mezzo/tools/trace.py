"""follows packets through a router: every element on their way, with times, what each changed, where and why they ended

    mezzo trace 7777                            the next packet of a router that runs
    mezzo trace 7777 'udp and dst port 53' -n 10
    mezzo trace router.click 'icmp' -n 3 --write way.pcapng
    mezzo trace router.sock -n 100 --json

WHERE is the address of a router's control socket, or a configuration, which is then run.  FILTER is a pattern of
IPFilter; a packet is followed from where it matches.  A router that runs goes through traced code meanwhile, and then
through its own again; a step of a packet that is followed takes some fifty microseconds, which the times show.
--write gives a pcapng with an interface per element, in which each packet's comment tells the step, for tshark.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._client import client_arguments, connect, seconds
from mezzo.tools._look import looking, news
from mezzo.tools._path_file import PathFile


def arguments(parser: argparse.ArgumentParser) -> None:
    client_arguments(parser)
    parser.add_argument("filter", nargs="*", metavar="FILTER", help="only packets that match, as IPFilter writes it")
    parser.add_argument("-n", "--count", type=natural, default=1, metavar="N", help="follow N packets (1)")
    parser.add_argument("--time", type=seconds, default=10.0, metavar="T", help="for T at most (10 s)")
    parser.add_argument("--json", action="store_true", help="a JSON object a packet, a line each")
    parser.add_argument("--write", metavar="FILE.pcapng", help="the packet at every step, with comments")


def natural(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 10000, not `{text}`")
    return int(text)


def is_configuration(where: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(where).st_mode)
    except OSError:
        return where.endswith(".click")


def main(args: argparse.Namespace) -> int:
    out = PathFile(args.write) if args.write else None
    try:
        count = trace_file(args, out) if is_configuration(args.where) else trace_router(args, out)
    finally:
        if out is not None:
            out.close()
    if not count:
        raise MezzoError(Diagnostic("no packet came by", hint="a wider filter, or a longer --time?"))
    return 0


def trace_router(args: argparse.Namespace, out: PathFile | None) -> int:
    asked = {"count": args.count, "filter": " ".join(args.filter), "seconds": args.time}
    found = 0
    with connect(args) as client, looking(client, "trace", **asked) as word:
        for new in news(client, word):
            for path in new["paths"]:
                tell(path, args, out)
                found += 1
    return found


def trace_file(args: argparse.Namespace, out: PathFile | None) -> int:
    """Runs a configuration, and follows its first packets."""
    from mezzo.runtime import Router
    from mezzo.runtime.filters import compile_filter
    from mezzo.runtime.paths import Path, Tracer, as_json
    from mezzo.tools._source import read_file

    found: list[Path] = []

    def finished(path: Path) -> None:
        found.append(path)
        tell(as_json(path, whole=True), args, out)

    tracer = Tracer(args.count, finished, compile_filter(" ".join(args.filter)))
    with Router.from_click(read_file(args.where), args.where, trace=tracer.seen) as router:
        tracer.attach(router)

        def ask() -> bool:
            tracer.look()
            return tracer.is_full()

        router.run(args.time, until=ask)
        tracer.finish()
    return len(found)


def tell(path: dict[str, Any], args: argparse.Namespace, out: PathFile | None) -> None:
    if out is not None:
        out.add(path)
    if args.json:
        steps = [{k: v for k, v in step.items() if k not in ("data", "link")} for step in path["steps"]]
        print(json.dumps({**path, "steps": steps}), flush=True)
        return
    sys.stdout.write(render(path) + "\n\n")
    sys.stdout.flush()


def render(path: dict[str, Any]) -> str:
    from mezzo.runtime.paths import Step

    copy = f", a copy of packet {path['copy_of']}" if path["copy_of"] is not None else ""
    rows = [
        (s["time_ns"], Step(s["element"], s["class"], s["port"], level=s["level"]).label(), ", ".join(s["changed"]))
        for s in path["steps"]
    ]
    rows.append((path["end_ns"], path["end"], ""))
    began, width = rows[0][0], min(max(len(row[1]) for row in rows[:-1] or rows), 48)
    lines = [f"packet {path['packet']}: {path['summary']}{copy}"]
    lines += [f"{(at - began) / 1e3:>10.1f} µs  {what:<{width}}  {done}".rstrip() for at, what, done in rows]
    return "\n".join(lines)
