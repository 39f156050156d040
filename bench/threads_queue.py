"""InfiniteSource on one thread → Queue → Unqueue → Discard on another: what the crossing costs, by the wall clock.

Beside it the same graph on one thread: the difference is the price, or the gain, of the second CPU.
"""

from __future__ import annotations

import time

from harness import RUNS, report

from mezzo.runtime import Router

N = 5_000_000


def wall_ns(threads: int) -> float:
    """ns of wall time a packet."""
    source = f"s :: InfiniteSource(LIMIT {N}, LENGTH 60, BURST 32)"
    text = f"StaticThreadSched(s 0, u {threads - 1}); {source} -> Queue(1000) -> u :: Unqueue(32) -> Discard;"
    with Router.from_click(text, threads=threads) as router:
        begun = time.monotonic_ns()
        assert router.run(seconds=120) == "done"
        return (time.monotonic_ns() - begun) / N


def main() -> None:
    for threads in (1, 2):
        wall_ns(threads)  # compiles
        report(f"threads_queue_{threads}", "ns/packet", [wall_ns(threads) for _ in range(RUNS)])


if __name__ == "__main__":
    main()
