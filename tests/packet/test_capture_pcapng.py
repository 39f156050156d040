"""pcapng: sections, interfaces, three kinds of packet block, damage."""

import io
import struct

import pytest

from mezzo.base import MezzoError
from mezzo.packet.capture import MAX_CAPTURED, MAX_TIME_NS, open_capture
from mezzo.packet.capture_index import index_capture

FRAME = bytes(range(50))
NS = 1_123_456_789


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    length = struct.pack(order + "I", 12 + len(pad(body)))
    return struct.pack(order + "I", kind) + length + pad(body) + length


def section(order: str = "<", major: int = 1) -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + pad(value)


def interface(link: int = 1, snaplen: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(order + "HHI", link, 0, snaplen) + options, order)


def enhanced(ticks: int, data: bytes, wire: int | None = None, index: int = 0, order: str = "<") -> bytes:
    wire = len(data) if wire is None else wire
    return block(
        6, struct.pack(order + "5I", index, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire) + pad(data), order
    )


def simple(data: bytes, wire: int, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", wire) + data, order)


NANO = option(9, b"\x09") + option(0, b"")


def read(raw: bytes):
    capture = open_capture(io.BytesIO(raw))
    return capture, list(capture.records())


@pytest.mark.parametrize("order", ["<", ">"])
def test_go02_nanoseconds(order) -> None:
    resolution = option(9, b"\x09", order)
    raw = section(order) + interface(options=resolution, order=order) + enhanced(NS, FRAME, order=order)
    capture, records = read(raw)
    assert records == [(NS, FRAME, 50, 0)]
    assert capture.nanosecond and capture.byte_order == {"<": "little", ">": "big"}[order]


def test_go02_today_in_nanoseconds_is_exact() -> None:
    ticks = 1_700_000_000_123_456_789
    assert read(section() + interface(options=NANO) + enhanced(ticks, b"x"))[1][0].time_ns == ticks


def test_go03_several_interfaces() -> None:
    raw = (
        section()
        + interface(1, options=NANO)
        + block(0xBAD, b"whatever this is")
        + interface(101, 40)
        + enhanced(NS, FRAME, index=0)
        + enhanced(1_123_456, FRAME, wire=99, index=1)
        + block(0x80000001, bytes(400))
        + simple(FRAME, 50)
        + enhanced(NS + 1, b"last", index=0)
    )
    capture, records = read(raw)
    assert records == [
        (NS, FRAME, 50, 0),
        (1_123_456_000, FRAME, 99, 1),
        (0, FRAME, 50, 0),
        (NS + 1, b"last", 4, 0),
    ]
    assert [i.linktype for i in capture.interfaces] == [1, 101]
    assert capture.notes == []


def test_a_simple_block_is_limited_by_the_snap_length() -> None:
    assert read(section() + interface(snaplen=5) + simple(b"12345", 99))[1] == [(0, b"12345", 99, 0)]


def test_the_old_packet_block() -> None:
    body = struct.pack("<HH4I", 0, 7, 0, 1_000_001, 4, 60) + b"abcd"
    assert read(section() + interface() + block(2, body))[1] == [(1_000_001_000, b"abcd", 60, 0)]


def test_binary_resolution_offset_and_name() -> None:
    options = option(2, b"eth0") + option(9, bytes([0x80 | 10])) + option(14, struct.pack("<q", 100)) + option(0, b"")
    capture, records = read(section() + interface(options=options) + enhanced(1024 + 512, b"x"))
    assert records[0].time_ns == 101_500_000_000
    assert capture.interfaces[0].name == "eth0"


def test_sections_number_their_own_interfaces_in_their_own_byte_order() -> None:
    raw = section() + interface(1) + enhanced(1, b"a")
    raw += section(">") + interface(101, order=">") + enhanced(2, b"b", order=">")
    capture, records = read(raw)
    assert records == [(1000, b"a", 1, 0), (2000, b"b", 1, 1)]
    assert [i.linktype for i in capture.interfaces] == [1, 101]


def test_no_packets() -> None:
    capture, records = read(section())
    assert (records, capture.linktype, capture.snaplen, capture.notes) == ([], -1, 0, [])


def test_go04_cut_packet() -> None:
    raw = section() + interface() + enhanced(1, FRAME) + enhanced(2, FRAME)
    capture, records = read(raw[:-46])
    assert len(records) == 1
    assert capture.notes == ["record 2 cut after 10 bytes; the file ends here"]


@pytest.mark.parametrize(
    ("tail", "count", "note"),
    [
        (enhanced(1, FRAME, wire=40), 1, "record 1 has 50 bytes of a packet of 40; trimmed to 40"),
        (
            enhanced(1, FRAME, index=3),
            0,
            "record 1 names interface 3, which its section does not describe; passed over",
        ),
        (
            enhanced(1, FRAME)[:-4] + bytes(4),
            1,
            "block at byte 48 begins with length 84 and ends with 0; reading ends there",
        ),
        (enhanced(1, FRAME)[:-2], 1, "block at byte 48 cut after 82 bytes; the file ends here"),
        (enhanced(1, FRAME)[:20], 0, "block at byte 48 cut after 20 bytes; the file ends here"),
        (block(6, bytes(8)), 0, "record 1 is a packet block of only 8 bytes; passed over"),
        (
            block(6, struct.pack("<5I", 0, 0, 1, 99, 99) + b"abcd"),
            1,
            "record 1 claims 99 bytes in a block for 4; trimmed to 4",
        ),
        (struct.pack("<II", 6, 13) + bytes(9), 0, "block at byte 48 has length 13; reading ends there"),
        (struct.pack("<II", 5, 0xFFFFFFF0) + bytes(9), 0, "block at byte 48 cut after 17 bytes; the file ends here"),
        (bytes(5), 0, "block at byte 48 cut inside its header; the file ends here"),
        (section()[:14], 0, "section at byte 48 cut inside its header; the file ends here"),
        (section(major=2), 0, "section at byte 48 has version 2, and only 1 is known; reading ends there"),
        (section()[:8] + bytes(20), 0, "section at byte 48 has no byte-order mark; reading ends there"),
        (block(1, b"abcd"), 0, "interface 1 has a cut description"),
        (enhanced(1, bytes(MAX_CAPTURED + 1)), 0, "record 1 claims 262145 bytes, more than any packet; passed over"),
    ],
)
def test_go04_damage_is_noted(tail, count, note) -> None:
    capture, records = read(section() + interface() + tail)
    assert (len(records), capture.notes) == (count, [note])


def test_times_out_of_range_are_moved() -> None:
    options = option(9, b"\x00") + option(0, b"")
    capture, records = read(section() + interface(options=options) + enhanced(2**64 - 1, b"x"))
    assert records[0].time_ns == MAX_TIME_NS
    assert "moved to the nearest" in capture.notes[0]


def test_reading_goes_on_behind_a_passed_over_packet() -> None:
    _, records = read(section() + interface() + enhanced(1, b"a", index=9) + enhanced(2, b"b"))
    assert [r.data for r in records] == [b"b"]


def test_a_file_that_is_no_section_is_refused() -> None:
    with pytest.raises(MezzoError, match="not a readable pcapng file: section at byte 0 has no byte-order mark"):
        read(section()[:8] + bytes(30))


def test_the_index_has_a_row_for_each_packet(tmp_path) -> None:
    path = tmp_path / "a.pcapng"
    raw = section() + interface(1, options=NANO) + interface(101)
    raw += enhanced(NS, FRAME) + enhanced(5, b"abc", wire=1, index=1) + simple(b"xyz", 3)
    path.write_bytes(raw)
    index = index_capture(path)
    assert not index.is_classic and index.nanosecond
    pieces = [raw[o : o + c] for o, c in zip(index.offset.tolist(), index.captured.tolist(), strict=True)]
    assert pieces == [FRAME, b"a", b"xyz"]
    assert index.time_ns.tolist() == [NS, 5000, 0]
    assert index.wire_length.tolist() == [50, 1, 3]
    assert index.linktypes.tolist() == [1, 101, 1]
    assert index.notes == ("record 2 has 3 bytes of a packet of 1; trimmed to 1",)
