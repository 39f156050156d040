"""From pull to push."""

from mezzo.elements import Arg, Bool, Element, Int, bounded, flag, i64, u32, u64, write

MOST = 1 << 20


class Unqueue(Element):
    """Pulls packets as long as there are any, and pushes them on.

    Pulls up to BURST packets a scheduling; without end when BURST is negative.
    """

    ports, processing = "1/1", "l/h"
    aliases = ("Unqueue2",)
    burst = Arg(Int(-1, MOST), 1, "packets a scheduling; -1: all there are (2^20 at most)")
    active = Arg(Bool(), True, "whether it pulls", positional=False, live=flag)
    limit = Arg(Int(), -1, "stop after this many packets; -1: never", positional=False, live=i64)
    count: u64
    reads = ("count",)
    example = "InfiniteSource(LIMIT 20) -> Queue -> u :: Unqueue(8) -> d :: Discard;"
    example_reads = {"u.count": "20", "d.count": "20"}
    see = ("RatedUnqueue", "BandwidthRatedUnqueue", "Queue")

    def configure(self):
        self.most = MOST if self.burst < 0 else self.burst
        if self.burst == 0:
            self.warnings = ("BURST 0: no packets will be pulled",)

    def task(self) -> bool:
        if not self.active:
            return False
        n: u32 = self.most
        if self.limit >= 0:
            left = self.limit - i64(self.count)
            if left <= 0:
                return False
            if left < i64(n):
                n = u32(left)
        moved: u32 = 0
        for _ in bounded(n, MOST):
            p = self.pull(0)
            if p is None:
                break
            moved += 1
            self.push(0, p)
        self.count += moved
        return moved == n and n != 0

    @write("active", "goes on, or stops, pulling")
    def set_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)
        self.wake_task()

    @write("limit", "stop after this many packets")
    def set_limit(self, text):
        self.limit = Int().parse(text.strip(), self.env)
        self.wake_task()

    @write("reset", "sets count to 0")
    def reset(self, text):
        self.count = 0
        self.wake_task()
