"""Counts packets.

The packet path is two additions.  Rates are made when a handler asks (see `_rates`), not on the path.
"""

from mezzo.elements import Arg, ConfigError, Element, Packet, Port, Raw, python, read, u64, write
from mezzo.elements._rates import RateWindow, show_rate
from mezzo.elements.units import parse_int

NEVER = (1 << 64) - 1


def split_call(text, what):
    """`N HANDLER [VALUE]` -> (N, handler, value)."""
    parts = text.split(None, 2)
    if not parts:
        raise ConfigError(f"{what}: expected `N HANDLER [VALUE]`")
    number = parse_int(parts[0])
    if not 0 <= number < NEVER:
        raise ConfigError(f"{what}: {number} is out of range")
    handler, value = [*parts[1:], "", ""][:2]
    return number, handler, value


class Counter(Element):
    """Counts packets and bytes, and tells their rates.

    A rate is the mean since the newest reading that is at least a second old, or since the start; reading it costs
    the packets nothing.  COUNT_CALL and BYTE_COUNT_CALL call a write handler once when the count reaches N.
    """

    count_call = Arg(Raw(), "", "`N HANDLER [VALUE]`: call HANDLER at packet N", positional=False)
    byte_count_call = Arg(Raw(), "", "the same, when the byte count reaches N", positional=False)
    count: u64
    byte_count: u64
    count_at: u64
    byte_at: u64
    byte_armed: u64
    reads = ("count", "byte_count")
    example = "InfiniteSource(DATA \\<00 01 02>, LIMIT 5) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "5", "c.byte_count": "15"}
    see = ("AverageCounter",)

    def configure(self):
        self.count_handler = self.count_value = self.byte_handler = self.byte_value = ""
        self.calls_count, self.calls_bytes = bool(self.count_call), bool(self.byte_count_call)
        self.window = ()
        if self.calls_count:
            self.count_at, self.count_handler, self.count_value = split_call(self.count_call, "COUNT_CALL")
        if self.calls_bytes:
            self.byte_at, self.byte_handler, self.byte_value = split_call(self.byte_count_call, "BYTE_COUNT_CALL")
            self.byte_armed = self.byte_at

    def initialize(self):
        self.start_rates()

    def start_rates(self):
        self.window = RateWindow(self.engine.now_ns, self.count, self.byte_count)

    def process(self, p: Packet) -> Port:
        self.count += 1
        self.byte_count += p.length
        if self.calls_count and self.count == self.count_at:
            self.count_reached()
        if self.calls_bytes and self.byte_count >= self.byte_armed:
            self.byte_armed = NEVER
            self.byte_reached()
        return 0

    @python
    def count_reached(self):
        self.call_handler(self.count_handler, self.count_value)

    @python
    def byte_reached(self):
        self.call_handler(self.byte_handler, self.byte_value)

    def call_handler(self, handler, value):
        if handler:
            self.router.write(handler, value)

    def rates(self):
        return self.window.rates(self.engine.now_ns, self.count, self.byte_count)

    @read("rate", "packets a second")
    def rate(self):
        return show_rate(self.rates()[0])

    @read("byte_rate", "bytes a second")
    def byte_rate(self):
        return show_rate(self.rates()[1])

    @read("bit_rate", "bits a second")
    def bit_rate(self):
        return show_rate(8 * self.rates()[1])

    @read("count_call", "packet count at which COUNT_CALL calls")
    def read_count_call(self):
        return f"{self.count_at} {self.count_handler} {self.count_value}".strip() if self.calls_count else ""

    @read("byte_count_call", "byte count at which BYTE_COUNT_CALL calls")
    def read_byte_count_call(self):
        return f"{self.byte_at} {self.byte_handler} {self.byte_value}".strip() if self.calls_bytes else ""

    @write("count_call", "a new COUNT_CALL; the handler may be left out")
    def write_count_call(self, text):
        self.need_call(self.calls_count, "COUNT_CALL")
        at, handler, value = split_call(text, "count_call")
        self.count_at = at
        if handler:
            self.count_handler, self.count_value = handler, value

    @write("byte_count_call", "a new BYTE_COUNT_CALL; the handler may be left out")
    def write_byte_count_call(self, text):
        self.need_call(self.calls_bytes, "BYTE_COUNT_CALL")
        at, handler, value = split_call(text, "byte_count_call")
        self.byte_at = self.byte_armed = at
        if handler:
            self.byte_handler, self.byte_value = handler, value

    def need_call(self, there, keyword):
        if not there:
            raise ValueError(f"{self.name} was built without {keyword}: give it `{keyword} 0` in the configuration")

    @write("reset", "sets counts and rates to 0")
    def reset(self, text):
        self.count = 0
        self.byte_count = 0
        if self.calls_bytes:
            self.byte_armed = self.byte_at
        self.start_rates()

    @write("reset_counts", "the same as reset")
    def reset_counts(self, text):
        self.reset(text)
