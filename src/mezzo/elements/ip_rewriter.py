"""IPRewriter, TCPRewriter, UDPRewriter: network address and port translation (RFC 3022, RFC 4787, RFC 5382).

The usual way, for a packet of a known flow, only reads the table of flows and writes when the mapping was used; all
else is in helpers that are seldom called.
"""

from mezzo.elements import (
    Arg,
    Duration,
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
    SECOND,
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


class IPRewriter(_Pieces, _TransportHandlers):
    """Rewrites addresses and ports of TCP and UDP packets, and those of replies back: NAT with ports, load balancing.

    Expects marked IP packets. A packet of a known flow is rewritten and leaves by the flow's output, whatever input it
    came by. Others are handled as the specification of their input says: `drop`; `pass OUTPUT`; `keep FOUTPUT ROUTPUT`
    makes a flow that changes nothing; `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT` one that gives packets these
    addresses and ports (`-` leaves one as it is) and sends them to FOUTPUT, and replies, changed back, to ROUTPUT.
    SADDR or SPORT may be a range, `1024-65535`, of which a free value is taken: the packet's own or one by chance, with
    `#` behind it the next, with `?` one by chance. `pattern NAME FOUTPUT ROUTPUT` uses an IPRewriterPatterns, and the
    name of a RoundRobinIPMapper or SourceIPHashMapper its patterns. Later fragments follow the first.
    """

    tcp_timeout = Arg(Duration(), 86400 * SECOND, "life of a TCP flow without packets", positional=False)
    tcp_done_timeout = Arg(Duration(), 240 * SECOND, "the same when both sides have closed", positional=False)
    tcp_nodata_timeout = Arg(Duration(), 300 * SECOND, "the same before both sides have sent data", positional=False)
    tcp_guarantee = Arg(Duration(), None, "GUARANTEE for TCP", positional=False)
    udp_timeout = Arg(Duration(), 300 * SECOND, "life of a UDP flow without packets", positional=False)
    udp_streaming_timeout = Arg(
        Duration(), None, "the same for flows of three packets or more, both ways; else UDP_TIMEOUT", positional=False
    )
    udp_guarantee = Arg(Duration(), None, "GUARANTEE for UDP", positional=False)
    tcp, udp = True, True
    see = ("TCPRewriter", "UDPRewriter", "IPAddrRewriter", "ICMPPingRewriter", "ICMPRewriter", "IPRewriterPatterns")
    example = """
        InfiniteSource(DATA x, LIMIT 3) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> [0] nat :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);
        InfiniteSource(DATA y, LIMIT 3) -> UDPIPEncap(9.9.9.9, 53, 1.0.0.1, 1024) -> [1] nat;
        nat[0] -> Discard; nat[1] -> c :: CheckUDPHeader -> back :: Counter -> Discard;
    """
    example_reads = {"nat.nmappings": "1", "c.drops": "0", "back.count": "3"}

    def times(self):
        udp_stream = self.udp_timeout if self.udp_streaming_timeout is None else self.udp_streaming_timeout
        return [self.tcp_nodata_timeout, self.tcp_timeout, self.tcp_done_timeout, self.udp_timeout, udp_stream]

    def guarantees(self):
        tcp = self.guarantee if self.tcp_guarantee is None else self.tcp_guarantee
        udp = self.guarantee if self.udp_guarantee is None else self.udp_guarantee
        return [tcp, tcp, tcp, udp, udp]

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
        else:
            if self.rec[4 * e + STATE] & COUNT != COUNT:
                self.note_udp(e)
            if p.udp.checksum != 0:  # RFC 768: 0 is no checksum, and one that comes to 0 is written as its complement
                sum = checksum_adjust(p.udp.checksum, NOTHING, u16(rest))
                p.udp.checksum = 0xFFFF if sum == 0 else sum
        p.trans.set_u32(0, u32(rest >> 32))
        self.address(p, e)
        self.rec[4 * e + USED] = now()

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


class TCPRewriter(IPRewriter):
    """As IPRewriter, for TCP alone."""

    udp = False
    see = ("IPRewriter", "UDPRewriter")
    example = """
        r :: TCPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0);
        Idle -> r; r -> Discard;
    """
    example_reads = {"r.nmappings": "0", "r.patterns": "1.0.0.1 1024-65535# - -\n"}


class UDPRewriter(IPRewriter):
    """As IPRewriter, with one TIMEOUT for UDP and TCP; meant for UDP."""

    timeout = Arg(Duration(), 300 * SECOND, "life of a flow without packets", positional=False)
    streaming_timeout = Arg(
        Duration(), None, "the same for flows of three packets or more, both ways; else TIMEOUT", positional=False
    )
    see = ("IPRewriter", "TCPRewriter")
    example = """
        InfiniteSource(DATA x, LIMIT 3) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> r :: UDPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0) -> c :: CheckUDPHeader -> Discard;
    """
    example_reads = {"r.nmappings": "1", "c.drops": "0"}

    def times(self):
        udp = self.timeout if self.streaming_timeout is None else self.streaming_timeout
        return [self.timeout, udp, self.timeout, self.timeout, udp]
