"""ICMPPingRewriter: echo requests and replies through NAT (RFC 3022, 2.2; RFC 5508, section 3).

In the table of flows a request's ports are its identifier and, below it, its type; a reply's the identifier and its
type.  So a request and a reply with the same addresses and identifier are never taken for each other.
"""

from mezzo.elements import Arg, Duration, Packet, checksum_adjust, now, u16, u32
from mezzo.elements.rewriter_flows import DATAGRAM, PORTS, SECOND, STATE, USED
from mezzo.elements.rewriter_handlers import _FlowHandlers
from mezzo.elements.rewriter_pieces import MF, NO_PORT, PLACE, _Pieces
from mezzo.elements.rewriter_spec import PASS
from mezzo.wire.address import format_ip

ICMP, ECHO_REPLY, ECHO = 1, 0, 8


class ICMPPingRewriter(_Pieces, _FlowHandlers):
    """Rewrites addresses and identifiers of ICMP echo requests, and those of their replies back.

    Expects marked IP packets. Specifications are those of IPRewriter; SPORT in a pattern is the identifier, or a range
    of them, and DPORT stays `-`. Only requests make flows; a reply without one, and what is no echo, leaves where the
    specification of its input is `pass` and dies elsewhere.
    """

    timeout = Arg(Duration(), 300 * SECOND, "life of a flow without packets", positional=False)
    see = ("IPRewriter", "ICMPRewriter", "ICMPPingResponder")
    example = """
        p :: ICMPPingSource(10.0.0.1, 9.9.9.9, INTERVAL 0.1, LIMIT 3, VERBOSE false)
            -> [0] nat :: ICMPPingRewriter(pattern 1.0.0.1 1024-65535# - - 0 1, drop);
        nat[0] -> ICMPPingResponder -> c :: CheckICMPHeader -> [1] nat; nat[1] -> Queue -> Unqueue -> [0] p;
    """
    example_reads = {"nat.nmappings": "1", "c.drops": "0", "p.count": "3"}

    def times(self):
        return [0] * DATAGRAM + [self.timeout, 0]

    def read_spec(self, text):
        spec = _FlowHandlers.read_spec(self, text)
        if any(p.dport for p in spec.patterns):
            self.error(f"`{text}`: DPORT has to be `-`: an echo has one identifier, which is SPORT", text)
        return spec

    def turn(self, ports: u32) -> u32:
        return ports ^ ECHO

    def new_ports(self, ports: u32, source: u32, target: u32) -> u32:
        return (source << 16) | (ports & 0xFFFF) if source != 0 else ports

    def push(self, port, p):
        frag = u32(p.ip.frag) & (MF | PLACE)
        if self.is_echo(p, frag):
            addresses = p.net.u64(12)
            kind = u32(p.icmp.type)
            ports = (u32(p.icmp.id) << 16) | kind
            e = self.find.get(self.key(addresses, ports, ICMP), 0)
            if e != 0 and u32(self.rec[4 * e + STATE] >> 32) != self.tick():
                e = self.look_again(e)
            if e == 0 and kind == ECHO:
                e = self.open(port, addresses, ports, ICMP)
            if e != 0:
                if frag != 0:
                    self.remember(p, e)
                number = u16(self.rec[4 * e + PORTS] >> 48)
                # ICMP's checksum has no addresses in it.
                p.icmp.checksum = checksum_adjust(p.icmp.checksum, p.icmp.id, number)
                p.icmp.id = number
                self.address(p, e)
                self.rec[4 * e + USED] = now()
                self.push(u32(self.rec[4 * e + STATE]) & 0xFFFF, p)
                return
        elif p.ip.protocol == ICMP:
            out = self.piece_output(p, frag)
            if out != NO_PORT:
                self.push(out, p)
                return
        if self.kind[port] == PASS:
            self.push(self.output[port], p)
        else:
            self.kill(p, "no mapping")

    def is_echo(self, p: Packet, frag: u32) -> bool:
        if p.ip.protocol != ICMP or frag & PLACE != 0 or u32(p.transport_offset) + 8 > p.length:
            return False
        return p.icmp.type == ECHO or p.icmp.type == ECHO_REPLY

    def turned(self, ports):
        return ports ^ ECHO

    def flow_words(self, addresses, ports):
        kind = "request" if ports & 0xFFFF == ECHO else "reply"
        return f"({format_ip(addresses >> 32)}, {format_ip(addresses & 0xFFFF_FFFF)}, {ports >> 16} {kind})"

    def after(self, proto, addresses, ports):
        """What an echo becomes, where a living flow has it."""
        e = self.find.get(addresses << 64 | ports << 32 | proto, 0)
        return None if not e or self.end_of(e >> 1) <= self.now_ns() else self.mapping(e)[:2]
