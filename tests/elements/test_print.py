"""The printing elements: every line as Click prints it."""

from __future__ import annotations

import io
from pathlib import Path

from mezzo.elements.print import stamp
from mezzo.runtime import Router
from mezzo.targets import target_names
from mezzo.wire import build

A, B = "1.0.0.1", "1.0.0.2"


def printed(element: str, *packets: bytes, before: str = "MarkIPHeader(0) ->") -> list[str]:
    """The lines that every target prints alike."""
    found = []
    for target in target_names():
        text = f"in0 :: Feed -> {before} x :: {element} -> out0 :: Collect;"
        with Router.from_click(text, target=target, virtual=True) as router:
            router.output = io.StringIO()
            router.feed("in0", packets)
            router.run()
            assert router.collect("out0") == list(packets)
            found.append(router.output.getvalue().splitlines())
    assert all(lines == found[0] for lines in found)
    return found[0]


def ip_print(*packets: bytes, words: str = "TIMESTAMP false") -> list[str]:
    return printed(f"IPPrint({words})", *packets)


def test_print() -> None:
    data = bytes(range(30))
    hexes = "00010203 04050607 08090a0b 0c0d0e0f 10111213 14151617"
    assert printed("Print", data, b"", before="") == [f"  30 | {hexes}", "   0 | "]
    assert printed("Print(in)", data, before="") == [f"in:   30 | {hexes}"]
    assert printed("Print(in, -1)", data, before="") == [f"in:   30 | {hexes} 18191a1b 1c1d"]
    assert printed("Print(in, 3)", data, b"", before="") == ["in:   30 | 000102", "in:    0 | "]
    assert printed("Print(CONTENTS none)", data, before="") == ["  30"]


def test_print_text_annotations_and_room() -> None:
    assert printed("Print(CONTENTS ASCII, MAXLENGTH 12)", b"hello, world\n", before="") == ["  13 | hello, w orld"]
    anno = "00" * 16 + "07" + "00" * 31
    assert printed("Print(PRINTANNO true, CONTENTS NONE)", b"x", before="Paint(7) ->") == [f"   1 | {anno}"]
    assert printed("Print(HEADROOM true, CONTENTS NONE)", b"x", before="")[0].startswith("(h128 t")


def test_print_is_turned_off_and_on() -> None:
    with Router.from_click("in0 :: Feed -> p :: Print(ACTIVE false) -> Discard;", virtual=True) as router:
        router.output = io.StringIO()
        for active in ("false", "true"):
            router.write("p.active", active)
            router.feed("in0", [b"abcd"])
            router.run()
        assert router.output.getvalue() == "   4 | 61626364\n"
        assert router.read("p.active") == "true"


def test_timestamps_have_six_digits_or_nine() -> None:
    assert stamp(1_000_020_000) == "1.000020"
    assert stamp(1_000_020_001) == "1.000020001"
    assert stamp(0) == "0.000000"


def test_outfile(tmp_path: Path) -> None:
    file = tmp_path / "out"
    assert printed(f"Print(x, OUTFILE {file})", b"ab", before="") == []
    assert file.read_text() == "x:    2 | 6162\n"


TCP = [
    ({"flags": 0x10, "ack": 7}, ". 5:15(10,50,50) ack 7 win 8192"),
    ({"flags": 0x12, "ack": 0}, "S 5:16(11,50,50) ack 0 win 8192"),
    ({"flags": 0x03}, "SF 5:17(12,50,50) win 8192"),
    ({"flags": 0x0C}, "RP 5:15(10,50,50) win 8192"),
]


def test_tcp() -> None:
    segments = [build.tcp(10, 20, b"0123456789", (A, B), seq=5, window=8192, **fields) for fields, _ in TCP]
    assert ip_print(*(build.ip(A, B, 6, s) for s in segments)) == [f"{A}.10 > {B}.20: {want}" for _, want in TCP]


def test_sequence_numbers_wrap() -> None:
    segment = build.tcp(10, 20, b"ab", (A, B), seq=0xFFFF_FFFF, window=1)
    assert ip_print(build.ip(A, B, 6, segment)) == [f"{A}.10 > {B}.20: . 4294967295:1(2,42,42) ack 0 win 1"]


def test_udp_and_other_protocols() -> None:
    assert ip_print(build.ip(A, B, 17, build.udp(1, 2, b"abc", (A, B)))) == [f"{A}.1 > {B}.2: udp 11"]
    assert ip_print(build.ip(A, B, 89, b"abc")) == [f"{A} > {B}: ip-proto-89"]


QUOTED = build.ip(B, A, 17, build.udp(5, 99, b"", (B, A)))
ICMP = [
    ((8, 0, 0x0001_0203, b""), "icmp echo (1, 515)"),
    ((0, 0, 0x0001_0203, b""), "icmp echo-reply (1, 515)"),
    ((3, 1, 0, QUOTED), f"icmp {A} unreachable host"),
    ((3, 2, 0, QUOTED), f"icmp {A} unreachable protocol udp"),
    ((3, 3, 0, QUOTED), f"icmp {A} unreachable port udp/99"),
    ((3, 3, 0, QUOTED[:20]), f"icmp {A} unreachable port udptruncated-icmp"),
    ((3, 4, 1400, QUOTED), f"icmp {A} unreachable needfrag (mtu 1400)"),
    ((3, 4, 0, QUOTED), f"icmp {A} unreachable needfrag"),
    ((3, 99, 0, QUOTED), f"icmp {A} unreachable code 99"),
    ((3, 1, 0, b""), "icmp unreachable host truncated-icmp"),
    ((5, 1, 0, QUOTED), "icmp redirect host"),
    ((11, 0, 0, QUOTED), "icmp timeexceeded transit"),
    ((12, 2, 0, QUOTED), "icmp parameterproblem length"),
    ((13, 0, 0, b""), "icmp timestamp"),
    ((77, 3, 0, b""), "icmp type 77 code 3"),
]


