"""An Ethernet header put on.

A header of 14 bytes is written as one u64 and one u48: `head` holds the destination and the first third of the source,
`tail` the rest of the source and the type, both as a little-endian machine reads them.
"""

from mezzo.elements import U16, Arg, Element, EtherAddress, Packet, Port, read, u48, u64, write
from mezzo.wire.address import format_ether, parse_ether


def header_words(ethertype: int, src: int, dst: int) -> tuple[int, int]:
    """(first 8 bytes, last 6 bytes) of an Ethernet header, little-endian."""
    whole = (dst << 64 | src << 16 | ethertype).to_bytes(14, "big")
    return int.from_bytes(whole[:8], "little"), int.from_bytes(whole[8:], "little")


class EtherEncap(Element):
    """Puts an Ethernet header in front of each packet.

    The mac mark is set to it; the network mark stays where it was.
    """

    ethertype = Arg(U16(), doc="type of the payload, 0x0800 for IPv4")
    src = Arg(EtherAddress(), doc="source address")
    dst = Arg(EtherAddress(), doc="destination address")
    head: u64
    tail: u64
    example = """
        InfiniteSource(DATA "hello", LIMIT 3)
            -> e :: EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2)
            -> c :: Counter -> Discard;
    """
    example_reads = {"c.count": "3", "c.byte_count": "57", "e.dst": "02:02:02:02:02:02"}
    see = ("ARPQuerier", "EtherRewrite", "Strip")

    def configure(self) -> None:
        self.head, self.tail = header_words(self.ethertype, self.src, self.dst)

    def process(self, p: Packet) -> Port:
        p.prepend(14)
        p.set_mac(0)
        p.set_u64le(0, self.head)
        p.set_u48le(8, u48(self.tail))
        return 0

    @read("src", "source address")
    def read_src(self) -> str:
        return format_ether(self.src)

    @write("src")
    def write_src(self, text: str) -> None:
        self.src = parse_ether(text.strip())
        self.configure()

    @read("dst", "destination address")
    def read_dst(self) -> str:
        return format_ether(self.dst)

    @write("dst")
    def write_dst(self, text: str) -> None:
        self.dst = parse_ether(text.strip())
        self.configure()

    @read("ethertype", "type of the payload, hexadecimal")
    def read_ethertype(self) -> str:
        return f"{self.ethertype:04X}"

    @write("ethertype")
    def write_ethertype(self, text: str) -> None:
        self.ethertype = U16().parse(text.strip(), self.env)
        self.configure()
