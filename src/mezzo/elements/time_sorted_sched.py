"""TimeSortedSched: several streams of packets, each in the order of time, become one.

Up to BUFFER packets of each input wait here, in a heap by their time; of equal times the one that came first goes
first.  An input that has no packet is not waited for: what it gives later may be late, and `well_ordered` says so.
"""

from mezzo.elements import Arg, Array, Bool, Element, Int, Slots, flag, python, u32, u64
from mezzo.elements._upstream import is_at_work, upstream_of

MOST_PLACES = 1 << 16
DEPTH = 17  # a heap of 2^17
FIRST_LOOK_NS, LAST_LOOK_NS = 1_000_000, 1_000_000_000


class TimeSortedSched(Element):
    """Gives the packet with the earliest timestamp of those that its inputs have.

    With STOP the router stops when no packet is left, and no element in front has anything to do any more.
    """

    ports, processing = "-/1", "l/l"
    stop = Arg(Bool(), False, "stop the router when no packets are left", positional=False)
    buffer = Arg(Int(1, MOST_PLACES), 1, "packets of each input that wait here to be sorted", positional=False)
    places = 1
    ninputs = 0  # the graph sets it
    held: Slots["places"]
    times: Array[u64, "places"]
    order: Array[u64, "places"]
    owner: Array[u32, "places"]
    heap: Array[u32, "places"]
    free: Array[u32, "places"]  # those from `waiting` on have no packet
    of_input: Array[u32, "places"]  # how many of each input wait
    waiting: u32
    came: u64
    last: u64
    look_after: u64
    well_ordered: flag
    reads = {"well_ordered": "have all packets so far left in the order of time"}
    limits = {"inputs times BUFFER": MOST_PLACES}
    example = """FromDump(examples/captures/eth0-in.pcap) -> [0] t :: TimeSortedSched(STOP true);
FromDump(examples/captures/eth1-in.pcap) -> [1] t;
t -> c :: Counter -> Unqueue -> Discard;"""
    example_reads = {"c.count": "452", "t.well_ordered": "true"}
    see = ("FromDump", "PrioSched")

    def configure(self):
        self.places = max(self.ninputs * self.buffer, 1)
        if self.places > MOST_PLACES:
            raise ValueError(f"{self.ninputs} inputs with {self.buffer} packets each; at most {MOST_PLACES} in all")
        for i in range(self.places):
            self.free[i] = i
        self.well_ordered = True

    def hands_over(self, old):
        return list(self.state_specs)  # `free` too: it belongs to the heap

    def moved(self, old):
        """With other inputs or another BUFFER the heap is made anew of the packets that are there."""
        if (self.places, self.ninputs) != (old.places, old.ninputs):
            taken = [place for place, frame in enumerate(self.held.dump()) if frame >= 0]
            taken.sort(key=lambda place: (self.times[place], self.order[place]))
            for place in taken:
                self.owner[place] = min(self.owner[place], max(self.ninputs, 1) - 1)  # of inputs that went
            owners = [self.owner[place] for place in taken]
            self.heap.load(taken)  # what is sorted is a heap
            self.free.load([*taken, *sorted({*range(self.places)} - {*taken})])
            self.of_input.load([owners.count(i) for i in range(self.places)])
            self.waiting = len(taken)

    # -- the heap

    def before(self, a: u32, b: u32) -> bool:
        return self.times[a] < self.times[b] or (self.times[a] == self.times[b] and self.order[a] < self.order[b])

    def rise(self, place: u32):
        """Puts a place behind the last one, and to where it belongs."""
        at: u32 = self.waiting
        for _ in range(DEPTH):
            if at == 0:
                break
            parent = (at - 1) >> 1
            if not self.before(place, self.heap[parent]):
                break
            self.heap[at] = self.heap[parent]
            at = parent
        self.heap[at] = place

    def sink(self, place: u32):
        """Puts a place first, and to where it belongs among `waiting`."""
        at: u32 = 0
        for _ in range(DEPTH):
            child = 2 * at + 1
            if child >= self.waiting:
                break
            if child + 1 < self.waiting and self.before(self.heap[child + 1], self.heap[child]):
                child += 1
            if not self.before(self.heap[child], place):
                break
            self.heap[at] = self.heap[child]
            at = child
        self.heap[at] = place

    def enter(self, owner: u32, time: u64) -> u32:
        """A place for a packet, entered in the heap."""
        place = self.free[self.waiting]
        self.times[place] = time
        self.order[place] = self.came
        self.came += 1
        self.owner[place] = owner
        self.of_input[owner] += 1
        self.rise(place)
        self.waiting += 1
        return place

    def leave(self) -> u32:
        """The earliest place, taken off the heap."""
        place = self.heap[0]
        self.waiting -= 1
        self.free[self.waiting] = place
        self.of_input[self.owner[place]] -= 1
        if self.waiting != 0:
            self.sink(self.heap[self.waiting])
        if self.times[place] < self.last:
            self.well_ordered = False
        self.last = self.times[place]
        return place

    # -- packets

    def pull(self, port):
        for i in range(self.ninputs):
            for _ in range(self.buffer):
                if self.of_input[i] >= self.buffer:
                    break
                p = self.pull(i)
                if p is None:
                    break
                place = self.enter(i, p.timestamp)
                self.held.put(place, p)
        if self.waiting == 0:
            if self.stop and self.look_after == 0:
                self.look_after = FIRST_LOOK_NS
                self.timer_after(FIRST_LOOK_NS)
            return None
        q = self.held.take(self.leave())
        return q

    def timer(self):
        if self.waiting != 0 or self.ask_whether_over() != 0:
            self.look_after = 0
        else:
            self.look_after = min(self.look_after * 2, LAST_LOOK_NS)
            self.timer_after(self.look_after)

    @python
    def ask_whether_over(self):
        """Stops the router where nothing can come any more."""
        if any(is_at_work(element) for element in upstream_of(self)):
            return 0
        self.router.please_stop()
        return 1
