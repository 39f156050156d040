"""What tests of AF_XDP share: routers in namespaces, and frames."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mezzo.runtime.router import Router
from tests.ports.netlab import inside

SMALL = {"frames": 4096}


@contextmanager
def router(ns: str, text: str, **options: Any) -> Iterator[Router]:
    """A router in a namespace; every frame is accounted for at its end, or `close` raises."""
    with inside(ns), Router.from_click(text, **{**SMALL, **options}) as made:
        yield made


def ran(made: Router, element: str, count: int, rounds: int = 2000) -> int:
    """Runs until an element's count is there."""
    made.run(rounds=rounds, until=lambda: int(made.elements[element].count) >= count)
    return int(made.elements[element].count)


def frame(number: int = 0, size: int = 60, kind: int = 0x88B5) -> bytes:
    head = b"\x02\0\0\0\0\x09" + b"\x02\0\0\0\0\x01" + kind.to_bytes(2, "big")
    return (head + number.to_bytes(4, "big") + bytes(x & 255 for x in range(size)))[:size]


def flow(number: int) -> bytes:
    """UDP over IPv4, a port of its own."""
    ip4 = bytes.fromhex("4500002a000000004011") + b"\0\0" + bytes([10, 7, 0, 2, 10, 7, 0, 1])
    return frame(size=14, kind=0x0800) + ip4 + (7000 + number).to_bytes(2, "big") + b"\0\x09\0\x16\0\0" + bytes(18)


def refusals(made: Router) -> str:
    return made.read("f.refusals")


def received(sock: socket.socket, count: int) -> list[bytes]:
    return [sock.recv(65536) for _ in range(count)]
