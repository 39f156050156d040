"""A user of netmap's interface that knows nothing of the driver, and the kernel sides that tests run against."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Any

from mezzo.ports import _netmap_abi as abi
from mezzo.ports import _netmap_port
from mezzo.ports.ring import Ring
from tests.ports.netmap_double import NetmapDouble

HAS_MODULE = os.path.exists(abi.PATH)
SIDES = ["double", "module"] if HAS_MODULE else ["double"]


def kernel_side(name: str) -> Iterator[Any]:
    """The simulated kernel side, whose memory must be whole afterwards, or the real one."""
    if name == "module":
        yield _netmap_port.Kernel()
        return
    made = NetmapDouble()
    yield made
    assert made.files == {}, "descriptors were not closed"
    assert made.lost() == {}, "buffers were not given back"
    made.close_all()


class Client:
    """One descriptor."""

    def __init__(self, kernel: Any, name: str = "", **fields: int) -> None:
        self.kernel, self.fd = kernel, kernel.open()
        if name:
            self.register(name, **fields)

    def request(
        self, kind: int, name: str, body: bytearray | None, version: int = abi.VERSION, options: int = 0
    ) -> None:
        place = ctypes.addressof(ctypes.c_char.from_buffer(body)) if body is not None else 0
        fields = {"version": version, "reqtype": kind, "options": options}
        self.kernel.ioctl(self.fd, abi.CTRL, abi.HEADER.pack(**fields, name=name.encode(), body=place))

    def register(self, name: str, **fields: int) -> None:
        body = abi.REGISTER_BODY.pack(**({"mode": abi.ALL_NIC} | fields))
        self.request(abi.REGISTER, name, body)
        self.told = abi.REGISTER_BODY.values(body)
        self.map = self.kernel.mmap(self.fd, self.told["memsize"])
        base = self.told["offset"]
        self.interface = abi.IF.values(self.map, base)
        tx = self.interface["tx_rings"] + self.interface["host_tx_rings"]
        count = tx + self.interface["rx_rings"] + self.interface["host_rx_rings"]
        self.offsets = struct.unpack_from(f"<{count}q", self.map, base + abi.IF_SIZE)
        made = [Ring(self.map, base + o) if o else None for o in self.offsets]
        self.tx: list[Any] = made[:tx]
        self.rx: list[Any] = made[tx:]

    def sync(self, request: int) -> None:
        self.kernel.ioctl(self.fd, request)

    def state(self, ring: Ring | None) -> tuple[int, int, int]:
        assert ring is not None
        return ring.head, ring.cur, ring.tail

    def buffer(self, ring: Ring, index: int) -> int:
        """Where in the map a buffer begins."""
        at = ring.address - ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        return at + abi.RING.get(ring.mem, "buf_ofs") + index * abi.RING.get(ring.mem, "buf_size")

    def send(self, *packets: bytes, ring: int = 0, flags: int = 0) -> None:
        self.put(*packets, ring=ring, flags=flags)
        self.sync(abi.TXSYNC)

    def put(self, *packets: bytes, ring: int = 0, flags: int = 0) -> None:
        tx = self.tx[ring]
        for data in packets:
            slot = tx.slot(tx.head)
            place = self.buffer(tx, slot.frame)
            self.map[place : place + len(data)] = data
            tx.put(tx.head, type(slot)(slot.frame, len(data), flags))
            tx.head = tx.cur = tx.after(tx.head)

    def take(self, ring: int = 0) -> list[bytes]:
        rx = self.rx[ring]
        self.sync(abi.RXSYNC)
        found = []
        for slot in rx.slots():
            place = self.buffer(rx, slot.frame)
            found.append(self.map[place : place + slot.length])
        rx.head = rx.cur = rx.tail
        return found

    def close(self) -> None:
        self.kernel.close(self.fd)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
