"""ICMPError: the ICMP error message in answer to a packet (RFC 792; when, and how long: RFC 1812, 4.3.2).

The packet itself becomes the payload of the answer: what stands in front of its IP header goes, the answer's headers
come there.  That makes one answer of one packet, in push and in pull.

A router has many of these, and packets seldom come here.  So what is configured is state, not constants: the code of
all is the same, and is compiled once.
"""

from mezzo.elements import (
    REQUIRED,
    U8,
    Arg,
    Bool,
    ConfigError,
    Element,
    Int,
    IPAddress,
    Many,
    Named,
    Packet,
    Port,
    Table,
    bounded,
    read,
    u8,
    u16,
    u32,
    u64,
    walltime,
    write,
)
from mezzo.wire.address import format_ip

UNREACHABLE, SOURCE_QUENCH, REDIRECT, TIME_EXCEEDED, PARAMETER_PROBLEM = 3, 4, 5, 11, 12
ERRORS = (UNREACHABLE, SOURCE_QUENCH, REDIRECT, TIME_EXCEEDED, PARAMETER_PROBLEM)
NEED_FRAGMENT, AT_POINTER = UNREACHABLE << 8 | 4, PARAMETER_PROBLEM << 8 | 0
TYPES = {
    "echo-reply": 0, "unreachable": 3, "sourcequench": 4, "redirect": 5, "echo": 8, "routeradvert": 9,
    "routersolicit": 10, "timeexceeded": 11, "parameterproblem": 12, "timestamp": 13, "timestamp-reply": 14,
    "inforeq": 15, "inforeq-reply": 16, "maskreq": 17, "maskreq-reply": 18,
}  # fmt: skip
CODES = {
    "net": 0, "host": 1, "protocol": 2, "port": 3, "needfrag": 4, "srcfail": 5, "transit": 0, "reassembly": 1,
    "erroratptr": 0, "missingopt": 1, "length": 2,
}  # fmt: skip
ICMP = 1
LINK_GROUPS = (1, 2)  # the packet types broadcast and multicast
END, NOP = 0, 1
SOURCE_ROUTES = (131, 137)  # loose, strict
OPTIONS = 40
ANNOTATIONS = (0, 8, 16, 24, 32, 40)
TTL = 200


