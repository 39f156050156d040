"""The standard IP router, two interfaces, devices replaced by sources and Discard, with queues, DirectIPLookup.

Every packet takes the whole path: classifier, paint, strip, header check with checksum, lookup, broadcast and paint
checks, options, source fix, TTL, fragmenter, ARP (resolved), queue.
"""

from harness import packet_benchmark

from mezzo.wire.build import ether, ip, udp

N = 5_000_000
MAC = ("00:00:C0:AE:67:EF", "00:00:C0:4F:71:EF")
HOST_MAC = ("02:00:12:1A:04:02", "02:00:12:1A:07:02")
HOST = ("18.26.4.2", "18.26.7.2")
ROUTER = ("18.26.4.24", "18.26.7.1")

ROUTER_TEXT = """
AddressInfo(eth0 18.26.4.24/24 00:00:C0:AE:67:EF, eth1 18.26.7.1/24 00:00:C0:4F:71:EF);
elementclass Input {{ $if, $paint |
  input -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  c[0] -> ARPResponder($if) -> [1] output;
  c[1] -> [2] output;
  c[2] -> Paint($paint) -> Strip(14) -> CheckIPHeader(INTERFACES 18.26.4.24/24 18.26.7.1/24) -> [0] output;
  c[3] -> Discard;
}}
elementclass Output {{ $if |
  input[0] -> arpq :: ARPQuerier($if) -> q :: Queue(1000) -> Unqueue(BURST 32) -> Discard;
  input[1] -> q;
  input[2] -> [1] arpq;
}}
elementclass Forward {{ $if, $paint |
  input -> DropBroadcasts -> r :: PaintTee($paint) -> o :: IPGWOptions($if) -> FixIPSrc($if) -> t :: DecIPTTL
    -> f :: IPFragmenter(1500) -> [0] output;
  r[1] -> ICMPError($if, redirect, host) -> [1] output;
  o[1] -> ICMPError($if, parameterproblem) -> [1] output;
  t[1] -> ICMPError($if, timeexceeded) -> [1] output;
  f[1] -> ICMPError($if, unreachable, needfrag) -> [1] output;
}}
in0 :: Input(eth0, 1); in1 :: Input(eth1, 2); out0 :: Output(eth0); out1 :: Output(eth1);
to0 :: Forward(eth0, 1); to1 :: Forward(eth1, 2);
rt :: {lookup}(18.26.4.24/32 0, 18.26.4.255/32 0, 18.26.7.1/32 0, 18.26.7.255/32 0, 18.26.4.0/24 1, 18.26.7.0/24 2);
{source0} -> in0; {source1} -> in1;
in0[0] -> rt; in0[1] -> [1] out0; in0[2] -> [2] out0;
in1[0] -> rt; in1[1] -> [1] out1; in1[2] -> [2] out1;
rt[0] -> Discard; rt[1] -> to0; to0[0] -> out0; to0[1] -> rt; rt[2] -> to1; to1[0] -> out1; to1[1] -> rt;
"""


def frame(side: int) -> bytes:
    """A 60-byte UDP frame from the host on one side to the host on the other."""
    ends = (HOST[side], HOST[1 - side])
    packet = ip(*ends, 17, udp(1234, 5678, b"x" * 18, ends))
    return ether(MAC[side], HOST_MAC[side], 0x0800, packet)


def text(packets: int, lookup: str = "DirectIPLookup") -> str:
    def source(side: int) -> str:
        stop = "true" if side else "false"
        return f"s{side} :: InfiniteSource(DATA \\<{frame(side).hex()}>, LIMIT {packets // 2}, BURST 32, STOP {stop})"

    return ROUTER_TEXT.format(lookup=lookup, source0=source(0), source1=source(1))


SETUP = [("out0/arpq.insert", f"{HOST[0]} {HOST_MAC[0]}"), ("out1/arpq.insert", f"{HOST[1]} {HOST_MAC[1]}")]


def main() -> None:
    packet_benchmark("ip_router", text(N), N, 25, setup=SETUP)


if __name__ == "__main__":
    main()
