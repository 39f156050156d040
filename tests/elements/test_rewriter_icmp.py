"""ICMP through NAT: errors about translated packets, echoes, and rewriters of addresses alone."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names
from tests.elements import ip_packets
from tests.elements.nat_packets import echo, error, pieces, tcp, udp

NAT = """
    in0 :: Feed -> MarkIPHeader -> [0] r :: {}; in1 :: Feed -> MarkIPHeader -> [1] r;
    r[0] -> out0 :: Collect; r[1] -> out1 :: Collect;
"""
ERRORS = " in2 :: Feed -> MarkIPHeader -> e :: ICMPRewriter(r) -> out2 :: Collect; e[1] -> out3 :: Collect;"
A, B = ("10.0.0.2", 5000), ("10.0.0.3", 5000)
DNS, US = ("9.9.9.9", 53), "1.0.0.1"
NAPT = "IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)"
PINGS = "ICMPPingRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)"
GONE = {("r", "no mapping"): 1}


def told(text: str, first: list[bytes], then: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """What ICMPRewriter makes of errors after the rewriter has seen other packets; every target has to agree."""
    answers = []
    for target in target_names():
        with Router.from_click(text + ERRORS, target=target, virtual=True) as router:
            router.feed("in0", first)
            router.run()
            router.feed("in2", then)
            router.run()
            answers.append((router.collect("out2"), router.collect("out3")))
    assert all(a == answers[0] for a in answers)
    return answers[0]


@pytest.mark.slow
def test_Co04_error_for_a_translated_flow() -> None:
    sent, seen = udp(A, DNS), udp((US, 1024), DNS)
    for kind, code in ((3, 1), (3, 4), (11, 0), (12, 0), (4, 0), (5, 1)):
        got = told(NAT.format(NAPT), [sent], [error("8.8.8.1", US, seen, kind, code)])
        assert got == ([error("8.8.8.1", "10.0.0.2", sent, kind, code)], [])
    assert sent[26:28] == error("8.8.8.1", "10.0.0.2", sent)[54:56] == bytes.fromhex("67a0")


@pytest.mark.slow
@pytest.mark.parametrize("make", [udp, tcp])
def test_the_quoted_packet_whole_or_short(make: Any) -> None:
    for size in (28, 30, 36, 38, 40, 60):
        sent, seen = make(A, DNS, bytes(range(20))), make((US, 1024), DNS, bytes(range(20)))
        (got,), _ = told(NAT.format(NAPT), [sent], [error("8.8.8.1", US, seen, quoted=size)])
        want = error("8.8.8.1", "10.0.0.2", sent, quoted=size)
        # A sum that is not quoted cannot be brought up to date, and need not be.
        assert got == want, size


def test_a_quoted_checksum_of_0_stays_0() -> None:
    got, _ = told(NAT.format(NAPT), [udp(A, DNS, check=0)], [error("8.8.8.1", US, udp((US, 1024), DNS, check=0))])
    assert got == [error("8.8.8.1", "10.0.0.2", udp(A, DNS, check=0))]


def test_errors_from_inside_tell_the_outside_name() -> None:
    """The inside host refuses an answer: its error goes out as the NAT's (RFC 5508, REQ-5)."""
    answer, seen = udp(DNS, A, b"answer"), udp(DNS, (US, 1024), b"answer")
    got, _ = told(NAT.format(NAPT), [udp(A, DNS)], [error("10.0.0.2", "9.9.9.9", answer, 3, 3)])
    assert got == [error(US, "9.9.9.9", seen, 3, 3)]


def test_what_is_not_about_a_flow_leaves_by_output_1() -> None:
    seen = udp((US, 1024), DNS)
    good = error("8.8.8.1", US, seen)
    strange = [
        error("8.8.8.1", US, udp((US, 1025), DNS)),
        error("8.8.8.1", US, tcp((US, 1024), DNS)),
        error("8.8.8.1", US, echo(US, "9.9.9.9", 1)),
        error("8.8.8.1", US, seen, quoted=27),
        error("8.8.8.1", US, b"\x4f" + seen[1:]),
        error("8.8.8.1", US, b"\x44" + seen[1:]),
        error("8.8.8.1", US, b"\x65" + seen[1:]),
        error("8.8.8.1", US, pieces(udp((US, 1024), DNS, bytes(40)), 24)[1]),
        echo("8.8.8.1", US, 9),
        seen,
        good[:20],
        ip_packets.ip(good[20:], "8.8.8.1", US, 1, frag=1),
    ]
    assert told(NAT.format(NAPT), [udp(A, DNS)], strange) == ([], strange)


