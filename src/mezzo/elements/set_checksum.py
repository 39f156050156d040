"""SetIPChecksum, SetUDPChecksum and SetTCPChecksum: checksums computed anew."""

from mezzo.elements import Arg, Bool, Element, Packet, Port, u8, u16, u32, u64

TCP, UDP = 6, 17
FRAGMENT = 0x3FFF  # more fragments, or a place behind the first


class SetIPChecksum(Element):
    """Computes the IP header checksum of marked IP packets; drops those whose header is not whole."""

    drops: u64
    reads = ("drops",)
    see = ("CheckIPHeader", "DecIPTTL", "SetUDPChecksum", "SetTCPChecksum")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 40110000 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> MarkIPHeader -> SetIPChecksum -> c :: CheckIPHeader -> Discard;
    """
    example_reads = {"c.drops": "0"}

    def process(self, p: Packet) -> Port:
        if not p.has_network or u32(p.network_offset) + 20 > p.length:
            self.drops += 1
            self.kill(p, "no IP header")
            return
        hlen = u32(p.ip.ihl) * 4
        if hlen < 20 or u32(p.network_offset) + hlen > p.length:
            self.drops += 1
            self.kill(p, "bad IP header length")
            return
        p.ip.checksum = 0
        p.ip.checksum = u16(~p.net.sum16(0, hlen))
        return 0


class SetUDPChecksum(Element):
    """Computes the UDP checksum of marked UDP/IP packets.

    The checksum of a fragment cannot be computed; fragments and packets that are not whole leave by output 1, or are
    dropped where it is not connected.
    """

    ports, processing = "1/1-2", "a/ah"
    see = ("CheckUDPHeader", "SetIPChecksum", "SetTCPChecksum")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> CheckIPHeader -> SetUDPChecksum -> c :: CheckUDPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.ip.protocol != UDP:
            return 1, "not UDP"
        if p.ip.frag & FRAGMENT != 0:
            return 1, "fragment"
        if u32(p.transport_offset) + 8 > p.length:
            return 1, "bad UDP length"
        size = u32(p.udp.length)
        if size < 8 or u32(p.transport_offset) + size > p.length:
            return 1, "bad UDP length"
        p.udp.checksum = 0
        check = u16(~p.trans.sum16(0, size, p.net.sum16(12, 8, UDP + size)))
        p.udp.checksum = check if check != 0 else 0xFFFF  # 0 would say "none" (RFC 768)
        return 0


class SetTCPChecksum(Element):
    """Computes the TCP checksum of marked TCP/IP packets; drops fragments, and packets that are not whole.

    With FIXOFF a header length that cannot be is set right first.
    """

    fixoff = Arg(Bool(), False, "set a header length below 20 to 20, one beyond the packet to its end")
    see = ("CheckTCPHeader", "SetIPChecksum", "SetUDPChecksum")
    example = """
        InfiniteSource(DATA \\<45000028 00010000 400666cd 0a000001 0a000002
                              00010002 00000003 00000004 50100064 00000000>, LIMIT 3, STOP true)
            -> CheckIPHeader -> SetTCPChecksum -> c :: CheckTCPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.ip.protocol != TCP:
            self.kill(p, "not TCP")
            return
        if p.ip.frag & FRAGMENT != 0:
            self.kill(p, "fragment")
            return
        hlen, total = u32(p.ip.ihl) * 4, u32(p.ip.total_length)
        if hlen + 20 > total or u32(p.network_offset) + total > p.length:
            self.kill(p, "bad TCP length")
            return
        size = total - hlen
        if self.fixoff:
            if p.tcp.offset < 5:
                p.tcp.offset = 5
            elif u32(p.tcp.offset) * 4 > size:
                p.tcp.offset = u8(size >> 2)
        p.tcp.checksum = 0
        p.tcp.checksum = u16(~p.trans.sum16(0, size, p.net.sum16(12, 8, TCP + size)))
        return 0
