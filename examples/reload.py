"""A router under load becomes a firewall, then a NAT box, and a router again, and no packet is lost on the way.

    python examples/reload.py [rounds; 3 by default]

No root is needed: the load comes from a source in the graph, as fast as it goes.  Each change is a hot reload: the new
configuration is compiled while the old one forwards, then state moves (the queue with its packets, counters, flows) and
the new code goes on.  The blackout is how long no packet code ran.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

from mezzo.runtime import Router
from mezzo.tools._terminal import table

UDP = "4500002c 00010000 401160af 0a000002 08080808 d4310035 00180000 00010203 04050607 08090a0b 0c0d0e0f"
AROUND = """
    source :: InfiniteSource(DATA \\<{udp}>, LIMIT -1, BURST 8) -> sent :: Counter -> MarkIPHeader -> {way}
      -> queue :: Queue(1000) -> out :: Unqueue(BURST 8) -> arrived :: Counter -> Discard;
"""
WAYS = {
    "router": "check :: CheckIPHeader -> ttl :: DecIPTTL",
    "firewall": "check :: CheckIPHeader -> filter :: IPFilter(allow udp dst port 53, deny all) -> ttl :: DecIPTTL",
    "NAT": "check :: CheckIPHeader -> nat :: IPRewriter(pattern 192.0.2.1 1024-65535 - - 0 0) -> ttl :: DecIPTTL",
}


def configuration(kind: str) -> str:
    return AROUND.format(udp=UDP, way=WAYS[kind])


def changes(rounds: int) -> Iterator[str]:
    for _ in range(rounds):
        yield from ("firewall", "NAT", "router")


def lost(router: Router) -> int:
    """Packets that were sent and neither arrived nor wait; asked at one moment."""

    def count() -> int:
        sent, arrived, waiting = (int(router.read(path)) for path in ("sent.count", "arrived.count", "queue.length"))
        return sent - arrived - waiting

    return int(router.at_rest(count))


def main(rounds: int = 3) -> int:
    with Router.from_click(configuration("router"), "reload.py") as router:
        runner = threading.Thread(target=router.run)
        runner.start()
        rows, missing = [], 0
        try:
            for kind in changes(rounds):
                report = router.reload(configuration(kind))
                missing = lost(router)
                blackout = f"{report.blackout_ns / 1e6:.2f} ms"
                rows.append([kind, blackout, f"{int(router.read('arrived.count')):,}", str(missing)])
        finally:
            router.please_stop()
            runner.join()
        print(table(["now a", "blackout", "packets so far", "lost"], rows))
        balanced = router.conservation().balanced
    print("every packet is accounted for" if balanced and not missing else f"{missing} packets were lost")
    return 0 if balanced and not missing else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
