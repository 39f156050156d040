"""The same packets through the IP router with and without the kernel's level: the same leaves, handlers say the same.

Frames come from one wire, sound, damaged and strange; what both wires get and what every element says afterwards must
not depend on where elements run.
"""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mezzo.runtime import Router
from mezzo.wire import build
from tests.ports.netlab import Pair, inside, namespace, raw_socket, veth_pair

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
TEXT = (Path(__file__).parents[2] / "examples/ip-router-live.click").read_text(encoding="utf-8")
HOST, FAR, ELSEWHERE = "10.0.0.7", "10.0.1.2", "10.0.1.99"  # of the near net, and of the far one: known, and unknown
TARGETS = (FAR, FAR, FAR, FAR, ELSEWHERE, HOST, "10.0.0.1", "10.0.1.1", "10.0.1.255", "192.168.7.7", "255.255.255.255")
# Without timestamps, which would differ.
OPTIONS = (b"", b"", b"", b"", b"\1\1\1\0", b"\7\7\4\0\0\0\0\0", b"\7\3\4\0", b"\xff\2\0\0")
# Where packets leave by the device's own queue, they do not wait in the router's.
ONLY = dict.fromkeys(("FromDevice", "ToDevice"), ("count", "byte_count")) | {"Queue": ("length", "drops")}


@pytest.fixture
def wires() -> Iterator[tuple[Pair, Pair]]:
    with (
        namespace() as near, namespace() as here, namespace() as far,
        veth_pair(near, here) as one, veth_pair(here, far) as two,
    ):  # fmt: skip
        yield one, two


def frames(count: int, seed: int, mac: str) -> list[bytes]:
    dice = random.Random(seed)
    return [frame(dice, mac) for _ in range(count)]


def frame(dice: random.Random, mac: str) -> bytes:
    to = dice.choice((mac,) * 12 + ("ff:ff:ff:ff:ff:ff", "2:0:0:0:0:99"))
    kind = dice.random()
    if kind < 0.08:
        return build.ether("2:0:0:0:0:7", to, dice.choice((0x86DD, 0x0806, 0x8100)), dice.randbytes(50))
    data = bytearray(build.ether("2:0:0:0:0:7", to, 0x0800, packet(dice)).ljust(60, b"\0"))
    for _ in range(dice.choice((1, 2)) if kind > 0.85 else 0):
        data[dice.randrange(14, min(len(data), 60))] = dice.randrange(256)
    return bytes(data)


def packet(dice: random.Random) -> bytes:
    source, target = dice.choice((HOST, HOST, HOST, "10.0.1.5", "127.0.0.1")), dice.choice(TARGETS)
    payload = dice.randbytes(dice.choice((0, 1, 20, 100, 1400)))
    body = dice.choice((build.udp(1000, 53, payload), build.icmp(8, 0, 7, payload), build.tcp(80, 1000, payload)))
    options = dice.choice(OPTIONS)
    return build.ip(
        source, target, dice.choice((17, 1, 6)), body, ttl=dice.choice((0, 1, 2, 64, 255)), id=dice.randrange(65536),
        frag=dice.choice((0, 0, 0, 0x4000, 0x2000, 5)), options=options,
    )  # fmt: skip


@dataclass
class Outcome:
    near: Counter[bytes]
    far: Counter[bytes]
    said: dict[str, str]
    risen: int


@contextmanager
def ip_router(wires: tuple[Pair, Pair], place: str, **options: Any) -> Iterator[Router]:
    one, two = wires
    variables = {"DEV0": one.b.name, "IP0": "10.0.0.1/24", "DEV1": two.a.name, "IP1": "10.0.1.1/24", "METHOD": "XDP"}
    variables |= {"MTU1": "1000"}
    with inside(one.b.ns), Router.from_click(TEXT, variables=variables, place=place, frames=4096, **options) as made:
        yield made


def outcome(wires: tuple[Pair, Pair], place: str, given: list[bytes]) -> Outcome:
    """What a router that is new does with frames, a few at a time so that no queue is full."""
    one, two = wires
    with raw_socket(one.a) as near, raw_socket(two.b) as far, ip_router(wires, place) as router:
        router.write("out1/arpq.insert", f"{FAR} 2:0:0:0:0:2")
        router.write("out0/arpq.insert", f"{HOST} 2:0:0:0:0:7")
        router.run(rounds=1)
        came: tuple[list[bytes], list[bytes]] = [], []
        for first in range(0, len(given), 50):
            for data in given[first : first + 50]:
                near.send(data)
            settle(router)
            for sock, got in zip((near, far), came, strict=True):
                got += drained(sock)
        assert router.conservation().balanced
        risen = sum(int(router.read(f"{n}.risen")) for n in ("in0/FromDevice@1", "in1/FromDevice@1"))
        return Outcome(Counter(came[0]), Counter(came[1]), said(router), risen)


def settle(router: Router) -> None:
    """Runs until nothing has moved for a while."""
    seen = ""
    for _ in range(40):
        router.run(seconds=0.03)
        now = repr(said(router))
        if now == seen:
            return
        seen = now


def drained(sock: socket.socket) -> list[bytes]:
    sock.setblocking(False)
    found = []
    try:
        while True:
            found.append(sock.recv(65536))
    except BlockingIOError:
        return found


def said(router: Router) -> dict[str, str]:
    """What handlers of all elements say, but how full queues were and how devices are driven."""
    found = {}
    for element in router.elements.values():
        names = ONLY.get(type(element).__name__, tuple(type(element).reads))
        for name in (*names, "drop_reasons"):
            found[f"{element.name}.{name}"] = router.read(f"{element.name}.{name}")
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_what_leaves_and_what_handlers_say_does_not_depend_on_the_level(wires: tuple[Pair, Pair], seed: int) -> None:
    given = frames(300, seed, wires[0].b.mac)
    native, both = outcome(wires, "", given), outcome(wires, "auto", given)
    assert native.near == both.near
    assert native.far == both.far
    differ = {k: (v, both.said[k]) for k, v in native.said.items() if both.said[k] != v}
    assert differ == {}
    assert native.risen == 0 < both.risen < len(given)
    assert sum(native.far.values()) > 40 and sum(native.near.values()) > 40
