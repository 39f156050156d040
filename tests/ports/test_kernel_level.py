"""Ends of devices over two levels: programs of the router on real veth pairs, records, wires, and what goes wrong."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.packet.arena import Packet
from mezzo.ports import _attach, _bpf, _ethtool, level, privileged
from mezzo.ports._risen import SIZE, WHOLE
from mezzo.runtime.router import Router
from mezzo.targets.kernel import record
from tests.ports.netlab import Pair, inside, ip, namespace, raw_socket, veth_pair, wait_until
from tests.ports.test_xdp import foreign_program
from tests.ports.xdplab import flow, frame, received, router

PLACE = ["*=kernel?", "up=native"]
pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


@contextmanager
def links(queues: int) -> Iterator[tuple[Pair, Pair]]:
    with ExitStack() as stack:
        left, middle, right = (stack.enter_context(namespace()) for _ in range(3))
        one, two = (stack.enter_context(veth_pair(host, middle, queues=queues)) for host in (left, right))
        yield one, two


@pytest.fixture
def wires() -> Iterator[tuple[Pair, Pair]]:
    """Two links of a router in one namespace to hosts in others: the router has the ends b."""
    with links(1) as pairs:
        yield pairs


def switch(one: Pair, two: Pair, more: str = "") -> str:
    """Byte 14 says where a frame goes: 0 to the other wire, 1 back, else to native code, with all that a packet has."""
    a, b = f"{one.b.name}, METHOD XDP", f"{two.b.name}, METHOD XDP"
    return (
        f"f :: FromDevice({a}{more}) -> c :: Classifier(14/00, 14/01, -); g :: FromDevice({b}{more}) -> Discard;"
        f"c[0] -> Queue -> t :: ToDevice({b}); c[1] -> Queue -> back :: ToDevice({a});"
        "c[2] -> MarkIPHeader(14) -> Strip(14) -> Paint(7) -> up :: Collect;"
    )


def give(kind: int, size: int = 60) -> bytes:
    return frame(size=size)[:14] + bytes([kind]) + bytes(n & 255 for n in range(1, size - 14))


def test_a_record_is_as_the_kernels_level_writes_it() -> None:
    assert (SIZE, WHOLE) == (record.SIZE, record.WHOLE)


@contextmanager
def running(wires: tuple[Pair, Pair], is_started: bool = True, more: str = "", **options: Any) -> Iterator[Router]:
    """The router of `switch`, quiet; packets pass it when it has run once."""
    text = switch(*wires, more)
    with Path(os.devnull).open("w") as quiet, router(wires[0].b.ns, text, place=PLACE, **options) as made:
        made.output = quiet
        if is_started:
            made.run(seconds=0)
        yield made


def test_a_kernel_without_room_for_records_is_told(wires: tuple[Pair, Pair], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _attach.takes_metadata(SIZE) and not _attach.takes_metadata(512) and _attach.RECORD == SIZE
    monkeypatch.setattr(_attach, "RECORD", 512)
    with inside(wires[0].b.ns), pytest.raises(MezzoError, match="needs 512 bytes of metadata"):
        Router.from_click(switch(*wires), place=PLACE)


def until(made: Router, name: str, count: int) -> None:
    """Runs until a handler reads at least that; packets of the kernel's level come by themselves."""
    made.run(seconds=5, until=lambda: int(made.read(name)) >= count)
    assert int(made.read(name)) == count


@pytest.mark.parametrize("more", ["", ", MODE generic"])
def test_packets_leave_by_wires_return_and_go_up(wires: tuple[Pair, Pair], more: str) -> None:
    with running(wires, more=more) as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].a) as there:
        mode = "generic copy" if more else "native copy"
        assert f"mode\t{mode}" in made.read("f.port") and "of the kernel's level, which has" in made.read("f.port")
        assert "wire\tpackets of the kernel's level leave here" in made.read("t.port")
        for kind in (0, 1, 2, 0, 1, 2):
            here.send(give(kind))
        assert received(there, 2) == [give(0)] * 2
        assert received(here, 2) == [give(1)] * 2
        until(made, "f.risen", 2)
        assert [made.read(f"{x}.count") for x in ("f", "t", "back", "g")] == ["6", "2", "2", "0"]
        assert made.read("f.byte_count") == "360"
        assert made.collect("up") == [give(2)[14:]] * 2
        assert made.conservation().balanced


