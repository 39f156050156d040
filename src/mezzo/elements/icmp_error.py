"""ICMPError: the ICMP error message in answer to a packet (RFC 792; when, and how long: RFC 1812, 4.3.2).

The packet itself becomes the payload of the answer: what stands in front of its IP header goes, the answer's headers
come there.  That makes one answer of one packet, in push and in pull.
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
    bounded,
    u8,
    u16,
    u32,
    u64,
    walltime,
)

UNREACHABLE, SOURCE_QUENCH, REDIRECT, TIME_EXCEEDED, PARAMETER_PROBLEM = 3, 4, 5, 11, 12
ERRORS = (UNREACHABLE, SOURCE_QUENCH, REDIRECT, TIME_EXCEEDED, PARAMETER_PROBLEM)
NEED_FRAGMENT, ERROR_AT_POINTER = 4, 0
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
    id: u16
    count: u64
    reads = ("count",)
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
        self.is_pointer = self.type == PARAMETER_PROBLEM and self.code == ERROR_AT_POINTER
        self.is_redirect = self.type == REDIRECT
        self.is_pmtu = self.type == UNREACHABLE and self.code == NEED_FRAGMENT
        self.id = 1

    def process(self, p: Packet) -> Port:
        if not p.has_network or p.network_offset < 0:
            self.kill(p, "no IP header")
            return
        p.strip(u32(p.network_offset))
        hlen = u32(p.ip.ihl) * 4
        src, dst = p.ip.src, p.ip.dst
        if p.ip.protocol == ICMP and (p.length < hlen + 1 or p.net.u8(hlen) in ERRORS):
            self.kill(p, "no error about an ICMP error")
            return
        if p.ip.fragment_offset != 0:
            self.kill(p, "no error about a later fragment")
            return
        if not self.unicast(dst) or p.packet_type in LINK_GROUPS:
            self.kill(p, "no error about a broadcast")
            return
        if not self.valid_source(src):
            self.kill(p, "no error to a bad source")
            return
        route = self.source_route(p, hlen)
        pointer = p.icmp_paramprob
        if route != 0:
            if self.is_redirect:
                self.kill(p, "no redirect for a source route")
                return
            # A route that is itself at fault is not used (RFC 1812, 4.3.2.6).
            if self.is_pointer and route <= pointer and pointer < route + u32(p.net.u8(route + 1)):
                route = 0
        head: u32 = 20
        if route != 0:
            head = (22 + u32(p.net.u8(route + 2))) & 0xFFFFFFFC
        gateway = p.dst_ip
        whole = u32(p.ip.total_length)
        if p.length > whole and whole >= hlen:
            p.trim(p.length - whole)
        if p.length > self.mtu - head - 8:
            p.trim(p.length - (self.mtu - head - 8))
        if p.headroom >= head + 8:
            p.prepend(head + 8)
        else:
            p.append(head + 8)
            p.move(head + 8, 0, p.length - head - 8)
        self.write_ip(p, head, src)
        if route != 0:
            self.reverse_route(p, head + 8 + route)
        p.set_network(0)
        p.set_transport(head)
        p.set_mac(None)
        p.set_u16(10, u16(~p.sum16(0, head)))
        rest: u32 = 0
        if self.is_pointer:
            rest = u32(pointer) << 24
        elif self.is_redirect:
            rest = gateway
        elif self.is_pmtu:
            rest = self.pmtu
        p.set_u16(head, self.type << 8 | self.code)
        p.set_u16(head + 2, 0)
        p.set_u32(head + 4, rest)
        p.set_u16(head + 2, u16(~p.sum16(head, p.length - head)))
        self.annotate(p, src)
        self.count += 1
        return 0

    def write_ip(self, p: Packet, head: u32, dst: u32):
        p.set_u32(0, head << 22 | 0x40000000 | p.length)
        p.set_u32(4, u32(self.id) << 16)
        p.set_u32(8, TTL << 24 | ICMP << 16)
        p.set_u32(12, self.src)
        p.set_u32(16, dst)
        self.id += 1

    def annotate(self, p: Packet, dst: u32):
        """The answer is a new packet: it has not come by any interface, so nothing of the old annotations stays."""
        for at in ANNOTATIONS:
            p.set_anno_u64(at, 0)
        p.dst_ip = dst
        if self.use_fix_anno:
            p.fix_ip_src = 1
        p.packet_type = 0
        p.timestamp = walltime()

    def unicast(self, address: u32) -> bool:
        return address != 0xFFFFFFFF and address >> 28 != 14 and address not in self.badaddrs

    def valid_source(self, address: u32) -> bool:
        """RFC 1812, 5.3.7: neither this network, nor loopback, nor class E, nor a broadcast or multicast."""
        net = address >> 24
        return net != 0 and net != 127 and net < 240 and self.unicast(address)

    def source_route(self, p: Packet, hlen: u32) -> u32:
        """Where the header has a source route with addresses behind it; 0 when it has none."""
        at: u32 = 20
        for _ in bounded(OPTIONS, OPTIONS):
            if at + 2 >= hlen or at + 2 >= p.length:
                break
            kind = p.net.u8(at)
            if kind == END:
                break
            if kind == NOP:
                at += 1
                continue
            size = u32(p.net.u8(at + 1))
            if size < 2 or at + size > hlen:
                break
            used = u32(p.net.u8(at + 2))
            if kind in SOURCE_ROUTES and used >= 4 and used & 3 == 0 and used <= size + 1:
                return at
            at += size
        return 0

    def reverse_route(self, p: Packet, old: u32):
        """Writes the addresses passed, last first, as the answer's source route (RFC 1122, 3.2.1.8)."""
        used = u32(p.u8(old + 2))
        p.set_u8(20, p.u8(old))
        p.set_u8(21, u8(used - 1))
        p.set_u8(22, 4)
        p.set_u8(19 + used, END)
        count = (used - 4) >> 2
        for i in bounded(count, 10):
            p.set_u32(23 + 4 * i, p.u32(old + 3 + 4 * (count - 1 - i)))
