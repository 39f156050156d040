"""GetIPAddress and SetIPAddress: the destination address annotation, from the packet or given.

An address in the annotations stands in network byte order, as Click has it; raw annotation access is little-endian.
"""

from mezzo.elements import REQUIRED, U32, AnnoOffset, Arg, ConfigError, Element, IPAddress, Packet, Port, Word, u32


def swapped(address: u32) -> u32:
    return address >> 24 | (address >> 8 & 0xFF00) | (address << 8 & 0xFF0000) | address << 24


class GetIPAddress(Element):
    """Copies the IP address at OFFSET of the packet to the destination address annotation.

    OFFSET is usually 16, the destination of a packet that begins with its IP header. With IP, the address comes from
    the marked IP header.
    """

    offset = Arg(U32(), None, "where the address is, bytes from the start of the packet")
    anno = Arg(AnnoOffset(4), 0, "the annotation")
    ip = Arg(Word("src", "dst"), None, "take this address of the IP header instead", positional=False)
    see = ("SetIPAddress", "CheckIPHeader", "RadixIPLookup")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> GetIPAddress(16) -> r :: StaticIPLookup(10.0.0.2/32 0, 0/0 1) -> c :: Counter -> Discard;
        r[1] -> Discard;
    """
    example_reads = {"c.count": "3"}

    def configure(self):
        if (self.offset is None) == (self.ip is None):
            raise ConfigError("give either OFFSET, for example 16, or IP dst")
        self.from_src, self.from_dst = self.ip == "src", self.ip == "dst"

    def process(self, p: Packet) -> Port:
        if self.from_src:
            address = p.ip.src
        elif self.from_dst:
            address = p.ip.dst
        else:
            address = p.u32(self.offset)
        if self.anno == 0:
            p.dst_ip = address
        else:
            p.set_anno_u32(self.anno, swapped(address))
        return 0


class SetIPAddress(Element):
    """Sets the destination address annotation to ADDR."""

    addr = Arg(IPAddress(), REQUIRED, "the address", keyword="IPADDR")
    anno = Arg(AnnoOffset(4), 0, "the annotation")
    see = ("GetIPAddress",)
    example = """
        InfiniteSource(LIMIT 3, STOP true) -> SetIPAddress(10.0.0.2)
            -> r :: StaticIPLookup(10.0.0.2/32 0, 0/0 1) -> c :: Counter -> Discard;
        r[1] -> Discard;
    """
    example_reads = {"c.count": "3"}

    def process(self, p: Packet) -> Port:
        if self.anno == 0:
            p.dst_ip = self.addr
        else:
            p.set_anno_u32(self.anno, swapped(u32(self.addr)))
        return 0
