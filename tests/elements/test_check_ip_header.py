"""CheckIPHeader and its kin: what is let through, what is marked, and why the rest is refused."""

from __future__ import annotations

import random
import socket
from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from tests.elements.ip_packets import checksum, ip, udp

BOTH = "in0 :: Feed -> c :: {} -> out0 :: Collect; c[1] -> out1 :: Collect;"
ALONE = "in0 :: Feed -> c :: {} -> out0 :: Collect;"
BAD = {
    "tiny packet": ip()[:19],
    "bad IP header length": ip(ihl=4, payload=b"12345678"),
    "bad IP version": ip(version=6, payload=b"12345678"),
    "bad IP length": ip(length=1500, payload=b"12345678"),
    "bad IP checksum": ip(check=0x1234, payload=b"12345678"),
}


def test_Do10_ethernet_padding_goes(vectors: Any) -> None:
    packet = ip(b"x" * 28)
    frame = bytes(14) + packet + bytes(80 - 14 - len(packet))
    text = "in0 :: Feed -> s :: Strip(14) -> c :: CheckIPHeader -> n :: Counter -> out0 :: Collect;"
    vectors(text, {"in0": [frame]}, {"out0": [packet]}, {"n.byte_count": "48"})


def test_Eo09_bad_headers_leave_with_their_reason(vectors: Any) -> None:
    more = [ip(length=16, payload=bytes(8)), ip(length=0, payload=bytes(8)), ip(ihl=15, payload=bytes(8), check=0)]
    bad = [*BAD.values(), *more, b""]
    counts = "2\ttiny packet", "1\tbad IP version", "1\tbad IP header length", "4\tbad IP length", "1\tbad IP checksum"
    reads = {"c.drops": "9", "c.drop_details": "\n".join([*counts, "0\tbad source address", ""])}
    vectors(BOTH.format("CheckIPHeader"), {"in0": bad}, {"out0": [], "out1": bad}, reads, {})


@pytest.mark.parametrize("reason", BAD)
def test_unconnected_output_makes_a_drop_with_the_reason(vectors: Any, reason: str) -> None:
    vectors(ALONE.format("CheckIPHeader(DETAILS true)"), {"in0": [BAD[reason]]}, {"out0": []}, drops={("c", reason): 1})


def test_bad_sources_and_their_exceptions(vectors: Any) -> None:
    sources = ["10.0.0.255", "10.1.255.255", "0.0.0.0", "255.255.255.255", "10.0.0.7"]
    packets = [ip(src=s) for s in sources] + [ip(src="10.0.0.255", dst="10.0.0.1")]
    text = BOTH.format("CheckIPHeader(INTERFACES 10.0.0.1/24 10.1.0.1/16)")
    vectors(text, {"in0": packets}, {"out0": packets[4:], "out1": packets[:4]})
    text = BOTH.format("CheckIPHeader(BADSRC 10.0.0.255, GOODDST 10.0.0.1)")
    vectors(text, {"in0": packets}, {"out0": packets[1:], "out1": packets[:1]})
    text = BOTH.format("CheckIPHeader(10.0.0.255 10.1.255.255, 0)")
    vectors(text, {"in0": packets}, {"out0": packets[4:5], "out1": [*packets[:4], packets[5]]})


def test_a_link_of_two_has_no_broadcast_address(vectors: Any) -> None:
    packet = ip(src="10.0.0.1")
    vectors(BOTH.format("CheckIPHeader(INTERFACES 10.0.0.0/31)"), {"in0": [packet]}, {"out0": [packet], "out1": []})


def test_offset_and_checksum_off(vectors: Any) -> None:
    packet = b"ab" + BAD["bad IP checksum"]
    vectors(BOTH.format("CheckIPHeader(2, CHECKSUM false)"), {"in0": [packet]}, {"out0": [packet], "out1": []})
    vectors(BOTH.format("CheckIPHeader2(OFFSET 2)"), {"in0": [packet]}, {"out0": [packet], "out1": []})


def test_marks_and_annotation_are_set(vectors: Any) -> None:
    packet = b"ab" + ip(udp(b"data"), options=b"\1\1\1\1", dst="1.2.3.4")
    with Router.from_click(ALONE.format("CheckIPHeader(2)"), virtual=True) as router:
        router.feed("in0", [packet])
        router.run(rounds=1000)
        (got,) = router.collect_packets("out0", lambda p: (p.mark("net"), p.mark("trans"), bytes(p.anno[:4])))
    assert got == (2, 26, socket.inet_aton("1.2.3.4"))


def test_strip_and_unstrip_ip_header(vectors: Any) -> None:
    packet = ip(b"data", options=b"\1\1\1\1")
    head = "in0 :: Feed -> MarkIPHeader -> "
    vectors(head + "s :: StripIPHeader -> out0 :: Collect;", {"in0": [packet]}, {"out0": [b"data"]})
    vectors(head + "StripIPHeader -> UnstripIPHeader -> out0 :: Collect;", {"in0": [packet]}, {"out0": [packet]})
    text = "in0 :: Feed -> s :: StripIPHeader -> out0 :: Collect;"
    vectors(text, {"in0": [packet]}, {"out0": []}, drops={("s", "no IP header"): 1})
    vectors(head + "out0 :: Collect;", {"in0": [b"", b"\x45"]}, {"out0": [b"", b"\x45"]}, drops={})


def test_a_wrong_argument_says_what_to_write() -> None:
    for bad in ("OFFSET -1", "BADSRC 1.2.3", "INTERFACES 1.2.3.4", "NONSENSE 3"):
        with pytest.raises(MezzoError, match=bad.split()[0]):
            Router.from_click(ALONE.format(f"CheckIPHeader({bad})"))


def judge(packet: bytes) -> bool:
    """What RFC 1812, 5.2.2 says, in other words than the element."""
    if len(packet) < 20 or packet[0] >> 4 != 4:
        return False
    header, length = (packet[0] & 15) * 4, int.from_bytes(packet[2:4], "big")
    return 20 <= header <= length <= len(packet) and checksum(packet[:header]) == 0


def test_random_packets_are_judged_as_by_the_rfc(vectors: Any) -> None:
    chance = random.Random(4)
    packets = []
    for _ in range(300):
        options = bytes(chance.choice((0, 0, 4, 40)))
        packet = bytearray(ip(chance.randbytes(chance.randrange(30)), options=options) + bytes(chance.choice((0, 6))))
        if chance.random() < 0.6:
            packet[chance.randrange(len(packet))] = chance.randrange(256)
        packets.append(bytes(packet[: chance.choice((len(packet), chance.randrange(len(packet) + 1)))]))
    good = [p[: int.from_bytes(p[2:4], "big")] for p in packets if judge(p)]
    assert len(good) > 50
    assert all(dpkt.ip.IP(p).len == len(p) for p in good)
    bad = [p for p in packets if not judge(p)]
    vectors(BOTH.format("CheckIPHeader"), {"in0": packets}, {"out0": good, "out1": bad})
