"""AggregateIP: a field of the packet becomes its aggregate annotation.

A field is a row of bits behind one of three places: the IP header, the transport header, or the payload.  It is
written by name (`ip src`), or by place (`ip[8]`, `tcp[13-14]`, `data{0, 12}`; brackets count bytes, braces bits), and
may be cut by a prefix (`/8`) or a mask (`& 0xFF00`), whose zeros at the right are shifted out.
"""

import re
from dataclasses import dataclass, replace

from mezzo.elements import REQUIRED, Arg, Bool, ConfigError, Element, Packet, Port, Text, bounded, i64, u32, u64
from mezzo.elements.units import parse_int

IP, TRANSPORT, PAYLOAD = 0, 1, 2
ANY, TCP_UDP, ICMP, TCP, UDP = 0, 256, 1, 6, 17
LONGEST, FARTHEST = 32, 8 * 0xFFFF
TAIL_OF_FRAGMENT = 0x1FFF


@dataclass(frozen=True, slots=True)
class BitField:
    """`length` bits from bit `at` behind `place`, in packets of the protocol."""

    place: int
    proto: int
    at: int
    length: int


PLACES = {
    "ip": (IP, ANY), "transp": (TRANSPORT, ANY), "data": (PAYLOAD, ANY),
    "tcp": (TRANSPORT, TCP), "udp": (TRANSPORT, UDP), "icmp": (TRANSPORT, ICMP),
}  # fmt: skip
NAMES = {
    "ip": {
        "vers": (0, 4), "hl": (4, 4), "tos": (8, 8), "dscp": (8, 6), "ecn": (14, 2), "len": (16, 16), "id": (32, 16),
        "off": (48, 16), "rf": (48, 1), "df": (49, 1), "mf": (50, 1), "fragoff": (51, 13), "ttl": (64, 8),
        "proto": (72, 8), "sum": (80, 16), "src": (96, 32), "dst": (128, 32),
    },
    "udp": {"sport": (0, 16), "dport": (16, 16), "len": (32, 16), "sum": (48, 16)},
    "tcp": {
        "sport": (0, 16), "dport": (16, 16), "seqno": (32, 32), "ackno": (64, 32), "hl": (96, 4), "flags": (104, 8),
        "urg": (106, 1), "ack": (107, 1), "psh": (108, 1), "rst": (109, 1), "syn": (110, 1), "fin": (111, 1),
        "win": (112, 16), "sum": (128, 16), "urp": (144, 16),
    },
    "icmp": {"type": (0, 8), "code": (8, 8), "sum": (16, 16)},
}  # fmt: skip
PORTS = {"sport": (0, 16), "dport": (16, 16)}  # without a protocol: of TCP and UDP

_BY_NAME = re.compile(r"(?:(?P<head>[a-z]+)\s+)?(?P<name>[a-z]+)\s*")
_RANGE = r"(?P<from>\w+)\s*(?:(?P<how>[,-])\s*(?P<to>\w+)\s*)?"
_BY_PLACE = re.compile(rf"(?P<head>[a-z]+)\s*(?P<open>[\[{{])\s*{_RANGE}[\]}}]\s*")
_PREFIX = re.compile(r"/\s*(\d+)\s*")
_MASK = re.compile(r"&\s*(\w+)\s*")


def read_field(text: str) -> BitField:
    """ValueError says what is wrong."""
    text = text.strip()
    found = _BY_PLACE.match(text) or _BY_NAME.match(text)
    if found is None:
        raise ValueError(f"`{text}` is not a field; write for example `ip src`, `ip src/24` or `ip[12-15]`")
    field = _placed(found) if found.re is _BY_PLACE else _named(found)
    if not 1 <= field.length <= LONGEST or field.at + field.length > FARTHEST:
        raise ValueError(f"`{found[0].strip()}` has {field.length} bits; a field has 1 to {LONGEST}")
    return _cut(field, text[found.end() :])


def _named(m: re.Match[str]) -> BitField:
    head, name = m["head"], m["name"]
    if head is None and name in PORTS:
        return BitField(TRANSPORT, TCP_UDP, *PORTS[name])
    if name not in NAMES.get(head or "", {}):
        known = " ".join(NAMES[head]) if head in NAMES else "ip tcp udp icmp"
        raise ValueError(f"`{m[0].strip()}` is not a field; there are {known}")
    return BitField(*PLACES[head], *NAMES[head][name])


