"""The fields of IP summary dumps, a line of text a packet.

A field's `show` gives its text for a packet, None where it does not apply (`-` in the file); `take` reads its text into
a draft.  Fields without `take` are passed over when a dump is read.
"""

from collections.abc import Callable
from dataclasses import dataclass

from mezzo.elements._summary import (
    AGGREGATE_ANNO,
    COUNT_ANNO,
    ICMP,
    LENGTH_ANNO,
    PAINT_ANNO,
    TCP,
    UDP,
    Draft,
    Look,
    transport_size,
)
from mezzo.elements.confparse import quote_inner, unquote_bytes
from mezzo.wire.address import format_ether, format_ip, format_ip6, parse_ip

FLAGS = "FSRPAUECN"  # from the lowest bit; dumps of old say X and Y for E and C
OLD_FLAGS = {"X": "E", "Y": "C", "W": "C"}
LETTERS = {ICMP: "I", TCP: "T", UDP: "U"}
ALL_32 = 0xFFFF_FFFF
NUMBERS = {"I": ICMP, "T": TCP, "U": UDP}


@dataclass(frozen=True)
class SummaryField:
    """One column."""

    name: str
    doc: str
    show: Callable[[Look], str | None]
    take: Callable[[Draft, str], None] | None = None


def _ip(at: int, size: int) -> Callable[[Look], str | None]:
    return lambda s: str(int.from_bytes(s.ip[at : at + size], "big")) if s.is_v4 else None


def _part(protos: tuple[int, ...], at: int, size: int) -> Callable[[Look], str | None]:
    """A number of the transport header."""

    def show(s: Look) -> str | None:
        if s.proto not in protos or len(s.transport) < at + size:
            return None
        return str(int.from_bytes(s.transport[at : at + size], "big"))

    return show


def _number(key: str, high: int) -> Callable[[Draft, str], None]:
    def take(draft: Draft, text: str) -> None:
        value = int(text)
        if not 0 <= value <= high:
            raise ValueError(f"{value} is out of range for {key}")
        draft.values[key] = value

    return take


def _address(key: str) -> Callable[[Draft, str], None]:
    def take(draft: Draft, text: str) -> None:
        draft.values[key] = parse_ip(text)

    return take


def _show_address(low: int) -> Callable[[Look], str | None]:
    def show(s: Look) -> str | None:
        if not s.ip:
            return None
        if s.is_v4:
            return format_ip(int.from_bytes(s.ip[12 + 4 * low : 16 + 4 * low], "big"))
        return format_ip6(int.from_bytes(s.ip[8 + 16 * low : 24 + 16 * low], "big"))

    return show


def _seconds(text: str) -> int:
    whole, _, part = text.partition(".")
    return int(whole) * 10**9 + int((part + "000000000")[:9])


def _take_time(draft: Draft, text: str) -> None:
    draft.time_ns = _seconds(text)


def _take_sec(draft: Draft, text: str) -> None:
    draft.time_ns = int(text) * 10**9 + draft.time_ns % 10**9


def _take_usec(draft: Draft, text: str) -> None:
    draft.time_ns = draft.time_ns // 10**9 * 10**9 + int(text) * 1000


def _take_usec1(draft: Draft, text: str) -> None:
    draft.time_ns = int(text) * 1000


def _show_frag(s: Look) -> str | None:
    if not s.is_v4:
        return None
    return "f" if s.frag & 0x1FFF else "F" if s.frag & 0x2000 else "."


def _take_frag(draft: Draft, text: str) -> None:
    marks = {".": 0, "F": 0x2000, "f": 1}
    if text not in marks:
        raise ValueError(f"`{text}` is none of F, f and .")
    draft.values.setdefault("frag", marks[text])


def _show_fragoff(s: Look) -> str | None:
    return f"{(s.frag & 0x1FFF) * 8}{'+' if s.frag & 0x2000 else ''}" if s.is_v4 else None


def _take_fragoff(draft: Draft, text: str) -> None:
    offset = int(text.rstrip("+"))
    if offset % 8 or not 0 <= offset < 0x10000:
        raise ValueError(f"{offset} is no fragment offset: a multiple of 8 below 65536")
    draft.values["frag"] = offset // 8 | (0x2000 if text.endswith("+") else 0)


