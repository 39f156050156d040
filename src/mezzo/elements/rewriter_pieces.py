"""Fragments through rewriters that need what only the first piece of a datagram has.

What became of the first piece's addresses is remembered in a ring of PIECES places for as long as a receiver waits
(RFC 791, 3.2; RFC 4787, REQ-14), so that the others go the same way.  Pieces that come before it have no mapping.
"""

from mezzo.elements import Array, Packet, Table, checksum_adjust, now, rare, u16, u32, u64, u128
from mezzo.elements.rewriter_flows import ADDRESSES, NOTHING, PORTS, SECOND, STATE, _Flows

MF, PLACE = 0x2000, 0x1FFF  # bits of the fragment field
PIECES = 1024
PIECE_NS = 30 * SECOND
NO_PORT = 0xFFFF_FFFF
SET = 1 << 32  # makes a key of all zeros one that is like no empty place


class _Pieces(_Flows):
    """Remembers first pieces for the others."""

    piece: Table[u128, u32, PIECES]
    piece_key: Array[u128, PIECES]
    piece_to: Array[u64, PIECES]
    piece_rest: Array[u64, PIECES]  # difference of the checksum (16), output (16)
    piece_when: Array[u64, PIECES]
    next_piece: u32

    def datagram(self, p: Packet) -> u128:
        """What the pieces of a datagram have in common (RFC 791, 3.2)."""
        return (u128(p.net.u64(12)) << 64) | u128(SET | (u64(p.ip.id) << 16) | u64(p.ip.protocol))

    @rare
    def remember(self, p: Packet, e: u32):
        """To be called before the piece gets its new addresses."""
        key = self.datagram(p)
        at = self.piece.get(key, PIECES)
        if at == PIECES:
            at = self.next_piece
            self.next_piece = (at + 1) % PIECES
            self.piece.delete(self.piece_key[at])
            self.piece.set(key, at)
            self.piece_key[at] = key
        self.piece_to[at] = self.rec[4 * e + ADDRESSES]
        self.piece_rest[at] = (self.rec[4 * e + PORTS] & 0xFFFF_0000) | (self.rec[4 * e + STATE] & 0xFFFF)
        self.piece_when[at] = now()

    @rare
    def piece_output(self, p: Packet, frag: u32) -> u32:
        """Rewrites a later piece as its first; gives the output, or NO_PORT."""
        if frag & PLACE == 0:
            return NO_PORT
        at = self.piece.get(self.datagram(p), PIECES)
        if at == PIECES or now() - self.piece_when[at] >= PIECE_NS:
            return NO_PORT
        to = self.piece_to[at]
        p.net.set_u64(12, to)
        p.ip.checksum = checksum_adjust(p.ip.checksum, NOTHING, u16(self.piece_rest[at] >> 16))
        if self.dst_anno:
            p.dst_ip = u32(to)
        return u32(self.piece_rest[at]) & 0xFFFF
