"""IPRewriter, TCPRewriter, UDPRewriter: three sets of lifetimes for one translation."""

from mezzo.elements import Arg, Duration
from mezzo.elements.rewriter_flows import SECOND
from mezzo.elements.rewriter_napt import _Napt

STREAMING = "the same for flows of three packets or more, both ways; else {}"


class _ByTcp(_Napt):
    """Lifetimes of TCP flows."""

    tcp_timeout = Arg(Duration(), 86400 * SECOND, "life of a TCP flow without packets", positional=False)
    tcp_done_timeout = Arg(Duration(), 240 * SECOND, "the same when both sides have closed", positional=False)
    tcp_nodata_timeout = Arg(Duration(), 300 * SECOND, "the same before both sides have sent data", positional=False)
    tcp_guarantee = Arg(Duration(), None, "GUARANTEE for TCP", positional=False)

    def times(self):
        return [self.tcp_nodata_timeout, self.tcp_timeout, self.tcp_done_timeout]

    def guarantees(self):
        return [self.guarantee if self.tcp_guarantee is None else self.tcp_guarantee] * 3


class _ByUdp(_Napt):
    """Lifetimes of UDP flows."""

    udp_timeout = Arg(Duration(), 300 * SECOND, "life of a UDP flow without packets", positional=False)
    udp_streaming_timeout = Arg(Duration(), None, STREAMING.format("UDP_TIMEOUT"), positional=False)
    udp_guarantee = Arg(Duration(), None, "GUARANTEE for UDP", positional=False)

    def udp_times(self):
        stream = self.udp_streaming_timeout
        return [self.udp_timeout, self.udp_timeout if stream is None else stream]

    def udp_guarantees(self):
        return [self.guarantee if self.udp_guarantee is None else self.udp_guarantee] * 2


class IPRewriter(_ByTcp, _ByUdp):
    """Rewrites addresses and ports of TCP and UDP packets, and those of replies back: NAT with ports, load balancing.

    Expects marked IP packets. A packet of a known flow is rewritten and leaves by the flow's output, whatever input it
    came by. Others are handled as the specification of their input says: `drop`; `pass OUTPUT`; `keep FOUTPUT ROUTPUT`
    makes a flow that changes nothing; `pattern SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT` one that gives packets these
    addresses and ports (`-` leaves one as it is) and sends them to FOUTPUT, and replies, changed back, to ROUTPUT.
    SADDR or SPORT may be a range, `1024-65535`, of which a free value is taken: the packet's own or one by chance, with
    `#` behind it the next, with `?` one by chance. `pattern NAME FOUTPUT ROUTPUT` uses an IPRewriterPatterns, and the
    name of a RoundRobinIPMapper or SourceIPHashMapper its patterns. Later fragments follow the first.
    """

    see = ("TCPRewriter", "UDPRewriter", "IPAddrRewriter", "ICMPPingRewriter", "ICMPRewriter", "IPRewriterPatterns")
    example = """
        InfiniteSource(DATA x, LIMIT 3) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> [0] nat :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);
        InfiniteSource(DATA y, LIMIT 3) -> UDPIPEncap(9.9.9.9, 53, 1.0.0.1, 1024) -> [1] nat;
        nat[0] -> Discard; nat[1] -> c :: CheckUDPHeader -> back :: Counter -> Discard;
    """
    example_reads = {"nat.nmappings": "1", "c.drops": "0", "back.count": "3"}

    def times(self):
        return _ByTcp.times(self) + self.udp_times()

    def guarantees(self):
        return _ByTcp.guarantees(self) + self.udp_guarantees()


class UDPRewriter(_ByUdp):
    """As IPRewriter, with the same lifetimes for UDP and TCP; meant for UDP."""

    timeout = Arg(Duration(), None, "UDP_TIMEOUT", positional=False)
    streaming_timeout = Arg(Duration(), None, "UDP_STREAMING_TIMEOUT", positional=False)
    see = ("IPRewriter", "TCPRewriter")
    example = """
        InfiniteSource(DATA x, LIMIT 3) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> r :: UDPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0) -> c :: CheckUDPHeader -> Discard;
    """
    example_reads = {"r.nmappings": "1", "c.drops": "0"}

    def times(self):
        short, stream = self.udp_times()
        if self.timeout is not None:
            short = stream = self.timeout
        if self.streaming_timeout is not None:
            stream = self.streaming_timeout
        return [short, stream, short, short, stream]

    def guarantees(self):
        return self.udp_guarantees()[:1] * 5
