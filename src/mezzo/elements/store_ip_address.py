"""StoreIPAddress: an address written into packets.

In the IP header (`src`, `dst`) checksums are patched (RFC 1624): the header's, and that of TCP and UDP, which cover the
addresses as well, in packets and first fragments.  An UDP checksum of 0 is none, and stays.
"""

from mezzo.elements import (
    REQUIRED,
    Arg,
    ConfigError,
    Element,
    Int,
    IPAddress,
    Packet,
    Port,
    Raw,
    checksum_adjust,
    u16,
    u32,
)

TCP, UDP = 6, 17
TAIL_OF_FRAGMENT = 0x1FFF
FIELDS = {"src": 12, "dst": 16}


def adjusted(checksum: u16, old: u32, new: u32) -> u16:
    """Packet code."""
    checksum = checksum_adjust(checksum, u16(old >> 16), u16(new >> 16))
    return checksum_adjust(checksum, u16(old), u16(new))


class StoreIPAddress(Element):
    """Writes an IP address into each packet: ADDRESS, or else the destination address annotation unless that is 0.

    `StoreIPAddress(OFFSET)` takes the annotation, `StoreIPAddress(ADDRESS, OFFSET)` the address.  OFFSET counts from
    the start of the packet and leaves checksums alone; with `src` or `dst` the marked IP header gets the address, and
    checksums are patched.  Packets too short leave by output 1, or are dropped.
    """

    ports, processing = "1/1-2", "a/ah"
    first = Arg(Raw(), REQUIRED, "the address; OFFSET when it stands alone", keyword="ADDRESS")
    second = Arg(Raw(), "", "bytes from the start of the packet, or `src` or `dst`", keyword="OFFSET")
    see = ("SetIPAddress", "GetIPAddress", "StoreData")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3)
            -> MarkIPHeader -> StoreIPAddress(10.0.0.7, src) -> c :: CheckIPHeader
            -> IPClassifier(src 10.0.0.7) -> stored :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "stored.count": "3"}

    def configure(self):
        place = self.second or self.first
        self.by_anno = not self.second
        self.address = 0 if self.by_anno else self._parse(IPAddress(), self.first, "ADDRESS")
        self.in_header = place in FIELDS
        self.offset = FIELDS[place] if self.in_header else self._parse(Int(0, 0xFFFF), place, "OFFSET")

    def _parse(self, kind, text, what):
        try:
            return kind.parse(text, self.env)
        except ValueError as trouble:
            raise ConfigError(f"{what}: {trouble}") from None

    def process(self, p: Packet) -> Port:
        address = p.dst_ip if self.by_anno else u32(self.address)
        if self.by_anno and address == 0:
            return 0
        if self.in_header:
            if not p.has_network:
                return 1, "no IP header"
            self.store(p, address)
            return 0
        if p.length < self.offset + 4:
            return 1, "too short"
        p.set_u32(self.offset, address)
        return 0

    def store(self, p: Packet, address: u32):
        old = p.net.u32(self.offset)
        p.net.set_u32(self.offset, address)
        p.ip.checksum = adjusted(p.ip.checksum, old, address)
        if not p.has_transport or p.ip.frag & TAIL_OF_FRAGMENT != 0:
            return
        room = p.length - u32(p.transport_offset)
        if p.ip.protocol == TCP and room >= 18:
            p.tcp.checksum = adjusted(p.tcp.checksum, old, address)
        elif p.ip.protocol == UDP and room >= 8 and p.udp.checksum != 0:
            found = adjusted(p.udp.checksum, old, address)
            p.udp.checksum = found if found != 0 else 0xFFFF  # RFC 768
