"""Packets of a flow leave in the order in which they came, though some take the slow way and others do not.

Each test has a twin without gates that does see a packet overtaken: else it would prove nothing.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mezzo.packet.arena import Arena, Packet
from mezzo.ports._gates import held_gates
from mezzo.runtime import Router
from mezzo.targets.kernel.gates import GATE, GATES
from mezzo.wire import build
from tests.ports.netlab import Pair, inside, namespace, raw_socket, veth_pair

ROUTER = (Path(__file__).parents[2] / "examples/ip-router-live.click").read_text(encoding="utf-8")
ADDRESSES = {"IP0": "10.0.0.1/24", "IP1": "10.0.1.1/24", "METHOD": "XDP"}
FROM, TO = "10.0.0.7", "10.0.1.2"
NEAR, FAR = "02:00:00:00:00:07", "02:00:00:00:00:02"
LOOSE = ("auto", "ORDER=loose")
FLOWS, MOST_FLOWS = 4, 60
OPTION = b"\1\1\1\0"  # three times nothing, and an end
live = [pytest.mark.needs_root, pytest.mark.slow]


@pytest.fixture
def wires() -> Iterator[tuple[Pair, Pair]]:
    with (
        namespace() as near, namespace() as here, namespace() as far,
        veth_pair(near, here) as one, veth_pair(here, far) as two,
    ):  # fmt: skip
        yield one, two


@contextmanager
def running(
    wires: tuple[Pair, Pair], text: str, place: Any, threads: int = 1, **variables: str
) -> Iterator[Router]:
    """A router that another thread runs."""
    one, two = wires
    given = {**variables, "DEV0": one.b.name, "DEV1": two.a.name}
    with inside(one.b.ns), Router.from_click(text, variables=given, place=place, frames=8192, threads=threads) as made:
        made.run(rounds=1)
        runner = threading.Thread(target=made.run, args=(30,))
        runner.start()
        try:
            yield made
        finally:
            made.please_stop()
            runner.join()


def numbered(number: int, mac: str, is_slow: bool, to: str = TO, size: int = 30) -> bytes:
    body = build.udp(1000, 53, struct.pack(">I", number).ljust(size, b"."))
    options = OPTION if is_slow else b""
    return build.ether(NEAR, mac, 0x0800, build.ip(FROM, to, 17, body, options=options))


def number_of(frame: bytes) -> int:
    """-1 for other frames, and for parts of packets that are not the first."""
    if len(frame) < 46 or frame[12:14] != b"\x08\x00" or frame[20:22] not in (b"\0\0", b"\x20\0"):
        return -1
    return int(struct.unpack_from(">I", frame, 14 + 4 * (frame[14] & 15) + 8)[0])


class Receiver:
    """Takes what comes to the far host."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.numbers, self.asked = sock, list[int](), list[bytes]()
        self.done = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        self.sock.settimeout(0.2)
        while not self.done:
            try:
                frame = self.sock.recv(2048)
            except TimeoutError:
                continue
            if frame[12:14] == b"\x08\x06":
                self.asked.append(frame)
            elif (number := number_of(frame)) >= 0:
                self.numbers.append(number)

    def answer(self, address: str) -> None:
        """To the last question."""
        asked, mine = self.asked[-1], bytes.fromhex(FAR.replace(":", ""))
        assert socket.inet_ntoa(asked[38:42]) == address
        self.sock.send(asked[6:12] + mine + asked[12:20] + b"\0\2" + mine + asked[38:42] + asked[22:32])

    def end(self) -> None:
        self.done = True
        self.thread.join()


def overtaken(numbers: Sequence[int]) -> int:
    """How many packets left after one that came later."""
    latest, found = -1, 0
    for number in numbers:
        found += number < latest
        latest = max(latest, number)
    return found


def wait_for(condition: Any, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.005)


def send(here: socket.socket, frames: Sequence[bytes], at_once: int = 20) -> None:
    """A few at a time: no queue is full."""
    for first in range(0, len(frames), at_once):
        for frame in frames[first : first + at_once]:
            here.send(frame)
        time.sleep(0.001)


def gates_up(router: Router) -> int:
    words = router.parts[0].views.view("gates")
    pairs = struct.unpack(f"={2 * GATES}I", words[: 8 * GATES])
    return sum(raised != lowered for raised, lowered in zip(pairs[::2], pairs[1::2], strict=True))


def ups(router: Router) -> dict[str, int]:
    """How many packets of all inputs went up by ways of their own, and whole."""
    ends = [name for name, element in router.elements.items() if hasattr(element, "risen")]
    return {what: sum(int(router.read(f"{name}.{what}")) for name in ends) for what in ("risen", "whole")}


@contextmanager
def flowing(
    wires: tuple[Pair, Pair], text: str, place: Any, **more: Any
) -> Iterator[tuple[socket.socket, Receiver, Router]]:
    """The near host's socket, what the far one gets, and the router between."""
    with (
        raw_socket(wires[0].a) as here,
        raw_socket(wires[1].b) as there,
        running(wires, text, place, **more, **ADDRESSES) as made,
    ):
        receiver = Receiver(there)
        try:
            yield here, receiver, made
            assert made.conservation().balanced
        finally:
            receiver.end()


def some_slow(mac: str, count: int = 2000) -> list[bytes]:
    """Of 500 packets one has options, early among those that are sent at once."""
    return [numbered(n, mac, n % 500 == 105) for n in range(count)]


