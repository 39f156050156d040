"""IPEncap and UDPIPEncap: packets get new headers in front."""

from mezzo.elements import (
    REQUIRED,
    U8,
    U16,
    Arg,
    Bool,
    ConfigError,
    Element,
    Int,
    IPAddress,
    Named,
    OneOf,
    Packet,
    Port,
    u16,
    u32,
    u64,
)
from mezzo.wire.constants import PROTOCOLS

BY_ANNOTATION = 1 << 32  # beyond all addresses
LONGEST = 0xFFFF
UDP, UDP_TTL = 17, 250


class _Destination(IPAddress):
    """An address, or DST_ANNO: the destination annotation of each packet."""

    words = "an IPv4 address or DST_ANNO"

    def parse(self, text, env):
        return BY_ANNOTATION if text == "DST_ANNO" else super().parse(text, env)

    def show(self, value):
        return "DST_ANNO" if value == BY_ANNOTATION else super().show(value)


class IPEncap(Element):
    """Puts an IP header in front of each packet.

    The packet gets the network and transport marks, and DST as its destination annotation. Identifications count up
    from 0.
    """

    proto = Arg(Named({name: number for number, name in PROTOCOLS.items()}, U8()), REQUIRED, "protocol of the payload")
    src = Arg(IPAddress(), REQUIRED, "source address", live=u32)
    dst = Arg(_Destination(), REQUIRED, "destination address; DST_ANNO: the packet's destination annotation", live=u64)
    tos = Arg(U8(), None, "type of service; not with DSCP, ECT or CE", positional=False)
    ttl = Arg(U8(), 250, "time to live", positional=False)
    dscp = Arg(Int(0, 63), None, "differentiated services code point", positional=False)
    ect = Arg(OneOf(Bool(), Int(2, 2)), False, "ECN-capable transport: true for ECT(1), 2 for ECT(0)", positional=False)
    ce = Arg(Bool(), False, "congestion experienced", positional=False)
    df = Arg(Bool(), False, "don't fragment", positional=False)
    id: u16
    see = ("UDPIPEncap", "StripIPHeader", "EtherEncap")
    example = """
        InfiniteSource(LENGTH 40, LIMIT 3, STOP true)
            -> IPEncap(ipip, 18.26.4.24, 140.247.60.147) -> c :: CheckIPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.byte_count": "180"}

    def configure(self):
        if self.tos is not None and (self.dscp is not None or self.ect or self.ce):
            raise ConfigError("TOS says all of DSCP, ECT and CE: give it alone")
        ecn = 3 if self.ce else int(self.ect)
        self.service = self.tos if self.tos is not None else (self.dscp or 0) << 2 | ecn
        self.flags = 0x4000 if self.df else 0

    def process(self, p: Packet) -> Port:
        if p.length > LONGEST - 20:
            self.kill(p, "too long for an IP packet")
            return
        to = p.dst_ip if self.dst == BY_ANNOTATION else u32(self.dst)
        p.prepend(20)
        p.set_u64(0, u64(0x45000000 | self.service << 16 | p.length) << 32 | u64(self.id) << 16 | self.flags)
        p.set_u64(8, u64(self.ttl << 24 | self.proto << 16) << 32 | u64(self.src))
        p.set_u32(16, to)
        p.set_u16(10, u16(~p.sum16(0, 20)))
        self.id += 1
        p.set_network(0)
        p.set_transport(20)
        p.dst_ip = to
        return 0


class UDPIPEncap(Element):
    """Puts UDP and IP headers in front of each packet.

    The packet gets the network and transport marks, and DST as its destination annotation. Identifications count up
    from 0.
    """

    src = Arg(IPAddress(), REQUIRED, "source address", live=u32)
    sport = Arg(U16(), REQUIRED, "source port", live=u16)
    dst = Arg(_Destination(), REQUIRED, "destination address; DST_ANNO: the packet's destination annotation", live=u64)
    dport = Arg(U16(), REQUIRED, "destination port", live=u16)
    checksum = Arg(Bool(), True, "compute the UDP checksum")
    id: u16
    see = ("IPEncap", "StripIPHeader", "SetUDPChecksum")
    example = """
        InfiniteSource(LENGTH 40, LIMIT 3, STOP true)
            -> UDPIPEncap(1.0.0.1, 1234, 2.0.0.2, 1234)
            -> CheckIPHeader -> c :: CheckUDPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.byte_count": "204"}

    def process(self, p: Packet) -> Port:
        if p.length > LONGEST - 28:
            self.kill(p, "too long for an IP packet")
            return
        to = p.dst_ip if self.dst == BY_ANNOTATION else u32(self.dst)
        p.prepend(28)
        p.set_u64(0, u64(0x45000000 | p.length) << 32 | u64(self.id) << 16)
        p.set_u64(8, u64(UDP_TTL << 24 | UDP << 16) << 32 | u64(self.src))
        p.set_u32(16, to)
        p.set_u16(10, u16(~p.sum16(0, 20)))
        self.id += 1
        size = p.length - 20
        p.set_u64(20, u64(u32(self.sport) << 16 | self.dport) << 32 | u64(size << 16))
        if self.checksum:
            check = u16(~p.sum16(12, size + 8, UDP + size))
            p.set_u16(26, check if check != 0 else 0xFFFF)  # 0 would say "none" (RFC 768)
        p.set_network(0)
        p.set_transport(20)
        p.dst_ip = to
        return 0
