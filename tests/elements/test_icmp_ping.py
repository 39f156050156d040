"""ICMPPingSource and ICMPPingResponder."""

from __future__ import annotations

import io
from typing import Any

import dpkt

from mezzo.runtime import Router
from tests.elements.ip_packets import checksum, icmp, ip, udp

RESPOND = "in0 :: Feed -> MarkIPHeader -> x :: ICMPPingResponder -> out0 :: Collect; x[1] -> out1 :: Collect;"
LOOP = "p :: ICMPPingSource(10.0.0.1, 10.0.0.2, {}) -> ICMPPingResponder -> Queue -> DelayUnqueue({}) -> [0]p;"


def test_answers(vectors: Any) -> None:
    for options, payload in ((b"", b"abc"), (b"\1\1\1\1", b""), (b"", bytes(56))):
        request = ip(icmp(8, 7, 0x12340001, payload), proto=1, ttl=3, frag=0x4000, options=options)
        answer = ip(icmp(0, 0, 0x12340001, payload), "10.0.0.2", "10.0.0.1", proto=1, ttl=255, options=options)
        vectors(RESPOND, {"in0": [request]}, {"out0": [answer], "out1": []}, drops={})


def test_what_is_no_request_is_not_answered(vectors: Any) -> None:
    pieces = [ip(icmp(8), proto=1, frag=frag) for frag in (0x2000, 5)]
    other = [ip(icmp(0), proto=1), ip(udp()), ip(icmp(8)[:7], proto=1), *pieces]
    vectors(RESPOND, {"in0": other}, {"out0": [], "out1": other})
    alone = RESPOND.partition(" x[1]")[0]
    vectors(alone, {"in0": other[:2]}, {"out0": []}, drops={("x", "not an ICMP echo request"): 2})


def test_an_answer_forgets_paint_and_knows_its_way() -> None:
    text = RESPOND.replace("MarkIPHeader", "Paint(5) -> MarkIPHeader")
    for target in ("python", "native"):
        with Router.from_click(text, target=target, virtual=True) as router:
            router.feed("in0", [ip(icmp(8), proto=1)])
            router.run(rounds=100)
            assert router.collect_packets("out0", lambda p: (bytes(p.anno[:4]), p.anno[16])) == [(b"\x0a\0\0\1", 0)]


def test_requests(vectors: Any) -> None:
    words = "IDENTIFIER 77, LIMIT 3, DATA abc, INTERVAL 0.5"
    text = f"p :: ICMPPingSource(10.0.0.1, 10.0.0.2, {words}) -> out0 :: Collect;"
    got = vectors(text, reads={"p.count": "3"}, outputs=["out0"])["out"]["out0"]
    assert len(got) == 3
    for number, packet in enumerate(got, 1):
        seen = dpkt.ip.IP(packet)
        assert (seen.id, seen.ttl, seen.p, seen.len) == (number, 200, 1, 31)
        assert (seen.icmp.type, seen.icmp.echo.id, seen.icmp.echo.seq, seen.icmp.echo.data) == (8, 77, number, b"abc")
        assert checksum(packet[:20]) == 0 and checksum(packet[20:]) == 0


def test_the_interval_is_kept_and_active_obeyed() -> None:
    for target in ("python", "native"):
        text = "p :: ICMPPingSource(10.0.0.1, 10.0.0.2, INTERVAL 0.5) -> Discard;"
        with Router.from_click(text, target=target, virtual=True) as router:
            router.run(seconds=2.25)
            assert router.read("p.count") == "4"
            router.write("p.active", "false")
            router.run(seconds=2)
            assert router.read("p.count") == "4"
            router.write("p.interval", "0.1")
            router.write("p.active", "true")
            router.run(seconds=0.95)
            assert int(router.read("p.count")) in (13, 14)
            router.write("p.limit", "3")
            router.run(seconds=1)
            router.write("p.reset_counts", "")
            router.run(seconds=1)
            assert router.read("p.count") == "3"


def run_loop(target: str, words: str, delay: str = "5ms") -> tuple[Router, str]:
    router = Router.from_click(LOOP.format(words, delay), target=target, virtual=True)
    router.output = io.StringIO()
    with router:
        router.run(seconds=20)
        summary = router.read("p.summary") + router.read("p.rtt_min")
    return router, summary


