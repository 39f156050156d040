"""Gates as programs have them: what goes up raises that of its flow, and behind it all goes up; and who lowers them."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from mezzo.base import bpf
from mezzo.packet.arena import HEADROOM, Arena, Packet
from mezzo.ports._gates import Keeper
from mezzo.targets.kernel import Part, record
from mezzo.targets.kernel.gates import GATE, GATES, SYMBOL
from mezzo.wire import build
from tests.targets.native_units import plain
from tests.targets.test_kernel_plan import REDIRECT, TX, chooses, part_of, plan_of, with_socket

pytestmark = pytest.mark.needs_root
OUT, UP = 0, 9  # what the first byte says


@contextmanager
def gated(**more: Any) -> Iterator[Part]:
    plan = replace(plan_of(chooses()), ordered=True, overtaken=True, **more)
    with part_of(plan) as part, with_socket(part, "sockets0"):
        yield part


def ip4(way: int, source: str = "10.0.0.1", target: str = "10.0.0.2", **more: Any) -> bytes:
    body = build.udp(more.pop("port", 7), 53, bytes(more.pop("size", 20)))
    packet = build.ip(source, target, 17, body, **more)
    return bytes([way]) + build.ether("0:0:0:0:0:7", "0:2:0:0:0:1", 0x0800, packet)[1:]


def ip6(way: int, last: int = 2, next_header: int = 17) -> bytes:
    header = struct.pack(">IHBB", 0x6000_0000, 8, next_header, 64) + bytes(15) + b"\1" + bytes(15) + bytes([last])
    return bytes([way]) + bytes(11) + b"\x86\xdd" + header + bytes(8)


def other(way: int, source: int = 1, kind: int = 0x88B5, size: int = 60) -> bytes:
    """Its gate is that of all its Ethernet header."""
    return (bytes([way]) + bytes(10) + bytes([source]) + kind.to_bytes(2, "big")).ljust(size, b"\0")


def run(part: Part, frame: bytes) -> tuple[int, int, int]:
    """(verdict, way, gate)."""
    told = bpf.test_run(part.roots[0].fd, b"", frame)
    way, gate = struct.unpack_from("=HH", told.metadata or bytes(4))
    return told.verdict, way, gate


def words(part: Part, gate: int) -> tuple[int, int]:
    at = 8 * (gate & (GATES - 1))
    return struct.unpack("=II", part.views.view(SYMBOL)[at : at + 8])  # type: ignore[return-value]


def lower(part: Part, gate: int) -> None:
    at = 8 * (gate & (GATES - 1))
    part.views.put(SYMBOL, at + 4, 4, words(part, gate)[0])


def test_behind_what_is_up_a_flow_goes_up_as_it_came() -> None:
    with gated() as part:
        assert run(part, ip4(OUT))[0] == TX
        verdict, way, gate = run(part, ip4(UP))
        assert (verdict, way) == (REDIRECT, 0) and gate & GATE and words(part, gate) == (1, 0)
        told = bpf.test_run(part.roots[0].fd, b"", ip4(OUT, port=9))
        assert struct.unpack_from("=HHHH", told.metadata) == (record.WHOLE, gate, HEADROOM, HEADROOM)
        assert told.packet == ip4(OUT, port=9) and words(part, gate) == (2, 0)
        assert [part.cells[i]["n"].value for i in (0, 2, 3)] == [2, 1, 1]  # it was counted nowhere
        assert run(part, ip4(OUT, target="10.0.0.3"))[0] == TX
        lower(part, gate)
        assert run(part, ip4(OUT, port=9))[0] == TX
        assert run(part, ip4(UP)) == (REDIRECT, 0, gate) and words(part, gate) == (3, 2)


@pytest.mark.parametrize(
    ("first", "same", "another"),
    [
        (ip4(UP), ip4(UP, port=99, frag=5, id=4, ttl=9, size=900), ip4(UP, source="10.0.0.2", target="10.0.0.1")),
        (ip4(UP), ip4(UP, options=b"\1\1\1\0"), ip4(UP, source="10.0.0.9")),
        (ip6(UP), ip6(UP, next_header=44), ip6(UP, last=3)),
        (other(UP), other(UP, size=14), other(UP, source=2)),
        (other(UP), other(UP, size=900), other(UP, kind=0x88B6)),
        (other(UP, kind=0x8100), other(UP, kind=0x8100, size=100), other(UP)),
        (other(UP, kind=0x0800, size=33), other(UP, kind=0x0800, size=33), other(UP, kind=0x86DD, size=53)),
    ],
)
def test_a_flow_is_known_by_what_all_its_packets_have(first: bytes, same: bytes, another: bytes) -> None:
    with gated() as part:
        verdict, way, gate = run(part, first)
        assert (verdict, way, gate & GATE) == (REDIRECT, 0, GATE)
        assert run(part, same) == (REDIRECT, record.WHOLE, gate)
        verdict, way, its = run(part, another)
        assert (verdict, way) == (REDIRECT, 0) and its != gate


def test_flows_spread_over_the_gates() -> None:
    with gated() as part:
        found = {run(part, ip4(UP, target=f"10.0.{n // 100}.{n % 100 + 1}"))[2] for n in range(500)}
        assert len(found) > 440 and all(GATE <= gate < 2 * GATES for gate in found)
        found = {run(part, ip6(UP, last=n))[2] for n in range(200)}
        assert len(found) > 180


def test_the_gate_goes_along_between_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mezzo.targets.kernel.roads.MOST_NODES", 3)
    with gated() as part:
        assert len(part.programs) > 2
        whole = run(part, ip4(UP))
        assert whole[0] == REDIRECT and words(part, whole[2]) == (1, 0)


def test_what_dies_for_want_of_a_socket_raises_nothing() -> None:
    plan = replace(plan_of(chooses()), ordered=True, overtaken=True)
    with part_of(plan) as part:
        assert run(part, ip4(UP))[0] == 1
        assert not any(part.views.view(SYMBOL)[: 8 * GATES])
        assert run(part, ip4(OUT))[0] == TX


def test_who_needs_no_gates_has_none() -> None:
    plan = plan_of(chooses())
    for what in (plan, replace(plan, ordered=True), replace(plan, overtaken=True)):
        with part_of(what) as part:
            assert SYMBOL not in part.layout.maps
    # What comes in several buffers goes up, and may be overtaken by what leaves by a wire.
    part = Part.of(replace(plan, ordered=True), plain(plan.program), frags=True, use_disk=False)
    assert SYMBOL in part.layout.maps
    with with_socket(part, "sockets0"):
        told = bpf.test_run(part.roots[0].fd, b"", ip4(OUT, size=4000), room=9000)
        way, gate = struct.unpack_from("=HH", told.metadata)
        assert way == record.WHOLE and gate & GATE
        assert run(part, ip4(OUT)) == (REDIRECT, record.WHOLE, gate)
    part.close()


def test_another_part_goes_on_with_the_gates() -> None:
    plan = replace(plan_of(chooses()), ordered=True, overtaken=True)
    with part_of(plan) as part, with_socket(part, "sockets0"):
        gate = run(part, ip4(UP))[2]
        new = Part.of(plan, plain(plan.program), use_disk=False, before=part)
        assert run(new, ip4(OUT)) == (REDIRECT, record.WHOLE, gate)
        new.close()


# -- who lowers them


class Host:
    """A router of which the keeper sees an arena, and one receive ring."""

    def __init__(self) -> None:
        self.arena, self.router, self.sockets, self.rings = Arena(64), self, [self], {"rx": self}
        self.ring = (ctypes.c_uint32 * 2)()
        self.producer, self.consumer = (ctypes.addressof(self.ring) + at for at in (0, 4))
        self.lock = threading.Lock()

    def at_rest(self, job: Callable[[], Any]) -> Any:
        with self.lock:
            return job()


@contextmanager
def kept() -> Iterator[tuple[Part, Host, Keeper]]:
    host = Host()
    with gated() as part:
        keeper = Keeper(part, [host])
        yield part, host, keeper
        keeper.close()
        keeper._thread.join(5)
        assert not keeper._thread.is_alive()
        host.arena.close()


def ring(keeper: Keeper) -> None:
    os.eventfd_write(keeper._event, 1)


def soon(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + 5
    while not condition() and time.monotonic() < end:
        time.sleep(0.002)
    return condition()


def test_a_gate_is_lowered_when_nobody_has_a_packet_of_it() -> None:
    with kept() as (part, host, keeper):
        frame = host.arena.take_frame()
        gate, another = run(part, ip4(UP))[2], run(part, ip4(UP, target="10.0.0.3"))[2]
        Packet(host.arena, frame).put("gate", gate)
        ring(keeper)
        assert soon(lambda: words(part, another) == (1, 1))
        looks = keeper.looks
        assert soon(lambda: keeper.looks > looks + 1) and words(part, gate) == (1, 0)
        host.arena.give_frame(frame)
        assert soon(lambda: words(part, gate) == (1, 1))
        assert run(part, ip4(OUT))[0] == TX


def test_no_gate_is_lowered_before_receive_rings_are_read() -> None:
    with kept() as (part, host, keeper):
        host.ring[0], host.ring[1] = 3, 0xFFFF_FFFE  # five packets wait
        gate = run(part, ip4(UP))[2]
        ring(keeper)
        assert soon(lambda: keeper.looks > 2) and words(part, gate) == (1, 0)
        host.ring[1] = 3
        assert soon(lambda: words(part, gate) == (1, 1))


def test_what_goes_up_meanwhile_keeps_a_gate_up() -> None:
    with kept() as (part, _, keeper):
        gate = run(part, ip4(UP))[2]
        assert keeper._up() == {gate & (GATES - 1): 1}
        run(part, ip4(UP))
        assert keeper._lower({gate & (GATES - 1): 1}, []) == 1
        assert words(part, gate) == (2, 1) and run(part, ip4(OUT))[1] == record.WHOLE


def test_a_keeper_that_goes_on_with_another_part_is_not_closed_with_the_first() -> None:
    with kept() as (part, host, keeper):
        plan = part.plan
        gate = run(part, ip4(UP))[2]
        new = Part.of(plan, plain(plan.program), use_disk=False, before=part)
        keeper.go_on(new, [host])
        assert (part.keeper, new.keeper) == (None, keeper)
        ring(keeper)
        assert soon(lambda: words(new, gate) == (1, 1))
        keeper.leave([host])
        assert keeper.ended
        new.close()
