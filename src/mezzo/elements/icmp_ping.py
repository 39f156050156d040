"""ICMPPingSource and ICMPPingResponder: echo requests and their answers (RFC 792)."""

from math import isqrt

from mezzo.elements import (
    REQUIRED,
    U16,
    Arg,
    Array,
    Blob,
    Bool,
    Data,
    Duration,
    Element,
    Int,
    IPAddress,
    Packet,
    Port,
    checksum_adjust,
    entry,
    flag,
    i64,
    python,
    read,
    u16,
    u32,
    u64,
    walltime,
    write,
)
from mezzo.wire.address import format_ip
from mezzo.wire.ipv4 import Ipv4

ICMP, ECHO_REPLY, ECHO = 1, 0, 8
FRAGMENT = 0x3FFF
REQUEST_TTL = 200
ANSWERED = 1 << 63  # in a time of sending


def _ms(us):
    return f"{us // 1000}.{us % 1000:03}"


class ICMPPingResponder(Element):
    """Turns ICMP echo requests into their answers.

    Expects marked IP packets. The answer goes back to where the request came from: it has the destination annotation,
    a time to live of 255, paint 0. Other packets leave by output 1, or are dropped where it is not connected.
    """

    ports, processing = "1/1-2", "a/ah"
    see = ("ICMPPingSource", "ICMPError")
    example = """
        s :: ICMPPingSource(10.0.0.1, 10.0.0.2, LIMIT 3, STOP true, VERBOSE false) -> r :: ICMPPingResponder
            -> c :: CheckICMPHeader -> d :: Counter -> Discard;
    """
    example_reads = {"c.drops": "0", "d.count": "3"}

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.ip.protocol != ICMP:
            return 1, "not an ICMP echo request"
        if p.ip.frag & FRAGMENT != 0 or u32(p.transport_offset) + 8 > p.length or p.icmp.type != ECHO:
            return 1, "not an ICMP echo request"
        src = p.ip.src
        p.ip.src = p.ip.dst
        p.ip.dst = src
        p.ip.frag = 0
        p.ip.ttl = 255
        p.ip.checksum = 0
        p.ip.checksum = u16(~p.net.sum16(0, u32(p.ip.ihl) * 4))
        p.icmp.checksum = checksum_adjust(p.icmp.checksum, p.trans.u16(0), ECHO_REPLY << 8)
        p.trans.set_u16(0, ECHO_REPLY << 8)
        p.dst_ip = src
        p.timestamp = walltime()
        p.paint = 0
        return 0


