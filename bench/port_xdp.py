"""AF_XDP over veth pairs, 60-byte frames, ns of CPU per packet: receive, transmit, forward, route, beside a floor.

One core does everything: the kernel puts a ring full of packets on the wire, then the router empties it.  `own` is the
router's part of that.  A goal is the floor measured beside it (`_xdp_floor`: the same system calls in a bare loop)
over 0.95.  Needs root.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import _xdp_floor as floor
import harness

from mezzo.runtime import Router

PHASE, PHASES = 1024, 8  # packets in the rings at a time, and how often in a run
BLOCKS = 150  # runs of each, in turn
SENT = 8192
ROUNDS = 40  # of a task, more than a phase takes
ROOM = f"RING {floor.ROOM}, FILL {floor.FRAMES}, TIMESTAMP false"  # as the floor
Measured = Callable[[], tuple[float, float]]


def received(router: Router, name: str, sender: floor.Sender, tasks: int = 1) -> tuple[float, float]:
    """ns for a packet, kernel and router, and the router's part; `tasks` take turns in it."""
    count, own, entry = router.elements[name], 0.0, harness.entry_ns(router, 10)
    before, begun = int(count.count), time.process_time_ns()
    for _ in range(PHASES):
        sender.send(PHASE)
        middle = time.process_time_ns()
        router.engine.run(ROUNDS * tasks)
        own += time.process_time_ns() - middle - entry
    spent, packets = time.process_time_ns() - begun - PHASES * entry, int(count.count) - before
    assert packets > 0.9 * PHASE * PHASES, f"{PHASE * PHASES - packets} packets were dropped"
    return spent / packets, own / packets


def sent(router: Router, name: str) -> tuple[float, float]:
    count = router.elements[name]
    before, begun = int(count.count), time.process_time_ns()
    while int(count.count) - before < SENT:
        router.engine.run(512)
    each = (time.process_time_ns() - begun) / (int(count.count) - before)
    return each, each


def compare(name: str, ours: Measured, bare: Measured) -> None:
    """Both in turn, in short runs, so that the machine's moods are the same for both.  `of_floor` compares the least of
    each, which a busy machine disturbs least; the goal is by the median of the ratios."""
    pairs = [(ours(), bare()) for _ in range(BLOCKS)][BLOCKS // 10 :]
    (least, floor_least), (own, floor_own) = ([min(x[k][j] for x in pairs) for k in (0, 1)] for j in (0, 1))
    ratio = statistics.median(b[0] / a[0] for a, b in pairs)
    facts = {"floor": floor_least, "of_floor": floor_least / least, "own": own, "floor_own": floor_own, "median": ratio}
    rounded = {key: round(value, 3) for key, value in facts.items()}
    runs = [a[0] for a, _ in pairs]
    harness.report(f"port_xdp {name}", "ns/packet", runs, round(statistics.median(runs) * ratio / 0.95, 1), **rounded)


@contextmanager
def ours(text: str) -> Iterator[Router]:
    with Router.from_click(text) as router:
        router.run(rounds=1)
        yield router


@contextmanager
def bare(element: str, **ends: str) -> Iterator[Router]:
    with floor.floor_sockets(**ends) as state, Router.from_click(f"f :: {element};") as router:
        for key, value in state.items():
            setattr(router.elements["f"], key, value)
        yield router


def transmit() -> None:
    source = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {floor.BATCH})"
    with floor.wires("s") as (_, _, a, _), floor.wires("t") as (_, _, b, _):
        text = f"{source} -> Queue(256) -> t :: ToDevice({a}, METHOD XDP, BURST {floor.BATCH});"
        with ours(text) as one, bare("FloorSend", send=b) as other:
            compare("transmit", lambda: sent(one, "t"), lambda: sent(other, "f"))


def receive() -> None:
    with floor.wires("r") as (a, b, _, _), floor.wires("u") as (c, d, _, _):
        text = f"r :: PollDevice({b}, METHOD XDP, {ROOM}, BURST {floor.BATCH}) -> Discard;"
        here, there = floor.Sender(a), floor.Sender(c)
        with ours(text) as one, bare("FloorReceive", receive=d) as other:
            compare("receive", lambda: received(one, "r", here), lambda: received(other, "f", there))
        here.close()
        there.close()


def forward() -> None:
    with floor.wires("f") as (a, b, c, _), floor.wires("g") as (e, f, g, _):
        source = f"r :: PollDevice({b}, METHOD XDP, {ROOM}, BURST {floor.BATCH})"
        text = f"{source} -> Queue(1000) -> t :: ToDevice({c}, METHOD XDP, BURST {floor.BATCH});"
        here, there = floor.Sender(a), floor.Sender(e)
        with ours(text) as one, bare("FloorForward", receive=f, send=g) as other:
            compare("forward", lambda: received(one, "t", here, tasks=2), lambda: received(other, "f", there))
        here.close()
        there.close()


def route() -> None:
    """A router beside Linux's own, both from the same sender to the same kind of wire; the floor here is Linux.

    On veth it is out of reach: the system call by which AF_XDP copies a packet out costs more than all that Linux does.
    """
    with floor.wires("p") as (a, b, c, _), floor.wires("q") as (e, f, g, _):
        words = f"CheckIPHeader -> RadixIPLookup(10.0.0.0/24 0) -> DecIPTTL -> EtherEncap(0x0800, {c}, {floor.NEXT})"
        source = f"r :: PollDevice({b}, METHOD XDP, {ROOM}, BURST {floor.BATCH}) -> Strip(14)"
        text = f"{source} -> {words} -> Queue(1000) -> t :: ToDevice({c}, METHOD XDP, BURST {floor.BATCH});"
        here, there = floor.Sender(a), floor.Sender(e)
        with ours(text) as one, floor.linux_router(f, g):
            compare("route", lambda: received(one, "t", here, tasks=2), lambda: forwarded(g, there))
        here.close()
        there.close()


def forwarded(device: str, sender: floor.Sender) -> tuple[float, float]:
    """ns for a packet that the kernel sends, receives, routes and sends again, and nothing of it apart."""
    before, begun = floor.sent_by(device), time.process_time_ns()
    for _ in range(PHASES):
        sender.send(PHASE)
    spent, packets = time.process_time_ns() - begun, floor.sent_by(device) - before
    assert packets > 0.9 * PHASE * PHASES, f"{PHASE * PHASES - packets} packets were dropped"
    return spent / packets, spent / packets


def main() -> None:
    harness.pin()
    floor.leave_network()
    for name, measure in (("transmit", transmit), ("receive", receive), ("forward", forward), ("route", route)):
        if not sys.argv[1:] or name in sys.argv[1:]:
            measure()


if __name__ == "__main__":
    main()
