"""AF_PACKET over veth pairs, 60-byte frames, ns of CPU per packet: transmit, receive, forward, and each one's floor.

What is received is counted with what its sender costs, because on this wire the sender's system call does the work of
both; "receive, router alone" is the rest.  A goal is the floor (`_socket_floor`: the same system calls in a bare loop)
over 0.95.  Needs root.
"""

from __future__ import annotations

import sys
from contextlib import closing

import _socket_floor as floor
import harness
from _socket_floor import BATCH, Messages, Sender, address_of, compare, in_phases, packet_socket, steadily

from mezzo.ports import _packet_socket as ps
from mezzo.ports.packet import BEFORE, BYTES, FRAMES
from mezzo.runtime import Router

ROUNDS = 200


BLOCK_MS = 1


def ring(device: str, version: int = 2) -> tuple[ps.Rings, dict[str, int]]:
    shape = ps.frames_for(1500, BEFORE, FRAMES) if version == 2 else ps.blocks_for(BYTES, BLOCK_MS)
    made = ps.Rings(packet_socket(device).detach(), device, ps.LAYOUTS[version], receive=shape)
    made.start(ps.ALL)
    size, frames = (shape.size, shape.frames) if version == 2 else (shape.block, shape.blocks)
    return made, {"ring": made.address, "frame_size": size, "frames": frames}


def transmit(c: str) -> None:
    source = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {BATCH})"
    text = f"{source} -> Queue(256) -> t :: ToDevice({c}, METHOD PACKET, BURST {BATCH});"

    def ours() -> float:
        with Router.from_click(text) as router:
            return steadily(router, "t")

    def bare() -> float:
        messages = Messages()
        with (
            packet_socket(c) as out,
            floor.floor(
                "FloorSendMany", out=out.fileno(), messages=messages.address, out_at=address_of("sendmmsg")
            ) as router,
        ):
            return steadily(router, "f")

    compare("port_packet transmit", ours, bare)


def receive(a: str, b: str, whole: bool) -> None:
    text = f"r :: PollDevice({b}, METHOD PACKET, BURST {BATCH}) -> Discard;"
    sender = Sender(packet_socket(a))

    def ours() -> float:
        with Router.from_click(text) as router:
            return in_phases(router, "r", sender.send, ROUNDS, whole=whole)

    def bare() -> float:
        made, state = ring(b)
        try:
            with closing(made), floor.floor("FloorRing", **state) as router:
                return in_phases(router, "f", sender.send, ROUNDS, whole=whole)
        finally:
            made.free()

    compare("port_packet receive" if whole else "port_packet receive, router alone", ours, bare)


def forward(a: str, b: str, c: str) -> None:
    source = f"r :: PollDevice({b}, METHOD PACKET, BURST {BATCH})"
    text = f"{source} -> Queue(1000) -> t :: ToDevice({c}, METHOD PACKET, BURST {BATCH});"
    sender = Sender(packet_socket(a))

    def ours() -> float:
        with Router.from_click(text) as router:
            return in_phases(router, "t", sender.send, 2 * ROUNDS, whole=False)

    def bare() -> float:
        made, state = ring(b)
        messages = Messages()
        try:
            with closing(made), packet_socket(c) as out, floor.floor(
                "FloorRingForward", out=out.fileno(), messages=messages.address, vectors=messages.vectors,
                out_at=address_of("sendmmsg"), **state,
            ) as router:  # fmt: skip
                return in_phases(router, "f", sender.send, ROUNDS, whole=False)
        finally:
            made.free()

    compare("port_packet forward", ours, bare)


def main() -> None:
    harness.pin()
    with floor.wires() as (a, b, c, _):
        only = sys.argv[1:] or ["transmit", "receive", "alone", "forward"]
        if "transmit" in only:
            transmit(c)
        if "receive" in only:
            receive(a, b, whole=True)
        if "alone" in only:
            receive(a, b, whole=False)
        if "forward" in only:
            forward(a, b, c)


if __name__ == "__main__":
    main()
