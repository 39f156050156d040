"""Parts as a plan makes them: a root program for each device input, and the ways by which packets leave it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from mezzo.base import bpf
from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.types import PACKET, U8, U32, U64, VOID
from mezzo.packet.arena import HEADROOM, Arena
from mezzo.targets.kernel import Part, record
from mezzo.targets.kernel.plan import KernelPlan, punt
from mezzo.targets.kernel.roads import usual_first
from tests.ports import netlab
from tests.targets.native_units import P, bump, c, plain, unit_of
from tests.targets.test_kernel_ops import process

pytestmark = pytest.mark.needs_root
DROP, PASS, TX, REDIRECT = 1, 2, 3, 4
FRAME = bytes(range(64))
COUNT = State("n", "scalar", U64)
FIRST = ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))


def device() -> Unit:
    """Counts, and sends on: what a device's kernel half does."""
    return process(bump("n"), ops.Return(c(0)), states=(COUNT,))


def chooses(*before: ops.Stmt) -> Unit:
    """By the first byte: to output 0 or 1, or up as it came."""
    up = ops.If(ops.Cmp("eq", FIRST, c(9)), (ops.Return(c(ops.PUNT)),))
    return process(*before, up, bump("n"), ops.Resize("strip", P, c(4)), ops.Return(FIRST), states=(COUNT,))


def plan_of(middle: Unit) -> KernelPlan:
    """Two inputs, an element, two devices: that of the first input, and the loopback; what comes last is native."""
    devices = [Linked(name, device(), (to,), ()) for name, to in (("in0", (2, 0)), ("in1", (2, 0)))]
    ways = Linked("x", middle, ((3, 0), (4, 0), (5, 0)), (None,))
    outs = [Linked(name, device(), (None,), (None,)) for name in ("out0", "out1")]
    last = Linked("last", unit_of(), (), (None,))
    return KernelPlan(
        Program((*devices, ways, *outs, last), (), ()),
        placed=(0, 1, 2, 3, 4),
        entries=((0, 0), (1, 0)),
        ups=((2, 0), (5, 0)),
        ways={(2, punt(0)): 0, (2, 2): 1},
        wires={(3, 0): 3, (4, 0): 4},
        devices={0: "eth0", 1: "lo", 3: "eth0", 4: "lo"},
    )


@contextmanager
def part_of(plan: KernelPlan) -> Iterator[Part]:
    part = Part.of(plan, plain(plan.program), use_disk=False)
    try:
        yield part
    finally:
        part.close()


@contextmanager
def with_socket(part: Part, name: str) -> Iterator[None]:
    """With a socket in a map, for queue 0."""
    with socket.socket(44, socket.SOCK_RAW, 0) as xsk:
        bpf.map_put(part.maps.descriptors[name], bytes(4), struct.pack("=I", xsk.fileno()))
        yield


def packet(kind: int, then: int = 0) -> bytes:
    return bytes([kind, 1, 2, 3, then, *FRAME[5:]])


def test_each_input_has_a_root_and_the_wires_are_as_seen_from_there() -> None:
    with part_of(plan_of(chooses())) as part:
        key = struct.pack("=I", part.plan.keys[3]), struct.pack("=I", part.plan.keys[4])
        assert key == (struct.pack("=I", 0), struct.pack("=I", 1))
        assert bpf.test_run(part.roots[0].fd, b"", packet(0, 0)).verdict == TX
        assert bpf.test_run(part.roots[1].fd, b"", packet(0, 1)).verdict == TX
        assert bpf.test_run(part.roots[0].fd, b"", packet(0, 1)).verdict == DROP
        assert part.drops(4) == {"no device": 1}
        bpf.map_put(part.maps.descriptors["devices"], key[1], struct.pack("=I", socket.if_nametoindex("lo")))
        sent = bpf.test_run(part.roots[0].fd, b"", packet(0, 1))
        assert (sent.verdict, sent.packet, sent.metadata) == (REDIRECT, bytes([1, *FRAME[5:]]), b"")
        assert [part.cells[i]["n"].value for i in range(5)] == [3, 1, 4, 1, 3]


def test_what_goes_up_has_a_record_and_needs_a_socket() -> None:
    with part_of(plan_of(chooses())) as part:
        assert bpf.test_run(part.roots[1].fd, b"", packet(0, 2)).verdict == DROP
        assert part.drops(2) == {"up without socket": 1}
        with with_socket(part, "sockets1"):
            up = bpf.test_run(part.roots[1].fd, b"", packet(0, 2))
            assert bpf.test_run(part.roots[0].fd, b"", packet(0, 2)).verdict == DROP
        assert (up.verdict, up.packet, len(up.metadata)) == (REDIRECT, packet(0, 2), record.SIZE)
        assert struct.unpack_from("=IHH", up.metadata) == (1, HEADROOM, HEADROOM + 4)


def test_a_record_that_has_no_room_is_a_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "SIZE", 304)  # more than the kernel takes
    with part_of(plan_of(chooses())) as part, with_socket(part, "sockets0"):
        assert bpf.test_run(part.roots[0].fd, b"", packet(0, 2)).verdict == DROP
        assert part.drops(2) == {"no room for the record": 1}


@pytest.mark.parametrize("there", [4, 72, 200])
def test_metadata_of_a_driver_goes(there: int) -> None:
    with part_of(plan_of(chooses())) as part, with_socket(part, "sockets0"):
        up = bpf.test_run(part.roots[0].fd, bytes(range(there)), packet(0, 2))
        assert (up.verdict, up.packet, len(up.metadata)) == (REDIRECT, packet(0, 2), record.SIZE)
        assert struct.unpack_from("=IHH", up.metadata) == (1, HEADROOM, HEADROOM + 4)


