"""ARPResponder, ARPQuerier, ARPFaker, CheckARPHeader."""

from __future__ import annotations

from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.targets import target_names
from mezzo.wire.address import parse_ip

ME, YOU = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
PROXY = bytes.fromhex("02aa00000000")
ALL = b"\xff" * 6
NOBODY = bytes(6)


def ip(text: str) -> bytes:
    return parse_ip(text).to_bytes(4, "big")


def arp(op: int, sha: bytes, spa: str, tha: bytes, tpa: str, dst: bytes = ALL) -> bytes:
    packet = dpkt.arp.ARP(op=op, sha=sha, spa=ip(spa), tha=tha, tpa=ip(tpa))
    return bytes(dpkt.ethernet.Ethernet(dst=dst, src=sha, type=0x0806, data=packet))


# -- ARPResponder

RESPONDER = "in0 :: Feed -> r :: ARPResponder({}) -> out0 :: Collect; r[1] -> out1 :: Collect;"


def test_Do03_proxy_probe_gratuitous(vectors: Any) -> None:
    asked = [
        arp(1, YOU, "10.0.0.9", NOBODY, "10.0.0.5") + bytes(18),  # padded as on a wire
        arp(1, YOU, "0.0.0.0", NOBODY, "10.0.0.5"),
        arp(1, YOU, "10.0.0.5", NOBODY, "10.0.0.5"),
    ]
    answers = [arp(2, PROXY, "10.0.0.5", YOU, who, dst=YOU) for who in ("10.0.0.9", "0.0.0.0", "10.0.0.5")]
    text = RESPONDER.format("10.0.0.0/24 02:aa:00:00:00:00")
    vectors(text, {"in0": asked}, {"out0": answers, "out1": []}, drops={})


def test_what_is_no_request_of_ours_leaves_by_output_1(vectors: Any) -> None:
    other = arp(1, YOU, "10.0.0.9", NOBODY, "10.0.1.5")
    reply = arp(2, YOU, "10.0.0.9", ME, "10.0.0.5")
    good = arp(1, YOU, "10.0.0.9", NOBODY, "10.0.0.5")
    strange = [
        good[:12] + b"\x08\x00" + good[14:],
        good[:14] + b"\0\x06" + good[16:],
        good[:18] + b"\x08" + good[19:],
        good[:41],
        b"",
    ]
    text = RESPONDER.format("10.0.0.0/24 02:aa:00:00:00:00")
    vectors(text, {"in0": [other, reply, *strange]}, {"out0": [], "out1": [other, reply, *strange]}, drops={})
    alone = "in0 :: Feed -> r :: ARPResponder(10.0.0.5 02:aa:00:00:00:00) -> out0 :: Collect;"
    drops = {("r", "not ours"): 1, ("r", "no request"): 6}
    vectors(alone, {"in0": [other, reply, *strange]}, {"out0": []}, drops=drops)


def test_longest_prefix_answers_and_the_table_changes() -> None:
    text = RESPONDER.format("10.0.0.5 10.1.0.0/16 2:0:0:0:0:5, 10.0.0.0/8 2:0:0:0:0:8")
    for target in target_names():
        with Router.from_click(text, target=target, virtual=True) as router:
            assert router.read("r.lookup", "10.0.0.5") == "02:00:00:00:00:05"
            assert router.read("r.lookup", "10.0.0.6") == "02:00:00:00:00:08"
            assert router.read("r.lookup", "11.0.0.1") == ""
            router.write("r.remove", "10.0.0.5/32")
            router.write("r.add", "11.0.0.0/24 2:0:0:0:0:b")
            assert router.read("r.table") == (
                "10.0.0.0/8 02:00:00:00:00:08\n10.1.0.0/16 02:00:00:00:00:05\n11.0.0.0/24 02:00:00:00:00:0B\n"
            )
            router.feed("in0", [arp(1, YOU, "10.0.0.9", NOBODY, x) for x in ("10.0.0.5", "11.0.0.3", "10.1.2.3")])
            router.run()
            assert [x[6:12].hex() for x in router.collect("out0")] == ["020000000008", "02000000000b", "020000000005"]
            for bad in ("10.0.0.5", "10.0.0.77/32"):
                with pytest.raises(MezzoError, match="not in the table"):
                    router.write("r.remove", bad)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("10.0.0.1", "one Ethernet address"),
        ("2:0:0:0:0:1", "one or more IP addresses"),
        ("10.0.0.1 2:0:0:0:0:1 2:0:0:0:0:2", "one Ethernet address"),
        ("10.0.0.1 here", "`here` is no IP or Ethernet address"),
        ("", "too few|missing|at least"),
    ],
)
def test_responder_refuses(config: str, said: str) -> None:
    with pytest.raises(MezzoError, match=said):
        Router.from_click(RESPONDER.format(config))


