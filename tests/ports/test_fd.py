"""Frames over descriptors: every encapsulation, a reader that never stalls, and an end that is noticed."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.device import connect
from mezzo.targets import target_names
from tests.ports.netlab import End, inside, ip, namespace, raw_socket
from tests.ports.test_packet import frame, ours, router, run_until

both_targets = pytest.mark.parametrize("target", target_names())
SEVERAL = [frame(k, size) for k, size in enumerate([60, 61, 777, 1514] * 2)]  # fewer than max_dgram_qlen
TUNSETIFF, IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x4004_54CA, 0x2, 0x1000, 0x4000
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture(params=["dgram", "seqpacket"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    kind = socket.SOCK_DGRAM if request.param == "dgram" else socket.SOCK_SEQPACKET
    left, right = socket.socketpair(socket.AF_UNIX, kind)
    left.setblocking(False)
    with left, right:
        yield left, right


def graph(right: socket.socket, options: str = "") -> str:
    device = f"{right.fileno()}, METHOD FD{options}"
    return f"f :: FromDevice({device}) -> c :: Collect; i :: Feed -> Queue -> t :: ToDevice({device})"


def exchange(made: Router, left: socket.socket, packets: list[bytes]) -> list[bytes]:
    """Feeds packets to the router's sending end; what arrives at the other."""
    made.feed("i", packets)
    found: list[bytes] = []
    for _ in range(200):
        made.run(seconds=0.005)
        try:
            while True:
                found.append(left.recv(65536))
        except BlockingIOError:
            if len(found) >= len(packets):
                break
    return found


def llc(data: bytes) -> bytes:
    return data[:12] + (len(data) - 6).to_bytes(2, "big") + bytes.fromhex("aaaa03000000") + data[12:]


WAYS = {"": bytes, "ENCAP PI": lambda d: b"\0\0" + d[12:14] + d, "ENCAP LLC": llc}


@both_targets
@pytest.mark.parametrize("way", list(WAYS))
def test_frames_cross_in_each_encapsulation(ends: Ends, target: str, way: str) -> None:
    left, right = ends
    with Router.from_click(graph(right, f", {way}" if way else ""), target=target, frames=4096) as made:
        on_wire = [WAYS[way](data) for data in SEVERAL]
        assert exchange(made, left, SEVERAL) == on_wire
        for data in on_wire:
            left.send(data)
        run_until(made, "c", len(SEVERAL), 2)
        assert made.collect("c") == SEVERAL
        assert made.conservation().balanced
        assert made.drops() == {}


def test_llc_without_snap_and_padding(ends: Ends) -> None:
    left, right = ends
    spanning_tree = bytes.fromhex("0180c2000000" "020000000001" "0026" "424203") + bytes(43)
    short = frame(1, 20)
    with Router.from_click(graph(right, ", ENCAP LLC"), frames=4096) as made:
        assert exchange(made, left, [spanning_tree]) == [spanning_tree]
        left.send(spanning_tree)
        left.send(llc(short).ljust(60, b"\0"))
        run_until(made, "c", 2, 2)
        assert made.collect("c") == [spanning_tree, short]


@both_targets
def test_the_other_end_is_never_stalled(ends: Ends, target: str) -> None:
    """No frame is free, and still everything is read; what could not be kept is counted."""
    left, right = ends
    text = f"f :: FromDevice({right.fileno()}, METHOD FD) -> q :: Queue -> Idle"
    with Router.from_click(text, target=target, frames=100) as made:
        sent = 0
        for _ in range(300):
            try:
                left.send(frame(sent))
                sent += 1
            except BlockingIOError:
                made.run(seconds=0.005)
        made.run(seconds=0.02)
        assert sent > 200
        assert int(made.read("f.count")) == int(made.read("q.length")) > 0
        assert int(made.read("f.count")) + int(made.read("f.overflows")) == sent


def test_what_no_frame_holds_is_counted(ends: Ends) -> None:
    left, right = ends
    with Router.from_click(graph(right), frames=256) as made:
        left.send(frame(1, 4000))
        left.send(frame(2))
        run_until(made, "c", 1, 2)
        assert made.collect("c") == [frame(2)]
        assert made.read("f.too_long") == "1"


@both_targets
def test_what_the_other_end_does_not_read_waits(ends: Ends, target: str) -> None:
    left, right = ends
    packets = [frame(k, 1000) for k in range(2000)]
    text = f"i :: Feed -> q :: Queue(3000) -> t :: ToDevice({right.fileno()}, METHOD FD)"
    with Router.from_click(text, target=target, frames=4096) as made:
        right.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        assert exchange(made, left, packets) == packets
        assert int(made.read("t.waits")) > 0
        assert made.drops() == {}


