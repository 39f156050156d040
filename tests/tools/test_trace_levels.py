"""A packet followed through both levels, on a real device: notes of programs and sights of native code, one path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mezzo.base import bpf
from mezzo.runtime import Router
from mezzo.runtime.paths import Path, Tracer, as_json, render
from mezzo.targets.kernel.notes import Ring
from tests.ports.netlab import Pair, inside, ip, namespace, raw_socket, veth_pair

pytestmark = pytest.mark.needs_root
TEXT = """f :: FromDevice({device}, METHOD XDP, PROMISC true) -> Paint(3) -> k :: Classifier(12/0800, 12/0806, 12/86DD);
k[0] -> s :: Strip(14) -> Discard; k[1] -> n :: Null -> q :: Queue -> d :: Discard; k[2] -> Paint(5) -> n;"""
IP, ARP, IP6, OTHER = 0x0800, 0x0806, 0x86DD, 0x88B5


@pytest.fixture
def pair() -> Iterator[Pair]:
    with namespace() as a, namespace() as b, veth_pair(a, b) as made:
        yield made


def frame(kind: int, size: int = 60) -> bytes:
    return (b"\2\0\0\0\0\1" + b"\2\0\0\0\0\2" + kind.to_bytes(2, "big") + bytes(range(200)))[:size]


@contextmanager
def traced(pair: Pair, limit: int) -> Iterator[tuple[Router, Tracer, list[Path]]]:
    done: list[Path] = []
    tracer = Tracer(limit, done.append)
    options: dict[str, Any] = {"place": "auto", "frames": 2048, "frame_size": 4096, "trace": tracer.seen}
    with inside(pair.a.ns), Router.from_click(TEXT.format(device=pair.a.name), **options) as router:
        tracer.attach(router)
        yield router, tracer, done


def follow(pair: Pair, frames: list[bytes], limit: int = 10) -> list[Path]:
    """The paths of frames that come from the wire, in their order."""
    with traced(pair, limit) as (router, tracer, done), raw_socket(pair.b) as wire:
        router.run(rounds=1)
        for data in frames:
            wire.send(data)

        def seen() -> bool:
            tracer.look()
            return len(done) >= min(limit, len(frames))

        router.run(seconds=10, until=seen)
        tracer.finish()
        return sorted(done, key=lambda path: path.number)


def steps(path: Path) -> list[tuple[str, str]]:
    return [(step.element, step.level) for step in path.steps]


def test_a_packet_that_stays_in_the_kernel(pair: Pair) -> None:
    (path,) = follow(pair, [frame(IP)])
    there = ["f", "Paint@2", "k", "s", "Discard@5"]
    assert steps(path) == [(name, "kernel") for name in there]
    assert path.end == "ended in Discard@5"
    assert path.steps[1].done == ["PAINT 3"] and path.steps[3].done[0] == "length 60 → 46"
    assert path.first.data == frame(IP) and path.last.data == frame(IP)[14:]
    shown = render(path).splitlines()
    assert shown[3].split() == ["k", "::", "Classifier", "[kernel]"]
    assert [one["level"] for one in as_json(path)["steps"]] == ["kernel"] * 5  # type: ignore[attr-defined]


def test_a_packet_that_goes_up(pair: Pair) -> None:
    first, second = follow(pair, [frame(ARP), frame(IP6, 90)])
    kernel = [name for name, level in steps(first) if level == "kernel"]
    assert kernel[:3] == ["f", "Paint@2", "k"]
    assert steps(first)[-2:] == [("q", "native"), ("d", "native")] and first.end == "ended in d"
    assert steps(second)[3][0] == "Paint@9" and second.end == "ended in d"
    assert second.last.data == frame(IP6, 90)
    assert second.last.anno[16] == 5


def test_a_packet_that_dies_in_the_kernel(pair: Pair) -> None:
    (path,) = follow(pair, [frame(OTHER)])
    assert path.end == "died in k: no pattern matches"
    assert steps(path)[-1] == ("k", "kernel")


def test_only_the_first_packets_are_followed(pair: Pair) -> None:
    paths = follow(pair, [frame(IP, 60 + n) for n in range(5)], limit=2)
    assert [len(path.first.data) for path in paths] == [60, 61]


def test_equal_packets_go_on_in_their_order(pair: Pair) -> None:
    paths = follow(pair, [frame(ARP)] * 4)
    assert [path.number for path in paths] == [1, 2, 3, 4]
    assert all(path.end == "ended in d" for path in paths)


def test_a_packet_that_a_note_has_no_room_for(pair: Pair) -> None:
    """Its first bytes are told, and it is known again by them."""
    for end in (pair.a, pair.b):
        ip("link", "set", end.name, "mtu", "3000", ns=end.ns)
    whole = frame(ARP) + bytes(2400)
    first, second = follow(pair, [whole, frame(ARP)])
    assert [path.end for path in (first, second)] == ["ended in d"] * 2
    assert len(first.first.data) == 2048 and first.last.data == whole


def test_notes_that_the_ring_has_no_room_for_are_counted(pair: Pair) -> None:
    """Each note of a large packet takes two kilobytes; nobody reads."""
    with traced(pair, 0) as (router, _, _):
        part, ring = router.parts[0], Ring(router.parts[0])
        ring.follow(1000)
        bpf.test_run(part.roots[0].fd, b"", frame(IP) + bytes(1400), repeat=1000)
        assert ring.lost > 0
        notes = list(ring.read())
        assert notes and notes[0].number == 1 and all(note.packet for note in notes if note.kind == "in")
        before = ring.lost
        ring.follow(1)
        bpf.test_run(part.roots[0].fd, b"", frame(IP))
        assert [note.kind for note in ring.read()] == ["in"] * 5 + ["dead"] and ring.lost == before
        ring.close()
