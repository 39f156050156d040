"""ICMPRewriter: ICMP errors about packets that a rewriter has changed (RFC 3022, 4.3; RFC 5508, section 4).

An error quotes the header of the packet it is about, and at least 8 bytes behind it, as the rewriter sent it.  Turned
round, the quoted addresses and ports are those of that packet's replies.  So what the rewriter would make of a reply,
turned round again, is what the packet was before.  Then the error goes where replies go.

Errors are rare, and their way crosses two elements: this one is ordinary Python.
"""

from mezzo.elements import Arg, Bool, ConfigError, Element, Many, Packet, Port, Word, python, u32
from mezzo.elements.rewriter_handlers import _FlowHandlers

ICMP, TCP, UDP = 1, 6, 17
UNREACHABLE, QUENCH, REDIRECT, EXCEEDED, PARAMETER = 3, 4, 5, 11, 12
ECHO_REPLY, ECHO = 0, 8
FRAGMENT = 0x1FFF
QUOTED = 8  # where the quoted packet starts in an error
LOW = 0xFFFF_FFFF


class ICMPRewriter(Element):
    """Makes ICMP errors about packets that one of the rewriters MAPS has changed errors about the originals.

    Expects marked IP packets. Errors about other packets, and what is no error, leave by output 1, or are dropped where
    it is not connected. Names of rewriters are separated by spaces.
    """

    ports, processing = "1/1-2", "a/ah"
    in_python = True
    maps = Arg(Many(Word()), doc="the rewriters: IPRewriter, IPAddrRewriter, ICMPPingRewriter and their like")
    dst_anno = Arg(Bool(), True, "set the destination annotation to the new destination", positional=False)
    rewritten: u32
    reads = {"rewritten": "errors rewritten"}
    see = ("IPRewriter", "ICMPPingRewriter", "IPAddrRewriter", "ICMPError")
    example = """
        InfiniteSource(DATA x, LIMIT 2) -> UDPIPEncap(10.0.0.2, 5000, 9.9.9.9, 53)
            -> nat :: IPRewriter(pattern 1.0.0.1 1024-65535# - - 0 0)
            -> ICMPError(8.8.8.1, unreachable, port) -> e :: ICMPRewriter(nat) -> c :: CheckICMPHeader -> Discard;
    """
    example_reads = {"e.rewritten": "2", "c.drops": "0"}

    def initialize(self):
        for name in self.maps:
            if not isinstance(self.rewriter(name), _FlowHandlers):
                raise ConfigError(f"MAPS: `{name}` is no rewriter; name an IPRewriter, ICMPPingRewriter or the like")

    def rewriter(self, name):
        """The element of that name, of the innermost compound that has one."""
        scope = self.env.scope
        while scope and scope + name not in self.router.elements:
            scope = scope[: scope.rfind("/", 0, -1) + 1]
        return self.router.elements.get(scope + name)

    def process(self, p: Packet) -> Port:
        if not self.is_error(p):
            return 1, "not an ICMP error"
        if self.translate(p) == 0:
            return 1, "about no mapping"
        self.rewritten += 1
        return 0

    def is_error(self, p: Packet) -> bool:
        """Is it an ICMP error that quotes a header and 8 bytes?"""
        if p.ip.protocol != ICMP or u32(p.ip.frag) & FRAGMENT != 0:
            return False
        at = u32(p.transport_offset)
        if at + QUOTED + 28 > p.length:
            return False
        kind = p.icmp.type
        if kind != UNREACHABLE and kind != QUENCH and kind != REDIRECT and kind != EXCEEDED and kind != PARAMETER:
            return False
        size = u32(p.trans.u8(QUOTED) & 15) * 4
        return p.trans.u8(QUOTED) >> 4 == 4 and size >= 20 and at + QUOTED + size + 8 <= p.length

    @python
    def translate(self, p):
        error = p.data[p.mark("trans") :]
        quoted = error[QUOTED:]
        inner = quoted[(quoted[0] & 15) * 4 :]
        proto, addresses = quoted[9], int.from_bytes(quoted[12:20], "big")
        ports = _ports(proto, quoted, inner)
        found = self.original(proto, addresses, ports)
        if found is None:
            return 0
        old = bytes(error)
        _requote(quoted, inner, proto, *found)
        _patch(error, 2, old, bytes(error))
        self.readdress(p, addresses, found[0])
        return 1

    def original(self, proto, addresses, ports):
        """(addresses, ports) that the quoted packet had before it was rewritten."""
        for name in self.maps:
            element = self.rewriter(name)
            before = element.after(proto, _swapped(addresses), element.turned(ports))
            if before is not None:
                return _swapped(before[0]), element.turned(before[1]) if element.with_ports else ports
        return None

    def readdress(self, p, was, now):
        """The error goes to who sent the packet; one from whom the packet was for has that one's other name."""
        header = p.data[p.mark("net") :]
        old = bytes(header[:20])
        for at, old_end, new_end in ((16, was >> 32, now >> 32), (12, was & LOW, now & LOW)):
            if int.from_bytes(old[at : at + 4], "big") == old_end:
                header[at : at + 4] = new_end.to_bytes(4, "big")
        _patch(header, 10, old[12:20], bytes(header[12:20]))
        if self.dst_anno:
            p.anno[:4] = header[16:20]


def _swapped(addresses):
    return (addresses & LOW) << 32 | addresses >> 32


def _ports(proto, quoted, inner):
    """Ports as the rewriter of that protocol keeps them; 0 where the quoted piece has none."""
    if int.from_bytes(quoted[6:8], "big") & FRAGMENT:
        return 0
    if proto == ICMP:
        return int.from_bytes(inner[4:6], "big") << 16 | inner[0] if inner[0] in (ECHO, ECHO_REPLY) else 0xFFFF
    return int.from_bytes(inner[:4], "big")


def _requote(quoted, inner, proto, addresses, ports):
    """Gives the quoted packet its first header again, with all checksums that are there."""
    was, ports_were = bytes(quoted[12:20]), bytes(inner[:4])
    quoted[12:20] = addresses.to_bytes(8, "big")
    _patch(quoted, 10, was, bytes(quoted[12:20]))
    if int.from_bytes(quoted[6:8], "big") & FRAGMENT:
        return
    if proto == ICMP and inner[0] in (ECHO, ECHO_REPLY):
        number = bytes(inner[4:6])
        inner[4:6] = (ports >> 16).to_bytes(2, "big")
        _patch(inner, 2, number, bytes(inner[4:6]))
    elif proto in (TCP, UDP):
        inner[:4] = ports.to_bytes(4, "big")
        at = 16 if proto == TCP else 6
        if len(inner) >= at + 2 and (proto == TCP or bytes(inner[6:8]) != b"\0\0"):
            _patch(inner, at, was + ports_were, bytes(quoted[12:20]) + bytes(inner[:4]))


def _patch(header, at, old, new):
    """Brings the checksum at `at` up to date when `old` has become `new` (RFC 1624, eqn. 3)."""
    total = int.from_bytes(header[at : at + 2], "big") ^ 0xFFFF
    for i in range(0, len(old) - 1, 2):
        if old[i : i + 2] != new[i : i + 2]:
            total += (int.from_bytes(old[i : i + 2], "big") ^ 0xFFFF) + int.from_bytes(new[i : i + 2], "big")
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    header[at : at + 2] = (total ^ 0xFFFF).to_bytes(2, "big")
