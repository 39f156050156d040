"""DropBroadcasts: a router does not forward what came as a link-level broadcast or multicast (RFC 1812, 5.3.4)."""

from mezzo.elements import Element, Packet, Port, u64

LINK_GROUPS = (1, 2)  # the packet types broadcast and multicast, as Linux and Click number them


class DropBroadcasts(Element):
    """Drops packets that came as link-level broadcasts or multicasts; by output 1 where it is connected."""

    ports, processing = "1/1-2", "a/ah"
    drops: u64
    reads = ("drops",)
    see = ("HostEtherFilter",)
    example = """
        InfiniteSource(LIMIT 3, STOP true) -> EtherEncap(0x0800, 0:1:2:3:4:5, ff:ff:ff:ff:ff:ff)
            -> HostEtherFilter(0:6:7:8:9:a) -> d :: DropBroadcasts -> Discard;
    """
    example_reads = {"d.drops": "3"}

    def process(self, p: Packet) -> Port:
        if p.packet_type in LINK_GROUPS:
            self.drops += 1
            return 1, "link broadcast"
        return 0
