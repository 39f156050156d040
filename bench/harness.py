"""What the benchmarks share: pinning, the calibration loops, medians, and the JSON they print.

A benchmark is a file with a `main()` that prints a JSON object for each result: name, unit, value (median), best (the
least; of a rate the most), runs, calibration_ns and `per_calibration`, the value as a multiple of the calibration loop
measured beside it.  Figures taken on different or noisy machines compare by that multiple.

That loop is one chain of dependent multiplications, which a busy neighbour on the same core (the other hyperthread)
hardly slows.  Packet code uses the core's whole width, and is slowed by up to 1.9 times.  `throughput_ns` has an entry
for each run, taken right before it: a second loop, of independent additions and stores.  It rises where the run does.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from mezzo.elements import Array, Element, library, u64
from mezzo.runtime import Router

RUNS = 5
MOST_SHOWN = 12  # of many short runs


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


@library.register
class Throughput(Element):
    """Work that fills the core: eight independent chains of additions, and four stores, a step."""

    ports, processing = "0/0", ""
    filled: Array[u64, 64]
    steps: u64

    def task(self) -> bool:
        a: u64 = self.steps
        b: u64 = a + 1
        c: u64 = a + 2
        d: u64 = a + 3
        e: u64 = a + 4
        f: u64 = a + 5
        g: u64 = a + 6
        h: u64 = a + 7
        for i in range(1000):
            a = (a + i) ^ 0x5555
            b = (b + i) ^ 0x3333
            c = (c + i) ^ 0x0F0F
            d = (d + i) ^ 0x00FF
            e = (e + i) ^ 0x6666
            f = (f + i) ^ 0x2222
            g = (g + i) ^ 0x1234
            h = (h + i) ^ 0x4321
            at = 4 * (i & 15)
            self.filled[at] = a + e
            self.filled[at + 1] = b + f
            self.filled[at + 2] = c + g
            self.filled[at + 3] = d + h
        self.steps += 1000
        return True


def pin() -> None:
    """One core, the last we may use."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def calibrate(loop: str = "Calibrate", rounds: int = 3000) -> float:
    """ns of CPU for one step of a calibration loop."""
    with Router.from_click(f"c :: {loop};") as router:
        router.run(rounds=100)
        begun, before = time.process_time_ns(), router.elements["c"].steps
        router.run(rounds=rounds)
        return (time.process_time_ns() - begun) / (router.elements["c"].steps - before)


def entry_ns(router: Router, calls: int = 50) -> float:
    """ns of CPU for a call of the machine code that does nothing, what Python does to get there and back: the least."""
    router.engine.run(0)
    found = []
    for _ in range(10):
        begun = time.process_time_ns()
        for _ in range(calls):
            router.engine.run(0)
        found.append(time.process_time_ns() - begun)
    return min(found) / calls


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
        "best": round(max(runs) if unit.endswith("/s") else min(runs), 3),
        "runs": [round(r, 3) for r in runs[:: -(-len(runs) // MOST_SHOWN)]],
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
    runs, throughput = [], []
    for _ in range(RUNS):
        throughput.append(round(calibrate("Throughput", 1000), 3))
        runs.append(cpu_ns_per_packet(text, packets, **options))
    report(name, "ns/packet", runs, goal, throughput_ns=throughput)


def source(packets: int, name: str = "source", **keywords: str) -> str:
    """A source of 60-byte packets that stops the router at the end."""
    more = "".join(f", {k} {v}" for k, v in keywords.items())
    return f"{name} :: InfiniteSource(LENGTH 60, LIMIT {packets}, BURST 32, STOP true{more})"
