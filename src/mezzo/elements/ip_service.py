"""The byte of IPv4 that says how a packet is to be served: DSCP in its upper six bits (RFC 2474), ECN in the lower two.

ECN (RFC 3168): 0 says that the sender knows nothing of it, 1 and 2 (ECT(1), ECT(0)) that it slows down when a mark says
so, and 3 (CE) is that mark.  The checksum is patched, not made anew (RFC 1624), so a wrong one stays wrong.
"""

from mezzo.elements import (
    REQUIRED,
    Arg,
    Bool,
    Element,
    Int,
    Named,
    Packet,
    Port,
    checksum_adjust,
    flag,
    u8,
    u16,
    u64,
)

ECN = {"no": 0, "ect1": 1, "ect(1)": 1, "ect2": 2, "ect(0)": 2, "ce": 3}
DSCP_AND_REST, ECN_AND_REST = 0xFF03, 0xFFFC  # of the first 16 bits what stays
PACKET = "\\<45020014 00010000 40116ac3 01020304 05060708>"


class SetIPECN(Element):
    """Sets the ECN field of IP packets, which need their network mark, and patches the checksum.

    ECN is a number, or `no`, `ect1` or `ECT(1)`, `ect2` or `ECT(0)`, `ce` or `CE`.
    """

    ecn = Arg(Named(ECN, Int(0, 3)), REQUIRED, "0 to 3, or a word", live=u8)
    see = ("MarkIPCE", "SetIPDSCP", "IPClassifier")
    example = f"""
        InfiniteSource(DATA {PACKET}, LIMIT 3) -> MarkIPHeader -> SetIPECN(ce) -> c :: CheckIPHeader
            -> IPClassifier(ip ce) -> marked :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "marked.count": "3"}

    def process(self, p: Packet) -> Port:
        old = p.net.u16(0)
        new = (old & ECN_AND_REST) | self.ecn
        p.ip.checksum = checksum_adjust(p.ip.checksum, old, new)
        p.net.set_u16(0, new)
        return 0


class SetIPDSCP(Element):
    """Sets the differentiated services code point of IP packets with a network mark, and patches the checksum."""

    dscp = Arg(Int(0, 63), REQUIRED, "0 to 63", live=u8)
    see = ("SetIPECN", "IPClassifier")
    example = f"""
        InfiniteSource(DATA {PACKET}, LIMIT 3) -> MarkIPHeader -> SetIPDSCP(46) -> c :: CheckIPHeader
            -> IPClassifier(ip dscp 46) -> marked :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "marked.count": "3"}

    def process(self, p: Packet) -> Port:
        old = p.net.u16(0)
        new = (old & DSCP_AND_REST) | u16(self.dscp) << 2
        p.ip.checksum = checksum_adjust(p.ip.checksum, old, new)
        p.net.set_u16(0, new)
        return 0


class MarkIPCE(Element):
    """Marks IP packets: congestion experienced.  Packets whose sender knows nothing of ECN are dropped.

    With FORCE those are marked, too.  Packets need their network mark.
    """

    force = Arg(Bool(), False, "mark packets whose sender knows nothing of ECN", live=flag)
    drops: u64
    reads = {"drops": "packets that were not marked but dropped"}
    see = ("SetIPECN", "BandwidthRatedSplitter")
    example = f"""
        InfiniteSource(DATA {PACKET}, LIMIT 3) -> MarkIPHeader -> MarkIPCE -> c :: CheckIPHeader
            -> IPClassifier(ip ce) -> marked :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "marked.count": "3"}

    def process(self, p: Packet) -> Port:
        if not p.has_network:
            self.drops += 1
            self.kill(p, "no IP header")
            return
        old = p.net.u16(0)
        if old & 3 == 0 and not self.force:
            self.drops += 1
            self.kill(p, "not ECN-capable")
            return
        p.ip.checksum = checksum_adjust(p.ip.checksum, old, old | 3)
        p.net.set_u16(0, old | 3)
        return 0
