"""Reading capture files: pcap and pcapng, whole or damaged.

    with open_capture("trace.pcap") as capture:
        for record in capture.records():
            ...                      # record.time_ns, record.data, record.wire_length, record.interface

Rules.
* A file that cannot be read at all (missing, empty, compressed, of another kind) is a `MezzoError`.
* Damage further on ends the reading cleanly, or mends the record, and says so in `capture.notes`.
* A record never has more bytes than the packet had: the excess is trimmed.
* Times are whole nanoseconds since 1970, never floats; packets without a time (pcapng's simple blocks) have 0.
* A length in the file never decides how much memory is used; `MAX_CAPTURED` does.
* In pcapng each packet has an interface, with its own link type: `capture.interfaces[record.interface]`.
  Interfaces are numbered through all sections.  Classic files have interface 0.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from mezzo.base import Diagnostic, MezzoError

MAX_CAPTURED = 262144  # libpcap's MAXIMUM_SNAPLEN; a record that claims more is damage
MAX_TIME_NS = 2**63 - 1
_MAX_NOTES = 50
_CHUNK = 1 << 20

_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip -k"),
    b"BZh": ("bzip2", "bunzip2 -k"),
    b"\xfd7zXZ": ("xz", "unxz -k"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"\x04\x22\x4d\x18": ("lz4", "unlz4"),
}


class Record(NamedTuple):
    """One captured packet: `data` may be shorter than the packet was, whose length is `wire_length`."""

    time_ns: int
    data: bytes
    wire_length: int
    interface: int


class Entry(NamedTuple):
    """A record before its bytes are copied: `start` is its place in the window's buffer."""

    time_ns: int
    start: int
    captured: int
    wire_length: int
    interface: int


@dataclass(frozen=True, slots=True)
class Interface:
    """Where packets were captured.  A time is `ticks * 10**9 // ticks_per_second + offset_s * 10**9`."""

    linktype: int
    snaplen: int
    ticks_per_second: int = 10**6
    offset_s: int = 0
    name: str = ""

    def time_ns(self, ticks: int) -> int:
        """Ticks since 1970, as pcapng counts them, in nanoseconds."""
        return ticks * 10**9 // self.ticks_per_second + self.offset_s * 10**9


class Window:
    """A moving window on a file: `buffer` holds the bytes from `base` on, and `at` is where the reader stands in it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        # A buffered pipe's `read` waits for all it was asked for; `read1` gives a live capture's packets as they come.
        self.read: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self.buffer = b""
        self.base = 0
        self.at = 0

    @property
    def position(self) -> int:
        """Where the reader stands in the file."""
        return self.base + self.at

    @property
    def left(self) -> int:
        """How many bytes are in the buffer."""
        return len(self.buffer) - self.at

    def has(self, count: int) -> bool:
        """Make `count` bytes available at `buffer[at:]`; False if the file ends before."""
        if len(self.buffer) - self.at >= count:
            return True
        pieces, have = [self.buffer[self.at :]], self.left
        self.base, self.at = self.base + self.at, 0
        # Less than asked for is not the end; only an empty answer is.
        while have < count and (piece := self.read(_CHUNK)):
            pieces.append(piece)
            have += len(piece)
        self.buffer = b"".join(pieces)
        return have >= count

    def skip(self, count: int) -> bool:
        """Step over `count` bytes without keeping them; False if the file ends before."""
        while count > self.left:
            count -= self.left
            self.at = len(self.buffer)
            if not self.has(1):
                return False
        self.at += count
        return True


@dataclass
class Capture:
    """An open capture file.  A form's reader fills the description in and implements `entries`."""

    name: str
    window: Window
    byte_order: str = "little"
    nanosecond: bool = False
    interfaces: list[Interface] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    owned: bool = False

    format = ""

    @property
    def linktype(self) -> int:
        """The link type of the first interface; -1 if the file describes none."""
        return self.interfaces[0].linktype if self.interfaces else -1

    @property
    def snaplen(self) -> int:
        """The snap length of the first interface; 0 if there is no limit."""
        return self.interfaces[0].snaplen if self.interfaces else 0

    def entries(self) -> Iterator[Entry]:
        """Every record that can be read, without its bytes."""
        raise NotImplementedError

    def records(self) -> Iterator[Record]:
        """Every packet that can be read, in file order; can be walked once."""
        window = self.window
        for time_ns, start, captured, wire_length, interface in self.entries():
            yield Record(time_ns, window.buffer[start : start + captured], wire_length, interface)

    def note(self, text: str) -> None:
        """Remember damage; a hopeless file does not fill the memory with notes."""
        if len(self.notes) < _MAX_NOTES:
            self.notes.append(text)
        elif len(self.notes) == _MAX_NOTES:
            self.notes.append("further damage is not listed")

    def refuse(self, what: str, hint: str = "") -> MezzoError:
        """The error for a file that cannot be read at all."""
        return MezzoError(Diagnostic(f"`{self.name}` {what}", hint=hint))

    def fitting(self, number: int, captured: int, wire_length: int) -> int:
        """How many of the captured bytes belong to the packet."""
        if captured <= wire_length:
            return captured
        self.note(f"record {number} has {captured} bytes of a packet of {wire_length}; trimmed to {wire_length}")
        return wire_length

    def clamped(self, number: int, time_ns: int) -> int:
        """A time that fits 63 bits, which is what the rest of mezzo counts with."""
        if 0 <= time_ns <= MAX_TIME_NS:
            return time_ns
        self.note(f"record {number} has a time outside the years 1970 to 2262; moved to the nearest")
        return 0 if time_ns < 0 else MAX_TIME_NS

    def close(self) -> None:
        """Close the file, if this capture opened it."""
        if self.owned:
            self.window.file.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def open_capture(source: str | os.PathLike[str] | BinaryIO) -> Capture:
    """Open a capture by path, or read it from an open binary file such as a pipe."""
    if not isinstance(source, str | os.PathLike):
        return _recognise(str(getattr(source, "name", "capture")), source)
    name = os.fspath(source)
    try:
        file = open(name, "rb")  # noqa: SIM115 (the capture closes it)
    except (OSError, ValueError) as error:
        raise MezzoError(f"cannot read `{name}`: {getattr(error, 'strerror', None) or error}") from None
    try:
        capture = _recognise(name, file)
    except BaseException:
        file.close()
        raise
    capture.owned = True
    return capture


def _recognise(name: str, file: BinaryIO) -> Capture:
    # The two forms know this module, so it meets them only here.
    from mezzo.packet.capture_pcap import MAGICS, PcapCapture
    from mezzo.packet.capture_pcapng import SECTION_MAGIC, PcapngCapture

    window = Window(file)
    plain = Capture(name, window)
    try:
        window.has(24)
    except OSError as error:
        raise MezzoError(f"cannot read `{name}`: {error.strerror}") from None
    start = window.buffer[:4]
    if not start:
        raise plain.refuse(
            "is empty", "a capture without packets still has a header; was the writer stopped too early?"
        )
    for magic, (kind, command) in _COMPRESSED.items():
        if window.buffer.startswith(magic):
            raise plain.refuse(f"is compressed with {kind}", f"unpack it first: {command} {name}")
    if start == SECTION_MAGIC:
        return PcapngCapture(name, window)
    if start in MAGICS:
        return PcapCapture(name, window)
    raise plain.refuse(f"is not a capture file: it begins with {start.hex(' ')}", "pcap and pcapng files can be read")
