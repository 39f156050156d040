"""Writing captures: our reader and scapy's must find what was written."""

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader, RawPcapReader

from mezzo.base import MezzoError
from mezzo.packet.capture import open_capture
from mezzo.packet.capture_write import CaptureWriter

NS = 1_123_456_789
FRAMES = [bytes([n % 256]) * n for n in (0, 1, 2, 3, 4, 60, 1514)]


class Kept(io.BytesIO):
    """A file that outlives its writer."""


def written(packets, **options) -> bytes:
    file = Kept()
    with CaptureWriter(file, **options) as out:
        for packet in packets:
            out.write(*packet)
    return file.getvalue()


@pytest.mark.parametrize("format", ["pcap", "pcapng"])
@pytest.mark.parametrize(("nanosecond", "unit"), [(True, 1), (False, 1000)])
def test_go07_the_unit_is_the_users_choice(format, nanosecond, unit) -> None:
    raw = written([(NS, b"abc")], nanosecond=nanosecond, format=format)
    capture = open_capture(io.BytesIO(raw))
    assert [r.time_ns for r in capture.records()] == [NS // unit * unit]
    assert (capture.nanosecond, capture.format) == (nanosecond, format)


def test_go06_no_packets_is_a_valid_file(tmp_path) -> None:
    CaptureWriter(tmp_path / "a.pcap").close()
    assert (tmp_path / "a.pcap").stat().st_size == 24
    assert list(open_capture(tmp_path / "a.pcap").records()) == []


def test_microseconds_are_the_default() -> None:
    assert written([])[:4] == bytes.fromhex("d4c3b2a1")
    assert written([], nanosecond=True)[:4] == bytes.fromhex("4d3cb2a1")


def test_scapy_reads_pcap() -> None:
    raw = written([(NS, f) for f in FRAMES], linktype=101, nanosecond=True)
    reader = RawPcapReader(io.BytesIO(raw))
    assert reader.linktype == 101
    got = [(meta.sec * 10**9 + meta.usec, data) for data, meta in reader]
    assert got == [(NS, f) for f in FRAMES]


def test_scapy_reads_pcapng() -> None:
    raw = written([(NS, f) for f in FRAMES if f], nanosecond=True, format="pcapng")
    got = [(m.tshigh << 32 | m.tslow, data, m.wirelen) for data, m in RawPcapNgReader(io.BytesIO(raw))]
    assert got == [(NS, f, len(f)) for f in FRAMES if f]


@pytest.mark.parametrize("format", ["pcap", "pcapng"])
def test_snap_length_cuts_data_and_keeps_the_wire_length(format) -> None:
    raw = written([(0, b"123456"), (0, b"12", 99)], snaplen=4, format=format)
    got = [(r.data, r.wire_length) for r in open_capture(io.BytesIO(raw)).records()]
    assert got == [(b"1234", 6), (b"12", 99)]


def test_what_cannot_be_written_is_refused(tmp_path) -> None:
    with pytest.raises(MezzoError, match="`erf` is not a capture format\nwrite pcap or pcapng"):
        CaptureWriter(tmp_path / "a", format="erf")
    with pytest.raises(MezzoError, match=r"cannot write .*No such file"):
        CaptureWriter(tmp_path / "none" / "a")
    with pytest.raises(MezzoError, match="out of range"):
        CaptureWriter(tmp_path / "a", linktype=1 << 16)
    with pytest.raises(MezzoError, match="pcap files end in 2106"):
        CaptureWriter(io.BytesIO()).write(2**32 * 10**9, b"")
    with pytest.raises(MezzoError, match="times begin in 1970"):
        CaptureWriter(io.BytesIO(), format="pcapng").write(-1, b"")


def test_a_path_is_closed_and_counted(tmp_path: Path) -> None:
    with CaptureWriter(str(tmp_path / "a.pcap")) as out:
        out.write(0, b"x")
        out.flush()
        assert out.count == 1 and len(list(open_capture(tmp_path / "a.pcap").records())) == 1


@given(
    st.lists(st.tuples(st.integers(0, 2**32 * 10**9 - 1), st.binary(max_size=80))), st.sampled_from(["pcap", "pcapng"])
)
@settings(max_examples=60)
def test_what_is_written_is_read(packets, format) -> None:
    raw = written(packets, nanosecond=True, format=format)
    capture = open_capture(io.BytesIO(raw))
    assert [(r.time_ns, r.data) for r in capture.records()] == packets
    assert capture.notes == []
