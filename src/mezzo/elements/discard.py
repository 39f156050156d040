"""The end of the road: packets leave the router without being a loss."""

from mezzo.elements import Arg, Bool, Element, Int, Packet, Port, bounded, flag, u32, u64, write

MOST = 1 << 20


class Discard(Element):
    """Throws all packets away.

    In a pull context it pulls by itself, BURST packets a scheduling, and sleeps while there are none.
    """

    ports, processing = "1/0", "a/"
    active = Arg(Bool(), True, "whether it pulls (pull context only)", positional=False, live=flag)
    burst = Arg(Int(1, MOST), 1, "packets pulled a scheduling", positional=False, live=u32)
    count: u64
    reads = {"count": "packets thrown away"}
    example = "InfiniteSource(LIMIT 5) -> d :: Discard;"
    example_reads = {"d.count": "5"}
    see = ("Idle", "Null")

    def process(self, p: Packet) -> Port:
        self.count += 1
        self.kill(p)

    def task(self) -> bool:
        if not self.active:
            return False
        for _ in bounded(self.burst, MOST):
            p = self.pull(0)
            if p is None:
                return False
            self.count += 1
            self.kill(p)
        return True

    @write("active", "goes on, or stops, pulling")
    def set_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)
        self.wake_task()

    @write("reset_counts", "sets count to 0")
    def reset_counts(self, text):
        self.count = 0
