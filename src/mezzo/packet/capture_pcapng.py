"""pcapng files (draft-ietf-opsawg-pcapng).

A file is a row of blocks: type, length, body, length again.  A section header block opens a section and tells its byte
order; interface description blocks number the section's interfaces and give each its link type, time resolution
and offset; packet blocks of three kinds refer to them.  Any other block is stepped over by its length.
Packets of a section that describes no such interface are stepped over with a note.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from mezzo.packet.capture import MAX_CAPTURED, MAX_TIME_NS, Capture, Entry, Interface

SECTION_MAGIC = bytes.fromhex("0a0d0d0a")  # reads the same in both byte orders

_SECTION, _INTERFACE, _OLD_PACKET, _SIMPLE, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
_ORDERS = {bytes.fromhex("4d3c2b1a"): "<", bytes.fromhex("1a2b3c4d"): ">"}

_OPT_END, _OPT_NAME, _OPT_TSRESOL, _OPT_TSOFFSET = 0, 2, 9, 14

_SMALL = 1 << 16  # options of a description that are worth reading
_PACKET_HEADER = 20  # enhanced and old packet blocks, after type and length


@dataclass
class PcapngCapture(Capture):
    """A pcapng file; opening it reads up to the first packet, so that the first interfaces are known."""

    format = "pcapng"

    def __post_init__(self) -> None:
        self._order = ""
        self._base = 0  # number of the section's first interface
        self._count = 0
        self._cut = False  # a packet ended too early, and that has been noted
        self._walk = self._blocks()
        self._first = next(self._walk, None)
        if not self._order:
            raise self.refuse("is not a readable pcapng file: " + "; ".join(self.notes))
        if self.interfaces:
            self.nanosecond = self.interfaces[0].ticks_per_second > 10**6

    def entries(self) -> Iterator[Entry]:
        first, self._first = self._first, None
        if first is not None:
            # The window still stands on this packet: the walk goes on only when asked.
            yield first
        yield from self._walk

    def _blocks(self) -> Iterator[Entry]:
        window = self.window
        while True:
            yield from self._sound_packets()
            if not window.has(12):
                break
            start = window.position
            if window.buffer.startswith(SECTION_MAGIC, window.at) and not self._open_section():
                return
            kind, length = struct.unpack_from(self._order + "II", window.buffer, window.at)
            if length < 12 or length % 4:
                self.note(f"block at byte {start} has length {length}; reading ends there")
                return
            entry = self._block(kind, length - 12)
            if entry is not None:
                yield entry
            if not self._step(start, length):
                return
        if window.left:
            self.note(f"block at byte {window.position} cut inside its header; the file ends here")

    def _sound_packets(self) -> Iterator[Entry]:
        """The next enhanced packet blocks as long as nothing is unusual about them; this is where the time goes."""
        window, base, known = self.window, self._base, self.interfaces[self._base :]
        unpack = struct.Struct((self._order or "<") + "7I").unpack_from
        unpack_length = struct.Struct((self._order or "<") + "I").unpack_from
        while known and window.has(32):
            kind, length, index, high, low, captured, wire_length = unpack(window.buffer, window.at)
            if kind != _ENHANCED or length % 4 or not captured + 32 <= length <= MAX_CAPTURED or not window.has(length):
                return
            if index >= len(known) or captured > wire_length:
                return
            time_ns = known[index].time_ns(high << 32 | low)
            if time_ns > MAX_TIME_NS or time_ns < 0:
                return
            if unpack_length(window.buffer, window.at + length - 4)[0] != length:
                return
            self._count += 1
            yield Entry(time_ns, window.at + 28, captured, wire_length, base + index)
            window.at += length

    def _step(self, start: int, length: int) -> bool:
        """Go to the block's second length and compare it, then past it."""
        window = self.window
        if not window.skip(start + length - 4 - window.position) or not window.has(4):
            if not self._cut:
                self.note(
                    f"block at byte {start} cut after {window.position + window.left - start} bytes; the file ends here"
                )
            return False
        (again,) = struct.unpack_from(self._order + "I", window.buffer, window.at)
        window.at += 4
        if again != length:
            self.note(f"block at byte {start} begins with length {length} and ends with {again}; reading ends there")
        return bool(again == length)

    def _open_section(self) -> bool:
        window = self.window
        where = f"section at byte {window.position}"
        if not window.has(16):
            self.note(f"{where} cut inside its header; the file ends here")
            return False
        order = _ORDERS.get(window.buffer[window.at + 8 : window.at + 12])
        if order is None:
            self.note(f"{where} has no byte-order mark; reading ends there")
            return False
        (major,) = struct.unpack_from(order + "H", window.buffer, window.at + 12)
        if major != 1:
            self.note(f"{where} has version {major}, and only 1 is known; reading ends there")
            return False
        if not self._order:
            self.byte_order = "little" if order == "<" else "big"
        self._order, self._base = order, len(self.interfaces)
        return True

    def _block(self, kind: int, body: int) -> Entry | None:
        """Read a block's body as far as it matters; the window stays where the block begins or inside it."""
        if kind == _INTERFACE:
            self._describe(body)
        elif kind in (_ENHANCED, _OLD_PACKET):
            return self._packet(kind, body)
        elif kind == _SIMPLE:
            return self._simple(body)
        return None

    def _describe(self, body: int) -> None:
        window, size = self.window, min(body, _SMALL)
        if size < 8 or not window.has(8 + size):
            self.note(f"interface {len(self.interfaces)} has a cut description")
            return
        link, snaplen = struct.unpack_from(self._order + "HxxI", window.buffer, window.at + 8)
        options = self._options(window.buffer[window.at + 16 : window.at + 8 + size])
        resolution = options.get(_OPT_TSRESOL, b"\x06")[:1] or b"\x06"
        offset = options.get(_OPT_TSOFFSET, b"")
        offset_s = struct.unpack(self._order + "q", offset)[0] if len(offset) == 8 else 0
        name = options.get(_OPT_NAME, b"").decode("utf-8", "replace").rstrip("\0")
        power = resolution[0] & 0x7F
        ticks = 2**power if resolution[0] & 0x80 else 10**power
        self.interfaces.append(Interface(link, snaplen, ticks, offset_s, name))

    def _options(self, data: bytes) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        at = 0
        while at + 4 <= len(data):
            code, length = struct.unpack_from(self._order + "HH", data, at)
            if code == _OPT_END:
                break
            found.setdefault(code, data[at + 4 : at + 4 + length])
            at += 4 + (length + 3) // 4 * 4
        return found

    def _packet(self, kind: int, body: int) -> Entry | None:
        window, number = self.window, self._count + 1
        if body < _PACKET_HEADER:
            self.note(f"record {number} is a packet block of only {body} bytes; passed over")
            return None
        if not window.has(8 + _PACKET_HEADER):
            return None
        fields = self._order + ("5I" if kind == _ENHANCED else "Hxx4I")
        index, high, low, captured, wire_length = struct.unpack_from(fields, window.buffer, window.at + 8)
        window.at += 8 + _PACKET_HEADER
        interface = self._interface(number, index)
        if interface is None:
            return None
        time_ns = interface.time_ns(high << 32 | low)
        return self._entry(time_ns, captured, wire_length, body - _PACKET_HEADER, self._base + index)

    def _simple(self, body: int) -> Entry | None:
        window, number = self.window, self._count + 1
        interface = self._interface(number, 0)
        if interface is None or body < 4 or not window.has(12):
            return None
        (wire_length,) = struct.unpack_from(self._order + "I", window.buffer, window.at + 8)
        window.at += 12
        # It has no captured length: the snap length and the block's own tell (section 4.4).
        captured = min(wire_length, body - 4, interface.snaplen or wire_length)
        return self._entry(0, captured, wire_length, body - 4, self._base)

    def _interface(self, number: int, index: int) -> Interface | None:
        if self._base + index < len(self.interfaces):
            return self.interfaces[self._base + index]
        self._count = number
        self.note(f"record {number} names interface {index}, which its section does not describe; passed over")
        return None

    def _entry(self, time_ns: int, captured: int, wire_length: int, room: int, interface: int) -> Entry | None:
        self._count += 1
        window, number = self.window, self._count
        if captured > room:
            self.note(f"record {number} claims {captured} bytes in a block for {room}; trimmed to {room}")
            captured = room
        if captured > MAX_CAPTURED:
            self.note(f"record {number} claims {captured} bytes, more than any packet; passed over")
            return None
        if not window.has(captured):
            self._cut = True
            self.note(f"record {number} cut after {window.left} bytes; the file ends here")
            return None
        kept = captured if captured <= wire_length else self.fitting(number, captured, wire_length)
        return Entry(self.clamped(number, time_ns), window.at, kept, wire_length, interface)
