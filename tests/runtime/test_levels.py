"""A router over two levels: one state, one set of handlers, whichever level a packet passes.

Packets of the kernel's level are given to its root programs (BPF_PROG_TEST_RUN), those of the native one to the engine;
what real devices do with both is tested in tests/ports and tests/examples.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mezzo.base import MezzoError, bpf
from mezzo.pipeline import compile_text
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from mezzo.runtime.levels import Levels
from mezzo.targets import native
from tests.ports.netlab import inside, ip, namespace, raw_socket, veth_pair, wait_until

pytestmark = pytest.mark.needs_root
DROP, REDIRECT = 1, 4
LOOSE = ("auto", "ORDER=loose")  # what is given to a program alone goes up to nobody, and would raise gates for ever


@pytest.fixture
def device() -> Iterator[tuple[str, str]]:
    """(namespace, an interface in it)."""
    with namespace() as here, namespace() as there, veth_pair(here, there) as pair:
        yield here, pair.a.name


@contextmanager
def over_levels(device: tuple[str, str], text: str, **options: Any) -> Iterator[Router]:
    ns, name = device
    source = f"from :: FromDevice({name}, METHOD XDP, PROMISC true) -> {text}"
    with inside(ns), Router.from_click(source, **{"place": LOOSE, "frames": 1024, **options}) as made:
        yield made


def arrive(router: Router, packet: bytes, times: int = 1) -> int:
    """The kernel's verdict on a packet from the wire."""
    return bpf.test_run(router.parts[0].roots[0].fd, b"", packet, repeat=times).verdict


def goes_up(router: Router, packet: bytes) -> bool:
    """With a record; what leaves by a wire has none."""
    told = bpf.test_run(router.parts[0].roots[0].fd, b"", packet)
    assert told.verdict == REDIRECT
    return bool(told.metadata)


def push(router: Router, element: str, packet: bytes, port: int = 0) -> None:
    """The packet natively comes to an input."""
    made = router.arena.make_from(packet)
    assert made is not None
    router.engine.push(router.elements[element].index, port, made.frame)


def ethernet(kind: int, payload: bytes, to: bytes = b"\2\0\0\0\0\1", source: bytes = b"\2\0\0\0\0\2") -> bytes:
    return (to + source + kind.to_bytes(2, "big") + payload).ljust(60, b"\0")


def ipv4(destination: str, ttl: int = 64, payload: bytes = b"hello world") -> bytes:
    ends = bytes([10, 0, 0, 1]) + bytes(map(int, destination.split(".")))
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, ttl, 17, 0) + ends
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return head[:10] + (~(total + (total >> 16)) & 0xFFFF).to_bytes(2, "big") + head[12:] + payload


def packet(destination: str, **more: Any) -> bytes:
    return ethernet(0x0800, ipv4(destination, **more))


def placed(router: Router) -> dict[str, str]:
    assert router.plan.placement is not None
    return {row.name: row.level for row in router.plan.placement.rows}


# -- counters and drops


def test_counters_are_the_sum_of_both_levels(device: tuple[str, str]) -> None:
    with over_levels(device, "c :: Counter -> k :: Classifier(12/0800, 12/0806); k[0] -> a :: Counter -> Discard;"
                             "k[1] -> Queue -> Discard;") as router:  # fmt: skip
        assert placed(router)["c"] == "kernel"
        assert arrive(router, packet("10.0.0.2"), 3) == DROP
        push(router, "c", packet("10.0.0.2"))
        assert (router.read("c.count"), router.read("a.count"), router.read("from.count")) == ("4", "4", "3")
        assert router.read("c.byte_count") == "240"
        assert router.elements["c"].count == 4
        router.write("c.reset", "")
        assert router.read("c.count") == "0"
        arrive(router, packet("10.0.0.2"), 2)
        push(router, "c", packet("10.0.0.2"))
        assert (router.read("c.count"), router.read("a.count")) == ("3", "7")
        router.write("from.reset_counts", "")
        arrive(router, packet("10.0.0.2"))
        assert (router.read("from.count"), router.read("from.byte_count")) == ("1", "60")


