"""What a run came to: how it ended, what it cost, what went where, as plain values, as a table, as a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from mezzo.graph import Connection, Graph, Resolved, draw_html
from mezzo.runtime import Router
from mezzo.tools._terminal import table

# What ended a run, in words; the keys are those of Router.run.
ENDINGS = {
    "stopped": "stopped by the configuration",
    "done": "nothing left to do",
    "time": "the time was up",
    "interrupted": "interrupted",
    "rounds": "the rounds were over",
    "until": "the condition held",
}


@dataclass
class Result:
    """`edges` is empty where connections were not counted; seconds: of the CPU, of the wall, of the router's clock."""

    ended: str
    target: str
    compile_s: float
    cpu_s: float
    wall_s: float
    clock_s: float
    graph: Graph
    resolved: Resolved | None
    drops: dict[tuple[str, str], int]
    waiting: dict[str, int]
    edges: dict[Connection, int] = field(default_factory=dict)
    virtual: bool = False
    traced: bool = False

    @classmethod
    def of(
        cls, router: Router, ended: str, target: str, compile_s: float, cpu_s: float, wall_s: float, clock_s: float
    ) -> Result:
        resolved = router.plan.resolved if not router.plan.edges else shown_ports(router)
        return cls(
            ended,
            target,
            compile_s,
            cpu_s,
            wall_s,
            clock_s,
            router.graph,
            resolved,
            router.drops(),
            router.holders(),
            router.edge_counts(),
            router.virtual,
        )

    @property
    def packets(self) -> int:
        """Packets that sources gave out: what went over the connections of elements without inputs."""
        return sum(n for c, n in self.edges.items() if not self.graph.inputs_of(c.src))

    @property
    def ns_per_packet(self) -> float | None:
        return 1e9 * self.cpu_s / self.packets if self.packets else None

    def rows(self) -> list[tuple[str, str, int, int, int, str]]:
        """(element, class, in, out, drops, reasons) of each element, in the order of the configuration."""
        into, out_of = dict.fromkeys(self.graph.instances, 0), dict.fromkeys(self.graph.instances, 0)
        for c, n in self.edges.items():
            out_of[c.src] += n
            into[c.dst] += n
        rows = []
        for name, instance in self.graph.instances.items():
            died = {why: n for (who, why), n in self.drops.items() if who == name}
            reasons = ", ".join(f"{why} {n:,}" for why, n in sorted(died.items()))
            rows.append((name, instance.cls, into[name], out_of[name], sum(died.values()), reasons))
        return rows


def shown_ports(router: Router) -> Resolved:
    """Port kinds of the graph as it was written, where hidden counters stand between its elements."""
    full, kept = router.plan.resolved, router.graph.instances
    return Resolved(
        router.graph,
        {n: full.ninputs[n] for n in kept},
        {n: full.noutputs[n] for n in kept},
        {n: full.input_kinds[n] for n in kept},
        {n: full.output_kinds[n] for n in kept},
    )


def headline(r: Result) -> str:
    """One line: why it ended, how long it took."""
    parts = [f"{ENDINGS[r.ended]} after {seconds(r.wall_s)}"]
    if r.virtual:
        parts[0] += f" ({seconds(r.clock_s)} of the virtual clock)"
    if r.packets:
        work = "counting and tracing" if r.traced else "counting"
        parts.append(f"{r.packets:,} packets in, {r.ns_per_packet:.1f} ns of CPU a packet (with {work})")
    parts.append(f"{sum(r.drops.values()):,} dropped" if r.drops else "no drops")
    if r.waiting:
        parts.append(f"{sum(r.waiting.values()):,} still in the router")
    return "; ".join(parts)


def seconds(value: float) -> str:
    if value == 0:
        return "0 s"
    return f"{value:.4g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def drop_table(r: Result) -> str:
    rows = [(who, why, n) for (who, why), n in sorted(r.drops.items(), key=lambda item: -item[1])]
    return table(("element", "reason", "packets"), rows)


def stats_table(r: Result) -> str:
    return table(("element", "class", "in", "out", "dropped", "reasons"), r.rows())


def as_json(r: Result) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ended": r.ended,
        "target": r.target,
        "seconds": {
            "compile": round(r.compile_s, 6),
            "cpu": round(r.cpu_s, 6),
            "wall": round(r.wall_s, 6),
            "clock": round(r.clock_s, 9),
        },
        "drops": [{"element": who, "reason": why, "packets": n} for (who, why), n in sorted(r.drops.items())],
        "waiting": r.waiting,
    }
    if r.edges:
        found["packets"] = r.packets
        found["ns_per_packet"] = None if r.ns_per_packet is None else round(r.ns_per_packet, 3)
        found["elements"] = [
            dict(zip(("element", "class", "in", "out", "dropped"), row[:5], strict=True)) for row in r.rows()
        ]
        found["connections"] = [
            {"from": c.src, "output": c.src_port, "to": c.dst, "input": c.dst_port, "packets": n}
            for c, n in r.edges.items()
        ]
    return found


def report(r: Result, title: str) -> str:
    """The page: the picture with counters on its connections, then drops and elements as tables."""
    dropped: dict[str, int] = {}
    for (who, _), n in r.drops.items():
        dropped[who] = dropped.get(who, 0) + n
    labels = {name: f"{n:,} dropped" for name, n in dropped.items()}
    labels |= {name: f"{n:,} waiting" for name, n in r.waiting.items() if name not in labels}
    edges = {c: f"{n:,}" for c, n in r.edges.items()}
    drops = [(who, why, f"{n:,}") for (who, why), n in sorted(r.drops.items(), key=lambda item: -item[1])]
    elements = [(a, b, f"{c:,}", f"{d:,}", f"{e:,}") for a, b, c, d, e, _ in r.rows()]
    below = "\n".join(
        [
            f"<h2>{escape(headline(r))}</h2>",
            f"<p>Target {escape(r.target)}; made in {seconds(r.compile_s)}; {seconds(r.cpu_s)} of CPU.</p>",
            "<h3>Drops</h3>" + (html_table(("element", "reason", "packets"), drops) if drops else "<p>none</p>"),
            "<h3>Elements</h3>" + html_table(("element", "class", "in", "out", "dropped"), elements),
            "<style>table { border-collapse: collapse; } td, th { padding: 2px 14px 2px 0; text-align: left; } "
            "td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } h2 { font-size: 15px; }</style>",
        ]
    )
    return draw_html(r.resolved or r.graph, labels, edges, title=title, below=below)


def html_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    right = [bool(rows) and all(row[i].replace(",", "").isdigit() for row in rows) for i in range(len(head))]

    def line(cells: tuple[str, ...], tag: str) -> str:
        return (
            "<tr>"
            + "".join(f"<{tag}{' class=n' if n else ''}>{escape(c)}</{tag}>" for c, n in zip(cells, right, strict=True))
            + "</tr>"
        )

    return "<table>" + line(head, "th") + "\n".join(line(row, "td") for row in rows) + "</table>"