class ICMPPingSource(Element):
    """Sends ICMP echo requests from SRC to DST, one every INTERVAL, and reports on the answers that come to its input.

    With a pull output it makes a request for every pull. Like ping(1) it says a line for every answer and sums up at
    the end.
    """

    ports, processing = "0-1/1", "h/a"
    src = Arg(IPAddress(), REQUIRED, "source address", live=u32)
    dst = Arg(IPAddress(), REQUIRED, "destination address", live=u32)
    interval = Arg(Duration("s"), 10**9, "time between requests", positional=False, live=u64)
    identifier = Arg(U16(), 0, "ICMP identifier of the requests", positional=False)
    data = Arg(Data(), b"", "payload of the requests", positional=False)
    limit = Arg(Int(), -1, "requests to send; negative: no limit", positional=False, live=i64)
    active = Arg(Bool(), True, "are requests sent", positional=False, live=flag)
    verbose = Arg(Bool(), True, "say a line for every answer, and sum up at the end", positional=False)
    stop = Arg(Bool(), False, "stop the router after LIMIT requests", positional=False)
    mirror = Arg(Bool(), False, "answers make the next request at once; then there is no LIMIT", positional=False)
    body: Blob
    places = 1
    count: i64
    received: u64
    duplicates: u64
    rtt_sum: u64  # µs
    rtt_squares: u64
    rtt_low: u64
    rtt_high: u64
    sent: Array[u64, "places"]  # when, by sequence number
    ended: flag
    armed: flag  # the timer is set
    reads = {"count": "requests sent"}
    see = ("ICMPPingResponder",)
    example = """
        p :: ICMPPingSource(10.0.0.1, 10.0.0.2, INTERVAL 0.1, LIMIT 3, VERBOSE false)
            -> ICMPPingResponder -> Queue -> DelayUnqueue(5ms) -> [0]p;
    """
    example_reads = {"p.count": "3"}

    def configure(self):
        self.size = len(self.data)
        self.body.bind(bytes(self.data))
        self.hears = self.ninputs > 0
        self.pushes = self.output_kinds[:1] != ("pull",)
        self.places = 65536 if self.hears else 1
        if self.interval == 0:
            self.warn("an INTERVAL of 0 sends requests without a pause")

    def init(self):
        self.go_on(self.interval)

    @entry
    def go_on(self, wait: u64):
        if self.pushes and self.active and not self.armed and not self.spent():
            self.armed = True
            self.timer_after(wait)

    def timer(self):
        self.armed = False
        if not self.active or self.spent():
            return
        p = self.make(28 + self.size)
        if p is not None:
            self.write_request(p)
            self.push(0, p)
        self.end()
        self.go_on(self.interval)

    def pull(self, port):
        if not self.active or self.spent():
            self.end()
            return None
        p = self.make(28 + self.size)
        if p is not None:
            self.write_request(p)
        return p

    def push(self, port, p):
        if self.is_answer(p):
            at = u32(p.icmp.seq)
            when = self.sent[at]
            if when != 0:
                self.note(p, when & (ANSWERED - 1), when >= ANSWERED)
                self.sent[at] = when | ANSWERED
                if self.mirror and self.pushes:
                    q = self.make(28 + self.size)
                    if q is not None:
                        self.write_request(q)
                        self.push(0, q)
        self.kill(p)

    def spent(self) -> bool:
        return self.limit >= 0 and self.count >= self.limit

    def end(self):
        if self.stop and not self.ended and self.spent():
            self.ended = True
            self.please_stop()

    def write_request(self, p: Packet):
        number = u16(u64(self.count) % 0xFFFF) + 1  # never 0
        p.set_u64(0, u64(0x45000000 | p.length) << 32 | u64(number) << 16)
        p.set_u64(8, u64(REQUEST_TTL << 24 | ICMP << 16) << 32 | u64(self.src))
        p.set_u32(16, self.dst)
        p.set_u16(10, u16(~p.sum16(0, 20)))
        p.set_u64(20, u64(ECHO << 24) << 32 | u64(u32(self.identifier << 16) | number))
        if self.size > 0:
            p.write(28, self.body, 0, self.size)
        p.set_u16(22, u16(~p.sum16(20, 8 + self.size)))
        p.set_network(0)
        p.set_transport(20)
        p.dst_ip = self.dst
        p.timestamp = walltime()
        if self.hears:
            self.sent[number] = walltime()
        self.count += 1

    def is_answer(self, p: Packet) -> bool:
        if not p.has_network or p.ip.protocol != ICMP or u32(p.transport_offset) + 8 > p.length:
            return False
        return p.icmp.type == ECHO_REPLY and p.icmp.id == self.identifier

    def note(self, p: Packet, when: u64, again: bool):
        time: u64 = 0
        if p.timestamp > when:
            time = (p.timestamp - when) // 1000
        if again:
            self.duplicates += 1
        if self.received == 0 or time < self.rtt_low:
            self.rtt_low = time
        if time > self.rtt_high:
            self.rtt_high = time
        self.received += 1
        self.rtt_sum += time
        self.rtt_squares += time * time
        if self.verbose:
            self.tell(p, time)

    # -- in Python

    @python
    def please_stop(self):
        self.router.please_stop()

    @python
    def tell(self, p, time):
        ip = Ipv4.unpack(bytes(p.data[p.mark("net") :][:20]))
        size = ip["total_length"] - ip["ihl"] * 4 - 8
        number = int.from_bytes(p.data[p.mark("trans") + 6 :][:2], "big")
        words = f"icmp_seq={number} ttl={ip['ttl']} time={_ms(time)} ms"
        self.say(f"{self._title()}: {size} bytes from {format_ip(ip['src'])}: {words}")

    def _title(self):
        return f"{self.name} :: {type(self).__name__}"

    def cleanup(self):
        if self.hears and self.verbose and self.engine is not None:
            for line in self.summary().splitlines():
                self.say(f"{self._title()}: {line}")

    @read("summary", "packets sent and received, loss and round-trip times, as ping(1) says them")
    def summary(self):
        fresh = self.received - self.duplicates
        text = f"{self.count} packets transmitted, {fresh} received"
        if self.duplicates:
            text += f", +{self.duplicates} duplicates"
        if self.count:
            text += f", {(self.count - fresh) * 100 // self.count}% packet loss\n"
        if self.received:
            mean = self.rtt_sum // self.received
            spread = isqrt(max(self.rtt_squares // self.received - mean * mean, 0))
            times = "/".join(map(_ms, (self.rtt_low, mean, self.rtt_high, spread)))
            text += f"rtt min/avg/max/mdev = {times}\n"
        return text

    @read("rtt_min", "shortest round trip, s")
    def rtt_min(self):
        return f"{self.rtt_low / 10**6:.6f}"

    @read("rtt_avg", "mean round trip, s")
    def rtt_avg(self):
        return f"{self.rtt_sum // max(self.received, 1) / 10**6:.6f}"

    @read("rtt_max", "longest round trip, s")
    def rtt_max(self):
        return f"{self.rtt_high / 10**6:.6f}"

    @write("active", "starts or stops sending")
    def set_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)
        self._go_on(0)

    @write("limit", "requests to send in all")
    def set_limit(self, text):
        self.limit, self.ended = Int().parse(text.strip(), self.env), False
        self._go_on(self.interval)

    @write("reset_counts", "sets all counts to 0", flags="b")
    def reset_counts(self, text):
        self.count = self.received = self.duplicates = 0
        self.rtt_sum = self.rtt_squares = self.rtt_low = self.rtt_high = 0
        self.ended = False
        self.sent.load([0] * self.places)
        self._go_on(self.interval)

    def _go_on(self, wait):
        self.call("go_on", wait)
        self.wake_downstream()
