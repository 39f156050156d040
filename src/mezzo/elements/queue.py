"""Queues: packets are pushed in, and pulled out.

A queue wakes whoever pulls when it stops being empty, and, where it has `ready`, whoever pushes when it stops being
full.  The room for packets is made once: a power of two from CAPACITY up, 1024 at least, so CAPACITY can be lowered
and raised within it while packets flow.  That `room` bounds what is held needs no second look at the ring: where both
are compared at once, LLVM leaves out the ring's own check.
"""

from mezzo.elements import Arg, Element, Int, Ring, bounded, entry, read, u32, u64, write

LARGEST = 1 << 20
LEAST_ROOM = 1024


class SimpleQueue(Element):
    """Stores packets first in, first out; drops those that find it full.

    Packets that find it full leave by output 1 where that is connected.  Unlike Queue it never stops a source.
    """

    ports, processing = "1/1-2", "h/lh"
    aliases = ("NotifierQueue",)
    capacity = Arg(Int(0, LARGEST), 1000, "most packets held", live=u32)
    ring: Ring["room"]
    highwater_length: u32
    drops: u64
    reads = {"highwater_length": "the most packets it ever held", "drops": "packets dropped for want of room"}
    limits = {"CAPACITY": LARGEST}
    example = "InfiniteSource(LIMIT 15) -> q :: SimpleQueue(10) -> Idle;"
    example_reads = {"q.length": "10", "q.drops": "5", "q.highwater_length": "10"}
    see = ("Queue", "FrontDropQueue", "MixedQueue", "Unqueue")

    @property
    def room(self):
        return max(LEAST_ROOM, 1 << max(self.capacity_at_start - 1, 0).bit_length())

    def configure(self):
        self.capacity_at_start = self.capacity

    def push(self, port, p):
        n = len(self.ring)
        if n >= min(self.capacity, self.room):
            self.drops += 1
            self.push(1, p, "full")
            return
        self.ring.push(p)
        if n >= self.highwater_length:
            self.highwater_length = n + 1
        if n == 0:
            self.wake_down()

    def pull(self, port):
        p = self.ring.pop()
        return p

    @entry
    def shorten(self):
        """Packets beyond CAPACITY die, the newest first."""
        for _ in bounded(len(self.ring), self.room):
            if len(self.ring) <= self.capacity:
                break
            p = self.ring.pop_back()
            if p is not None:
                self.kill(p, "capacity lowered")

    @entry
    def empty(self):
        for _ in bounded(len(self.ring), self.room):
            p = self.ring.pop()
            if p is not None:
                self.kill(p, "reset")

    @read("length", "packets in the queue")
    def length(self):
        return len(self.ring)

    @write("capacity", "most packets held; those beyond it are dropped")
    def set_capacity(self, text):
        value = type(self).capacity.kind.parse(text.strip(), self.env)
        if value > self.room:
            raise ValueError(f"{value} is out of range; it can be {self.room} at most here, declare it larger")
        self.capacity = value
        self.call("shorten")
        self.wake_upstream()

    @write("reset_counts", "sets drops and highwater_length to 0")
    def reset_counts(self, text):
        self.drops = 0
        self.highwater_length = 0

    @write("reset", "drops all packets in the queue")
    def reset(self, text):
        self.call("empty")
        self.wake_upstream()


class Queue(SimpleQueue):
    """Stores packets first in, first out.

    A source that asks stops while the queue is full.  Other packets that find it full leave by output 1 where that is
    connected, and are dropped elsewhere.

    Threads may push and pull at the same time: a lock is taken only where several push, or several pull.
    """

    aliases = ("FullNoteQueue", "ThreadSafeQueue")
    example = "InfiniteSource(LIMIT 15) -> q :: Queue(10) -> Idle;"
    example_reads = {"q.length": "10", "q.drops": "0", "q.capacity": "10"}
    see = ("SimpleQueue", "FrontDropQueue", "MixedQueue", "Unqueue")

    def ready(self) -> bool:
        return len(self.ring) < min(self.capacity, self.room)

    def pull(self, port):
        n = len(self.ring)
        if n == 0:
            return None
        p = self.ring.pop()
        if n >= self.capacity:
            self.wake_up()
        return p


class FrontDropQueue(SimpleQueue):
    """Stores packets first in, first out; when full, the oldest one makes room.

    The oldest leaves by output 1 where that is connected.
    """

    aliases = ()
    example = "InfiniteSource(LIMIT 15) -> q :: FrontDropQueue(10) -> Idle;"
    see = ("Queue", "MixedQueue")

    def push(self, port, p):
        n = len(self.ring)
        if n >= self.capacity:
            self.drops += 1
            old = self.ring.pop()
            if old is None:
                self.push(1, p, "full")
                return
            self.ring.push(p)
            self.push(1, old, "full")
            return
        self.ring.push(p)
        if n >= self.highwater_length:
            self.highwater_length = n + 1
        if n == 0:
            self.wake_down()


class MixedQueue(SimpleQueue):
    """Stores packets: those of input 0 first in, first out, those of input 1 in front of all others.

    When it is full, a packet from input 0 is dropped; one from input 1 drops the packet at the back.  Dropped packets
    leave by output 1 where that is connected.
    """

    ports = "2/1-2"
    aliases = ()
    example = "InfiniteSource(LIMIT 9) -> q :: MixedQueue(10) -> Idle; InfiniteSource(LIMIT 3) -> [1] q;"
    example_reads = {"q.length": "10", "q.drops": "2", "q.highwater_length": "10"}
    see = ("Queue", "FrontDropQueue")

    def push(self, port, p):
        n = len(self.ring)
        if n >= self.capacity:
            self.drops += 1
            if port == 0 or n == 0:
                self.push(1, p, "full")
                return
            old = self.ring.pop_back()
            self.ring.push_front(p)
            if old is not None:
                self.push(1, old, "full")
            return
        if port == 0:
            self.ring.push(p)
        else:
            self.ring.push_front(p)
        if n >= self.highwater_length:
            self.highwater_length = n + 1
        if n == 0:
            self.wake_down()
