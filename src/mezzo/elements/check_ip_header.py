"""CheckIPHeader: is this a well-formed IPv4 packet (RFC 1812, 5.2.2)?"""

from mezzo.elements import U32, Arg, Bool, IPAddress, IPPrefix, Kind, Many, Packet, Port, rare, u32
from mezzo.elements.header_check import _HeaderCheck
from mezzo.wire.address import ALL_ONES, mask_of

TINY, VERSION, HEADER_LENGTH, LENGTH, CHECKSUM, SOURCE, GOOD = range(7)


class _OffsetOrBadSources(Kind):
    """The first argument by place: OFFSET, or in old configurations the bad source addresses."""

    words = "the offset of the IP header"

    def parse(self, text, env):
        try:
            return U32().parse(text, env)
        except ValueError:
            return Many(IPAddress()).parse(text, env)


class CheckIPHeader(_HeaderCheck):
    """Checks the IP header, marks it, and cuts off what follows the packet.

    The version, header length, total length and checksum must be right, and the source address none of BADSRC.
    Good packets get the network and transport marks and the destination address annotation, and lose bytes behind the
    IP packet (Ethernet padding). Bad ones leave by output 1, or are dropped where it is not connected.
    """

    title = "IP"
    reasons = (
        "tiny packet",
        "bad IP version",
        "bad IP header length",
        "bad IP length",
        "bad IP checksum",
        "bad source address",
    )
    numbered = tuple(enumerate(reasons[:-1]))
    place = Arg(_OffsetOrBadSources(), 0, "where the IP header begins, bytes", keyword="OFFSET")
    rest = Arg(U32(), 0, "OFFSET, after the old form's list of bad addresses", keyword="HEADER_OFFSET")
    interfaces = Arg(
        Many(IPPrefix()), (), "own addresses with prefixes: BADSRC their broadcasts, GOODDST they", positional=False
    )
    badsrc = Arg(Many(IPAddress()), (), "source addresses that are bad", positional=False)
    gooddst = Arg(Many(IPAddress()), (), "destinations for which BADSRC does not count", positional=False)
    checksum = Arg(Bool(), True, "check the header checksum", positional=False)
    see = ("MarkIPHeader", "CheckIPHeader2", "StripIPHeader", "CheckUDPHeader", "CheckTCPHeader", "CheckICMPHeader")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> c :: CheckIPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def configure(self):
        bad, good = list(self.badsrc), list(self.gooddst)
        old = not isinstance(self.place, int)
        if old or self.interfaces:
            bad += [0, ALL_ONES]
        if old:
            bad += self.place
        for address, length in self.interfaces:
            good.append(address)
            if length < 31:  # links of two have no broadcast address (RFC 3021)
                bad.append(address | ~mask_of(length) & ALL_ONES)
        self.offset = self.rest if old else self.place
        self.bad, self.good = tuple(dict.fromkeys(bad)), tuple(dict.fromkeys(good))

    def process(self, p: Packet) -> Port:
        # Nearly all packets are good and have no options: their way is short enough to be inlined.
        if p.length >= self.offset + 20:
            head = p.u32(self.offset)
            total = head & 0xFFFF
            if head >> 24 == 0x45 and total >= 20 and total <= p.length - self.offset:
                right = not self.checksum or p.sum16(self.offset, 20) == 0xFFFF
                src, to = p.u32(self.offset + 12), p.u32(self.offset + 16)
                if right and (src not in self.bad or to in self.good):
                    self.mark(p, 20)
                    return self.cut(p, total, to)
        why = self.examine(p)
        if why == GOOD:
            return self.cut(p, p.u32(self.offset) & 0xFFFF, p.u32(self.offset + 16))
        self.note(why)
        for number, reason in self.numbered:
            if why == number:
                return 1, reason
        return 1, self.reasons[SOURCE]

    def mark(self, p: Packet, hlen: u32):
        p.set_network(self.offset)
        p.set_transport(self.offset + hlen)

    def cut(self, p: Packet, total: u32, to: u32) -> Port:
        """A good packet, without what is behind it, goes on."""
        if p.length > self.offset + total:
            p.trim(p.length - self.offset - total)
            to = p.u32(self.offset + 16)  # once more: here it tells the kernel's verifier what is left, on the rare way
        p.dst_ip = to
        return 0

    @rare
    def examine(self, p: Packet) -> u32:
        """Each check in turn; which one fails.  A good packet is marked."""
        if p.length < self.offset + 20:
            return TINY
        head = p.u32(self.offset)
        hlen, total = head >> 22 & 60, head & 0xFFFF
        if head >> 28 != 4:
            return VERSION
        if hlen < 20:
            return HEADER_LENGTH
        if total > p.length - self.offset or total < hlen:
            return LENGTH
        if self.checksum and p.sum16(self.offset, hlen) != 0xFFFF:
            return CHECKSUM
        if p.u32(self.offset + 12) in self.bad and p.u32(self.offset + 16) not in self.good:
            return SOURCE
        self.mark(p, hlen)
        return GOOD


class CheckIPHeader2(CheckIPHeader):
    """Checks the IP header but for its checksum: CheckIPHeader with CHECKSUM false."""

    checksum = Arg(Bool(), False, "check the header checksum", positional=False)
    see = ("CheckIPHeader",)
    example = CheckIPHeader.example.replace("CheckIPHeader", "CheckIPHeader2")