def test_the_end_is_noticed() -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    said: list[str] = []
    text = graph(right).replace("FD)", "FD, STOP true)", 1)
    with right, Router.from_click(text) as made:
        made.say = said.append  # type: ignore[method-assign]
        left.send(frame(1))
        left.close()
        assert made.run(seconds=5) == "stopped"
        assert made.collect("c") == [frame(1)]
        assert said == [f"f: descriptor {right.fileno()}: the other end was closed"]
        assert "state\tgone" in made.read("f.port")
        made.feed("i", [frame(2)] * 3)
        made.run(seconds=0.02)
        assert made.read("t.gone") == "3"


def test_the_giver_may_close_its_descriptor(ends: Ends) -> None:
    left, right = ends
    with Router.from_click(graph(right)) as made:
        right.close()
        left.send(frame(1))
        run_until(made, "c", 1, 2)
        assert made.collect("c") == [frame(1)]


def test_what_keeps_no_boundaries_is_refused() -> None:
    reading, writing = os.pipe()
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with left, right, open(os.devnull, "rb") as null:
        for number, what in ((reading, "a pipe"), (right.fileno(), "a stream socket"), (null.fileno(), "a file")):
            with pytest.raises(MezzoError, match=f"descriptor {number} is {what}"):
                Router.from_click(f"FromDevice({number}, METHOD FD) -> Discard")
    os.close(reading)
    os.close(writing)
    for text, match in (("eth0", "`eth0` is no descriptor"), ("987", "descriptor 987: Bad file descriptor")):
        with pytest.raises(MezzoError, match=match):
            Router.from_click(f"FromDevice({text}, METHOD FD) -> Discard")


def test_an_encapsulation_that_is_not_known(ends: Ends) -> None:
    with pytest.raises(MezzoError, match="ENCAP: expected DIX, LLC or PI, not ATM"):
        Router.from_click(graph(ends[1], ", ENCAP ATM"))


def test_from_python(ends: Ends) -> None:
    left, right = ends
    with connect("fd", str(right.fileno())) as device:
        assert device.send([frame(1)]) == 1
        assert left.recv(2000) == frame(1)
        left.send(frame(2))
        assert device.receive(seconds=2) == [frame(2)]


# -- taps that somebody else opened


def open_tap(flags: int) -> int:
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", b"t0", IFF_TAP | flags))
    return descriptor


@pytest.mark.needs_root
@both_targets
@pytest.mark.parametrize("flags, way", [(IFF_NO_PI, "DIX"), (0, "PI")])
def test_a_tap_of_somebody_else(target: str, flags: int, way: str) -> None:
    with namespace() as ns, inside(ns):
        descriptor = open_tap(flags)
        ip("link", "set", "t0", "up", ns=ns)
        device = f"{descriptor}, METHOD FD, ENCAP {way}"
        text = f"""FromDevice({device}) -> Classifier(12/88b5) -> c :: Collect;
                   i :: Feed -> Queue -> t :: ToDevice({device})"""
        with router(ns, text, target=target) as made, raw_socket(End(ns, "t0", "")) as host:
            host.send(frame(1))
            run_until(made, "c", 1)
            assert made.collect("c") == [frame(1)]
            made.feed("i", SEVERAL)
            run_until(made, "t", len(SEVERAL))
            made.run(seconds=0.01)
            assert ours(host, len(SEVERAL)) == SEVERAL
        assert os.get_blocking(descriptor)
        os.close(descriptor)


@pytest.mark.needs_root
def test_a_tap_with_something_else_in_front_is_refused() -> None:
    cases: list[tuple[int, str, str]] = [
        (IFF_NO_PI, "PI", "with IFF_NO_PI, so ENCAP PI is wrong"),
        (0, "DIX", "without IFF_NO_PI, so ENCAP DIX is wrong"),
        (IFF_NO_PI | IFF_VNET_HDR, "DIX", "with virtio-net headers"),
    ]
    for flags, way, match in cases:
        with namespace() as ns, inside(ns):
            descriptor = open_tap(flags)
            try:
                with pytest.raises(MezzoError, match=match):
                    Router.from_click(f"FromDevice({descriptor}, METHOD FD, ENCAP {way}) -> Discard")
            finally:
                os.close(descriptor)