def test_names_stand_for_both_addresses(vectors: Any) -> None:
    text = "AddressInfo(host 10.0.0.5 02:aa:00:00:00:00);" + RESPONDER.format("host")
    want = arp(2, PROXY, "10.0.0.5", YOU, "10.0.0.9", dst=YOU)
    vectors(text, {"in0": [arp(1, YOU, "10.0.0.9", NOBODY, "10.0.0.5")]}, {"out0": [want]}, drops={})


# -- ARPQuerier

QUERIER = """
    in0 :: Feed -> SetIPAddress({dst}) -> q :: ARPQuerier({config}) -> out0 :: Collect;
    in1 :: Feed -> [1] q; q[1] -> out1 :: Collect;
"""
OWN = "10.0.0.1/24, 2:0:0:0:0:1"
ASKED = arp(1, ME, "10.0.0.1", NOBODY, "10.0.0.2")
ANSWER = arp(2, YOU, "10.0.0.2", ME, "10.0.0.1", dst=ME)


def querier(target: str, config: str = OWN, dst: str = "10.0.0.2", **options: Any) -> Router:
    return Router.from_click(QUERIER.format(dst=dst, config=config), target=target, virtual=True, **options)


def sent(dst: bytes, data: bytes) -> bytes:
    return dst + ME + b"\x08\x00" + data


def pass_time(router: Router, seconds: float) -> None:
    """Moves the idle virtual clock."""
    router.engine.cells[0]["now"].load(router.now_ns + int(seconds * 1e9))


@pytest.mark.parametrize("target", target_names())
def test_packets_wait_for_the_answer(target: str) -> None:
    with querier(target) as router:
        router.feed("in0", [b"one", b"two", b"three"])
        router.run(seconds=1)
        assert (router.collect("out0"), router.collect("out1")) == ([], [ASKED])
        assert router.holders() == {"q": 3}
        router.feed("in1", [ANSWER])
        assert router.run() == "done"
        assert router.collect("out0") == [sent(YOU, x) for x in (b"one", b"two", b"three")]
        router.feed("in0", [b"four"])
        router.run()
        assert router.collect("out0") == [sent(YOU, b"four")]
        assert router.read("q.stats") == "0 packets killed\n1 ARP queries sent\n"
        assert [router.read(f"q.{x}") for x in ("responses", "count", "length")] == ["1", "1", "0"]
        assert router.read("q.table").startswith("10.0.0.2 1 02:00:00:00:00:02 ")


@pytest.mark.parametrize("target", target_names())
def test_Do04_keeps_asking_after_a_minute(target: str) -> None:
    with querier(target) as router:
        asked = []
        for _ in range(200):
            pass_time(router, 1)
            router.feed("in0", [b"x"])
            router.run(seconds=0)
            asked.append(len(router.collect("out1")))
        totals = [sum(asked[:n]) for n in (55, 75, 115)]
        assert totals == [32, 42, 62]
        assert max(asked) == 1
        # Never faster than ten a second, however many packets come.
        router.feed("in0", [b"x"] * 500)
        router.run(seconds=0)
        assert len(router.collect("out1")) <= 1
        router.feed("in1", [ANSWER])
        router.run()
        assert len(router.collect("out0")) == 700


def test_Do05_broadcast_and_multicast_never_query(vectors: Any) -> None:
    multicast = bytes.fromhex("01005e000005")
    ethers = {"255.255.255.255": ALL, "10.0.0.255": ALL, "224.0.0.5": multicast, "239.128.0.5": multicast}
    text = QUERIER.replace("SetIPAddress({dst})", "GetIPAddress(0)").format(config=OWN)
    give = {"in0": [ip("0.0.0.0"), *map(ip, ethers), ip("0.0.0.0")]}
    want = {"out0": [sent(ether, ip(dst)) for dst, ether in ethers.items()], "out1": []}
    vectors(text, give, want, reads={"q.queries": "0", "q.drops": "2"}, drops={("q", "no destination"): 2})


