"""ICMPError: the answers, and when there is none."""

from __future__ import annotations

import random
import socket
import struct
from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.packet.arena import Packet
from mezzo.runtime import Router
from tests.elements.ip_packets import checksum, icmp, ip, tcp, udp

TEXT = "in0 :: Feed -> MarkIPHeader -> {} e :: ICMPError({}) -> out0 :: Collect;"
EXPIRED = TEXT.format("", "10.0.0.9, timeexceeded, BADADDRS 10.0.0.255")


BAD_SOURCES = ("0.0.0.0", "10.0.0.255", "255.255.255.255", "127.0.0.1", "224.0.0.1", "240.0.0.1", "0.1.2.3")


def check(answer: bytes, kind: int, code: int, rest: int, about: bytes, to: str = "10.0.0.1") -> None:
    """Judged by dpkt and by a checksum of our own."""
    packet = dpkt.ip.IP(answer)
    head = packet.hl * 4
    assert (packet.v, packet.p, packet.len) == (4, 1, len(answer))
    assert packet.src == socket.inet_aton("10.0.0.9") and packet.dst == socket.inet_aton(to)
    assert checksum(answer[:head]) == 0 and checksum(answer[head:]) == 0
    assert struct.unpack(">BBHI", answer[head : head + 8])[:2] == (kind, code)
    assert int.from_bytes(answer[head + 4 : head + 8], "big") == rest
    assert answer[head + 8 :] == about


def answers(vectors: Any, text: str, *packets: bytes) -> list[bytes]:
    found: list[bytes] = vectors(text, {"in0": packets}, outputs=["out0"])["out"]["out0"]
    return found


def test_Eo12_when_there_is_no_answer(vectors: Any) -> None:
    silent = {
        "no error about an ICMP error": [ip(icmp(t), proto=1, ttl=1) for t in (3, 4, 5, 11, 12)] + [ip(proto=1)],
        "no error about a later fragment": [ip(udp(), frag=1, ttl=1)],
        "no error about a broadcast": [ip(dst=d) for d in ("224.0.0.5", "255.255.255.255", "10.0.0.255")],
        "no error to a bad source": [ip(src=s) for s in BAD_SOURCES],
    }
    loud = [ip(icmp(8), proto=1, ttl=1), ip(udp(), frag=0x2000, ttl=1)]
    drops = {("e", reason): len(packets) for reason, packets in silent.items()}
    packets = [p for group in silent.values() for p in group] + loud
    got = vectors(EXPIRED, {"in0": packets}, reads={"e.count": "2"}, drops=drops, outputs=["out0"])["out"]["out0"]
    for answer, about in zip(got, loud, strict=True):
        check(answer, 11, 0, 0, about)


def test_link_broadcasts_get_no_answer() -> None:
    for target in ("python", "native"):
        with Router.from_click(EXPIRED, virtual=True, target=target) as router:
            router.feed("in0", [ip()] * 4)
            for kind, frame in enumerate(router.elements["in0"].cell("ring").dump()):
                Packet(router.arena, frame).packet_type = kind
            router.run(rounds=1000)
            assert len(router.collect("out0")) == 2
            assert router.drops() == {("e", "no error about a broadcast"): 2}


def test_what_stands_in_front_and_behind_is_left_out(vectors: Any) -> None:
    packet = ip(udp(b"data"))
    text = "in0 :: Feed -> MarkIPHeader(14) -> e :: ICMPError(10.0.0.9, 3, 1) -> out0 :: Collect;"
    (answer,) = answers(vectors, text, b"ethernet head!" + packet + b"padding")
    check(answer, 3, 1, 0, packet)


def test_long_packets_are_cut(vectors: Any) -> None:
    packet = ip(udp(bytes(range(250)) * 4))
    (answer,) = answers(vectors, EXPIRED, packet)
    check(answer, 11, 0, 0, packet[:548])
    (answer,) = answers(vectors, TEXT.format("", "10.0.0.9, timeexceeded, MTU 100"), packet)
    check(answer, 11, 0, 0, packet[:72])


def test_parameter_problem_points(vectors: Any) -> None:
    packet = ip(udp(), options=b"\7\7\3" + bytes(4))
    text = (
        "in0 :: Feed -> MarkIPHeader -> o :: IPGWOptions(10.0.0.9) -> Discard;"
        "o[1] -> e :: ICMPError(10.0.0.9, parameterproblem) -> out0 :: Collect;"
    )
    (answer,) = answers(vectors, text, packet)
    check(answer, 12, 0, 22 << 24, packet)


