"""`mezzo.connect`: a device from Python without a graph."""

from __future__ import annotations

import pytest

import mezzo
from mezzo.base import MezzoError
from mezzo.ports import Fault, MemoryPort

FRAMES = [bytes([2]) * 12 + k.to_bytes(4, "big") + bytes(44) for k in range(5000)]


@pytest.mark.parametrize("target", ["python", "native"])
def test_what_is_sent_comes_back_over_a_loop(target):
    with mezzo.connect("memory", "m", loopback=True, target=target) as device:
        count = 50 if target == "python" else 5000
        got: list[bytes] = []
        for at in range(0, count, 50):
            assert device.send(FRAMES[at : at + 50]) == 50
            got += device.receive(1.0, least=50)
        assert got == FRAMES[:count]
        assert device.facts()["method"] == "memory"


def test_options_go_to_the_end_that_has_them():
    with mezzo.connect("memory", "m", snaplen=20, bql=True) as device:
        assert device.router.elements["from"].snaplen == 20
        assert device.router.elements["to"].bql


def test_a_port_with_wrappers():
    with mezzo.connect("memory", Fault(MemoryPort(loopback=True), drop_pct=100), virtual=True) as device:
        assert device.send(FRAMES[:10]) == 10
        assert device.receive() == []


def test_nothing_comes_and_the_wait_ends():
    with mezzo.connect("memory", "m") as device:
        assert device.receive(0.0) == []


def test_an_unknown_option_is_refused_with_those_there_are():
    with pytest.raises(MezzoError, match=r"METHOD MEMORY has no option `colour`\nit takes .*loopback"):
        mezzo.connect("memory", "m", colour="red")