def test_a_missing_destination_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    with querier("python", dst="0.0.0.0") as router:
        router.feed("in0", [b"x"] * 3)
        router.run()
    assert capsys.readouterr().err.count("no destination address annotation") == 1


def test_the_broadcast_address_may_be_given(vectors: Any) -> None:
    text = QUERIER.format(dst="10.9.9.9", config="10.0.0.1, 2:0:0:0:0:1, BROADCAST 10.9.9.9")
    vectors(text, {"in0": [b"x"]}, {"out0": [sent(ALL, b"x")], "out1": []}, drops={})


@pytest.mark.parametrize("target", target_names())
def test_unanswered_packets_die_after_the_timeout(target: str) -> None:
    with querier(target, OWN + ", TIMEOUT 5s") as router:
        router.feed("in0", [b"x", b"y"])
        assert router.run() == "done"
        assert 5.0 < router.now_ns / 1e9 < 5.1
        assert router.drops() == {("q", "no answer"): 2}
        assert [router.read(f"q.{x}") for x in ("drops", "count", "length")] == ["2", "0", "0"]


@pytest.mark.parametrize("target", target_names())
def test_an_answer_is_asked_for_again_then_forgotten(target: str) -> None:
    with querier(target) as router:
        router.write("q.insert", "10.0.0.2 2:0:0:0:0:2")
        for seconds, queries, packets in ((59, 0, 1), (2, 1, 1), (0.05, 0, 1), (0.06, 1, 1), (240, 1, 0)):
            pass_time(router, seconds)
            router.feed("in0", [b"x"])
            router.run(seconds=0)
            assert (len(router.collect("out1")), len(router.collect("out0"))) == (queries, packets), seconds
        assert router.read("q.table").split()[1] == "0"


@pytest.mark.parametrize("target", target_names())
def test_timeouts_of_zero_are_never(target: str) -> None:
    with querier(target, OWN + ", TIMEOUT 0, POLL_TIMEOUT 0") as router:
        router.write("q.insert", "10.0.0.2 2:0:0:0:0:2")
        pass_time(router, 1e6)
        router.feed("in0", [b"x"])
        assert router.run() == "done"
        assert (router.collect("out1"), router.collect("out0")) == ([], [sent(YOU, b"x")])


@pytest.mark.parametrize("target", target_names())
def test_too_many_waiting_packets(target: str) -> None:
    """Half of the packets go, the oldest first; Click keeps CAPACITY - CAPACITY / SLIM, the new one with them."""
    with querier(target, OWN + ", CAPACITY 8") as router:
        router.feed("in0", [bytes([n]) for n in range(9)])
        router.run(seconds=0.01)
        assert router.read("q.length") == "4"
        router.feed("in1", [ANSWER])
        router.run()
        assert router.collect("out0") == [sent(YOU, bytes([n])) for n in range(5, 9)]
        assert router.drops() == {("q", "no answer"): 5}
    with querier(target, OWN + ", ENTRY_PACKET_CAPACITY 2") as router:
        router.feed("in0", [b"1", b"2", b"3"])
        router.run(seconds=0.01)
        router.feed("in1", [ANSWER])
        router.run()
        assert router.collect("out0") == [sent(YOU, b"1"), sent(YOU, b"2")]
        assert router.drops() == {("q", "neighbour full"): 1}


@pytest.mark.parametrize("target", target_names())
def test_a_full_table_loses_its_oldest_entry(target: str) -> None:
    with querier(target, OWN + ", ENTRY_CAPACITY 3") as router:
        for n in (2, 3, 4, 2, 5):
            pass_time(router, 1)
            router.write("q.insert", f"10.0.0.{n} 2:0:0:0:0:{n}")
        rows = [line.split()[0] for line in router.read("q.table").splitlines()]
        assert rows == ["10.0.0.4", "10.0.0.2", "10.0.0.5"]
        router.write("q.delete", "10.0.0.4")
        assert router.read("q.count") == "2"
        router.write("q.clear", "")
        assert (router.read("q.count"), router.read("q.table")) == ("0", "")


@pytest.mark.parametrize("target", target_names())
def test_what_is_no_reply_teaches_nothing(target: str) -> None:
    group = arp(2, bytes.fromhex("030000000002"), "10.0.0.2", ME, "10.0.0.1")
    bad = [
        ASKED,
        ANSWER[:41],
        b"",
        group,
        arp(2, YOU, "0.0.0.0", ME, "10.0.0.1"),
        ANSWER[:12] + b"\x08\0" + ANSWER[14:],
    ]
    with querier(target) as router:
        router.feed("in1", bad)
        router.run()
        assert [router.read(f"q.{x}") for x in ("responses", "count")] == ["0", "0"]


