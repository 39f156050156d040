"""CheckUDPHeader, CheckTCPHeader and CheckICMPHeader: lengths and checksums above IP.

A checksum covers a whole packet, so fragments cannot be checked; they have the reason "bad packet length".
"""

from mezzo.elements import Packet, Port, u32
from mezzo.elements.header_check import _HeaderCheck

ICMP, TCP, UDP = 1, 6, 17
FRAGMENT = 0x3FFF  # more fragments, or a place behind the first
OTHER, LENGTH, CHECKSUM = range(3)
QUOTING = (3, 4, 5, 11, 12)  # ICMP errors: they carry an IP header and 8 bytes more (RFC 792)
TIMESTAMPS = (13, 14)
INFORMATION = (15, 16)


class _TransportCheck(_HeaderCheck):
    """What is left of an IP packet for its transport protocol."""

    def room(self, p: Packet) -> u32:
        """Bytes from the transport header to the end of the IP packet; 0 for fragments, and where bytes are missing."""
        hlen, total = u32(p.ip.ihl) * 4, u32(p.ip.total_length)
        if p.ip.frag & FRAGMENT != 0 or hlen > total or u32(p.network_offset) + total > p.length:
            return 0
        return total - hlen


class CheckUDPHeader(_TransportCheck):
    """Checks that UDP packets have a right length and checksum.

    Expects marked IP packets. A checksum of 0 is none, and right. Bad packets leave by output 1, or are dropped where
    it is not connected.
    """

    title = "UDP"
    reasons = ("not UDP", "bad packet length", "bad UDP checksum")
    see = ("CheckIPHeader", "SetUDPChecksum", "CheckTCPHeader", "CheckICMPHeader")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> CheckIPHeader -> c :: CheckUDPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.ip.protocol != UDP:
            self.note(OTHER)
            return 1, self.reasons[OTHER]
        room = self.room(p)
        if room < 8 or p.udp.length < 8 or p.udp.length > room:
            self.note(LENGTH)
            return 1, self.reasons[LENGTH]
        if p.udp.checksum != 0:
            size = u32(p.udp.length)
            if p.trans.sum16(0, size, p.net.sum16(12, 8, UDP + size)) != 0xFFFF:
                self.note(CHECKSUM)
                return 1, self.reasons[CHECKSUM]
        return 0


class CheckTCPHeader(_TransportCheck):
    """Checks that TCP packets have a right header length and checksum.

    Expects marked IP packets. Bad packets leave by output 1, or are dropped where it is not connected.
    """

    title = "TCP"
    reasons = ("not TCP", "bad packet length", "bad TCP checksum")
    see = ("CheckIPHeader", "SetTCPChecksum", "CheckUDPHeader", "CheckICMPHeader")
    example = """
        InfiniteSource(DATA \\<45000028 00010000 400666cd 0a000001 0a000002
                              00010002 00000003 00000004 50100064 00000000>, LIMIT 3, STOP true)
            -> CheckIPHeader -> SetTCPChecksum -> c :: CheckTCPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.ip.protocol != TCP:
            self.note(OTHER)
            return 1, self.reasons[OTHER]
        room = self.room(p)
        if room < 20 or p.tcp.offset < 5 or u32(p.tcp.offset) * 4 > room:
            self.note(LENGTH)
            return 1, self.reasons[LENGTH]
        if p.trans.sum16(0, room, p.net.sum16(12, 8, TCP + room)) != 0xFFFF:
            self.note(CHECKSUM)
            return 1, self.reasons[CHECKSUM]
        return 0


class CheckICMPHeader(_TransportCheck):
    """Checks that ICMP packets are as long as their type asks, and have a right checksum.

    Expects marked IP packets. Bad packets leave by output 1, or are dropped where it is not connected.
    """

    title = "ICMP"
    reasons = ("not ICMP", "bad packet length", "bad ICMP checksum")
    see = ("CheckIPHeader", "ICMPError", "CheckUDPHeader", "CheckTCPHeader")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3, STOP true)
            -> CheckIPHeader -> ICMPError(10.0.0.9, unreachable, port)
            -> c :: CheckICMPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.ip.protocol != ICMP:
            self.note(OTHER)
            return 1, self.reasons[OTHER]
        room = self.room(p)
        if room < 8 or not self.fits(u32(p.icmp.type), room):
            self.note(LENGTH)
            return 1, self.reasons[LENGTH]
        if p.trans.sum16(0, room) != 0xFFFF:
            self.note(CHECKSUM)
            return 1, self.reasons[CHECKSUM]
        return 0

    def fits(self, kind: u32, size: u32) -> bool:
        if kind in QUOTING:
            return size >= 36
        if kind in TIMESTAMPS:
            return size == 20
        if kind in INFORMATION:
            return size == 8
        return True
