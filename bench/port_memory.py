"""A port of memory in a loop: 512 packets of 60 bytes go round from the ring through the graph to the ring.

What is measured is what every driver pays beside its system calls: slot to packet, packet to slot, and the tasks.
"""

from __future__ import annotations

import time

import harness

from mezzo.runtime import Router

PACKETS, ROUNDS = 512, 400_000
FRAME = bytes.fromhex("0200000000010200000000020800") + bytes(46)


def round_trip(text: str) -> float:
    """ns of CPU for a packet to go round once."""
    with Router.from_click(text) as router:
        router.ports["lo"].give([FRAME] * PACKETS)
        router.run(rounds=1000)
        sent = router.elements["to"]
        before, begun = int(sent.count), time.process_time_ns()
        router.run(rounds=ROUNDS)
        return (time.process_time_ns() - begun) / (int(sent.count) - before)


def main() -> None:
    harness.pin()
    loop = "to :: ToDevice(lo, METHOD MEMORY, LOOPBACK true)"
    for name, more in (("port_memory", ""), ("port_memory_no_stamp", ", TIMESTAMP false")):
        text = f"PollDevice(lo, METHOD MEMORY, BURST 32{more}) -> Queue -> {loop};"
        round_trip(text)
        harness.report(name, "ns/packet", [round_trip(text) for _ in range(harness.RUNS)])


if __name__ == "__main__":
    main()
