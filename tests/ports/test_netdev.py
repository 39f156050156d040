"""Interfaces: their facts, their settings, their news; on real veth pairs."""

from __future__ import annotations

import select
import socket

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _netdev, _netlink
from tests.ports.netlab import inside, ip, namespace, unique, veth_pair

pytestmark = pytest.mark.needs_root


def soon(watch: _netdev.Watch) -> list[str]:
    """News that the kernel has sent, which is before the command that made them returns."""
    assert select.select([watch], [], [], 2)[0]
    return watch.news()


def test_the_facts_of_a_veth(pair):
    with inside(pair.a.ns):
        found = _netdev.link(pair.a.name)
    assert (found.name, found.mac, found.mtu, found.kind) == (pair.a.name, pair.a.mac, 1500, "veth")
    assert found.is_up and found.has_carrier and found.peer_index and found.tx_queues == 1
    assert found.facts()["carrier"] is True


def test_queues_are_counted():
    with namespace() as a, namespace() as b, veth_pair(a, b, queues=3) as pair, inside(a):
        assert _netdev.link(pair.a.name).rx_queues == 3


def test_a_name_that_nobody_has_is_answered_with_near_ones(pair):
    with inside(pair.a.ns):
        with pytest.raises(MezzoError, match=f"did you mean `{pair.a.name}`"):
            _netdev.link(pair.a.name[:-1] + "z")
        with pytest.raises(MezzoError, match="there are: lo, "):
            _netdev.link("wifi")
        with pytest.raises(MezzoError, match="at most 15 bytes"):
            _netdev.link("an-interface-of-a-bridge")


def test_by_index_too(pair):
    with inside(pair.a.ns):
        index = _netdev.link(pair.a.name).index
        assert _netdev.link(index).name == pair.a.name
        assert _netdev.maybe_link(index + 1000) is None


def test_settings_change_what_was_named_and_nothing_else(pair):
    with inside(pair.a.ns):
        before = _netdev.link(pair.a.name)
        _netdev.change(before.index, mtu=1400)
        assert (_netdev.link(pair.a.name).mtu, _netdev.link(pair.a.name).is_up) == (1400, True)
        _netdev.change(before.index, up=False)
        _netdev.change(before.index, mac="02:00:00:00:00:77")
        after = _netdev.link(pair.a.name)
        assert (after.mtu, after.is_up, after.mac) == (1400, False, "02:00:00:00:00:77")
        with pytest.raises(OSError, match="Invalid argument"):
            _netdev.change(before.index, mtu=3)


def test_addresses_are_given(pair):
    with inside(pair.a.ns):
        index = _netdev.link(pair.a.name).index
        _netdev.add_address(index, "192.0.2.5/28")
        _netdev.add_address(index, "192.0.2.5/28")  # a second time is no error
    assert "inet 192.0.2.5/28" in ip("address", "show", "dev", pair.a.name, ns=pair.a.ns)


def test_ipv6_addresses_are_given():
    with namespace(ipv6=True) as a, namespace() as b, veth_pair(a, b) as pair:
        with inside(a):
            _netdev.add_address(_netdev.link(pair.a.name).index, "fd00::7/64")
        assert "fd00::7/64" in ip("address", "show", "dev", pair.a.name, ns=a)


def test_news_of_down_up_mtu_and_a_new_name(pair):
    new = unique("n")
    with inside(pair.a.ns):
        watch = _netdev.Watch(_netdev.link(pair.a.name).index)
    assert watch.news() == []
    ip("link", "set", pair.a.name, "down", ns=pair.a.ns)
    assert soon(watch)[0] == "down"
    ip("link", "set", pair.a.name, "mtu", "1400", ns=pair.a.ns)
    assert soon(watch) == ["mtu 1400"]
    ip("link", "set", pair.a.name, "name", new, ns=pair.a.ns)
    assert f"is called {new} now" in soon(watch)
    ip("link", "set", new, "up", ns=pair.a.ns)
    assert "up" in soon(watch)
    watch.close()


