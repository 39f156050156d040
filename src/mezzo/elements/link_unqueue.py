"""A serial link: a transmitter of some bandwidth, and a wire of some latency.

A packet is pulled when the transmitter is free, occupies it for length / BANDWIDTH, and comes out LATENCY after its
last bit went in.  Packets on the wire are stored here: they do not count against any queue.  The transmitter's time is
exact: the fraction of a nanosecond a packet leaves over is added to the next, and what a late timer took (on a wall
clock) is caught up with.
"""

from mezzo.elements import (
    Arg,
    Bandwidth,
    ConfigError,
    Duration,
    Element,
    Ring,
    bounded,
    entry,
    flag,
    now,
    read,
    u64,
    walltime,
    write,
)

SMALLEST = 60
LEAST_ROOM, MOST_ROOM = 1024, 1 << 20
SECOND = 10**9
BURST = 32
EXTRA_LENGTH = 28
NEVER = (1 << 64) - 1
SLACK_NS = 20 * 10**6


class LinkUnqueue(Element):
    """Pulls packets and pushes them as a link of some latency and bandwidth would.

    The extra-length annotation counts as bytes.  A packet's timestamp becomes the time at which it comes out.
    """

    ports, processing = "1/1", "l/h"
    latency = Arg(Duration(), doc="from the last bit in to the packet out", handler=True)
    bandwidth = Arg(Bandwidth(), doc="bandwidth, such as 384kbps", handler=True)
    wire: Ring["room"]
    busy: u64
    part: u64
    waiting: flag
    limits = {"packets on the wire": MOST_ROOM}
    example = "InfiniteSource(LENGTH 1000, LIMIT 8) -> Queue -> l :: LinkUnqueue(20ms, 1Mbps) -> d :: Discard;"
    example_reads = {"d.count": "8", "l.size": "0", "l.bandwidth": "125000"}
    see = ("DelayUnqueue", "BandwidthRatedUnqueue", "Queue")

    @property
    def room(self):
        """Enough for the smallest packets back to back; a full wire only stops the pulling."""
        wanted = self.latency * self.bandwidth // (SECOND * SMALLEST) + 2
        return min(max(LEAST_ROOM, 1 << wanted.bit_length()), MOST_ROOM)

    def configure(self):
        if self.bandwidth == 0:
            raise ConfigError("BANDWIDTH: a link needs more than 0 bytes a second")

    def task(self) -> bool:
        free = self.transmit()
        head = self.deliver()
        wait = head if free == 0 else min(free, head)
        if wait != NEVER:
            self.timer_after(wait)
        return free == 0 and len(self.wire) < self.room

    def transmit(self) -> u64:
        """Fills the wire; how long until the transmitter is free, 0: ask again, NEVER: there is nothing to send."""
        t = now()
        if self.busy < t and (not self.waiting or t - self.busy > SLACK_NS):
            self.busy = t
            self.part = 0
        self.waiting = False
        for _ in range(BURST):
            if self.busy > t:
                self.waiting = True
                return self.busy - t
            if len(self.wire) >= self.room:
                return 0
            p = self.pull(0)
            if p is None:
                return NEVER
            units = (u64(p.length) + p.anno_u32(EXTRA_LENGTH)) * SECOND + self.part
            took = units // self.bandwidth
            self.part = units - took * self.bandwidth
            self.busy += took
            p.timestamp = walltime() + self.latency + (self.busy - t)
            self.wire.push(p)
        return 0

    def deliver(self) -> u64:
        """Lets packets out whose time has come; how long until the next one, NEVER when the wire is empty."""
        for _ in bounded(len(self.wire), self.room):
            p = self.wire.pop()
            if p is None:
                break
            if p.timestamp > walltime():
                wait = p.timestamp - walltime()
                self.wire.push_front(p)
                return wait
            self.push(0, p)
        return NEVER

    def timer(self):
        self.wake()

    @entry
    def clear(self):
        self.busy = 0
        for _ in bounded(len(self.wire), self.room):
            p = self.wire.pop()
            if p is not None:
                self.kill(p, "reset")

    @read("size", "packets on the wire")
    def size(self):
        return len(self.wire)

    @write("reset", "drops all packets on the wire")
    def reset(self, text):
        self.call("clear")
        self.wake_task()
