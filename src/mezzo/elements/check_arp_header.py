"""Checks of ARP headers (RFC 826)."""

from mezzo.elements import U16, Arg, Bool, Element, Packet, Port, python, read, u32, u64

REASONS = ("tiny packet", "too small for addresses", "bad hardware type or length", "bad protocol type or length")


class CheckARPHeader(Element):
    """Lets packets with a sound ARP header pass and sets their network mark; others leave by output 1, or die."""

    ports, processing = "1/1-2", "a/ah"
    offset = Arg(U16(), 0, "where the ARP header begins, bytes")
    verbose = Arg(Bool(), False, "say each bad packet, not only the first", positional=False)
    details = Arg(Bool(), False, "accepted as in Click; the details are always counted", positional=False)
    drops: u64
    tiny: u64
    short: u64
    hardware: u64
    protocol: u64
    reads = ("drops",)
    example = """
        InfiniteSource(DATA \\<0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000005>, LIMIT 3)
            -> a :: CheckARPHeader -> c :: Counter -> Discard;
        InfiniteSource(DATA \\<0001 0800>, LIMIT 2) -> a;
    """
    example_reads = {"c.count": "3", "a.drops": "2"}
    see = ("ARPResponder", "ARPQuerier", "ARPPrint")

    def process(self, p: Packet) -> Port:
        if p.length < self.offset + 8:
            self.tiny += 1
            self.bad(0)
            return 1, REASONS[0]
        hardware, protocol = p.u16(self.offset), p.u16(self.offset + 2)
        hardware_length, protocol_length = p.u8(self.offset + 4), p.u8(self.offset + 5)
        if p.length < self.offset + 8 + 2 * (u32(hardware_length) + u32(protocol_length)):
            self.short += 1
            self.bad(1)
            return 1, REASONS[1]
        if hardware == 1 and hardware_length != 6:
            self.hardware += 1
            self.bad(2)
            return 1, REASONS[2]
        if (protocol == 0x0800 and protocol_length != 4) or (protocol == 0x86DD and protocol_length != 16):
            self.protocol += 1
            self.bad(3)
            return 1, REASONS[3]
        p.set_network(self.offset)
        return 0

    def bad(self, reason: u32) -> None:
        self.drops += 1
        if self.verbose or self.drops == 1:
            self.tell(reason)

    @python
    def tell(self, reason: int) -> None:
        self.say(f"{self.name}: ARP header check failed: {REASONS[reason]}")

    @read("drop_details", "bad packets by reason")
    def drop_details(self) -> str:
        counts = (self.tiny, self.short, self.hardware, self.protocol)
        return "".join(f"{count}\t{text}\n" for count, text in zip(counts, REASONS, strict=True))
