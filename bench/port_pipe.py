"""A pipe: 60-byte packets from a source through both ends to a Discard.

one thread     ns of CPU for a packet; netmap's pipe does 14.8 M/s on one CPU, sender and receiver
two threads    ns of time for a packet, beside how long a cache line takes from CPU to CPU
processes      the same between two processes
wake           from a process that sends to one that sleeps, µs of time
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import harness
from _crossing import both_cpus, crossing_ns

from mezzo.elements import Array, Element, Packet, Port, libc, library, mem_u64, u32, u64
from mezzo.ports._libc import address_of
from mezzo.ports._memory import Memory
from mezzo.runtime import Router

PACKETS = 3_000_000
NAME = f"bench{os.getpid()}"
SOURCE = "InfiniteSource(LENGTH 60, BURST 64)"
OUT, IN = f"ToDevice({NAME}{{, METHOD PIPE, BURST 64)", f"FromDevice({NAME}}}, METHOD PIPE, BURST 64)"


def passed(router: Router, clock=time.monotonic_ns) -> float:
    """ns for a packet."""
    count = router.elements["in"].cell("count")
    router.run(seconds=10, until=lambda: count.value > 100_000)
    begun, before = clock(), count.value
    router.run(seconds=10, until=lambda: count.value > before + PACKETS)
    return (clock() - begun) / (count.value - before)


def one_thread() -> float:
    with Router.from_click(f"{SOURCE} -> {OUT}; in :: {IN} -> Discard;") as router:
        return passed(router, time.process_time_ns)


def two_threads() -> float:
    text = f"StaticThreadSched(out 0, in 1); {SOURCE} -> out :: {OUT}; in :: {IN} -> Discard;"
    with Router.from_click(text, threads=2) as router, both_cpus():
        return passed(router)


def two_processes() -> float:
    with Other(f"{SOURCE} -> {OUT};"), Router.from_click(f"in :: {IN} -> Discard;") as router, both_cpus():
        return passed(router)


class _Clock(Element):
    """The time as it is: `walltime()` is as old as the scheduler's last look."""

    runtime = True
    clock_at: u64
    room: u64

    def initialize(self) -> None:
        self.memory = Memory(4096)
        self.room, self.clock_at = self.memory.address, address_of("clock_gettime")

    def time(self) -> u64:
        libc(self.clock_at, 1, self.room)
        return mem_u64(self.room) * 1_000_000_000 + mem_u64(self.room + 8)


@library.register
class Stamp(_Clock):
    """Writes the time into packets."""

    def process(self, p: Packet) -> Port:
        p.set_u64(16, self.time())
        return 0


@library.register
class Late(_Clock):
    """Gathers how old stamps are, ns."""

    ages: Array[u64, 256]
    count: u32

    def process(self, p: Packet) -> Port:
        self.ages[self.count % 256] = self.time() - p.u64(16)
        self.count += 1
        return 0


def wake() -> float:
    """Median of µs from a sender that wakes by its timer to a receiver that sleeps."""
    sender = f"RatedSource(LENGTH 60, RATE 2000) -> Stamp -> Queue -> ToDevice({NAME}{{, METHOD PIPE);"
    with Other(sender), Router.from_click(f"in :: {IN} -> late :: Late -> Discard;") as router, both_cpus():
        late = router.elements["late"]
        router.run(seconds=0.4)
        return statistics.median(late.ages.dump()) / 1000


def idle() -> float:
    """Share of a CPU that a router takes which waits at an empty pipe, %."""
    with Router.from_click(f"in :: {IN} -> Discard; Idle -> {OUT};") as router:
        begun = time.process_time_ns()
        router.run(seconds=1)
        return (time.process_time_ns() - begun) / 1e7


class Other:
    """A router in another process."""

    def __init__(self, text: str) -> None:
        script = (
            "import sys, threading; import port_pipe; from port_pipe import Router, both_cpus\n"
            "with Router.from_click(sys.argv[1]) as router, both_cpus():\n"
            "    print(flush=True); threading.Thread(target=lambda: (sys.stdin.read(), router.please_stop())).start()\n"
            "    router.run()\n"
        )
        pipe, here = subprocess.PIPE, os.path.dirname(os.path.abspath(__file__))
        self.process = subprocess.Popen([sys.executable, "-c", script, text], stdin=pipe, stdout=pipe, cwd=here)
        self.process.stdout.readline()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    one_thread()
    harness.report("port_pipe one_thread", "ns/packet", [one_thread() for _ in range(harness.RUNS)], 50.0)
    for name, job in (("two_threads", two_threads), ("two_processes", two_processes)):
        job()
        runs, crossings = [], []
        for _ in range(harness.RUNS):
            with both_cpus():
                crossings.append(crossing_ns())
            runs.append(job())
        rate = round(1000 / statistics.median(runs), 1)
        beside = statistics.median(crossings)
        harness.report(f"port_pipe {name}", "ns/packet", runs, 25.0, million_packets_s=rate, crossing_ns=beside)
    harness.report("port_pipe idle", "% of a CPU", [idle() for _ in range(2)], 1.0)
    harness.report("port_pipe wake", "us", [wake() for _ in range(harness.RUNS)], 50.0)


if __name__ == "__main__":
    main()
