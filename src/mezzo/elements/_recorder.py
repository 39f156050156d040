"""What elements that write packets to files have in common: where packets come from and whether they end here."""

from mezzo.elements import Element, Packet, Port

BURST = 32


class _Recorder(Element):
    """Records every packet, pushed or pulled, and passes it on where the output is connected; else it ends here.

    A subclass calls `take_place` in `configure`, and has a method `record(p)`.
    """

    ports, processing = "1/0-1", "a/a"

    def take_place(self) -> None:
        """Settles what the graph decides: whether packets end here, and whether they are pulled."""
        self.ends = self.noutputs == 0
        self.pulls = self.ends and self.input_kinds[:1] == ("pull",)
        self.wants_task = self.pulls

    def process(self, p: Packet) -> Port:
        self.record(p)
        if self.ends:
            self.kill(p)
            return
        return 0

    def task(self) -> bool:
        if not self.pulls:
            return False
        for _ in range(BURST):
            p = self.pull(0)
            if p is None:
                return False
            self.record(p)
            self.kill(p)
        return True
