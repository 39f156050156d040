"""Packets from a wire to a wire: verdicts, and the bytes that an interface would see."""

from __future__ import annotations

import struct

import pytest

from mezzo.base import bpf
from mezzo.ir import ops
from mezzo.ir.module import Linked, Program, State
from mezzo.ir.types import U8, U32, U64
from mezzo.targets.kernel import Part
from mezzo.targets.kernel.layout import Map
from mezzo.targets.kernel.roads import Wire
from tests.targets.native_units import P, bump, c, plain
from tests.targets.test_kernel_ops import process

pytestmark = pytest.mark.needs_root
DROP, PASS, TX, REDIRECT = 1, 2, 3, 4
FRAME = bytes(range(64))


def wired(*body: ops.Stmt, wires: dict[tuple[int, int], Wire], more: dict[str, Map] | None = None) -> Part:
    unit = process(*body, states=(State("n", "scalar", U64),))
    program = Program((Linked("x", unit, (None, None, None), (None,)),), (), ())
    return Part(program, [0], [(0, 0)], plain(program), wire=True, wires=wires, more=more, use_disk=False)


def test_verdicts_and_what_is_cut() -> None:
    port = ops.Cast(U32, ops.PLoad(U8, P, "data", c(0)))
    steps = (
        bump("n"),
        ops.Set("to", port),
        ops.Resize("strip", P, c(4)),
        ops.If(ops.Cmp("eq", port, c(9)), (ops.Resize("prepend", P, c(50)), ops.PStore(P, "data", c(0), c(5, U8)))),
        ops.Return(ops.Bin("mod", U32, ops.Local(U32, "to"), c(3))),
    )
    part = wired(*steps, wires={(0, 0): Wire("pass"), (0, 1): Wire("tx")})
    seen = [bpf.test_run(part.fd, b"", bytes([first, *FRAME[1:4], second, *FRAME[5:]]))
            for first, second in ((0, 4), (1, 4), (2, 4), (0, 9))]  # fmt: skip
    assert [one.verdict for one in seen] == [PASS, TX, DROP, PASS]
    assert seen[0].packet == seen[1].packet == FRAME[4:]
    assert seen[3].packet[46:] == bytes([0, 1, 2, 3, 9, *FRAME[5:]])
    assert (len(seen[3].packet), seen[3].packet[0], seen[3].metadata) == (64 - 4 + 50, 5, b"")
    assert (part.cells[0]["n"].value, part.drops(0)) == (4, {"no output": 1})
    part.close()


def test_what_is_shorter_than_an_ethernet_header_does_not_leave() -> None:
    part = wired(ops.Resize("strip", P, c(60)), ops.Return(c(0)), wires={(0, 0): Wire("tx")})
    assert bpf.test_run(part.fd, b"", FRAME).verdict == DROP
    assert part.drops(0) == {"fault": 1}
    part.close()


def test_redirect_by_a_map_of_interfaces() -> None:
    maps = {"devices": Map(bpf.MAP_DEVMAP, 4, 4, 4)}
    part = wired(ops.Return(c(0)), wires={(0, 0): Wire("redirect", "devices", 2)}, more=maps)
    assert bpf.test_run(part.fd, b"", FRAME).verdict != REDIRECT  # nobody is there
    bpf.map_put(part.maps.descriptors["devices"], struct.pack("=I", 2), struct.pack("=I", 1))  # the loopback
    assert bpf.test_run(part.fd, b"", FRAME).verdict == REDIRECT
    part.close()


def test_a_counter_that_python_sets_loses_nothing() -> None:
    part = wired(bump("n"), ops.Return(c(0)), wires={(0, 0): Wire("pass")})
    cell = part.cells[0]["n"]
    bpf.test_run(part.fd, b"", FRAME, repeat=5)
    assert cell.value == 5
    cell.value = 100
    bpf.test_run(part.fd, b"", FRAME, repeat=3)
    assert cell.value == 103
    part.close()


def test_what_is_only_added_to_and_taken_from_has_lanes() -> None:
    less = ops.Put("n", ops.Bin("sub", U64, ops.Get(U64, "n"), c(1, U64)))
    part = wired(bump("n"), bump("n"), less, ops.Return(c(0)), wires={(0, 0): Wire("pass")})
    bpf.test_run(part.fd, b"", FRAME, repeat=5)
    assert part.layout.places[0, "n"].is_lane
    assert part.cells[0]["n"].value == 5
    part.close()
