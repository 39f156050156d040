"""The same packets through routers with and without the kernel's level: the same leaves, handlers say the same.

Frames come from wires, sound, damaged and strange; what both wires get and what every element says afterwards must not
depend on where elements run.
"""

from __future__ import annotations

import random
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mezzo.runtime import Router
from mezzo.wire import build
from tests.ports.netlab import Pair, inside, namespace, raw_socket, veth_pair

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
TEXT = (Path(__file__).parents[2] / "examples/ip-router-live.click").read_text(encoding="utf-8")
HOST, FAR, ELSEWHERE = "10.0.0.7", "10.0.1.2", "10.0.1.99"  # of the near net, and of the far one: known, and unknown
UNKNOWN = (bytes([10, 0, 1, 99]), bytes([10, 0, 1, 255]))
TARGETS = (FAR, FAR, FAR, FAR, ELSEWHERE, HOST, "10.0.0.1", "10.0.1.1", "10.0.1.255", "192.168.7.7", "255.255.255.255")
# Without timestamps, which would differ.
OPTIONS = (b"", b"", b"", b"", b"\1\1\1\0", b"\7\7\4\0\0\0\0\0", b"\7\3\4\0", b"\xff\2\0\0")
# Where packets leave by the device's own queue, they do not wait in the router's.
ONLY = dict.fromkeys(("FromDevice", "ToDevice", "Reinject"), ("count", "byte_count"))
ONLY |= {"Queue": ("length", "drops")}


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
    injected: int


@dataclass(frozen=True)
class Subject:
    """A router: its text, whose devices are DEV0 and DEV1, and what handlers are told first."""

    text: str
    variables: dict[str, str]
    told: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, str] = ("f0", "f1")

    @contextmanager
    def running(self, wires: tuple[Pair, Pair], place: str) -> Iterator[Router]:
        one, two = wires
        variables = {**self.variables, "DEV0": one.b.name, "DEV1": two.a.name}
        with inside(one.b.ns), Router.from_click(self.text, variables=variables, place=place, frames=4096) as made:
            for path, value in self.told:
                made.write(path, value)
            yield made


def outcome(wires: tuple[Pair, Pair], subject: Subject, place: str, given: list[tuple[int, bytes]]) -> Outcome:
    """What a router that is new does with frames, given with the number of their wire; a few at a time, so that no
    queue is full."""
    one, two = wires
    with raw_socket(one.a) as near, raw_socket(two.b) as far, subject.running(wires, place) as router:
        router.run(rounds=1)
        came: tuple[list[bytes], list[bytes]] = [], []
        for first in range(0, len(given), 50):
            for wire, data in given[first : first + 50]:
                (near, far)[wire].send(data)
            settle(router)
            for sock, got in zip((near, far), came, strict=True):
                got += drained(sock)
        assert router.conservation().balanced
        risen = sum(int(router.read(f"{name}.risen")) for name in subject.devices)
        injected = sum(int(router.read(f"{name}.injected")) for name in router.elements if name.endswith("back"))
        return Outcome(Counter(came[0]), Counter(came[1]), said(router), risen, injected)


def compare(wires: tuple[Pair, Pair], subject: Subject, given: list[tuple[int, bytes]]) -> tuple[Outcome, Outcome]:
    """Natively, and on both levels: nothing differs."""
    native, both = outcome(wires, subject, "", given), outcome(wires, subject, "auto", given)
    assert native.near == both.near
    assert native.far == both.far
    assert {k: (v, both.said[k]) for k, v in native.said.items() if both.said[k] != v} == {}
    assert native.risen == 0 < both.risen < len(given)
    return native, both


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


@pytest.mark.parametrize(("seed", "returns"), [(1, False), (2, False), (3, True)])
def test_the_ip_router(wires: tuple[Pair, Pair], seed: int, returns: bool) -> None:
    """Also where packets with options go back into the kernel."""
    router = Subject(
        TEXT.replace("-> FixIPSrc", "-> back :: Reinject($DEV0) -> FixIPSrc") if returns else TEXT,
        {"IP0": "10.0.0.1/24", "IP1": "10.0.1.1/24", "METHOD": "XDP", "MTU1": "1000"},
        (
            ("out1/arpq.insert", f"{FAR} 2:0:0:0:0:2"),
            ("out1/arpq.insert", "10.0.1.5 2:0:0:0:0:5"),
            ("out0/arpq.insert", f"{HOST} 2:0:0:0:0:7"),
        ),
        ("in0/FromDevice@1", "in1/FromDevice@1"),
    )
    # A neighbour that is not known is asked for again after a second: all packets to such ones come at once.
    given = sorted(frames(300, seed, wires[0].b.mac), key=lambda data: data[30:34] not in UNKNOWN)
    native, both = compare(wires, router, [(0, data) for data in given])
    assert native.injected == 0 and (both.injected > 0) == returns
    assert sum(native.far.values()) > 40 and sum(native.near.values()) > 40


SWITCH = """
f0 :: FromDevice($DEV0, METHOD XDP, PROMISC true) -> [0] s :: EtherSwitch(CAPACITY 16);
f1 :: FromDevice($DEV1, METHOD XDP, PROMISC true) -> [1] s;
s[0] -> c0 :: Counter -> Queue -> ToDevice($DEV0, METHOD XDP);
s[1] -> c1 :: Counter -> Queue -> ToDevice($DEV1, METHOD XDP);
"""


def test_a_switch(wires: tuple[Pair, Pair]) -> None:
    """Each address is on one wire; some are never heard of, and the table has not room for all."""
    dice, given = random.Random(3), list[tuple[int, bytes]]()
    for _ in range(400):
        wire = dice.randrange(2)
        to = dice.choice([f"2:0:0:0:{n & 1}:{n}" for n in range(20)] + ["ff:ff:ff:ff:ff:ff", "1:0:5e:0:0:1"])
        source = f"2:0:0:0:{wire}:{2 * dice.choice((0, 1, 1, 2, 2, 2, 3, 4, 5)) + wire}"
        given.append((wire, build.ether(source, to, 0x88B5, dice.randbytes(dice.choice((46, 100, 1400))))))
    given.sort(key=lambda one: one[0])
    given = [one for n in range(0, 400, 50) for one in given[n : n + 50][:: 1 if n % 100 else -1]]
    native, _ = compare(wires, Subject(SWITCH, {}), given)
    assert sum(native.far.values()) > 40 and sum(native.near.values()) > 40


FIREWALL = """
f0 :: FromDevice($DEV0, METHOD XDP, PROMISC true) -> k :: Classifier(12/0800, -) -> s :: Strip(14) -> CheckIPHeader
   -> w :: IPFilter(allow udp && dst port 53, deny src 10.0.1.5, allow icmp type echo, 1 tcp && dst host 10.0.1.2,
                    deny all)
   -> Unstrip(14) -> q :: Queue -> ToDevice($DEV1, METHOD XDP);
k[1] -> q; w[1] -> Unstrip(14) -> t :: Tee -> q; t[1] -> Discard;
f1 :: FromDevice($DEV1, METHOD XDP, PROMISC true) -> Queue -> ToDevice($DEV0, METHOD XDP);
"""


def test_a_firewall(wires: tuple[Pair, Pair]) -> None:
    dice = random.Random(5)
    given = [(dice.choice((0, 0, 0, 1)), data) for data in frames(300, 7, wires[0].b.mac)]
    native, _ = compare(wires, Subject(FIREWALL, {}), given)
    assert sum(native.far.values()) > 40 and sum(native.near.values()) > 40
