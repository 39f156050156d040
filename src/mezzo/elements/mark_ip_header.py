"""MarkIPHeader: where the IP header is, without looking whether it is good."""

from mezzo.elements import U32, Arg, Element, Packet, Port, u32


class MarkIPHeader(Element):
    """Marks the IP header at OFFSET, and the transport header behind it; checks nothing.

    Where the packet ends before the header's first byte only the network mark is set.
    """

    offset = Arg(U32(), 0, "where the IP header begins, bytes")
    see = ("CheckIPHeader", "StripIPHeader")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> MarkIPHeader -> d :: DecIPTTL -> c :: Counter -> Discard;
    """
    example_reads = {"d.drops": "0", "c.count": "3"}

    def process(self, p: Packet) -> Port:
        p.set_network(self.offset)
        if p.length > self.offset:
            p.set_transport(self.offset + u32(p.u8(self.offset) & 15) * 4)
        return 0
