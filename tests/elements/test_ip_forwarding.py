"""The small steps of forwarding: addresses, link broadcasts, TTL, options, source address."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from mezzo.packet.arena import Packet
from mezzo.runtime import Router
from tests.elements.ip_packets import checksum, ip, udp

MARKED = "in0 :: Feed -> MarkIPHeader -> x :: {} -> out0 :: Collect;"
BOTH = MARKED + " x[1] -> out1 :: Collect;"


def header_is_right(packet: bytes) -> bool:
    return checksum(packet[: (packet[0] & 15) * 4]) == 0


def annotations(text: str, packets: list[bytes], first: int, last: int) -> list[bytes]:
    """Bytes of the annotations as they come out, on one target and then on the other."""
    found = []
    for target in ("python", "native"):
        with Router.from_click(text, virtual=True, target=target) as router:
            router.feed("in0", packets)
            router.run(rounds=1000)
            found += router.collect_packets("out0", lambda p: bytes(p.anno[first:last]))
    return found


def test_Eo01_checksum_that_becomes_zero(vectors: Any) -> None:
    packet = bytes.fromhex("4500001c67cf00004011feff0a0000010a000002") + bytes(8)
    want = bytes.fromhex("4500001c67cf00003f1100000a0000010a000002") + bytes(8)
    vectors(MARKED.format("DecIPTTL"), {"in0": [packet]}, {"out0": [want]})


def test_ttl_of_any_packet(vectors: Any) -> None:
    chance = random.Random(3)
    same = [{"ident": chance.randrange(65536), "proto": t ^ 77, "options": bytes(t % 3 * 4)} for t in range(256)]
    packets = [ip(ttl=t, **more) for t, more in enumerate(same)]
    want = [ip(ttl=t - 1, **more) for t, more in enumerate(same) if t > 1]
    vectors(BOTH.format("DecIPTTL"), {"in0": packets}, {"out0": want, "out1": packets[:2]}, {"x.drops": "2"}, {})
    vectors(MARKED.format("DecIPTTL"), {"in0": packets[:3]}, {"out0": want[:1]}, drops={("x", "TTL expired"): 2})


def test_ttl_stays_where_told(vectors: Any) -> None:
    group = [ip(dst="224.0.0.5"), ip(dst="239.255.255.255", ttl=1)]
    vectors(MARKED.format("DecIPTTL(MULTICAST false)"), {"in0": group}, {"out0": group})
    vectors(MARKED.format("DecIPTTL(ACTIVE false)"), {"in0": group}, {"out0": group}, {"x.active": "false"})
    want = [ip(ttl=63)]
    vectors(MARKED.format("DecIPTTL(ACTIVE false)"), {"in0": [ip()]}, {"out0": want}, writes=[("x.active", "true")])


def test_a_short_packet_is_a_fault_and_no_more(vectors: Any) -> None:
    for element in ("DecIPTTL", "IPGWOptions(1.2.3.4)", "GetIPAddress(16)"):
        vectors(MARKED.format(element), {"in0": [b"", b"\x46" * 7]}, {"out0": []}, drops={("x", "fault"): 2})


def test_addresses_to_annotations() -> None:
    packet = ip(src="1.2.3.4", dst="5.6.7.8")
    for element, place, want in (
        ("GetIPAddress(16)", 0, b"\5\6\7\x08"),
        ("GetIPAddress(12, 20)", 20, b"\1\2\3\4"),
        ("GetIPAddress(IP src)", 0, b"\1\2\3\4"),
        ("GetIPAddress(IP dst, ANNO 4)", 4, b"\5\6\7\x08"),
        ("SetIPAddress(9.8.7.6)", 0, b"\x09\x08\7\6"),
        ("SetIPAddress(9.8.7.6, 8)", 8, b"\x09\x08\7\6"),
    ):
        assert annotations(MARKED.format(element), [packet], place, place + 4) == [want, want], element


@pytest.mark.parametrize("kind, passes", [(0, True), (1, False), (2, False), (3, True)])
def test_link_broadcasts_are_not_forwarded(kind: int, passes: bool) -> None:
    for target in ("python", "native"):
        with Router.from_click(BOTH.format("DropBroadcasts"), virtual=True, target=target) as router:
            router.feed("in0", [ip()])
            frame = router.elements["in0"].cell("ring").dump()[0]
            Packet(router.arena, frame).packet_type = kind
            router.run(rounds=1000)
            assert len(router.collect("out0")) == passes and len(router.collect("out1")) == (not passes)
            assert router.read("x.drops") == str(int(not passes))


def test_fix_ip_src(vectors: Any) -> None:
    packet = ip(src="1.1.1.1", options=b"\1\1\1\1")
    text = "in0 :: Feed -> MarkIPHeader -> {} FixIPSrc(9.9.9.9) -> out0 :: Collect;"
    vectors(text.format(""), {"in0": [packet]}, {"out0": [packet]})
    asked = text.format("SetAnnoByte(18, 1) ->")
    vectors(asked, {"in0": [packet]}, {"out0": [ip(src="9.9.9.9", options=b"\1\1\1\1")]})
    assert annotations(asked, [packet], 18, 19) == [b"\0", b"\0"]


RECORD = b"\7\7\4" + bytes(4)  # a record route option with room for one address
OPTIONS = {
    "no options": (b"", b""),
    "other options pass": (b"\x94\4\0\0\1", b"\x94\4\0\0\1"),
    "record route": (RECORD, b"\7\7\x08\1\2\3\4"),
    "record route behind no-ops": (b"\1\1" + RECORD, b"\1\1\7\7\x08\1\2\3\4"),
    "record route full": (b"\7\7\x08\5\5\5\5", b"\7\7\x08\5\5\5\5"),
    "end of options": (b"\0" + RECORD, b"\0" + RECORD),
    "timestamp": (b"\x44\x08\5\0" + bytes(4), b"\x44\x08\x09\0TIME"),
    "timestamp and address": (b"\x44\x0c\5\1" + bytes(8), b"\x44\x0c\x0d\1\1\2\3\4TIME"),
    "timestamp of ours": (b"\x44\x0c\5\3\5\6\7\x08" + bytes(4), b"\x44\x0c\x0d\3\5\6\7\x08TIME"),
    "timestamp of others": (b"\x44\x0c\5\3\6\6\6\6" + bytes(4), b"\x44\x0c\5\3\6\6\6\6" + bytes(4)),
    "timestamp full": (b"\x44\x08\x09\x20" + b"abcd", b"\x44\x08\x09\x30" + b"abcd"),
}


MIDNIGHT = struct.pack(">I", 10**9 % 86400 * 1000)  # the virtual clock starts 10^9 seconds after the epoch


def test_options(vectors: Any) -> None:
    given = [ip(udp(b"x"), options=before) for before, _ in OPTIONS.values()]
    want = [ip(udp(b"x"), options=after.replace(b"TIME", MIDNIGHT)) for _, after in OPTIONS.values()]
    text = BOTH.format("IPGWOptions(1.2.3.4, 5.6.7.8)")
    vectors(text, {"in0": given}, {"out0": want, "out1": []}, {"x.drops": "0"})


FAULTS = {
    "length zero": (b"\7\0\4\0", 21),
    "length one": (b"\1\7\1\4", 22),
    "too long": (b"\7\x0c\4" + bytes(5), 21),
    "length byte missing": (b"\1\1\1\7", 24),
    "record route pointer below the first": (b"\7\7\3" + bytes(4), 22),
    "record route with half a place": (b"\7\6\4" + bytes(3), 22),
    "timestamp pointer below the first": (b"\x44\x08\4\0" + bytes(4), 22),
    "timestamp of unknown kind": (b"\x44\x08\5\2" + bytes(4), 23),
    "timestamp overflow that overflows": (b"\x44\x08\x09\xf0" + bytes(4), 23),
}


def test_options_at_fault(vectors: Any) -> None:
    packets = [ip(udp(b"x"), options=options) for options, _ in FAULTS.values()]
    text = "in0 :: Feed -> MarkIPHeader -> x :: IPGWOptions(1.2.3.4) -> Discard; x[1] -> out0 :: Collect;"
    vectors(text, {"in0": packets}, {"out0": packets}, {"x.drops": str(len(packets))})
    assert annotations(text, packets, 17, 18) == [bytes([at]) for _, at in FAULTS.values()] * 2


def test_random_options_never_break_the_header(vectors: Any) -> None:
    chance = random.Random(5)

    def option() -> bytes:
        sizes = chance.randrange(14), chance.randrange(14), chance.randrange(256)
        return bytes([chance.choice((0, 1, 7, 68, 68, 131)), *sizes]) + chance.randbytes(chance.choice((0, 4, 8)))

    lists = [b"".join(option() for _ in range(chance.randrange(1, 4))) for _ in range(300)]
    packets = [ip(b"data", options=options) for options in lists]
    text = BOTH.format("IPGWOptions(1.2.3.4, 5.6.7.8)")
    got = vectors(text, {"in0": packets}, outputs=["out0", "out1"])["out"]
    assert len(got["out0"]) + len(got["out1"]) == 300 and len(got["out0"]) > 30
    assert all(header_is_right(p) and p[-4:] == b"data" for p in got["out0"])
