"""Classic captures: the magics, damage, old versions."""

import io
import os
import struct

import pytest

from mezzo.base import MezzoError
from mezzo.packet.capture import MAX_CAPTURED, open_capture
from mezzo.packet.capture_index import index_capture

FRAME = bytes(range(50))
NS = 1_123_456_789


def header(order: str = "<", magic: int = 0xA1B2C3D4, minor: int = 4, snaplen: int = 65535, link: int = 1) -> bytes:
    return struct.pack(order + "IHHiIII", magic, 2, minor, 0, 0, snaplen, link)


def record(data: bytes, wire: int | None = None, captured: int | None = None, order: str = "<", frac: int = 0) -> bytes:
    lengths = (len(data) if captured is None else captured, len(data) if wire is None else wire)
    return struct.pack(order + "IIII", 1, frac, *lengths) + data


def read(raw: bytes):
    capture = open_capture(io.BytesIO(raw))
    return capture, list(capture.records())


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "frac", "want"), [(0xA1B2C3D4, 123456, 1_123_456_000), (0xA1B23C4D, 123456789, NS)])
def test_go01_four_classic_magics(order, magic, frac, want) -> None:
    capture, records = read(header(order, magic) + record(FRAME, order=order, frac=frac))
    assert records == [(want, FRAME, 50, 0)]
    assert capture.byte_order == {"<": "little", ">": "big"}[order]
    assert capture.nanosecond == (magic == 0xA1B23C4D)
    assert (capture.linktype, capture.snaplen, capture.notes) == (1, 65535, [])


def test_go04_second_record_cut() -> None:
    capture, records = read(header() + record(FRAME) + record(FRAME)[:26])
    assert [r.data for r in records] == [FRAME]
    assert capture.notes == ["record 2 cut after 10 bytes; the file ends here"]


def test_go04_cut_inside_a_record_header() -> None:
    capture, records = read(header() + record(FRAME) + b"\0" * 7)
    assert len(records) == 1
    assert capture.notes == ["record 2 cut inside its header; the file ends here"]


def test_go04_more_captured_than_the_packet_had() -> None:
    capture, records = read(header() + record(FRAME, wire=40) + record(b"next"))
    assert records[0].data == FRAME[:40] and records[0].wire_length == 40
    assert records[1].data == b"next"
    assert capture.notes == ["record 1 has 50 bytes of a packet of 40; trimmed to 40"]


def test_go06_nothing_at_all(tmp_path) -> None:
    path = tmp_path / "none.pcap"
    path.write_bytes(b"")
    with pytest.raises(MezzoError, match=r"none\.pcap` is empty"):
        open_capture(path)


def test_go06_header_only() -> None:
    capture, records = read(header())
    assert (records, capture.notes) == ([], [])


def test_an_absurd_length_takes_no_memory() -> None:
    capture, records = read(header(snaplen=0xFFFFFFFF) + record(FRAME) + record(b"", captured=0xFFFFFFF0))
    assert len(records) == 1
    assert capture.notes == ["record 2 claims 4294967280 bytes, more than any packet; reading ends there"]


def test_the_longest_packet_passes() -> None:
    _, records = read(header() + record(bytes(MAX_CAPTURED)))
    assert len(records[0].data) == MAX_CAPTURED


def test_wire_length_may_exceed() -> None:
    _, records = read(header(snaplen=50) + record(FRAME, wire=1500))
    assert (len(records[0].data), records[0].wire_length) == (50, 1500)


def test_modified_files_have_longer_record_headers() -> None:
    body = struct.pack("<IIII8x", 1, 5, 4, 60) + b"abcd"
    _, records = read(header(magic=0xA1B2CD34) + body * 2)
    assert records == [(1_000_005_000, b"abcd", 60, 0)] * 2


def test_before_2_3_the_lengths_are_swapped() -> None:
    body = struct.pack("<IIII", 1, 0, 60, 4) + b"abcd"
    assert read(header(minor=2) + body)[1][0] == (10**9, b"abcd", 60, 0)
    assert read(header(minor=3) + body)[1][0] == (10**9, b"abcd", 60, 0)
    assert read(header(minor=3) + record(b"abcd", wire=60))[1][0] == (10**9, b"abcd", 60, 0)


def test_check_sequence_bits_do_not_disturb_the_link_type() -> None:
    capture, _ = read(header(link=0x24000001))
    assert capture.linktype == 1
    assert capture.notes == ["frames end with a frame check sequence of 4 bytes"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (header()[:23], "is cut: it has 23 bytes"),
        (struct.pack("<IHH", 0xA1B2C3D4, 3, 0) + bytes(16), r"version 3\.0"),
        (b"\x1f\x8b\x08" + bytes(30), "compressed with gzip\nunpack it first: gunzip -k"),
        (b"BZh9", "compressed with bzip2"),
        (b"hello, world", "is not a capture file: it begins with 68 65 6c 6c"),
    ],
)
def test_what_cannot_be_read_is_refused(raw, says) -> None:
    with pytest.raises(MezzoError, match=says):
        read(raw)


def test_missing_files_and_folders(tmp_path) -> None:
    with pytest.raises(MezzoError, match=r"cannot read .*No such file"):
        open_capture(tmp_path / "none")
    with pytest.raises(MezzoError, match=r"cannot read .*directory"):
        open_capture(tmp_path)
    with pytest.raises(MezzoError, match="cannot read"):
        open_capture("a\0b")


def test_a_pipe_gives_bytes_in_pieces() -> None:
    raw = header() + b"".join(record(bytes([n]) * n) for n in range(100))

    class Drip(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return self.read(7)

    records = list(open_capture(Drip(raw)).records())
    assert [r.data for r in records] == [bytes([n]) * n for n in range(100)]


def test_a_live_pipe_gives_packets_as_they_come() -> None:
    reader, writer = os.pipe()
    with open(reader, "rb") as source, open(writer, "wb", buffering=0) as sink:
        sink.write(header() + record(FRAME))
        records = open_capture(source).records()
        assert next(records).data == FRAME
        sink.write(record(b"later"))
        assert next(records).data == b"later"


def test_notes_do_not_pile_up() -> None:
    capture, records = read(header() + record(FRAME, wire=1) * 1000)
    assert len(records) == 1000
    assert len(capture.notes) == 51 and capture.notes[-1] == "further damage is not listed"


def test_the_index_of_a_classic_file_is_its_header(tmp_path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(header(">", 0xA1B23C4D, link=101) + record(FRAME, order=">", frac=7) * 2)
    index = index_capture(path)
    assert (index.is_classic, index.byte_order, index.nanosecond, index.linktype, index.first_record) == (
        True, "big", True, 101, 24,
    )  # fmt: skip
    assert index.path == os.fspath(path) and len(index.offset) == 0
    rows = index_capture(path, rows=True)
    assert rows.offset.tolist() == [40, 106]
    assert rows.time_ns.tolist() == [1_000_000_007] * 2
    assert (rows.captured.tolist(), rows.linktypes.tolist()) == ([50, 50], [101, 101])


def test_old_files_get_rows(tmp_path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(header(minor=2) + struct.pack("<IIII", 1, 0, 60, 4) + b"abcd")
    index = index_capture(path)
    assert not index.is_classic
    assert (index.offset[0], index.captured[0], index.wire_length[0]) == (40, 4, 60)
