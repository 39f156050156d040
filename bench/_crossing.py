"""How long a cache line takes from one CPU to the other just now: what every figure of two CPUs hangs on."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from mezzo.elements import Arg, Element, Int, library, load_acquire_u32, store_release_u32, u32, u64
from mezzo.ports._memory import Memory
from mezzo.runtime import Router

ROUNDS = 200_000


@library.register
class Bounce(Element):
    """Writes a word whenever the other one has written it."""

    ports, processing, runtime = "0/0", "", True
    side = Arg(Int(0, 1), 0)
    line: u64
    turns: u32

    def task(self) -> bool:
        for _ in range(1000):
            if load_acquire_u32(self.line) == self.side:
                store_release_u32(self.line, 1 - self.side)
                self.turns += 1
        return True


def crossing_ns() -> float:
    """ns for a line to change hands, by a word that two threads pass to and fro."""
    memory = Memory(4096)
    text = "StaticThreadSched(a 0, b 1); a :: Bounce(0); b :: Bounce(1);"
    with Router.from_click(text, threads=2) as router:
        for name in "ab":
            router.elements[name].line = memory.address
        turns = router.elements["a"].cell("turns")
        router.run(until=lambda: turns.value > 1000)
        begun, before = time.monotonic_ns(), turns.value
        router.run(until=lambda: turns.value > before + ROUNDS)
        found = (time.monotonic_ns() - begun) / (turns.value - before) / 2
    memory.free()
    return round(found, 1)


@contextlib.contextmanager
def both_cpus() -> Iterator[bool]:
    """Two threads have two CPUs meanwhile, where we may say so (root); a second at most, or others starve."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
