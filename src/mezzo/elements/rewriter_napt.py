"""Network address and port translation: what becomes of packets (RFC 3022, RFC 4787, RFC 5382).

The usual way, for a packet of a known flow, only reads the table of flows and writes when the mapping was used; all
else is in helpers that are seldom called.
"""

from mezzo.elements import (
    Packet,
    checksum_adjust,
    now,
    rare,
    u16,
    u32,
    u64,
)
from mezzo.elements.rewriter_flows import (
    COUNT,
    DATA,
    DATAGRAM,
    GONE,
    MARKS,
    NOTHING,
    ONE_MORE,
    PORTS,
    STATE,
    STREAM,
    TCP_DATA,
    TCP_DONE,
    TCP_NODATA,
    USED,
)
from mezzo.elements.rewriter_handlers import _TransportHandlers
from mezzo.elements.rewriter_pieces import MF, NO_PORT, PLACE, _Pieces
from mezzo.elements.rewriter_spec import PASS

TCP, UDP = 6, 17
FIN, SYN, RST = 1, 2, 4


class _Napt(_Pieces, _TransportHandlers):
    """The packet half of IPRewriter and its kin."""

    tcp, udp = True, True  # which of them are rewritten

    def push(self, port, p):
        proto = u32(p.ip.protocol)
        frag = u32(p.ip.frag) & (MF | PLACE)
        if self.has_ports(p, proto, frag):
            addresses = p.net.u64(12)
            ports = p.trans.u32(0)
            e = self.find.get(self.key(addresses, ports, proto), 0)
            if e != 0 and u32(self.rec[4 * e + STATE] >> 32) != self.tick():
                e = self.look_again(e)
            if e == 0:
                e = self.open(port, addresses, ports, proto)
            if e != 0:
                if frag != 0:
                    self.remember(p, e)
                self.rewrite(p, e, proto)
                self.push(u32(self.rec[4 * e + STATE]) & 0xFFFF, p)
                return
        else:
            out: u32 = NO_PORT
            if (self.tcp and proto == TCP) or (self.udp and proto == UDP):
                out = self.piece_output(p, frag)
            if out != NO_PORT:
                self.push(out, p)
                return
        if self.kind[port] == PASS:
            self.push(self.output[port], p)
        else:
            self.kill(p, "no mapping")

    def has_ports(self, p: Packet, proto: u32, frag: u32) -> bool:
        if frag & PLACE != 0:
            return False
        if self.tcp and proto == TCP:
            return u32(p.transport_offset) + 20 <= p.length
        return self.udp and proto == UDP and u32(p.transport_offset) + 8 <= p.length

    def rewrite(self, p: Packet, e: u32, proto: u32):
        rest = self.rec[4 * e + PORTS]
        if proto == TCP:
            flags = u32(p.tcp.flags)
            state = self.rec[4 * e + STATE]
            if flags & (FIN | SYN | RST) != 0 or (state & DATA == 0 and self.has_data(p)):
                self.note_tcp(e, flags, self.has_data(p))
            p.tcp.checksum = checksum_adjust(p.tcp.checksum, NOTHING, u16(rest))
            self.change(p, e)
        else:
            if self.rec[4 * e + STATE] & COUNT != COUNT:
                self.note_udp(e)
            if p.udp.checksum != 0:  # RFC 768: 0 is no checksum, and one that comes to 0 is written as its complement
                sum = checksum_adjust(p.udp.checksum, NOTHING, u16(rest))
                p.udp.checksum = 0xFFFF if sum == 0 else sum
        p.trans.set_u32(0, u32(rest >> 32))
        self.address(p, e)
        self.rec[4 * e + USED] = now()

    def change(self, p: Packet, e: u32):
        """What else becomes of a TCP packet."""
        return

    def has_data(self, p: Packet) -> bool:
        return u32(p.ip.total_length) > u32(p.ip.ihl) * 4 + u32(p.tcp.offset) * 4

    @rare
    def note_tcp(self, e: u32, flags: u32, data: bool):
        """What a packet says of its connection."""
        mine, other = 4 * e + STATE, 4 * (e ^ 1) + STATE
        if flags & RST != 0:
            self.rec[mine] |= GONE
            self.rec[other] |= GONE
        elif flags & FIN != 0:
            self.rec[mine] |= GONE
        elif flags & SYN != 0:
            self.rec[mine] &= ~u64(GONE)
        if data:
            self.rec[mine] |= DATA
        self.rec[4 * e + USED] = now()
        if self.life[e >> 1] != self.life_of(e >> 1, TCP):
            self.settle(e >> 1)

    @rare
    def note_udp(self, e: u32):
        self.rec[4 * e + STATE] += ONE_MORE
        self.rec[4 * e + USED] = now()
        if self.life[e >> 1] != self.life_of(e >> 1, UDP):
            self.settle(e >> 1)

    def life_of(self, f: u32, proto: u32) -> u32:
        one, two = self.rec[8 * f + STATE], self.rec[8 * f + 4 + STATE]
        if proto == TCP:
            if one & two & GONE != 0:
                return TCP_DONE
            return TCP_DATA if one & two & DATA != 0 else TCP_NODATA
        sent, answered = (one & COUNT) >> MARKS, (two & COUNT) >> MARKS
        return STREAM if sent != 0 and answered != 0 and sent + answered >= 3 else DATAGRAM
