"""What stands at a port where nothing happens."""

from mezzo.elements import Element


class Idle(Element):
    """Never gives a packet, and drops those it is given.

    Any number of inputs and outputs, push or pull.  It pulls nothing: a queue in front of it fills.
    """

    ports, processing, flow = "-/-", "a/a", "x/y"
    aliases = ("SimpleIdle",)
    example = "InfiniteSource(LIMIT 15) -> q :: Queue(10) -> Idle;"
    example_reads = {"q.length": "10", "q.drops": "0"}
    see = ("Discard",)

    def push(self, port, p):
        self.kill(p, "idle")

    def pull(self, port):
        return None
