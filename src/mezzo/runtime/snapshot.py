"""What a packet is at one moment, and what changed between two: header fields by name, length, marks, annotations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mezzo.packet.arena import UNSET, Packet
from mezzo.wire.address import format_ether, format_ip, format_ip6
from mezzo.wire.dissect import Dissection, Layer, dissect
from mezzo.wire.show import show

# The annotations that have one meaning wherever they are used: offset -> (name, bytes).
_ANNOTATIONS = {
    0: ("DST_IP", 4),
    16: ("PAINT", 1),
    17: ("ICMP_PARAMPROB", 1),
    18: ("FIX_IP_SRC", 1),
    20: ("AGGREGATE", 4),
}
_MARKS = {"mac": "link header", "net": "network header", "trans": "transport header"}
_TYPES = ("host", "broadcast", "multicast", "other host", "outgoing", "loopback", "fast route")


@dataclass(frozen=True)
class Snapshot:
    """A packet's bytes and metadata.  Marks count from the start of the frame, so that a strip does not move them."""

    data: bytes
    start: int
    marks: dict[str, int]
    anno: bytes
    timestamp: int
    packet_type: int

    @classmethod
    def of(cls, packet: Packet) -> Snapshot:
        marks = {name: packet.get(name) for name in _MARKS}
        return cls(
            bytes(packet.data),
            packet.get("data"),
            marks,
            bytes(packet.anno),
            packet.timestamp,
            packet.get("packet_type"),
        )

    @property
    def first(self) -> str:
        """What the first byte belongs to: `ip` where the network mark or the bytes say so, else `eth`."""
        if self.marks["net"] != UNSET:
            return "ip" if self.marks["net"] == self.start else "eth"
        looks = bool(self.data) and self.data[0] >> 4 in (4, 6) and not dissect(self.data, "ip").trouble
        return "ip" if looks else "eth"

    @property
    def summary(self) -> str:
        return show(self.data, self.first)

    def fields(self) -> dict[str, str]:
        """Header fields as `ip.ttl`, with their values as one writes them; a second header of a kind is `ip2.ttl`."""
        found: dict[str, str] = {}
        counts: dict[str, int] = {}
        for layer in self.dissection().layers:
            short = layer.header.short
            counts[short] = counts.get(short, 0) + 1
            prefix = short if counts[short] == 1 else f"{short}{counts[short]}"
            for name, text in _values(layer):
                found[f"{prefix}.{name}"] = text
        return found

    def dissection(self) -> Dissection:
        return dissect(self.data, self.first)


def _values(layer: Layer) -> Iterator[tuple[str, str]]:
    """Fields in their order; views of bits that another field holds already are left out."""
    end = 0
    for field in layer.header.fields.values():
        if field.offset >= end:
            end = field.end
            yield field.name, _text(field.name, field.bits, layer.values[field.name])


def _text(name: str, bits: int, value: int) -> str:
    if bits == 48:
        return format_ether(value)
    if bits == 128:
        return format_ip6(value)
    if bits == 32 and (name in ("src", "dst", "gateway") or name.endswith("_protocol")):
        return format_ip(value)
    return f"{value:#06x}" if name in ("checksum", "type") and bits == 16 else str(value)


def changes(old: Snapshot, new: Snapshot) -> list[str]:
    """What happened between two moments, one phrase each."""
    return [*_size(old, new), *_headers(old, new), *_meta(old, new), *_annotations(old, new)]


def _size(old: Snapshot, new: Snapshot) -> Iterator[str]:
    if len(old.data) != len(new.data):
        yield f"length {len(old.data)} → {len(new.data)}"


def _headers(old: Snapshot, new: Snapshot) -> Iterator[str]:
    if old.data == new.data:
        return
    before, after = old.fields(), new.fields()
    named = [f"{name} {before[name]} → {text}" for name, text in after.items() if before.get(name, text) != text]
    added = [
        name
        for name in dict.fromkeys(f.split(".")[0] for f in after)
        if not any(b.startswith(name + ".") for b in before)
    ]
    yield from named
    if len(new.data) > len(old.data):
        yield from (f"+ {name} header" for name in added)
    if not named and len(old.data) == len(new.data):
        where = [i for i, (a, b) in enumerate(zip(old.data, new.data, strict=True)) if a != b]
        yield f"bytes {where[0]} to {where[-1]} changed" if len(where) > 1 else f"byte {where[0]} changed"


def _meta(old: Snapshot, new: Snapshot) -> Iterator[str]:
    for mark, name in _MARKS.items():
        if old.marks[mark] != new.marks[mark]:
            at = new.marks[mark]
            yield f"{name} unmarked" if at == UNSET else f"{name} at {at - new.start}"
    if old.packet_type != new.packet_type:
        kind = _TYPES[new.packet_type] if new.packet_type < len(_TYPES) else str(new.packet_type)
        yield f"packet type {kind}"
    if old.timestamp != new.timestamp:
        yield f"timestamp {new.timestamp / 1e9:.6f}"


def _annotations(old: Snapshot, new: Snapshot) -> Iterator[str]:
    at = 0
    while at < len(new.anno):
        name, size = _ANNOTATIONS.get(at, (f"annotation {at}", 1))
        a, b = old.anno[at : at + size], new.anno[at : at + size]
        if a != b:
            shown = format_ip(int.from_bytes(b, "big")) if name == "DST_IP" else str(int.from_bytes(b, "little"))
            yield f"{name} {shown}"
        at += size
