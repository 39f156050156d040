"""From pull to push, at a rate."""

from mezzo.elements import Arg, Bandwidth, Bool, ConfigError, Duration, Element, Int, entry, flag, i64, now, u64, write
from mezzo.elements._bucket import DEFAULT_BURST_NS, UNIT, full_units, refilled, span_of, wait_ns

FASTEST = 10**11
BURST = 32


class _Bucket(Element):
    """What elements with a token bucket share."""

    by_bytes = False
    tokens: i64
    last: u64
    full: i64
    span: u64

    def configure(self):
        if self.rate > FASTEST:
            raise ConfigError(f"RATE: {self.rate} is out of range; at most {FASTEST} a second")
        self.fill()

    def fill(self):
        self.full = full_units(self.rate, self.burst_size, self.burst_duration)
        self.span = span_of(self.rate, self.full)

    def init(self):
        self.last = now()

    @entry
    def refill(self):
        t = now()
        if t != self.last:
            self.tokens = refilled(self.tokens, t - self.last, self.rate, self.full, self.span)
            self.last = t

    def rest(self):
        """Sleeps until the debt is paid; for ever at rate 0."""
        if self.rate != 0:
            self.timer_after(wait_ns(u64(0 - self.tokens), self.rate))

    @write("rate", "tokens a second from now on")
    def set_rate(self, text):
        rate = type(self).rate.kind.parse(text.strip(), self.env)
        if rate > FASTEST:
            raise ValueError(f"{rate} is out of range; at most {FASTEST} a second")
        self.call("refill")
        self.rate = rate
        self.fill()
        self.wake_task()
        self.wake_downstream()


class RatedUnqueue(_Bucket):
    """Pulls RATE packets a second, evenly spaced, and pushes them on.

    After idle time it catches up with at most BURST_SIZE packets, or what BURST_DURATION brings.
    """

    ports, processing = "1/1", "l/h"
    rate = Arg(Int(0, FASTEST), doc="packets a second", live=u64)
    burst_duration = Arg(Duration(), DEFAULT_BURST_NS, "time it may catch up", positional=False)
    burst_size = Arg(Int(0, 1 << 32), None, "packets it may catch up", positional=False)
    active = Arg(Bool(), True, "whether it pulls", positional=False, live=flag)
    count: u64
    reads = ("count",)
    example = "InfiniteSource(LIMIT 8) -> Queue -> u :: RatedUnqueue(7) -> d :: Discard;"
    example_reads = {"u.count": "8", "u.rate": "7"}
    see = ("BandwidthRatedUnqueue", "Unqueue", "Shaper")

    def task(self) -> bool:
        if not self.active:
            return False
        self.refill()
        for _ in range(BURST):
            if self.tokens < 0:
                self.rest()
                return False
            p = self.pull(0)
            if p is None:
                return False
            self.tokens -= UNIT * i64(p.length) if self.by_bytes else UNIT
            self.count += 1
            self.push(0, p)
        return True

    def timer(self):
        self.wake()

    @write("active", "goes on, or stops, pulling")
    def set_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)
        self.wake_task()


class BandwidthRatedUnqueue(RatedUnqueue):
    """Pulls packets at a bandwidth, and pushes them on.

    A packet leaves when the ones before have had their time: length / RATE each.  After idle time it catches up with at
    most BURST_BYTES, or what BURST_DURATION brings.
    """

    by_bytes = True
    rate = Arg(Bandwidth(), doc="bandwidth, such as 384kbps", live=u64)
    burst_size = Arg(Int(0, 1 << 32), None, "bytes it may catch up", positional=False, keyword="BURST_BYTES")
    example = "InfiniteSource(LENGTH 1000, LIMIT 8) -> Queue -> u :: BandwidthRatedUnqueue(1Mbps) -> d :: Discard;"
    example_reads = {"u.count": "8", "u.rate": "125000"}
    see = ("RatedUnqueue", "BandwidthShaper", "LinkUnqueue")
