"""RadixIPLookup with a full table (512,621 prefixes), random destinations out of the table: the lookup alone.

The figure is the difference of the same graph with and without the lookup.  Also the time to build from text.
"""

from __future__ import annotations

import gzip
import random
import statistics
import time
from pathlib import Path

import numpy as np
from harness import RUNS, cpu_ns_per_packet, pin, report, source

from mezzo.elements import Array, Element, Packet, Port, library, u32
from mezzo.runtime import Router

TABLE = Path(__file__).parents[2] / "shared/data/routes/rib-ipv4-20140513.dat.gz"
N = 10_000_000
ADDRESSES = 1 << 20


@library.register
class RandomDestinations(Element):
    """Sets the destination annotation to the addresses of a table in turn."""

    addresses: Array[u32, ADDRESSES]
    at: u32

    def process(self, p: Packet) -> Port:
        p.dst_ip = self.addresses[self.at & (ADDRESSES - 1)]
        self.at += 1
        return 0


def read_table() -> tuple[list[str], str]:
    """The prefixes as text, and where they come from."""
    if TABLE.exists():
        with gzip.open(TABLE, "rt") as lines:
            return [line.split()[0] for line in lines if line[0] not in ";\n"], TABLE.name
    chance = random.Random(1)
    made = {
        (chance.randrange(1, 224 << 24) >> (32 - n) << (32 - n), n)
        for n in chance.choices(range(8, 25), [2**i for i in range(17)], k=512_621)
    }
    return [f"{a >> 24}.{a >> 16 & 255}.{a >> 8 & 255}.{a & 255}/{n}" for a, n in made], "synthetic"


def random_addresses(prefixes: list[str]) -> np.ndarray:
    chance = np.random.default_rng(1)
    parts = [p.replace("/", ".").split(".") for p in prefixes]
    table = np.array(parts, dtype=np.uint64)
    base = (table[:, 0] << 24) | (table[:, 1] << 16) | (table[:, 2] << 8) | table[:, 3]
    picked = chance.integers(0, len(table), ADDRESSES)
    host = chance.integers(0, 1 << 32, ADDRESSES, dtype=np.uint64) >> table[picked, 4]
    return (base[picked] | host).astype(np.uint32)


def main() -> None:
    pin()
    prefixes, origin = read_table()
    addresses = random_addresses(prefixes)
    routes = ", ".join(f"{p} {i & 3}" for i, p in enumerate(prefixes))
    outs = " ".join(f"rt[{i}] -> d;" for i in range(4))
    with_lookup = f"{source(N)} -> dst :: RandomDestinations -> rt :: RadixIPLookup({routes}); d :: Discard; {outs}"
    without = f"{source(N)} -> dst :: RandomDestinations -> Discard;"

    def prepare(router: Router) -> None:
        router.elements["dst"].addresses.load(addresses.tolist())

    begun = time.process_time()
    Router.from_click(with_lookup).close()
    build = time.process_time() - begun
    pairs = [
        (cpu_ns_per_packet(with_lookup, N, prepare=prepare), cpu_ns_per_packet(without, N, prepare=prepare))
        for _ in range(RUNS)
    ]
    report(
        "radix_lookup", "ns/packet", [a - b for a, b in pairs], 20, table=origin, routes=len(prefixes),
        whole_ns=round(statistics.median(a for a, _ in pairs), 3), build_s=round(build, 2), build_goal_s=5,
    )  # fmt: skip


if __name__ == "__main__":
    main()
