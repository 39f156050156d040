"""Rates over the time in which packets came."""

from mezzo.elements import Arg, Duration, Element, Packet, Port, flag, now, read, u64, write
from mezzo.elements._rates import mean_rate, show_rate


class AverageCounter(Element):
    """Counts packets and bytes, and tells their mean rates from the first packet to the last.

    Packets of the first IGNORE seconds are not counted.
    """

    ignore = Arg(Duration(), 0, "time after the first packet that does not count")
    count: u64
    byte_count: u64
    begun: flag
    first: u64
    last: u64
    reads = ("count", "byte_count")
    example = "RatedSource(RATE 10, LIMIT 11) -> c :: AverageCounter -> Discard;"
    example_reads = {"c.count": "11", "c.rate": "11"}
    see = ("Counter",)

    def process(self, p: Packet) -> Port:
        t = now()
        if not self.begun:
            self.begun = True
            self.first = t
        self.last = t
        if t - self.first >= self.ignore:
            self.count += 1
            self.byte_count += p.length
        return 0

    def mean(self, value):
        return show_rate(mean_rate(value, self.last - self.first - self.ignore))

    @read("rate", "packets a second")
    def rate(self):
        return self.mean(self.count)

    @read("byte_rate", "bytes a second")
    def byte_rate(self):
        return self.mean(self.byte_count)

    @write("reset", "sets counts and rates to 0")
    def reset(self, text):
        self.count = self.byte_count = self.first = self.last = 0
        self.begun = False