def test_summary_and_lines() -> None:
    for target in ("python", "native"):
        router, summary = run_loop(target, "LIMIT 3, DATA abc")
        times = "rtt min/avg/max/mdev = 5.000/5.000/5.000/0.000\n"
        assert summary == f"3 packets transmitted, 3 received, 0% packet loss\n{times}0.005000"
        lines = router.output.getvalue().splitlines()
        assert lines[0] == "p :: ICMPPingSource: 3 bytes from 10.0.0.2: icmp_seq=1 ttl=255 time=5.000 ms"
        assert lines[-2:] == [
            "p :: ICMPPingSource: 3 packets transmitted, 3 received, 0% packet loss",
            "p :: ICMPPingSource: rtt min/avg/max/mdev = 5.000/5.000/5.000/0.000",
        ]


def test_round_trip_times_come_from_the_timestamps() -> None:
    text = (
        "p :: ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 4, VERBOSE false) -> Queue -> DelayUnqueue(7500us)"
        "-> ICMPPingResponder -> t :: Tee; t[0] -> [0]p; t[1] -> [0]p;"
    )
    for target in ("python", "native"):
        with Router.from_click(text, target=target, virtual=True) as router:
            router.run(seconds=20)
            assert router.read("p.summary").splitlines() == [
                "4 packets transmitted, 4 received, +4 duplicates, 0% packet loss",
                "rtt min/avg/max/mdev = 7.500/7.500/7.500/0.000",
            ]
            assert [router.read(f"p.rtt_{x}") for x in ("min", "avg", "max")] == ["0.007500"] * 3


def test_lost_answers_are_counted() -> None:
    text = (
        "p :: ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 4, VERBOSE false) -> s :: RoundRobinSwitch;"
        "s[0] -> ICMPPingResponder -> [0]p; s[1] -> Discard;"
    )
    with Router.from_click(text, virtual=True) as router:
        router.run(seconds=20)
        assert router.read("p.summary").splitlines()[0] == "4 packets transmitted, 2 received, 50% packet loss"


def test_strangers_are_ignored() -> None:
    text = (
        "p :: ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 1, IDENTIFIER 5, VERBOSE false) -> Discard;"
        "in0 :: Feed -> MarkIPHeader -> [0]p;"
    )
    kinds = [icmp(0, rest=0x60001), icmp(0, rest=0x50009), icmp(8, rest=0x50001), b""]
    strange = [*(ip(kind, proto=1) for kind in kinds), ip(udp())]
    for target in ("python", "native"):
        with Router.from_click(text, target=target, virtual=True) as router:
            router.run(seconds=2)
            router.feed("in0", strange)
            router.run(rounds=100)
            assert router.read("p.summary") == "1 packets transmitted, 0 received, 100% packet loss\n"
            router.feed("in0", [ip(icmp(0, rest=0x50001), proto=1)])
            router.run(rounds=100)
            assert router.read("p.summary").startswith("1 packets transmitted, 1 received, 0% packet loss\n")


def test_stop_and_pull() -> None:
    for target in ("python", "native"):
        text = "p :: ICMPPingSource(1.1.1.1, 2.2.2.2, LIMIT 2, STOP true) -> Discard;"
        with Router.from_click(text, target=target, virtual=True) as router:
            assert router.run(seconds=9) == "stopped" and router.read("p.count") == "2"
        text = "p :: ICMPPingSource(1.1.1.1, 2.2.2.2, LIMIT 5, STOP true) -> u :: Unqueue -> c :: Counter -> Discard;"
        with Router.from_click(text, target=target, virtual=True) as router:
            assert router.run(seconds=9) == "stopped" and router.read("c.count") == "5"


def test_mirror_answers_make_requests() -> None:
    text = LOOP.format("MIRROR true, VERBOSE false", "100ms")
    for target in ("python", "native"):
        with Router.from_click(text, target=target, virtual=True) as router:
            router.run(seconds=1.95)
            assert router.read("p.count") == "10"
