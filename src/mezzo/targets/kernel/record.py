"""The record that goes with a packet from level to level, in the metadata area in front of its first byte.

It is what an arena's metadata line holds, with the packet's ends in other words:

    0 way u16      where the packet goes, the number of an entry or an exit
    2 gate u16     that is up because of it, 0 without (see gates.py)
    4 front u16    where the first byte of memory that the packet has is
    6 data u16     where its data begins; both from the start of an arena's frame
    8 …            as in the arena: marks, packet type, timestamp, 48 bytes of annotations

so a level that has an arena copies all from byte 8 on as it is.  A packet from the wire has no record: its marks are
unset, its annotations zero, and its data begins at HEADROOM, where the arena's would.

What comes to a raised gate, or has several buffers, goes up at once, by way WHOLE: as it came from the wire.
"""

from __future__ import annotations

import struct

from mezzo.packet.arena import ANNO_SIZE, HEADROOM, META, PACKET, Arena, Packet

WAY, GATE, FRONT, DATA = 0, 2, 4, 6
SIZE = META["anno"][0] + ANNO_SIZE
SAME = 8  # from here on the record is the arena's metadata
WHOLE = 0xFFFF
PAD = 16  # bytes in front of the data that come along when the router hands over a packet: XDP has none under 14 bytes

__all__ = ["DATA", "FRONT", "GATE", "HEADROOM", "PAD", "SAME", "SIZE", "WAY", "WHOLE", "pack", "unpack"]


def pack(arena: Arena, packet: Packet, way: int) -> tuple[bytes, bytes]:
    """(record, bytes) of a packet that is handed over."""
    data = packet.get("data")
    start = packet.base + data
    head = struct.pack("=HHHH", way, 0, data - PAD, data)
    meta = arena.mem[packet.meta + SAME : packet.meta + SIZE]
    return head + bytes(meta), bytes(arena.mem[start - PAD : start + packet.length])


def unpack(arena: Arena, packet: Packet, record: bytes, content: bytes) -> int:
    """Puts what comes back into the packet's frame; its way."""
    way, _, front, data = struct.unpack_from("=HHHH", record)
    at = packet.base + front
    arena.mem[at : at + len(content)] = content
    arena.mem[packet.meta + SAME : packet.meta + SIZE] = record[SAME:]
    packet.put("data", data)
    packet.put("end", front + len(content))
    packet.live = PACKET
    return int(way)
