"""Any bytes: reading ends, in bounded memory, with packets and notes or with a MezzoError."""

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.base import MezzoError
from mezzo.packet.capture import MAX_CAPTURED, MAX_TIME_NS, open_capture
from mezzo.packet.capture_write import CaptureWriter


def sample(format: str) -> bytes:
    file = io.BytesIO()
    with CaptureWriter(file, format=format, nanosecond=True) as out:
        for n in range(12):
            out.write(10**18 + n, bytes([n]) * (n * 5))
    return file.getvalue()


def check(raw: bytes) -> int:
    """Read everything that can be read; the number of packets."""
    try:
        capture = open_capture(io.BytesIO(raw))
    except MezzoError as error:
        assert str(error)
        return 0
    count = 0
    for record in capture.records():
        count += 1
        assert len(record.data) <= min(MAX_CAPTURED, record.wire_length)
        assert 0 <= record.time_ns <= MAX_TIME_NS
        assert record.interface < len(capture.interfaces)
    # Every packet came from bytes of the file.
    assert count <= len(raw)
    return count


@pytest.mark.parametrize("format", ["pcap", "pcapng"])
def test_cut_anywhere(format) -> None:
    raw = sample(format)
    counts = [check(raw[:n]) for n in range(len(raw) + 1)]
    assert counts[-1] == 12 and counts == sorted(counts)


@pytest.mark.parametrize("format", ["pcap", "pcapng"])
def test_bytes_changed(format) -> None:
    chance, raw = random.Random(1), sample(format)
    for _ in range(1500):
        broken = bytearray(raw)
        for _ in range(chance.randint(1, 6)):
            broken[chance.randrange(len(broken))] = chance.choice((0, 1, 6, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        check(bytes(broken))


MAGICS = [
    bytes.fromhex(m) for m in ("a1b2c3d4", "d4c3b2a1", "4d3cb2a1", "34cdb2a1", "0a0d0d0a1c0000004d3c2b1a01000000")
]


@given(st.sampled_from(MAGICS), st.binary(max_size=200))
@settings(max_examples=300)
def test_anything_behind_a_magic(magic, tail) -> None:
    check(magic + tail)