def _show_proto(s: Look) -> str | None:
    return LETTERS.get(s.proto, str(s.proto)) if s.ip else None


def parse_proto(text: str) -> int:
    value = NUMBERS.get(text) or int(text)
    if not 0 <= value <= 255:
        raise ValueError(f"{value} is no IP protocol")
    return value


def _take_proto(draft: Draft, text: str) -> None:
    draft.values["ip_proto"] = parse_proto(text)


def _show_flags(s: Look) -> str | None:
    if s.proto != TCP or len(s.transport) < 14:
        return None
    bits = int.from_bytes(s.transport[12:14], "big") & 0x1FF
    return "".join(letter for n, letter in enumerate(FLAGS) if bits >> n & 1) or "."


def _take_flags(draft: Draft, text: str) -> None:
    if text.isdigit():
        draft.values["tcp_flags"] = int(text) & 0x1FF
        return
    letters = [OLD_FLAGS.get(c, c) for c in text if c != "."]
    draft.values["tcp_flags"] = sum(1 << FLAGS.index(c) for c in set(letters))


def _take_len(draft: Draft, text: str) -> None:
    draft.ip_len = int(text)


def _show_payload_len(s: Look) -> str | None:
    used = s.ip_size + (transport_size(s) if s.transport else 0)
    return str(max(0, s.length - used))


def _take_payload_len(draft: Draft, text: str) -> None:
    draft.payload_len = int(text)


def _show_payload(s: Look) -> str | None:
    data = s.payload if s.ip else bytes(s.packet.data)
    return '"' + "".join(map(_quoted, data)) + '"'


def _quoted(byte: int) -> str:
    return quote_inner(chr(byte)) if 0x20 <= byte < 0x7F else f"\\<{byte:02X}>"


def _take_payload(draft: Draft, text: str) -> None:
    draft.payload = unquote_bytes(text)


def _take_count(draft: Draft, text: str) -> None:
    draft.count = max(1, int(text))


def _show_link(s: Look) -> str:
    return str(s.anno(PAINT_ANNO, 1))


def _show_direction(s: Look) -> str:
    return {"0": ">", "1": "<"}.get(_show_link(s), _show_link(s))


def _take_link(draft: Draft, text: str) -> None:
    draft.values["paint"] = {">": 0, "L": 0, "<": 1, "X": 1, "R": 1}.get(text, -1)
    if draft.values["paint"] < 0:
        draft.values["paint"] = int(text) & 255


def _ether(at: int) -> Callable[[Look], str | None]:
    def show(s: Look) -> str | None:
        mac, net = s.packet.mark("mac"), s.packet.mark("net")
        if mac is None or (net if net is not None else len(s.packet)) < mac + 14:
            return None
        first = s.packet.base + s.packet.get("mac") + at
        return format_ether(int.from_bytes(s.packet.arena.mem[first : first + 6], "big"))

    return show


