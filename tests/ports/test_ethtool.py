"""Offload switches at both ends of a veth, wherever its peer is, and put back (Jo03, Jo06)."""

from __future__ import annotations

import socket
import struct

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _ethtool, privileged
from mezzo.wire.checksum import internet_checksum
from tests.ports.netlab import End, inside, ip, namespace, raw_socket, run_in, veth_pair

pytestmark = pytest.mark.needs_root

OFFLOADS = ["tx-checksum", "tso", "uso", "gso", "txvlan"]
SOME = ("tx-checksum-ip-generic", "tx-tcp-segmentation", "tx-generic-segmentation", "tx-vlan-hw-insert")


def wanted(end: End, ns: str = "", name: str = "") -> dict[str, bool]:
    with inside(ns or end.ns):
        return _ethtool.wanted(name or end.name)


def switch(end: End, at: str, **lists: list[str]) -> dict[str, object]:
    with inside(end.ns):
        return privileged.ask({"do": "features", "device": end.name, "at": at, **lists})[1]


def test_switches_as_the_command_shows_them(pair):
    """`ethtool -k` is another reader of the same."""
    with inside(pair.a.ns):
        ours = {k: f.active for k, f in _ethtool.features(pair.a.name).items()}
    lines = run_in(pair.a.ns, ["ethtool", "-k", pair.a.name]).stdout.splitlines()
    theirs = {x.split(":")[0].strip(): x.split()[1] == "on" for x in lines[1:]}
    common = ours.keys() & theirs.keys()
    assert len(common) > 20
    assert {k: ours[k] for k in common} == {k: theirs[k] for k in common}


def test_facts_of_the_driver(pair):
    with inside(pair.a.ns):
        assert _ethtool.driver(pair.a.name) == "veth"
        assert _ethtool.channels(pair.a.name)["rx"] == 1
        assert _ethtool.rings(pair.a.name) == {}  # a veth has no rings of a device
        assert _ethtool.driver("lo") == ""


def test_off_and_back_here(pair):
    before = wanted(pair.a)
    facts = switch(pair.a, "here", off=OFFLOADS)
    assert facts["refused"] == [] and facts["where"] == pair.a.name
    after = wanted(pair.a)
    assert not any(after[k] for k in SOME)
    assert set(facts["changed"]) == {k for k in after if after[k] != before[k]}
    assert privileged.undo(facts["undo"]) == []
    assert wanted(pair.a) == before


def test_what_is_so_already_is_no_change(pair):
    run_in(pair.a.ns, ["ethtool", "-K", pair.a.name, "tso", "off"])
    facts = switch(pair.a, "here", off=["tso"])
    assert facts["changed"] == {} and facts["undo"] == []


def test_jo03_the_peer_in_its_own_namespace(pair):
    mine, theirs = wanted(pair.a), wanted(pair.b)
    facts = switch(pair.a, "peer", off=OFFLOADS)
    assert facts["where"] == f"{pair.b.name}, the peer, in the namespace {pair.b.ns}"
    assert not any(wanted(pair.b)[k] for k in SOME)
    assert wanted(pair.a) == mine
    assert privileged.undo(facts["undo"]) == []
    assert wanted(pair.b) == theirs


def test_jo03_the_peer_that_moved_before(pair):
    with namespace() as third:
        ip("link", "set", pair.b.name, "netns", third, ns=pair.b.ns)
        facts = switch(pair.a, "peer", off=["tso"])
        assert third in facts["where"]
        assert not wanted(pair.b, third)["tx-tcp-segmentation"]
        privileged.undo(facts["undo"])
        assert wanted(pair.b, third)["tx-tcp-segmentation"]


def test_jo03_the_peer_that_moves_after(pair):
    before = wanted(pair.b)
    facts = switch(pair.a, "peer", off=OFFLOADS)
    with namespace() as third:
        ip("link", "set", pair.b.name, "netns", third, ns=pair.b.ns)
        assert not any(wanted(pair.b, third)[k] for k in SOME)  # the switches go along
        assert privileged.undo(facts["undo"]) == []
        assert wanted(pair.b, third) == before


