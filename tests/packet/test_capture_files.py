"""Real captures: our reader against independent ones, packet for packet."""

import io
import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.utils import RawPcapNgReader, RawPcapReader

from mezzo.packet.capture import MAX_TIME_NS, open_capture
from mezzo.packet.capture_index import index_capture

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "captures"
FILES = sorted(FOLDER.glob("*.pcap*"))

pytestmark = pytest.mark.skipif(not FILES, reason=f"the sample captures are not in {FOLDER}")


def by_scapy(path: Path) -> list[tuple[int, bytes, int]]:
    reader = RawPcapReader(io.BytesIO(path.read_bytes()))
    if isinstance(reader, RawPcapNgReader):
        ticks = [(m.tshigh << 32 | m.tslow, m.tsresol, d, m.wirelen) for d, m in reader]
        return [(min(MAX_TIME_NS, t * 10**9 // per_second), d, length) for t, per_second, d, length in ticks]
    unit = 1 if reader.nano else 1000
    return [(m.sec * 10**9 + m.usec * unit, d, m.wirelen) for d, m in reader]


def by_tshark(path: Path) -> list[tuple[int, int, int]]:
    fields = ("frame.time_epoch", "frame.cap_len", "frame.len")
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *(w for f in fields for w in ("-e", f))]
    rows = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    return [(_ns(time), int(captured), int(length)) for time, captured, length in (row.split("\t") for row in rows)]


def _ns(text: str) -> int:
    seconds, _, fraction = text.partition(".")
    return min(MAX_TIME_NS, int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9] or 0))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_scapy_agrees(path) -> None:
    with open_capture(path) as capture:
        records = [(r.time_ns, r.data, r.wire_length) for r in capture.records()]
    # One file has packets from half a million years ahead.
    assert bool(capture.notes) == (path.name == "pcapng-example.pcapng")
    assert records == by_scapy(path)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_the_index_agrees(path) -> None:
    raw, index = path.read_bytes(), index_capture(path, rows=True)
    with open_capture(path) as capture:
        records = list(capture.records())
        kinds = [capture.interfaces[r.interface].linktype for r in records]
    pieces = [raw[o : o + c] for o, c in zip(index.offset.tolist(), index.captured.tolist(), strict=True)]
    assert pieces == [r.data for r in records]
    assert index.time_ns.tolist() == [r.time_ns for r in records]
    assert index.linktypes.tolist() == kinds


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize("path", [p for p in FILES if p.stat().st_size < 30_000], ids=lambda p: p.name)
def test_tshark_agrees(path) -> None:
    with open_capture(path) as capture:
        records = [(r.time_ns, len(r.data), r.wire_length) for r in capture.records()]
    assert records == by_tshark(path)
