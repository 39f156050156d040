"""IPFragmenter: pieces, their headers, and what is refused."""

from __future__ import annotations

import random
import struct
from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from tests.elements.ip_packets import checksum, ip, udp

DF, MF = 0x4000, 0x2000
BOTH = "in0 :: Feed -> MarkIPHeader -> f :: IPFragmenter({}) -> out0 :: Collect; f[1] -> out1 :: Collect;"
ALONE = "in0 :: Feed -> MarkIPHeader -> f :: IPFragmenter({}) -> out0 :: Collect;"


def data_of(packet: bytes) -> bytes:
    return packet[(packet[0] & 15) * 4 : int.from_bytes(packet[2:4], "big")]


def frag_of(packet: bytes) -> int:
    return int.from_bytes(packet[6:8], "big")


def joined(pieces: list[bytes]) -> bytes:
    """Reassembly, in a few plain lines."""
    whole = bytearray(65536)
    end = 0
    for piece in pieces:
        at, data = (frag_of(piece) & 0x1FFF) * 8, data_of(piece)
        whole[at : at + len(data)] = data
        end = end if frag_of(piece) & MF else at + len(data)
    return bytes(whole[:end])


def test_Eo02_fragments_at_mtu_60(vectors: Any) -> None:
    packet = ip(udp(bytes(range(80))))
    got = vectors(ALONE.format(60), {"in0": [packet]}, reads={"f.fragments": "3"}, outputs=["out0"])["out"]["out0"]
    assert [dpkt.ip.IP(p).len for p in got] == [60, 60, 28] == [len(p) for p in got]
    assert [frag_of(p) for p in got] == [MF, MF | 5, 10]
    assert all(checksum(p[:20]) == 0 for p in got) and joined(got) == data_of(packet)


def test_Eo03_fragments_of_fragments(vectors: Any) -> None:
    packet = ip(udp(bytes(range(100))))
    text = "in0 :: Feed -> MarkIPHeader -> IPFragmenter(92) -> IPFragmenter(44) -> out0 :: Collect;"
    got = vectors(text, {"in0": [packet]}, outputs=["out0"])["out"]["out0"]
    assert [frag_of(p) for p in got] == [MF, MF | 3, MF | 6, MF | 9, 12]
    assert joined(got) == data_of(packet)


def test_Eo04_dont_fragment_gives_an_error_with_the_mtu(vectors: Any) -> None:
    packet = ip(udp(bytes(80)), frag=DF)
    vectors(BOTH.format(60), {"in0": [packet]}, {"out0": [], "out1": [packet]}, {"f.drops": "1", "f.fragments": "0"})
    vectors(ALONE.format(60), {"in0": [packet]}, {"out0": []}, drops={("f", "too big, and not to be fragmented"): 1})
    text = (
        "in0 :: Feed -> MarkIPHeader -> f :: IPFragmenter(60) -> Discard;"
        "f[1] -> ICMPError(10.0.0.9, unreachable, needfrag, PMTU 60) -> out1 :: Collect;"
    )
    (answer,) = vectors(text, {"in0": [packet]}, outputs=["out1"])["out"]["out1"]
    assert answer[20:22] == b"\3\4" and struct.unpack(">HH", answer[24:28]) == (0, 60)


def test_Eo05_an_mtu_that_holds_nothing(vectors: Any) -> None:
    packet = ip(udp(bytes(16)))
    vectors(BOTH.format(27), {"in0": [packet]}, {"out0": [], "out1": [packet]}, {"f.drops": "1"})
    vectors(ALONE.format(27), {"in0": [packet]}, {"out0": []}, drops={("f", "MTU too small for a fragment"): 1})
    got = vectors(ALONE.format(28), {"in0": [packet]}, outputs=["out0"])["out"]["out0"]
    assert [len(data_of(p)) for p in got] == [8, 8, 8] and joined(got) == data_of(packet)
    for bad in ("7", "", "x", "70000"):
        with pytest.raises(MezzoError, match="MTU"):
            Router.from_click(ALONE.format(bad))


def test_dont_fragment_overruled(vectors: Any) -> None:
    packet = ip(udp(bytes(80)), frag=DF)
    got = vectors(ALONE.format("60, HONOR_DF false"), {"in0": [packet]}, outputs=["out0"])["out"]["out0"]
    assert [frag_of(p) for p in got] == [MF, MF | 5, 10]
    assert len({p[4:6] for p in got}) == 1


def test_packets_that_fit_pass_untouched(vectors: Any) -> None:
    padded = ip(udp(bytes(20))) + bytes(40)
    packets = [ip(udp(bytes(32))), ip(udp(bytes(20)), frag=DF), padded]
    vectors(BOTH.format(60), {"in0": packets}, {"out0": packets, "out1": []}, {"f.fragments": "0"})


def test_options_go_where_their_flag_says(vectors: Any) -> None:
    kept, first = b"\x94\4\0\0", b"\7\7\4\0\0\0\0"  # router alert is copied, record route is not
    packet = ip(udp(bytes(range(80))), options=b"\1" + first + kept)
    got = vectors(ALONE.format(64), {"in0": [packet]}, outputs=["out0"])["out"]["out0"]
    assert got[0][20:32] == b"\1" + first + kept
    assert all(p[0] == 0x46 and p[20:24] == kept for p in got[1:])
    assert all(checksum(p[: (p[0] & 15) * 4]) == 0 for p in got) and joined(got) == data_of(packet)


def test_the_link_header_and_annotations_stay(vectors: Any) -> None:
    frame = b"ethernet head!" + ip(udp(bytes(range(80))))
    text = "in0 :: Feed -> Paint(7) -> MarkIPHeader(14) -> IPFragmenter(60) -> p :: CheckPaint(7) -> out0 :: Collect;"
    got = vectors(text, {"in0": [frame]}, outputs=["out0"])["out"]["out0"]
    assert [len(p) for p in got] == [74, 74, 42] and all(p[:14] == frame[:14] for p in got)
    assert joined([p[14:] for p in got]) == data_of(frame[14:])


def test_no_frame_left_is_counted() -> None:
    packet = ip(udp(bytes(200)))
    with Router.from_click(ALONE.format(60), virtual=True, target="python", frames=2) as router:
        router.feed("in0", [packet])
        router.run(rounds=100)
        assert len(router.collect("out0")) == 1
        assert router.drops()["f", "out of packets"] == 1


def test_random_packets_come_together_again(vectors: Any) -> None:
    chance = random.Random(8)
    choices = [b"", b"\1\1\1\1", b"\x94\4\0\0", b"\x83\7\4\1\2\3\4", b"\7\x0b\4" + bytes(8), b"\x88\4\0\1" + b"\1" * 8]
    packets = [
        ip(chance.randbytes(chance.randrange(1, 900)), ident=i, options=chance.choice(choices) + chance.choice(choices))
        for i in range(120)
    ]
    got = vectors(ALONE.format(68), {"in0": packets}, outputs=["out0"])["out"]["out0"]
    assert all(len(p) <= 68 and checksum(p[: (p[0] & 15) * 4]) == 0 for p in got)
    for i, packet in enumerate(packets):
        pieces = [p for p in got if int.from_bytes(p[4:6], "big") == i]
        chance.shuffle(pieces)
        assert joined(pieces) == data_of(packet)
