"""IPAddrRewriter and IPAddrPairRewriter: basic NAT, addresses without ports (RFC 3022, 2.1 and 4.1).

They take IP packets of any protocol, and every fragment.  The checksums of TCP and UDP hold the addresses, so the first
piece of such a packet is patched where it has them; what has no ports is known by addresses alone.
"""

from mezzo.elements import Arg, Duration, Packet, checksum_adjust, now, u16, u32, u64
from mezzo.elements.rewriter_flows import ADDRESSES, DATAGRAM, NOTHING, PORTS, SECOND, STATE, USED
from mezzo.elements.rewriter_handlers import _FlowHandlers
from mezzo.elements.rewriter_spec import PASS
from mezzo.wire.address import format_ip

TCP, UDP = 6, 17
PLACE = 0x1FFF
ANY = 0  # the protocol in keys
HIGH, LOW = 0xFFFF_FFFF_0000_0000, 0xFFFF_FFFF


class IPAddrPairRewriter(_FlowHandlers):
    """Rewrites the addresses of IP packets, of each pair of source and destination anew, and those of replies back.

    Expects marked IP packets. Specifications are those of IPRewriter, with `pattern SADDR DADDR FOUTPUT ROUTPUT`;
    SADDR may be a range or a prefix, of which each pair gets a free address.
    """

    with_ports = False
    timeout = Arg(Duration(), 7200 * SECOND, "life of a mapping without packets", positional=False)
    see = ("IPAddrRewriter", "IPRewriter", "ICMPRewriter")
    example = """
        InfiniteSource(DATA x, LIMIT 3) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> [0] nat :: IPAddrPairRewriter(pattern 1.0.0.1-1.0.0.9# - 0 1, drop);
        InfiniteSource(DATA y, LIMIT 3) -> UDPIPEncap(9.9.9.9, 53, 1.0.0.1, 5000) -> [1] nat;
        nat[0] -> Discard; nat[1] -> c :: CheckUDPHeader -> back :: Counter -> Discard;
    """
    example_reads = {"nat.nmappings": "1", "c.drops": "0", "back.count": "3"}

    def times(self):
        return [0] * DATAGRAM + [self.timeout, 0]

    def turn(self, ports: u32) -> u32:
        return 0

    def new_ports(self, ports: u32, source: u32, target: u32) -> u32:
        return 0

    def own_port(self, ports: u32) -> u32:
        return 0

    def known_as(self, addresses: u64) -> u64:
        """What a packet's addresses are looked up by at first, and a new flow by for ever."""
        return addresses

    def seek(self, addresses: u64) -> u32:
        return self.find.get(self.key(addresses, 0, ANY), 0)

    def push(self, port, p):
        addresses = p.net.u64(12)
        e = self.seek(addresses)
        if e != 0 and u32(self.rec[4 * e + STATE] >> 32) != self.tick():
            e = self.look_again(e)
        if e == 0:
            e = self.open(port, self.known_as(addresses), 0, ANY)
        if e != 0:
            self.patch(p, u32(self.rec[4 * e + PORTS]))
            self.readdress(p, e, addresses)
            self.rec[4 * e + USED] = now()
            self.push(u32(self.rec[4 * e + STATE]) & 0xFFFF, p)
        elif self.kind[port] == PASS:
            self.push(self.output[port], p)
        else:
            self.kill(p, "no mapping")

    def readdress(self, p: Packet, e: u32, addresses: u64):
        self.address(p, e)

    def patch(self, p: Packet, rest: u32):
        """Checksums over the addresses."""
        if u32(p.ip.frag) & PLACE != 0:
            return
        if p.ip.protocol == TCP and u32(p.transport_offset) + 18 <= p.length:
            p.tcp.checksum = checksum_adjust(p.tcp.checksum, NOTHING, u16(rest))
        elif p.ip.protocol == UDP and u32(p.transport_offset) + 8 <= p.length and p.udp.checksum != 0:
            sum = checksum_adjust(p.udp.checksum, NOTHING, u16(rest))
            p.udp.checksum = 0xFFFF if sum == 0 else sum

    def flow_words(self, addresses, ports):
        return f"({format_ip(addresses >> 32)}, {format_ip(addresses & LOW)})"

    def turned(self, ports):
        return 0

    def after(self, proto, addresses, ports):
        """What addresses become, where a living mapping has them."""
        e = self.find.get(addresses << 64, 0)
        return None if not e or self.end_of(e >> 1) <= self.now_ns() else self.mapping(e)[:2]


class IPAddrRewriter(IPAddrPairRewriter):
    """Rewrites source addresses, each address to one of its own, and destination addresses of replies back.

    Expects marked IP packets. A packet whose source address has a mapping, or else whose destination address some
    source was mapped to, is rewritten. Specifications are those of IPRewriter, with
    `pattern SADDR[-SADDR2] - FOUTPUT ROUTPUT`: each source gets a free address of the range.
    """

    see = ("IPAddrPairRewriter", "IPRewriter", "ICMPRewriter")
    example = """
        InfiniteSource(DATA x, LIMIT 3) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> [0] nat :: IPAddrRewriter(pattern 1.0.0.1-1.0.0.9# - 0 1, drop);
        InfiniteSource(DATA y, LIMIT 3) -> UDPIPEncap(9.9.9.9, 53, 1.0.0.1, 5000) -> [1] nat;
        nat[0] -> Discard; nat[1] -> c :: CheckUDPHeader -> back :: Counter -> Discard;
    """

    def read_spec(self, text):
        spec = IPAddrPairRewriter.read_spec(self, text)
        if any(p.daddr for p in spec.patterns):
            self.error(f"`{text}`: DADDR has to be `-` here; IPAddrPairRewriter rewrites both addresses", text)
        return spec

    def known_as(self, addresses: u64) -> u64:
        return addresses & HIGH

    def shape(self, addresses: u64) -> u64:
        return addresses & HIGH

    def seek(self, addresses: u64) -> u32:
        e = self.find.get(self.key(addresses & HIGH, 0, ANY), 0)
        return e if e != 0 else self.find.get(self.key(addresses & LOW, 0, ANY), 0)

    def readdress(self, p: Packet, e: u32, addresses: u64):
        to = self.rec[4 * e + ADDRESSES]
        if e & 1 == 0:
            p.ip.src = u32(to >> 32)
        else:
            p.ip.dst = u32(to)
        p.ip.checksum = checksum_adjust(p.ip.checksum, NOTHING, u16(self.rec[4 * e + PORTS] >> 16))
        if self.dst_anno:
            p.dst_ip = p.ip.dst

    def after(self, proto, addresses, ports):
        for key, kept in ((addresses & HIGH, LOW), (addresses & LOW, HIGH)):
            found = IPAddrPairRewriter.after(self, proto, key, 0)
            if found is not None:
                return found[0] | addresses & kept, 0
        return None
