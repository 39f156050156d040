"""How long after a packet is pushed to the queue of a sleeping thread that thread has it, in µs.

The packets come a millisecond apart, so the thread at the other end of the queue sleeps in poll each time.
"""

import ctypes
import statistics

from harness import report

from mezzo.elements import Array, Element, Packet, Port, libc, library, mem_u64, u32, u64
from mezzo.runtime import Router

PACKETS = 1000


class _Clocked(Element):
    """Reads the machine's clock in packet code."""

    runtime = True
    clock_at: u64
    spec: u64

    def initialize(self):
        self._memory = ctypes.create_string_buffer(16)
        self.spec = ctypes.addressof(self._memory)
        self.clock_at = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value

    def clock(self) -> u64:
        libc(self.clock_at, 1, self.spec)
        return mem_u64(self.spec) * 1_000_000_000 + mem_u64(self.spec + 8)


@library.register
class Stamped(_Clocked):
    """Writes the time into packets."""

    def process(self, p: Packet) -> Port:
        p.set_u64(0, self.clock())
        return 0


@library.register
class Latency(_Clocked):
    """Keeps how old packets are."""

    seen: u32
    ages: Array[u64, PACKETS]

    def process(self, p: Packet) -> Port:
        if self.seen < PACKETS:
            self.ages[self.seen] = self.clock() - p.u64(0)
            self.seen += 1
        return 0


def main() -> None:
    text = f"""
        StaticThreadSched(s 0, u 1);
        s :: RatedSource(RATE 1000, LIMIT {PACKETS}) -> Stamped -> Queue -> u :: Unqueue -> l :: Latency -> Discard;
    """
    with Router.from_click(text, threads=2) as router:
        router.run(seconds=60)
        ages = sorted(router.elements["l"].cell("ages").dump())
        sleeps = router.engine.engines[1].cells[0]["sleeps"].value
    us = [age / 1000 for age in ages]
    report("wakeup", "µs", [statistics.median(us)], 50, p99=us[PACKETS * 99 // 100], most=us[-1], slept=sleeps)


if __name__ == "__main__":
    main()
