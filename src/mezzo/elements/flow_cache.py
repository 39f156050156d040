"""FlowCache: which packets are of flows that were seen lately.

A flow is what has the same addresses, protocol and ports, one way: its key, as RFC 7011 calls it.  Ports are looked for
in TCP, UDP, DCCP, SCTP and UDP-Lite; a fragment that is not the first has none, nor has a header that is cut off.
"""

from mezzo.elements import Arg, Element, Int, LRUTable, Packet, Port, i64, read, u8, u32, u64, u128, write

PLACE = 0x1FFF  # the offset of a fragment (RFC 791)
WITH_PORTS = (6, 17, 33, 132, 136)


class FlowCache(Element):
    """Sorts IP packets by whether their flow is among the CAPACITY that were used last.

    Expects marked IP packets. Those of a flow that it knows leave by output 0. The first of a flow leaves by output 1,
    to what decides about flows, and the flow is known from then on; when CAPACITY are, it takes the place of the one
    that was quiet longest. A flow is one way: addresses, protocol, and ports where the packet has them; of fragments
    the first one has.

    In the kernel a few more flows are known, up to 128 for each CPU there may be, and which one is forgotten is Linux's
    choice: one of those that were quiet long.
    """

    ports, processing = "1/2", "a/ah"
    capacity = Arg(Int(1, 1 << 24), 65536, "flows, at most")
    known: LRUTable[u128, u8, "capacity"]
    hits: u64
    misses: u64
    reads = {"hits": "packets of flows that it knew", "misses": "packets that were the first of their flow"}
    limits = {"CAPACITY": 1 << 24}
    racy = {"known": "of two first packets of a flow at once both may leave as the first"}
    see = ("AggregateIP", "IPRewriter", "IPClassifier")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3)
            -> MarkIPHeader -> f :: FlowCache(1000) -> Discard; f[1] -> slow :: Counter -> Discard;
    """
    example_reads = {"f.hits": "2", "slow.count": "1", "f.flows": "1", "f.forgotten": "0"}

    def key(self, p: Packet) -> u128:
        protocol = p.ip.protocol
        flow = (u128(p.net.u64(12)) << 40) | protocol
        whole = u32(p.ip.frag) & PLACE == 0 and p.has_transport
        if whole and protocol in WITH_PORTS and i64(p.length) >= p.transport_offset + 4:
            flow |= u128(p.trans.u32(0)) << 8
        return flow

    def process(self, p: Packet) -> Port:
        flow = self.key(p)
        if flow in self.known:
            self.hits += 1
            return 0
        self.known.set(flow, 1)
        self.misses += 1
        return 1

    @read("flows", "how many it knows")
    def flows(self):
        return str(len(self.known))

    @read("forgotten", "flows that made room for others")
    def forgotten(self):
        return str(self.known.forgotten)

    @write("clear", "knows no flow any more")
    def clear(self, text):
        self.known.clear()