def _placed(m: re.Match[str]) -> BitField:
    if m["head"] not in PLACES:
        raise ValueError(f"`{m['head']}` is none of {' '.join(PLACES)}")
    if (m["open"] == "[") != m[0].rstrip().endswith("]"):
        raise ValueError(f"`{m[0].strip()}` opens with `{m['open']}` and ends otherwise")
    first, second = parse_int(m["from"]), parse_int(m["to"]) if m["to"] else 1
    length = second - first + 1 if m["how"] == "-" else second
    unit = 8 if m["open"] == "[" else 1
    return BitField(*PLACES[m["head"]], first * unit, length * unit)


def _cut(field: BitField, text: str) -> BitField:
    if not text:
        return field
    prefix, mask = _PREFIX.fullmatch(text), _MASK.fullmatch(text)
    if prefix and 1 <= int(prefix[1]) <= field.length:
        return replace(field, length=int(prefix[1]))
    bits = parse_int(mask[1]) if mask else 0
    low = (bits & -bits).bit_length() - 1
    if mask and 0 < bits < 1 << field.length and bits >> low & (bits >> low) + 1 == 0:
        return replace(field, at=field.at + field.length - bits.bit_length(), length=bits.bit_length() - low)
    what = f"`{text.strip()}` does not fit a field of {field.length} bits"
    raise ValueError(f"{what}; write `/BITS` or `& MASK`, ones in a row")


class AggregateIP(Element):
    """Sets the aggregate annotation to a field of the IP header, the transport header or the payload.

    FIELD is a name, such as `ip dst`, `ip tos`, `tcp flags` or `sport`, or a place, such as `ip[12-15]`,
    `"ip[12, 4]"`, `tcp{104-111}` or `data[0]`: brackets count bytes, braces bits.  A prefix (`ip src/24`) or a mask
    (`ip src & 0xFF00`) keeps a part.  Packets without the field (too short, later fragments, other protocols) leave by
    output 1, or are dropped.  Packets need their marks.
    """

    ports, processing = "1/1-2", "a/ah"
    field = Arg(Text(), REQUIRED, "what to take", handler=True)
    incremental = Arg(Bool(), False, "put the field's bits behind those that the annotation has", positional=False)
    see = ("AggregateCounter", "IPClassifier")
    example = """
        InfiniteSource(DATA \\<4500001c 00010000 401166ce 0a000001 0a000002 00010002 00080000>, LIMIT 3)
            -> MarkIPHeader -> AggregateIP(ip dst) -> a :: AggregateCounter -> Discard;
    """
    example_reads = {"a.total": "3", "a.aggregates": "1"}

    def configure(self):
        try:
            f = read_field(self.field)
        except ValueError as trouble:
            raise ConfigError(f"FIELD: {trouble}") from None
        self.in_ip, self.in_payload = f.place == IP, f.place == PAYLOAD
        self.proto, self.bits = f.proto, f.length
        self.first, self.span = f.at // 8, (f.at + f.length + 7) // 8 - f.at // 8
        self.shift = (8 - (f.at + f.length) % 8) % 8
        self.mask = (1 << f.length) - 1

    def field_at(self, p: Packet) -> i64:
        """Where the field's first byte is, from the start of the data; -1: the packet has no such field."""
        if not p.has_network or p.network_offset < 0 or p.network_offset + 20 > i64(p.length):
            return -1
        if self.in_ip:
            return p.network_offset + self.first
        if p.ip.frag & TAIL_OF_FRAGMENT != 0 or not p.has_transport:
            return -1
        proto = u32(p.ip.protocol)
        either = proto in (TCP, UDP)
        if self.in_payload or self.proto == TCP_UDP:
            if not either:
                return -1
        elif self.proto != ANY and proto != self.proto:
            return -1
        at = p.transport_offset
        if self.in_payload:
            if at + 20 > i64(p.length) and (proto == TCP or at + 8 > i64(p.length)):
                return -1
            at += i64(p.trans.u8(12) >> 4) * 4 if proto == TCP else 8
        return at + self.first

    def process(self, p: Packet) -> Port:
        at = self.field_at(p)
        if at < 0 or at + self.span > i64(p.length):
            return 1, "no such field"
        value: u64 = 0
        for i in bounded(self.span, 5):
            value = value << 8 | p.u8(u32(at) + i)
        found = u32(value >> self.shift) & self.mask
        p.aggregate = (p.aggregate << self.bits) + found if self.incremental else found
        return 0
