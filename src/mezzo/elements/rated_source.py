"""Packets at a rate, and packets at an interval."""

from mezzo.elements import (
    Arg,
    Bandwidth,
    Bool,
    ConfigError,
    Data,
    Duration,
    Int,
    Raw,
    entry,
    flag,
    i64,
    now,
    u64,
    walltime,
    write,
)
from mezzo.elements._bucket import DEFAULT_BURST_NS, UNIT, full_units, refilled, span_of, wait_ns
from mezzo.elements.infinite_source import LONGEST, TEXT, _DataSource

FASTEST = 10**11
BURST = 32


class RatedSource(_DataSource):
    """Makes RATE packets a second, evenly spaced, from the start on.

    A source that is late catches up with at most what 20 ms bring, but two packets.  It does not stop for full queues.
    """

    data = Arg(Data(), TEXT, "bytes of each packet")
    rate = Arg(Int(0, FASTEST), 10, "packets a second", live=u64)
    limit = Arg(Int(), -1, "packets to make; -1: no end", live=i64)
    active = Arg(Bool(), True, "whether it makes packets", live=flag)
    length = Arg(Int(-1, LONGEST), -1, "bytes a packet: DATA is cut or repeated; -1: as DATA is", positional=False)
    stop = Arg(Bool(), False, "stops the router after LIMIT packets", positional=False)
    bandwidth = Arg(Bandwidth(), 0, "the rate as a bandwidth, instead of RATE", positional=False)
    end_call = Arg(Raw(), "", "`HANDLER [VALUE]` to write after LIMIT packets", positional=False)
    tokens: i64
    last: u64
    speed: u64
    unit: i64
    full: i64
    span: u64
    example = "RatedSource(RATE 3, LIMIT 30) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "30", "c.byte_count": "1920"}
    see = ("InfiniteSource", "TimedSource", "RatedUnqueue")

    def configure(self):
        super().configure()
        if self.bandwidth > FASTEST:
            raise ConfigError(f"BANDWIDTH: {self.bandwidth} is out of range; at most {FASTEST} bytes a second")
        if self.bandwidth:
            self.rate = self.bandwidth // max(self.size, 1)
            self.pace(self.bandwidth, max(self.size, 1))
        else:
            self.pace(self.rate, 1)

    def pace(self, speed, weight):
        """`speed` tokens a second, `weight` of them a packet."""
        self.speed, self.unit = speed, weight * UNIT
        self.full = max(full_units(speed, None, DEFAULT_BURST_NS), 2 * self.unit)
        self.span = span_of(speed, self.full)

    def init(self):
        self.begin()

    @entry
    def begin(self):
        self.last = now()
        self.tokens = 0

    @entry
    def refill(self):
        t = now()
        if t != self.last:
            self.tokens = refilled(self.tokens, t - self.last, self.speed, self.full, self.span)
            self.last = t

    def due(self) -> bool:
        """Whether a packet may go now; else it sleeps until one may, for ever at rate 0."""
        if not self.active or self.spent():
            return False
        self.refill()
        if self.tokens < 0 and self.speed != 0:
            self.timer_after(wait_ns(u64(0 - self.tokens), self.speed))
        return self.tokens >= 0 and self.speed != 0

    def task(self) -> bool:
        for _ in range(BURST):
            if not self.due():
                return False
            self.tokens -= self.unit
            p = self.make_from(self.frame, 0, self.size)
            if p is not None:
                p.timestamp = walltime()
                self.count += 1
                self.push(0, p)
        return True

    def pull(self, port):
        if not self.due():
            return None
        self.tokens -= self.unit
        p = self.make_from(self.frame, 0, self.size)
        if p is None:
            self.later()
            return None
        p.timestamp = walltime()
        self.count += 1
        return p

    @write("rate", "packets a second from now on")
    def set_rate(self, text):
        rate = Int(0, FASTEST).parse(text.strip(), self.env)
        self.call("refill")
        self.tokens = self.tokens * UNIT // self.unit
        self.rate = rate
        self.pace(rate, 1)
        self.rouse()

    @write("active", "goes on, or stops, making packets")
    def set_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)
        self.call("begin")
        self.rouse()

    @write("reset", "sets count to 0 and starts anew")
    def reset(self, text):
        super().reset(text)
        self.call("begin")


class TimedSource(_DataSource):
    """Pushes a packet every INTERVAL.

    The first one comes after one INTERVAL.  The times do not drift; a source that is late by more than an INTERVAL
    leaves out what it missed.
    """

    processing = "/h"
    interval = Arg(Duration(), 500 * 10**6, "time between packets", live=u64)
    data = Arg(Data(), TEXT, "bytes of each packet")
    limit = Arg(Int(), -1, "packets to make; -1: no end", positional=False, live=i64)
    active = Arg(Bool(), True, "whether it makes packets", positional=False, live=flag)
    length = Arg(Int(-1, LONGEST), -1, "bytes a packet: DATA is cut or repeated; -1: as DATA is", positional=False)
    stop = Arg(Bool(), False, "stops the router after LIMIT packets", positional=False)
    end_call = Arg(Raw(), "", "`HANDLER [VALUE]` to write after LIMIT packets", positional=False)
    at: u64
    example = "TimedSource(0.333, LIMIT 5) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "5"}
    see = ("RatedSource", "InfiniteSource")

    def configure(self):
        super().configure()
        if self.interval == 0:
            raise ConfigError("INTERVAL: it must be more than 0")

    def init(self):
        self.begin()

    @entry
    def begin(self):
        self.at = now() + self.interval
        if self.active and not self.spent():
            self.timer_at(self.at)
        else:
            self.timer_clear()

    def timer(self):
        p = self.make_from(self.frame, 0, self.size)
        if p is not None:
            p.timestamp = walltime()
            self.count += 1
            self.push(0, p)
        self.at += self.interval
        if self.at <= now():
            self.at = now() + self.interval
        if self.active and not self.spent():
            self.timer_at(self.at)

    def rouse(self):
        self.call("begin")

    @write("interval", "time between packets from now on")
    def set_interval(self, text):
        interval = Duration().parse(text.strip(), self.env)
        if interval == 0:
            raise ValueError("the interval must be more than 0")
        self.interval = interval
        self.rouse()
