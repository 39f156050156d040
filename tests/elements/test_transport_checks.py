"""Transport headers checked, and their checksums set."""

from __future__ import annotations

import random
import struct
from typing import Any

import dpkt

from tests.elements.ip_packets import checksum, icmp, ip, pseudo, tcp, udp

BOTH = "in0 :: Feed -> MarkIPHeader -> x :: {} -> out0 :: Collect; x[1] -> out1 :: Collect;"
ALONE = "in0 :: Feed -> MarkIPHeader -> x :: {} -> out0 :: Collect;"


def details(names: str, *counts: int) -> str:
    words = [f"not {names}", "bad packet length", f"bad {names} checksum"]
    return "".join(f"{count}\t{word}\n" for count, word in zip(counts, words, strict=True))


def test_Eo10_udp_length_field(vectors: Any) -> None:
    packets = [ip(udp(length=n, check=0)) for n in (8, 7, 9, 10)]
    reads = {"x.drops": "3", "x.drop_details": details("UDP", 0, 3, 0)}
    vectors(BOTH.format("CheckUDPHeader"), {"in0": packets}, {"out0": packets[:1], "out1": packets[1:]}, reads)


def test_udp(vectors: Any) -> None:
    padded = ip(udp(b"x"), options=b"\1\1\1\1") + b"pad"
    good = [ip(udp(b"odd")), ip(udp(b"even", check=0)), ip(udp(b"x") + b"behind"), padded]
    bad = [ip(udp(b"x", check=7)), ip(tcp(), proto=6), ip(b"1234567"), ip(udp(), frag=0x2000), ip(udp(), frag=3), b""]
    reads = {"x.drop_details": details("UDP", 1, 3, 1)}
    got = vectors(BOTH.format("CheckUDPHeader"), {"in0": good + bad}, {"out0": good, "out1": bad[:-1]}, reads)
    assert got["drops"] == {("x", "fault"): 1}
    vectors(ALONE.format("CheckUDPHeader"), {"in0": bad[:1]}, {"out0": []}, drops={("x", "bad UDP checksum"): 1})


def test_tcp(vectors: Any) -> None:
    good = [ip(tcp(b"odd"), proto=6), ip(tcp(b"even"), proto=6, options=b"\1\1\1\1"), ip(tcp(b"x"), proto=6) + b"pad"]
    bad = [
        ip(tcp(b"x", check=7), proto=6),
        ip(udp()),
        ip(tcp()[:19], proto=6),
        ip(tcp(offset=4), proto=6),
        ip(tcp(offset=6), proto=6),
        ip(tcp(), proto=6, frag=0x2000),
    ]
    reads = {"x.drop_details": details("TCP", 1, 4, 1), "x.drops": "6"}
    vectors(BOTH.format("CheckTCPHeader"), {"in0": good + bad}, {"out0": good, "out1": bad}, reads)


def test_icmp(vectors: Any) -> None:
    good = [
        ip(icmp(8, payload=b"abc"), proto=1),
        ip(icmp(3, payload=ip(udp())), proto=1),
        ip(icmp(13, payload=bytes(12)), proto=1),
        ip(icmp(15), proto=1),
        ip(icmp(99), proto=1),
    ]
    bad = [
        ip(icmp(8)[:7], proto=1),
        ip(icmp(11, payload=bytes(27)), proto=1),
        ip(icmp(14, payload=bytes(11)), proto=1),
        ip(icmp(16, payload=bytes(1)), proto=1),
        ip(icmp(8)[:-1] + b"\1", proto=1),
        ip(udp()),
    ]
    reads = {"x.drop_details": details("ICMP", 1, 4, 1)}
    vectors(BOTH.format("CheckICMPHeader"), {"in0": good + bad}, {"out0": good, "out1": bad}, reads)


