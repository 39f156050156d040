"""A router in another process, for tests of pipes and switches: `python shared_child.py JOB METHOD DEVICE [NUMBERED]`.

send      numbered packets, as `Numbered` makes them with these arguments
receive   checks their order and content; says on a line how many came, whenever asked by a line; ends with its input
echo      sends back what it gets
"""

from __future__ import annotations

import sys
import threading

from mezzo.elements import Arg, Array, Element, Int, Packet, Port, library, u16, u32, u64
from mezzo.runtime import Router

FLOWS = 8
SHORTEST, SPREAD = 20, 600


@library.register
class Numbered(Element):
    """Makes packets from FLOW with a growing number at byte 14, and bytes that follow from it to the end."""

    ports, processing = "0/1", "l"
    flow_number = Arg(Int(0, FLOWS - 1), 1, keyword="FLOW")
    to = Arg(Int(0, 255), 255, "the last byte of the destination; 255: broadcast", keyword="TO")
    limit = Arg(Int(), 0, "0: no end", keyword="LIMIT")
    spread = Arg(Int(1, 1400), SPREAD, keyword="SPREAD")
    made: u32

    def configure(self):
        self.receiver = 0xFFFF_FFFF_FFFF if self.to == 255 else 0x0200_0000_0000 | self.to
        self.sender = 0x0200_0000_0000 | self.flow_number

    def pull(self, port):
        if self.limit != 0 and self.made >= self.limit:
            return None
        p = self.make(SHORTEST + self.made * 7919 % self.spread)
        if p is None:
            return None
        p.set_u48(0, self.receiver)
        p.set_u48(6, self.sender)
        p.set_u32(14, self.made)
        p.set_u16(18, u16(self.made * 7))
        if p.length >= 40:
            p.set_u32(p.length - 4, self.made * 31)
        self.made += 1
        return p


@library.register
class InOrder(Element):
    """Counts packets of Numbered, and by flow what is wrong: `gaps`, `again` (not newer than the last), `broken`."""

    count: u64
    gaps: u64
    missed: u64
    again: u64
    broken: u64
    restarts: u64
    after: Array[u32, FLOWS]
    got: Array[u64, FLOWS]
    reads = ("count", "gaps", "missed", "again", "broken", "restarts")

    def process(self, p: Packet) -> Port:
        flow, number = u32(p.u16(10)) % FLOWS, p.u32(14)
        if p.u16(18) != u16(number * 7) or p.length < SHORTEST:
            self.broken += 1
        if p.length >= 40 and p.u32(p.length - 4) != number * 31:
            self.broken += 1
        wanted = self.after[flow]
        if number == 0 and wanted != 0:
            self.restarts += 1
        elif number < wanted:
            self.again += 1
        elif number != wanted:
            self.gaps += 1
            self.missed += number - wanted
        self.after[flow] = number + 1
        self.count += 1
        self.got[flow] += 1
        return 0


@library.register
class Turn(Element):
    """Sends a packet back to its sender: the addresses change places."""

    def process(self, p: Packet) -> Port:
        to = p.u48(0)
        p.set_u48(0, p.u48(6))
        p.set_u48(6, to)
        return 0


def text_of(job: str, method: str, device: str, more: str) -> str:
    sink, source = f"ToDevice({device}, METHOD {method})", f"FromDevice({device}, METHOD {method})"
    if job == "send":
        return f"Numbered({more}) -> out :: {sink};"
    if job == "receive":
        return f"{source} -> o :: InOrder -> Discard;"
    return f"{source} -> Turn -> Queue -> {sink};"


def main(job: str, method: str, device: str, more: str = "") -> None:
    with Router.from_click(text_of(job, method, device, more), frames=2048) as router:
        print("ready", flush=True)
        threading.Thread(target=answer, args=(router, job), daemon=True).start()
        router.run()


def answer(router: Router, job: str) -> None:
    names = ("count", "gaps", "again", "broken") if job == "receive" else ("count",)
    element = {"receive": "o", "send": "out"}.get(job, "FromDevice@1")
    for _ in sys.stdin:
        print(*(router.read(f"{element}.{name}") for name in names), flush=True)
    router.please_stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
