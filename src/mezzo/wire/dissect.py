"""Finding the headers in a packet's bytes.

`dissect` walks from the first header by a table of successors and stops, never fails: where the bytes end too early,
where a header contradicts itself, or where nothing is known about what follows.  The last case is a payload; the
others leave a `trouble` for the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mezzo.wire.arp import Arp
from mezzo.wire.constants import ETHERTYPE_MIN
from mezzo.wire.ethernet import Ethernet, Llc, Snap
from mezzo.wire.header import Header
from mezzo.wire.icmp import Icmp
from mezzo.wire.icmp6 import Icmp6
from mezzo.wire.ipv4 import Ipv4
from mezzo.wire.ipv6 import Ipv6, Ipv6Extension, Ipv6Fragment
from mezzo.wire.tcp import Tcp
from mezzo.wire.udp import Udp
from mezzo.wire.vlan import Vlan


@dataclass(frozen=True, slots=True)
class Layer:
    """One header: its table, where it begins, how long it is with its options, and its field values."""

    header: type[Header]
    offset: int
    length: int
    values: dict[str, int]

    def __getitem__(self, name: str) -> int:
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Dissection:
    """The headers found; `payload` is where the rest begins, `end` where the innermost packet ends by its own word."""

    layers: tuple[Layer, ...]
    payload: int
    end: int
    trouble: str = ""

    def find(self, header: type[Header]) -> Layer | None:
        """The outermost header of this kind."""
        return next((layer for layer in self.layers if layer.header is header), None)


_BY_ETHERTYPE: dict[int, type[Header]] = {0x0800: Ipv4, 0x0806: Arp, 0x86DD: Ipv6, 0x8100: Vlan, 0x88A8: Vlan}
_BY_PROTOCOL: dict[int, type[Header]] = {1: Icmp, 6: Tcp, 17: Udp, 4: Ipv4, 41: Ipv6}
_BY_NEXT_HEADER: dict[int, type[Header]] = _BY_PROTOCOL | {
    0: Ipv6Extension,
    43: Ipv6Extension,
    44: Ipv6Fragment,
    58: Icmp6,
    60: Ipv6Extension,
}
del _BY_NEXT_HEADER[1]  # ICMP for IPv4 means nothing inside IPv6


def _after_ethernet(layer: Layer) -> type[Header] | None:
    return _BY_ETHERTYPE.get(layer["type"]) if layer["type"] >= ETHERTYPE_MIN else Llc


def _after_ip(layer: Layer) -> type[Header] | None:
    return None if layer["fragment_offset"] else _BY_PROTOCOL.get(layer["protocol"])


def _after_ip6(layer: Layer) -> type[Header] | None:
    return _BY_NEXT_HEADER.get(layer["next_header"])


def _after_fragment(layer: Layer) -> type[Header] | None:
    return None if layer["fragment_offset"] else _after_ip6(layer)


def _after_snap(layer: Layer) -> type[Header] | None:
    return _BY_ETHERTYPE.get(layer["type"]) if layer["oui"] == 0 else None


def _after_llc(layer: Layer) -> type[Header] | None:
    return Snap if layer["dsap"] == layer["ssap"] == 0xAA else None


_NEXT: dict[type[Header], Callable[[Layer], type[Header] | None]] = {
    Ethernet: _after_ethernet,
    Vlan: _after_ethernet,
    Llc: _after_llc,
    Snap: _after_snap,
    Ipv4: _after_ip,
    Ipv6: _after_ip6,
    Ipv6Extension: _after_ip6,
    Ipv6Fragment: _after_fragment,
}

_LENGTH: dict[type[Header], Callable[[dict[str, int]], int]] = {
    Ipv4: lambda v: 4 * v["ihl"],
    Ipv6Extension: lambda v: 8 + 8 * v["length"],
    Tcp: lambda v: 4 * v["offset"],
}

_TOTAL: dict[type[Header], Callable[[dict[str, int]], int]] = {
    Ipv4: lambda v: v["total_length"],
    Ipv6: lambda v: Ipv6.size + v["payload_length"],
    Arp: lambda v: Arp.size,
}

_VERSION = {Ipv4: 4, Ipv6: 6}


def first_header(data: bytes, start: str) -> type[Header] | None:
    """The header a packet begins with; `start` is `eth`, or `ip` for either version."""
    if start == "eth":
        return Ethernet
    if start != "ip":
        raise ValueError(f"a packet starts with `eth` or `ip`, not `{start}`")
    return Ipv6 if data and data[0] >> 4 == 6 else Ipv4


def dissect(data: bytes, start: str = "eth") -> Dissection:
    """Every header that can be found, outermost first."""
    layers: list[Layer] = []
    position, end = 0, len(data)
    header = first_header(data, start)
    while header is not None:
        trouble = _trouble(header, data[position:end])
        if trouble:
            return Dissection(tuple(layers), position, end, trouble)
        values = header.unpack(data[position:])
        layer = Layer(header, position, _length(header, values), values)
        layers.append(layer)
        if header in _TOTAL:
            end = min(end, position + _TOTAL[header](values))
        position += layer.length
        # An LLC header turns out to be the first half of a SNAP one.
        header = _NEXT[header](layer) if header in _NEXT else None
        if header is Snap:
            position = layers.pop().offset
    return Dissection(tuple(layers), position, end)


def _length(header: type[Header], values: dict[str, int]) -> int:
    return _LENGTH[header](values) if header in _LENGTH else header.size


def _trouble(header: type[Header], data: bytes) -> str:
    if len(data) < header.size:
        return f"{header.short} header cut: {len(data)} of {header.size} bytes"
    values = header.unpack(data)
    if header in _VERSION and values["version"] != _VERSION[header]:
        return f"{header.short} version {values['version']}"
    length = _length(header, values)
    if length < header.size:
        return f"{header.short} header length {length} is below {header.size}"
    if length > len(data):
        return f"{header.short} header length {length}, but {len(data)} bytes are left"
    if header in _TOTAL and _TOTAL[header](values) < length:
        return f"{header.short} total length {_TOTAL[header](values)} is below its header's {length}"
    return ""
