"""What a network card's address filter does, as an element."""

from mezzo.elements import U16, Arg, Bool, Element, EtherAddress, Packet, Port
from mezzo.wire.constants import BROADCAST_ETHER

HOST, BROADCAST, MULTICAST, OTHERHOST = range(4)  # packet types, numbered as in Linux's if_packet.h


class HostEtherFilter(Element):
    """Lets Ethernet packets pass that a card with address ETHER would accept, and sets their packet type.

    The type becomes HOST, BROADCAST, MULTICAST or OTHERHOST.  Packets that do not pass leave by output 1, or die where
    it is not connected.
    """

    ports, processing = "1/1-2", "a/ah"
    ether = Arg(EtherAddress(), doc="this host's address")
    drop_own = Arg(Bool(), False, "stop packets that have ETHER as source")
    drop_other = Arg(Bool(), True, "stop packets for other hosts")
    offset = Arg(U16(), 0, "where the Ethernet header begins, bytes")
    example = """
        InfiniteSource(DATA \\<020000000001 020000000002 0800>, LIMIT 2)
            -> f :: HostEtherFilter(2:0:0:0:0:1) -> c :: Counter -> Discard;
        InfiniteSource(DATA \\<020000000009 020000000002 0800>, LIMIT 5) -> f;
    """
    example_reads = {"c.count": "2"}
    see = ("Classifier",)

    def process(self, p: Packet) -> Port:
        dst = p.u48(self.offset)
        if self.drop_own and p.u48(self.offset + 6) == self.ether:
            return 1, "own packet"
        if dst == self.ether:
            p.packet_type = HOST
        elif dst == BROADCAST_ETHER:
            p.packet_type = BROADCAST
        elif (dst >> 40) & 1:
            p.packet_type = MULTICAST
        else:
            p.packet_type = OTHERHOST
            if self.drop_other:
                return 1, "other host"
        return 0
