"""A door in front of this host, in XDP: packets from addresses on a list go no further, all others to the host.

    sudo python3 examples/fastpath.py eth0 10.0.0.7 10.0.0.8

The element is Python; the kernel runs it at the driver, and no packet comes to this process.
"""

import ipaddress
import signal
import sys

from mezzo.elements import Element, FromDevice, Packet, Port, Table, ToHost, u32, u64
from mezzo.runtime import Router


class Door(Element):
    blocked: Table[u32, u64, 10_000]

    def process(self, p: Packet) -> Port:
        if p.length >= 34 and p.eth.type == 0x0800 and p.u32(26) in self.blocked:
            return 1, "blocked"
        return 0


if len(sys.argv) < 2:
    sys.exit(__doc__)
device, *addresses = sys.argv[1:]
door = Door(name="door")
with Router.from_elements(FromDevice(device, METHOD="XDP") >> door >> ToHost(device), place="*=kernel") as router:
    for text in addresses:
        door.blocked.set(int(ipaddress.ip_address(text)), 1)
    print(router.plan.placement, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: router.please_stop())
    router.run()
    print(router.drops())