def test_icmp() -> None:
    packets = [build.ip(A, B, 1, build.icmp(*message)) for message, _ in ICMP]
    assert ip_print(*packets) == [f"{A} > {B}: {want}" for _, want in ICMP]


def test_icmp_numbers_as_the_machine_has_them() -> None:
    ping = build.ip(A, B, 1, build.icmp(8, 0, 0x0001_0203))
    assert ip_print(ping, words="SWAP false, TIMESTAMP false") == [f"{A} > {B}: icmp echo (256, 770)"]


def test_fragments() -> None:
    first = build.ip(A, B, 17, build.udp(1, 2, bytes(24), (A, B)), id=7, frag=0x2000)
    later = build.ip(A, B, 17, bytes(24), id=7, frag=4)
    assert ip_print(first, later) == [
        f"{A}.1 > {B}.2: udp 32 (frag 7:32@0+)",
        f"{A} > {B}: udp (frag 7:24@32)",
    ]


def test_short_packets() -> None:
    whole = build.ip(A, B, 6, build.tcp(10, 20, b"", (A, B), seq=5, window=9))
    lines = [ip_print(whole[:size])[0] for size in (19, 20, 23, 24, 33, 34, 36)]
    pair, ports = f"{A} > {B}: ", f"{A}.10 > {B}.20: "
    assert lines[:5] == ["truncated-ip", pair + "truncated-tcp", pair + "truncated-tcp"] + [ports + "truncated-tcp"] * 2
    assert lines[5] == ports + ". 5:5(0,34,40) ack 0truncated-tcp"
    assert lines[6] == ports + ". 5:5(0,36,40) ack 0 win 9"
    udp = build.ip(A, B, 17, build.udp(1, 2, b"", (A, B)))
    assert ip_print(udp[:22], udp[:26]) == [f"{A} > {B}: truncated-udp", f"{A}.1 > {B}.2: truncated-udp"]
    ping = build.ip(A, B, 1, build.icmp(8))
    assert ip_print(ping[:21], ping[:25]) == [f"{A} > {B}: truncated-icmp", f"{A} > {B}: icmp echo truncated-icmp"]


def test_fields_and_bytes() -> None:
    packet = build.ip(A, B, 17, build.udp(1, 2, b"hello", (A, B)), id=3, ttl=9, tos=4)
    assert ip_print(packet, words="p, TIMESTAMP 0, ID 1, TTL 1, TOS 1, LENGTH 1, PAINT 1, AGGREGATE 1") == [
        f"p: #0.0: id 3 ttl 9 tos 4 length 33 {A}.1 > {B}.2: udp 13"
    ]
    assert ip_print(packet, words="TIMESTAMP 0, PAYLOAD ASCII") == [f"{A}.1 > {B}.2: udp 13", "  hello"]
    lines = ip_print(packet, words="TIMESTAMP 0, CONTENTS true, MAXLENGTH 30")
    assert [line.replace(" ", "") for line in lines[1:]] == [packet[:24].hex(), packet[24:30].hex()]


def test_packets_without_network_header_are_not_printed() -> None:
    assert printed("IPPrint", b"abc", before="") == printed("ARPPrint", b"abc", before="") == []


ARP = [
    ((1, 0), f"arp who-has {B} tell {A}"),
    ((1, 0x0A), f"arp who-has {B} (00-00-00-00-00-0A) tell {A}"),
    ((2, 0x0A), f"arp reply {A} is-at 00-01-02-03-04-05"),
    ((3, 0x0A), "rarp who-is 00-00-00-00-00-0A tell 00-01-02-03-04-05"),
    ((4, 0x0A), f"rarp reply 00-00-00-00-00-0A at {B}"),
    ((77, 0x0A), "arp-#77"),
]


def arp(operation: int, target: int) -> bytes:
    return build.arp(operation, "0:1:2:3:4:5", A, target, B)


def test_arp() -> None:
    packets, wanted = [arp(*fields) for fields, _ in ARP], [want for _, want in ARP]
    assert printed("ARPPrint(TIMESTAMP false)", *packets) == wanted
    frames = [build.ether(0xFF, 0, 0x0806, packet) for packet in packets]
    lines = printed("ARPPrint(TIMESTAMP false, ETHER true)", *frames, before="MarkIPHeader(14) ->")
    assert lines == ["00-00-00-00-00-FF > 00-00-00-00-00-00: " + want for want in wanted]


def test_arp_damaged() -> None:
    assert printed("ARPPrint(TIMESTAMP false)", bytes(5)) == ["truncated-arp (5)"]
    strange = bytes.fromhex("00060801 0810 0001") + bytes(40)
    assert printed("ARPPrint(TIMESTAMP false)", strange) == ["arp-#1 for proto #2049 (16) hardware #6 (8)"]
