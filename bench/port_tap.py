"""A tap device, 60-byte frames, ns of CPU per packet: transmit (to the host), receive, forward, and each one's floor.

A frame is a system call here, so nearly all of it is the kernel's.  What is received is put into the device between
measurements by a packet socket.  A goal is the floor (`_socket_floor`: the same system calls in a bare loop) over 0.95.
Needs root.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import _socket_floor as floor
import harness
from _socket_floor import BATCH, FRAME, Sender, address_of, compare, in_phases, packet_socket, silence, steadily

from mezzo.ports._memory import Memory
from mezzo.ports._tun import open_queues
from mezzo.runtime import Router

ROUNDS = 40  # of the scheduler, for a phase
ONE, TWO = (f"mztap{os.getpid() % 10000}{k}" for k in "ab")


def up(name: str) -> None:
    """The device swallows what comes out of it, and holds a phase of what goes into it."""
    silence(name)
    subprocess.run(["ip", "link", "set", name, "txqueuelen", "4096", "up"], check=True)


@contextmanager
def bare_tap(name: str) -> Iterator[int]:
    (descriptor,), _, _ = open_queues(name, "tap", 1)
    up(name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def transmit() -> None:
    source = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {BATCH})"

    def ours() -> float:
        with Router.from_click(f"{source} -> t :: ToDevice({ONE}, METHOD TAP, BURST {BATCH});") as router:
            up(ONE)
            return steadily(router, "t")

    def bare() -> float:
        memory = Memory(4096)
        memory.map[10 : 10 + len(FRAME)] = FRAME
        state = {"messages": memory.address, "frame_size": 10 + len(FRAME), "out_at": address_of("write")}
        with bare_tap(ONE) as out, floor.floor("FloorWrite", out=out, **state) as router:
            return steadily(router, "f")

    compare("port_tap transmit", ours, floor=bare)


def receive() -> None:
    def ours() -> float:
        with Router.from_click(f"r :: PollDevice({ONE}, METHOD TAP, BURST {BATCH}) -> Discard;") as router:
            up(ONE)
            with packet_socket(ONE) as host:
                return in_phases(router, "r", Sender(host).send, ROUNDS, whole=False)

    def bare() -> float:
        memory = Memory(4096)
        state = {"messages": memory.address, "in_at": address_of("read")}
        with bare_tap(ONE) as fd, packet_socket(ONE) as host, floor.floor("FloorRead", fd=fd, **state) as router:
            return in_phases(router, "f", Sender(host).send, ROUNDS, whole=False)

    compare("port_tap receive", ours, floor=bare)


def forward() -> None:
    source = f"r :: PollDevice({ONE}, METHOD TAP, BURST {BATCH})"

    def ours() -> float:
        text = f"{source} -> Queue(1000) -> t :: ToDevice({TWO}, METHOD TAP, BURST {BATCH});"
        with Router.from_click(text) as router:
            up(ONE)
            up(TWO)
            with packet_socket(ONE) as host:
                return in_phases(router, "t", Sender(host).send, 2 * ROUNDS, whole=False)

    def bare() -> float:
        memory = Memory(4096)
        state = {"messages": memory.address, "in_at": address_of("read"), "out_at": address_of("write")}
        with (
            bare_tap(ONE) as fd,
            bare_tap(TWO) as out,
            packet_socket(ONE) as host,
            floor.floor("FloorReadWrite", fd=fd, out=out, **state) as router,
        ):
            return in_phases(router, "f", Sender(host).send, ROUNDS, whole=False)

    compare("port_tap forward", ours, floor=bare)


def main() -> None:
    harness.pin()
    for name in sys.argv[1:] or ["transmit", "receive", "forward"]:
        {"transmit": transmit, "receive": receive, "forward": forward}[name]()


if __name__ == "__main__":
    main()
