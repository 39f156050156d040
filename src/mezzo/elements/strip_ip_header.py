"""StripIPHeader and UnstripIPHeader: the IP header goes, and comes back."""

from mezzo.elements import Element, Packet, Port, u32


class StripIPHeader(Element):
    """Removes the IP header, with its options and anything in front of it.

    The marks stay: the network mark points before the data, where UnstripIPHeader finds the header again.
    """

    see = ("UnstripIPHeader", "CheckIPHeader", "MarkIPHeader")

    def process(self, p: Packet) -> Port:
        if not p.has_transport or p.transport_offset < 0:
            self.kill(p, "no IP header")
            return
        p.strip(u32(p.transport_offset))
        return 0


class UnstripIPHeader(Element):
    """Puts back the IP header that StripIPHeader removed."""

    see = ("StripIPHeader",)

    def process(self, p: Packet) -> Port:
        if p.has_network and p.network_offset < 0:
            p.prepend(u32(0 - p.network_offset))
        return 0
