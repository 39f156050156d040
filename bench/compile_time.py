"""Compile times in wall seconds: the IP router cold and from the cache to its first packet, 1,000 elements.

Each is a fresh interpreter, with Python's own byte code in place as an installed package has it; cold means that
mezzo's cache (units, machine code) is empty.  `cpu_s` is the least user and system time of the runs.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import ip_router
from harness import pin, report

FIRST_PACKET = """
import sys
from mezzo.runtime import Router
with Router.from_click(sys.argv[1]) as router:
    router.run()
"""
THOUSAND = """
import sys
from mezzo.runtime import Router
n = int(sys.argv[1])
kinds = ["Counter", "Null", "Paint(1)", "CheckLength(1500)", "Queue(100) -> Unqueue"]
chain = " -> ".join(kinds[i % 5] for i in range(n * 5 // 6))
with Router.from_click(f"InfiniteSource(LIMIT 64, STOP true) -> {chain} -> Discard;") as router:
    router.run()
"""
HELP = "from mezzo.tools.main import main; import sys; sys.argv = ['mezzo', 'help', 'DecIPTTL']; main()"


def seconds(code: str, argument: str, cache: str) -> tuple[float, float]:
    """(wall, CPU) seconds of one run."""
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/mezzo-bench"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code, argument], env=environment, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cold(code: str, argument: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as cache:
        return seconds(code, argument, cache)


def report_runs(name: str, runs: list[tuple[float, float]], goal: float, **more: float) -> None:
    report(name, "s", [wall for wall, _ in runs], goal, cpu_s=round(min(cpu for _, cpu in runs), 3), **more)


def main() -> None:
    pin()
    router = ip_router.text(64)
    cold(FIRST_PACKET, router)  # writes the byte code
    report_runs("router_cold", [cold(FIRST_PACKET, router) for _ in range(5)], 1.5)
    with tempfile.TemporaryDirectory() as cache:
        seconds(FIRST_PACKET, router, cache)
        report_runs("router_cached", [seconds(FIRST_PACKET, router, cache) for _ in range(5)], 0.3)
    thousand = [cold(THOUSAND, "1000") for _ in range(3)]
    quarter = statistics.median(cold(THOUSAND, "250")[0] for _ in range(3))
    report_runs("thousand_elements", thousand, 10, of_250_elements_s=round(quarter, 2))
    report_runs("help_page", [seconds(HELP, "", tempfile.gettempdir()) for _ in range(5)], 0.4)


if __name__ == "__main__":
    main()
