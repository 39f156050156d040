"""AF_XDP over veth pairs, 60-byte frames, ns of CPU per packet: receive, transmit, forward, and each one's floor.

One core does everything: the kernel puts a ring full of packets on the wire, then the router empties it.  `own` is the
router's part of that.  A goal is the floor measured beside it (`_xdp_floor`: the same system calls in a bare loop)
over 0.95.  Needs root.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import _xdp_floor as floor
import harness

from mezzo.runtime import Router

PHASE, PHASES = 1024, 300  # packets in the rings at a time, and how often
SENT = 200_000
ROUNDS = 40  # of a task, more than a phase takes
ROOM = f"RING {floor.ROOM}, FILL {floor.FRAMES}"


def received(router: Router, name: str, sender: floor.Sender, tasks: int = 1) -> tuple[float, float]:
    """ns for a packet, kernel and router, and the router's part; `tasks` take turns in it."""
    count, own = router.elements[name], 0
    before, begun = int(count.count), time.process_time_ns()
    for _ in range(PHASES):
        sender.send(PHASE)
        middle = time.process_time_ns()
        router.engine.run(ROUNDS * tasks)  # without what Python does around it
        own += time.process_time_ns() - middle
    packets = int(count.count) - before
    assert packets > 0.9 * PHASE * PHASES, f"{PHASE * PHASES - packets} packets were dropped"
    return (time.process_time_ns() - begun) / packets, own / packets


def sent(router: Router, name: str) -> tuple[float, float]:
    count = router.elements[name]
    before, begun = int(count.count), time.process_time_ns()
    while int(count.count) - before < SENT:
        router.run(rounds=4096)
    each = (time.process_time_ns() - begun) / (int(count.count) - before)
    return each, each


def floor_router(name: str, state: dict[str, int]) -> Router:
    router = Router.from_click(f"f :: {name};")
    for key, value in state.items():
        setattr(router.elements["f"], key, value)
    return router


Measured = Callable[[], tuple[float, float]]


def compare(name: str, ours: Measured, bare: Measured) -> None:
    """Both measured in turn, so that the machine's mood is the same for both."""
    pairs = [(ours(), bare()) for _ in range(harness.RUNS + 1)][1:]
    ratio = statistics.median(b[0] / a[0] for a, b in pairs)
    least = statistics.median(b[0] for _, b in pairs)
    own = [round(statistics.median(x[k][1] for x in pairs), 1) for k in (0, 1)]
    facts = {"floor": round(least, 1), "of_floor": round(ratio, 3), "own": own[0], "floor_own": own[1]}
    harness.report(f"port_xdp {name}", "ns/packet", [a[0] for a, _ in pairs], round(least / 0.95, 1), **facts)


def transmit(a: str) -> None:
    source = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {floor.BATCH})"
    text = f"{source} -> Queue(256) -> t :: ToDevice({a}, METHOD XDP, BURST {floor.BATCH});"

    def ours() -> tuple[float, float]:
        with Router.from_click(text) as router:
            return sent(router, "t")

    def bare() -> tuple[float, float]:
        with floor.floor_sockets(send=a) as state, floor_router("FloorSend", state) as router:
            return sent(router, "f")

    compare("transmit", ours, bare)


def receive(a: str, b: str) -> None:
    text = f"r :: PollDevice({b}, METHOD XDP, {ROOM}, BURST {floor.BATCH}) -> Discard;"
    sender = floor.Sender(a)

    def ours() -> tuple[float, float]:
        with Router.from_click(text) as router:
            return received(router, "r", sender)

    def bare() -> tuple[float, float]:
        with floor.floor_sockets(receive=b) as state, floor_router("FloorReceive", state) as router:
            return received(router, "f", sender)

    compare("receive", ours, bare)
    sender.close()


def forward(a: str, b: str, c: str) -> None:
    source = f"r :: PollDevice({b}, METHOD XDP, {ROOM}, BURST {floor.BATCH})"
    text = f"{source} -> Queue(1000) -> t :: ToDevice({c}, METHOD XDP, BURST {floor.BATCH});"
    sender = floor.Sender(a)

    def ours() -> tuple[float, float]:
        with Router.from_click(text) as router:
            return received(router, "t", sender, tasks=2)

    def bare() -> tuple[float, float]:
        with floor.floor_sockets(receive=b, send=c) as state, floor_router("FloorForward", state) as router:
            return received(router, "f", sender)

    compare("forward", ours, bare)
    sender.close()


def main() -> None:
    harness.pin()
    with floor.wires() as (a, b, c, _):
        only = sys.argv[1:] or ["transmit", "receive", "forward"]
        if "transmit" in only:
            transmit(c)
        if "receive" in only:
            receive(a, b)
        if "forward" in only:
            forward(a, b, c)


if __name__ == "__main__":
    main()