def test_garbage_harms_nobody() -> None:
    dice = random.Random(5)
    good = error("8.8.8.1", US, udp((US, 1024), DNS))
    bad = []
    for _ in range(300):
        packet = bytearray(good)
        for _ in range(dice.randrange(1, 4)):
            packet[dice.randrange(20, len(packet))] = dice.randrange(256)
        bad.append(bytes(packet[: dice.randrange(20, len(packet) + 1)]))
    done, left = told(NAT.format(NAPT), [udp(A, DNS)], bad)
    assert len(done) + len(left) == 300


def test_maps_are_rewriters() -> None:
    for words, why in (("nobody", "`nobody` is no rewriter"), ("in0", "`in0` is no rewriter")):
        with pytest.raises(MezzoError, match=why):
            Router.from_click(NAT.format(NAPT) + ERRORS.replace("(r)", f"({words})"), virtual=True)


@pytest.mark.slow
def test_errors_find_the_rewriter_that_a_reload_has_put_in_place() -> None:
    sent, seen = udp(A, DNS), udp((US, 1024), DNS)
    for target in target_names():
        with Router.from_click(NAT.format(NAPT) + ERRORS, target=target, virtual=True) as router:
            router.feed("in0", [sent])
            router.run()
            router.reload(NAT.format(NAPT.replace("drop", "drop, UDP_TIMEOUT 77")) + ERRORS.replace("(r)", "(r r)"))
            router.feed("in2", [error("8.8.8.1", US, seen)])
            router.run()
            assert router.collect("out2") == [error("8.8.8.1", "10.0.0.2", sent)]
            assert "exp 77.0s" in router.read("r.mappings")
            router.write("r.clear", "")
            router.feed("in2", [error("8.8.8.1", US, seen)])
            router.run()
            assert router.collect("out3") == [error("8.8.8.1", US, seen)]


# -- echoes


def test_pings_of_two_hosts_with_one_identifier(vectors: Any) -> None:
    give = {
        "in0": [echo("10.0.0.2", "9.9.9.9", 7), echo("10.0.0.3", "9.9.9.9", 7), echo("10.0.0.2", "9.9.9.9", 7, seq=2)],
        "in1": [echo("9.9.9.9", US, 1025, reply=True), echo("9.9.9.9", US, 1024, reply=True)],
    }
    out = [echo(US, "9.9.9.9", 1024), echo(US, "9.9.9.9", 1025), echo(US, "9.9.9.9", 1024, seq=2)]
    back = [echo("9.9.9.9", "10.0.0.3", 7, reply=True), echo("9.9.9.9", "10.0.0.2", 7, reply=True)]
    vectors(NAT.format(PINGS), give, {"out0": out, "out1": back}, {"r.nmappings": "2"}, {})


def test_only_replies_come_back(vectors: Any) -> None:
    give = {
        "in0": [echo("10.0.0.2", "9.9.9.9", 7), echo("10.0.0.2", "9.9.9.9", 8, reply=True), udp(A, DNS)],
        "in1": [echo("9.9.9.9", US, 1024), echo("9.9.9.9", US, 1030, reply=True)],
    }
    vectors(NAT.format(PINGS), give, {"out0": [echo(US, "9.9.9.9", 1024)], "out1": []}, drops={("r", "no mapping"): 4})
    passing = NAT.format("ICMPPingRewriter(pass 1, drop)")
    vectors(passing, {"in0": give["in0"]}, {"out1": give["in0"]}, drops={})


def test_pieces_of_a_long_ping(vectors: Any) -> None:
    sent, moved = (pieces(echo(a, "9.9.9.9", n, size=100), 48) for a, n in (("10.0.0.2", 7), (US, 1024)))
    back, home = (pieces(echo("9.9.9.9", a, n, True, size=100), 48) for a, n in ((US, 1024), ("10.0.0.2", 7)))
    vectors(NAT.format(PINGS), {"in0": sent, "in1": back}, {"out0": moved, "out1": home}, drops={})


def test_mappings_of_pings_are_told() -> None:
    with Router.from_click(NAT.format(PINGS), virtual=True) as router:
        router.feed("in0", [echo("10.0.0.2", "9.9.9.9", 7)])
        router.run()
        assert router.read("r.mappings") == (
            "(10.0.0.2, 9.9.9.9, 7 request) => (1.0.0.1, 9.9.9.9, 1024 request) [0] icmp i0 exp 300.0s\n"
            "(9.9.9.9, 1.0.0.1, 1024 reply) => (9.9.9.9, 10.0.0.2, 7 reply) [1] icmp i0 exp 300.0s\n"
        )
    with pytest.raises(MezzoError, match="DPORT has to be `-`"):
        Router.from_click(NAT.format(PINGS.replace("- - 0", "- 5 0")), virtual=True)


