"""IPRewriter and its like: what packets become, and what of flows is told and taken."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names
from tests.elements.nat_packets import ACK, FIN, PSH, RST, SYN, error, pieces, tcp, udp

NAT = """
    in0 :: Feed -> MarkIPHeader -> [0] r :: {}; in1 :: Feed -> MarkIPHeader -> [1] r;
    r[0] -> out0 :: Collect; r[1] -> out1 :: Collect;
"""
A, B, C = ("10.0.0.2", 5000), ("10.0.0.3", 5000), ("10.0.0.4", 5000)
WEB, DNS, US = ("9.9.9.9", 80), ("9.9.9.9", 53), "1.0.0.1"
NAPT = "IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)"
GONE = {("r", "no mapping"): 1}
TICKING = NAT + "TimedSource(INTERVAL 0.1) -> Discard;"  # so that time goes on


def test_Co01_port_pool_and_reuse(vectors: Any) -> None:
    text = NAT.format("IPRewriter(pattern 1.0.0.1 1000-1001 - - 0 1, drop)")
    give = [tcp(A, WEB), tcp(B, WEB), tcp(C, WEB), tcp(A, WEB), udp(C, WEB)]
    want = [tcp((US, 1000), WEB), tcp((US, 1001), WEB), tcp((US, 1000), WEB), udp((US, 1000), WEB)]
    strange = tcp(("9.9.9.9", 81), (US, 1000))
    vectors(
        text, {"in0": give, "in1": [strange]}, {"out0": want, "out1": []},
        {"r.mapping_failures": "1", "r.nmappings": "3"}, {("r", "no mapping"): 2},
    )  # fmt: skip


def test_Co02_both_ends_equal(vectors: Any) -> None:
    same = ("1.0.0.1", 1)
    for make in (udp, tcp):
        packet = make(same, same)
        text = NAT.format("IPRewriter(keep 0 1, keep 0 1)")
        vectors(text, {"in0": [packet, packet]}, {"out0": [packet] * 2, "out1": []}, {"r.nmappings": "1"}, {})
        with Router.from_click(text, virtual=True) as router:
            router.feed("in0", [packet])
            router.run()
            router.write("r.clear", "")
            assert (router.read("r.nmappings"), router.read("r.mappings")) == ("0", "")


def test_Co03_udp_checksum_0_stays_0(vectors: Any) -> None:
    text = NAT.format("UDPRewriter(pattern 1.0.0.1 1024 - - 0 1, drop)")
    give, want = udp(A, DNS, check=0), udp((US, 1024), DNS, check=0)
    vectors(text, {"in0": [give]}, {"out0": [want]}, drops={})


def test_a_checksum_that_comes_to_0_is_written_as_its_complement(vectors: Any) -> None:
    free = next(n for n in range(65536) if udp((US, 1024), DNS, n.to_bytes(2, "big"))[26:28] == b"\xff\xff")
    payload = free.to_bytes(2, "big")
    want = udp((US, 1024), DNS, payload)
    vectors(NAT.format(NAPT), {"in0": [udp(A, DNS, payload)]}, {"out0": [want]}, drops={})


def test_sums_are_those_of_a_fresh_packet(vectors: Any) -> None:
    sizes = [bytes(range(n)) for n in (0, 1, 2, 7, 40)]
    give = [make(A, WEB, data) for data in sizes for make in (udp, tcp)]
    ways = ((udp, 1024), (tcp, 1025))
    want = [make((US, port), WEB, data) for data in sizes for make, port in ways]
    answers = [make(WEB, (US, port), data) for data in sizes for make, port in ways]
    back = [make(WEB, A, data) for data in sizes for make in (udp, tcp)]
    text = "in0 :: Feed -> MarkIPHeader -> r :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0) -> out0 :: Collect;"
    vectors(text, {"in0": give + answers}, {"out0": want + back}, drops={})


@pytest.mark.slow
def test_the_destination_annotation_follows(vectors: Any) -> None:
    shows = "-> c :: IPClassifier(dst host 10.0.0.9, -)"
    for words, value in (("", "0a000009"), (", DST_ANNO false", "09090909")):
        text = f"""in0 :: Feed -> MarkIPHeader -> SetIPAddress(9.9.9.9)
            -> r :: IPRewriter(pattern - - 10.0.0.9 - 0 0{words}) {shows};
            c[0] -> StoreIPAddress(12) -> out0 :: Collect; c[1] -> Discard;"""
        got = vectors(text, {"in0": [udp(A, WEB)]}, outputs=["out0"])["out"]["out0"]
        assert [p[12:16].hex() for p in got] == [value]


@pytest.mark.parametrize("word", ["drop", "discard"])
def test_drop(vectors: Any, word: str) -> None:
    vectors(NAT.format(f"IPRewriter({word}, {word})"), {"in0": [udp(A, WEB)]}, {"out0": []}, drops=GONE)


def test_pass_and_what_has_no_ports(vectors: Any) -> None:
    short, odd = udp(A, WEB)[:24], tcp(A, WEB)[:9] + b"\x2f" + tcp(A, WEB)[10:]
    late = pieces(udp(A, WEB, bytes(40)), 24)[1]
    packets = [udp(A, WEB), short, odd, late]
    for word in ("pass 1", "passthrough 1", "nochange 1"):
        text = NAT.format(f"IPRewriter({word}, drop)")
        vectors(text, {"in0": packets}, {"out1": packets, "out0": []}, {"r.nmappings": "0"}, {})
    vectors(NAT.format(NAPT), {"in0": packets[1:]}, {"out0": []}, drops={("r", "no mapping"): 3})


def test_keep_sends_replies_by_the_other_output(vectors: Any) -> None:
    text = NAT.format("IPRewriter(keep 0 1, drop)")
    give = {"in0": [udp(A, WEB)], "in1": [udp(WEB, A), udp(WEB, B)]}
    vectors(text, give, {"out0": [udp(A, WEB)], "out1": [udp(WEB, A)]}, drops=GONE)


def test_a_pattern_of_the_destination(vectors: Any) -> None:
    """A server inside, known by the outside address."""
    text = NAT.format("IPRewriter(pattern - - 10.0.0.9 8080 1 0, drop)")
    server = ("10.0.0.9", 8080)
    give = {"in0": [tcp(WEB, (US, 80))], "in1": [tcp(server, WEB)]}
    vectors(text, give, {"out1": [tcp(WEB, server)], "out0": [tcp((US, 80), WEB)]}, drops={})


def test_ranges_own_port_first_and_in_order(vectors: Any) -> None:
    flows = [("10.0.0.2", 5001), ("10.0.0.3", 5001), ("10.0.0.4", 7)]
    text = NAT.format("IPRewriter(pattern 1.0.0.1 5000-5003 - - 0 1, drop)")
    want = [udp((US, p), WEB) for p in (5001, 5000, 5002)]
    vectors(text, {"in0": [udp(f, WEB) for f in flows]}, {"out0": want}, drops={})
    text = NAT.format("IPRewriter(pattern 1.0.0.1 5000-5003# - - 0 1, drop)")
    want = [udp((US, p), WEB) for p in (5000, 5001, 5002)]
    vectors(text, {"in0": [udp(f, WEB) for f in flows]}, {"out0": want}, drops={})


def test_ports_by_chance_are_those_of_the_seed(vectors: Any) -> None:
    text = NAT.format("IPRewriter(pattern 1.0.0.1 1024-65535? - - 0 1, drop)")
    give = {"in0": [udp((f"10.0.1.{i}", 5000), WEB) for i in range(20)]}

    def ports(seed: int) -> list[bytes]:
        return [p[20:22] for p in vectors(text, give, outputs=["out0"], seed=seed)["out"]["out0"]]

    assert ports(1) == ports(1) != ports(2)
    assert len(set(ports(1))) == 20


def test_one_port_for_many_places(vectors: Any) -> None:
    """A port is taken for one other end only."""
    text = NAT.format("IPRewriter(pattern 1.0.0.1 1024-1024 - - 0 1, drop)")
    ends = [("9.9.9.9", 80), ("9.9.9.8", 80), ("9.9.9.9", 81)]
    vectors(text, {"in0": [udp(A, e) for e in ends]}, {"out0": [udp((US, 1024), e) for e in ends]}, drops={})


def test_without_a_range_the_newer_flow_has_the_replies(vectors: Any) -> None:
    text = NAT.format("IPRewriter(pattern 1.0.0.1 1024 - - 0 1, drop)")
    give = {"in0": [udp(A, WEB), udp(B, WEB)], "in1": [udp(WEB, (US, 1024))]}
    vectors(text, give, {"out0": [udp((US, 1024), WEB)] * 2, "out1": [udp(WEB, B)]}, {"r.nmappings": "1"}, {})


@pytest.mark.slow
def test_named_patterns_and_mappers(vectors: Any) -> None:
    named = "IPRewriterPatterns(web 1.0.0.1 1024-65535# - -);" + NAT.format("IPRewriter(pattern web 0 1, drop)")
    vectors(named, {"in0": [udp(A, WEB)]}, {"out0": [udp((US, 1024), WEB)]}, drops={})
    lines = ", ".join(f"- - 10.0.0.{i} 8080 0 1" for i in (1, 2, 3))
    turn = f"m :: RoundRobinIPMapper({lines});" + NAT.format("IPRewriter(m, drop)")
    clients = [("7.7.7.7", p) for p in range(1, 7)]
    want = [tcp(c, (f"10.0.0.{1 + i % 3}", 8080)) for i, c in enumerate(clients)]
    vectors(turn, {"in0": [tcp(c, (US, 80)) for c in clients]}, {"out0": want}, drops={})


def test_a_full_pattern_leaves_the_turn_to_the_next(vectors: Any) -> None:
    text = "m :: RoundRobinIPMapper(1.0.0.1 7-8 - - 0 1, 1.0.0.2 7-9 - - 0 1);" + NAT.format("IPRewriter(m, drop)")
    give = {"in0": [udp((f"10.0.0.{i}", 5000), WEB) for i in range(1, 7)]}
    got = vectors(text, give, outputs=["out0"], drops=GONE)["out"]["out0"]
    assert [p[12:16].hex() for p in got] == ["01000001", "01000002", "01000001", "01000002", "01000002"]


def test_a_source_keeps_its_server(vectors: Any) -> None:
    lines = ", ".join(f"- - 10.0.0.{i} - 0 1 {i}" for i in (1, 2, 3))
    text = f"m :: SourceIPHashMapper(20 0xbadbeef, {lines});" + NAT.format("IPRewriter(m, drop)")
    give = [udp((f"7.7.{i}.7", port), (US, 80)) for i in range(60) for port in (1, 2)]
    got = [p[19] for p in vectors(text, {"in0": give}, outputs=["out0"])["out"]["out0"]]
    assert got[::2] == got[1::2]
    assert all(8 <= got.count(i) // 2 <= 40 for i in (1, 2, 3))


def test_Co05_fragments_go_the_way_of_the_first(vectors: Any) -> None:
    whole, moved = udp(A, WEB, bytes(40), ident=77), udp((US, 1024), WEB, bytes(40), ident=77)
    first, last = pieces(whole, 24)
    got_first, got_last = pieces(moved, 24)
    vectors(NAT.format(NAPT), {"in0": [first, last]}, {"out0": [got_first, got_last]}, drops={})
    back, home = udp(WEB, (US, 1024), bytes(40), ident=5), udp(WEB, A, bytes(40), ident=5)
    vectors(
        NAT.format(NAPT), {"in0": [first, last], "in1": pieces(back, 24)},
        {"out0": [got_first, got_last], "out1": pieces(home, 24)}, drops={},
    )  # fmt: skip
    other = pieces(udp(A, WEB, bytes(40), ident=78), 24)[1]
    vectors(NAT.format(NAPT), {"in0": [other, first]}, {"out0": [got_first]}, drops=GONE)


@pytest.mark.slow
def test_Co05_pieces_are_forgotten() -> None:
    first, last = pieces(udp(A, WEB, bytes(40)), 24)
    for target in target_names():
        with Router.from_click(TICKING.format(NAPT), target=target, virtual=True) as router:
            router.feed("in0", [first])
            router.run(seconds=31)
            router.feed("in0", [last])
            router.run(seconds=0.01)
            assert len(router.collect("out0")) == 1
            for i in range(1100):  # more than are remembered
                router.feed("in0", [pieces(udp(A, WEB, bytes(40), ident=i), 24)[0]])
                router.run(seconds=0.01)
            router.feed("in0", [pieces(udp(A, WEB, bytes(40), ident=i), 24)[1] for i in (5, 1099)])
            router.run(seconds=0.01)
            assert len(router.collect("out0")) == 1101


@pytest.mark.slow
def test_Co06_hairpin() -> None:
    """A inside reaches B inside by the outside address: what leaves for ourselves comes back in."""
    server, outside = ("10.0.0.9", 8080), (US, 80)
    text = f"""
        r :: IPRewriter(pattern {US} 2000-3000# - - 0 1, pattern - - 10.0.0.9 8080 1 0);
        in0 :: Feed -> MarkIPHeader -> [0] r; r[0] -> ours :: IPClassifier(dst host {US}, -);
        ours[0] -> [1] r; ours[1] -> out0 :: Collect; r[1] -> out1 :: Collect;
        in1 :: Feed -> MarkIPHeader -> c :: IPClassifier(icmp, -); c[1] -> [1] r;
        c[0] -> e :: ICMPRewriter(r) -> f :: IPClassifier(dst host {US}, -);
        f[0] -> e2 :: ICMPRewriter(r) -> out2 :: Collect; f[1] -> out3 :: Collect;
    """
    for target in target_names():
        with Router.from_click(text, target=target, virtual=True) as router:
            router.feed("in0", [tcp(A, outside, flags=SYN)])
            router.run()
            assert router.collect("out1") == [tcp((US, 2000), server, flags=SYN)]
            router.feed("in0", [tcp(server, (US, 2000), flags=SYN | ACK)])
            router.run()
            assert router.collect("out1") == [tcp(outside, A, flags=SYN | ACK)]
            assert router.collect("out0") == []
            # B's host says that the port is closed: A hears it about its own packet, from the address it had asked.
            router.feed("in1", [error("10.0.0.9", US, tcp((US, 2000), server), 3, 3)])
            router.run()
            assert router.collect("out2") == [error(US, "10.0.0.2", tcp(A, outside), 3, 3)]


def alive(router: Router) -> int:
    return int(router.read("r.nmappings"))


@pytest.mark.slow
def test_Co07_lifetimes_of_udp() -> None:
    words = "IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop{})"
    for target in target_names():
        with Router.from_click(TICKING.format(words.format("")), target=target, virtual=True) as router:
            router.feed("in0", [udp(A, DNS)])
            router.run(seconds=120)
            assert "exp 180.0s" in router.read("r.mappings")
            router.run(seconds=179)
            assert alive(router) == 1
            router.run(seconds=1)
            assert alive(router) == 0
            assert router.read("r.mappings") == ""
            router.feed("in1", [udp(DNS, (US, 1024))])
            router.run(seconds=0.01)
            assert router.drops() == GONE
        # What was answered, and went on, lives as long: only a configuration tells the two apart.
        with Router.from_click(TICKING.format(words.format("")), target=target, virtual=True) as router:
            router.feed("in0", [udp(A, DNS)] * 3)
            router.feed("in1", [udp(DNS, (US, 1024))] * 3)
            router.run(seconds=0.1)
            assert router.read("r.mappings").count("exp 299.9s") == 2
        text = TICKING.format(words.format(", UDP_TIMEOUT 10, UDP_STREAMING_TIMEOUT 100"))
        with Router.from_click(text, target=target, virtual=True) as router:
            router.feed("in0", [udp(A, DNS), udp(A, DNS), udp(B, DNS), udp(B, DNS), udp(B, DNS)])
            router.feed("in1", [udp(DNS, (US, 1024))])
            router.run(seconds=9.5)
            assert alive(router) == 2
            router.run(seconds=1)
            assert alive(router) == 1
            assert "10.0.0.2" in router.read("r.mappings")
            router.run(seconds=90)
            assert alive(router) == 0


@pytest.mark.slow
def test_Co07_lifetimes_of_tcp() -> None:
    for target in target_names():
        text = TICKING.format(NAPT.replace("drop", "drop, TCP_TIMEOUT 1000"))
        with Router.from_click(text, target=target, virtual=True) as router:

            def both(flags: int, data: bytes = b"", router: Router = router) -> None:
                router.feed("in0", [tcp(A, WEB, data, flags)])
                router.feed("in1", [tcp(WEB, (US, 1024), data, flags)])
                router.run(seconds=1)

            router.feed("in0", [tcp(A, WEB, flags=SYN)])
            router.run(seconds=299)
            assert "exp 1.0s" in router.read("r.mappings")
            both(ACK | PSH, b"x")
            router.run(seconds=990)
            assert alive(router) == 1
            both(FIN | ACK)
            router.run(seconds=238)
            assert alive(router) == 1
            router.run(seconds=2)
            assert alive(router) == 0
            router.feed("in0", [tcp(A, WEB, b"x", PSH)])
            router.run(seconds=0.01)
            router.feed("in1", [tcp(WEB, (US, 1025), b"x", RST)])
            router.run(seconds=200)
            assert "exp 40.0s" in router.read("r.tcp_mappings")


@pytest.mark.slow
def test_packets_keep_a_flow_alive() -> None:
    text = TICKING.format("IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop, UDP_TIMEOUT 0.5)")
    for target in target_names():
        with Router.from_click(text, target=target, virtual=True) as router:
            for _ in range(10):
                router.feed("in0", [udp(A, DNS)])
                router.run(seconds=0.4)
            assert {p[20:22] for p in router.collect("out0")} == {(1024).to_bytes(2, "big")}
            router.run(seconds=0.2)
            router.feed("in0", [udp(A, DNS)])
            router.run(seconds=0.01)
            assert router.collect("out0") == [udp((US, 1025), DNS)]
            assert alive(router) == 1


@pytest.mark.slow
def test_a_full_table_loses_who_was_quiet_longest_or_nobody() -> None:
    text = TICKING.format("IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 2, GUARANTEE 5)")
    for target in target_names():
        with Router.from_click(text, target=target, virtual=True) as router:
            router.feed("in0", [udp(A, WEB), udp(B, WEB)])
            router.run(seconds=3)
            router.feed("in0", [udp(C, WEB), udp(A, WEB)])
            router.run(seconds=3)
            assert router.read("r.mapping_failures") == "1"
            router.feed("in0", [udp(C, WEB)])
            router.run(seconds=0.01)
            kept = router.read("r.mappings")
            assert "10.0.0.2" in kept and "10.0.0.4" in kept and "10.0.0.3" not in kept
            assert (alive(router), router.read("r.capacity")) == (2, "2")


ROW = "udp 10.0.{}.{} 5000 9.9.9.9 53 => 1.0.0.1 {} 9.9.9.9 53"


@pytest.mark.slow
def test_Co08_mappings_from_outside() -> None:
    with Router.from_click(NAT.format(NAPT), target="native", virtual=True) as router:
        rows = [ROW.format(i // 250, i % 250, 1024 + i) for i in range(10_000)]
        for row in rows:
            router.write("r.add", row)
        assert router.read("r.nmappings") == "10000"
        listed = router.read("r.mappings").splitlines()
        assert len(listed) == 20_000
        assert listed[0] == "(10.0.0.0, 5000, 9.9.9.9, 53) => (1.0.0.1, 1024, 9.9.9.9, 53) [0] udp static"
        assert listed[1] == "(9.9.9.9, 53, 1.0.0.1, 1024) => (9.9.9.9, 53, 10.0.0.0, 5000) [1] udp static"
        router.feed("in1", [udp(DNS, (US, 1024 + 9_999))])
        router.run()
        assert router.collect("out1") == [udp(DNS, ("10.0.39.249", 5000))]
        for row in rows[:5000]:
            router.write("r.remove", row.split(" =>")[0])
        router.write("r.remove", "\n".join(row.split(" =>")[0] for row in rows[5000:]))
        assert (router.read("r.nmappings"), router.read("r.mappings")) == ("0", "")


@pytest.mark.slow
def test_Co08_batches_are_whole_or_nothing_and_say_why() -> None:
    text = NAT.format("IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 3)")
    for target in target_names():
        with Router.from_click(text, target=target, virtual=True) as router:
            rows = [ROW.format(0, i, 2000 + i) for i in range(4)]
            router.write("r.add", rows[0] + "\n" + rows[1] + " 1 0")
            before = router.read("r.mappings")
            assert "(10.0.0.1, 5000, 9.9.9.9, 53) => (1.0.0.1, 2001, 9.9.9.9, 53) [1]" in before
            for bad, why in (
                (rows[2] + "\n" + rows[0], "conflict: udp .10.0.0.0, 5000"),
                (rows[2] + "\n" + ROW.format(9, 9, 2002), "conflict: udp .9.9.9.9, 53, 1.0.0.1, 2002"),
                (rows[2] + "\n" + rows[3], "full: 2 of 3"),
                (rows[2] + "\nudp 1 2 3", "write PROTO"),
                (rows[2] + " 0 7", "outputs are 0 to 1"),
                (rows[2].replace("udp", "gre"), "tcp or udp"),
                (rows[2].replace("5000", "70000"), "a port is a number"),
            ):
                with pytest.raises(MezzoError, match=why):
                    router.write("r.add", bad)
                assert router.read("r.mappings") == before
            with pytest.raises(MezzoError, match="has no mapping; nothing was removed"):
                router.write("r.remove", rows[0].split(" =>")[0] + "\n" + rows[2].split(" =>")[0])
            assert router.read("r.mappings") == before
            # Flows by packets take the last place, and make room for what a person enters.
            router.feed("in0", [udp(A, WEB), udp(B, WEB)])
            router.run()
            assert router.read("r.mapping_failures") == "1"
            router.write("r.add", rows[2])
            assert "10.0.0.2, 5000, 9.9.9.9, 80" not in router.read("r.mappings")
            assert router.read("r.nmappings") == "3"


def test_handlers_tell() -> None:
    with Router.from_click(NAT.format(NAPT), virtual=True) as router:
        router.feed("in0", [udp(A, DNS), tcp(A, WEB)])
        router.run()
        assert router.read("r.udp_lookup", "10.0.0.2 5000 9.9.9.9 53") == "1.0.0.1 1024 9.9.9.9 53"
        assert router.read("r.tcp_lookup", "9.9.9.9 80 1.0.0.1 1025") == "9.9.9.9 80 10.0.0.2 5000"
        assert router.read("r.lookup", "tcp 9.9.9.9 80 1.0.0.1 1") == ""
        assert router.read("r.patterns") == "1.0.0.1 1024-65535# - - [2]\n<drop>\n"
        assert router.read("r.udp_mappings").count("\n") + router.read("r.tcp_mappings").count("\n") in (2, 4)
        with pytest.raises(MezzoError, match="write PROTO"):
            router.read("r.lookup", "tcp 1.2.3.4")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("drop", "2 inputs are connected, and 1 specifications"),
        ("drop, nothing", "is no input specification"),
        ("drop, pass 2", "`2` is not an output"),
        ("drop, keep 0", "expected `keep FOUTPUT ROUTPUT`"),
        ("drop, pattern 1.0.0.1 0 - - 0 1", "`0` is no port"),
        ("drop, pattern 1.0.0.1 9-8 - - 0 1", "no range of ports"),
        ("drop, pattern 1.0.0.1 1-70000 - - 0 1", "is no port"),
        ("drop, pattern 1.0.0.1 - 0 1", "does not fit: this element rewrites addresses and ports"),
        ("drop, pattern 1.0.0.9-1.0.0.1 - - - 0 1", "is no range of at most 65536 addresses"),
        ("drop, pattern 1.0.0.1-1.0.0.9 1-9 - - 0 1", "not both"),
        ("drop, pattern nobody 0 1", "there is no pattern `nobody`"),
        ("drop, drop, SHARE r", "each rewriter has its own flows"),
    ],
)
def test_mistakes_are_told(words: str, why: str) -> None:
    with pytest.raises(MezzoError, match=why):
        Router.from_click(NAT.format(f"IPRewriter({words})"), virtual=True)


@pytest.mark.parametrize(
    ("mapper", "why"),
    [
        ("SourceIPHashMapper(0 1, - - 1.2.3.4 - 0 1 1)", "expected NODES SEED"),
        ("SourceIPHashMapper(10 1)", "expected NODES SEED"),
        ("SourceIPHashMapper(10 1, - - 1.2.3.4 - 0 1 x)", "has no ID"),
        (f"RoundRobinIPMapper({', '.join(['- - 1.2.3.4 - 0 1'] * 257)})", "256 at most"),
        ("RoundRobinIPMapper(- - 1.2.3.4 - 0)", "`-` is not an output"),
        ("IPRewriterPatterns(p 1.0.0.1 5 -)", "is no pattern"),
        ("IPRewriterPatterns(p 1.0.0.1 5 - -, p 1.0.0.2 5 - -)", "is a pattern already"),
    ],
)
def test_mistakes_of_mappers_are_told(mapper: str, why: str) -> None:
    with pytest.raises(MezzoError, match=why):
        Router.from_click(f"m :: {mapper};" + NAT.format("IPRewriter(m, drop)"), virtual=True)


def test_tcp_rewriter_leaves_udp_alone(vectors: Any) -> None:
    text = NAT.format("TCPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop)")
    vectors(text, {"in0": [udp(A, WEB), tcp(A, WEB)]}, {"out0": [tcp((US, 1024), WEB)]}, drops=GONE)


@pytest.mark.slow
def test_a_reload_keeps_the_flows() -> None:
    text = NAT.format("IPRewriter(pattern 1.0.0.1 {} - - 0 1, drop{})")
    for target in target_names():
        with Router.from_click(text.format("1024-65535#", ""), target=target, virtual=True) as router:
            router.feed("in0", [udp(A, WEB), tcp(B, WEB)])
            router.run()
            router.collect("out0")
            for range_, more in (("3000-4000#", ""), ("3000-4000#", ", MAPPING_CAPACITY 100000")):
                router.reload(text.format(range_, more))
                router.feed("in1", [udp(WEB, (US, 1024)), tcp(WEB, (US, 1025))])
                router.run()
                assert router.collect("out1") == [udp(WEB, A), tcp(WEB, B)]
            router.feed("in0", [udp(C, WEB)])
            router.run()
            assert router.collect("out0") == [udp((US, 3000), WEB)]
            router.reload(text.format("3000-4000#", ", MAPPING_CAPACITY 10"))
            assert router.read("r.nmappings") == "0"


def fuzzed(dice: random.Random) -> bytes:
    """A packet of one of few flows, whole or in pieces, or spoiled."""
    ends = [(f"10.0.0.{dice.randrange(3)}", dice.randrange(5000, 5004)), (f"9.9.9.{dice.randrange(2)}", 80)]
    if dice.random() < 0.5:
        ends = [ends[1], (US, dice.randrange(1023, 1032))]
    data = bytes(dice.randrange(0, 40))
    packet = udp(*ends, data) if dice.random() < 0.4 else tcp(*ends, data, dice.choice((ACK, SYN, FIN | ACK, RST)))
    if dice.random() < 0.2:
        return dice.choice(pieces(packet, 24))
    if dice.random() < 0.2:
        spoiled = bytearray(packet)
        for _ in range(3):
            spoiled[dice.randrange(6, len(packet))] = dice.randrange(256)
        return bytes(spoiled[: dice.randrange(20, len(packet) + 1)])
    return packet


def check_table(router: Router) -> None:
    """The two sides of the table tell the same."""
    r = router.elements["r"]
    flows = [f for life in range(6) for f in chain(r.newer, life)]
    assert len(flows) == len(set(flows)) == r.count
    keys = {r.find.get(key) for key, _ in r.find.items()}
    assert {e >> 1 for e in keys} == set(flows)
    assert len(keys) == len(r.find)
    for key, e in r.find.items():
        back, ports, state = r.mapping(e ^ 1)
        assert key == (back << 32 & (1 << 64) - 1 | back >> 32) << 64 | r.turned(ports) << 32 | state >> 24 & 0xFF


def chain(after: Any, start: int) -> list[int]:
    found, at = [], after[start]
    while at != start:
        found.append(at)
        at = after[at]
    return found


@pytest.mark.slow
def test_random_packets_leave_the_table_whole_on_every_target() -> None:
    for words in ("pattern 1.0.0.1 1024-1030? - - 0 1, drop", "pattern 1.0.0.1 1024 - - 0 1, keep 1 0"):
        text = TICKING.format(
            f"IPRewriter({words}, MAPPING_CAPACITY 6, GUARANTEE 0.2, UDP_TIMEOUT 1, TCP_DONE_TIMEOUT 1)"
        )
        seen = []
        for target in target_names():
            dice, got = random.Random(3), []
            with Router.from_click(text, target=target, virtual=True, seed=5) as router:
                for _ in range(60):
                    for name in ("in0", "in1"):
                        router.feed(name, [fuzzed(dice) for _ in range(5)])
                    router.run(seconds=dice.choice((0.05, 0.3)))
                    check_table(router)
                    got.append([router.collect("out0"), router.collect("out1"), router.read("r.mappings")])
                got.append(router.drops())
            seen.append(got)
        assert all(s == seen[0] for s in seen)
        assert any("tcp" in step[2] and "udp" in step[2] for step in seen[0][:-1])
