"""IPReassembler: what joins, what does not, and what is given up."""

from __future__ import annotations

import random
from typing import Any

from mezzo.runtime import Router
from tests.elements.ip_packets import checksum, ip, udp

MF = 0x2000
BOTH = "in0 :: Feed -> MarkIPHeader -> r :: IPReassembler({}) -> out0 :: Collect; r[1] -> out1 :: Collect;"
ALONE = "in0 :: Feed -> MarkIPHeader -> r :: IPReassembler({}) -> out0 :: Collect;"


def pieces(packet: bytes, *sizes: int) -> list[bytes]:
    """Cuts a packet without options; the last piece takes what is left."""
    data, at, found = packet[20:], 0, []
    for size in (*sizes, len(data)):
        part = data[at : at + size]
        more = MF if at + size < len(data) else 0
        place = (20 + len(part)).to_bytes(2, "big") + packet[4:6] + (at // 8 | more).to_bytes(2, "big")
        header = packet[:2] + place + packet[8:10] + b"\0\0" + packet[12:20]
        found.append(header[:10] + checksum(header).to_bytes(2, "big") + header[12:] + part)
        at += size
    return found


LATE = {("r", "reassembly timeout"): 1}
PACKET = ip(udp(bytes(range(32))), ident=7)
THREE = pieces(PACKET, 16, 16)


def test_Eo06_any_order_and_duplicates(vectors: Any) -> None:
    a, b, c = THREE
    for order in ([c, b, a], [a, a, b, c], [b, c, b, a], [a, c, b], [b, a, c], [c, a, b]):
        vectors(ALONE.format(""), {"in0": order}, {"out0": [PACKET]}, {"r.assembled": "1", "r.failed": "0"}, {})


def test_Eo07_what_does_not_join(vectors: Any) -> None:
    first, last = pieces(ip(udp(bytes(24)), ident=9), 16)
    other = pieces(ip(udp(bytes(24)), ident=9, proto=6), 16)[1]
    vectors(ALONE.format(""), {"in0": [first, other, last]}, {"out0": [ip(udp(bytes(24)), ident=9)]}, drops=LATE)
    for more in ({"src": "10.0.0.7"}, {"dst": "10.0.0.7"}, {"ident": 10}):
        strange = pieces(ip(udp(bytes(24)), **{"ident": 9, **more}), 16)[1]
        vectors(ALONE.format(""), {"in0": [first, strange]}, {"out0": []}, drops={("r", "reassembly timeout"): 2})


def test_Eo07_vlans_and_paints_stay_apart(vectors: Any) -> None:
    first, last = pieces(PACKET, 16)
    text = (
        "r :: IPReassembler({}) -> out0 :: Collect;"
        "in0 :: Feed -> MarkIPHeader -> {} -> r; in1 :: Feed -> MarkIPHeader -> {} -> r;"
    )
    for words, one, two, joins in (
        ("", "SetAnnoByte(19, 5)", "SetAnnoByte(19, 5)", True),
        ("", "SetAnnoByte(19, 5)", "SetAnnoByte(19, 6)", False),
        ("", "SetAnnoByte(18, 1)", "SetAnnoByte(18, 2)", False),
        ("", "SetAnnoByte(18, 32)", "SetAnnoByte(18, 64)", True),
        ("", "Paint(1)", "Paint(2)", True),
        ("KEY_ANNO PAINT", "Paint(1)", "Paint(2)", False),
    ):
        want = {"out0": [PACKET] if joins else []}
        vectors(text.format(words, one, two), {"in0": [first], "in1": [last]}, want)


def late(
    target: str, given: list[list[bytes]], text: str = BOTH.format("")
) -> tuple[list[bytes], list[bytes], dict[Any, int]]:
    """Feeds packets at 1 s, the next ones at 100 s, and so on."""
    with Router.from_click(text, target=target, virtual=True) as router:
        router.run(seconds=1)
        for packets in given:
            router.feed("in0", packets)
            router.run(seconds=99)
        out1 = router.collect("out1") if "out1" in router.elements else []
        return router.collect("out0"), out1, router.drops()


def test_Eo08_timeout() -> None:
    first, middle, last = THREE
    for target in ("python", "native"):
        whole, given_up, drops = late(target, [[first], [last]])
        assert (whole, given_up) == ([], [first]) and drops == LATE
        whole, given_up, drops = late(target, [[first, last], []])
        assert (whole, given_up) == ([], [first])
        whole, given_up, drops = late(target, [[middle, last], [], [first]], ALONE.format(""))
        assert whole == [] and drops == {("r", "reassembly timeout"): 2}
        text = BOTH.format("").replace("r[1]", "r[1] -> ICMPError(10.0.0.9, timeexceeded, reassembly)")
        _, (answer,), _ = late(target, [[first, middle], []], text)
        assert answer[20:22] == b"\x0b\1" and answer[28 + 20 :] == PACKET[20:52]


def test_time_counts_from_the_first_piece() -> None:
    for target in ("python", "native"):
        with Router.from_click(ALONE.format("TIMEOUT 2"), target=target, virtual=True) as router:
            for packet in THREE:
                router.feed("in0", [packet])
                router.run(seconds=0.9)
            assert router.collect("out0") == [PACKET]
            for packet in THREE:
                router.feed("in0", [packet])
                router.run(seconds=1.1)
            assert router.collect("out0") == [] and router.drops() == LATE


def test_whole_packets_pass(vectors: Any) -> None:
    packets = [PACKET, ip(udp(), frag=0x4000), ip(b"", proto=99)]
    vectors(ALONE.format(""), {"in0": packets}, {"out0": packets}, {"r.fragments": "0"}, {})


def test_bad_fragments(vectors: Any) -> None:
    bad = [
        ip(b"1234567", frag=MF),
        ip(b"", frag=MF),
        ip(b"12345678", frag=0x1FFF),
        ip(b"12345678", frag=MF, length=60),
        ip(ihl=4, payload=bytes(8), frag=MF),
        ip(b"12345678", frag=MF)[:27],
    ]
    vectors(ALONE.format(""), {"in0": bad}, {"out0": []}, {"r.bad": "6"}, {("r", "bad fragment"): 6})


def test_fragments_that_contradict(vectors: Any) -> None:
    last = THREE[2]
    longer = ip(bytes(24), ident=7, frag=4)
    shorter = ip(bytes(8), ident=7, frag=2)
    behind = ip(bytes(16), ident=7, frag=5 | MF)
    drops = {("r", "fragments that contradict"): 2}
    for one, two in ((last, longer), (last, shorter), (last, behind), (behind, last)):
        vectors(ALONE.format(""), {"in0": [one, two]}, {"out0": []}, {"r.failed": "1"}, drops)


def test_the_last_bytes_count_where_fragments_overlap(vectors: Any) -> None:
    one = ip(b"a" * 24, ident=3, frag=MF, proto=99)
    two = ip(b"b" * 16, ident=3, frag=2, proto=99)
    vectors(ALONE.format(""), {"in0": [one, two]}, {"out0": [ip(b"a" * 16 + b"b" * 16, ident=3, proto=99)]})
    vectors(ALONE.format(""), {"in0": [two, one]}, {"out0": [ip(b"a" * 24 + b"b" * 8, ident=3, proto=99)]})


def test_headers_come_from_the_first_fragment(vectors: Any) -> None:
    options = b"\7\7\4" + bytes(5)
    first = b"link of the one" + ip(bytes(range(16)), ident=5, frag=MF, options=options, tos=3)
    last = b"link of another" + ip(bytes(range(8)), ident=5, frag=2, ttl=9)
    whole = b"link of the one" + ip(bytes([*range(16), *range(8)]), ident=5, options=options, tos=3)
    text = ALONE.format("").replace("MarkIPHeader", "MarkIPHeader(15)")
    for order in ([first, last], [last, first]):
        vectors(text, {"in0": order}, {"out0": [whole]})


def test_the_oldest_makes_room(vectors: Any) -> None:
    firsts = [pieces(ip(udp(bytes(24)), ident=i), 16)[0] for i in range(5)]
    lasts = [pieces(ip(udp(bytes(24)), ident=i), 16)[1] for i in range(5)]
    want = [ip(udp(bytes(24)), ident=i) for i in (2, 3, 4)]
    drops = {("r", "made room for a newer packet"): 2}
    vectors(ALONE.format("HIMEM 6144"), {"in0": [*firsts, *lasts[2:]]}, {"out0": want}, drops=drops)
    drops = {("r", "made room for a newer packet"): 1, **LATE}
    vectors(ALONE.format("HIMEM 8192"), {"in0": [*firsts, *lasts[2:]]}, {"out0": want}, drops=drops)


def test_more_than_a_frame_holds(vectors: Any) -> None:
    huge = ip(udp(bytes(2400)), ident=6)
    parts = pieces(huge, 1200, 800)
    vectors(ALONE.format(""), {"in0": parts[:2]}, {"out0": []}, {"r.failed": "1"}, {("r", "too long for a frame"): 2})
    vectors(ALONE.format(""), {"in0": parts[2:]}, {"out0": []}, {"r.failed": "1"}, {("r", "too long for a frame"): 1})
    vectors(ALONE.format(""), {"in0": parts}, {"out0": [huge]}, frame_size=4096, frames=64)


def test_the_largest_fragment_is_told(vectors: Any) -> None:
    text = ALONE.format("MAX_MTU_ANNO 40")
    for target in ("python", "native"):
        with Router.from_click(text, target=target, virtual=True) as router:
            router.feed("in0", THREE)
            router.run(rounds=100)
            assert router.collect_packets("out0", lambda p: bytes(p.anno[40:42])) == [b"\x24\0"]


def test_pulled_fragments_too(vectors: Any) -> None:
    text = "in0 :: Feed -> MarkIPHeader -> Queue -> r :: IPReassembler -> out0 :: Collect;"
    vectors(text, {"in0": [*THREE, PACKET, *THREE[::-1]]}, {"out0": [PACKET, PACKET, PACKET]})


def test_random_fragments_of_random_packets(vectors: Any) -> None:
    chance = random.Random(12)
    packets = [ip(udp(chance.randbytes(chance.randrange(940, 1400))), ident=i) for i in range(60)]
    mixed = []
    for start in range(0, 60, 10):
        cuts = [[8 * chance.randrange(1, 40) for _ in range(3)] for _ in range(10)]
        group = [p for packet, cut in zip(packets[start:], cuts, strict=False) for p in pieces(packet, *cut)]
        chance.shuffle(group)
        mixed += group
    got = vectors(ALONE.format(""), {"in0": mixed}, reads={"r.assembled": "60"}, drops={}, outputs=["out0"])
    assert sorted(got["out"]["out0"]) == sorted(packets)


def test_fragmenter_and_reassembler_are_inverse(vectors: Any) -> None:
    chance = random.Random(13)
    packets = [ip(udp(chance.randbytes(chance.randrange(1, 900))), ident=i) for i in range(50)]
    for mtu in (28, 68, 576):
        text = f"in0 :: Feed -> MarkIPHeader -> IPFragmenter({mtu}) -> IPReassembler -> c :: CheckUDPHeader"
        text += "-> out0 :: Collect;"
        vectors(text, {"in0": packets}, {"out0": packets}, {"c.drops": "0"})
