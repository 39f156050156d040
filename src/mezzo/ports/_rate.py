"""A limit on how fast slots pass an end: a token bucket over bytes (`mezzo.elements._bucket` says why it is exact).

    ToDevice(eth0, RATE 10Mbps)

It holds back, and loses nothing: a receiving end leaves packets in the ring, a sending one does not pull.
"""

from mezzo.elements import Element, i64, now, u32, u64
from mezzo.elements._bucket import DEFAULT_BURST_NS, UNIT, full_units, refilled, span_of, wait_ns


class _Rated(Element):
    """The bucket; an end inherits it and calls `set_rate`."""

    tokens: i64
    refilled_ns: u64

    def set_rate(self, rate: int) -> None:
        """Configuration: bytes a second; 0 is no limit."""
        self.limited, self.per_second = bool(rate), rate
        self.brim = full_units(rate, None, DEFAULT_BURST_NS)
        self.brim_span = span_of(rate, self.brim)
        self.tokens = self.brim

    def refill(self):
        time = now()
        self.tokens = refilled(self.tokens, time - self.refilled_ns, self.per_second, self.brim, self.brim_span)
        self.refilled_ns = time

    def spend(self, length: u32):
        self.tokens -= i64(u64(length) * UNIT)

    def paid_at(self) -> u64:
        """When the bucket is out of debt."""
        return self.refilled_ns + wait_ns(u64(-self.tokens) + 1, self.per_second)
