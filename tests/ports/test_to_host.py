"""ToHost: packets for the stack of this machine, natively and in the kernel's level, seen by what the stack answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _bpf
from mezzo.runtime.router import Router
from tests.ports.netlab import Pair, inside, namespace, started_in, veth_pair, wait_until
from tests.ports.xdplab import router

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
PLACES = pytest.mark.parametrize("place", [(), ("*=kernel",)])


@pytest.fixture
def pair() -> Iterator[Pair]:
    with namespace() as host, namespace() as middle, veth_pair(host, middle, net="10.9.0") as made:
        yield made


def pinged(made: Router, pair: Pair, count: int) -> str:
    """What ping at the other end says while the router runs."""
    with started_in(pair.a.ns, ["ping", "-n", f"-c{count}", "-i0.01", "-W2", pair.b.ip]) as process:
        made.run(seconds=10, until=lambda: process.poll() is not None)
        return str(process.communicate()[0])


@PLACES
def test_the_host_answers(pair: Pair, place: Sequence[str]) -> None:
    text = f"f :: FromDevice({pair.b.name}, METHOD XDP) -> h :: ToHost({pair.b.name})"
    with router(pair.b.ns, text, place=place) as made:
        assert "3 received" in pinged(made, pair, 3)
        count, size = int(made.read("h.count")), int(made.read("h.byte_count"))
        assert count >= 4 and size >= 3 * 98 and made.read("h.refused") == "0"  # ARP, and three echoes
        assert made.read("f.risen") == "0" and made.read("f.count") == str(count)
        assert made.conservation().balanced
        made.write("h.reset_counts")
        assert made.read("h.count") == "0"


@pytest.mark.parametrize("target", ["native", "python"])
def test_packets_that_nobody_received_seem_to_come_by_the_interface(pair: Pair, target: str) -> None:
    """Made here; with UDP for a socket of the host, whose address on the interface is theirs."""
    with inside(pair.b.ns):
        ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ear.bind((pair.b.ip, 4000))
        ear.settimeout(2)
    text = (
        f"InfiniteSource(DATA hello, LIMIT 3) -> UDPIPEncap(10.9.0.1, 99, {pair.b.ip}, 4000)"
        f"-> EtherEncap(0x0800, {pair.a.mac}, {pair.b.mac}) -> h :: ToHost({pair.b.name})"
    )
    with ear, router(pair.b.ns, text, target=target) as made:
        made.run(seconds=2, until=lambda: int(made.read("h.count")) == 3)
        assert [ear.recvfrom(100) for _ in range(3)] == [(b"hello", ("10.9.0.1", 99))] * 3


def test_what_the_host_cannot_take_leaves_by_its_output(pair: Pair) -> None:
    sizes = (13, 14, 1514, 3000, 3001)
    sources = "".join(f"s{n} :: InfiniteSource(LENGTH {n}, LIMIT 1) -> h;" for n in sizes)
    text = f"h :: ToHost({pair.b.name}); {sources} h[0] -> c :: Counter -> Discard"
    with router(pair.b.ns, text, frame_size=4096) as made:
        made.run(seconds=1, until=lambda: int(made.read("c.count")) == 2)
        assert [made.read(x) for x in ("h.count", "h.refused", "c.byte_count")] == ["3", "2", str(13 + 3001)]
    with router(pair.b.ns, text.partition(" h[0]")[0], frame_size=4096) as made:
        made.run(seconds=1, until=lambda: int(made.read("h.refused")) == 2)
        assert made.drops() == {("h", "not taken by the host"): 2}


def test_frames_with_little_room_in_front(pair: Pair) -> None:
    """What the call needs is behind the packet then."""
    text = f"InfiniteSource(LENGTH 60, LIMIT 8) -> Unstrip(128) -> Queue -> Unqueue -> h :: ToHost({pair.b.name})"
    with router(pair.b.ns, text) as made:
        made.run(seconds=1, until=lambda: int(made.read("h.count")) == 8)
        assert (made.read("h.count"), made.read("h.refused"), made.read("h.byte_count")) == ("8", "0", str(8 * 188))


def test_packets_of_another_interface_do_not_go_by_the_kernels_level(pair: Pair) -> None:
    with veth_pair(pair.a.ns, pair.b.ns) as other:
        text = f"FromDevice({other.b.name}, METHOD XDP) -> h :: ToHost({pair.b.name})"
        with router(pair.b.ns, text, place="auto") as made:
            row: Any = next(r for r in made.plan.placement.rows if r.name == "h")
            assert row.level == "native" and f"are to seem to be of `{pair.b.name}`" in row.why


def test_generic_programs_would_see_the_packets_again(pair: Pair) -> None:
    text = f"FromDevice({pair.b.name}, METHOD XDP, MODE generic) -> ToHost({pair.b.name})"
    with inside(pair.b.ns), pytest.raises(MezzoError, match="generic XDP program `mezzo_xsk`"):
        Router.from_click(text)


def test_there_must_be_such_an_interface() -> None:
    with pytest.raises(MezzoError, match="there is no network interface `none0`"):
        Router.from_click("Idle -> ToHost(none0)")


def test_the_program_goes_with_the_router(pair: Pair) -> None:
    with router(pair.b.ns, f"Idle -> h :: ToHost({pair.b.name})") as made:
        number = _bpf.program_info(made.elements["h"].held).id
        assert number in set(_bpf.program_ids())
    wait_until(lambda: number not in set(_bpf.program_ids()))