@pytest.mark.parametrize("target", target_names())
def test_one_output_and_a_changed_address(target: str) -> None:
    text = """in0 :: Feed -> SetIPAddress(10.0.0.2) -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1) -> out0 :: Collect;
        Idle -> [1] q;"""
    with Router.from_click(text, target=target, virtual=True) as router:
        router.write("q.ipaddr", "10.0.0.7")
        assert router.read("q.ipaddr") == "10.0.0.7"
        router.feed("in0", [b"x"])
        router.run(seconds=0.01)
        assert router.collect("out0") == [arp(1, ME, "10.0.0.7", NOBODY, "10.0.0.2")]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("10.0.0.1", "ETH is missing"),
        (OWN + ", TABLE other", "its own table"),
        (OWN + ", CAPACITY 100000", "out of range"),
        ("10.0.0.1/40, 2:0:0:0:0:1", "IP"),
    ],
)
def test_querier_refuses(config: str, said: str) -> None:
    with pytest.raises(MezzoError, match=said):
        Router.from_click(QUERIER.format(dst="10.0.0.2", config=config))


@pytest.mark.parametrize("target", target_names())
def test_waiting_packets_against_a_model(target: str) -> None:
    """A few hundred random events; the model is a dict of lists without limits."""
    import random

    rng, waiting, known = random.Random(5), {}, set()
    text = """in0 :: Feed -> GetIPAddress(0) -> q :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1, TIMEOUT 0, POLL_TIMEOUT 0)
            -> out0 :: Collect;
        in1 :: Feed -> [1] q; q[1] -> Discard;"""
    with Router.from_click(text, target=target, virtual=True) as router:
        for step in range(300):
            n, want = rng.randrange(2, 40), []
            if rng.random() < 0.7:
                packet = ip(f"10.0.0.{n}") + step.to_bytes(2, "big")
                want = [packet] if n in known else []
                if n not in known:
                    waiting.setdefault(n, []).append(packet)
                router.feed("in0", [packet])
            elif rng.random() < 0.5:
                router.feed("in1", [arp(2, bytes([2, 0, 0, 0, 0, n]), f"10.0.0.{n}", ME, "10.0.0.1")])
                want = waiting.pop(n, [])
                known.add(n)
            else:
                router.write("q.delete", f"10.0.0.{n}")
                known.discard(n)
            router.run()
            assert [x[14:] for x in router.collect("out0")] == want
            assert int(router.read("q.length")) == sum(map(len, waiting.values()))
            assert int(router.read("q.count")) == len(waiting.keys() | known)


# -- ARPFaker, CheckARPHeader


def test_faker(vectors: Any) -> None:
    text = "f :: ARPFaker(10.0.0.2, 2:0:0:0:0:2, 10.0.0.1, 2:0:0:0:0:1) -> out0 :: Collect;"
    want = [arp(2, ME, "10.0.0.1", YOU, "10.0.0.2", dst=YOU)] * 3
    vectors(text, {}, {"out0": want}, reads={"f.count": "3"}, drops={}, seconds=25)


def test_check_arp_header(vectors: Any) -> None:
    good = ASKED[14:]
    six = good[:2] + b"\x86\xdd" + good[4:5] + b"\x10" + good[6:] + bytes(24)
    bad = [
        b"",
        good[:7],
        good[:27],
        b"\0\1\x08\0\x08\x04" + good[6:] + bytes(4),
        good[:5] + b"\x06" + good[6:] + bytes(4),
    ]
    text = "in0 :: Feed -> c :: CheckARPHeader(VERBOSE true) -> out0 :: Collect; c[1] -> out1 :: Collect;"
    details = (
        "2\ttiny packet\n1\ttoo small for addresses\n1\tbad hardware type or length\n1\tbad protocol type or length\n"
    )
    reads = {"c.drops": "5", "c.drop_details": details}
    vectors(text, {"in0": [good, six, *bad]}, {"out0": [good, six], "out1": bad}, reads=reads, drops={})
    text = "in0 :: Feed -> c :: CheckARPHeader(14) -> out0 :: Collect;"
    vectors(text, {"in0": [ASKED, ASKED[:30]]}, {"out0": [ASKED]}, drops={("c", "too small for addresses"): 1})