def test_the_peer_that_is_gone_needs_no_undoing(pair):
    facts = switch(pair.a, "peer", off=["tso"])
    ip("link", "del", pair.b.name, ns=pair.b.ns)
    assert privileged.undo(facts["undo"]) == []


def test_what_somebody_else_changed_meanwhile_stays(pair):
    facts = switch(pair.a, "here", off=["txvlan"])
    run_in(pair.a.ns, ["ethtool", "-K", pair.a.name, "txvlan", "on"])
    privileged.undo(facts["undo"])
    assert wanted(pair.a)["tx-vlan-hw-insert"]


def test_two_that_need_it_off_and_the_last_puts_it_back(pair):
    first = switch(pair.a, "here", off=["tso"])
    second = switch(pair.a, "here", off=["tso"])
    assert second["changed"] == {} and second["undo"]
    privileged.undo(first["undo"])
    assert not wanted(pair.a)["tx-tcp-segmentation"]
    privileged.undo(second["undo"])
    assert wanted(pair.a)["tx-tcp-segmentation"]
    assert privileged.undo(second["undo"]) == []  # twice is once


def test_what_cannot_be_changed_is_told():
    with namespace() as a, namespace() as b, veth_pair(a, b) as pair:
        facts = switch(pair.a, "here", off=["tso"], on=["rx-fcs", "lro"])
        assert facts["refused"] == ["rx-fcs", "rx-lro"]
        privileged.undo(facts["undo"])


def test_names_that_this_kernel_does_not_know_are_left_out(pair):
    facts = switch(pair.a, "here", off=["tx-of-the-future"])
    assert (facts["changed"], facts["refused"], facts["undo"]) == ({}, [], [])


def test_no_veth_no_peer():
    with pytest.raises(MezzoError, match="`lo` is no veth"):
        privileged.ask({"do": "features", "device": "lo", "at": "peer", "off": ["tso"]})


def test_queues_are_set_and_put_back():
    with namespace() as a, namespace() as b, veth_pair(a, b, queues=4) as pair, inside(a):
        before = _ethtool.channels(pair.a.name)
        _, facts = privileged.ask({"do": "channels", "device": pair.a.name, "combined": 2})
        assert (facts["rx"], facts["tx"]) == (2, 2)
        privileged.undo(facts["undo"])
        assert _ethtool.channels(pair.a.name) == before


def test_a_number_of_queues_that_does_not_go_is_refused(pair):
    with inside(pair.a.ns), pytest.raises(privileged.Refused, match="its number of queues: Invalid argument"):
        privileged.ask({"do": "channels", "device": pair.a.name, "combined": 64})


def udp_seen(pair) -> bool:
    """Whether a UDP packet of b's kernel has a whole checksum when it comes to a's port."""
    with raw_socket(pair.a) as port:
        with inside(pair.b.ns):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.bind((pair.b.ip, 0))
            sender.sendto(b"who has example.org?", ("10.7.0.255", 53))
        frame = port.recv(2048)
        while frame[12:14] != b"\x08\x00":
            frame = port.recv(2048)
    udp = frame[34:]
    pseudo = frame[26:34] + struct.pack("!HH", 17, len(udp))
    return internet_checksum(pseudo + udp) == 0


@pytest.mark.parametrize("off_here", [False, True])
@pytest.mark.parametrize("off_there", [False, True])
def test_jo06_checksums_depend_on_the_sender_alone(pair, off_here, off_there):
    """Four combinations: the frame is whole exactly where the end that made it was told to finish it."""
    if off_here:
        run_in(pair.a.ns, ["ethtool", "-K", pair.a.name, "tx", "off"])
    if off_there:
        run_in(pair.b.ns, ["ethtool", "-K", pair.b.name, "tx", "off"])
    assert udp_seen(pair) == off_there
    facts = switch(pair.a, "peer", off=["tx-checksum"])
    assert udp_seen(pair)
    privileged.undo(facts["undo"])
    assert udp_seen(pair) == off_there
