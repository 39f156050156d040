"""Duplicates packets.

Each copy is a frame of its own.  Where no frame is free the copy is not made, and counted in `lost`.
"""

from mezzo.elements import Arg, ConfigError, Element, Int, u64


class Tee(Element):
    """Sends a copy of each packet to every output, output 0 first."""

    ports, processing = "1/1-", "h/h"
    arms = Arg(Int(1), None, "number of outputs, where one wants it checked", keyword="N")
    lost: u64
    reads = ("lost",)
    example = "InfiniteSource(LIMIT 5) -> t :: Tee; t [0] -> a :: Counter -> Discard; t [1] -> b :: Counter -> Discard;"
    example_reads = {"a.count": "5", "b.count": "5"}
    see = ("PullTee",)

    def configure(self):
        if self.arms is not None and self.arms != self.noutputs:
            raise ConfigError(f"{self.arms} arms are asked for, and {self.noutputs} outputs are connected")
        self.last = self.noutputs - 1
        self.others = tuple(range(self.last))

    def push(self, port, p):
        for i in self.others:
            q = p.clone()
            if q is None:
                self.lost += 1
            else:
                self.push(i, q)
        self.push(self.last, p)


class PullTee(Element):
    """Gives pulled packets by output 0, and pushes a copy of each to every other output."""

    ports, processing = "1/1-", "l/lh"
    arms = Arg(Int(1), None, "number of outputs, where one wants it checked", keyword="N")
    lost: u64
    reads = ("lost",)
    example = (
        "InfiniteSource(LIMIT 5) -> Queue -> t :: PullTee; t [0] -> a :: Counter -> Unqueue -> Discard; "
        "t [1] -> b :: Counter -> Discard;"
    )
    example_reads = {"a.count": "5", "b.count": "5"}
    see = ("Tee",)

    def configure(self):
        if self.arms is not None and self.arms != self.noutputs:
            raise ConfigError(f"{self.arms} arms are asked for, and {self.noutputs} outputs are connected")
        self.others = tuple(range(1, self.noutputs))

    def pull(self, port):
        p = self.pull(0)
        if p is None:
            return None
        for i in self.others:
            q = p.clone()
            if q is None:
                self.lost += 1
            else:
                self.push(i, q)
        return p
