"""Frames over a socket pair, 60 bytes, ns of CPU per packet: transmit, receive, forward, and each one's floor.

The other end is emptied, or filled, between measurements.  A goal is the floor (`_socket_floor`: the same system calls
in a bare loop) over 0.95.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable

import _socket_floor as floor
import harness
from _socket_floor import BATCH, Messages, Sender, address_of, compare

from mezzo.runtime import Router

PHASE, PHASES, ROUNDS = 2048, 40, 200
FILL = PHASE // BATCH
Ends = tuple[socket.socket, socket.socket]


def pair() -> Ends:
    """A pair that holds a phase of packets."""
    made = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in made:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        end.setblocking(False)
    return made


def drain(end: socket.socket) -> None:
    try:
        while True:
            end.recv(4096)
    except BlockingIOError:
        return


def phases(
    router: Router, name: str, before: Callable[[], None], after: Callable[[], None], rounds: int = ROUNDS
) -> float:
    """ns of CPU for a packet, between `before` and `after`."""
    element, spent = router.elements[name], 0
    count = int(element.count)
    for _ in range(PHASES):
        before()
        begun = time.process_time_ns()
        router.run(rounds=rounds)
        spent += time.process_time_ns() - begun
        after()
    return spent / (int(element.count) - count)


def nothing() -> None:
    pass


def transmit() -> None:
    source = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {BATCH})"

    def ours() -> float:
        left, right = pair()
        text = f"{source} -> Queue(256) -> t :: ToDevice({right.fileno()}, METHOD FD, BURST {BATCH});"
        with left, right, Router.from_click(text) as router:
            return phases(router, "t", nothing, lambda: drain(left), 2 * FILL)

    def bare() -> float:
        (left, right), messages = pair(), Messages()
        state = {"out": right.fileno(), "messages": messages.address, "out_at": address_of("sendmmsg")}
        with left, right, floor.floor("FloorSendMany", **state) as router:
            return phases(router, "f", nothing, lambda: drain(left), FILL)

    compare("port_fd transmit", ours, floor=bare)


def receive() -> None:
    def ours() -> float:
        left, right = pair()
        sender = Sender(left)
        text = f"r :: PollDevice({right.fileno()}, METHOD FD, BURST {BATCH}) -> Discard;"
        with left, right, Router.from_click(text) as router:
            return phases(router, "r", lambda: sender.send(PHASE), nothing)

    def bare() -> float:
        left, right = pair()
        sender, messages = Sender(left), Messages(own=True)
        state = {"fd": right.fileno(), "messages": messages.address, "in_at": address_of("recvmmsg")}
        with left, right, floor.floor("FloorReceiveMany", **state) as router:
            return phases(router, "f", lambda: sender.send(PHASE), nothing)

    compare("port_fd receive", ours, floor=bare)


def main() -> None:
    harness.pin()
    for name in sys.argv[1:] or ["transmit", "receive"]:
        {"transmit": transmit, "receive": receive}[name]()


if __name__ == "__main__":
    main()
