"""Packets from and to Python: what `Router.feed` and `Router.collect` work on."""

from mezzo.elements import U32, Arg, Element, Packet, Port, Ring, read, u64


class Feed(Element):
    """Emits the packets that Python feeds it.

    Push or pull. `Router.feed(name, packets)` puts packets in; at most CAPACITY wait.
    """

    ports, processing = "0/1", "/a"
    flow = ""
    capacity = Arg(U32(), 4096, "packets that may wait", positional=False)
    ring: Ring["capacity"]
    count: u64
    reads = ("count",)
    see = ("Collect",)

    def task(self) -> bool:
        for _ in range(32):
            if not self.ready(0):
                return False
            p = self.ring.pop()
            if p is None:
                return False
            self.count += 1
            self.push(0, p)
        return True

    def pull(self, port):
        p = self.ring.pop()
        if p is not None:
            self.count += 1
        return p

    @read("length", "packets that wait")
    def length(self):
        return len(self.ring)


class Collect(Element):
    """Keeps the packets that come, for Python to collect.

    Takes pushed packets, and pulls when its input is pull.  `Router.collect(name)` takes them out, as bytes, and
    `Router.collect_array(name)` as a numpy array; more than CAPACITY are dropped.
    """

    ports, processing = "1/0", "a/"
    flow = ""
    capacity = Arg(U32(), 4096, "packets kept", positional=False)
    ring: Ring["capacity"]
    count: u64
    reads = ("count",)
    see = ("Feed",)

    def process(self, p: Packet) -> Port:
        if len(self.ring) >= self.capacity:
            self.kill(p, "collector full")
            return
        self.count += 1
        self.ring.push(p)

    def task(self) -> bool:
        for _ in range(32):
            if len(self.ring) >= self.capacity:
                return False
            p = self.pull(0)
            if p is None:
                return False
            self.count += 1
            self.ring.push(p)
        return True

    @read("length", "packets kept")
    def length(self):
        return len(self.ring)
