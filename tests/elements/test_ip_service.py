"""SetIPECN, SetIPDSCP, MarkIPCE and StoreIPAddress on every target; sums are judged by arithmetic of the tests'."""

from __future__ import annotations

from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.pipeline import compile_text
from tests.elements.ip_packets import ip, tcp, udp


def through(element: str) -> str:
    return f"in0 :: Feed -> MarkIPHeader -> x :: {element} -> out0 :: Collect;"


@pytest.mark.parametrize(("word", "bits"), [("no", 0), ("ECT(1)", 1), ("ect2", 2), ("ECT(0)", 2), ("CE", 3), ("1", 1)])
def test_ecn(vectors: Any, word: str, bits: int) -> None:
    give = [ip(b"data", tos=t) for t in (0, 1, 2, 3, 0xB8, 0xFF)]
    want = [ip(b"data", tos=t & 0xFC | bits) for t in (0, 1, 2, 3, 0xB8, 0xFF)]
    vectors(through(f"SetIPECN({word})"), give={"in0": give}, want={"out0": want}, drops={})


def test_dscp_leaves_ecn_alone(vectors: Any) -> None:
    give = [ip(b"data", tos=t) for t in (0, 3, 0xFF)]
    want = [ip(b"data", tos=46 << 2 | t & 3) for t in (0, 3, 0xFF)]
    vectors(through("SetIPDSCP(46)"), give={"in0": give}, want={"out0": want}, reads={"x.dscp": "46"}, drops={})


def test_marks_who_knows_of_it(vectors: Any) -> None:
    give = [ip(b"data", tos=t) for t in (0, 1, 2, 3, 0xB8)]
    want = [ip(b"data", tos=3)] * 3
    drops = {("x", "not ECN-capable"): 2}
    vectors(through("MarkIPCE"), give={"in0": give}, want={"out0": want}, reads={"x.drops": "2"}, drops=drops)
    forced = [ip(b"data", tos=3)] * 4 + [ip(b"data", tos=0xBB)]
    vectors(through("MarkIPCE(FORCE true)"), give={"in0": give}, want={"out0": forced}, drops={})


def test_without_a_mark_nothing_is_written(vectors: Any) -> None:
    text = "in0 :: Feed -> x :: MarkIPCE -> out0 :: Collect;"
    vectors(text, give={"in0": [ip(tos=2), b""]}, want={"out0": []}, drops={("x", "no IP header"): 2})


def test_a_wrong_checksum_stays_wrong(vectors: Any) -> None:
    good, wrong = ip(tos=1), ip(tos=1, check=0x1234)
    got = vectors(through("MarkIPCE"), give={"in0": [good, wrong]}, outputs=["out0"])["out"]["out0"]
    assert got[0] == ip(tos=3)
    assert got[1][10:12] != ip(tos=3)[10:12]


@pytest.mark.parametrize("element", ["SetIPECN(4)", "SetIPECN(much)", "SetIPECN", "SetIPDSCP(64)", "MarkIPCE(FORCE 7)"])
def test_service_arguments(element: str) -> None:
    with pytest.raises(MezzoError):
        compile_text(through(element))


@pytest.mark.parametrize("make", [tcp, udp])
@pytest.mark.parametrize(("place", "new"), [("src", "1.2.3.4"), ("dst", "255.255.255.255"), ("src", "10.0.0.1")])
def test_store_in_the_header(vectors: Any, make: Any, place: str, new: str) -> None:
    """What comes out is what would have been made with the address from the start."""
    proto = 6 if make is tcp else 17
    there = {"src": "10.0.0.1", "dst": "10.0.0.2"}
    give = [ip(make(b"odd", **there), proto=proto, **there)]
    there |= {place: new}
    want = [ip(make(b"odd", **there), proto=proto, **there)]
    vectors(through(f"StoreIPAddress({new}, {place})"), give={"in0": give}, want={"out0": want}, drops={})


def test_store_leaves_what_has_no_sum(vectors: Any) -> None:
    """UDP without a checksum, later fragments, headers cut short."""
    bodies = [(udp(b"x", check=0), 0), (b"fragment" * 3, 5), (b"\1\2\3", 0)]
    give = [ip(body, frag=frag) for body, frag in bodies]
    want = [ip(body, frag=frag, dst="9.9.9.9") for body, frag in bodies]
    vectors(through("StoreIPAddress(9.9.9.9, dst)"), give={"in0": give}, want={"out0": want}, drops={})


def test_store_by_offset(vectors: Any) -> None:
    text = "in0 :: Feed -> x :: StoreIPAddress(1.2.3.4, 2) -> out0 :: Collect;"
    give = {"in0": [b"........", b"......", b"....."]}
    want = [b"..\1\2\3\4..", b"..\1\2\3\4"]
    vectors(text, give=give, want={"out0": want}, drops={("x", "too short"): 1})
    vectors(text + "x[1] -> out1 :: Collect;", give=give, want={"out0": want, "out1": [b"....."]}, drops={})


def test_store_of_the_annotation(vectors: Any) -> None:
    text = "in0 :: Feed -> SetIPAddress({}) -> x :: StoreIPAddress(1) -> out0 :: Collect;"
    vectors(text.format("7.7.7.7"), give={"in0": [b"....."]}, want={"out0": [b".\7\7\7\7"]}, drops={})
    vectors(text.format("0.0.0.0"), give={"in0": [b"....."]}, want={"out0": [b"....."]}, drops={})


@pytest.mark.parametrize("words", ["", "1.2.3.4", "nonsense, 3", "1.2.3.4, where", "1.2.3.4, -1", "1.2.3.4, 70000"])
def test_store_arguments(words: str) -> None:
    with pytest.raises(MezzoError):
        compile_text(through(f"StoreIPAddress({words})"))
