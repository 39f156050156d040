"""Routes of the kernel's level through the router's own road: how long a whole table takes, and one change.

`update`: from `write("rt.set", …)` until the program in the kernel, run on a packet, has counted by the new route.
`load`: from the configuration's text of 512,621 routes until the programs are there; beside it the same natively.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness import RUNS, pin, report
from radix_lookup import read_table

from mezzo.base import bpf
from mezzo.runtime import Router
from mezzo.wire.build import ether, ip, udp

DEVICE = "mzupdate0"
CHANGES = 2000
FRAME = ether("1:1:1:1:1:1", "2:2:2:2:2:2", 0x0800, ip("1.2.3.4", "10.2.3.4", 17, udp(1, 2, bytes(18))))


@contextmanager
def device() -> Iterator[None]:
    subprocess.run(["ip", "link", "add", DEVICE, "type", "veth", "peer", f"{DEVICE}p"], check=True)
    try:
        subprocess.run(["ip", "link", "set", DEVICE, "up"], check=True)
        yield
    finally:
        subprocess.run(["ip", "link", "del", DEVICE], check=True)


def text(routes: str) -> str:
    ways = " ".join(f"rt[{n}] -> c{n} :: Counter -> Discard;" for n in range(4))
    return f"""FromDevice({DEVICE}, METHOD XDP, PROMISC true) -> Strip(14) -> CheckIPHeader
               -> rt :: RadixIPLookup({routes}); {ways}"""


def build_s(configuration: str, place: str) -> float:
    begun = time.monotonic()
    with Router.from_click(configuration, place=place, frames=4096) as router:
        spent = time.monotonic() - begun
        assert bool(router.parts) == bool(place)
    return spent


def change_ns(router: Router, number: int) -> tuple[int, int]:
    """(ns of the write, ns until a packet has gone the new way)."""
    port = number & 3
    before = int(router.read(f"c{port}.count"))
    begun = time.perf_counter_ns()
    router.write("rt.set", f"10.2.0.0/16 {port}")
    written = time.perf_counter_ns()
    bpf.test_run(router.parts[0].roots[0].fd, b"", FRAME)
    seen = time.perf_counter_ns()
    assert int(router.read(f"c{port}.count")) == before + 1, "the packet went the new way"
    return written - begun, seen - begun


def main() -> None:
    pin()
    prefixes, origin = read_table()
    whole = text(", ".join(f"{p} {i & 3}" for i, p in enumerate(prefixes)))
    with device():
        loads = [build_s(whole, "auto") for _ in range(RUNS)]
        report("kernel_load", "s", loads, 10, routes=len(prefixes), table=origin, native_s=round(build_s(whole, ""), 3))
        with Router.from_click(whole, place="auto", frames=4096) as router:
            changes = [change_ns(router, n) for n in range(CHANGES)]
        writes, seen = ([one[i] / 1e6 for one in changes] for i in (0, 1))
        worst = round(max(seen), 4)
        write = round(sorted(writes)[CHANGES // 2], 4)
        report("kernel_update", "ms", sorted(seen)[:: CHANGES // 20], 1, write=write, worst=worst)


if __name__ == "__main__":
    main()