FIELDS = {
    f.name: f
    for f in (
        SummaryField("timestamp", "seconds since 1970", lambda s: _decimal(_micro(s), 6), _take_time),
        SummaryField("ntimestamp", "the same with nanoseconds", lambda s: _decimal(_ns(s), 9), _take_time),
        SummaryField("ts_sec", "whole seconds", lambda s: str(_ns(s) // 10**9), _take_sec),
        SummaryField("ts_usec", "microseconds within the second", lambda s: str(_micro(s) % 10**6), _take_usec),
        SummaryField("ts_usec1", "microseconds since 1970", lambda s: str(_micro(s)), _take_usec1),
        SummaryField("eth_src", "Ethernet source", _ether(6)),
        SummaryField("eth_dst", "Ethernet destination", _ether(0)),
        SummaryField("ip_src", "IP source", _show_address(0), _address("ip_src")),
        SummaryField("ip_dst", "IP destination", _show_address(1), _address("ip_dst")),
        SummaryField("ip_tos", "type of service", _ip(1, 1), _number("ip_tos", 255)),
        SummaryField("ip_ttl", "time to live", _ip(8, 1), _number("ip_ttl", 255)),
        SummaryField("ip_id", "identification", _ip(4, 2), _number("ip_id", 0xFFFF)),
        SummaryField("ip_sum", "header checksum", _ip(10, 2)),
        SummaryField("ip_frag", "F first, f later fragment, . none", _show_frag, _take_frag),
        SummaryField("ip_fragoff", "fragment offset, bytes; + if more follow", _show_fragoff, _take_fragoff),
        SummaryField("ip_len", "length of the IP packet, bytes", lambda s: str(s.length), _take_len),
        SummaryField("ip_proto", "T, U, I or a number", _show_proto, _take_proto),
        SummaryField("sport", "source port", _part((TCP, UDP), 0, 2), _number("sport", 0xFFFF)),
        SummaryField("dport", "destination port", _part((TCP, UDP), 2, 2), _number("dport", 0xFFFF)),
        SummaryField("tcp_seq", "TCP sequence", _part((TCP,), 4, 4), _number("tcp_seq", ALL_32)),
        SummaryField("tcp_ack", "TCP acknowledgement", _part((TCP,), 8, 4), _number("tcp_ack", ALL_32)),
        SummaryField("tcp_flags", "letters of FSRPAUECN, or .", _show_flags, _take_flags),
        SummaryField("tcp_window", "TCP window", _part((TCP,), 14, 2), _number("tcp_window", 0xFFFF)),
        SummaryField("tcp_urp", "TCP urgent pointer", _part((TCP,), 18, 2), _number("tcp_urp", 0xFFFF)),
        SummaryField("udp_len", "UDP length", _part((UDP,), 4, 2), _number("udp_len", 0xFFFF)),
        SummaryField("icmp_type", "ICMP type", _part((ICMP,), 0, 1), _number("icmp_type", 255)),
        SummaryField("icmp_code", "ICMP code", _part((ICMP,), 1, 1), _number("icmp_code", 255)),
        SummaryField("payload", "what the transport carries, quoted", _show_payload, _take_payload),
        SummaryField("payload_len", "its length, bytes", _show_payload_len, _take_payload_len),
        SummaryField("count", "packets this line stands for", lambda s: str(1 + s.anno(COUNT_ANNO)), _take_count),
        SummaryField("aggregate", "annotation", lambda s: str(s.anno(AGGREGATE_ANNO)), _number("aggregate", ALL_32)),
        SummaryField("link", "PAINT annotation", _show_link, _take_link),
        SummaryField("paint", "the same", _show_link, _take_link),
        SummaryField("direction", "the same: > is 0, < is 1", _show_direction, _take_link),
        SummaryField("cap_len", "captured bytes", lambda s: str(len(s.packet))),
        SummaryField("wire_len", "bytes on the wire", lambda s: str(len(s.packet) + s.anno(LENGTH_ANNO))),
    )
}

# Names of other times and programs.
ALIASES = {
    "src": "ip_src", "dst": "ip_dst", "len": "ip_len", "length": "ip_len", "proto": "ip_proto", "id": "ip_id",
    "ipid": "ip_id", "tos": "ip_tos", "ttl": "ip_ttl", "frag": "ip_frag", "fragoff": "ip_fragoff", "ts": "timestamp",
    "sec": "ts_sec", "usec": "ts_usec", "utimestamp": "timestamp", "saddr": "ip_src", "daddr": "ip_dst",
    "seq": "tcp_seq", "ack": "tcp_ack", "win": "tcp_window", "tcp_win": "tcp_window", "pkts": "count",
    "packets": "count", "payload_length": "payload_len",
}  # fmt: skip


def _decimal(value: int, places: int) -> str:
    return f"{value // 10**places}.{value % 10**places:0{places}d}"


def _ns(s: Look) -> int:
    return int(s.packet.timestamp)


def _micro(s: Look) -> int:
    return int(s.packet.timestamp) // 1000


def find_field(word: str) -> SummaryField | None:
    """A field by name, old name, or name with a space (`tcp seq`)."""
    name = word.strip().lower().replace(" ", "_")
    return FIELDS.get(ALIASES.get(name, name))
