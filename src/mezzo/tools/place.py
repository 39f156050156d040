"""shows which elements of a configuration run in the kernel, and why the others do not

    mezzo place router.click                          as its Place elements say; without them, auto
    mezzo place router.click --place 'fast/*=kernel'  as `mezzo run --place` would
    mezzo place router.click -o plan.svg              as a picture; or plan.html

Each line is an element below one that sends to it: `kernel`, all it does is done there; `kernel+native`, its usual work
is, and packets that need the rest go up; `native`.  The line of code named last is the one that decides.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError, Span
from mezzo.tools._source import place_argument, read_source, source_arguments
from mezzo.tools._terminal import has_colour, print_errors, table

if TYPE_CHECKING:
    from mezzo.graph import Graph
    from mezzo.pipeline import Plan
    from mezzo.pipeline.told import Placement, Row

TINTS = {"kernel": "#cfeacb", "kernel+native": "#fbe9b5", "native": "#ffffff"}
COLOURS = {"kernel": "\x1b[32m", "kernel+native": "\x1b[33m", "native": ""}
PLAIN = "\x1b[0m"


def arguments(parser: argparse.ArgumentParser) -> None:
    source_arguments(parser)
    place_argument(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="a picture: x.svg or x.html")
    parser.add_argument("--json", action="store_true", help="the plan as JSON on standard output")


def main(args: argparse.Namespace) -> int:
    form = form_of(args.output)
    plan = planned(args)
    placement = plan.placement
    assert placement is not None, "there is a wish"
    if form:
        save(args.output, drawn(plan, form))
    if args.json:
        print(json.dumps(as_json(placement), indent=2))
    elif not form:
        print(picture(plan.resolved.graph, placement, has_colour(sys.stdout)))
        print(placement, *[f"order: {placement.order}"] * bool(placement.order), sep="\n")
    return 0


def form_of(name: str | None) -> str:
    if name is None:
        return ""
    form = Path(name).suffix.lstrip(".").lower()
    if form not in ("svg", "html"):
        raise MezzoError(Diagnostic(f"what form is {name}?", hint="end the name in .svg or .html"))
    return form


def planned(args: argparse.Namespace) -> Plan:
    """The plan with its placement: what the configuration wishes, or auto when nobody wishes anything."""
    from mezzo.pipeline import compile_text

    source = read_source(args)
    place = args.place
    while True:
        plan = compile_text(source.text, source.file, source.variables, source.folders, place=place)
        if plan.placement is not None:
            print_errors(plan.warnings)
            return plan
        place = ["auto", *place]


def save(name: str, text: str) -> None:
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"{name}: {trouble.strerror}")) from None


# -- for people


def picture(graph: Graph, placement: Placement, colour: bool) -> str:
    """The graph as a tree, from its sources down, with level, reason and line of each element."""
    rows = {row.name: row for row in placement.rows}
    found = [(branch + name, rows[name]) for branch, name in tree(graph) if name in rows]
    text = table(("element", "level", "line", "why"), [(x, r.level, near(r.span), r.why) for x, r in found])
    if not colour:
        return text
    head, *lines = text.split("\n")
    return "\n".join([head, *(_painted(line, row) for line, (_, row) in zip(lines, found, strict=True))])


def _painted(line: str, row: Row) -> str:
    paint = COLOURS[row.level]
    return f"{paint}{line}{PLAIN}" if paint else line


def tree(graph: Graph) -> Iterator[tuple[str, str]]:
    """(branch, name) of each element, under the first that sends to it."""
    targets: dict[str, list[str]] = {name: [] for name in graph.instances}
    for c in sorted(graph.connections, key=lambda c: c.src_port):
        targets[c.src].append(c.dst)
    led = {c.dst for c in graph.connections}
    seen: set[str] = set()
    for root in sorted(graph.instances, key=lambda name: name in led):
        stack = [("", root)] if root not in seen else []
        while stack:
            branch, name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            yield branch, name
            below = [to for to in dict.fromkeys(targets[name]) if to not in seen]
            # A chain goes straight down; only where ways part does it go to the right.
            step = branch if len(below) < 2 else branch + "  "
            stack += [(step, to) for to in reversed(below)]


def near(span: Span | None) -> str:
    """A place as a file name and line; the folder is plain."""
    return f"{Path(span.file).name}:{span.line}" if span is not None else ""


def drawn(plan: Plan, form: str) -> str:
    """The picture with boxes coloured by level; a page has the reasons below."""
    from html import escape

    from mezzo.graph import draw_html, draw_svg

    assert plan.placement is not None
    rows = {row.name: row for row in plan.placement.rows}
    labels = {name: row.level for name, row in rows.items()}
    tints = {name: TINTS[row.level] for name, row in rows.items()}
    if form == "svg":
        return draw_svg(plan.resolved, labels, tints=tints)
    cells = "".join(
        f"<tr><td>{escape(r.name)}</td><td>{escape(r.level)}</td><td>{escape(r.why)}</td><td>{escape(near(r.span))}</td></tr>\n"
        for r in rows.values()
    )
    below = f"<p>{escape(str(plan.placement))}</p>\n<table>\n{cells}</table>"
    return draw_html(plan.resolved, labels, title="placement", below=below, tints=tints)


# -- for programs


def as_json(placement: Placement) -> dict[str, Any]:
    kernel = placement.kernel
    found: dict[str, Any] = {"elements": [row_json(row) for row in placement.rows], "summary": str(placement)}
    found["order"] = placement.order
    if kernel is not None:
        name = [one.name for one in kernel.program.instances]
        found["entries"] = [{"element": name[i], "device": kernel.devices[i]} for i, _ in kernel.entries]
        found["injections"] = [
            {"element": name[x.instance], "device": kernel.devices[kernel.entries[x.entry][0]]}
            for x in kernel.injections
        ]
        found["ups"] = [{"element": name[i], "input": port} for i, port in kernel.ups]
        found["wires"] = [{"element": name[i], "device": kernel.devices.get(i)} for i in kernel.wires.values()]
    return found


def row_json(row: Row) -> dict[str, Any]:
    return {
        "name": row.name,
        "class": row.cls,
        "level": row.level,
        "why": row.why,
        "line": str(row.span) if row.span else None,
        "place": str(row.place) if row.place else None,
    }
