"""Looking into a router over two levels while it runs: what passes in the kernel is seen as well."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mezzo.runtime import Router
from tests.ports.netlab import Pair, inside, namespace, raw_socket, veth_pair, wait_until
from tests.runtime.controlled import running
from tests.runtime.test_seeing import look, news

pytestmark = pytest.mark.needs_root
TEXT = """f :: FromDevice({device}, METHOD XDP, PROMISC true) -> p :: Paint(3)
-> k :: Classifier(12/0800, 12/0806, 12/86DD);
k[0] -> s :: Strip(14) -> m :: Null -> d :: Discard; k[2] -> p5 :: Paint(5) -> m;
k[1] -> n :: Null -> q :: Queue -> e :: Discard;"""
IP, ARP, IP6, OTHER = 0x0800, 0x0806, 0x86DD, 0x88B5
ROOTS: dict[str, Any] = {"place": "auto", "frames": 2048, "frame_size": 4096}


def frame(kind: int, size: int = 60) -> bytes:
    return (b"\2\0\0\0\0\1" + b"\2\0\0\0\0\2" + kind.to_bytes(2, "big") + bytes(range(200)))[:size]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with namespace() as a, namespace() as b, veth_pair(a, b) as made:
        yield made


@contextmanager
def router_at(pair: Pair, text: str = TEXT) -> Iterator[Router]:
    with inside(pair.a.ns), running(text.format(device=pair.a.name), **ROOTS) as router:
        assert router.parts, "it has a kernel's level"
        wait_until(lambda: attached(router) == roots(router))
        yield router


def attached(router: Router) -> set[int]:
    """The numbers of the programs that are attached."""
    from mezzo.ports import _bpf

    return {_bpf.link_info(port.link_fd).program for port in router.ports}


def roots(router: Router) -> set[int]:
    told = [Path(f"/proc/self/fdinfo/{root.fd}").read_text() for root in router.parts[0].roots]
    return {int(text.split("prog_id:")[1].split()[0]) for text in told}


def begin(router: Router, kind: str, **asked: Any) -> None:
    look(router, kind, **asked)
    end = time.monotonic() + 20
    while json.loads(router.read("look", "x"))["state"] == "starting":
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_trace_shows_steps_in_the_kernel_and_goes(pair: Pair) -> None:
    with router_at(pair) as router, raw_socket(pair.b) as wire:
        begin(router, "trace", count=3)
        assert attached(router).isdisjoint(roots(router))
        for kind in (IP, ARP, OTHER):
            wire.send(frame(kind))
        paths, last = news(router, lambda found: len(found) == 3)
        by_kind = {bytes.fromhex(path["steps"][0]["data"])[12:14]: path for path in paths}
        ip, arp, other = (by_kind[kind.to_bytes(2, "big")] for kind in (IP, ARP, OTHER))
        assert [(s["element"], s["level"]) for s in ip["steps"]] == [(n, "kernel") for n in "fpksmd"]
        assert ip["steps"][3]["changed"][0] == "length 60 → 46" and ip["end"] == "ended in d"
        assert [(s["element"], s["level"]) for s in arp["steps"]][-2:] == [("q", "native"), ("e", "native")]
        assert other["end"] == "died in k: no pattern matches"
        times = [s["time_ns"] for s in arp["steps"]]
        assert times == sorted(times) and abs(times[0] - time.time_ns()) < 60e9
        while last["state"] == "running":
            last = json.loads(router.read("look", "x"))
        router.write("unlook", "x")
        assert attached(router) == roots(router) and router.eye is not None and router.eye.below is None


def test_a_trace_with_a_filter_finds_its_packets_among_many(pair: Pair) -> None:
    with router_at(pair) as router, raw_socket(pair.b) as wire:
        header = bytes.fromhex("4500002e000100004011 0000 0a000001 0a000002 0035 0035 001a 0000".replace(" ", ""))
        wanted = frame(IP)[:14] + header + bytes(18)
        begin(router, "trace", count=2, filter="udp and dst port 53")
        for _ in range(100):
            wire.send(frame(IP6))
        wire.send(wanted)
        wire.send(frame(IP6))
        wire.send(wanted)
        paths, _ = news(router, lambda found: len(found) == 2)
        assert {path["end"] for path in paths} == {"ended in d"}
        assert {path["steps"][0]["data"] for path in paths} == {wanted.hex()}


EDGES = [("f->p", [IP, ARP, IP6, OTHER]), ("k[0]->s", [IP]), ("s->m", [IP]), ("p5->m", [IP6]), ("*->m", [IP, IP6])]
EDGES += [("k[1]->n", [ARP]), ("n->q", [ARP]), ("m->d", [IP, IP6])]


@pytest.mark.parametrize(("edge", "kinds"), EDGES)
def test_a_tap_on_a_connection_of_either_level(pair: Pair, edge: str, kinds: list[int]) -> None:
    with router_at(pair) as router, raw_socket(pair.b) as wire:
        begin(router, "tap", edge=edge)
        for _ in range(3):
            for kind in (IP, ARP, IP6, OTHER):
                wire.send(frame(kind))
        packets, last = news(router, lambda found: len(found) >= 3 * len(kinds))
        time.sleep(0.05)
        packets += json.loads(router.read("look", "x"))["packets"]
        strips = edge in ("s->m", "m->d", "*->m")
        whole = [frame(kind)[14 if strips and kind == IP else 0 :] for kind in kinds] * 3
        assert sorted(bytes.fromhex(data) for _, _, _, data in packets) == sorted(whole)
        assert [length for _, _, length, _ in packets] == [len(data) // 2 for *_, data in packets]
        assert last["lost"] == 0
        if edge == "*->m":
            names = [last["edges"][number].split()[0] for _, number, _, _ in packets]
            assert {name.partition("[")[0] for name in names} == {"s", "p5"}


def test_a_tap_in_front_of_a_device_whose_queue_is_passed(pair: Pair) -> None:
    text = """f :: FromDevice({device}, METHOD XDP, PROMISC true) -> h :: EtherMirror -> q :: Queue
    -> o :: ToDevice({device}, METHOD XDP);"""
    for edge in ("h->q", "q->o"):
        with router_at(pair, text) as router, raw_socket(pair.b) as wire:
            begin(router, "tap", edge=edge)
            wire.send(frame(OTHER))
            packets, _ = news(router, lambda found: bool(found))
            assert bytes.fromhex(packets[0][3]) == frame(OTHER)[6:12] + frame(OTHER)[:6] + frame(OTHER)[12:]


def test_two_look_at_once_and_a_reload_comes_between(pair: Pair) -> None:
    with router_at(pair) as router, raw_socket(pair.b) as wire:
        begin(router, "tap", edge="k[0]->s")
        router.write("look", json.dumps({"id": "y", "kind": "trace", "count": 2}))
        while json.loads(router.read("look", "y"))["state"] == "starting":
            time.sleep(0.02)
        wire.send(frame(IP))
        first, _ = news(router, lambda found: bool(found))
        router.reload(TEXT.format(device=pair.a.name).replace("Paint(3)", "Paint(4)"))
        end = time.monotonic() + 20
        wait_until(
            lambda: router.eye is not None and router.eye.below is not None and router.eye.below.of in router.parts
        )
        router.at_rest(lambda: None)  # so that whoever put it there has told who looks
        wire.send(frame(IP))
        second, last = news(router, lambda found: bool(found))
        assert len(first) == len(second) == 1 and last["lost"] == 0
        paths: list[Any] = []
        while len(paths) < 2:
            assert time.monotonic() < end
            paths += json.loads(router.read("look", "y"))["paths"]
        assert [path["steps"][1]["changed"] for path in paths] == [["PAINT 3"], ["PAINT 4"]]
