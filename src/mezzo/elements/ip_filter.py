"""IPFilter and IPClassifier: IP packets sorted by patterns like tcpdump's."""

from mezzo.elements import KILL, ConfigError, Element, Raw, Rest, read
from mezzo.elements.confparse import unquote
from mezzo.elements.decision import Diagram
from mezzo.elements.filter_language import parse_pattern
from mezzo.elements.filter_terms import rules_of
from mezzo.elements.units import parse_int


class IPClassifier(Element):
    """Sends each IP packet to the output of the first pattern that it matches; drops those that match none.

    Packets must have their IP header marked, as CheckIPHeader does.  Primitives: `[src | dst | src or dst | src and
    dst] host A | net A/BITS | [tcp | udp] port P`, `ip proto P`, `ip vers | hl | tos | dscp | len | id | ttl | csum N`,
    `ip frag | unfrag | ect | ce`, `tcp opt syn | fin | ack | rst | psh | urg`, `tcp win N`, `icmp type T`,
    `ip[AT:BYTES] N`, `transp[AT:BYTES] N` (also tcp, udp, icmp), true, false.  They take == != < <= > >= and `& MASK`,
    and are joined by and, or, not (&& || !), ( ) and ? : .  Most words can be left out: `tcp`, `dst port www`, `syn`,
    `10.0.0.0/8`, `src port 80 or 443`.  `-`, `any` and `all` match every packet.

    Ports, ICMP types and TCP flags are those of first fragments.  `src or dst host != A` is the opposite of
    `src or dst host A`; `port != P` still wants TCP or UDP.  A comparison of bytes that are missing is false.
    """

    ports, processing = "1/-", "h/h"
    patterns = Rest(Raw(), "one pattern for each output", least=1)
    reason = "no pattern matches"
    example = """InfiniteSource(LIMIT 4) -> UDPIPEncap(10.0.0.1, 53, 10.9.9.9, 1234)
  -> c :: IPClassifier(tcp, src port dns, -);
c[0] -> tcp :: Counter -> Discard; c[1] -> dns :: Counter -> Discard; c[2] -> other :: Counter -> Discard;"""
    example_reads = {"tcp.count": "0", "dns.count": "4", "other.count": "0"}
    see = ("IPFilter", "Classifier", "CheckIPHeader", "MarkIPHeader")

    def configure(self):
        if len(self.patterns) != self.noutputs:
            raise ConfigError(f"{len(self.patterns)} patterns for {self.noutputs} outputs; write one for each output")
        self.build((port, text, text) for port, text in enumerate(self.patterns))

    def build(self, filters):
        """Rules and the output of each from (output, pattern, argument)."""
        rules, ports, starts = [], [], []
        for number, (port, pattern, argument) in enumerate(filters):
            starts.append(len(rules))
            try:
                found = rules_of(parse_pattern(unquote(pattern), self.env))
            except ValueError as trouble:
                self.error(f"pattern {number}: {trouble}", argument)
                continue
            rules += found
            ports += [port] * len(found)
        if self.troubles:
            return
        self.rules, self.ways = tuple(rules), tuple(ports)
        diagram = Diagram(rules)
        self.text = diagram.describe()
        used = diagram.answers()
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(rules)], strict=True)):
            if used.isdisjoint(range(start, end)):
                self.warn(f"pattern {number} matches no packets")

    def generate(self, builder):
        # It makes IR, whose classes a router with its code on disk does not need.
        from mezzo.elements.decision_code import process

        process(builder, self.rules, [*self.ways, KILL], self.reason)

    @read("program", "the decision diagram, one step a line; [n] is the nth alternative of all patterns")
    def program(self):
        return self.text


class IPFilter(IPClassifier):
    """Lets IP packets pass, or drops them, by the first filter that they match.

    A filter is an action and a pattern, as in `allow dst port 80`.  Actions: `allow` (output 0), an output's number,
    `drop` or `deny`.  Patterns are those of IPClassifier.  Packets that match no filter are dropped.
    """

    patterns = Rest(Raw(), "ACTION PATTERN, one for each filter", least=1)
    reason = "denied"
    example = """InfiniteSource(LIMIT 4) -> UDPIPEncap(10.0.0.1, 53, 10.9.9.9, 1234)
  -> f :: IPFilter(deny src net 192.168.0.0/16, allow udp && src port dns, deny all) -> passed :: Counter -> Discard;"""
    example_reads = {"passed.count": "4"}
    see = ("IPClassifier", "Classifier", "CheckIPHeader")

    def configure(self):
        found = []
        for number, text in enumerate(self.patterns):
            word, _, pattern = unquote(text).strip().partition(" ")
            port = self.action(number, word, text)
            if port is not None:
                found.append((port, pattern, text))
        if len(found) == len(self.patterns):
            self.build(found)

    def action(self, number, word, text):
        """The output of an action, KILL for a drop; None and an error where it is neither."""
        if word in ("drop", "deny"):
            if word == "deny" and self.noutputs > 1:
                self.warn(f"pattern {number}: `deny` drops, also where there are further outputs; write `drop`")
            return KILL
        try:
            port = 0 if word == "allow" else parse_int(word)
        except ValueError:
            self.error(f"pattern {number}: `{word}` is no action; write allow, drop, deny or an output's number", text)
            return None
        if not 0 <= port < self.noutputs:
            self.error(f"pattern {number}: there is no output {port}; this element has {self.noutputs}", text)
            return None
        return port