def test_what_a_packet_carries_comes_up_with_it(wires: tuple[Pair, Pair]) -> None:
    with running(wires) as made, raw_socket(wires[0].a) as here:
        here.send(give(2))
        until(made, "f.risen", 1)
        ring = made.elements["up"].cell("ring")
        packet = Packet(made.arena, ring.pop())
        data = packet.get("data")
        assert (packet.get("mac"), packet.get("net")) == (data - 14, data)
        assert packet.anno[16] == 7 and bytes(packet) == give(2)[14:]
        assert packet.get("packet_type") == 3 and abs(packet.get("timestamp") - time.time_ns()) < 5e9
        assert bytes(made.arena.mem[packet.base + data - 14 : packet.base + data]) == give(2)[:14]
        made.arena.free(packet.frame)


def test_nothing_moves_before_the_router_runs(wires: tuple[Pair, Pair]) -> None:
    with running(wires, False) as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].a) as there:
        here.send(give(0))
        there.settimeout(0.05)
        with pytest.raises(TimeoutError):
            there.recv(100)
        assert made.read("f.count") == "0" and not made.drops()
        made.run(seconds=0)
        here.send(give(0, 61))
        assert received(there, 1) == [give(0, 61)]


def test_a_long_packet_goes_up_whole(wires: tuple[Pair, Pair]) -> None:
    """In several buffers: the program sees the first one only."""
    for end in (end for pair in wires for end in (pair.a, pair.b)):
        ip("link", "set", end.name, "mtu", "9000", ns=end.ns)
    with running(wires, frame_size=16384) as made, raw_socket(wires[0].a) as here, raw_socket(wires[1].a) as there:
        for size in (60, 8000, 9014):
            here.send(give(0, size))
        until(made, "t.count", 3)
        assert sorted(received(there, 3), key=len) == [give(0, size) for size in (60, 8000, 9014)]
        assert made.read("f.count") == "3" and made.read("f.byte_count") == str(60 + 8000 + 9014)
        assert made.conservation().balanced


def test_what_the_device_cannot_take_is_refused_by_the_kernels_half(wires: tuple[Pair, Pair]) -> None:
    ip("link", "set", wires[1].b.name, "mtu", "1000", ns=wires[1].b.ns)
    with running(wires) as made, raw_socket(wires[0].a) as here:
        here.send(give(0, 1200))
        until(made, "t.refused", 1)
        assert made.drops() == {("t", "cannot be sent"): 1} and made.read("t.count") == "0"


# -- other programs


def test_a_strangers_program_stays(wires: tuple[Pair, Pair]) -> None:
    one, two = wires
    with inside(one.b.ns):
        index, program = socket.if_nametoindex(one.b.name), foreign_program()
        link = _attach.attach(program, index, "native")
        with pytest.raises(MezzoError, match=r"not mezzo's: `stranger`(.|\n)*FORCE true"):
            Router.from_click(switch(one, two), place=PLACE)
        assert [x.name for x in _attach.attached_to(index)] == ["stranger"]
        with running(wires, force=True) as made, raw_socket(one.a) as here, raw_socket(two.a) as there:
            assert "replaced\treplaced the program `stranger`" in made.read("f.port")
            here.send(give(0))
            assert received(there, 1) == [give(0)]
        os.close(link)
        os.close(program)
        assert not _attach.attached_to(index)


def test_two_routers_do_not_share_a_device(wires: tuple[Pair, Pair]) -> None:
    name = wires[0].b.name
    with (
        running(wires),
        inside(wires[0].b.ns),
        pytest.raises(MezzoError, match=f"another mezzo receives from `{name}`"),
    ):
        Router.from_click(switch(*wires), place=PLACE)


def test_a_root_is_replaced_at_once(wires: tuple[Pair, Pair]) -> None:
    one, two = wires
    with running(wires) as made, raw_socket(one.a) as here, raw_socket(two.a) as there, inside(one.b.ns):
        port, index = made.ports[one.b.name], socket.if_nametoindex(one.b.name)
        before = _attach.attached_to(index)[0]
        port.replace_root(program := _bpf.load_program(_bpf.DROP_ALL, _attach.PROGRAM_NAME))
        after = _attach.attached_to(index)[0]
        assert (after.link, after.id != before.id) == (before.link, True)
        assert f"id {after.id}" in made.read("f.port")
        here.send(give(0, 100))
        port.replace_root(made.parts[0].roots[0].fd)
        here.send(give(0))
        assert received(there, 1) == [give(0)]
        os.close(program)


