"""What a packet costs that native code hands back to the kernel's level, by what becomes of it there.

`died` takes one call of the kernel, `sent` a second one that sends it, `came_back` one and a record that is read again;
`native` and `native_sent` are the same graphs without the kernel's level.
CPU time of the process, which has the kernel's part in it, also that of what the veth's other end does with a packet.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from harness import RUNS, pin, report

from mezzo.runtime import Router

DEVICE, PACKETS = "mzreinject0", 100_000
LOOSE = ("*=kernel?", "p=native", "ORDER=loose")
INPUT = f"FromDevice({DEVICE}, METHOD XDP, PROMISC true) -> n :: Classifier(14/00) -> out :: Counter"
SOURCE = "InfiniteSource(LIMIT {count}, LENGTH 60, DATA \\<000000000000000000000000000000>) -> p :: Counter"
BACK = " -> back :: Reinject -> n"
SENT = f" -> Queue -> t :: ToDevice({DEVICE}, METHOD XDP);"
WAYS = {  # what is behind it, what the source's packets come to, and where they go
    "died": (INPUT + " -> Discard;", LOOSE),
    "sent": (INPUT + SENT, LOOSE),
    "came_back": (INPUT + " -> up :: Counter -> Discard;", (*LOOSE, "up=native")),
    "native": (INPUT + " -> Discard;", ()),
    "native_sent": (INPUT + SENT, ()),
}


@contextmanager
def device() -> Iterator[None]:
    subprocess.run(["ip", "link", "add", DEVICE, "type", "veth", "peer", f"{DEVICE}p"], check=True)
    try:
        for end in (DEVICE, f"{DEVICE}p"):
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        yield
    finally:
        subprocess.run(["ip", "link", "del", DEVICE], check=True)


def packet_ns(text: str, place: tuple[str, ...], count: int) -> float:
    with Router.from_click(text + SOURCE.format(count=count) + BACK, place=place, frames=4096) as router:
        router.run(rounds=1)
        begun = time.process_time_ns()
        router.run(seconds=60, until=lambda: int(router.read("back.count")) >= count)
        spent = time.process_time_ns() - begun
        injected = int(router.read("back.injected"))
        assert injected == (count if place else 0), f"{injected} were handed over"
        return spent / count


def main() -> None:
    pin()
    with device():
        for name, (text, place) in WAYS.items():
            count = PACKETS if place else 20 * PACKETS
            report(f"reinject_{name}", "ns", [packet_ns(text, place, count) for _ in range(RUNS)])


if __name__ == "__main__":
    main()
