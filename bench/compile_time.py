"""Compile times in wall seconds: the IP router cold and from the cache to its first packet, 1,000 elements.

Each is a fresh interpreter; cold means an empty code cache.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import pin, report

HERE = Path(__file__).parent
FIRST_PACKET = """
import sys; sys.path.insert(0, sys.argv[1])
import ip_router
from mezzo.runtime import Router
with Router.from_click(ip_router.text(64)) as router:
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


def seconds(code: str, argument: str, cache: str) -> float:
    environment = {**os.environ, "XDG_CACHE_HOME": cache}
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code, argument], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def cold(code: str, argument: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return seconds(code, argument, cache)


def main() -> None:
    pin()
    report("router_cold", "s", [cold(FIRST_PACKET, str(HERE)) for _ in range(5)], 1.5)
    with tempfile.TemporaryDirectory() as cache:
        seconds(FIRST_PACKET, str(HERE), cache)
        report("router_cached", "s", [seconds(FIRST_PACKET, str(HERE), cache) for _ in range(5)], 0.3)
    thousand = [cold(THOUSAND, "1000") for _ in range(3)]
    quarter = statistics.median(cold(THOUSAND, "250") for _ in range(3))
    report("thousand_elements", "s", thousand, 10, of_250_elements_s=round(quarter, 2))
    report("help_page", "s", [seconds(HELP, "", "/tmp") for _ in range(5)], 0.4)


if __name__ == "__main__":
    main()