def test_drops_are_the_sum_of_both_levels(device: tuple[str, str]) -> None:
    with over_levels(device, "k :: Classifier(12/0800) -> Strip(14) -> check :: CheckIPHeader -> Discard;") as router:
        assert arrive(router, ethernet(0x86DD, b""), 2) == DROP
        push(router, "k", ethernet(0x86DD, b""))
        bad = bytearray(packet("10.0.0.2"))
        bad[24] ^= 1
        assert arrive(router, bytes(bad)) == DROP
        push(router, "check", bytes(bad[14:]))
        drops = router.drops()
        assert drops["k", "no pattern matches"] == 3
        assert sum(n for (element, _), n in drops.items() if element == "check") == 2
        assert "3\tk\tno pattern matches\n" in router.read("drops")
        assert router.read("k.drop_reasons") == "3\tno pattern matches\n"


def test_counted_connections_are_the_sum_of_both_levels(device: tuple[str, str]) -> None:
    text = "k :: Classifier(12/0800, -) -> Discard; k[1] -> Queue -> d :: Discard;"
    with over_levels(device, text, counted=True) as made:
        arrive(made, packet("10.0.0.2"), 3)
        push(made, "k", packet("10.0.0.2"))
        push(made, "k", ethernet(0x0806, b""))
        counts = {(c.src, c.src_port): n for c, n in made.edge_counts().items()}
        assert (counts["from", 0], counts["k", 0], counts["k", 1]) == (3, 4, 1)


def test_a_handler_tells_the_levels(device: tuple[str, str]) -> None:
    with over_levels(device, "c :: Counter -> q :: Queue -> d :: Discard;", place="c=kernel") as router:
        lines = [line.split("\t") for line in router.read("levels").splitlines()]
        assert [line[:2] for line in lines] == [["from", "kernel"], ["c", "kernel"], ["q", "native"], ["d", "native"]]
    with over_levels(device, "c :: Counter -> Discard;", place=()) as router:
        assert router.read("levels") == ""


def test_everything_native_has_no_part(device: tuple[str, str]) -> None:
    with over_levels(device, "c :: Counter -> Discard;", place=()) as router:
        assert router.parts == []
        push(router, "c", packet("10.0.0.2"))
        assert router.read("c.count") == "1"


# -- what handlers write


ROUTES = """Strip(14) -> CheckIPHeader -> rt :: RadixIPLookup(10.0.0.0/8 0, 0.0.0.0/0 1);
rt[0] -> a :: Counter -> Discard; rt[1] -> b :: Counter -> Discard;"""


def test_a_route_that_a_handler_adds_is_there_for_both_levels(device: tuple[str, str]) -> None:
    with over_levels(device, ROUTES) as router:
        assert placed(router)["rt"] == "kernel"
        there = packet("10.1.2.3")
        arrive(router, there)
        router.write("rt.add", "10.1.0.0/16 1")
        arrive(router, there)
        push(router, "rt", there[14:])
        router.write("rt.remove", "10.1.0.0/16")
        arrive(router, there)
        router.write("rt.set", "10.0.0.0/8 1")
        arrive(router, there)
        assert (router.read("a.count"), router.read("b.count")) == ("2", "3")
        with pytest.raises(HandlerError):
            router.write("rt.add", "10.0.0.0/8 0")
        router.write("rt.flush", "")
        arrive(router, there)
        assert (router.read("a.count"), router.read("b.count")) == ("2", "3")


def test_a_route_is_visible_within_a_millisecond(device: tuple[str, str]) -> None:
    """Most of the time on a machine that does other things, too; bench/kernel_update.py has the figures."""
    with over_levels(device, ROUTES) as router:
        spent = []
        for n in range(200):
            begun = time.perf_counter()
            router.write("rt.add", f"10.1.{n}.0/24 1")
            spent.append(time.perf_counter() - begun)
            before = int(router.read("b.count"))
            arrive(router, packet(f"10.1.{n}.9"))
            assert int(router.read("b.count")) == before + 1
        assert sorted(spent)[20] < 0.001


def test_what_is_learned_natively_is_known_in_the_kernel(device: tuple[str, str]) -> None:
    """A neighbour that ARPQuerier was told of, by a handler or a reply that came up."""
    text = f"""Strip(14) -> CheckIPHeader -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1)
        -> Queue -> ToDevice({device[1]}, METHOD XDP); Idle -> [1] q;"""
    with over_levels(device, text) as router:
        assert placed(router)["q"] == "kernel+native"
        assert goes_up(router, packet("10.0.0.7"))
        assert router.read("q.count") == "0"
        router.write("q.insert", "10.0.0.7 2:0:0:0:0:7")
        assert not goes_up(router, packet("10.0.0.7"))
        reply = bytes.fromhex("0001080006040002") + b"\2\0\0\0\0\x08" + bytes([10, 0, 0, 8]) + bytes(10)
        push(router, "q", ethernet(0x0806, reply), 1)
        assert router.read("q.count") == "2"
        told = bpf.test_run(router.parts[0].roots[0].fd, b"", packet("10.0.0.8"))
        assert (told.verdict, told.metadata, told.packet[:6]) == (REDIRECT, b"", b"\2\0\0\0\0\x08")
        router.write("q.delete", "10.0.0.8")
        assert goes_up(router, packet("10.0.0.8"))
        assert (router.read("q.count"), router.read("q.responses")) == ("1", "1")


