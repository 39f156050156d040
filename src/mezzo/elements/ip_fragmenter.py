"""IPFragmenter: packets larger than the MTU are sent in pieces (RFC 791, 3.2).

Every piece but the last carries a multiple of 8 bytes.  Options with the copied flag go into all pieces, the others
into the first only.  Pieces are copies of the whole packet, moved and cut, so that they keep its annotations, and
what stands in front of its IP header.
"""

from mezzo.elements import REQUIRED, Arg, Bool, Element, Int, Packet, bounded, python, random, u8, u16, u32, u64

DF, MF, OFFSET, COPIED = 0x4000, 0x2000, 0x1FFF, 0x80
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
    reads = ("drops", "fragments")
    see = ("IPReassembler", "ICMPError")
    example = """
        InfiniteSource(DATA \\<4500002c 00010000 401166be 0a000001 0a000002 00010002 00180000
                               00010203 04050607 08090a0b 0c0d0e0f>, LIMIT 2, STOP true)
            -> MarkIPHeader -> f :: IPFragmenter(36) -> c :: Counter -> Discard;
    """
    example_reads = {"f.fragments": "4", "c.count": "4"}

    def push(self, port, p):
        # An unset mark is beyond any packet, hence passes here.
        if u32(p.network_offset) + self.mtu >= p.length:
            self.push(0, p)
            return
        hlen = u32(p.ip.ihl) * 4
        whole = u32(p.ip.total_length)
        if whole <= self.mtu:
            self.push(0, p)
            return
        piece = (self.mtu - hlen) & 0xFFFFFFF8
        if self.honor_df and p.ip.df:
            self.refuse(p)
            self.push(1, p, "too big, and not to be fragmented")
            return
        if hlen < 20 or hlen + 8 > self.mtu:
            self.refuse(p)
            self.push(1, p, "MTU too small for a fragment")
            return
        frag = u32(p.ip.frag)
        if frag & DF != 0:
            frag = frag & (MF | OFFSET)
            p.ip.id = u16(random())  # where DF was set the sender need not have chosen a fresh one (RFC 6864)
        count = whole - hlen  # bytes to send
        first = p.clone()
        if first is None:
            self.kill(p, "out of packets")
            return
        self.finish(first, hlen, piece, frag | MF)
        self.push(0, first)
        rest = self.copy_options(p, hlen)
        room = (self.mtu - rest) & 0xFFFFFFF8
        at: u32 = piece
        for _ in bounded(PIECES, PIECES):
            if count - at <= room:
                break
            q = p.clone()
            if q is None:
                self.kill(p, "out of packets")
                return
            q.net.move(rest, hlen + at, room)
            self.finish(q, rest, room, (frag + (at >> 3)) | MF)
            self.push(0, q)
            at += room
        p.net.move(rest, hlen + at, count - at)
        self.finish(p, rest, count - at, frag + (at >> 3))
        self.push(0, p)

    def finish(self, p: Packet, hlen: u32, count: u32, frag: u32):
        """Makes the header say: `count` bytes, at that place; cuts off the rest."""
        p.trim(p.length - (u32(p.network_offset) + hlen + count))
        p.ip.ihl = u8(hlen >> 2)
        p.ip.total_length = u16(hlen + count)
        p.ip.frag = u16(frag)
        p.ip.checksum = 0
        p.ip.checksum = u16(~p.net.sum16(0, hlen))
        p.set_transport(p.network_offset + hlen)
        self.fragments += 1

    def copy_options(self, p: Packet, hlen: u32) -> u32:
        """Closes up the options that every fragment carries; the header length then."""
        if hlen == 20:
            return 20
        to: u32 = 20
        at: u32 = 20
        for _ in bounded(OPTIONS, OPTIONS):
            if at >= hlen:
                break
            kind = p.net.u8(at)
            if kind == END:
                break
            size: u32 = 1
            if kind != NOP:
                size = 0
                if at + 1 < hlen:
                    size = u32(p.net.u8(at + 1))
                if size < 2 or at + size > hlen:
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
