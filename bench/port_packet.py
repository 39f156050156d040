"""AF_PACKET over veth pairs, 60-byte frames, ns of CPU per packet: transmit, receive, forward, and each one's floor.

What is received is counted with what its sender costs, because on this wire the sender's system call does the work of
both; "router alone" is the rest, against a bare loop that reads a word of each packet, and one that copies it.  A goal
is the floor (`_socket_floor`: the same system calls in a bare loop) over 0.95.  Needs root.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing

import _socket_floor as floor
import harness
from _socket_floor import BATCH, FRAME, Messages, Sender, address_of, compare, in_phases, packet_socket, steadily

from mezzo.ports import _packet_socket as ps
from mezzo.ports._memory import Memory
from mezzo.ports.packet import BEFORE, BYTES, FRAMES, SLOTS
from mezzo.runtime import Router

ROUNDS = 40  # of the scheduler, for a phase


BLOCK_MS = 1


def ring(device: str, version: int = 2) -> tuple[ps.Rings, dict[str, int]]:
    shape = ps.frames_for(1500, BEFORE, FRAMES) if version == 2 else ps.blocks_for(BYTES, BLOCK_MS)
    made = ps.Rings(packet_socket(device).detach(), device, ps.LAYOUTS[version], receive=shape)
    made.start(ps.ALL)
    size, frames = (shape.size, shape.frames) if version == 2 else (shape.block, shape.blocks)
    return made, {"ring": made.address, "frame_size": size, "frames": frames}


def transmit(c: str, slots: bool) -> None:
    """With `slots` from a ring of the kernel's (PACKET_TX_RING), else by sendmmsg."""
    how = f"METHOD PACKET, BURST {BATCH}, TX_RING {slots}"
    text = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {BATCH}) -> t :: ToDevice({c}, {how});"

    def ours() -> float:
        with Router.from_click(text) as router:
            return steadily(router, "t")

    def messages() -> float:
        made = Messages()
        state = {"messages": made.address, "out_at": address_of("sendmmsg")}
        with packet_socket(c) as out, floor.floor("FloorSendMany", out=out.fileno(), **state) as router:
            return steadily(router, "f")

    def ring_of_slots() -> float:
        shape = ps.frames_for(1500, ps.LAYOUTS[2].header, SLOTS)
        made = ps.Rings(packet_socket(c).detach(), c, send=shape)
        made.start(0)
        state = {"ring": made.send_address, "frame_size": shape.size, "frames": shape.frames}
        memory = Memory(4096)
        memory.map[: len(FRAME)] = FRAME
        try:
            with closing(made), floor.floor(
                "FloorSlots", out=made.fd, messages=memory.address, out_at=address_of("send"), **state
            ) as router:  # fmt: skip
                return steadily(router, "f")
        finally:
            made.free()

    if slots:
        compare("port_packet transmit, TX_RING", ours, floor=ring_of_slots, sendmmsg=messages)
    else:
        compare("port_packet transmit", ours, floor=messages)


def receive(a: str, b: str, *, whole: bool, version: int = 2) -> None:
    """The floor reads a word of each packet; `copying` copies each, as we do, into one of 64 buffers."""
    text = f"r :: PollDevice({b}, METHOD PACKET, BURST {BATCH}, TPACKET {version}) -> Discard;"
    sender = Sender(packet_socket(a))

    def send(count: int) -> None:
        sender.send(count)
        until = time.monotonic() + 2.5e-3 * BLOCK_MS  # the last block is ours when its time is up
        while version == 3 and time.monotonic() < until:
            pass

    def ours() -> float:
        with Router.from_click(text) as router:
            return in_phases(router, "r", send, ROUNDS, whole=whole)

    def bare(copy: bool) -> float:
        made, state = ring(b, version)
        memory = Memory(BATCH * 2048 + 4096)
        how = f"{'FloorRing' if version == 2 else 'FloorBlocks'}(COPY {copy})"
        try:
            with closing(made), floor.floor(how, messages=memory.address, **state) as router:
                return in_phases(router, "f", send, ROUNDS, whole=whole)
        finally:
            made.free()

    name = "port_packet receive" + ("" if whole else ", router alone") + (", TPACKET 3" if version == 3 else "")
    compare(name, ours, floor=lambda: bare(False), copying=lambda: bare(True))


def forward(a: str, b: str, c: str) -> None:
    source = f"r :: PollDevice({b}, METHOD PACKET, BURST {BATCH})"
    text = f"{source} -> Queue(1000) -> t :: ToDevice({c}, METHOD PACKET, BURST {BATCH});"
    sender = Sender(packet_socket(a))

    def ours() -> float:
        with Router.from_click(text) as router:
            return in_phases(router, "t", sender.send, 3 * ROUNDS, whole=False)

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

    compare("port_packet forward", ours, floor=bare)


def main() -> None:
    harness.pin()
    with floor.wires() as (a, b, c, _):
        todo = {
            "transmit": lambda: transmit(c, slots=False),
            "slots": lambda: transmit(c, slots=True),
            "receive": lambda: receive(a, b, whole=True),
            "alone": lambda: receive(a, b, whole=False),
            "blocks": lambda: receive(a, b, whole=False, version=3),
            "forward": lambda: forward(a, b, c),
        }
        for name in sys.argv[1:] or todo:
            todo[name]()


if __name__ == "__main__":
    main()
