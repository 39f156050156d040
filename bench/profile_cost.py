"""What looking costs: the part of its rate that a router loses to the profile, a tap, and the recorder, in percent.

    .venv/bin/python bench/profile_cost.py [SECONDS]

The states follow each other in turns, and each is compared with the rate right before and behind it, for the machine's
speed drifts.  `plain_million_s` is that rate, in millions of packets a second of CPU.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness import report

from mezzo.runtime import Router
from mezzo.runtime.eye import eye_of
from mezzo.runtime.metrics import cpu_ns
from mezzo.runtime.recorder import Recorder
from mezzo.runtime.seeing import profile_of, stop_profile
from mezzo.runtime.taps import Tap

TEXT = """
InfiniteSource(DATA \\<0000000000000000000000000000000000000000>, BURST 32)
  -> UDPIPEncap(10.0.0.1, 53, 10.9.9.9, 1234) -> CheckIPHeader -> IPFilter(allow udp and dst port 1234)
  -> DecIPTTL -> q :: Queue(1000) -> Unqueue(32) -> c :: Counter -> Discard;
"""
TURNS = 7


@contextmanager
def profiled(router: Router) -> Iterator[None]:
    profile_of(router)
    time.sleep(0.5)
    yield
    stop_profile(router)
    time.sleep(0.3)


@contextmanager
def viewed(router: Router, viewer: Any) -> Iterator[None]:
    eye_of(router).add(viewer)
    yield
    eye_of(router).remove(viewer)


def rate(router: Router, seconds: float) -> float:
    """Packets a second of the packet thread's CPU time: other programs take from it as well."""
    begun, count = cpu_ns(router, 0), int(router.read("c.count"))
    time.sleep(seconds)
    return (int(router.read("c.count")) - count) / (cpu_ns(router, 0) - begun) * 1e9


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    states: dict[str, Callable[[Router], Any]] = {
        "profile": profiled,
        "tap": lambda router: viewed(router, Tap(router, "q->", snaplen=64)),
        "recorder": lambda router: viewed(router, Recorder(router, 1024)),
    }
    lost: dict[str, list[float]] = {name: [] for name in states}
    with Router.from_click(TEXT) as router:
        runner = threading.Thread(target=router.run)
        runner.start()
        time.sleep(0.5)
        plain = [rate(router, seconds)]
        for _ in range(TURNS):
            for name, state in states.items():
                with state(router):
                    looked_at = rate(router, seconds)
                plain.append(rate(router, seconds))
                lost[name].append(100 - 100 * looked_at / statistics.mean(plain[-2:]))
        router.please_stop()
        runner.join()
    for name, parts in lost.items():
        goal = 3 if name == "profile" else None
        report(f"profile_cost {name}", "%", parts, goal, plain_million_s=round(statistics.median(plain) / 1e6, 2))


if __name__ == "__main__":
    main()
