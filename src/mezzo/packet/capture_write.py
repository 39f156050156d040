"""Writing capture files.

    with CaptureWriter("out.pcap", linktype=1, nanosecond=True) as out:
        out.write(time_ns, frame)

The header is written at once, so a file without packets is a valid capture.  The magic number and the fractions always
agree: with `nanosecond` off, times are cut to microseconds.  Files are little-endian, whatever the machine.
"""

from __future__ import annotations

import os
import struct
from typing import BinaryIO

from mezzo.base import Diagnostic, MezzoError
from mezzo.packet.capture import MAX_CAPTURED

_NANO_MAGIC, _MICRO_MAGIC = 0xA1B23C4D, 0xA1B2C3D4
_FORMATS = ("pcap", "pcapng")


def pcap_header(linktype: int, snaplen: int, nanosecond: bool) -> bytes:
    """The 24 bytes that begin a classic capture."""
    return struct.pack("<IHHiIII", _NANO_MAGIC if nanosecond else _MICRO_MAGIC, 2, 4, 0, 0, snaplen, linktype)


def pcapng_header(linktype: int, snaplen: int, nanosecond: bool) -> bytes:
    """A section header and the description of interface 0."""
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    resolution = struct.pack("<HHB3xHH", 9, 1, 9 if nanosecond else 6, 0, 0)
    return section + struct.pack("<IIHHI", 1, 32, linktype, 0, snaplen) + resolution + struct.pack("<I", 32)


class CaptureWriter:
    """An open capture; `count` packets have been written."""

    def __init__(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        linktype: int = 1,
        snaplen: int = MAX_CAPTURED,
        nanosecond: bool = False,
        format: str = "pcap",
    ) -> None:
        if format not in _FORMATS:
            raise MezzoError(Diagnostic(f"`{format}` is not a capture format", hint="write pcap or pcapng"))
        if not (0 <= linktype <= 0xFFFF and 0 < snaplen <= 0xFFFFFFFF):
            raise MezzoError(f"link type {linktype} or snap length {snaplen} is out of range")
        self.name = str(getattr(target, "name", target))
        self.owned = isinstance(target, str | os.PathLike)
        self.snaplen, self.nanosecond, self.format, self.count = snaplen, nanosecond, format, 0
        self._file = _open(target) if isinstance(target, str | os.PathLike) else target
        header = pcap_header if format == "pcap" else pcapng_header
        self._file.write(header(linktype, snaplen, nanosecond))

    def write(self, time_ns: int, data: bytes, wire_length: int | None = None) -> None:
        """Add a packet; `wire_length` is its length if `data` is only its beginning."""
        wire_length = len(data) if wire_length is None else wire_length
        data = bytes(data[: self.snaplen])
        head = self._plain if self.format == "pcap" else self._block
        self._file.write(head(time_ns, data, max(wire_length, len(data))))
        self.count += 1

    def _plain(self, time_ns: int, data: bytes, wire_length: int) -> bytes:
        seconds, rest_ns = divmod(time_ns, 10**9)
        if not 0 <= seconds <= 0xFFFFFFFF:
            raise self._late(time_ns, "pcap files end in 2106; write pcapng")
        fraction = rest_ns if self.nanosecond else rest_ns // 1000
        return struct.pack("<IIII", seconds, fraction, len(data), wire_length) + data

    def _block(self, time_ns: int, data: bytes, wire_length: int) -> bytes:
        ticks = time_ns if self.nanosecond else time_ns // 1000
        if not 0 <= ticks < 2**64:
            raise self._late(time_ns, "times begin in 1970")
        length = 32 + (len(data) + 3) // 4 * 4
        head = struct.pack("<IIIIIII", 6, length, 0, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire_length)
        return head + data + bytes(-len(data) % 4) + struct.pack("<I", length)

    def _late(self, time_ns: int, hint: str) -> MezzoError:
        return MezzoError(Diagnostic(f"a packet's time, {time_ns} ns, does not fit `{self.name}`", hint=hint))

    def flush(self) -> None:
        """Hand everything written so far to the file."""
        self._file.flush()

    def close(self) -> None:
        """Flush, and close the file if the writer opened it."""
        if self.owned:
            self._file.close()
        else:
            self._file.flush()

    def __enter__(self) -> CaptureWriter:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    try:
        return open(path, "wb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise MezzoError(f"cannot write `{os.fspath(path)}`: {reason}") from None
