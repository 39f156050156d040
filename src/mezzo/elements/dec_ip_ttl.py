"""DecIPTTL: one hop less to live."""

from mezzo.elements import Arg, Bool, Element, Packet, Port, flag, u16, u32, u64


class DecIPTTL(Element):
    """Decrements the IP time to live and patches the checksum.

    Packets that would not live on leave by output 1, as they came, or are dropped where it is not connected.
    """

    ports, processing = "1/1-2", "a/ah"
    active = Arg(Bool(), True, "when false, packets pass as they are", positional=False, live=flag)
    multicast = Arg(Bool(), True, "also for multicast destinations", positional=False)
    drops: u64
    reads = ("drops",)
    see = ("ICMPError", "CheckIPHeader")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 0111a5ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> MarkIPHeader -> d :: DecIPTTL -> Discard;
    """
    example_reads = {"d.drops": "3"}

    def process(self, p: Packet) -> Port:
        if not self.active:
            return 0
        if not self.multicast and p.ip.dst >> 28 == 14:
            return 0
        word = p.net.u32(8)  # time to live, protocol, checksum
        if word >> 24 <= 1:
            self.drops += 1
            return 1, "TTL expired"
        # RFC 1624 eqn. 3 with ~old + new = 0xfeff, whatever else is in the word
        total = (~word & 0xFFFF) + 0xFEFF
        p.net.set_u32(8, (word & 0xFFFF0000) - 0x01000000 | u32(u16(~(total + (total >> 16)))))
        return 0
