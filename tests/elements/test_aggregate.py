"""AggregateIP and AggregateCounter on every target."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements.aggregate_ip import BitField, read_field
from mezzo.pipeline import compile_text
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from tests.elements.ip_packets import ip, tcp, udp

UDP = ip(udp(b"\xab\xcd\xef\x01\x23", src="18.26.4.9", dst="10.0.0.2", ports=(53, 4000)), src="18.26.4.9", tos=0xB9)
TCP = ip(tcp(b"\xab\xcd\xef\x01\x23", src="18.26.4.9", dst="10.0.0.2"), src="18.26.4.9", proto=6)


def field_text(field: str, more: str = "") -> str:
    return f"in0 :: Feed -> MarkIPHeader -> x :: AggregateIP({field}) {more}-> c :: AggregateCounter -> Discard;"


def all_at_once(vectors: Any, rows: list[tuple[str, bytes, str]]) -> None:
    """One router for many fields: each has a feed, a counter, and a place for packets without the field."""
    text, give, reads = "", {}, {}
    for i, (field, packet, counts) in enumerate(rows):
        mark = "-> MarkIPHeader " if len(packet) >= 20 else ""
        text += f"in{i} :: Feed {mark}-> x{i} :: AggregateIP({field}) -> c{i} :: AggregateCounter -> Discard;\n"
        text += f"x{i}[1] -> none{i} :: Counter -> Discard;"
        give[f"in{i}"] = [packet]
        reads |= {f"c{i}.counts": counts, f"none{i}.count": "0" if counts else "1"}
    vectors(text, give=give, reads=reads, drops={})


@pytest.mark.slow
def test_ways_to_say_one_field(vectors: Any) -> None:
    ways = ["ip src/8", "ip src & 0xFF000000", "ip[12]", '"ip[12, 1]"', '"ip{96, 8}"', "ip{96-103}", " ip  src /8 "]
    all_at_once(vectors, [(field, UDP, "18 1") for field in ways])


@pytest.mark.slow
def test_fields(vectors: Any) -> None:
    rows = [
        ("ip vers", UDP, 4), ("ip hl", UDP, 5), ("ip tos", UDP, 0xB9), ("ip dscp", UDP, 46), ("ip ecn", UDP, 1),
        ("ip len", UDP, len(UDP)), ("ip src", UDP, 0x121A0409), ("ip src & 0xFF00", UDP, 4), ("ip dst", TCP, 0xA000002),
        ("ip proto", UDP, 17), ("ip ttl", UDP, 64), ("udp sport", UDP, 53), ("udp dport", UDP, 4000),
        ("sport", UDP, 53), ("dport", TCP, 2), ("tcp flags", TCP, 16), ("tcp ack", TCP, 1),
        ("tcp syn", TCP, 0), ("tcp seqno", TCP, 3),
        ("tcp hl", TCP, 5), ("data[0]", TCP, 0xAB), ("data[1-4]", UDP, 0xCDEF0123), ("data{4-35}", UDP, 0xBCDEF012),
        ("transp[0-1]", UDP, 53), ("tcp[13]", TCP, 16), ("ip mf", ip(b"12345678", frag=0x2000), 1),
        ("ip fragoff", ip(b"12345678", frag=7), 7), ("icmp type", ip(b"\x0b\0\0\0", proto=1), 11),
    ]  # fmt: skip
    all_at_once(vectors, [(field, packet, f"{value} 1") for field, packet, value in rows])


@pytest.mark.slow
def test_packets_without_the_field(vectors: Any) -> None:
    rows = [
        ("tcp sport", UDP), ("udp sport", TCP), ("sport", ip(b"\0" * 8, proto=1)), ("udp sport", ip(b"\0" * 8, frag=1)),
        ("data[0]", ip(udp())), ("data[5]", UDP), ("data[0]", ip(b"\0" * 12, proto=6)), ("ip[80]", UDP),
        ("ip src", UDP[:19]), ("transp[3]", ip(b"abc")), ("data[0]", ip(b"\0" * 30, proto=1)), ("ip src", b""),
    ]  # fmt: skip
    all_at_once(vectors, [(field, packet, "") for field, packet in rows])


def test_incremental(vectors: Any) -> None:
    text = field_text("ip proto", "-> y :: AggregateIP(ip tos, INCREMENTAL true)")
    vectors(text, give={"in0": [UDP]}, reads={"c.counts": f"{17 << 8 | 0xB9} 1"}, drops={})


def test_read_field_knows_places() -> None:
    assert read_field("ip src & 0x00FFFF00") == BitField(0, 0, 104, 16)
    assert read_field("tcp[12-13]") == BitField(1, 6, 96, 16)


@pytest.mark.parametrize(
    "field",
    ["", "ip", "ip frog", "ipx src", "ip src/0", "ip src/33", "ip src & 0", "ip src & 5", "ip src & 0x1FFFFFFFF",
     '"ip[0, 5]"', '"ip[0, 0]"', "ip[3-1]", "ip[2}", "ip[x]", "eth[0]", "ip[99999]", "ip src garbage"],
)  # fmt: skip
def test_field_errors(field: str) -> None:
    with pytest.raises(MezzoError):
        compile_text(field_text(field))


def counter(words: str, more: str = "") -> str:
    way = f"AggregateIP(ip src) -> c :: AggregateCounter({words})"
    return f"in0 :: Feed -> MarkIPHeader -> {way} -> out0 :: Collect; {more}"


A, B, C = (ip(udp(b"x" * n), src=src) for n, src in ((2, "0.0.0.1"), (12, "0.0.0.2"), (22, "0.0.0.3")))


def test_counts(vectors: Any) -> None:
    give = {"in0": [A, B, A, C, A]}
    reads = {"c.counts": "1 3\n2 1\n3 1", "c.total": "5", "c.aggregates": "3"}
    vectors(counter(""), give=give, want={"out0": give["in0"]}, reads=reads, drops={})
    vectors(counter("BYTES true"), give=give, reads={"c.counts": "1 90\n2 40\n3 50", "c.total": "180"}, drops={})


def test_counts_in_a_pull_path(vectors: Any) -> None:
    text = "in0 :: Feed -> MarkIPHeader -> AggregateIP(ip src) -> Queue -> c :: AggregateCounter -> out0 :: Collect;"
    vectors(text, give={"in0": [A, B, A]}, want={"out0": [A, B, A]}, reads={"c.counts": "1 2\n2 1"}, drops={})


@pytest.mark.slow
def test_annotations_count(vectors: Any) -> None:
    """EXTRA_PACKETS and EXTRA_LENGTH, and bytes without the link header."""
    text = "in0 :: Feed -> MarkIPHeader(2) -> SetAnnoByte(24, 4) -> SetAnnoByte(28, 100) -> c :: AggregateCounter({});"
    text = text.replace(";", "-> Discard;")
    for words, count in (
        ("", 5),
        ("MULTIPACKET false", 1),
        ("BYTES true", 132),
        ("BYTES true, EXTRA_LENGTH false", 32),
        ("IP_BYTES true", 130),
    ):
        vectors(text.format(words), give={"in0": [b"--" + A]}, reads={"c.counts": f"0 {count}"}, drops={})


def test_frozen_by_handler_and_by_number(vectors: Any) -> None:
    text = counter("FREEZE_AFTER_AGG 2", "c[1] -> out1 :: Collect;")
    reads = {"c.counts": "1 2\n2 2", "c.freeze": "true"}
    vectors(text, give={"in0": [A, B, C, A, B, C]}, want={"out0": [A, B, A, B], "out1": [C, C]}, reads=reads, drops={})
    text = counter("FREEZE_AFTER_COUNT 2", "c[1] -> out1 :: Collect;")
    vectors(text, give={"in0": [A, A, B]}, want={"out0": [A, A], "out1": [B]}, reads={"c.total": "2"}, drops={})


def test_inactive(vectors: Any) -> None:
    text = counter("", "c[1] -> out1 :: Collect;")
    writes = [("c.active", "false")]
    vectors(text, give={"in0": [A]}, want={"out0": [], "out1": [A]}, reads={"c.total": "0"}, writes=writes)


def test_the_second_input_adds_no_values(vectors: Any) -> None:
    more = "in1 :: Feed -> MarkIPHeader -> AggregateIP(ip src) -> [1] c;"
    text = counter("", more)
    reads = {"c.counts": "1 1", "c.aggregates": "1"}
    vectors(text, give={"in0": [A], "in1": [B]}, reads=reads, drops={})


def test_a_full_table_is_told(vectors: Any) -> None:
    reads = {"c.counts": "1 2\n2 1", "c.missed": "1"}
    vectors(counter("CAPACITY 2"), give={"in0": [A, B, C, A]}, want={"out0": [A, B, C, A]}, reads=reads, drops={})


def test_calls_and_stops(vectors: Any) -> None:
    more = "n :: Counter; Idle -> n -> Discard; s :: Switch; Idle -> s -> d :: Discard; s[1] -> d;"
    vectors(counter("CALL_AFTER_AGG 2 s.switch 1", more), give={"in0": [A, A]}, reads={"s.switch": "0"})
    vectors(counter("CALL_AFTER_AGG 2 s.switch 1", more), give={"in0": [A, B]}, reads={"s.switch": "1"})
    vectors(counter("CALL_AFTER_COUNT 2 s.switch 1", more), give={"in0": [A, A]}, reads={"s.switch": "1"})
    text = counter("STOP_AFTER_COUNT 2")
    vectors(text, give={"in0": [A, A, A]}, reads={"c.active": "false", "c.total": "2"})


@pytest.mark.parametrize("words", ["STOP_AFTER_AGG 1, FREEZE_AFTER_AGG 2", "CALL_AFTER_COUNT x", "CAPACITY 0"])
def test_counter_arguments(words: str) -> None:
    with pytest.raises(MezzoError):
        compile_text(counter(words))


def test_files_and_handlers(tmp_path: Path, capfd: Any) -> None:
    with Router.from_click(counter("BANNER '# mine'"), virtual=True) as r:
        r.feed("in0", [A, B, A, C])
        r.run()
        r.write("c.write_ascii_file", f"{tmp_path}/text")
        r.write("c.write_file", f"{tmp_path}/packed")
        r.write("c.write_ascii_file", "-")
        r.write("c.reaggregate_counts", "")
        assert r.read("c.counts") == "1 2\n2 1"
        r.write("c.clear", "")
        assert (r.read("c.counts"), r.read("c.total")) == ("", "0")
        with pytest.raises(HandlerError, match="No such file"):
            r.write("c.write_file", f"{tmp_path}/nowhere/x")
        with pytest.raises(HandlerError, match="without CALL_AFTER_AGG"):
            r.write("c.call_after_agg", "3 c.stop")
    text = (tmp_path / "text").read_text()
    assert text == "!IPAggregate 1.0\n# mine\n!num_nonzero 3\n1 2\n2 1\n3 1\n"
    assert capfd.readouterr().out == text
    head, _, rows = (tmp_path / "packed").read_bytes().partition(b"$packed_le\n")
    assert head.endswith(b"!num_nonzero 3\n")
    assert list(struct.iter_unpack("<II", rows)) == [(1, 2), (2, 1), (3, 1)]