def settled(far: Receiver, least: int, seconds: float = 20, pause: float = 0.2) -> list[int]:
    """What came, when no more does; a busy machine may lose some."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = len(far.numbers)
        time.sleep(pause)
        if len(far.numbers) == before >= least:
            break
    assert len(far.numbers) >= least
    return list(far.numbers)


class TestOnWires:
    pytestmark = live

    @pytest.mark.parametrize("threads", [1, 2])
    def test_options_go_the_slow_way(self, wires: tuple[Pair, Pair], threads: int) -> None:
        with flowing(wires, ROUTER, "auto", threads=threads) as (here, far, router):
            router.write("out1/arpq.insert", f"{TO} {FAR}")
            frames = some_slow(wires[0].b.mac)
            send(here, frames)
            came = settled(far, 1000)
            assert overtaken(came) == 0
            up = ups(router)
            assert up["risen"] + up["whole"] >= 4 and up["whole"] > 0
            wait_for(lambda: not gates_up(router))
            send(here, frames[:100])
            settled(far, len(came) + 50)
            assert ups(router) == up  # all is done in the kernel again

    def test_without_gates_they_are_overtaken(self, wires: tuple[Pair, Pair]) -> None:
        with flowing(wires, ROUTER, LOOSE) as (here, far, router):
            router.write("out1/arpq.insert", f"{TO} {FAR}")
            turns, came = 0, list[int]()
            while not overtaken(came) and turns < MOST_FLOWS:
                first, turns = 100 * turns, turns + 1
                send(here, [numbered(n, wires[0].b.mac, n == first) for n in range(first, first + 100)], 100)
                came = settled(far, 50 * turns, pause=0.05)
            assert overtaken(came)
            assert ups(router) == {"risen": turns, "whole": 0} and "gates" not in router.parts[0].maps.descriptors

    @pytest.mark.parametrize("place", ["auto", LOOSE])
    def test_an_address_that_is_not_known_yet(self, wires: tuple[Pair, Pair], place: Any) -> None:
        """Packets wait for it natively; those that come when it is known must not pass them by."""
        found = 0
        with flowing(wires, ROUTER, place) as (here, far, _):
            for turn in range(FLOWS if place == "auto" else MOST_FLOWS):
                frames = [numbered(n, wires[0].b.mac, False, f"10.0.1.{10 + turn}") for n in range(600)]
                before = len(far.numbers)
                send(here, frames[:20])
                wait_for(lambda asked=turn + 1: len(far.asked) >= asked)
                far.answer(f"10.0.1.{10 + turn}")
                send(here, frames[20:], 60)
                found += overtaken(settled(far, before + 300, pause=0.1)[before:])
                if found:
                    break
        assert (found > 0) == (place == LOOSE)

    def test_large_packets_are_cut_natively(self, wires: tuple[Pair, Pair]) -> None:
        """The parts know the gate, too."""
        with flowing(wires, ROUTER, "auto", MTU1="600") as (here, far, router):
            router.write("out1/arpq.insert", f"{TO} {FAR}")
            send(here, [numbered(n, wires[0].b.mac, False, size=1000 if n % 200 == 5 else 30) for n in range(1000)])
            assert overtaken(settled(far, 500)) == 0
            assert sum(ups(router).values()) > 0

    @pytest.mark.parametrize(
        "change", [("DropBroadcasts", "DropBroadcasts -> Counter"), ("SNIFFER", "BURST 16, SNIFFER")]
    )
    def test_a_reload_goes_on_with_the_gates(self, wires: tuple[Pair, Pair], change: tuple[str, str]) -> None:
        """Of an element more, and of devices that are opened anew."""
        with flowing(wires, ROUTER, "auto") as (here, far, router):
            router.write("out1/arpq.insert", f"{TO} {FAR}")
            frames = some_slow(wires[0].b.mac)
            send(here, frames[:500])
            first = router.parts[0]
            assert router.parts[0].keeper is not None and keepers() == 1
            router.reload(ROUTER.replace(*change))
            assert router.parts[0] is not first and keepers() == 1
            send(here, frames[500:])
            assert overtaken(settled(far, 1000)) == 0
            wait_for(lambda: not gates_up(router))
            assert sum(ups(router).values()) >= 4
        wait_for(lambda: keepers() == 0)


def keepers() -> int:
    return sum(thread.name == "mezzo-gates" for thread in threading.enumerate())


# -- without wires


def test_frames_know_the_gate_until_they_are_free() -> None:
    arena = Arena(64)
    first, other = arena.take_frame(), arena.take_frame()
    Packet(arena, first).put("gate", GATE | 7)
    packet = arena.adopt(first, 256, 60)
    assert held_gates(arena, GATES) == {7}
    copy = packet.clone()
    assert copy is not None and copy.get("gate") == GATE | 7
    arena.free(packet.frame)
    assert held_gates(arena, GATES) == {7}
    arena.lend(copy.frame)
    assert held_gates(arena, GATES) == {7}  # to be sent
    arena.give_frame(copy.frame)
    assert held_gates(arena, GATES) == set()
    assert arena.take_frame() == copy.frame and held_gates(arena, GATES) == set()  # to be filled
    arena.give_frame(other)
    arena.give_frame(copy.frame)
    arena.close()
