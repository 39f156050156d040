"""Printing a packet: one line to skim, or a page to study.

    18.26.4.2 > 18.26.7.2 ttl 64 icmp echo id 1 seq 2, 98 bytes

`show` never fails: what cannot be read is said in brackets.  `detail=True` gives each header's fields, from the same
tables that the compiler uses, and a hex dump of the payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mezzo.wire.address import format_ether, format_ip, format_ip6
from mezzo.wire.arp import Arp
from mezzo.wire.checksum import internet_checksum
from mezzo.wire.constants import (
    ARP_OPERATIONS,
    ETHERTYPE_MIN,
    ETHERTYPES,
    ICMP6_TYPES,
    ICMP_CODES,
    ICMP_TYPES,
    PROTOCOLS,
    name_of,
)
from mezzo.wire.dissect import Dissection, Layer, dissect
from mezzo.wire.ethernet import Ethernet, Llc, Snap
from mezzo.wire.header import Header
from mezzo.wire.icmp import Icmp
from mezzo.wire.icmp6 import Icmp6
from mezzo.wire.ipv4 import Ipv4
from mezzo.wire.ipv6 import Ipv6, Ipv6Extension, Ipv6Fragment
from mezzo.wire.tcp import Tcp
from mezzo.wire.udp import Udp
from mezzo.wire.vlan import Vlan

_TCP_FLAGS = {"cwr": "W", "ece": "E", "urg": "U", "ack_flag": ".", "psh": "P", "rst": "R", "syn": "S", "fin": "F"}
_MAX_DUMP = 256  # bytes of payload in a detailed view


def show(data: bytes, start: str = "eth", detail: bool = False) -> str:
    """A packet as text; `start` says what its first byte belongs to: `eth`, or `ip` for IPv4 and IPv6."""
    found = dissect(data, start)
    return "\n".join(_page(data, found)) if detail else _line(data, found)


def _line(data: bytes, found: Dissection) -> str:
    addressed = any(layer.header in (Ipv4, Ipv6, Arp) for layer in found.layers)
    words = [w for layer in found.layers if (w := _words(layer, found, data, addressed))]
    if found.trouble:
        words.append(f"[{found.trouble}]")
    return f"{' '.join(words)}, {len(data)} bytes"


def _words(layer: Layer, found: Dissection, data: bytes, addressed: bool) -> str:
    if layer.header is Ethernet and addressed:
        return ""  # the network addresses say more
    writer = _WRITERS.get(layer.header)
    return writer(layer, found, data) if writer else layer.header.short


def _ethernet(layer: Layer, found: Dissection, data: bytes) -> str:
    kind, ends = layer["type"], f"{format_ether(layer['src'])} > {format_ether(layer['dst'])}"
    if layer is not found.layers[-1]:
        return ends
    return f"{ends} " + (f"length {kind}" if kind < ETHERTYPE_MIN else ETHERTYPES.get(kind, f"type {kind:#06x}"))


def _vlan(layer: Layer, found: Dissection, data: bytes) -> str:
    return f"vlan {layer['vid']}" + (f" priority {layer['pcp']}" if layer["pcp"] else "")


def _arp(layer: Layer, found: Dissection, data: bytes) -> str:
    sender, target = format_ip(layer["sender_protocol"]), format_ip(layer["target_protocol"])
    if layer["operation"] == 1:
        return f"arp who has {target}? tell {sender}"
    if layer["operation"] == 2:
        return f"arp {sender} is at {format_ether(layer['sender_hardware'])}"
    return f"arp {name_of(ARP_OPERATIONS, layer['operation'])} {sender} > {target}"


def _ip(layer: Layer, found: Dissection, data: bytes) -> str:
    words = [f"{format_ip(layer['src'])} > {format_ip(layer['dst'])}"]
    header = data[layer.offset : layer.offset + layer.length]
    if layer["mf"] or layer["fragment_offset"]:
        last = "+" if layer["mf"] else ""
        words.append(f"fragment {layer['id']}@{8 * layer['fragment_offset']}{last}")
    if layer is found.layers[-1]:
        words.append(name_of(PROTOCOLS, layer["protocol"]))
    words.append(f"ttl {layer['ttl']}")
    words += [f"options {layer.length - Ipv4.size}"] if layer.length > Ipv4.size else []
    words += ["[bad ip checksum]"] if internet_checksum(header) else []
    short = layer.offset + layer["total_length"] - len(data)
    words += [f"[{short} bytes missing]"] if short > 0 else []
    return " ".join(words)


def _ip6(layer: Layer, found: Dissection, data: bytes) -> str:
    ends = f"{format_ip6(layer['src'])} > {format_ip6(layer['dst'])}"
    last = f" {name_of(PROTOCOLS, layer['next_header'])}" if layer is found.layers[-1] else ""
    return f"{ends}{last} hops {layer['hop_limit']}"


def _ip6_fragment(layer: Layer, found: Dissection, data: bytes) -> str:
    return f"fragment {layer['id']}@{8 * layer['fragment_offset']}{'+' if layer['more'] else ''}"


def _icmp(layer: Layer, found: Dissection, data: bytes) -> str:
    kind, code = layer["type"], layer["code"]
    words = f"icmp {ICMP_TYPES.get(kind, f'type {kind}')}"
    if kind in (0, 8, 13, 14):
        return f"{words} id {layer['id']} seq {layer['seq']}"
    words += f" {ICMP_CODES.get((kind, code), f'code {code}')}"
    if (kind, code) == (3, 4):
        return f"{words} mtu {layer['mtu']}"
    if kind == 5:
        return f"{words} to {format_ip(layer['gateway'])}"
    return f"{words} at byte {layer['pointer']}" if kind == 12 else words


def _icmp6(layer: Layer, found: Dissection, data: bytes) -> str:
    kind = layer["type"]
    words = f"icmp6 {ICMP6_TYPES.get(kind, f'type {kind}')}"
    if kind in (128, 129):
        return f"{words} id {layer['id']} seq {layer['seq']}"
    return f"{words} mtu {layer['mtu']}" if kind == 2 else words


def _udp(layer: Layer, found: Dissection, data: bytes) -> str:
    return f"udp {layer['src_port']} > {layer['dst_port']} payload {max(0, layer['length'] - Udp.size)}"


def _tcp(layer: Layer, found: Dissection, data: bytes) -> str:
    flags = "".join(letter for name, letter in _TCP_FLAGS.items() if layer[name])
    ack = f" ack {layer['ack']}" if layer["ack_flag"] else ""
    payload = max(0, found.end - found.payload)
    return f"tcp {layer['src_port']} > {layer['dst_port']} {flags} seq {layer['seq']}{ack} payload {payload}"


_WRITERS: dict[type[Header], Callable[[Layer, Dissection, bytes], str]] = {
    Ethernet: _ethernet,
    Vlan: _vlan,
    Arp: _arp,
    Ipv4: _ip,
    Ipv6: _ip6,
    Ipv6Fragment: _ip6_fragment,
    Icmp: _icmp,
    Icmp6: _icmp6,
    Udp: _udp,
    Tcp: _tcp,
}

_FORMATS: dict[tuple[type[Header], str], Callable[[int], str]] = {
    (Ethernet, "dst"): format_ether,
    (Ethernet, "src"): format_ether,
    (Ethernet, "type"): lambda v: f"{v:#06x} {ETHERTYPES.get(v, '')}",
    (Vlan, "type"): lambda v: f"{v:#06x} {ETHERTYPES.get(v, '')}",
    (Snap, "type"): lambda v: f"{v:#06x} {ETHERTYPES.get(v, '')}",
    (Arp, "protocol_type"): lambda v: f"{v:#06x} {ETHERTYPES.get(v, '')}",
    (Arp, "operation"): lambda v: f"{v} {ARP_OPERATIONS.get(v, '')}",
    (Arp, "sender_hardware"): format_ether,
    (Arp, "target_hardware"): format_ether,
    (Arp, "sender_protocol"): format_ip,
    (Arp, "target_protocol"): format_ip,
    (Ipv4, "src"): format_ip,
    (Ipv4, "dst"): format_ip,
    (Ipv4, "protocol"): lambda v: f"{v} {PROTOCOLS.get(v, '')}",
    (Ipv6, "src"): format_ip6,
    (Ipv6, "dst"): format_ip6,
    (Ipv6, "next_header"): lambda v: f"{v} {PROTOCOLS.get(v, '')}",
    (Ipv6Extension, "next_header"): lambda v: f"{v} {PROTOCOLS.get(v, '')}",
    (Icmp, "type"): lambda v: f"{v} {ICMP_TYPES.get(v, '')}",
    (Icmp6, "type"): lambda v: f"{v} {ICMP6_TYPES.get(v, '')}",
    (Llc, "dsap"): hex,
    (Llc, "ssap"): hex,
}


def _page(data: bytes, found: Dissection) -> Iterator[str]:
    yield _line(data, found)
    for layer in found.layers:
        yield f"{layer.header.short}, {layer.length} bytes at {layer.offset} ({layer.header.source})"
        for name, field in layer.header.fields.items():
            yield f"  {name:<18} {_value(layer, name).strip():<24} {field.doc}".rstrip()
    yield from _dump(data, found)


def _value(layer: Layer, name: str) -> str:
    value = layer[name]
    if name == "checksum":
        return f"{value:#06x}"
    return _FORMATS.get((layer.header, name), str)(value)


def _dump(data: bytes, found: Dissection) -> Iterator[str]:
    payload = data[found.payload : found.end]
    if payload:
        yield f"payload, {len(payload)} bytes at {found.payload}"
    for at in range(0, min(len(payload), _MAX_DUMP), 16):
        row = payload[at : at + 16]
        text = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        yield f"  {found.payload + at:04x}  {row.hex(' '):<47}  {text}"
    if len(payload) > _MAX_DUMP:
        yield f"  and {len(payload) - _MAX_DUMP} bytes more"
    if found.end < len(data):
        yield f"trailer, {len(data) - found.end} bytes at {found.end}"
