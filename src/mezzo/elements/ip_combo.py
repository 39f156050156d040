"""IPInputCombo and IPOutputCombo: what an IP router does with a packet on its way in and out, in one element each.

Click's pattern file for IP routers puts them where the elements stand that they are made of.  Here the compiler joins
those elements anyway; the combinations are there so that configurations which name them run.
"""

from mezzo.elements import REQUIRED, U8, Arg, Int, IPAddress, Many, Packet, Port, u8, u16, u32, u64
from mezzo.elements.check_ip_header import GOOD, SOURCE, TINY, CheckIPHeader
from mezzo.elements.drop_broadcasts import LINK_GROUPS
from mezzo.elements.ip_gw_options import IPGWOptions

PAINT = 16  # the annotation byte
ETHERNET = 14  # bytes of header


class IPInputCombo(CheckIPHeader):
    """Paints packets, strips the Ethernet header, checks and marks the IP header: the way into an IP router.

    The same as Paint(COLOR), Strip(14), CheckIPHeader(BADSRC) and GetIPAddress(16) one after another.  Bad packets are
    dropped, with the reasons of CheckIPHeader; source addresses 0.0.0.0 and 255.255.255.255 are always bad.
    """

    ports, processing = "1/1", "a/a"
    color = Arg(U8(), doc="the color, 0 to 255")
    badsrc = Arg(Many(IPAddress()), (), "source addresses that are bad")
    see = ("Paint", "Strip", "CheckIPHeader", "GetIPAddress", "IPOutputCombo")
    example = """
        InfiniteSource(LIMIT 3, STOP true, DATA \\<000102030405 00060708090a 0800
            4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>)
            -> i :: IPInputCombo(2, 10.255.255.255) -> CheckPaint(2) -> d :: Counter -> Discard;
    """
    example_reads = {"i.drops": "0", "d.count": "3"}

    def configure(self):
        # The old form of CheckIPHeader: a list of bad addresses instead of an offset.
        self.args |= {"place": (), "rest": 0}
        super().configure()

    def process(self, p: Packet) -> Port:
        p.set_anno_u8(PAINT, self.color)
        if p.length < ETHERNET:
            self.note(TINY)
            return 1, self.reasons[TINY]
        p.strip(ETHERNET)
        why = self.examine(p)
        if why == GOOD:
            return self.cut(p, p.u32(self.offset) & 0xFFFF, p.u32(self.offset + 16))
        self.note(why)
        for number, reason in self.numbered:
            if why == number:
                return 1, reason
        return 1, self.reasons[SOURCE]


class IPOutputCombo(IPGWOptions):
    """Does what an IP router does before a packet leaves: no broadcasts, options, source, TTL, length.

    The same as DropBroadcasts, PaintTee(COLOR), IPGWOptions(IPADDR), FixIPSrc(IPADDR), DecIPTTL and CheckLength(MTU)
    one after another.  Output 1 has copies of packets painted COLOR, output 2 packets with malformed options, output 3
    those whose time to live is over, output 4 those longer than MTU, for an IPFragmenter.
    """

    ports, processing, flow = "1/5", "h/h", "x/x"
    color = Arg(U8(), doc="the color of packets that leave where they came in")
    my_addr = Arg(IPAddress(), REQUIRED, "the outgoing interface's address", keyword="IPADDR")
    mtu = Arg(Int(0, 0xFFFF), REQUIRED, "longest packet, bytes")
    lost: u64
    reads = {"drops": "packets with malformed options", "lost": "copies that were not made, because no frame was free"}
    see = ("DropBroadcasts", "PaintTee", "IPGWOptions", "FixIPSrc", "DecIPTTL", "CheckLength", "IPInputCombo")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> MarkIPHeader -> o :: IPOutputCombo(1, 10.0.0.9, 1500) -> d :: Counter -> Discard;
        o [1] -> Discard; o [2] -> Discard; o [3] -> Discard; o [4] -> Discard;
    """
    example_reads = {"d.count": "3"}

    def configure(self):
        self.args |= {"other_addrs": ()}
        super().configure()

    process = None

    def push(self, port, p):
        if p.packet_type in LINK_GROUPS:
            self.kill(p, "link broadcast")
            return
        if p.anno_u8(PAINT) == self.color:
            q = p.clone()
            if q is None:
                self.lost += 1
            else:
                self.push(1, q)
        if p.ip.ihl > 5:
            fault = self.options(p)
            if fault != 0:
                self.drops += 1
                p.icmp_paramprob = u8(fault)
                self.push(2, p)
                return
        if p.fix_ip_src != 0:
            p.fix_ip_src = 0
            p.ip.src = self.my_addr
            p.ip.checksum = 0
            p.ip.checksum = u16(~p.net.sum16(0, u16(p.ip.ihl) * 4))
        if p.ip.ttl <= 1:
            self.push(3, p)
            return
        # RFC 1624 eqn. 3: the checksum goes up by what the word of the time to live goes down
        total = (~u32(p.ip.checksum) & 0xFFFF) + 0xFEFF
        p.ip.ttl -= 1
        p.ip.checksum = u16(~(total + (total >> 16)))
        if p.length > self.mtu:
            self.push(4, p)
        else:
            self.push(0, p)


def _in_order(cls, *names: str) -> None:
    """Arguments are taken in the order of declaration, in which those of the base class come first."""
    cls.arguments = {name: cls.arguments[name] for name in names}


_in_order(IPInputCombo, "color", "badsrc", "interfaces", "gooddst", "checksum", "verbose", "all_details")
_in_order(IPOutputCombo, "color", "my_addr", "mtu")
