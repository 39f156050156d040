"""ARP replies that nobody asked for."""

from mezzo.elements import Arg, Blob, Element, EtherAddress, IPAddress, u64
from mezzo.wire.arp import Arp
from mezzo.wire.constants import ARP_REPLY, ETHERTYPE_ARP
from mezzo.wire.ethernet import Ethernet

FIRST_NS, EVERY_NS = 1_000_000_000, 10_000_000_000


def arp_packet(operation: int, src: tuple[int, int], dst: tuple[int, int], to: int) -> bytes:
    """An ARP packet with its Ethernet header; `src` and `dst` are (Ethernet, IP) pairs, `to` is where it is sent."""
    return Ethernet.pack(dst=to, src=src[0], type=ETHERTYPE_ARP) + Arp.pack(
        hardware_type=1, protocol_type=0x0800, hardware_length=6, protocol_length=4, operation=operation,
        sender_hardware=src[0], sender_protocol=src[1], target_hardware=dst[0], target_protocol=dst[1],
    )  # fmt: skip


class ARPFaker(Element):
    """Tells IP1/ETH1 every 10 seconds, the first time after one, that IP2 has the Ethernet address ETH2."""

    ports, processing = "0/1", "h/h"
    ip1 = Arg(IPAddress(), doc="who is told")
    eth1 = Arg(EtherAddress(), doc="its Ethernet address")
    ip2 = Arg(IPAddress(), doc="the address that is claimed")
    eth2 = Arg(EtherAddress(), doc="the Ethernet address it is said to have")
    reply: Blob
    count: u64
    reads = {"count": "replies sent"}
    example = """
        f :: ARPFaker(10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2) -> c :: Counter -> Discard;
        Script(TYPE ACTIVE, wait 32s, stop);
    """
    example_reads = {"c.count": "4", "f.count": "4"}
    see = ("ARPResponder", "ARPQuerier")

    def configure(self) -> None:
        self.reply.bind(arp_packet(ARP_REPLY, (self.eth2, self.ip2), (self.eth1, self.ip1), self.eth1))

    def init(self) -> None:
        self.timer_after(FIRST_NS)

    def timer(self) -> None:
        self.timer_after(EVERY_NS)
        p = self.make_from(self.reply, 0, 42)
        if p is not None:
            p.set_mac(0)
            p.set_network(14)
            self.count += 1
            self.push(0, p)
