"""Ethernet addresses swapped or replaced in place."""

from mezzo.elements import Arg, Element, EtherAddress, Packet, Port


class EtherMirror(Element):
    """Swaps the source and destination of Ethernet packets."""

    example = """
        InfiniteSource(DATA \\<020000000001 020000000002 0800>, LIMIT 2)
            -> EtherMirror -> c :: Counter -> Discard;
    """
    example_reads = {"c.count": "2"}
    see = ("EtherRewrite",)

    def process(self, p: Packet) -> Port:
        eth = p.eth
        dst = eth.dst
        eth.dst = eth.src
        eth.src = dst
        return 0


class EtherRewrite(Element):
    """Replaces the source and destination of Ethernet packets."""

    src = Arg(EtherAddress(), doc="new source address", handler=True)
    dst = Arg(EtherAddress(), doc="new destination address", handler=True)
    example = """
        InfiniteSource(DATA \\<020000000001 020000000002 0800>, LIMIT 2)
            -> r :: EtherRewrite(2:0:0:0:0:3, 2:0:0:0:0:4) -> c :: Counter -> Discard;
    """
    example_reads = {"c.count": "2", "r.src": "02:00:00:00:00:03"}
    see = ("EtherMirror", "EtherEncap")

    def process(self, p: Packet) -> Port:
        p.eth.dst = self.dst
        p.eth.src = self.src
        return 0
