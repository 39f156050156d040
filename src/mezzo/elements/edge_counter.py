"""Counts the packets of one connection."""

from mezzo.elements import Element, Packet, Port, u64


class EdgeCounter(Element):
    """Counts packets.

    mezzo puts one on every connection when it is asked for statistics of a whole graph (`mezzo run --stats`); there
    it is hidden.  In a configuration of one's own, Counter does more.
    """

    count: u64
    reads = ("count",)
    example = "InfiniteSource(LIMIT 3) -> c :: EdgeCounter -> Discard;"
    example_reads = {"c.count": "3"}
    see = ("Counter",)

    def process(self, p: Packet) -> Port:
        self.count += 1
        return 0
