"""Frames over a socket pair, 60 bytes, ns of CPU per packet: transmit, receive, forward, and each one's floor.

The other end is emptied, or filled, between measurements.  A goal is the floor (`_socket_floor`: the same system calls
in a bare loop) over 0.95.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import _socket_floor as floor
import harness
from _socket_floor import BATCH, PHASE, PHASES, Messages, Runner, Sender, address_of, compare, in_phases

ROUNDS = 40  # of the scheduler, for a phase
FILL = PHASE // BATCH  # rounds that put a phase on the wire
Ends = tuple[socket.socket, socket.socket]


@contextmanager
def pair() -> Iterator[Ends]:
    """A pair that holds a phase of packets."""
    made = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in made:
        end.setsockopt(socket.SOL_SOCKET, 32, 8 << 20)  # SO_SNDBUFFORCE
        end.setblocking(False)
    with made[0], made[1]:
        yield made


def drain(end: socket.socket) -> None:
    try:
        while True:
            end.recv(4096)
    except BlockingIOError:
        return


def filled(subject: Runner, far: socket.socket) -> float:
    """ns of CPU for a packet that goes out; the other end is emptied between."""
    spent, before = 0, subject.count()
    for _ in range(PHASES):
        begun = time.process_time_ns()
        subject.run(FILL)
        spent += time.process_time_ns() - begun - subject.entry_ns
        drain(far)
    return spent / (subject.count() - before)


@contextmanager
def sending(fd: int) -> Iterator[Runner]:
    messages = Messages(own=True)
    with floor.floor("FloorSendMany", out=fd, messages=messages.address, out_at=address_of("sendmmsg")) as subject:
        yield subject


@contextmanager
def receiving(fd: int, out: int = 0) -> Iterator[Runner]:
    """Receives to frames of its own; with `out` each batch is sent on from there."""
    messages, onward = Messages(own=True, length=2048), Messages(own=True)
    onward.point_at(messages)
    calls = {"in_at": address_of("recvmmsg"), "out_at": address_of("sendmmsg")}
    state = {"messages": messages.address, "onward": onward.address, "vectors": onward.vectors} | calls
    with floor.floor("FloorReceiveMany", fd=fd, out=out, **state) as subject:
        yield subject


def transmit() -> None:
    source = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {BATCH})"
    with pair() as (left, right), pair() as (here, there):
        text = f"{source} -> t :: ToDevice({right.fileno()}, METHOD FD, BURST {BATCH});"
        with floor.mezzo(text, "t") as ours, sending(there.fileno()) as bare:
            drain(left)
            compare("port_fd transmit", lambda: filled(ours, left), floor=lambda: filled(bare, here))


def receive() -> None:
    with pair() as (left, right), pair() as (here, there):
        one, other = Sender(left), Sender(here)
        text = f"r :: PollDevice({right.fileno()}, METHOD FD, BURST {BATCH}, TIMESTAMP false) -> Discard;"
        with floor.mezzo(text, "r") as ours, receiving(there.fileno()) as bare:
            compare(
                "port_fd receive",
                lambda: in_phases(ours, one.send, ROUNDS),
                floor=lambda: in_phases(bare, other.send, ROUNDS),
            )


def forward() -> None:
    with pair() as (left, right), pair() as (here, there), pair() as (out, far), pair() as (bare_out, bare_far):
        one, other = Sender(left), Sender(here)
        source = f"r :: PollDevice({right.fileno()}, METHOD FD, BURST {BATCH}, TIMESTAMP false)"
        text = f"{source} -> Queue(1000) -> t :: ToDevice({out.fileno()}, METHOD FD, BURST {BATCH});"

        def emptied(subject: Runner, sender: Sender, end: socket.socket, rounds: int) -> float:
            drain(end)
            return in_phases(subject, sender.send, rounds)

        with floor.mezzo(text, "t") as ours, receiving(there.fileno(), bare_out.fileno()) as bare:
            compare(
                "port_fd forward",
                lambda: emptied(ours, one, far, 3 * ROUNDS),
                floor=lambda: emptied(bare, other, bare_far, ROUNDS),
            )


def main() -> None:
    harness.pin()
    todo = {"transmit": transmit, "receive": receive, "forward": forward}
    for name in sys.argv[1:] or todo:
        todo[name]()


if __name__ == "__main__":
    main()