def test_redirect_names_the_gateway(vectors: Any) -> None:
    packet = ip(tcp())
    (answer,) = answers(vectors, TEXT.format("SetIPAddress(1.2.3.4) ->", "10.0.0.9, redirect, host"), packet)
    check(answer, 5, 1, 0x01020304, packet)


def route(kind: int, pointer: int, *hops: str) -> bytes:
    return bytes([kind, 3 + 4 * len(hops), pointer]) + b"".join(map(socket.inet_aton, hops))


def test_source_routes_go_back(vectors: Any) -> None:
    for kind in (131, 137):
        packet = ip(udp(), options=b"\1" + route(kind, 12, "1.1.1.1", "2.2.2.2", "3.3.3.3"))
        (answer,) = answers(vectors, EXPIRED, packet)
        check(answer, 11, 0, 0, packet)
        assert answer[20:31] == route(kind, 4, "2.2.2.2", "1.1.1.1") and answer[31:32] == b"\0"
        assert answers(vectors, TEXT.format("", "10.0.0.9, redirect, 1"), packet) == []
    unused = ip(udp(), options=route(131, 4, "1.1.1.1"))
    (answer,) = answers(vectors, EXPIRED, unused)
    check(answer, 11, 0, 0, unused)


def test_a_route_at_fault_is_not_used(vectors: Any) -> None:
    packet = ip(udp(), options=route(131, 8, "1.1.1.1", "2.2.2.2"))
    text = TEXT.format("SetAnnoByte(17, 22) ->", "10.0.0.9, parameterproblem")
    (answer,) = answers(vectors, text, packet)
    assert answer[0] == 0x45
    check(answer, 12, 0, 22 << 24, packet)


def test_annotations_of_an_answer() -> None:
    for target in ("python", "native"):
        text = TEXT.format("Paint(3) -> SetIPAddress(1.2.3.4) ->", "10.0.0.9, timeexceeded")
        with Router.from_click(text, virtual=True, target=target) as router:
            router.feed("in0", [ip()])
            router.run(rounds=100)
            (anno,) = router.collect_packets("out0", lambda p: bytes(p.anno))
        assert anno == socket.inet_aton("10.0.0.1") + bytes(14) + b"\1" + bytes(29)


def test_ids_count_up_and_fix_anno_can_be_left(vectors: Any) -> None:
    text = TEXT.format("", "10.0.0.9, 11, USE_FIX_ANNO false").replace("-> out0", "-> FixIPSrc(9.9.9.9) -> out0")
    got = answers(vectors, text, ip(), ip(), ip())
    assert [p[4:6] for p in got] == [b"\0\1", b"\0\2", b"\0\3"]
    assert {p[12:16] for p in got} == {socket.inet_aton("10.0.0.9")}


def test_the_source_can_be_changed(vectors: Any) -> None:
    text = TEXT.format("", "1.2.3.4, timeexceeded")
    got = vectors(text, {"in0": [ip()]}, reads={"e.src": "10.0.0.9"}, outputs=["out0"], writes=[("e.src", "10.0.0.9")])
    check(got["out"]["out0"][0], 11, 0, 0, ip())


def test_types_that_are_no_errors_are_refused() -> None:
    for bad in ("echo", "0", "timestamp-reply"):
        with pytest.raises(MezzoError, match="is not an error"):
            Router.from_click(TEXT.format("", f"1.2.3.4, {bad}"))
    with pytest.raises(MezzoError, match="TYPE"):
        Router.from_click(TEXT.format("", "1.2.3.4, nonsense"))


def test_pulled_packets_are_answered_too(vectors: Any) -> None:
    text = "in0 :: Feed -> MarkIPHeader -> Queue -> e :: ICMPError(10.0.0.9, timeexceeded) -> out0 :: Collect;"
    assert len(answers(vectors, text, ip(frag=1), ip(), ip(frag=1), ip())) == 2


def test_random_packets(vectors: Any) -> None:
    chance = random.Random(9)
    packets = []
    for _ in range(300):
        options = chance.randbytes(chance.choice((0, 4, 12, 40)))
        packet = bytearray(ip(chance.randbytes(chance.randrange(700)), options=options))
        if chance.random() < 0.3:
            packet[chance.randrange(20)] = chance.randrange(256)
        packets.append(bytes(packet[: chance.choice((len(packet), chance.randrange(len(packet))))]))
    for answer in answers(vectors, EXPIRED, *packets):
        head = (answer[0] & 15) * 4
        assert checksum(answer[:head]) == 0 and checksum(answer[head:]) == 0
        assert int.from_bytes(answer[2:4], "big") == len(answer) <= 576
