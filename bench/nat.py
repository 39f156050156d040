"""IPRewriter with a pattern of addresses and ports, 1,000 flows of 60-byte UDP packets, one way and both ways.

`Flows` gives each packet the next of 1,000 source ports.  `source` is the time without the rewriter, which is in the
others, too: a packet is made and its ports written.  Both ways: every packet comes back as a reply, and so is rewritten
twice; the time is for each rewriting.
"""

import statistics

from harness import RUNS, calibrate, cpu_ns_per_packet, pin, report

from mezzo.elements import Element, Packet, Port, library, u16, u32
from mezzo.wire.build import ip, udp

N = 5_000_000
GOAL = 60
ENDS = ("10.0.0.2", "9.9.9.9")


@library.register
class Flows(Element):
    """Gives packets 1,000 source ports in turn."""

    number: u32

    def process(self, p: Packet) -> Port:
        p.udp.src_port = u16(1024 + self.number)
        self.number = self.number + 1 if self.number < 999 else 0
        return 0


@library.register
class TurnRound(Element):
    """Makes a packet of its reply: no sum changes."""

    def process(self, p: Packet) -> Port:
        addresses, ports = p.net.u64(12), p.trans.u32(0)
        p.net.set_u64(12, (addresses << 32) | (addresses >> 32))
        p.trans.set_u32(0, (ports << 16) | (ports >> 16))
        return 0


def source(packets: int) -> str:
    packet = ip(*ENDS, 17, udp(1234, 53, b"x" * 32, ENDS))
    data = f"DATA \\<{packet.hex()}>, LIMIT {packets}, BURST 32, STOP true"
    return f"InfiniteSource({data}) -> MarkIPHeader -> Flows"


ONE_WAY = "-> [0] r :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop); r[0] {} Discard; r[1] -> Discard;"


def texts(packets: int) -> dict[str, str]:
    alone = source(packets)
    return {
        "source": f"{alone} -> Discard;",
        "one way": f"{alone} {ONE_WAY.format('->')} Idle -> [1] r;",
        "both ways": f"{alone} {ONE_WAY.format('-> TurnRound -> [1] r; Idle ->')}",
    }


def main() -> None:
    pin()
    runs: dict[str, list[float]] = {name: [] for name in texts(N)}
    throughput = []
    for text in texts(1000).values():
        cpu_ns_per_packet(text, 1000)  # warm: code cache
    for _ in range(RUNS):
        throughput.append(round(calibrate("Throughput", 1000), 3))
        for name, text in texts(N).items():
            runs[name].append(cpu_ns_per_packet(text, N) / (2 if name == "both ways" else 1))
    alone = statistics.median(runs["source"])
    report("nat one way", "ns/packet", runs["one way"], GOAL, source=round(alone, 3), throughput_ns=throughput)
    report("nat both ways", "ns/packet", runs["both ways"], GOAL, source=round(alone, 3), throughput_ns=throughput)


if __name__ == "__main__":
    main()