def test_what_is_set_natively_counts_in_the_kernel(device: tuple[str, str]) -> None:
    with over_levels(device, "s :: Switch(0) -> a :: Counter -> Discard; s[1] -> b :: Counter -> Discard;") as router:
        arrive(router, packet("10.0.0.2"))
        router.write("s.switch", "1")
        arrive(router, packet("10.0.0.2"))
        push(router, "s", packet("10.0.0.2"))
        router.write("s.switch", "-1")
        arrive(router, packet("10.0.0.2"))
        assert (router.read("a.count"), router.read("b.count")) == ("1", "2")


# -- life


def test_nothing_is_left_behind(device: tuple[str, str]) -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    with over_levels(device, ROUTES):  # whatever is made once per process
        pass
    before = open_files()
    with over_levels(device, ROUTES) as router:
        assert open_files() > before
        arrive(router, packet("10.1.2.3"))
    assert open_files() == before
    assert "xdp" not in ip("link", "show", "dev", device[1], ns=device[0])


def test_what_fails_behind_it_leaves_nothing_behind(device: tuple[str, str]) -> None:
    with over_levels(device, ROUTES):
        pass
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(MezzoError), over_levels(device, "c :: Counter -> ToDump(/nonexistent/x.pcap);"):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_kernel_is_for_native_routers(device: tuple[str, str]) -> None:
    with pytest.raises(MezzoError, match="the python target"), over_levels(device, ROUTES, target="python"):
        pass


def test_threads_share_the_state_too(device: tuple[str, str]) -> None:
    text = "c :: Counter -> Switch(0) -> Discard; InfiniteSource(LIMIT 1000) -> d :: Counter -> c;"
    with over_levels(device, text, threads=2) as router:
        assert placed(router)["c"] == "kernel"
        arrive(router, packet("10.0.0.2"), 5)
        router.run(seconds=5, until=lambda: int(router.read("c.count")) >= 1005)
        assert (router.read("c.count"), router.read("d.count")) == ("1005", "1000")


# -- other programs in their place


def test_programs_are_replaced_while_packets_come() -> None:
    """No packet is lost or counted twice, and what the old ones counted is there; one element is new."""
    with namespace() as here, namespace() as there, veth_pair(here, there) as pair, inside(here):
        source = f"from :: FromDevice({pair.a.name}, METHOD XDP, PROMISC true) -> "
        texts = [source + tail for tail in ("c :: Counter -> Discard;", "c :: Counter -> new :: Counter -> Discard;")]
        first = Router.from_click(texts[0], place="auto", frames=1024)
        with first as router, raw_socket(pair.b, receive=False) as wire:
            router.run(rounds=1)
            turns = []
            for text in (texts[1], texts[0], texts[1]):
                send(wire, 200)
                turns.append(next_levels(router, text))
            send(wire, 200)
            cells = turns[-1]
            wait_until(lambda: cells["from"]["count"].value == 800)
            assert cells["c"]["count"].value == 800
            assert cells["new"]["count"].value == 200


def send(wire: socket.socket, count: int) -> None:
    for _ in range(count):
        wire.send(packet("10.0.0.2"))


def next_levels(router: Router, text: str) -> dict[str, Any]:
    """Puts programs of another configuration in the place of those that run; the native cells by element."""
    plan = compile_text(text, place="auto")
    levels, cells = Levels(plan, "native"), [e.all_cells() for e in plan.elements]
    more = levels.build(cells, router.arena.frame_size, 1, True, False, before=router.levels)
    engine = native.build(plan.program, router.arena, cells, {}, whole=plan.whole, **more)
    levels.load()
    for element in plan.elements:
        element.router = router
    router.at_rest(lambda: levels.replace(router.levels, router.ports))
    router.levels = levels
    return {e.name: made for e, made in zip(plan.elements, engine.cells, strict=True)}