def test_unmarked_packets_are_other_packets(vectors: Any) -> None:
    for name in ("UDP", "TCP", "ICMP"):
        text = f"in0 :: Feed -> x :: Check{name}Header -> out0 :: Collect;"
        vectors(text, {"in0": [ip(udp())]}, {"out0": []}, drops={("x", f"not {name}"): 1})


def test_set_ip_checksum(vectors: Any) -> None:
    good = [ip(b"x", check=0x1234), ip(b"x", options=b"\1\1\1\1", check=0)]
    want = [ip(b"x"), ip(b"x", options=b"\1\1\1\1")]
    bad = [ip(ihl=4, check=0), ip(ihl=6, check=0), ip()[:19]]
    drops = {("x", "bad IP header length"): 2, ("x", "no IP header"): 1}
    vectors(ALONE.format("SetIPChecksum"), {"in0": good + bad}, {"out0": want}, {"x.drops": "3"}, drops)


def test_set_udp_and_tcp_checksum_of_random_packets(vectors: Any) -> None:
    chance = random.Random(11)
    loads = [chance.randbytes(chance.randrange(40)) for _ in range(60)]
    vectors(
        ALONE.format("SetUDPChecksum"),
        {"in0": [ip(udp(x, check=5)) for x in loads]},
        {"out0": [ip(udp(x)) for x in loads]},
    )
    vectors(
        ALONE.format("SetTCPChecksum"),
        {"in0": [ip(tcp(x, check=5), proto=6) for x in loads]},
        {"out0": [ip(tcp(x), proto=6) for x in loads]},
    )
    assert all(dpkt.ip.IP(ip(udp(x))).udp.ulen == 8 + len(x) for x in loads)


def test_a_udp_checksum_of_zero_is_sent_as_ones(vectors: Any) -> None:
    head = pseudo("10.0.0.1", "10.0.0.2", 17, 10) + struct.pack(">HHHH", 1, 2, 10, 0)
    payload = struct.pack(">H", checksum(head))
    given = [ip(udp(payload, check=0))]
    (got,) = vectors(ALONE.format("SetUDPChecksum"), {"in0": given}, outputs=["out0"])["out"]["out0"]
    assert got[26:28] == b"\xff\xff"
    vectors(BOTH.format("CheckUDPHeader"), {"in0": [got]}, {"out0": [got], "out1": []})


def test_Eo11_no_checksum_over_a_fragment(vectors: Any) -> None:
    first, last = ip(udp(b"x" * 16, check=0), frag=0x2000), ip(b"x" * 16, frag=2)
    short = [ip(udp(b"x", length=7)), ip(udp(b"x", length=10)), ip(b"1234567")]
    vectors(BOTH.format("SetUDPChecksum"), {"in0": [first, last, *short]}, {"out0": [], "out1": [first, last, *short]})
    drops = {("x", "fragment"): 2, ("x", "bad UDP length"): 3}
    vectors(ALONE.format("SetUDPChecksum"), {"in0": [first, last, *short]}, {"out0": []}, drops=drops)
    pieces = [ip(tcp(), proto=6, frag=0x2000), ip(tcp()[:19], proto=6), ip(udp())]
    drops = {("x", "fragment"): 1, ("x", "bad TCP length"): 1, ("x", "not TCP"): 1}
    vectors(ALONE.format("SetTCPChecksum"), {"in0": pieces}, {"out0": []}, drops=drops)


def test_fixoff_repairs_the_tcp_header_length(vectors: Any) -> None:
    given = [ip(tcp(b"abcdefg", offset=n), proto=6) for n in (0, 4, 5, 6, 7, 15)]
    got = vectors(ALONE.format("SetTCPChecksum(true)"), {"in0": given}, outputs=["out0"])["out"]["out0"]
    assert [p[32] >> 4 for p in got] == [5, 5, 5, 6, 6, 6]
    vectors(BOTH.format("CheckTCPHeader"), {"in0": got}, {"out0": got, "out1": []})
