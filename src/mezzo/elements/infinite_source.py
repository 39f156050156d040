"""Packets as fast as anybody takes them."""

from mezzo.elements import (
    Arg,
    Blob,
    Bool,
    Data,
    Element,
    Int,
    Packet,
    Raw,
    bounded,
    flag,
    i64,
    python,
    random,
    read,
    u8,
    u32,
    u64,
    walltime,
    write,
)

MOST = 1 << 20
LONGEST = 0xFFFF
TEXT = b"Sixty-four bytes that mean nothing, sent by mezzo to fill a frame"[:64]
FIRST_WAIT_NS = 10**6
LAST_WAIT_NS = 3600 * 10**9


def packet_bytes(data, length):
    """DATA cut or repeated to LENGTH bytes; as it is when LENGTH is negative."""
    if length < 0:
        return data
    return ((data or b"\0") * (length // max(len(data), 1) + 1))[:length]


class _Source(Element):
    """What sources share: a count, its limit, the end.  Subclasses have the arguments limit active stop end_call."""

    ports, processing = "0/1", "/a"
    count: u64
    wait: u64
    ended: flag
    reads = ("count",)

    def configure(self):
        self.ends = self.stop or bool(self.end_call)

    def later(self):
        """No frame is free, and nobody tells when one is."""
        self.wait = max(2 * self.wait, FIRST_WAIT_NS)
        if self.wait <= LAST_WAIT_NS:
            self.timer_after(self.wait)

    def timer(self):
        self.wake()
        self.wake_down()

    def spent(self) -> bool:
        """LIMIT packets are made; whoever waits for that hears it once."""
        if self.limit < 0 or i64(self.count) < self.limit:
            return False
        if self.ends and not self.ended:
            self.ended = True
            self.finish()
        return True

    def share(self) -> u32:
        """How many packets to make in this run of the task."""
        if not self.active:
            return 0
        if self.spent():
            return 0
        n: u32 = self.burst
        if self.limit >= 0 and self.limit - i64(self.count) < i64(n):
            n = u32(self.limit - i64(self.count))
        return n

    @python
    def finish(self):
        if self.end_call:
            handler, _, value = self.end_call.partition(" ")
            self.router.write(handler, value.strip())
        if self.stop:
            self.router.please_stop()

    def rouse(self):
        self.wake_task()
        self.wake_downstream()

    @write("active", "goes on, or stops, making packets")
    def set_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)
        self.rouse()

    @write("limit", "packets to make in all")
    def set_limit(self, text):
        self.limit = Int().parse(text.strip(), self.env)
        self.ended = False
        self.rouse()

    @write("reset", "sets count to 0: LIMIT more packets are made")
    def reset(self, text):
        self.count = 0
        self.ended = False
        self.rouse()


class _DataSource(_Source):
    """A source whose packets are all alike.  Subclasses have the arguments data and length."""

    frame: Blob
    size: u32

    def configure(self):
        super().configure()
        self.fixed = len(packet_bytes(self.data, self.length))
        self.make_frame()

    def make_frame(self):
        made = packet_bytes(self.data, self.length)
        self.frame.bind(made)
        self.size = len(made)

    @read("data", "bytes of each packet")
    def read_data(self):
        return type(self).data.kind.show(self.data)

    @write("data", "bytes of each packet from now on")
    def write_data(self, text):
        self.data = Data().parse(text.strip(), self.env)
        self.make_frame()

    @read("length", "length of each packet")
    def read_length(self):
        return self.size

    @write("length", "length of each packet from now on; -1: that of DATA")
    def write_length(self, text):
        self.length = Int(-1, LONGEST).parse(text.strip(), self.env)
        self.make_frame()


class InfiniteSource(_DataSource):
    """Makes packets whenever it is scheduled.

    Pushes BURST packets a scheduling, or gives one a pull, each a fresh frame.  It stops after LIMIT packets, and while
    a queue behind it is full.  Where no frame is free it tries again after 1 ms, 2 ms, 4 ms …, up to an hour.
    """

    data = Arg(Data(), TEXT, "bytes of each packet")
    limit = Arg(Int(), -1, "packets to make; -1: no end", live=i64)
    burst = Arg(Int(1, MOST), 1, "packets a scheduling", live=u32)
    active = Arg(Bool(), True, "whether it makes packets", live=flag)
    length = Arg(Int(-1, LONGEST), -1, "bytes a packet: DATA is cut or repeated; -1: as DATA is", positional=False)
    timestamp = Arg(Bool(), True, "sets the timestamp", positional=False)
    stop = Arg(Bool(), False, "stops the router after LIMIT packets", positional=False)
    end_call = Arg(Raw(), "", "`HANDLER [VALUE]` to write after LIMIT packets", positional=False)
    example = "InfiniteSource(LIMIT 5, BURST 2) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "5", "c.byte_count": "320"}
    see = ("RatedSource", "TimedSource", "RandomSource")

    def task(self) -> bool:
        n = self.share()
        if n == 0:
            return False
        stamp = walltime()
        size = self.size
        made: u32 = 0
        # A known length makes the copy a few instructions, and a loop without calls keeps the pool in registers.
        if size == self.fixed:
            for _ in bounded(n, MOST):
                if not self.ready(0):
                    break
                p = self.make_from(self.frame, 0, self.fixed)
                if p is None:
                    break
                if self.timestamp:
                    p.timestamp = stamp
                made += 1
                self.push(0, p)
        else:
            for _ in bounded(n, MOST):
                if not self.ready(0):
                    break
                p = self.make_from(self.frame, 0, size)
                if p is None:
                    break
                if self.timestamp:
                    p.timestamp = stamp
                made += 1
                self.push(0, p)
        if made != n and self.ready(0):
            self.later()
        self.count += made
        if made != n:
            return False
        self.wait = 0
        return not self.spent()

    def pull(self, port):
        if not self.active:
            return None
        if self.spent():
            return None
        p = self.make_from(self.frame, 0, self.size)
        if p is None:
            self.later()
            return None
        self.wait = 0
        self.count += 1
        if self.timestamp:
            p.timestamp = walltime()
        return p


class RandomSource(_Source):
    """Makes packets of LENGTH random bytes whenever it is scheduled."""

    length = Arg(Int(0, LONGEST), doc="bytes a packet")
    limit = Arg(Int(), -1, "packets to make; -1: no end", live=i64)
    burst = Arg(Int(1, MOST), 1, "packets a scheduling", live=u32)
    active = Arg(Bool(), True, "whether it makes packets", live=flag)
    stop = Arg(Bool(), False, "stops the router after LIMIT packets", positional=False)
    end_call = Arg(Raw(), "", "`HANDLER [VALUE]` to write after LIMIT packets", positional=False)
    example = "RandomSource(100, LIMIT 5) -> c :: Counter -> Discard;"
    example_reads = {"c.count": "5", "c.byte_count": "500"}
    see = ("InfiniteSource",)

    def configure(self):
        super().configure()
        self.quads, self.rest = self.length // 4, tuple(range(self.length // 4 * 4, self.length))

    def fill(self, p: Packet):
        for i in range(self.quads):
            p.set_u32(4 * i, random())
        for i in self.rest:
            p.set_u8(i, u8(random()))
        p.timestamp = walltime()

    def task(self) -> bool:
        n = self.share()
        made: u32 = 0
        for _ in bounded(n, MOST):
            if not self.ready(0):
                break
            p = self.make(self.length)
            if p is None:
                self.later()
                break
            self.fill(p)
            made += 1
            self.push(0, p)
        self.count += made
        if made != n or n == 0:
            return False
        self.wait = 0
        return not self.spent()

    def pull(self, port):
        if not self.active:
            return None
        if self.spent():
            return None
        p = self.make(self.length)
        if p is None:
            self.later()
            return None
        self.fill(p)
        self.wait = 0
        self.count += 1
        return p
