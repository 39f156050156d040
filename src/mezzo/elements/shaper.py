"""Pull at a rate.  A pull that comes too early gives nothing; a timer wakes the puller when it would give."""

from mezzo.elements import Arg, Bandwidth, Duration, Int, i64, u64
from mezzo.elements._bucket import DEFAULT_BURST_NS, UNIT
from mezzo.elements.rated_unqueue import FASTEST, _Bucket


class Shaper(_Bucket):
    """Lets at most RATE packets a second be pulled, evenly spaced.

    After idle time it catches up with at most BURST_SIZE packets, or what BURST_DURATION brings.
    """

    ports, processing = "1/1", "l/l"
    rate = Arg(Int(0, FASTEST), doc="packets a second", live=u64)
    burst_duration = Arg(Duration(), DEFAULT_BURST_NS, "time it may catch up", positional=False)
    burst_size = Arg(Int(0, 1 << 32), None, "packets it may catch up", positional=False)
    count: u64
    reads = ("count",)
    example = "InfiniteSource(LIMIT 8) -> Queue -> s :: Shaper(1000) -> Unqueue -> d :: Discard;"
    example_reads = {"s.count": "8", "s.rate": "1000"}
    see = ("BandwidthShaper", "RatedUnqueue", "DelayShaper")

    def pull(self, port):
        self.refill()
        if self.tokens < 0:
            self.rest()
            return None
        p = self.pull(0)
        if p is None:
            return None
        self.tokens -= UNIT * i64(p.length) if self.by_bytes else UNIT
        self.count += 1
        return p

    def timer(self):
        self.wake_down()


class BandwidthShaper(Shaper):
    """Lets packets be pulled at a bandwidth.

    After idle time it catches up with at most BURST_BYTES, or what BURST_DURATION brings.
    """

    by_bytes = True
    rate = Arg(Bandwidth(), doc="bandwidth, such as 384kbps", live=u64)
    burst_size = Arg(Int(0, 1 << 32), None, "bytes it may catch up", positional=False, keyword="BURST_BYTES")
    example = "InfiniteSource(LENGTH 1000, LIMIT 8) -> Queue -> s :: BandwidthShaper(1Mbps) -> Unqueue -> d :: Discard;"
    example_reads = {"s.count": "8", "s.rate": "125000"}
    see = ("Shaper", "BandwidthRatedUnqueue")
