"""Routers in the kernel's level on veth pairs, beside Linux's forwarding and beside themselves in native code.

60-byte frames, ns of CPU per packet: one core does everything, from the sender's frame to the other wire's end.  Goals:
1.3 times Linux's packets per CPU-second, three times those of the native router, for which AF_XDP copies every packet
twice.  Needs root.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import _xdp_floor as floor
import harness
import port_xdp

from mezzo.runtime import Router

BLOCKS = 100  # runs of each, in turn
ROUTES = 999
STANDARD = Path(__file__).parent.parent / "examples" / "ip-router-live.click"


def text_of(source: str, to: str, routes: int) -> str:
    """What both of mezzo's routers are: check, look up, count down, rewrite."""
    more = "".join(f", 172.{n >> 8 & 255}.{n & 255}.0/24 0" for n in range(routes))
    ends = f"METHOD XDP, BURST {floor.BATCH}"
    return (
        f"r :: PollDevice({source}, {ends}, {port_xdp.ROOM}) -> Strip(14) -> CheckIPHeader"
        f"-> RadixIPLookup(10.0.0.0/24 0{more}) -> DecIPTTL -> EtherEncap(0x0800, {to}:eth, {floor.NEXT})"
        f"-> Queue(1000) -> t :: ToDevice({to}, {ends});"
    )


def below(router: Router, sender: floor.Sender, to: str, name: str = "t") -> float:
    """ns for a packet that the kernel's level forwards and the other end of the wire gets."""
    count = router.elements[name].cell("count")
    before, there = int(count.value), floor.sent_by(to)
    spent = port_xdp.forwarded(to, sender)[0]
    packets, left = int(count.value) - before, floor.sent_by(to) - there
    assert packets == port_xdp.PHASE * port_xdp.PHASES and left == packets, (packets, left)
    return spent


def compare(name: str, goal: float, ours: Callable[[], float], other: Callable[[], float]) -> None:
    pairs = [(ours(), other()) for _ in range(BLOCKS)][BLOCKS // 10 :]
    ratio = statistics.median(b / a for a, b in pairs)
    facts = {"other": round(min(b for _, b in pairs), 1), "times": round(ratio, 3), "wanted": goal}
    harness.report(f"kernel_forward {name}", "ns/packet", [a for a, _ in pairs][::10], None, **facts)


def beside_linux(routes: int) -> None:
    with floor.wires("p") as (a, b, c, _), floor.wires("q") as (e, f, g, _):
        here, there = floor.Sender(a), floor.Sender(e)
        with Router.from_click(text_of(b, c, routes), place=["*=kernel"]) as router, floor.linux_router(f, g):
            router.run(rounds=1)
            name = f"{routes + 1} routes, times Linux"
            compare(name, 1.3, lambda: below(router, here, c), lambda: port_xdp.forwarded(g, there)[0])
        here.close()
        there.close()


def standard_beside_linux() -> None:
    """The standard router of the examples, which knows where the frames go to."""
    with floor.wires("p") as (a, b, c, _), floor.wires("q") as (e, f, g, _):
        here, there = floor.Sender(a), floor.Sender(e)
        names = {"DEV0": b, "DEV1": c, "IP0": "10.0.9.1/24", "IP1": "10.0.0.254/24", "METHOD": "XDP"}
        text = STANDARD.read_text()
        with Router.from_click(text, variables=names, place="auto") as router, floor.linux_router(f, g):
            router.run(rounds=1)
            router.write("out1/arpq.insert", f"10.0.0.2 {floor.NEXT}")
            ours = partial(below, router, here, c, "out1/ToDevice@3")
            compare("standard router, times Linux", 1.3, ours, lambda: port_xdp.forwarded(g, there)[0])
        here.close()
        there.close()


def beside_native() -> None:
    with floor.wires("p") as (a, b, c, _), floor.wires("q") as (e, f, g, _):
        here, there = floor.Sender(a), floor.Sender(e)
        with Router.from_click(text_of(b, c, 0), place=["*=kernel"]) as one, port_xdp.ours(text_of(f, g, 0)) as native:
            one.run(rounds=1)
            other = partial(port_xdp.received, native, "t", there, tasks=2)
            compare("times native", 3, lambda: below(one, here, c), lambda: other()[0])
        here.close()
        there.close()


def main() -> None:
    harness.pin()
    for measure in (partial(beside_linux, 0), partial(beside_linux, ROUTES), standard_beside_linux, beside_native):
        floor.leave_network()  # with a table of routes of its own
        measure()


if __name__ == "__main__":
    main()
