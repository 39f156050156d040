"""IPFragmenter: packets larger than the MTU are sent in pieces (RFC 791, 3.2).

Every piece but the last carries a multiple of 8 bytes.  Options with the copied flag go into all pieces, the others
into the first only.  Pieces are copies of the whole packet, moved and cut, so that they keep its annotations, and
what stands in front of its IP header.
"""

from mezzo.elements import REQUIRED, Arg, Bool, Element, Int, Packet, bounded, python, random, u16, u32, u64

DF, MF, PLACE, COPIED = 0x4000, 0x2000, 0x1FFF, 0x80
FITS, FORBIDDEN, HOPELESS, CUT = range(4)
END, NOP = 0, 1
OPTIONS = 40  # bytes of options there can be
PIECES = 8192


class IPFragmenter(Element):
    """Splits IP packets larger than MTU bytes into fragments.

    Packets with the don't-fragment bit leave by output 1, or are dropped where it is not connected; so do packets that
    no fragmenting makes small enough. Fragments leave in order, the first first.
    """

    ports, processing = "1/1-2", "h/h"
    mtu = Arg(Int(8, 0xFFFF), REQUIRED, "largest IP packet, bytes")
    honor_df = Arg(Bool(), True, "when false, the don't-fragment bit is cleared and the packet fragmented")
    verbose = Arg(Bool(), False, "print a line for every packet that may not be fragmented")
    headroom = Arg(Int(0, 0xFFFF), 0, "taken for Click's sake: frames have headroom of their own", positional=False)
    drops: u64
    fragments: u64
    reads = {"drops": "packets that may not be fragmented, or cannot", "fragments": "fragments made"}
    see = ("IPReassembler", "ICMPError")
    example = """
        InfiniteSource(DATA \\<4500002c 00010000 401166be 0a000001 0a000002 00010002 00180000
                               00010203 04050607 08090a0b 0c0d0e0f>, LIMIT 2, STOP true)
            -> MarkIPHeader -> f :: IPFragmenter(36) -> c :: Counter -> Discard;
    """
    example_reads = {"f.fragments": "4", "c.count": "4"}

    at: u32  # of the packet being cut: the place in its data of the next piece,
    end: u32  # the bytes of data,
    hlen: u32  # its header with and without the options of the first piece,
    rest: u32
    frag: u32  # and its place in a larger packet, with the more-fragments bit

    def push(self, port, p):
        # An unset mark is beyond any packet, hence passes here.
        if u32(p.network_offset) + self.mtu >= p.length:
            self.push(0, p)
            return
        verdict = self.judge(p)
        if verdict == FITS:
            self.push(0, p)
            return
        if verdict == FORBIDDEN:
            self.push(1, p, "too big, and not to be fragmented")
            return
        if verdict == HOPELESS:
            self.push(1, p, "MTU too small for a fragment")
            return
        for _ in bounded(PIECES, PIECES):
            q = p.clone()
            if q is None:
                self.kill(p, "out of packets")
                return
            if self.at == 0:
                self.rest = self.copy_options(p)
            more = self.cut(q)
            self.push(0, q)
            if not more:
                break
        self.kill(p)

    def judge(self, p: Packet) -> u32:
        """What is to be done with a packet; when it is to be cut, the state is set for that."""
        head = p.net.u64(0)
        self.hlen = u32(head >> 54) & 60
        self.end = u32(head >> 32 & 0xFFFF) - self.hlen
        self.frag = u32(head) & (MF | PLACE)
        self.at = 0
        if u32(head >> 32 & 0xFFFF) <= self.mtu:
            return FITS
        if self.honor_df and head & DF != 0:
            self.refuse(p)
            return FORBIDDEN
        if self.hlen < 20 or self.hlen + 8 > self.mtu:
            self.refuse(p)
            return HOPELESS
        if head & DF != 0:  # its sender need not have chosen a fresh identification (RFC 6864)
            p.ip.id = u16(random())
        return CUT

    def cut(self, q: Packet) -> bool:
        """Makes a copy of the packet its next piece; is there more after it?"""
        head = self.hlen if self.at == 0 else self.rest
        count = (self.mtu - head) & 0xFFFFFFF8
        more = self.end - self.at > count
        if not more:
            count = self.end - self.at
        q.net.move(head, self.hlen + self.at, count)
        q.trim(q.length - (u32(q.network_offset) + head + count))
        q.net.set_u32(0, (q.net.u32(0) & 0xF0FF0000) | head << 22 | (head + count))
        q.net.set_u16(6, u16((self.frag + (self.at >> 3)) | (MF if more else 0)))
        q.net.set_u16(10, 0)
        q.net.set_u16(10, u16(~q.net.sum16(0, head)))
        q.set_transport(q.network_offset + head)
        self.at += count
        self.fragments += 1
        return more

    def copy_options(self, p: Packet) -> u32:
        """Closes up the options that every fragment carries; the header length then."""
        to: u32 = 20
        at: u32 = 20
        for _ in bounded(OPTIONS, OPTIONS):
            if at >= self.hlen:
                break
            kind = p.net.u8(at)
            if kind == END:
                break
            size: u32 = 1
            if kind != NOP:
                size = 0
                if at + 1 < self.hlen:
                    size = u32(p.net.u8(at + 1))
                if size < 2 or at + size > self.hlen:
                    break
                if kind & COPIED != 0:
                    p.net.move(to, at, size)
                    to += size
            at += size
        for _ in range(3):
            if to & 3 != 0:
                p.net.set_u8(to, END)
                to += 1
        return to

    def refuse(self, p: Packet):
        self.drops += 1
        if self.verbose:
            self.complain(p.ip.src, p.ip.dst, p.length)

    @python
    def complain(self, src, dst, length):
        from mezzo.wire.address import format_ip

        self.say(f"IPFragmenter({self.mtu}) DF {format_ip(src)} {format_ip(dst)} len={length}")
