"""FixIPSrc: an ICMP error carries the address of the interface by which it leaves (RFC 1812, 4.3.2.4)."""

from mezzo.elements import REQUIRED, Arg, Element, IPAddress, Packet, Port, u16


class FixIPSrc(Element):
    """Sets the source address of packets that ask for it by the fix_ip_src annotation, and clears that annotation."""

    addr = Arg(IPAddress(), REQUIRED, "the address of the interface", keyword="IPADDR")
    see = ("ICMPError",)
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> CheckIPHeader -> ICMPError(10.9.9.9, unreachable, port)
            -> FixIPSrc(10.0.0.9) -> c :: CheckIPHeader(BADSRC 10.9.9.9) -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def process(self, p: Packet) -> Port:
        if p.fix_ip_src != 0 and p.has_network:
            p.fix_ip_src = 0
            p.ip.src = self.addr
            p.ip.checksum = 0
            p.ip.checksum = u16(~p.net.sum16(0, u16(p.ip.ihl) * 4))
        return 0
