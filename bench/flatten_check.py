"""Whole runs of `mezzo flatten` and `mezzo check` on generated configurations of 10,000 elements, in wall seconds.

Three shapes: one chain, a thousand rows of ten elements, and a compound used 900 times.  `check` compiles as far as
the link, with units from the disk as a second run has them; `cold_s` is a run with an empty cache.  `xform` replaces
two elements of each row.  `cpu_s` is the least user and system time of the runs.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import RUNS, pin, report

CHAIN = ("Counter", "Null", "Paint(1)", "CheckLength(1500)", "Queue(100) -> Unqueue")
ROW = (
    "InfiniteSource(LIMIT 1) -> a{i} :: Counter -> b{i} :: Paint({p}) -> CheckLength(1500) -> Null"
    " -> q{i} :: Queue({q}) -> Unqueue -> Strip(14) -> Unstrip(14) -> Discard;\n"
)
PORT = (
    "elementclass Port { $n | input -> c :: Classifier(12/0800, 12/0806, -); c [1] -> Discard; c [2] -> Discard;"
    " c -> Strip(14) -> CheckIPHeader -> Paint($n) -> Counter -> q :: Queue(100) -> Unqueue -> output }\n"
)
PATTERNS = (
    "elementclass P { input -> Strip(14) -> Unstrip(14) -> output }"
    "elementclass P_Replacement { input -> Null -> output }"
)


def configurations() -> dict[str, str]:
    chain = " -> ".join(CHAIN[i % 5] for i in range(10_000 * 5 // 6))
    rows = "".join(ROW.format(i=i, p=i % 250, q=i % 50 + 1) for i in range(1000))
    uses = "".join(f"InfiniteSource(LIMIT 1) -> p{i} :: Port({i % 200}) -> Discard;\n" for i in range(909))
    return {"chain": f"InfiniteSource(LIMIT 64) -> {chain} -> Discard;", "rows": rows, "compounds": PORT + uses}


def seconds(words: list[str], cache: str) -> tuple[float, float]:
    """(wall, CPU) seconds of one run of the command."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/mezzo-bench"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", "import sys; from mezzo.tools.main import main; sys.exit(main())", *words]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name: str, words: list[str], goal: float, cache: str) -> None:
    with tempfile.TemporaryDirectory() as empty:
        cold, _ = seconds(words, empty)
    seconds(words, cache)
    runs = [seconds(words, cache) for _ in range(RUNS)]
    wall = [w for w, _ in runs]
    report(name, "s", wall, goal, cold_s=round(cold, 3), cpu_s=round(min(c for _, c in runs), 3))


def main() -> None:
    pin()
    with tempfile.TemporaryDirectory() as folder:
        patterns = Path(folder, "patterns")
        patterns.write_text(PATTERNS)
        for name, text in configurations().items():
            file = Path(folder, f"{name}.click")
            file.write_text(text)
            measure(f"flatten_{name}", ["flatten", str(file)], 2, folder)
            measure(f"check_{name}", ["check", str(file)], 3, folder)
        measure("xform_rows", ["xform", "-p", str(patterns), str(Path(folder, "rows.click"))], 3, folder)


if __name__ == "__main__":
    main()
