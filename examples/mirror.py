"""A mirror on a network interface: what comes for it goes back to where it came from.

    python3 examples/mirror.py eth0 [--method PACKET] [--seconds 10]

It turns Ethernet and IPv4 addresses and UDP ports round, so a UDP socket that sends to it gets its own words back.
The element is twenty lines of Python; mezzo compiles it, and no packet passes through the interpreter.
"""

import argparse
import contextlib
import signal

from mezzo.base import MezzoError
from mezzo.elements import Counter, Element, FromDevice, MarkIPHeader, Packet, Port, Queue, ToDevice, u64
from mezzo.runtime import Router


class Mirror(Element):
    """Sends IPv4 packets back; drops all else."""

    udp_datagrams: u64
    reads = {"udp_datagrams": "datagrams with their ports turned round"}

    def process(self, p: Packet) -> Port:
        if p.length < 34 or p.eth.type != 0x0800:
            return 1, "not IP"
        here, there = p.eth.dst, p.eth.src
        p.eth.dst = there
        p.eth.src = here
        host, peer = p.ip.dst, p.ip.src
        p.ip.dst = peer
        p.ip.src = host
        if p.ip.protocol == 17 and p.ip.frag & 0x1FFF == 0 and p.length >= 42:
            ours, theirs = p.udp.dst_port, p.udp.src_port
            p.udp.dst_port = theirs
            p.udp.src_port = ours
            self.udp_datagrams += 1
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("device", help="the interface")
    parser.add_argument("--method", default="AUTO", help="XDP, PACKET or TAP (default: the first that works)")
    parser.add_argument("--seconds", type=float, help="how long; without it until interrupted")
    chosen = parser.parse_args()
    mirror, seen = Mirror(name="mirror"), Counter(name="seen")
    chain = FromDevice(chosen.device, METHOD=chosen.method, SNIFFER=False) >> seen >> MarkIPHeader(14) >> mirror
    with Router.from_elements(chain >> Queue(512) >> ToDevice(chosen.device, METHOD=chosen.method)) as router:
        signal.signal(signal.SIGTERM, lambda *_: router.please_stop())
        print(f"mirroring on {chosen.device}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            router.run(seconds=chosen.seconds)
        print(f"{seen.count} packets in, {mirror.udp_datagrams} datagrams turned round, {router.drops()}")


if __name__ == "__main__":
    try:
        main()
    except MezzoError as trouble:
        raise SystemExit(str(trouble)) from None
