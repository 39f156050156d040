"""IPGWOptions: the IP options that every router on the way processes: record route and timestamp (RFC 791, RFC 781).

The pointer of either option counts from 1.  A malformed option is a parameter problem; the pointer to the byte at
fault goes to ICMPError by annotation.  The router's addresses are state, so that the code is the same everywhere.
"""

from mezzo.elements import (
    REQUIRED,
    Arg,
    Element,
    IPAddress,
    Many,
    Packet,
    Port,
    Table,
    bounded,
    u8,
    u16,
    u32,
    u64,
    walltime,
)

END, NOP, RECORD_ROUTE, TIMESTAMP = 0, 1, 7, 68
ONLY_TIMES, WITH_ADDRESSES, PRESET = 0, 1, 3  # flags of the timestamp option
OPTIONS = 40  # bytes of options there can be
NS_A_DAY = 86_400_000_000_000


class IPGWOptions(Element):
    """Fills in record route and timestamp options as a router does.

    MYADDR should be the address of the interface by which the packet leaves. A packet whose options are malformed gets
    the ICMP parameter problem annotation and leaves by output 1, or is dropped where it is not connected.
    """

    ports, processing = "1/1-2", "a/ah"
    my_addr = Arg(IPAddress(), REQUIRED, "the outgoing interface's address", keyword="MYADDR")
    other_addrs = Arg(
        Many(IPAddress()), (), "the router's further addresses, for timestamps asked by address", keyword="OTHERADDRS"
    )
    drops: u64
    reads = ("drops",)
    see = ("ICMPError",)
    example = """
        InfiniteSource(DATA \\<4600001c 00010000 40005edd 0a000001 0a000002 07020000 00000000>, LIMIT 2, STOP true)
            -> MarkIPHeader -> o :: IPGWOptions(10.0.0.9) -> Discard;
    """
    example_reads = {"o.drops": "2"}

    nmine = 16  # room for own addresses
    own: u32
    mine: Table[u32, u8, "nmine"]

    def configure(self):
        while self.nmine <= len(self.other_addrs):
            self.nmine *= 2
        for address in (self.my_addr, *self.other_addrs):
            self.mine.set(address, 1)
        self.own = self.my_addr

    def process(self, p: Packet) -> Port:
        if p.ip.ihl <= 5:
            return 0
        fault = self.options(p)
        if fault != 0:
            self.drops += 1
            p.icmp_paramprob = u8(fault)
            return 1, "bad IP option"
        return 0

    def options(self, p: Packet) -> u32:
        """Walks through the options; where the byte at fault is, 0 when all is well."""
        hlen = u32(p.ip.ihl) * 4
        at: u32 = 20
        changed = False
        fault: u32 = 0
        for _ in bounded(OPTIONS, OPTIONS):
            if at >= hlen:
                break
            kind = p.net.u8(at)
            if kind == END:
                break
            if kind == NOP:
                at += 1
                continue
            size: u32 = 0
            if at + 1 < hlen:
                size = u32(p.net.u8(at + 1))
            if size < 2 or at + size > hlen:
                return at + 1
            if kind == RECORD_ROUTE:
                fault = self.record_route(p, at, size)
                changed = True
            elif kind == TIMESTAMP:
                fault = self.stamp(p, at, size)
                changed = True
            if fault != 0:
                return fault
            at += size
        if changed:
            p.ip.checksum = 0
            p.ip.checksum = u16(~p.net.sum16(0, hlen))
        return 0

    def record_route(self, p: Packet, at: u32, size: u32) -> u32:
        if size < 3:
            return at + 1
        pointer = u32(p.net.u8(at + 2))
        if pointer >= 4 and pointer + 3 <= size:
            p.net.set_u32(at + pointer - 1, self.own)
            p.net.set_u8(at + 2, u8(pointer + 4))
            return 0
        if pointer < 4 or pointer <= size:  # room left, yet less than an address
            return at + 2
        return 0

    def stamp(self, p: Packet, at: u32, size: u32) -> u32:
        if size < 4:
            return at + 1
        pointer = u32(p.net.u8(at + 2))
        flags = p.net.u8(at + 3) & 15
        if pointer < 5:
            return at + 2
        if flags != ONLY_TIMES and flags != WITH_ADDRESSES and flags != PRESET:
            return at + 3
        need: u32 = 4 if flags == ONLY_TIMES else 8
        if pointer > size:  # full: count the routers that found no room
            return self.overflow(p, at)
        if pointer + need - 1 > size:
            return at + 2
        time = u32(walltime() % NS_A_DAY // 1_000_000)
        if flags == PRESET and p.net.u32(at + pointer - 1) not in self.mine:
            return 0
        if flags == WITH_ADDRESSES:
            p.net.set_u32(at + pointer - 1, self.own)
        p.net.set_u32(at + pointer + need - 5, time)
        p.net.set_u8(at + 2, u8(pointer + need))
        return 0

    def overflow(self, p: Packet, at: u32) -> u32:
        count = p.net.u8(at + 3)
        if count >= 0xF0:
            return at + 3
        p.net.set_u8(at + 3, count + 16)
        return 0
