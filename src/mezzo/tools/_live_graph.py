"""The picture of a running router: the time that each element takes, packets, drops and queues, on the graph."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from mezzo.base import MezzoError
from mezzo.graph import Graph
from mezzo.tools._client import Client
from mezzo.tools._look import looking
from mezzo.tools._source import Source
from mezzo.tools._top import BAR, Reading, filled
from mezzo.tools._watch import si

TAKES_S = 20.0  # at most, for a profile to begin
COLD, HOT = (255, 255, 255), (255, 138, 92)


def readings(client: Client, seconds: float) -> tuple[Reading, Reading]:
    """Two readings, `seconds` apart, the second one with a profile where the router can have one."""
    try:
        with looking(client, "profile") as word:
            end = time.monotonic() + TAKES_S
            while time.monotonic() < end:
                new = json.loads(client.read("look", word.encode()))
                if new["state"].startswith("failed"):
                    raise MezzoError(new["state"])
                if new.get("slices", 0) > 0:
                    break
                time.sleep(0.1)
            return _both(client, seconds)
    except MezzoError:
        return _both(client, seconds)


def _both(client: Client, seconds: float) -> tuple[Reading, Reading]:
    before = Reading(json.loads(client.read("snapshot")), time.monotonic())
    time.sleep(seconds)
    return before, Reading(json.loads(client.read("snapshot")), time.monotonic())


def labels(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What is written in each box."""
    found = {}
    for row in rows:
        lines = []
        if row["share"] is not None:
            lines.append(f"{row['share']:.1%} of the time" + (f", {row['ns']:.0f} ns" if row["ns"] else ""))
        if row["packet_rate"] is not None:
            lines.append(f"{si(row['packet_rate'])} packets/s")
        if row["drops"]:
            lines.append(f"{row['drops']:,} dropped: {', '.join(row['reasons'])}")
        if row["queue"] and row["queue"][1]:
            lines.append(f"holds {row['queue'][0]} of {row['queue'][1]}")
        found[row["element"]] = "\n".join(lines)
    return found


def tints(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The more time an element takes, the warmer its box."""
    most = max((row["share"] or 0.0 for row in rows), default=0.0)
    return {row["element"]: _colour((row["share"] or 0.0) / most) for row in rows} if most else {}


def _colour(part: float) -> str:
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(COLD, HOT, strict=True))


def terminal(graph: Graph, rows: list[dict[str, Any]]) -> str:
    """The graph as text: elements in the order of their packets' way, each with its bar and where it leads."""
    by_name = {row["element"]: row for row in rows}
    lines = []
    for name in order(graph):
        row = by_name.get(name, {"share": None, "packet_rate": None, "drops": 0, "queue": None})
        share = row["share"]
        bar = f"[{filled(share)}] {share:>6.1%}" if share is not None else " " * (BAR + 9)
        facts = [f"{si(row['packet_rate'])} p/s"] if row["packet_rate"] is not None else []
        facts += [f"{row['drops']:,} dropped"] if row["drops"] else []
        facts += [f"{row['queue'][0]}/{row['queue'][1]}"] if row["queue"] and row["queue"][1] else []
        leads = [f"[{c.src_port}] → {c.dst}" if c.src_port else f"→ {c.dst}" for c in graph.outputs_of(name)]
        lines.append(f"{bar}  {name}  {', '.join(facts)}  {' '.join(leads)}".rstrip())
    return "\n".join(lines)


def order(graph: Graph) -> list[str]:
    """Elements by the way of packets: each as soon as all before it had their turn; the rest of a loop as written."""
    left = dict.fromkeys(graph.instances)
    found: list[str] = []
    while left:
        ready = [n for n in left if all(c.src not in left or c.src == n for c in graph.inputs_of(n))]
        for name in ready or [next(iter(left))]:
            found.append(name)
            del left[name]
    return found


def draw(args: argparse.Namespace, client: Client, form: str, parse: Any) -> str:
    """The picture in one of the forms of `mezzo graph`, or `text`."""
    from mezzo.graph import draw_dot, draw_html, draw_svg

    before, now = readings(client, args.seconds)
    resolved = parse(Source(client.text("flatconfig"), "config"))
    rows = now.rows(before)
    if form == "text":
        return terminal(resolved.graph, rows)
    if form == "html":
        return draw_html(resolved, labels(rows), title=args.live, tints=tints(rows))
    return draw_svg(resolved, labels(rows), tints=tints(rows)) if form == "svg" else draw_dot(resolved, labels(rows))
