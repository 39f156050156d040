"""Hot reload of the standard IP router under load: how long no packet code runs, and how long all of it takes.

The router has live ports: pipes, by which the router itself sends it traffic.  What changes is the length of two
queues; all else stays.  The same is done with more elements beside it, for what stays should cost nothing.  `gap` is
what packet code saw: the longest time between two runs of a task that always runs, from when the configuration was
given on.  In it are the waits for Python while the new configuration is compiled, and for the CPU, which on a busy
machine are the most.
"""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import Any

from harness import report

from mezzo.elements import Element, library, u64
from mezzo.runtime import Router

EXAMPLES = Path(__file__).parent.parent / "examples"
RELOADS = 40
DEVICES = {
    "DEV0": "bench{0", "MAC0": "02:00:00:00:00:01", "IP0": "18.26.4.24/24",
    "DEV1": "bench{1", "MAC1": "02:00:00:00:00:02", "IP1": "18.26.7.1/24", "METHOD": "PIPE",
}  # fmt: skip
LOAD = """
load :: RatedSource(LENGTH 60, RATE 100000) -> UDPIPEncap(18.26.4.2, 1, 18.26.7.2, 2)
  -> EtherEncap(0x0800, 02:00:00:00:00:09, 02:00:00:00:00:01) -> Queue -> ToDevice(bench}0, METHOD PIPE);
FromDevice(bench}1, METHOD PIPE) -> Discard; FromDevice(bench}0, METHOD PIPE) -> Discard;
gap :: Gap;
"""
BESIDE = """
Idle -> a%d :: Counter -> b%d :: Paint(7) -> c%d :: CheckIPHeader -> d%d :: DecIPTTL -> e%d :: Queue(50)
  -> f%d :: Unqueue -> g%d :: Counter -> h%d :: Discard;
"""


@library.register
class Gap(Element):
    """The longest time between two runs of its task, ns."""

    ports, processing, reads = "0/0", "", ("most",)
    last: u64
    most: u64

    def task(self) -> bool:
        now: u64 = self.read_clock()
        if self.last != 0:
            self.most = max(self.most, now - self.last)
        self.last = now
        return True


def measure(text: str, reloads: int) -> tuple[list[float], list[float], list[float], int]:
    """(blackouts, times of whole reloads, gaps: ms; how many elements there are)."""
    texts = text, text.replace("Queue(1000)", "Queue(900)")
    assert texts[0] != texts[1]
    blackouts, whole, gaps = [], [], []
    with Router.from_click(text, str(EXAMPLES / "reloaded.click"), DEVICES) as router:
        runner = threading.Thread(target=router.run)
        runner.start()
        try:
            for n in range(reloads):
                router.at_rest(lambda: router.elements["gap"].cell("most").load(0))
                begun = time.perf_counter()
                done = router.reload(texts[(n + 1) % 2])
                whole.append((time.perf_counter() - begun) * 1e3)
                blackouts.append(done.blackout_ns / 1e6)
                gaps.append(int(router.read("gap.most")) / 1e6)
        finally:
            router.please_stop()
            runner.join()
        return blackouts, whole, gaps, len(router.elements)


def main() -> None:
    text = (EXAMPLES / "ip-router-live.click").read_text() + LOAD
    for name, chains, reloads in (("reload", 0, RELOADS), ("reload_200", 15, RELOADS), ("reload_1000", 104, 20)):
        blackouts, whole, gaps, count = measure(text + "".join(BESIDE % ((n,) * 8) for n in range(chains)), reloads)
        more: dict[str, Any] = {"elements": count, "most": round(max(blackouts), 3)}
        report(f"{name}_blackout", "ms", blackouts, 1.0, **more, gap=round(statistics.median(gaps), 3))
        report(f"{name}_whole", "ms", whole)


if __name__ == "__main__":
    main()
