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
from contextlib import ExitStack, contextmanager

import _socket_floor as floor
import harness
from _socket_floor import BATCH, FRAME, Runner, Sender, address_of, compare, in_phases, packet_socket, silence, steadily
from _xdp_floor import leave_network

from mezzo.ports._memory import Memory
from mezzo.ports._tun import open_queues

ROUNDS = 40  # of the scheduler, for a phase


def up(name: str) -> None:
    """The device swallows what comes out of it, and holds a phase of what goes into it."""
    silence(name)
    subprocess.run(["ip", "link", "set", name, "txqueuelen", "4096", "up"], check=True)


@contextmanager
def bare(how: str, fd: str = "", out: str = "") -> Iterator[Runner]:
    """A floor that reads from and writes to taps of these names."""
    memory = Memory(4096)
    memory.map[10 : 10 + len(FRAME)] = FRAME
    state = {"messages": memory.address, "frame_size": 10 + len(FRAME)}
    state |= {"in_at": address_of("read"), "out_at": address_of("write")}
    with ExitStack() as stack:
        for key, name in (("fd", fd), ("out", out)):
            if name:
                (state[key],), _, _ = open_queues(name, "tap", 1)
                stack.callback(os.close, state[key])
                up(name)
        yield stack.enter_context(floor.floor(how, **state))


@contextmanager
def ours(text: str, name: str, *taps: str) -> Iterator[Runner]:
    with floor.mezzo(text, name) as subject:
        for tap in taps:
            up(tap)
        yield subject


def transmit() -> None:
    text = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {BATCH}) -> t :: ToDevice(ta, METHOD TAP, BURST {BATCH});"
    with ours(text, "t", "ta") as mine, bare("FloorWrite", out="tb") as floors:
        compare("port_tap transmit", lambda: steadily(mine), floor=lambda: steadily(floors))


def receive() -> None:
    text = f"r :: PollDevice(ra, METHOD TAP, BURST {BATCH}, TIMESTAMP false) -> Discard;"
    with ours(text, "r", "ra") as mine, bare("FloorRead", fd="rb") as floors:
        filled("port_tap receive", mine, floors, ("ra", "rb"), 1)


def forward() -> None:
    source = f"r :: PollDevice(fa, METHOD TAP, BURST {BATCH}, TIMESTAMP false)"
    text = f"{source} -> Queue(1000) -> t :: ToDevice(fb, METHOD TAP, BURST {BATCH});"
    with ours(text, "t", "fa", "fb") as mine, bare("FloorReadWrite", fd="fc", out="fd") as floors:
        filled("port_tap forward", mine, floors, ("fa", "fc"), 2)


def filled(name: str, mine: Runner, floors: Runner, taps: tuple[str, str], tasks: int) -> None:
    """The host puts packets into each tap, then they are read."""
    with packet_socket(taps[0]) as one, packet_socket(taps[1]) as other:
        here, there = Sender(one), Sender(other)
        compare(
            name,
            lambda: in_phases(mine, here.send, tasks * ROUNDS),
            floor=lambda: in_phases(floors, there.send, ROUNDS),
        )


def main() -> None:
    harness.pin()
    leave_network()
    for name in sys.argv[1:] or ["transmit", "receive", "forward"]:
        {"transmit": transmit, "receive": receive, "forward": forward}[name]()


if __name__ == "__main__":
    main()
