"""Classic capture files (pcap-savefile(5); draft-ietf-opsawg-pcap).

A header of 24 bytes, then records: a header of 16 bytes (seconds, fraction, captured length, original length) and the
captured bytes.  The magic number tells the byte order and whether fractions are micro- or nanoseconds.  Two old
habits are understood too: the "modified" files of early Linux patches, with 8 more bytes in each record header, and
versions before 2.4, some of whose writers had the two lengths the other way round.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mezzo.packet.capture import MAX_CAPTURED, Capture, Entry, Interface

HEADER_SIZE = 24


class Form(NamedTuple):
    """What a magic number says."""

    byte_order: str
    nanosecond: bool
    record_header: int


_PLAIN, _EXTENDED = 16, 24

MAGICS = {
    bytes.fromhex("a1b2c3d4"): Form("big", False, _PLAIN),
    bytes.fromhex("d4c3b2a1"): Form("little", False, _PLAIN),
    bytes.fromhex("a1b23c4d"): Form("big", True, _PLAIN),
    bytes.fromhex("4d3cb2a1"): Form("little", True, _PLAIN),
    bytes.fromhex("a1b2cd34"): Form("big", False, _EXTENDED),
    bytes.fromhex("34cdb2a1"): Form("little", False, _EXTENDED),
}


@dataclass
class PcapCapture(Capture):
    """A classic file; its header is read when it is opened."""

    record_header: int = _PLAIN
    minor: int = 4

    format = "pcap"

    def __post_init__(self) -> None:
        window = self.window
        if not window.has(HEADER_SIZE):
            raise self.refuse(f"is cut: it has {window.left} bytes, and a capture header has {HEADER_SIZE}")
        self.byte_order, self.nanosecond, self.record_header = MAGICS[window.buffer[:4]]
        order = "<" if self.byte_order == "little" else ">"
        major, self.minor, snaplen, link = struct.unpack_from(order + "HH8xII", window.buffer, 4)
        if major != 2:
            raise self.refuse(f"is a capture of version {major}.{self.minor}; versions 2.0 to 2.4 can be read")
        # The upper bits may tell the length of a frame check sequence, in 16-bit units.
        if link & 0x04000000:
            self.note(f"frames end with a frame check sequence of {(link >> 28) * 2} bytes")
        self.interfaces.append(Interface(link & 0xFFFF, snaplen, 10**9 if self.nanosecond else 10**6))
        window.at = HEADER_SIZE

    @property
    def is_plain(self) -> bool:
        """Whether every record is a header of 16 bytes with its lengths in the usual order."""
        return self.record_header == _PLAIN and self.minor >= 4

    def entries(self) -> Iterator[Entry]:
        window, size, number = self.window, self.record_header, 0
        is_plain = self.is_plain
        unpack = struct.Struct(("<" if self.byte_order == "little" else ">") + "IIII").unpack_from
        unit_ns = 1 if self.nanosecond else 1000
        while window.has(size):
            number += 1
            seconds, fraction, captured, wire_length = unpack(window.buffer, window.at)
            if not is_plain:
                captured, wire_length = self._old_lengths(captured, wire_length)
            if captured > MAX_CAPTURED:
                self.note(f"record {number} claims {captured} bytes, more than any packet; reading ends there")
                return
            window.at += size
            if not window.has(captured):
                self.note(f"record {number} cut after {window.left} bytes; the file ends here")
                return
            kept = captured if captured <= wire_length else self.fitting(number, captured, wire_length)
            yield Entry(seconds * 10**9 + fraction * unit_ns, window.at, kept, wire_length, 0)
            window.at += captured
        if window.left:
            self.note(f"record {number + 1} cut inside its header; the file ends here")

    def _old_lengths(self, captured: int, wire_length: int) -> tuple[int, int]:
        # libpcap: before 2.3 always the other way round, in 2.3 depending on the writer.
        swapped = self.minor < 3 or (self.minor == 3 and captured > wire_length)
        return (wire_length, captured) if swapped else (captured, wire_length)
