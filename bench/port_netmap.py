"""The netmap driver beside a kernel side that does nothing: rings are always full of packets of 60 bytes, or of room.

What is measured is our half: slots and copies between netmap's buffers and frames, the tasks, and the graph between.
The kernel side is a callback in Python that sets tail; its cost, measured by itself, is taken off.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time
from typing import Any

import harness

from mezzo.ports import _netmap_abi as abi
from mezzo.ports import netmap
from mezzo.ports._netmap_over import map_over
from mezzo.ports.ring import address_of_map
from mezzo.runtime import Router

SLOTS, SIZE, EXTRA, BURST, ROUNDS = 1024, 2048, 4096, 512, 60_000
FRAME = bytes.fromhex("0200000000010200000000020800") + bytes(46)
TX, RX, RING = 4096, 4096 + 20480, 20480
BUFFERS = 4096 + 2 * RING
IOCTL = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 6)


class Treadmill:
    """The least that is a kernel side: one port of one ring each way."""

    def __init__(self) -> None:
        self.calls = 0
        self.memory = os.memfd_create("treadmill")
        os.ftruncate(self.memory, BUFFERS + (2 + 2 * SLOTS + EXTRA) * SIZE)
        self.map = mmap.mmap(self.memory, 0)
        base = address_of_map(self.map)
        self.words = {at: (ctypes.c_uint32 * 3).from_address(base + at + 20) for at in (TX, RX)}
        self.callback = IOCTL(self.called)
        self.ioctl_at = ctypes.cast(self.callback, ctypes.c_void_p).value

    def called(self, fd: int, request: int, *rest: int) -> int:
        self.calls += 1
        words = self.words[TX if request == abi.TXSYNC else RX]
        words[2] = (words[0] - 1) % SLOTS
        return 0

    def open(self) -> int:
        return os.eventfd(0)

    def ioctl(self, fd: int, request: int, argument: Any = None) -> int:
        body = abi.REGISTER_BODY.pack(memsize=len(self.map), tx_slots=SLOTS, rx_slots=SLOTS, mem_id=1)
        ctypes.memmove(abi.HEADER.get(argument, "body"), bytes(body), len(body))
        first = 2 + 2 * SLOTS
        for k in range(first, first + EXTRA):
            struct.pack_into("<I", self.map, BUFFERS + k * SIZE, k + 1 if k + 1 < first + EXTRA else 0)
        interface = bytes(abi.IF.pack(name=b"mill", tx_rings=1, rx_rings=1, bufs_head=first))
        self.map[: abi.IF_SIZE + 16] = interface + struct.pack("<2q", TX, RX)
        for at, first, tail, direction in ((TX, 2 + SLOTS, SLOTS - 1, 1), (RX, 2, 0, 0)):
            head = abi.RING.pack(buf_ofs=BUFFERS - at, num_slots=SLOTS, buf_size=SIZE, dir=direction, tail=tail)
            self.map[at : at + len(head)] = bytes(head)
            for k in range(SLOTS):
                place = at + abi.RING_HEADER + 16 * k
                self.map[place : place + 16] = bytes(abi.SLOT.pack(buf_idx=first + k, len=len(FRAME)))
                buffer = BUFFERS + (first + k) * SIZE
                self.map[buffer : buffer + len(FRAME)] = FRAME
        return 0

    def mmap(self, fd: int, size: int) -> Any:
        return self.map

    def map_over(self, address: int, size: int, fd: int, offset: int) -> None:
        map_over(address, size, self.memory, offset)

    def close(self, fd: int) -> None:
        os.close(fd)
        os.close(self.memory)

    def link(self, name: str) -> None:
        return None


def callback_ns(mill: Treadmill) -> float:
    """What one call of the kernel side costs."""
    function, count = IOCTL(mill.ioctl_at), 20_000
    begun = time.process_time_ns()
    for _ in range(count):
        function(0, abi.TXSYNC, 0, 0, 0, 0)
    return (time.process_time_ns() - begun) / count


def packet_ns(text: str, counter: str) -> float:
    """ns of CPU for a packet, without the kernel side."""
    mill = Treadmill()
    netmap.Port.system = mill
    with Router.from_click(text, frames=8192) as router:
        router.run(rounds=2000)
        element = router.elements[counter]
        before, calls, begun = int(element.count), mill.calls, time.process_time_ns()
        router.run(rounds=ROUNDS)
        spent = time.process_time_ns() - begun
        calls, packets = mill.calls - calls, int(element.count) - before
        return (spent - calls * callback_ns(mill)) / packets


IN = f"PollDevice(mill, METHOD NETMAP, BURST {BURST}%s)"
OUT = f"to :: ToDevice(mill, METHOD NETMAP, BURST {BURST}%s);"
ZERO = ", ZERO_COPY true"
GRAPHS = {
    "port_netmap_receive": ("c", f"{IN % ''} -> c :: Counter -> Discard;"),
    "port_netmap_send": ("to", f"RatedSource(LENGTH 60, RATE 1000000000) -> {OUT % ''}"),
    "port_netmap_forward": ("to", f"{IN % ''} -> Queue -> {OUT % ''}"),
    "port_netmap_forward_zero_copy": ("to", f"{IN % ZERO} -> Queue -> {OUT % ZERO}"),
}


def main() -> None:
    harness.pin()
    for name, (counter, text) in GRAPHS.items():
        packet_ns(text, counter)
        harness.report(name, "ns/packet", [packet_ns(text, counter) for _ in range(harness.RUNS)])


if __name__ == "__main__":
    main()