class ICMPError(Element):
    """Answers a packet with an ICMP error message of TYPE and CODE.

    No answer is given to ICMP errors, to fragments but the first, to packets for or from broadcast, multicast and other
    senseless addresses, and to link-level broadcasts; those are dropped. The answer should go to the routing table: it
    has the destination annotation, and asks FixIPSrc for the address of the interface by which it will leave.
    """

    src = Arg(IPAddress(), REQUIRED, "source address of the answers")
    type = Arg(Named(TYPES, U8()), REQUIRED, "unreachable, timeexceeded, parameterproblem, redirect, or a number")
    code = Arg(Named(CODES, U8()), 0, "net, host, protocol, port, needfrag, transit, reassembly, ..., or a number")
    badaddrs = Arg(Many(IPAddress()), (), "addresses that get no answer, such as the networks' broadcast addresses")
    mtu = Arg(Int(68, 0xFFFF), 576, "longest answer, bytes", positional=False)
    pmtu = Arg(Int(0, 0xFFFF), 0, "the next hop's MTU, for unreachable/needfrag", positional=False)
    use_fix_anno = Arg(Bool(), True, "set the annotation that asks for FixIPSrc", positional=False)
    nbad = 16  # room for bad addresses
    id: u16
    count: u64
    own: u32  # the source address of answers
    kind: u32  # type << 8 | code
    longest: u32
    next_mtu: u32
    fix: u8
    bad: Table[u32, u8, "nbad"]
    reads = {"count": "errors sent"}
    see = ("DecIPTTL", "FixIPSrc", "IPGWOptions", "IPFragmenter")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 0111a5ce 0a000001 0a000002 00010002 00080000>, LIMIT 2, STOP true)
            -> CheckIPHeader -> d :: DecIPTTL -> Discard;
        d[1] -> e :: ICMPError(10.0.0.9, timeexceeded) -> CheckIPHeader -> c :: CheckICMPHeader -> Discard;
    """
    example_reads = {"e.count": "2", "c.drops": "0"}

    def configure(self):
        if self.type not in ERRORS:
            raise ConfigError(f"ICMP type {self.type} is not an error; use unreachable or timeexceeded, for example")
        while self.nbad < len(self.badaddrs):
            self.nbad *= 2
        for address in self.badaddrs:
            self.bad.set(address, 1)
        self.id, self.fix = 1, int(self.use_fix_anno)
        self.own, self.kind, self.longest, self.next_mtu = self.src, self.type << 8 | self.code, self.mtu, self.pmtu

    def hands_over(self, old):
        return [name for name in super().hands_over(old) if name != "bad"]  # no BADADDRS are none

    @read("src", "source address of the answers")
    def read_src(self):
        return format_ip(self.own)

    @write("src", "source address of the answers")
    def write_src(self, text):
        self.own = IPAddress().parse(text.strip(), self.env)

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.network_offset < 0:
            self.kill(p, "no IP header")
            return
        p.strip(u32(p.network_offset))
        if p.ip.protocol == ICMP and self.about_error(p):
            self.kill(p, "no error about an ICMP error")
            return
        if p.ip.frag & 0x1FFF != 0:
            self.kill(p, "no error about a later fragment")
            return
        if p.packet_type in LINK_GROUPS or not self.unicast(p.ip.dst):
            self.kill(p, "no error about a broadcast")
            return
        src = p.ip.src
        net = src >> 24  # RFC 1812, 5.3.7: neither this network, nor loopback, nor class E
        if net == 0 or net == 127 or net >= 240 or not self.unicast(src):
            self.kill(p, "no error to a bad source")
            return
        route = self.source_route(p)
        if route != 0 and self.kind >> 8 == REDIRECT:
            self.kill(p, "no redirect for a source route")
            return
        # A route that is itself at fault is not used (RFC 1812, 4.3.2.6).
        pointer = u32(p.icmp_paramprob)
        if route != 0 and self.kind == AT_POINTER and route <= pointer and pointer < route + u32(p.u8(route + 1)):
            route = 0
        self.answer(p, src, route)
        return 0

    def about_error(self, p: Packet) -> bool:
        at = u32(p.ip.ihl) * 4
        return p.length <= at or p.u8(at) in ERRORS

    def unicast(self, address: u32) -> bool:
        return address != 0xFFFFFFFF and address >> 28 != 14 and address not in self.bad

    def source_route(self, p: Packet) -> u32:
        """Where the header has a source route with addresses behind it; 0 when it has none."""
        hlen = u32(p.ip.ihl) * 4
        at: u32 = 20
        for _ in bounded(OPTIONS, OPTIONS):
            if at + 2 >= hlen or at + 2 >= p.length:
                break
            option = u32(p.u16(at)) << 8 | p.u8(at + 2)
            if option >> 16 == END:
                break
            size: u32 = 1
            if option >> 16 != NOP:
                size = option >> 8 & 0xFF
                used = option & 0xFF
                if size < 2 or at + size > hlen:
                    break
                if option >> 16 in SOURCE_ROUTES and used >= 4 and used & 3 == 0 and used <= size + 1:
                    return at
            at += size
        return 0

    def answer(self, p: Packet, dst: u32, route: u32):
        """Makes the packet its own error message: cut to size, new headers in front."""
        head: u32 = 20
        if route != 0:
            head = (22 + u32(p.u8(route + 2))) & 0xFFFFFFFC
        size = min(min(p.length, u32(p.ip.total_length)), self.longest - head - 8)
        p.trim(p.length - size)
        if p.headroom >= head + 8:
            p.prepend(head + 8)
        else:
            p.append(head + 8)
            p.move(head + 8, 0, size)
        p.set_u64(0, u64(head << 22 | 0x40000000 | p.length) << 32 | u64(self.id) << 16)
        p.set_u64(8, u64(TTL << 24 | ICMP << 16) << 32 | u64(self.own))
        p.set_u32(16, dst)
        self.id += 1
        if route != 0:
            self.reverse_route(p, head + 8 + route)
        p.set_u16(10, u16(~p.sum16(0, head)))
        p.set_u64(head, u64(self.kind) << 48 | u64(self.detail(p)))
        p.set_u16(head + 2, u16(~p.sum16(head, p.length - head)))
        p.set_network(0)
        p.set_transport(head)
        p.set_mac(None)
        # The answer is a new packet: it has not come by any interface, so nothing of the old annotations stays.
        for at in ANNOTATIONS:
            p.set_anno_u64(at, 0)
        p.dst_ip = dst
        p.fix_ip_src = self.fix
        p.packet_type = 0
        p.timestamp = walltime()
        self.count += 1

    def detail(self, p: Packet) -> u32:
        """The second word of the ICMP header."""
        if self.kind == AT_POINTER:
            return u32(p.icmp_paramprob) << 24
        if self.kind >> 8 == REDIRECT:
            return p.dst_ip
        return self.next_mtu if self.kind == NEED_FRAGMENT else 0

    def reverse_route(self, p: Packet, old: u32):
        """Writes the addresses passed, last first, as the answer's source route (RFC 1122, 3.2.1.8)."""
        used = u32(p.u8(old + 2))
        p.set_u32(20, u32(p.u8(old)) << 24 | (used - 1) << 16 | 4 << 8)
        p.set_u8(19 + used, END)
        count = (used - 4) >> 2
        for i in bounded(count, 10):
            p.set_u32(23 + 4 * i, p.u32(old + used - 5 - 4 * i))
