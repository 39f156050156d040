"""The runtime: feeding, collecting, handlers, the ledger."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError


def test_packets_pass_on_every_target(vectors):
    vectors(
        "in0 :: Feed -> LoopGuard -> out0 :: Collect;",
        {"in0": [b"abc", b""]},
        {"out0": [b"abc", b""]},
        {"in0.count": "2"},
        {},
    )


@pytest.fixture
def router():
    with Router.from_click("in0 :: Feed -> out0 :: Collect;", target="python", virtual=True) as made:
        yield made


def test_standard_handlers(router):
    assert router.read("in0.name") == "in0"
    assert router.read("in0.class") == "Feed"
    assert router.read("out0.ports") == "1 input\npush\t-\tin0 [0]\n0 outputs\n"
    assert router.read("list") == "2\nin0\nout0\n"


@pytest.mark.parametrize(("path", "code"), [("nix.count", 510), ("in0.nix", 511), ("nix", 511), ("stop", 511)])
def test_reads_that_fail_say_why(router, path, code):
    with pytest.raises(HandlerError) as trouble:
        router.read(path)
    assert trouble.value.code == code


def test_close_empties_rings_and_proves_it(router):
    router.feed("in0", [b"x"] * 5)
    assert router.holders() == {"in0": 5}


def test_feed_stops_when_full(router):
    assert router.feed("in0", [b"x"] * 5000) == 4096


def test_unknown_target_is_refused():
    with pytest.raises(MezzoError, match="no target `fpga`; there are native, python"):
        Router.from_click("Feed -> Collect;", target="fpga")
