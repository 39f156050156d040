"""MTU and promiscuous mode, as an option of an interface: set while the router runs, put back afterwards (Io07)."""

from __future__ import annotations

import json

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _netdev
from mezzo.runtime import Router
from tests.ports.netlab import inside, ip, mezzo_in, wait_until

pytestmark = pytest.mark.needs_root
METHODS = ("PACKET", "XDP")


@pytest.mark.parametrize("method", METHODS)
def test_the_mtu_while_it_runs_and_after(pair, method):
    with inside(pair.a.ns):
        with Router.from_click(f"FromDevice({pair.a.name}, METHOD {method}, MTU 1400) -> Discard", target="python"):
            assert _netdev.link(pair.a.name).mtu == 1400
        assert _netdev.link(pair.a.name).mtu == 1500


@pytest.mark.parametrize("method", METHODS)
def test_ends_that_differ(pair, method):
    config = f"FromDevice({pair.a.name}, METHOD {method}, MTU 1400) -> Queue -> ToDevice({pair.a.name}, MTU 1300)"
    with inside(pair.a.ns):
        with pytest.raises(MezzoError, match=f"open {pair.a.name} with MTU 1400 and 1300"):
            Router.from_click(config, target="python")
        assert _netdev.link(pair.a.name).mtu == 1500


def test_an_mtu_that_the_device_cannot_have():
    with pytest.raises(MezzoError, match="MTU"):
        Router.from_click("FromDevice(lo, METHOD PACKET, MTU 40) -> Discard", target="python")


@pytest.mark.parametrize("method", METHODS)
def test_an_mtu_that_does_not_fit_leaves_the_old_one(pair, method):
    """XDP refuses it for its frames, PACKET takes any."""
    config = f"FromDevice({pair.a.name}, METHOD {method}, MTU 60000) -> Discard"
    with inside(pair.a.ns):
        try:
            Router.from_click(config, target="python").close()
        except MezzoError as refusal:
            assert method == "XDP" and "MTU" in str(refusal)
        assert _netdev.link(pair.a.name).mtu == 1500


@pytest.mark.parametrize("method", METHODS)
def test_io07_promiscuous_while_it_runs_also_with_a_sniffer(pair, method):
    def promiscuity() -> int:
        return int(json.loads(ip("-d", "-j", "link", "show", pair.a.name, ns=pair.a.ns))[0]["promiscuity"])

    config = f"FromDevice({pair.a.name}, METHOD {method}, PROMISC true) -> Discard"
    with inside(pair.a.ns):
        router = Router.from_click(config, target="python")
        assert promiscuity() == 1
        with Router.from_click(f"FromDevice({pair.a.name}, METHOD PACKET, PROMISC true) -> Discard", target="python"):
            assert promiscuity() == 2
        assert promiscuity() == 1
        router.close()
    assert promiscuity() == 0


@pytest.mark.slow
def test_kill_9_puts_the_mtu_back(pair):
    def mtu() -> int:
        with inside(pair.a.ns):
            return _netdev.link(pair.a.name).mtu

    config = f"FromDevice({pair.a.name}, METHOD PACKET, MTU 1400) -> Discard"
    with mezzo_in(pair.a.ns, "run", "--target", "python", "-e", config) as process:
        wait_until(lambda: mtu() == 1400, 20)
        process.kill()
        process.communicate()
        assert mtu() == 1500
