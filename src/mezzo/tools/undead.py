"""removes what no packet needs from a configuration, as Click's click-undead does

Taken out are Null, StaticSwitch and StaticPullSwitch; elements that are not both behind a source and before a sink;
ports of schedulers and tees where nothing is left, and the scheduler or tee itself when one port is left.  A sink takes
packets out of the router (ToDevice, ToDump), or pulls them (Discard); packets that are pushed into a Discard need not
be made, unless --sink Discard says otherwise.  Information elements stay, and what handlers in configurations name.
"""

from __future__ import annotations

import argparse
import sys

from mezzo.tools._tool import (
    deliver,
    driver_arguments,
    given,
    graph_of,
    refuse_kernel,
    resolve,
    spec_of,
    text_of,
    tool_arguments,
)


def arguments(parser: argparse.ArgumentParser) -> None:
    tool_arguments(parser)
    driver_arguments(parser)
    parser.add_argument("--source", action="append", default=[], metavar="CLASS", help="elements of it are sources")
    parser.add_argument("--sink", action="append", default=[], metavar="CLASS", help="elements of it are sinks")
    parser.add_argument("-V", "--verbose", action="store_true", help="say what became of which element, and why")


def main(args: argparse.Namespace) -> int:
    from mezzo.graph.undead import Notes, undead

    refuse_kernel(args)
    it = given(args)
    graph, notes = graph_of(it.source), Notes()
    found = undead(graph, spec_of, args.source, args.sink, notes)
    # Dead parts may be wrong, for example not connected; what is left must be right.
    resolve(found)
    if args.verbose:
        for instance, what in notes.said:
            print(f"{instance.span}: `{instance.name}` ({instance.cls}) {what}", file=sys.stderr)
    if graph.instances and not found.instances:
        discards = any(instance.cls == "Discard" for instance in graph.instances.values())
        hint = " (--sink Discard makes every Discard a sink)" if discards else ""
        print(f"{it.source.file}: no packet gets from a source to a sink, so nothing is left{hint}", file=sys.stderr)
    return deliver(args, text_of(found), it.members)
