"""StripIPHeader and UnstripIPHeader: the IP header goes, and comes back."""

from mezzo.elements import Element, Packet, Port, u32


class StripIPHeader(Element):
    """Removes the IP header, with its options and anything in front of it.

    The marks stay: the network mark points before the data, where UnstripIPHeader finds the header again.
    """

    see = ("UnstripIPHeader", "CheckIPHeader", "MarkIPHeader")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> MarkIPHeader -> StripIPHeader -> c :: Counter -> Discard;
    """
    example_reads = {"c.byte_count": "24"}

    def process(self, p: Packet) -> Port:
        if not p.has_transport or p.transport_offset < 0:
            self.kill(p, "no IP header")
            return
        p.strip(u32(p.transport_offset))
        return 0


class UnstripIPHeader(Element):
    """Puts back the IP header that StripIPHeader removed."""

    see = ("StripIPHeader",)
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> MarkIPHeader -> StripIPHeader -> UnstripIPHeader -> c :: Counter -> Discard;
    """
    example_reads = {"c.byte_count": "84"}

    def process(self, p: Packet) -> Port:
        if p.has_network and p.network_offset < 0:
            p.prepend(u32(0 - p.network_offset))
        return 0
