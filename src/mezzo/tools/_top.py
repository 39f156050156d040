"""What `mezzo top` shows of a reading and the one before; only computes."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from mezzo.tools._watch import si

BAR = 20


@dataclass(frozen=True)
class Reading:
    """A `snapshot` of the router, and when it came."""

    data: dict[str, Any]
    at: float

    def rows(self, before: Reading) -> list[dict[str, Any]]:
        """An entry per element: counts with rates, drops, time."""
        olds = {e["name"]: e for e in before.data["elements"]}
        passed = max((self.data["time_ns"] - before.data["time_ns"]) / 1e9, 1e-9)
        time_of = {name: (share, ns) for name, _, share, ns in self.data["profile"]}
        return [self._row(e, olds.get(e["name"], {}), passed, time_of.get(e["name"])) for e in self.data["elements"]]

    def _row(self, e: dict[str, Any], old: dict[str, Any], passed: float, spent: Any) -> dict[str, Any]:
        counts, had = e["counts"], old.get("counts", {})
        packets = counts.get("count")
        dropped = sum(e["drops"].values())
        return {
            "element": e["name"],
            "class": e["class"],
            "packets": packets,
            "packet_rate": max(packets - had.get("count", packets), 0) / passed if packets is not None else None,
            "drops": dropped,
            "drop_rate": max(dropped - sum(old.get("drops", e["drops"]).values()), 0) / passed,
            "reasons": e["drops"],
            "queue": e.get("queue"),
            "share": spent[0] if spent else None,
            "ns": spent[1] if spent else None,
        }

    def threads(self, before: Reading) -> list[dict[str, Any]]:
        """How often each thread went round and slept, a second; `load`: the part of the time that it had a CPU."""
        passed = max((self.data["wall_ns"] - before.data["wall_ns"]) / 1e9, 1e-9)
        found = []
        for now, was in zip(self.data["threads"], before.data["threads"], strict=False):
            rounds, sleeps = now["rounds"] - was["rounds"], now.get("sleeps", 0) - was.get("sleeps", 0)
            load = min(max(now["cpu_ns"] - was["cpu_ns"], 0) / 1e9 / passed, 1.0)
            found.append({**now, "round_rate": rounds / passed, "sleep_rate": sleeps / passed, "load": load})
        return found

    def as_dict(self, before: Reading) -> dict[str, Any]:
        more = {name: self.data[name] for name in ("ports", "pool")}
        return {"elements": self.rows(before), "threads": self.threads(before), **more}


ORDER = {
    "time": lambda row: (-(row["share"] or 0.0), -(row["packet_rate"] or 0.0)),
    "packets": lambda row: (-(row["packet_rate"] or 0.0), row["element"]),
    "drops": lambda row: (-row["drop_rate"], -row["drops"], row["element"]),
    "name": lambda row: (row["element"],),
}


def page(now: Reading, before: Reading, sort: str, width: int, height: int) -> list[str]:
    """The lines of a screen, none wider than it and not more than it has."""
    rows = sorted(now.rows(before), key=ORDER[sort])
    pool = now.data["pool"]
    lines = [f"{len(rows)} elements, {pool['held']:,} of {pool['frames']:,} frames held, by {sort}"]
    lines += [_thread(t) for t in now.threads(before)]
    lines += [_port(p) for p in now.data["ports"]]
    queues = [row for row in rows if row["queue"] and row["queue"][1]]
    lines += [_queue(row) for row in queues[: max(height // 4, 1)]]
    wide = max((len(_label(row)) for row in rows), default=0)
    wide = max(min(wide, width - 26, 48), 8)
    head = f"{'time':>6} {'packets/s':>10} {'ns/p':>7} {'packets':>16} {'drops/s':>9} {'drops':>12}"
    lines += ["", f"{'element':<{wide}} {head}"]
    lines += [f"{cut(_label(row), wide):<{wide}} {_line(row)}".rstrip() for row in rows]
    return [cut(line, width) for line in lines[:height]]


def _thread(t: dict[str, Any]) -> str:
    bar = filled(t["load"])
    return f"thread {t['thread']}  [{bar}] {t['load']:>4.0%}  {si(t['round_rate'])} rounds/s, {t['task_count']} tasks"


def _port(port: dict[str, Any]) -> str:
    facts = ", ".join(f"{k} {v}" for k, v in port.items() if k not in ("name", "state"))
    return f"port {port['name']}  {port['state']}  {facts}"


def _queue(row: dict[str, Any]) -> str:
    held, room = row["queue"]
    return f"queue [{filled(held / room)}] {held:>6} of {room:<6} {row['element']}"


def _line(row: dict[str, Any]) -> str:
    share = f"{row['share']:>6.1%}" if row["share"] is not None else f"{'':>6}"
    ns = f"{row['ns']:>7.0f}" if row["ns"] else f"{'':>7}"
    rate = si(row["packet_rate"]) if row["packet_rate"] is not None else ""
    packets = f"{row['packets']:,}" if row["packets"] is not None else ""
    drops = f"{si(row['drop_rate']) if row['drops'] else '':>9} {format(row['drops'], ',') if row['drops'] else '':>12}"
    why = f"  {', '.join(row['reasons'])}" if row["reasons"] else ""
    return f"{share} {rate:>10} {ns} {packets:>16} {drops}{why}"


def _label(row: dict[str, Any]) -> str:
    name, cls = row["element"], row["class"]
    return name if name.rpartition("/")[2].startswith(f"{cls}@") else f"{name} :: {cls}"


def filled(part: float) -> str:
    full = round(max(0.0, min(part, 1.0)) * BAR)
    return "█" * full + "·" * (BAR - full)


def cut(text: str, width: int) -> str:
    """As much of a line as fits; what would steer the terminal becomes dots."""
    found, used = [], 0
    for c in text:
        if not c.isprintable():
            c = "·"
        used += 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if used > width:
            break
        found.append(c)
    return "".join(found)
