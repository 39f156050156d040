"""runs the benchmarks of the source tree's bench folder and prints a table, or JSON

Each is a file there that prints lines of JSON.  `times the loop` is the figure as a multiple of a calibration loop
measured beside it: it compares across machines and noise where nanoseconds do not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._terminal import Progress, table

SHARED = {"harness"}
SHOWN = {"name", "unit", "value"}  # what every result has
GROUPS = {"ports": "port_"}  # a name for all files that begin so


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these; `ports` is all of ports")
    parser.add_argument("--folder", metavar="PATH", help="where the benchmarks are")
    parser.add_argument("--json", action="store_true", help="a list of their results")
    parser.add_argument("--list", action="store_true", help="their names")


def main(args: argparse.Namespace) -> int:
    files = find(args.folder, args.names)
    if args.list:
        print("\n".join(path.stem for path in files))
        return 0
    progress, results, failed = Progress(), list[dict[str, Any]](), list[str]()
    for path in files:
        progress.show(f"{path.stem} …")
        found, trouble = measure(path)
        results += found
        failed += [f"{path.stem}: {trouble}"] if trouble else []
    progress.clear()
    print(json.dumps(results, indent=2) if args.json else shown(results))
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed else 0


def find(folder: str | None, names: list[str]) -> list[Path]:
    """The benchmarks asked for, by name."""
    here = (
        Path(folder)
        if folder
        else next((p for p in (Path("bench"), Path(__file__).parents[3] / "bench") if p.is_dir()), None)
    )
    if here is None or not here.is_dir():
        raise MezzoError(
            Diagnostic(
                "there are no benchmarks here", hint="run it in mezzo's source tree, or name the folder with --folder"
            )
        )
    files = {p.stem: p for p in sorted(here.glob("*.py")) if p.stem not in SHARED and not p.stem.startswith("_")}
    names = [x for n in names for x in ([f for f in files if f.startswith(GROUPS[n])] if n in GROUPS else [n])]
    unknown = [n for n in names if n not in files]
    if unknown:
        raise MezzoError(
            Diagnostic(f"there is no benchmark {', '.join(unknown)}", hint=f"there are {', '.join(files)}")
        )
    return [files[n] for n in names or files]


def measure(path: Path) -> tuple[list[dict[str, Any]], str]:
    """(results, what went wrong) of one benchmark, in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, str(path.resolve())], capture_output=True, text=True, cwd=path.parent, check=False
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    results = [one for one in found if one.keys() >= SHOWN]
    if done.returncode:
        return results, (done.stderr.strip().splitlines() or ["no message"])[-1]
    if len(results) < len(found):
        return results, f"it printed a result without one of {', '.join(sorted(SHOWN))}"
    return results, "" if results else "it printed no result"


def shown(results: list[dict[str, Any]]) -> str:
    rows = []
    for r in results:
        goal, value = r.get("goal"), float(r["value"])
        verdict = "" if goal is None else judged(value, goal, r["unit"])
        rows.append(
            (r["name"], value, r["unit"], "" if goal is None else f"{goal:g}", verdict, r.get("per_calibration") or "")
        )
    return table(("benchmark", "median", "unit", "goal", "", "times the loop"), rows)


def judged(value: float, goal: float, unit: str) -> str:
    """Of a time or a size the goal is the most there may be, of a rate the least."""
    reached = value >= goal if unit.endswith("/s") else value <= goal
    return "reached" if reached else f"{value / goal:.2f} times the goal"
