"""Delays by the timestamp: a packet of time T leaves at T + DELAY, and not before.

One packet is held at a time; the others wait where they are.  A packet without timestamp counts from when it is
pulled.
"""

from mezzo.elements import Arg, Duration, Element, Slots, u64, walltime, write

BURST = 32


class DelayUnqueue(Element):
    """Pulls packets and pushes each DELAY after its timestamp.

    A packet that leaves has the time of leaving as its timestamp.
    """

    ports, processing = "1/1", "l/h"
    delay = Arg(Duration(), doc="time from timestamp to leaving", live=u64)
    held: Slots[1]
    example = "InfiniteSource(LIMIT 8) -> Queue -> DelayUnqueue(20ms) -> d :: Discard;"
    example_reads = {"d.count": "8"}
    see = ("DelayShaper", "LinkUnqueue")

    def task(self) -> bool:
        for _ in range(BURST):
            p = self.held.take(0)
            if p is None:
                p = self.pull(0)
                if p is None:
                    return False
                if p.timestamp == 0:
                    p.timestamp = walltime()
            due = p.timestamp + self.delay
            if due > walltime():
                self.held.put(0, p)
                self.timer_after(due - walltime())
                return False
            p.timestamp = walltime()
            self.push(0, p)
        return True

    def timer(self):
        self.wake()

    @write("delay", "time from timestamp to leaving, from now on")
    def set_delay(self, text):
        self.delay = Duration().parse(text.strip(), self.env)
        self.wake_task()


class DelayShaper(Element):
    """Gives each packet DELAY after its timestamp to whoever pulls.

    A packet that leaves has the time of leaving as its timestamp.
    """

    ports, processing = "1/1", "l/l"
    delay = Arg(Duration(), doc="time from timestamp to leaving", live=u64)
    held: Slots[1]
    example = "InfiniteSource(LIMIT 8) -> Queue -> DelayShaper(20ms) -> Unqueue -> d :: Discard;"
    example_reads = {"d.count": "8"}
    see = ("DelayUnqueue", "Shaper")

    def pull(self, port):
        p = self.held.take(0)
        if p is None:
            p = self.pull(0)
            if p is None:
                return None
            if p.timestamp == 0:
                p.timestamp = walltime()
        due = p.timestamp + self.delay
        if due > walltime():
            self.held.put(0, p)
            self.timer_after(due - walltime())
            return None
        p.timestamp = walltime()
        return p

    def timer(self):
        self.wake_down()

    @write("delay", "time from timestamp to leaving, from now on")
    def set_delay(self, text):
        self.delay = Duration().parse(text.strip(), self.env)
        self.wake_downstream()
