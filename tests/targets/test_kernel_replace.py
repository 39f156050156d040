"""Programs that are put in the place of others while packets come: state stays, and no packet meets no program."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest

from mezzo.base import bpf
from mezzo.ir import ops
from mezzo.ir.module import Linked, Program, State, Unit
from mezzo.ir.types import U32, U64
from mezzo.targets.kernel import Part
from mezzo.targets.kernel.plan import KernelPlan
from tests.ports import netlab
from tests.targets.native_units import P, bump, c, plain
from tests.targets.test_kernel_ops import process
from tests.targets.test_kernel_plan import FRAME, MACS, NATIVE, REDIRECT, device, with_socket

pytestmark = pytest.mark.needs_root
TABLE, ROUTES = State("seen", "table", U64, 8, U32), State("routes", "lpm", U32, 0, U32)
LAST = State("last", "scalar", U64)
BIG = State("big", "array", U64, 1000)


def counts(*steps: ops.Stmt) -> Unit:
    """Has state of each kind, and lets all pass."""
    key = ops.LpmGet(U32, "routes", c(0x0A000001), c(0))
    states = (State("n", "scalar", U64), LAST, BIG, TABLE, ROUTES)
    keep = (bump("n"), ops.Put("last", c(8 if steps else 7, U64)))
    put = ops.TablePut("", "seen", key, c(1, U64))
    return process(*keep, put, *steps, ops.Return(c(0)), states=states)


def plan_of(
    middle: Unit, name: str = "x", more: tuple[Unit, ...] = (), entry: str = "lo", out: str = "lo"
) -> KernelPlan:
    """An input, some elements in a row, an output."""
    row = [Linked("in", device(), (), ()), Linked(name, middle, (), (None,))]
    row += [Linked(f"more{n}", unit, (), (None,)) for n, unit in enumerate(more)]
    row += [Linked("out", device(), (), (None,))]
    last = len(row) - 1
    linked = tuple(replace(one, outputs=((n + 1, 0),) if n < last else (None,)) for n, one in enumerate(row))
    program = Program(linked, (), ())
    return KernelPlan(
        program, tuple(range(last + 1)), ((0, 0),), ((last, 0),), {}, {(last, 0): last}, {0: entry, last: out}
    )


def test_state_goes_on_in_the_same_maps() -> None:
    first = plan_of(counts())
    old = Part.of(first, plain(first.program), use_disk=False)
    old.cells[1]["routes"].add(0x0A000000, 8, 5)
    old.cells[1]["big"][999] = 4
    bpf.test_run(old.roots[0].fd, b"", FRAME, repeat=3)
    second = plan_of(
        counts(ops.AnnoSet(P, 0, c(1))),
        more=(process(bump("k"), ops.Return(c(0)), states=(State("k", "scalar", U64),)),),
    )
    new = Part.of(second, plain(second.program), before=old, use_disk=False)
    bpf.test_run(old.roots[0].fd, b"", FRAME)
    bpf.test_run(new.roots[0].fd, b"", FRAME)
    old.close()
    bpf.test_run(new.roots[0].fd, b"", FRAME)
    cells = new.cells[1]
    assert [new.cells[i][name].value for i, name in ((0, "n"), (1, "n"), (2, "k"))] == [6, 6, 2]
    assert (cells["last"].value, cells["big"][999]) == (8, 4)
    assert (cells["seen"].items(), list(cells["routes"].items())) == ([(5, 1)], [(0x0A000000, 8, 5)])
    new.close()


def test_state_of_another_kind_is_new() -> None:
    first, second = (
        plan_of(counts()),
        plan_of(process(bump("n"), ops.Return(c(0)), states=(State("n", "scalar", U64),))),
    )
    old = Part.of(first, plain(first.program), use_disk=False)
    bpf.test_run(old.roots[0].fd, b"", FRAME, repeat=3)
    new = Part.of(second, plain(second.program), before=old, use_disk=False)
    assert [new.cells[i]["n"].value for i in range(3)] == [3, 0, 3]
    renamed = plan_of(counts(), "y")
    third = Part.of(renamed, plain(renamed.program), before=old, keep=lambda name: name != "in", use_disk=False)
    assert [third.cells[i]["n"].value for i in range(3)] == [0, 0, 3]
    for part in (old, new, third):
        part.close()


def test_what_does_not_fit_is_copied() -> None:
    first = plan_of(counts())
    old = Part.of(first, plain(first.program), use_disk=False)
    bpf.test_run(old.roots[0].fd, b"", FRAME, repeat=3)
    large = process(ops.Return(c(0)), states=tuple(State(f"a{n}", "array", U64, 500) for n in range(3)))
    second = plan_of(counts(), more=(large,))
    cells = plain(second.program)
    cells[1]["n"].value = old.cells[1]["n"].value
    new = Part.of(second, cells, before=old, use_disk=False)
    assert not new.layout.same
    assert (new.cells[1]["n"].value, new.cells[0]["n"].value) == (3, 0)
    old.close()
    new.close()


def test_sockets_and_devices_stay_by_interface() -> None:
    first = plan_of(process(ops.Return(c(0))), entry="a", out="b")
    old = Part.of(first, plain(first.program), use_disk=False)
    bpf.map_put(old.maps.descriptors["devices"], bytes(4), struct.pack("=I", socket.if_nametoindex("lo")))
    punts = plan_of(process(ops.Return(c(ops.PUNT))), entry="a", out="b")
    up = replace(punts, ways={(1, -1): 0})
    with with_socket(old, "sockets0"):
        new, other = (Part.of(plan, plain(plan.program), before=old, use_disk=False) for plan in (up, first))
        assert bpf.test_run(new.roots[0].fd, b"", FRAME).verdict == REDIRECT
        assert bpf.test_run(other.roots[0].fd, b"", FRAME).verdict == REDIRECT
    for part in (old, new, other):
        part.close()


@pytest.mark.slow
def test_packets_do_not_notice() -> None:
    """Programs are replaced while packets come: each is counted, and leaves by one of them."""
    if reason := netlab.usable():
        pytest.skip(reason)
    with ExitStack() as lab:
        a, r, b = (lab.enter_context(netlab.namespace()) for _ in range(3))
        left, right = lab.enter_context(netlab.veth_pair(a, r)), lab.enter_context(netlab.veth_pair(r, b))
        netlab.run_in(b, ["ethtool", "-K", right.b.name, "gro", "on"])
        with netlab.inside(r):
            _replace_under_load(left, right)


def _replace_under_load(left: netlab.Pair, right: netlab.Pair) -> None:
    plans = [plan_of(unit, entry=left.b.name, out=right.a.name) for unit in (counts(), counts(ops.AnnoSet(P, 0, c(1))))]
    part = Part.of(plans[0], plain(plans[0].program))
    bpf.map_put(part.maps.descriptors["devices"], bytes(4), struct.pack("=I", socket.if_nametoindex(right.a.name)))
    link = bpf.create_link(part.roots[0].fd, socket.if_nametoindex(left.b.name), NATIVE)
    sent, done = [0], threading.Event()

    def send() -> None:
        with netlab.raw_socket(left.a, receive=False) as sender:
            while not done.is_set() or sent[0] < 2000:
                sender.send(MACS + b"\x88\xb5" + bytes(50))
                sent[0] += 1

    with netlab.raw_socket(right.b) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)  # SO_RCVBUFFORCE
        thread = threading.Thread(target=send)
        thread.start()
        for turn in range(1, 13):
            new = Part.of(plans[turn % 2], plain(plans[turn % 2].program), before=part)
            part.replaced_by(new, {left.b.name: link})
            part.close()
            part = new
        done.set()
        thread.join()
        cells = part.cells
        netlab.wait_until(lambda: cells[2]["n"].value == sent[0])
        assert [cells[i]["n"].value for i in range(3)] == [sent[0]] * 3
        got = 0
        while got < sent[0]:
            receiver.recv(100)
            got += 1
    os.close(link)
    part.close()
