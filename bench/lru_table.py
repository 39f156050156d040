"""What a hit costs in an LRUTable and in a Table that are full, in random order.

Each figure is the difference of the same graph with and without the element that asks.
"""

import random

from harness import RUNS, cpu_ns_per_packet, pin, report, source

from mezzo.elements import Arg, Array, Element, Int, LRUTable, Packet, Port, Table, library, u32, u64
from mezzo.runtime import Router

N = 3_000_000
SIZES = (16, 1000, 65536)
KEYS = 1 << 20


class RandomKeys(Element):
    """Sets the destination annotation to one of SIZE keys."""

    size = Arg(Int(1), 16)
    keys: Array[u32, KEYS]
    at: u32

    def process(self, p: Packet) -> Port:
        p.dst_ip = self.keys[self.at & (KEYS - 1)]
        self.at += 1
        return 0


class AskTable(Element):
    """Looks the destination annotation up."""

    size = Arg(Int(1), 16)
    found: u64
    table: Table[u32, u32, "size"]

    def process(self, p: Packet) -> Port:
        self.found += self.table.get(p.dst_ip, 0)
        return 0


class AskLRUTable(Element):
    """The same, where a look is a use."""

    size = Arg(Int(1), 16)
    found: u64
    table: LRUTable[u32, u32, "size"]

    def process(self, p: Packet) -> Port:
        self.found += self.table.get(p.dst_ip, 0)
        return 0


def main() -> None:
    pin()
    for cls in (RandomKeys, AskTable, AskLRUTable):
        library.register(cls)
    for size in SIZES:
        dice = random.Random(size)
        there = [dice.getrandbits(32) for _ in range(size)]
        keys = [dice.choice(there) for _ in range(KEYS)]

        def prepare(router: Router, there: list[int] = there, keys: list[int] = keys) -> None:
            router.elements["k"].keys.load(keys)
            if "t" in router.elements:
                rows = [(key, 1) for key in there]
                table = router.elements["t"].table
                table.load((0, rows) if type(router.elements["t"]) is AskLRUTable else rows)

        texts = [f"{source(N)} -> k :: RandomKeys -> {ask} Discard;" for ask in
                 ("", f"t :: AskTable({size}) ->", f"t :: AskLRUTable({size}) ->")]  # fmt: skip
        rows = [[cpu_ns_per_packet(text, N, prepare=prepare) for text in texts] for _ in range(RUNS)]
        report("table_hit", "ns/packet", [b - a for a, b, _ in rows], 20, size=size)
        report("lru_table_hit", "ns/packet", [c - a for a, _, c in rows], 25, size=size)


if __name__ == "__main__":
    main()
