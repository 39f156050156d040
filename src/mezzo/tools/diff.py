"""tells what a reload would do to make one configuration of another

    mezzo diff old.click new.click
    mezzo diff old.click new.click RATE=100 --all

A line an action: an element that hands its state over, is replaced by one of another class, added or removed; a
connection that is made or taken away; a device that is opened or closed.  Elements that go on as they are, are left
out unless --all.  Nothing is opened or run.  Exit status as that of diff(1): 0, nothing to do; 1, something.
"""

from __future__ import annotations

import argparse
import json

from mezzo.tools._source import Source, find_source, place_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help="the configuration that runs, - for standard input")
    parser.add_argument("new", metavar="NEW", help="the one that is to take its place")
    parser.add_argument("variables", nargs="*", metavar="VAR=VALUE", help="values of $variables, for both")
    parser.add_argument("--all", action="store_true", help="what goes on as it is, too")
    parser.add_argument("--json", action="store_true", help="as JSON")
    place_argument(parser)


def main(args: argparse.Namespace) -> int:
    from mezzo.graph.diff import KEEP, counts
    from mezzo.pipeline import Plan, compile_text
    from mezzo.runtime.reload import what_to_do

    def plan_of(name: str) -> Plan:
        it: Source = find_source([name, *args.variables], None)
        return compile_text(it.text, it.file, it.variables, it.folders, place=args.place)

    actions = what_to_do(plan_of(args.old), plan_of(args.new))
    if args.json:
        rows = [{"what": a.what, "name": a.name, "why": a.why} for a in actions]
        print(json.dumps({"actions": rows, "counts": counts(actions)}, indent=2))
    else:
        for action in actions:
            if args.all or action.what != KEEP:
                print(action)
    return 1 if any(a.what != KEEP for a in actions) else 0
