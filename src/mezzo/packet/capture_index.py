"""Where the packets of a capture file are, for code that maps the file into memory.

A classic file needs no table: with its byte order, its unit of time and the place of the first record, native code
walks it by itself (`is_classic`).  It must follow the rules of `capture`: stop at a record that is cut or claims more
than `MAX_CAPTURED` bytes, and trim what exceeds the original length.  Other files get one row for each packet, with
those rules already applied.
"""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass, field

from mezzo.packet.capture import open_capture
from mezzo.packet.capture_pcap import HEADER_SIZE, PcapCapture


def _empty() -> array[int]:
    return array("Q")


@dataclass(frozen=True)
class CaptureIndex:
    """Description of a file, and unless it is classic, a row for each packet: five arrays of u64."""

    path: str
    is_classic: bool
    byte_order: str
    nanosecond: bool
    linktype: int
    snaplen: int
    first_record: int = HEADER_SIZE
    offset: array[int] = field(default_factory=_empty)
    captured: array[int] = field(default_factory=_empty)
    wire_length: array[int] = field(default_factory=_empty)
    time_ns: array[int] = field(default_factory=_empty)
    linktypes: array[int] = field(default_factory=_empty)
    notes: tuple[str, ...] = ()


def index_capture(path: str | os.PathLike[str], rows: bool = False) -> CaptureIndex:
    """Describe a capture file; `rows` asks for the table even where the file is classic."""
    with open_capture(path) as capture:
        is_classic = isinstance(capture, PcapCapture) and capture.is_plain
        flat = array("Q")
        if rows or not is_classic:
            window = capture.window
            for time_ns, start, captured, wire_length, interface in capture.entries():
                flat.extend((window.base + start, captured, wire_length, time_ns, interface))
        kinds = [i.linktype for i in capture.interfaces]
        return CaptureIndex(
            path=os.fspath(path),
            is_classic=is_classic,
            byte_order=capture.byte_order,
            nanosecond=capture.nanosecond,
            linktype=capture.linktype,
            snaplen=capture.snaplen,
            offset=flat[0::5],
            captured=flat[1::5],
            wire_length=flat[2::5],
            time_ns=flat[3::5],
            linktypes=array("Q", [kinds[interface] for interface in flat[4::5]]),
            notes=tuple(capture.notes),
        )