def test_errors_about_pings() -> None:
    sent, seen = echo("10.0.0.2", "9.9.9.9", 7), echo(US, "9.9.9.9", 1024)
    got = told(NAT.format(PINGS), [sent], [error("8.8.8.1", US, seen, 11, 0)])
    assert got == ([error("8.8.8.1", "10.0.0.2", sent, 11, 0)], [])


# -- addresses alone


def test_each_address_gets_one(vectors: Any) -> None:
    text = NAT.format("IPAddrRewriter(pattern 1.0.0.1-1.0.0.2# - 0 1, drop)")
    late, moved = (pieces(udp((a, 5000), DNS, bytes(40)), 24)[1] for a in ("10.0.0.2", US))
    out = {"in0": [udp(A, DNS), tcp(B, DNS), udp(A, ("8.8.8.8", 1)), udp(("10.0.0.4", 1), DNS), late]}
    want = [udp((US, 5000), DNS), tcp(("1.0.0.2", 5000), DNS), udp((US, 5000), ("8.8.8.8", 1)), moved]
    back = {"in1": [tcp(DNS, ("1.0.0.2", 9)), echo("7.7.7.7", US, 3), udp(DNS, ("1.0.0.3", 1))]}
    home = [tcp(DNS, ("10.0.0.3", 9)), echo("7.7.7.7", "10.0.0.2", 3)]
    vectors(
        text, out | back, {"out0": want, "out1": home}, {"r.nmappings": "2", "r.mapping_failures": "1"},
        {("r", "no mapping"): 2},
    )  # fmt: skip


def test_pairs_share_an_address(vectors: Any) -> None:
    text = NAT.format("IPAddrPairRewriter(pattern 1.0.0.1-1.0.0.2# - 0 1, drop)")
    give = {"in0": [udp(A, DNS), udp(B, DNS), udp(A, ("8.8.8.8", 1))], "in1": [udp(DNS, (US, 5000))]}
    want = [udp((US, 5000), DNS), udp(("1.0.0.2", 5000), DNS), udp((US, 5000), ("8.8.8.8", 1))]
    vectors(text, give, {"out0": want, "out1": [udp(DNS, A)]}, {"r.nmappings": "3"}, {})


def test_prefixes_are_ranges(vectors: Any) -> None:
    text = NAT.format("IPAddrRewriter(pattern 1.0.0.0/30# - 0 1, drop)")
    give = [udp((f"10.0.0.{i}", 1), DNS) for i in (2, 3, 4)]
    want = [udp((f"1.0.0.{i}", 1), DNS) for i in (1, 2)]
    vectors(text, {"in0": give}, {"out0": want}, drops=GONE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["IPAddrRewriter", "IPAddrPairRewriter"])
def test_errors_about_addresses(name: str) -> None:
    text = NAT.format(f"{name}(pattern 1.0.0.1 - 0 1, drop)")
    for sent, seen in (
        (udp(A, DNS), udp((US, 5000), DNS)),
        (echo("10.0.0.2", "9.9.9.9", 7), echo(US, "9.9.9.9", 7)),
        (ip_packets.ip(bytes(8), "10.0.0.2", "9.9.9.9", 47), ip_packets.ip(bytes(8), US, "9.9.9.9", 47)),
    ):
        got = told(text, [sent], [error("8.8.8.1", US, seen)])
        assert got == ([error("8.8.8.1", "10.0.0.2", sent)], [])


def test_keep_and_pass_of_addresses(vectors: Any) -> None:
    for name in ("IPAddrRewriter", "IPAddrPairRewriter"):
        text = NAT.format(f"{name}(keep 0 1, pass 1)")
        give = {"in0": [udp(A, DNS)], "in1": [udp(DNS, A), udp(DNS, B)]}
        vectors(text, give, {"out0": [udp(A, DNS)], "out1": [udp(DNS, A), udp(DNS, B)]}, drops={})
        with Router.from_click(text, virtual=True) as router:
            router.feed("in0", [udp(A, DNS)])
            router.run()
            assert router.read("r.mappings").count("\n") == 2
            router.write("r.clear", "")
            assert router.read("r.mappings") == ""


def test_a_destination_is_not_for_one_address() -> None:
    with pytest.raises(MezzoError, match="IPAddrPairRewriter rewrites both"):
        Router.from_click(NAT.format("IPAddrRewriter(pattern 1.0.0.1 2.0.0.2 0 1, drop)"), virtual=True)
    with pytest.raises(MezzoError, match="addresses only: SADDR DADDR"):
        Router.from_click(NAT.format("IPAddrRewriter(pattern 1.0.0.1 5 - - 0 1, drop)"), virtual=True)
