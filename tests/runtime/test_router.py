"""The runtime: feeding, collecting, handlers, the ledger."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.elements import ConfigError, Element, library
from mezzo.pipeline import compile_text
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


@pytest.mark.parametrize(
    ("path", "code"),
    [("nix.count", 510), ("\N{SUPERSCRIPT TWO}.name", 510), ("in0.nix", 511), ("nix", 511), ("stop", 511)],
)
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
    with pytest.raises(MezzoError, match="no target `fpga`; there are kernel, native, python"):
        Router.from_click("Feed -> Collect;", target="fpga")


class Asks(Element):
    """Uses the handlers of others while the router starts, before their own start."""

    ports = "0/0"

    def initialize(self):
        self.found = self.router.read("f.count"), self.router.read("q.class")
        for ask in (lambda: self.router.read("r.table"), lambda: self.router.write("q.capacity", "5")):
            with pytest.raises(HandlerError, match="not ready: the router is still starting"):
                ask()


@pytest.mark.parametrize("target", ["python", "native"])
def test_Ho08_handlers_before_the_start(target):
    text = """f :: InfiniteSource(LIMIT 9); a :: Asks; f -> q :: Queue -> Unqueue -> Discard;
Idle -> r :: RadixIPLookup(1.0.0.0/8 0) -> Discard;"""
    library.register(Asks)
    with Router.from_click(text, target=target, virtual=True) as made:
        assert made.elements["a"].found == ("0", "Queue")
        assert made.read("r.table") == "1.0.0.0/8\t\t-\t\t0\n"
    arp = compile_text("q :: ARPQuerier(1.1.1.1, 1:1:1:1:1:1) -> Discard; q[1] -> Discard; Idle -> q; Idle -> [1] q")
    with pytest.raises(ConfigError, match="not ready: the router has not started"):
        arp.by_name()["q"].handler_table["insert"].write(arp.by_name()["q"], "1.1.1.2 2:2:2:2:2:2")
