"""Another configuration takes the place of one that runs over two levels, while packets come on a real wire."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mezzo.runtime import Router
from tests.ports.netlab import Pair, inside, namespace, raw_socket, veth_pair, wait_until

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
IP, ARP, IP6 = 0x0800, 0x0806, 0x86DD
HEAD = "from :: FromDevice({device}, METHOD XDP, PROMISC true) -> c :: Counter -> "
# ARP goes up in both; IPv6 goes up only in the second, by a way before it; the elements in front differ.
ONE = (
    HEAD
    + """k :: Classifier(12/0800, 12/0806, -) -> i :: Counter -> Discard;
k[1] -> q :: Queue -> a :: Counter -> Discard; k[2] -> six :: Counter -> Discard;"""
)
TWO = (
    HEAD
    + """new :: Counter -> k :: Classifier(12/0800, 12/86DD, 12/0806) -> i :: Counter -> Discard;
k[1] -> early :: Queue -> six :: Counter -> Discard; k[2] -> q :: Queue -> a :: Counter -> Discard;"""
)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with namespace() as a, namespace() as b, veth_pair(a, b) as made:
        yield made


def frame(kind: int) -> bytes:
    return b"\2\0\0\0\0\1" + b"\2\0\0\0\0\2" + kind.to_bytes(2, "big") + bytes(46)


@contextmanager
def running(pair: Pair, threads: int) -> Iterator[Router]:
    options: dict[str, Any] = {"place": "auto", "frames": 4096, "threads": threads}
    with inside(pair.a.ns), Router.from_click(ONE.format(device=pair.a.name), **options) as router:
        runner = threading.Thread(target=router.run)
        router.run(rounds=1)
        runner.start()
        try:
            yield router
        finally:
            router.please_stop()
            runner.join()


def counted(router: Router) -> dict[str, int]:
    return {name: int(router.read(f"{name}.count")) for name in ("from", "c", "i", "a", "six")}


@pytest.mark.parametrize("threads", [1, 2])
def test_no_packet_is_lost_or_goes_astray(pair: Pair, threads: int) -> None:
    """Each kind is where it belongs, though ways up have other places in the two plans.  IPv6 that was on its way up in
    the second router dies on the device of the first, which has no way for it."""
    sent = {IP: 0, ARP: 0, IP6: 0}
    done = threading.Event()

    def send() -> None:
        with raw_socket(pair.b, receive=False) as wire:
            while not done.wait(0.0005):
                for kind in sent:
                    wire.send(frame(kind))
                    sent[kind] += 1

    with running(pair, threads) as router:
        sender = threading.Thread(target=send)
        sender.start()
        for turn in range(6):
            report = router.reload((TWO, ONE)[turn % 2].format(device=pair.a.name))
            assert report.reopened == () and report.lost == {}
            assert router.parts and int(router.read("c.count")) > 0
        done.set()
        sender.join()
        arrived(router, sum(sent.values()))
        counts, drops = counted(router), router.drops()
        assert counts["from"] == counts["c"] == sum(sent.values())
        assert (counts["i"], counts["a"]) == (sent[IP], sent[ARP])
        assert counts["six"] + sum(drops.values()) == sent[IP6]
        assert {where for where, _ in drops} <= {"from"}
        assert router.conservation().balanced


def arrived(router: Router, count: int) -> None:
    """Waits until all that was sent has come, natively too."""
    seen: dict[str, int] = {}
    for _ in range(100):
        threading.Event().wait(0.05)
        now = counted(router) | {"drops": sum(router.drops().values())}
        if now == seen and now["c"] >= count:
            return
        seen = now


SET = (
    HEAD
    + """Strip(14) -> MarkIPHeader -> GetIPAddress(16) -> rt :: RadixIPLookup(10.0.0.0/8 {route})
-> p :: Paint({color}) -> s :: PaintSwitch; rt[1] -> one :: Counter -> Discard;
s[0] -> zero :: Counter -> Discard; s[1] -> first :: Counter -> Discard; s[2] -> second :: Counter -> Discard;"""
)


def test_what_an_element_is_told_anew_counts_in_the_kernel(pair: Pair) -> None:
    """A color and a table of the new configuration, and counters of the old one."""
    packet = frame(IP)[:14] + bytes.fromhex("4500001400000000401100000a0000010a000002") + bytes(26)
    with running(pair, 1) as router, raw_socket(pair.b, receive=False) as wire:
        expected = {"one": 0, "first": 0, "second": 0}
        for route, color, name in [(0, 1, "first"), (0, 2, "second"), (1, 2, "one"), (0, 1, "first")]:
            router.reload(SET.format(device=pair.a.name, route=route, color=color))
            assert router.parts and router.read("p.color") == str(color)
            for _ in range(5):
                wire.send(packet)
            expected[name] += 5
            wait_until(lambda: sum(int(router.read(f"{n}.count")) for n in expected) == sum(expected.values()))
            assert {n: int(router.read(f"{n}.count")) for n in expected} == expected
            assert "\np\tkernel\t" in router.read("levels")