def test_a_packet_that_is_punted_is_as_it_came() -> None:
    with part_of(plan_of(chooses())) as part, with_socket(part, "sockets0"):
        up = bpf.test_run(part.roots[0].fd, b"", packet(9))
        assert (up.verdict, up.packet) == (REDIRECT, packet(9))
        assert struct.unpack_from("=IHH", up.metadata) == (0, HEADROOM, HEADROOM)
        assert part.cells[2]["n"].value == 0
        arena = Arena(4)
        held = arena.make(0)
        assert record.unpack(arena, held, up.metadata, up.packet) == 0
        assert (bytes(held), held.mark("net"), bytes(held.anno)) == (packet(9), None, bytes(48))


def test_a_punt_knows_the_input() -> None:
    params = (Param("port", U32), Param("p", PACKET))
    unit = unit_of(Function("push", params, VOID, (ops.Emit(c(ops.PUNT), P),)))
    first = Linked("in", device(), ((1, 1),), ())
    program = Program((first, Linked("x", unit, (), (None, None))), (), ())
    plan = KernelPlan(program, (0, 1), ((0, 0),), ((1, 1),), {(1, punt(0)): 7, (1, punt(1)): 8}, {}, {0: "lo"})
    with part_of(plan) as part, with_socket(part, "sockets0"):
        assert struct.unpack_from("=I", bpf.test_run(part.roots[0].fd, b"", FRAME).metadata) == (8,)


def test_a_wire_without_device_is_the_host() -> None:
    plan = plan_of(chooses())
    plan = KernelPlan(
        plan.program, plan.placed, plan.entries, plan.ups, plan.ways, plan.wires, {0: "eth0", 1: "lo", 3: "eth0"}
    )
    with part_of(plan) as part:
        assert bpf.test_run(part.roots[0].fd, b"", packet(0, 1)).verdict == PASS


def test_packets_of_several_buffers_go_up_whole() -> None:
    plan = plan_of(chooses())
    part = Part.of(plan, plain(plan.program), frags=True, use_disk=False)
    with with_socket(part, "sockets0"):
        long = packet(0) * 120
        up = bpf.test_run(part.roots[0].fd, b"", long, room=9000)
        assert struct.unpack_from("=IHH", up.metadata) == (record.WHOLE, HEADROOM, HEADROOM)
        assert (up.verdict, up.packet, part.cells[0]["n"].value) == (REDIRECT, long, 0)
        assert bpf.test_run(part.roots[0].fd, b"", packet(0)).verdict == TX
    part.close()


def test_a_part_of_several_programs_is_one_for_each_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mezzo.targets.kernel.roads.MOST_NODES", 3)
    with part_of(plan_of(chooses())) as part:
        assert len(part.programs) > 4
        assert bpf.test_run(part.roots[0].fd, b"", packet(0, 0)).verdict == TX
        assert bpf.test_run(part.roots[1].fd, b"", packet(0, 1)).verdict == TX
        assert [part.cells[i]["n"].value for i in range(5)] == [1, 1, 2, 1, 1]


def test_the_usual_way_comes_first() -> None:
    """0 -> 1 -> 2 -> 3, with a way about by 4 -> 5 that comes back to 3, and one to 6 -> 7 that does not."""
    ends = {0: (1, 6), 1: (2, 4), 2: (3,), 3: (), 4: (5,), 5: (3,), 6: (7,), 7: ()}
    linked = [Linked(str(i), device(), tuple((to, 0) for to in ends[i]), (None,)) for i in ends]
    assert usual_first(Program(tuple(linked), (), ()), list(ends)) == [0, 1, 2, 4, 5, 3, 6, 7]


MACS = b"\2\0\0\0\0\1" + b"\2\0\0\0\0\2"
NATIVE = 1 << 2  # XDP_FLAGS_DRV_MODE


def test_packets_between_namespaces_never_leave_the_kernel() -> None:
    """a -> router -> b: what comes from a is redirected to b's device."""
    if reason := netlab.usable():
        pytest.skip(reason)
    with ExitStack() as lab:
        a, r, b = (lab.enter_context(netlab.namespace()) for _ in range(3))
        left, right = lab.enter_context(netlab.veth_pair(a, r)), lab.enter_context(netlab.veth_pair(r, b))
        _redirects(r, left, right)


def _redirects(router: str, left: netlab.Pair, right: netlab.Pair) -> None:
    plan = plan_of(process(ops.Return(c(1))))
    # A veth takes redirected frames only where its peer has NAPI.
    netlab.run_in(right.b.ns, ["ethtool", "-K", right.b.name, "gro", "on"])
    with netlab.inside(router), part_of(plan) as part:
        out = struct.pack("=I", socket.if_nametoindex(right.a.name))
        bpf.map_put(part.maps.descriptors["devices"], struct.pack("=I", 1), out)
        link = bpf.create_link(part.roots[0].fd, socket.if_nametoindex(left.b.name), NATIVE)
        try:
            with netlab.raw_socket(right.b) as receiver, netlab.raw_socket(left.a, receive=False) as sender:
                receiver.settimeout(5)
                frames = [MACS + b"\x88\xb5" + bytes(50) + bytes([n]) for n in range(20)]
                for frame in frames:
                    sender.send(frame)
                assert [receiver.recv(2000) for _ in frames] == frames
        finally:
            os.close(link)
        assert [part.cells[i]["n"].value for i in (0, 1, 3, 4)] == [20, 0, 0, 20]
