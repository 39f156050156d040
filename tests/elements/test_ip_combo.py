"""The combinations do what the elements do that they are made of."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from tests.elements.ip_packets import ip

SPLIT_IN = "Paint(3) -> Strip(14) -> CheckIPHeader(10.9.9.9 10.8.8.8) -> GetIPAddress(16)"
SPLIT_OUT = """elementclass Split { input -> DropBroadcasts -> p :: PaintTee(1) -> g :: IPGWOptions(10.0.0.9)
    -> FixIPSrc(10.0.0.9) -> d :: DecIPTTL -> l :: CheckLength(60) -> output;
    p [1] -> [1] output; g [1] -> [2] output; d [1] -> [3] output; l [1] -> [4] output }"""
OUT = "in0 :: Feed -> CheckIPHeader -> c :: Classifier(9/11, -) -> Paint(1) -> SetAnnoByte(18, {fix}) -> x :: {x};"
OUT += "c [1] -> x; out0, out1, out2, out3, out4 :: Collect; x [0-4] => out0, out1, out2, out3, out4;"

TARGETS = ("python", "native")


def run(text: str, packets: list[bytes], outputs: int, target: str) -> list[Any]:
    """What comes out of each output, with paint and destination annotation."""
    with Router.from_click(text, virtual=True, target=target) as router:
        router.feed("in0", packets)
        router.run(rounds=1000)
        return [router.collect_packets(f"out{i}", facts) for i in range(outputs)]


def facts(p: Any) -> tuple[Any, ...]:
    return bytes(p.data), bytes(p.anno), p.mark("net"), p.mark("trans")


def odd_packets(count: int) -> list[bytes]:
    chance = random.Random(11)
    options = (b"", b"", b"\x07\x07\x04\0\0\0\0", b"\x44\x0c\x05\x01" + bytes(8), b"\x07\x02", b"\x01\x07\x03\x09")
    made = []
    for number in range(count):
        packet = ip(
            bytes(chance.randrange(50)),
            src=chance.choice(["10.0.0.1", "10.9.9.9", "0.0.0.0"]),
            proto=chance.choice([6, 17]),
            ttl=chance.choice([0, 1, 2, 64]),
            ident=number,
            options=chance.choice(options),
        )
        made.append(packet if chance.random() < 0.8 else packet[: chance.randrange(len(packet))])
    return made


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_the_way_in(target: str) -> None:
    frames = [bytes(range(12)) + b"\x08\x00" + packet for packet in odd_packets(60)] + [b"", b"\1" * 13, b"\2" * 14]
    text = "in0 :: Feed -> {} -> out0 :: Collect;"
    split = run(text.format(SPLIT_IN), frames, 1, target)
    assert split == run(text.format("IPInputCombo(3, 10.9.9.9 10.8.8.8)"), frames, 1, target)
    assert 5 < len(split[0]) < 60


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("fix", [0, 1])
def test_the_way_out(target: str, fix: int) -> None:
    packets = odd_packets(80)
    split = run(SPLIT_OUT + OUT.format(x="Split", fix=fix), packets, 5, target)
    assert split == run(OUT.format(x="IPOutputCombo(1, 10.0.0.9, 60)", fix=fix), packets, 5, target)
    assert all(split)


def test_reasons_and_counts(vectors: Any) -> None:
    text = "in0 :: Feed -> x :: IPInputCombo(1) -> out0 :: Collect;"
    good, ether = ip(bytes(8)), bytes(14)
    packets = [ether + good, ether[:5], ether + ip(check=1), ether + ip(src="255.255.255.255")]
    vectors(text, {"in0": packets}, {"out0": [good]}, {"x.drops": "3"})


@pytest.mark.parametrize("config", ["", "x", "256", "1, 10.0.0.300", "1, 10.0.0.1, 5"])
def test_arguments_of_the_way_in(config: str) -> None:
    with pytest.raises(MezzoError):
        Router.from_click(f"Idle -> IPInputCombo({config}) -> Discard")


def test_interfaces_are_taken_as_check_ip_header_takes_them(vectors: Any) -> None:
    text = "in0 :: Feed -> x :: IPInputCombo(1, INTERFACES 10.0.0.1/24) -> out0 :: Collect;"
    fine, bad = ip(src="10.0.0.7", dst="10.0.5.5"), ip(src="10.0.0.255", dst="10.0.5.5")
    vectors(text, {"in0": [bytes(14) + fine, bytes(14) + bad]}, {"out0": [fine]}, {"x.drops": "1"})
