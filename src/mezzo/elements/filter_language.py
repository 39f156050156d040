"""The pattern language of IPFilter and IPClassifier: tcpdump-like, as Click defines it.

    pattern  = or-list [ "?" pattern ":" pattern ]
    or-list  = and-list { ("or" | "||") and-list }
    and-list = factor { ["and" | "&&"] factor }
    factor   = ("not" | "!") factor | "(" pattern ")" | primitive
    primitive = { qualifier } [ "&" mask ] [ relation ] value

A qualifier says what the value is about: src, dst, src or dst, src and dst; tcp, udp, icmp; host, net, port, proto;
`ip ttl` and its like; `ip[6:2]`.  A value without any takes those of the primitive before it: `src port 80 or 81`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from mezzo.elements.args import Env, IPAddress, IPPrefix
from mezzo.elements.filter_terms import FALSE, TRUE, All, Any, Expr, Field, Not, compare
from mezzo.elements.units import parse_int
from mezzo.wire import constants
from mezzo.wire.address import parse_ip

_TOKEN = re.compile(
    r"\s+|(?P<word>&&|\|\||[=!<>]=|[()!?&<>=]|(?:ip|transp|tcp|udp|icmp)\s*\[[^\]]*\]|[^\s()!&|<>=?]+|.)"
)
_PART = re.compile(r"(\w+)\s*\[\s*(\w+)\s*(?::\s*(\w+)\s*)?\]\Z")

DIRECTIONS = ("src", "dst", "src or dst", "src and dst")
TRANSPORTS = {"tcp": 6, "udp": 17, "icmp": 1}
PROTOCOLS = {name: number for number, name in constants.PROTOCOLS.items()}
PORTS = {name: number for number, name in constants.PORTS.items()} | {
    "discard": 9, "daytime": 13, "chargen": 19, "dns": 53, "finger": 79, "http": 80, "sunrpc": 111, "auth": 113,
    "nntp": 119, "imap3": 220, "snmp-trap": 162, "irc": 194, "route": 520, "pop3s": 995, "netbios-ns": 137,
}  # fmt: skip
ICMP_TYPES = {name: number for number, name in constants.ICMP_TYPES.items()} | {
    "sourcequench": 4, "routeradvert": 9, "routersolicit": 10, "timeexceeded": 11, "parameterproblem": 12,
    "inforeq": 15, "inforeq-reply": 16, "maskreq": 17, "maskreq-reply": 18,
}  # fmt: skip
TCP_FLAGS = {"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32, "ece": 64, "cwr": 128}

SRC, DST = Field("net", 96, 32), Field("net", 128, 32)
PROTO, FRAG, OFFSET = Field("net", 72, 8), Field("net", 50, 14), Field("net", 51, 13)
SRC_PORT, DST_PORT = Field("trans", 0, 16), Field("trans", 16, 16)
ECN = Field("net", 14, 2)  # RFC 3168: 1 and 2 are ECT(1) and ECT(0), 3 is CE
FLAGS = Field("trans", 8 * 13, 8)
# name -> (field, the protocol it belongs to)
FIELDS = {
    "ip vers": (Field("net", 0, 4), 0),
    "ip hl": (Field("net", 4, 4), 0),
    "ip tos": (Field("net", 8, 8), 0),
    "ip dscp": (Field("net", 8, 6), 0),
    "ip len": (Field("net", 16, 16), 0),
    "ip id": (Field("net", 32, 16), 0),
    "ip ttl": (Field("net", 64, 8), 0),
    "ip proto": (PROTO, 0),
    "ip csum": (Field("net", 80, 16), 0),
    "tcp win": (Field("trans", 8 * 14, 16), 6),
    "icmp type": (Field("trans", 0, 8), 1),
}
SHORT = {name.split()[1]: name for name in FIELDS} | {"opt": "tcp opt"}
FIRST_FRAGMENT = compare(OFFSET, "==", 0, OFFSET.most)
RELATIONS = ("==", "!=", "<", "<=", ">", ">=")
WORDS = {"and", "or", "not", "&&", "||", "!", "(", ")", "?", ":"}


@dataclass(frozen=True, slots=True)
class About:
    """What a value is about: `direction`; `kind` (host net port opt, a key of FIELDS or `part`); a protocol, or 0."""

    direction: str = ""
    kind: str = ""
    proto: int = 0
    part: Field | None = None


class Parser:
    """Parses one pattern; ValueError names the word that is wrong."""

    def __init__(self, text: str, env: Env) -> None:
        self.words = [m["word"] for m in _TOKEN.finditer(text) if m["word"]]
        self.at, self.env, self.last, self.depth = 0, env, About(), 0

    def parse(self) -> Expr:
        if not self.words:
            raise ValueError("the pattern is empty; write `all` to match every packet")
        if len(self.words) == 1 and self.words[0] in ("-", "any", "all"):
            return TRUE
        found = self.pattern()
        if self.at < len(self.words):
            raise ValueError(f"`{self.words[self.at]}` does not fit here")
        return found

    # -- words

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.words[at] if at < len(self.words) else ""

    def take(self, *wanted: str) -> bool:
        if self.peek() and self.peek() in wanted:
            self.at += 1
            return True
        return False

    def next(self, what: str) -> str:
        word = self.peek()
        if not word:
            raise ValueError(f"{what} is missing behind `{self.words[-1]}`")
        if word in WORDS:
            raise ValueError(f"expected {what}, not `{word}`")
        self.at += 1
        return word

    # -- connectives

    def pattern(self) -> Expr:
        self.depth += 1
        if self.depth > 100:
            raise ValueError("it is nested more than 100 deep")
        found = self.alternatives()
        if self.take("?"):
            yes = self.pattern()
            if not self.take(":"):
                raise ValueError("`?` without ` : `; write CONDITION ? A : B, with spaces round the colon")
            found = Any((All((found, yes)), All((Not(found), self.pattern()))))
        self.depth -= 1
        return found

    def alternatives(self) -> Expr:
        parts = [self.conjunction()]
        while self.take("or", "||"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def conjunction(self) -> Expr:
        parts = [self.factor()]
        while self.take("and", "&&") or self.peek() not in ("", ")", "or", "||", "?", ":"):
            parts.append(self.factor())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def factor(self) -> Expr:
        negations = 0
        while self.take("not", "!"):
            negations += 1
        if self.take("("):
            found = self.pattern()
            if not self.take(")"):
                raise ValueError("`(` without `)`")
        else:
            found = self.primitive()
        return Not(found) if negations % 2 else found

    # -- primitives

    def primitive(self) -> Expr:
        if self.take("true"):
            return TRUE
        if self.take("false"):
            return FALSE
        about = self.qualifiers()
        whole = self.without_value(about)
        if whole is not None:
            return whole
        mask = self.mask()
        relation = self.relation()
        word = self.peek()
        if not word or word in WORDS:
            if mask is not None and not relation:
                return self.judge(about, "!=", 0, mask)
            if about == About(proto=about.proto) and about.proto:
                return self.of_protocol(about.proto, TRUE)
        return self.value(about, mask, relation or "==")

    def qualifiers(self) -> About:
        """The words in front of a value; where there are none, those of the value before."""
        about = About()
        while True:
            word, both = self.peek(), " ".join(self.words[self.at : self.at + 3])
            if both in ("src or dst", "dst or src", "src and dst", "dst and src"):
                about = replace(about, direction="src and dst" if " and " in both else "src or dst")
                self.at += 3
            elif word in ("src", "dst"):
                about = replace(about, direction=word)
                self.at += 1
            elif _PART.match(word):
                about = self.part(word)
                self.at += 1
            elif word == "ip" and (f"ip {self.peek(1)}" in FIELDS or self.peek(1) in ("frag", "unfrag", "ect", "ce")):
                self.at += 1
            elif word in TRANSPORTS and not about.kind:
                about = replace(about, proto=TRANSPORTS[word])
                self.at += 1
            elif word in ("host", "net", "port") or (word in SHORT and self.fits(word, about)):
                if about.kind:
                    raise ValueError(f"`{word}` behind `{about.kind}`: one of them is enough")
                about = replace(about, kind={"opt": "opt"}.get(word, SHORT.get(word, word)))
                self.at += 1
            else:
                break
        return about if about != About() or not self.is_more(self.peek()) else self.last

    def is_more(self, word: str) -> bool:
        """Whether a bare word is one more value of what the last one was about."""
        if self.last.kind in ("host", "net"):
            return self.maybe_address(word, self.last) is not None
        if not self.last.kind:
            return False
        names = TCP_FLAGS if self.last.kind == "opt" else self.domain(self.last)[0]
        return word in names or word.isdigit() or word in RELATIONS or word == "&"

    def fits(self, word: str, about: About) -> bool:
        """`type`, `win` and `opt` are qualifiers behind their protocol alone."""
        return {"opt": 6, "win": 6, "type": 1}.get(word, about.proto) == about.proto

    def part(self, word: str) -> About:
        match = _PART.match(word)
        assert match is not None
        layer, at, length = match[1], parse_int(match[2]), parse_int(match[3] or "1")
        if length not in (1, 2, 4) or at % 4 + length > 4:
            raise ValueError(f"`{word}`: write 1, 2 or 4 bytes that lie in one word of four")
        field = Field("net" if layer == "ip" else "trans", 8 * at, 8 * length)
        return About(kind="part", proto=TRANSPORTS.get(layer, 0), part=field)

    def without_value(self, about: About) -> Expr | None:
        """ip frag, unfrag, ect, ce, and a protocol that stands alone."""
        if about.kind in ("", self.last.kind):
            if self.take("frag"):
                return compare(FRAG, "!=", 0, FRAG.most)
            if self.take("unfrag"):
                return compare(FRAG, "==", 0, FRAG.most)
            if self.take("ect"):
                return Any((compare(ECN, "==", 1, 3), compare(ECN, "==", 2, 3)))
            if self.take("ce"):
                return compare(ECN, "==", 3, 3)
        return None

    def mask(self) -> int | None:
        if not self.take("&"):
            return None
        word = self.next("a mask")
        try:
            return parse_int(word)
        except ValueError:
            return parse_ip(word)

    def relation(self) -> str:
        if self.peek() == "=":
            self.at += 1
            return "=="
        if self.peek() in RELATIONS:
            self.at += 1
            return self.words[self.at - 1]
        return ""

    # -- values

    def value(self, about: About, mask: int | None, relation: str) -> Expr:
        word = self.next("a value")
        if not about.kind:
            about = self.guess(word, about)
        elif about is self.last and about.kind in ("host", "net"):
            about = self.maybe_address(word, about) or about
        self.last = about
        if about.kind in ("host", "net"):
            return self.network(word, about, mask, relation)
        if about.kind == "opt":
            if relation != "==" or mask is not None:
                raise ValueError(f"`{word}`: `tcp opt` takes no relation and no mask; write `not tcp opt {word}`")
            flag = self.number(word, TCP_FLAGS, 255, "a TCP flag")
            return self.of_protocol(6, All((FIRST_FRAGMENT, compare(FLAGS, "==", flag, flag))))
        names, most, what = self.domain(about)
        number = self.number(word, names, most, what)
        return self.judge(about, relation, number, mask)

    def domain(self, about: About) -> tuple[dict[str, int], int, str]:
        if about.kind == "port":
            return PORTS, 0xFFFF, "a port"
        field = self.field(about)
        names = {"ip proto": PROTOCOLS, "icmp type": ICMP_TYPES}.get(about.kind, {})
        return names, field.most, f"a value of `{about.kind}`" if about.part is None else "a number"

    def field(self, about: About) -> Field:
        return about.part if about.part is not None else FIELDS[about.kind][0]

    def guess(self, word: str, about: About) -> About:
        """What a bare word is: a TCP flag, a port, an ICMP type, a protocol, an address, a network."""
        if about.proto == 1 and word in ICMP_TYPES:
            return replace(about, kind="icmp type")
        if word in TCP_FLAGS and about.proto in (0, 6) and not about.direction:
            return replace(about, kind="opt", proto=6)
        if word in PROTOCOLS and about == About():
            return replace(about, kind="ip proto")
        if word in PORTS and word in ICMP_TYPES and about == About():
            raise ValueError(f"`{word}` is a port and an ICMP type; write `port {word}` or `icmp type {word}`")
        if word in PORTS and about.proto != 1:
            return replace(about, kind="port")
        if word in ICMP_TYPES and not about.proto and not about.direction:
            return replace(about, kind="icmp type", proto=1)
        found = self.maybe_address(word, about)
        if found is not None:
            return found
        raise ValueError(f"`{word}` is no {self.could_be(word, about)}")

    def maybe_address(self, word: str, about: About) -> About | None:
        """A host or a network as `about` says, where the word is one."""
        for kind, reader in (("host", IPAddress()), ("net", IPPrefix())):
            try:
                reader.parse(word, self.env)
            except ValueError:
                continue
            return replace(about, kind=kind)
        return None

    def could_be(self, word: str, about: About) -> str:
        if word.isdigit():
            return "address; say what the number is, as in `port 80` or `ip proto 6`"
        known = {**PORTS, **PROTOCOLS, **TCP_FLAGS, **ICMP_TYPES}
        try:
            constants.number_of(dict(enumerate(known)), word)
        except ValueError as trouble:
            close = str(trouble).partition("; did you mean ")[2]
            return f"address, port, protocol, TCP flag or ICMP type{'; did you mean ' + close if close else ''}"
        return "word for this place"

    def number(self, word: str, names: dict[str, int], most: int, what: str) -> int:
        if word in names:
            return names[word]
        try:
            number = parse_int(word)
        except ValueError:
            hint = "; write `>= LOW and … <= HIGH` for a range" if re.match(r"\d+-\d+\Z", word) else ""
            raise ValueError(f"`{word}` is not {what}{hint}") from None
        if not 0 <= number <= most:
            raise ValueError(f"`{word}` is out of range: {what} is 0 to {most}")
        return number

    def network(self, word: str, about: About, mask: int | None, relation: str) -> Expr:
        if relation not in ("==", "!="):
            raise ValueError(f"`{relation}` cannot compare addresses; write == or !=")
        address, bits = self.address(word, about, mask)
        equal = self.directed(about, SRC, DST, "==", address & bits, bits)
        return self.of_protocol(about.proto, equal if relation == "==" else Not(equal))

    def of_protocol(self, proto: int, found: Expr) -> Expr:
        return All((compare(PROTO, "==", proto, PROTO.most), found)) if proto else found

    def address(self, word: str, about: About, mask: int | None) -> tuple[int, int]:
        full = 0xFFFF_FFFF
        if about.kind == "net":
            if self.take("mask"):
                return IPAddress().parse(word, self.env), parse_ip(self.next("a mask"))
            network, length = IPPrefix().parse(word, self.env)
            return network, full << (32 - length) & full
        return IPAddress().parse(word, self.env), full if mask is None else mask

    def judge(self, about: About, relation: str, number: int, mask: int | None) -> Expr:
        """The comparison, with what it takes for granted: the protocol, and the first fragment."""
        if about.kind == "port":
            return self.port(about, relation, number, 0xFFFF if mask is None else mask)
        if about.kind in ("", "host", "net", "opt"):
            raise ValueError("`&` needs something to mask, as in `src port & 0xff == 80`")
        field = self.field(about)
        proto = FIELDS[about.kind][1] if about.part is None else about.proto
        found = compare(field, relation, number, self.bits(field.most if mask is None else mask, field.most))
        return self.of_protocol(proto or about.proto, found if field.mark == "net" else All((FIRST_FRAGMENT, found)))

    def bits(self, mask: int, most: int) -> int:
        if mask > most:
            raise ValueError(f"the mask {mask:#x} has more bits than the field, which reaches {most:#x}")
        return mask

    def port(self, about: About, relation: str, number: int, mask: int) -> Expr:
        if about.proto not in (0, 6, 17):
            raise ValueError("`port` is for tcp and udp")
        protos = (about.proto,) if about.proto else (6, 17)
        own = Any(tuple(self.of_protocol(p, TRUE) for p in protos))
        there = All((SRC_PORT.there(), DST_PORT.there()))
        bits = self.bits(mask, 0xFFFF)
        if relation in ("!=", "<", "<="):  # the opposite as a whole, as Click has it
            other = {"!=": "==", "<": ">=", "<=": ">"}[relation]
            opposite = self.directed(about, SRC_PORT, DST_PORT, other, number, bits, are_there=True)
            return All((own, FIRST_FRAGMENT, there, Not(opposite)))
        return All((own, FIRST_FRAGMENT, self.directed(about, SRC_PORT, DST_PORT, relation, number, bits)))

    def directed(
        self, about: About, src: Field, dst: Field, relation: str, number: int, mask: int, are_there: bool = False
    ) -> Expr:
        a, b = (compare(field, relation, number, mask, are_there) for field in (src, dst))
        if about.direction == "src":
            return a
        if about.direction == "dst":
            return b
        return All((a, b)) if about.direction == "src and dst" else Any((a, b))


def parse_pattern(text: str, env: Env) -> Expr:
    """The expression of a pattern; ValueError says which word is wrong and why."""
    return Parser(text, env).parse()