def test_news_when_the_other_end_goes_down(pair):
    with inside(pair.a.ns):
        watch = _netdev.Watch(_netdev.link(pair.a.name).index)
    ip("link", "set", pair.b.name, "down", ns=pair.b.ns)
    assert "no carrier" in soon(watch)
    watch.close()


def test_news_when_the_interface_or_its_peer_is_deleted(pair):
    with inside(pair.a.ns):
        watch = _netdev.Watch(_netdev.link(pair.a.name).index)
    ip("link", "del", pair.b.name, ns=pair.b.ns)
    said = soon(watch)
    assert said[-1] == "gone" and watch.is_gone
    assert watch.news() == []
    watch.close()


def test_news_when_the_namespace_of_the_peer_is_deleted():
    with namespace() as a, namespace() as b, veth_pair(a, b) as pair:
        with inside(a):
            watch = _netdev.Watch(_netdev.link(pair.a.name).index)
        ip("netns", "del", b)
        said = []
        while "gone" not in said:
            said += soon(watch)
        watch.close()


def test_news_of_others_are_left_out(pair):
    with inside(pair.a.ns):
        watch = _netdev.Watch(_netdev.link(pair.a.name).index)
    with veth_pair(pair.a.ns, pair.a.ns):
        pass
    assert watch.news() == []
    watch.close()


def test_leaving_a_bridge_is_not_going_away(pair):
    """The kernel says RTM_DELLINK of the family of bridges then."""
    bridge = unique("r")
    ip("link", "add", bridge, "type", "bridge", ns=pair.a.ns)
    ip("link", "set", pair.a.name, "master", bridge, ns=pair.a.ns)
    with inside(pair.a.ns):
        watch = _netdev.Watch(_netdev.link(pair.a.name).index)
    ip("link", "set", pair.a.name, "nomaster", ns=pair.a.ns)
    assert "gone" not in soon(watch)
    watch.close()


def test_a_watch_of_what_is_gone_already_says_so():
    watch = _netdev.Watch(1 << 30)
    assert watch.is_gone
    watch.close()


def test_news_that_did_not_fit_are_asked_for(pair):
    """More changes than the socket holds: the kernel says ENOBUFS, and the state as it is counts."""
    with inside(pair.a.ns):
        link = _netdev.link(pair.a.name)
        watch = _netdev.Watch(link.index)
        watch._netlink.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        for mtu in range(1200, 1240):
            _netdev.change(link.index, mtu=mtu)
    assert watch.news()[-1] == "mtu 1239"
    watch.close()


def test_a_device_is_found_where_it_went(pair):
    with inside(pair.a.ns):
        wanted = _netdev.device(_netdev.link(pair.a.name))
    new = unique("r")
    ip("link", "set", pair.a.name, "down", ns=pair.a.ns)
    ip("link", "set", pair.a.name, "name", new, ns=pair.a.ns)
    space, link = _netdev.find(wanted)
    assert (space.name, link.name) == (pair.a.ns, new)
    with namespace() as third:
        ip("link", "set", new, "netns", third, ns=pair.a.ns)
        space, link = _netdev.find(wanted)
        assert (space.name, link.name) == (third, new)
        ip("link", "del", new, ns=third)
        assert _netdev.find(wanted) is None


def test_the_peer_is_found_in_its_namespace(pair):
    with inside(pair.a.ns):
        space, link = _netdev.peer_of(_netdev.link(pair.a.name))
    assert (space.name, link.name) == (pair.b.ns, pair.b.name)


def test_the_peer_is_found_in_the_same_namespace():
    with namespace() as a, veth_pair(a, a) as pair, inside(a):
        _, link = _netdev.peer_of(_netdev.link(pair.b.name))
        assert link.name == pair.a.name


def test_what_is_no_veth_has_no_peer():
    with pytest.raises(MezzoError, match="`lo` is no veth"):
        _netdev.peer_of(_netdev.link("lo"))


def test_attributes_survive_packing_and_parsing():
    given = {1: b"", 2: b"a", 3: b"abcd", 0x3FFF: b"abcde"}
    assert _netlink.parse_attributes(_netlink.pack_attributes(given)) == given
    assert _netlink.parse_attributes(b"\x02\x00\x01\x00") == {}  # shorter than its own header: the rest is left
