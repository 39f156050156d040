"""pcapng with several interfaces and with comments (draft-ietf-opsawg-pcapng): for traces of a graph.

Each place where packets were seen is an interface, described when it first comes up; a packet's comment says what
happened there.  Little-endian, times in nanoseconds.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

ETHERNET, RAW_IP = 1, 101
_COMMENT, _NAME, _RESOLUTION = 1, 2, 9
_LONGEST = 0xFFFC  # of an option


def block(kind: int, body: bytes) -> bytes:
    """A block: type, length, body, length."""
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def option(code: int, value: bytes) -> bytes:
    value = value[:_LONGEST]
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


_END = struct.pack("<HH", 0, 0)


class NotesWriter:
    """Writes to an open file; whoever opened it closes it."""

    def __init__(self, file: BinaryIO, comment: str = "") -> None:
        self.file, self.count = file, 0
        self._interfaces: dict[tuple[str, int], int] = {}
        said = option(_COMMENT, comment.encode()) + _END if comment else b""
        file.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + said))

    def interface(self, name: str, linktype: int) -> int:
        """The number of an interface; a new one is described."""
        key = (name, linktype)
        if key not in self._interfaces:
            options = option(_NAME, name.encode("utf-8", "replace")) + option(_RESOLUTION, b"\x09") + _END
            self.file.write(block(1, struct.pack("<HHI", linktype, 0, 0) + options))
            self._interfaces[key] = len(self._interfaces)
        return self._interfaces[key]

    def packet(self, interface: int, time_ns: int, data: bytes, length: int = 0, comment: str = "") -> None:
        """`length`: that of the packet, where `data` is only its beginning."""
        head = struct.pack("<IIIII", interface, time_ns >> 32, time_ns & 0xFFFF_FFFF, len(data), max(length, len(data)))
        note = option(_COMMENT, comment.encode("utf-8", "replace")) + _END if comment else b""
        self.file.write(block(6, head + data + bytes(-len(data) % 4) + note))
        self.count += 1
