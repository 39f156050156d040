"""What the benchmarks share: pinning, the calibration loop, medians, and the JSON they print.

A benchmark is a file with a `main()` that prints one JSON object: name, unit, value (median), runs, calibration_ns and
`per_calibration`, the value as a multiple of the calibration loop measured beside it.  Figures taken on different or
noisy machines compare by that multiple.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from mezzo.elements import Element, library, u64
from mezzo.runtime import Router

RUNS = 5


@library.register
class Calibrate(Element):
    """A chain of dependent multiplications: STEPS of splitmix64's mixing."""

    ports, processing = "0/0", ""
    value: u64
    steps: u64

    def task(self) -> bool:
        x: u64 = self.value
        for _ in range(1000):
            x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
            x = (x ^ (x >> 27)) * 0x94D049BB133111EB
        self.value = x + 1
        self.steps += 1000
        return True


def pin() -> None:
    """One core, the last we may use."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def calibrate() -> float:
    """ns of CPU for one step of the calibration loop."""
    with Router.from_click("c :: Calibrate;") as router:
        router.run(rounds=100)
        begun, before = time.process_time_ns(), router.elements["c"].steps
        router.run(rounds=3000)
        return (time.process_time_ns() - begun) / (router.elements["c"].steps - before)


def cpu_ns_per_packet(
    text: str,
    packets: int,
    setup: Iterable[tuple[str, str]] = (),
    prepare: Callable[[Router], None] | None = None,
    **options: Any,
) -> float:
    """One run of a configuration that stops by itself after `packets` packets."""
    with Router.from_click(text, **options) as router:
        for path, value in setup:
            router.write(path, value)
        if prepare is not None:
            prepare(router)
        begun = time.process_time_ns()
        ended = router.run()
        spent = time.process_time_ns() - begun
        assert ended == "stopped", ended
        return spent / packets


def report(name: str, unit: str, runs: list[float], goal: float | None = None, **more: Any) -> dict[str, Any]:
    """Prints and returns the result."""
    loop = statistics.median(calibrate() for _ in range(3))
    value = statistics.median(runs)
    result = {
        "name": name,
        "unit": unit,
        "value": round(value, 3),
        "runs": [round(r, 3) for r in runs],
        "goal": goal,
        "calibration_ns": round(loop, 3),
        "per_calibration": round(value / loop, 3) if unit == "ns/packet" else None,
        **more,
    }
    print(json.dumps(result))
    sys.stdout.flush()
    return result


def packet_benchmark(name: str, text: str, packets: int, goal: float, **options: Any) -> None:
    """Median of five runs of one configuration, in ns of CPU per packet."""
    pin()
    cpu_ns_per_packet(text, packets, **options)  # warm: code cache, page faults
    report(name, "ns/packet", [cpu_ns_per_packet(text, packets, **options) for _ in range(RUNS)], goal)


def source(packets: int, name: str = "source", **keywords: str) -> str:
    """A source of 60-byte packets that stops the router at the end."""
    more = "".join(f", {k} {v}" for k, v in keywords.items())
    return f"{name} :: InfiniteSource(LENGTH 60, LIMIT {packets}, BURST 32, STOP true{more})"
