"""A switch: 60-byte frames from a source through one port to another, ns for a frame.

one thread     ns of CPU; netmap's VALE on one CPU sends 17 M/s and receives 8.5 M/s
flood          the same to three receivers
two threads    ns of time, beside how long a cache line takes from CPU to CPU; what a full receiver loses counts
               as sent, not as received
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

import harness
from _crossing import both_cpus, crossing_ns

from mezzo.runtime import Router

PACKETS = 3_000_000
NAME = f"bench{os.getpid()}"
HERE, THERE, ALL = "020000000001", "020000000002", "ffffffffffff"


def source(to: str) -> str:
    data = f"\\<{to} {HERE} 0800 {'00' * 46}>"
    return f"InfiniteSource(DATA {data}, BURST 64) -> out :: ToDevice({NAME}:a, METHOD SWITCH, BURST 64);"


def receiver(port: str) -> str:
    return f"in{port} :: FromDevice({NAME}:{port}, METHOD SWITCH, BURST 64) -> Discard;"


LEARN = f"InfiniteSource(DATA \\<{HERE} {THERE} 0800 {'00' * 46}>, LIMIT 1) -> ToDevice({NAME}:b, METHOD SWITCH);"


def passed(router: Router, clock: Callable[[], int]) -> float:
    """ns for a frame that arrived at port b."""
    count = router.elements["inb"].cell("count")
    router.run(seconds=10, until=lambda: count.value > 100_000)
    begun, before = clock(), count.value
    router.run(seconds=10, until=lambda: count.value > before + PACKETS)
    return (clock() - begun) / (count.value - before)


def one_thread(to: str = THERE, ports: str = "b") -> float:
    with Router.from_click(LEARN + source(to) + "".join(map(receiver, ports))) as router:
        return passed(router, time.process_time_ns)


def two_threads() -> float:
    text = "StaticThreadSched(out 0, inb 1);" + LEARN + source(THERE) + receiver("b")
    with Router.from_click(text, threads=2) as router, both_cpus():
        return passed(router, time.monotonic_ns)


def main() -> None:
    one_thread()
    harness.report("port_switch one_thread", "ns/packet", [one_thread() for _ in range(harness.RUNS)], 59.0)
    harness.report("port_switch flood", "ns/packet", [one_thread(ALL, "bcd") for _ in range(harness.RUNS)])
    two_threads()
    runs, crossings = [], []
    for _ in range(harness.RUNS):
        with both_cpus():
            crossings.append(crossing_ns())
        runs.append(two_threads())
    beside = statistics.median(crossings)
    harness.report("port_switch two_threads", "ns/packet", runs, crossing_ns=beside)


if __name__ == "__main__":
    main()
