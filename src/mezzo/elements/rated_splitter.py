"""What is within a rate goes one way, and the rest another: token buckets (see `_bucket`) that never wait."""

from mezzo.elements import Arg, Bandwidth, Duration, Int, Packet, Port, i64, u64
from mezzo.elements._bucket import DEFAULT_BURST_NS, UNIT
from mezzo.elements.rated_unqueue import FASTEST, _Bucket


class RatedSplitter(_Bucket):
    """Sends up to RATE packets a second by output 0, and the rest by output 1, or drops them where it is not connected.

    After idle time it lets at most BURST_SIZE packets pass at once, or what BURST_DURATION brings.
    """

    ports, processing = "1/1-2", "h/h"
    rate = Arg(Int(0, FASTEST), doc="packets a second", live=u64)
    burst_duration = Arg(Duration(), DEFAULT_BURST_NS, "time that a burst may take up", positional=False)
    burst_size = Arg(Int(0, 1 << 32), None, "packets of a burst", positional=False)
    excess: u64
    reads = {"excess": "packets over the rate"}
    example = """RatedSource(RATE 100, LIMIT 100) -> s :: RatedSplitter(50);
s[0] -> in :: Counter -> Discard; s[1] -> over :: Counter -> Discard;"""
    example_reads = {"in.count": "50", "over.count": "50"}
    see = ("BandwidthRatedSplitter", "RatedUnqueue", "Shaper")

    def process(self, p: Packet) -> Port:
        self.refill()
        if self.tokens < 0 or self.rate == 0:
            self.excess += 1
            return 1, "over the rate"
        self.tokens -= UNIT * i64(p.length) if self.by_bytes else UNIT
        return 0


class BandwidthRatedSplitter(RatedSplitter):
    """Sends packets up to a bandwidth by output 0, and the rest by output 1, or drops them where it is not connected.

    After idle time it lets at most BURST_BYTES pass at once, or what BURST_DURATION brings.
    """

    by_bytes = True
    rate = Arg(Bandwidth(), doc="bandwidth, such as 384kbps", live=u64)
    burst_size = Arg(Int(0, 1 << 32), None, "bytes of a burst", positional=False, keyword="BURST_BYTES")
    example = """RatedSource(RATE 100, LENGTH 1000, LIMIT 100) -> s :: BandwidthRatedSplitter(50kBps);
s[0] -> in :: Counter -> Discard; s[1] -> over :: Counter -> Discard;"""
    example_reads = {"in.count": "50", "over.count": "50"}
    see = ("RatedSplitter", "BandwidthShaper", "MarkIPCE")