# -- switches of the peers


def switches(pair: Pair) -> dict[str, bool]:
    with inside(pair.a.ns):
        return {name: f.active for name, f in _ethtool.features(pair.a.name).items()}


def test_peers_are_as_they_were_afterwards(wires: tuple[Pair, Pair]) -> None:
    before = [switches(pair) for pair in wires]
    with running(wires) as made:
        assert [switches(pair)["rx-gro"] for pair in wires] == [True, True]
        assert [switches(pair)["tx-checksum-ip-generic"] for pair in wires] == [False, False]
        assert "switched on at" in made.read("t.port")
    assert [switches(pair) for pair in wires] == before


def test_a_peer_that_cannot_be_switched_keeps_the_level_away(
    wires: tuple[Pair, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = privileged.ask

    def ask(request: privileged.Request, given: tuple[int, ...] = ()) -> privileged.Answer:
        found, facts = honest(request, given)
        return found, facts | {"refused": ["rx-gro"]} if request["do"] == "features" else facts

    monkeypatch.setattr(privileged, "ask", ask)
    with inside(wires[0].b.ns), pytest.raises(MezzoError, match=r"rx-gro cannot be switched at(.|\n)*--place"):
        Router.from_click(switch(*wires), place=PLACE)
    assert not switches(wires[0])["rx-gro"]


# -- devices that go, several queues


def test_a_wire_that_goes_away_is_a_drop_and_the_rest_goes_on(wires: tuple[Pair, Pair]) -> None:
    one, two = wires
    with running(wires) as made, raw_socket(one.a) as here:
        ip("link", "del", two.a.name, ns=two.a.ns)
        wait_until(lambda: made.run(rounds=1) and "gone" in made.read("t.port"))
        here.send(give(0))
        here.send(give(1))
        assert received(here, 1) == [give(1)]
        assert made.drops() == {("t", "no device"): 1}


def test_an_input_that_goes_away_before_the_router_runs(wires: tuple[Pair, Pair]) -> None:
    with running(wires, False) as made, raw_socket(wires[1].a) as there:
        ip("link", "del", wires[0].a.name, ns=wires[0].a.ns)
        wait_until(lambda: made.run(rounds=1) and "gone" in made.read("f.port"))
        there.send(give(0))
        until(made, "g.count", 1)


def test_an_input_that_goes_away_leaves_the_others(wires: tuple[Pair, Pair]) -> None:
    one, two = wires
    with running(wires) as made, raw_socket(two.a) as there:
        ip("link", "del", one.a.name, ns=one.a.ns)
        wait_until(lambda: made.run(rounds=1) and "gone" in made.read("f.port"))
        there.send(give(0))
        until(made, "g.count", 1)


def test_interfaces_that_were_down(wires: tuple[Pair, Pair]) -> None:
    with running(wires) as made:
        for pair in wires:
            for state in ("down", "up"):
                ip("link", "set", pair.b.name, state, ns=pair.b.ns)
        made.run(seconds=0.01)
        with raw_socket(wires[0].a) as here, raw_socket(wires[1].a) as there:
            for kind in (0, 1, 2):
                here.send(give(kind))
            assert received(there, 1) == [give(0)] and received(here, 1) == [give(1)]
            until(made, "f.risen", 1)


def test_several_queues_and_threads() -> None:
    with links(4) as wires, running(wires, threads=2) as made, raw_socket(wires[0].a) as here:
        for number in range(200):
            here.send(flow(number))
        until(made, "f.risen", 200)
        assert made.read("f.count") == "200" and len(made.collect("up")) == 200


# -- who can


def test_why_an_interface_takes_no_redirected_packets(wires: tuple[Pair, Pair]) -> None:
    with inside(wires[0].b.ns):
        assert level.cannot_redirect(wires[0].b.name) == ""
        assert level.cannot_redirect("none0") == "there is no interface none0"
        assert "sends no frames of XDP programs" in level.cannot_redirect("lo")
