"""pcapng with interfaces and comments: read back by our own reader, and by tshark where it is."""

from __future__ import annotations

import io
import shutil
import subprocess

import pytest

from mezzo.packet.capture import open_capture
from mezzo.packet.capture_notes import ETHERNET, RAW_IP, NotesWriter

IP = bytes.fromhex("4500001c00000000401166ce0a0000010a0000020035003600080000")
AT = 1_700_000_000_123_456_789


def written() -> bytes:
    file = io.BytesIO()
    out = NotesWriter(file, "about the file")
    a, b = out.interface("q", RAW_IP), out.interface("ïn/eth", ETHERNET)
    assert out.interface("q", RAW_IP) == a != b
    out.packet(a, AT, IP, comment="step 1; ip.ttl 64 → 63")
    out.packet(b, AT + 1, bytes(12) + b"\x08\x00" + IP[:9], length=42)
    assert out.count == 2
    return file.getvalue()


def test_our_reader_reads_it():
    with open_capture(io.BytesIO(written())) as capture:
        found = list(capture.records())
        assert not capture.notes and [i.linktype for i in capture.interfaces] == [RAW_IP, ETHERNET]
    assert [(r.time_ns, bytes(r.data)) for r in found] == [(AT, IP), (AT + 1, bytes(12) + b"\x08\x00" + IP[:9])]
    assert found[1].wire_length == 42


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tshark") is None, reason="there is no tshark here")
def test_tshark_reads_it(tmp_path):
    file = tmp_path / "x.pcapng"
    file.write_bytes(written())
    words = ["tshark", "-r", str(file), "-T", "fields", "-e", "frame.interface_name", "-e", "frame.comment"]
    words += ["-e", "frame.time_epoch", "-e", "frame.len"]
    rows = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert rows[0].split("\t") == ["q", "step 1; ip.ttl 64 → 63", "1700000000.123456789", "28"]
    assert rows[1].split("\t")[0] == "ïn/eth" and rows[1].split("\t")[3] == "42"
