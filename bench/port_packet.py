"""AF_PACKET over veth pairs, 60-byte frames, ns of CPU per packet: transmit, receive, forward, and each one's floor.

What is received is counted with what its sender costs, because on this wire the sender's system call does the work of
both; "router alone" is the rest, against a bare loop that reads a word of each packet, and one that copies it.  A goal
is the floor (`_socket_floor`: the same system calls in a bare loop) over 0.95.  Needs root.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import _socket_floor as floor
import harness
from _socket_floor import BATCH, FRAME, Messages, Runner, Sender, address_of, compare, in_phases, packet_socket
from _xdp_floor import leave_network

from mezzo.ports import _packet_socket as ps
from mezzo.ports._memory import Memory
from mezzo.ports.packet import BEFORE, BYTES, FRAMES, SLOTS

ROUNDS = 40  # of the scheduler, for a phase
BLOCK_MS = 1


@contextmanager
def ring(device: str, version: int = 2) -> Iterator[dict[str, int]]:
    shape = ps.frames_for(1500, BEFORE, FRAMES) if version == 2 else ps.blocks_for(BYTES, BLOCK_MS)
    made = ps.Rings(packet_socket(device).detach(), device, ps.LAYOUTS[version], receive=shape)
    made.start(ps.ALL)
    size, frames = (shape.size, shape.frames) if version == 2 else (shape.block, shape.blocks)
    yield {"ring": made.address, "frame_size": size, "frames": frames}
    made.close()
    made.free()


@contextmanager
def by_messages(device: str) -> Iterator[Runner]:
    made = Messages(own=True)
    state = {"messages": made.address, "out_at": address_of("sendmmsg")}
    with packet_socket(device) as out, floor.floor("FloorSendMany", out=out.fileno(), **state) as subject:
        yield subject


@contextmanager
def by_slots(device: str) -> Iterator[Runner]:
    shape = ps.frames_for(1500, ps.LAYOUTS[2].header, SLOTS)
    made = ps.Rings(packet_socket(device).detach(), device, ps.LAYOUTS[2], send=shape)
    made.start(0)
    memory = Memory(4096)
    memory.map[: len(FRAME)] = FRAME
    state = {"ring": made.send_address, "frame_size": shape.size, "frames": shape.frames}
    state |= {"messages": memory.address, "out_at": address_of("send")}
    with floor.floor("FloorSlots", out=made.fd, **state) as subject:
        yield subject
    made.close()
    made.free()


def transmit(*, slots: bool) -> None:
    """With `slots` from a ring of the kernel's (PACKET_TX_RING), else by sendmmsg."""
    how = f"METHOD PACKET, BURST {BATCH}, TX_RING {slots}"
    with floor.wires("o") as (a, _, b, _), floor.wires("t") as (c, _, _, _):
        text = f"InfiniteSource(LENGTH {floor.LENGTH}, BURST {BATCH}) -> t :: ToDevice({a}, {how});"
        with floor.mezzo(text, "t") as ours, by_messages(b) as messages, by_slots(c) as ring_of_slots:
            if slots:
                floors = {"floor": lambda: floor.steadily(ring_of_slots), "sendmmsg": lambda: floor.steadily(messages)}
                compare("port_packet transmit, TX_RING", lambda: floor.steadily(ours), **floors)
            else:
                compare("port_packet transmit", lambda: floor.steadily(ours), floor=lambda: floor.steadily(messages))


@contextmanager
def reading(device: str, version: int, copy: bool) -> Iterator[Runner]:
    memory = Memory(BATCH * 2048 + 4096)
    how = f"{'FloorRing' if version == 2 else 'FloorBlocks'}(COPY {copy})"
    with ring(device, version) as state, floor.floor(how, messages=memory.address, **state) as subject:
        yield subject


def filling(device: str, version: int) -> Callable[[int], None]:
    """Sends so many packets, and waits until the last block of TPACKET_V3 is ours because its time is up."""
    sender = Sender(packet_socket(device))

    def send(count: int) -> None:
        sender.send(count)
        until = time.monotonic() + 2.5e-3 * BLOCK_MS
        while version == 3 and time.monotonic() < until:
            pass

    return send


def receive(*, whole: bool, version: int = 2) -> None:
    """The floor reads a word of each packet; `copying` copies each, as we do, into one of 64 buffers."""
    name = "port_packet receive" + ("" if whole else ", router alone") + (", TPACKET 3" if version == 3 else "")
    with floor.wires("r") as (a, b, c, d), floor.wires("s") as (e, f, _, _):
        text = f"r :: PollDevice({b}, METHOD PACKET, BURST {BATCH}, TPACKET {version}, TIMESTAMP false) -> Discard;"
        ends = [filling(x, version) for x in (a, c, e)]
        with (
            floor.mezzo(text, "r") as ours,
            reading(d, version, copy=False) as bare,
            reading(f, version, copy=True) as copying,
        ):
            compare(
                name,
                lambda: in_phases(ours, ends[0], ROUNDS, whole=whole),
                floor=lambda: in_phases(bare, ends[1], ROUNDS, whole=whole),
                copying=lambda: in_phases(copying, ends[2], ROUNDS, whole=whole),
            )


@contextmanager
def forwarding(source: str, to: str) -> Iterator[Runner]:
    messages = Messages()
    with ring(source) as state, packet_socket(to) as out:
        state |= {"messages": messages.address, "vectors": messages.vectors, "out_at": address_of("sendmmsg")}
        with floor.floor("FloorRingForward", out=out.fileno(), **state) as subject:
            yield subject


def forward() -> None:
    with floor.wires("f") as (a, b, c, _), floor.wires("g") as (e, f, g, _):
        source = f"r :: PollDevice({b}, METHOD PACKET, BURST {BATCH}, TIMESTAMP false)"
        text = f"{source} -> Queue(1000) -> t :: ToDevice({c}, METHOD PACKET, BURST {BATCH});"
        one, other = filling(a, 2), filling(e, 2)
        with floor.mezzo(text, "t") as ours, forwarding(f, g) as bare:
            compare(
                "port_packet forward",
                lambda: in_phases(ours, one, 3 * ROUNDS),
                floor=lambda: in_phases(bare, other, ROUNDS),
            )


def main() -> None:
    harness.pin()
    leave_network()
    todo = {
        "transmit": lambda: transmit(slots=False),
        "slots": lambda: transmit(slots=True),
        "receive": lambda: receive(whole=True),
        "alone": lambda: receive(whole=False),
        "blocks": lambda: receive(whole=False, version=3),
        "forward": forward,
    }
    for name in sys.argv[1:] or todo:
        todo[name]()


if __name__ == "__main__":
    main()
