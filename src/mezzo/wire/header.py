"""A header is a table of bit fields.

    class Udp(Header):
        short, mark, source = "udp", "transport", "RFC 768"
        src_port = bits(16, "source port")
        dst_port = bits(16, "destination port")
        length = bits(16, "header and payload, bytes")
        checksum = bits(16, "0 means none (IPv4 only)")

Rules.  Fields stand in network bit order: bit 0 is the most significant bit of byte 0.  `bits(n)` takes the next `n`
bits, so the declaration reads as the picture in the RFC; `view(offset, n)` names bits that another field covers too.
Names are the RFC's words in snake_case.  A header class holds no packet: it only says where things are, so the same
table serves the packet-language compiler, the hardware target's header window, and the printer in `wire/show`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

_NEXT = -1  # offset of a field that follows the one declared before it


@dataclass(frozen=True, slots=True)
class Field:
    """A run of bits: `offset` counts from the start of the header, most significant bit first."""

    name: str
    offset: int
    bits: int
    doc: str = ""

    @property
    def end(self) -> int:
        """The first bit after the field."""
        return self.offset + self.bits

    def read(self, header: bytes) -> int:
        """The field's value in the bytes of a header."""
        first, last = self.offset // 8, (self.end + 7) // 8
        if last > len(header):
            raise ValueError(f"`{self.name}` ends at byte {last}, but there are only {len(header)} bytes")
        window = int.from_bytes(header[first:last], "big")
        return window >> (last * 8 - self.end) & ((1 << self.bits) - 1)

    def write(self, header: bytearray, value: int) -> None:
        """Store `value` in place; the bits around the field keep their values."""
        first, last = self.offset // 8, (self.end + 7) // 8
        if last > len(header):
            raise ValueError(f"`{self.name}` ends at byte {last}, but there are only {len(header)} bytes")
        if not 0 <= value < 1 << self.bits:
            raise ValueError(f"{value} does not fit the {self.bits} bits of `{self.name}`")
        shift = last * 8 - self.end
        mask = ((1 << self.bits) - 1) << shift
        window = int.from_bytes(header[first:last], "big") & ~mask | value << shift
        header[first:last] = window.to_bytes(last - first, "big")


def bits(count: int, doc: str = "") -> Field:
    """Declare the next `count` bits of a header."""
    return Field("", _NEXT, count, doc)


def view(offset: int, count: int, doc: str = "") -> Field:
    """Declare a second name for `count` bits at bit `offset`, which other fields cover too."""
    return Field("", offset, count, doc)


class Header:
    """Base of the header tables; a subclass gets `fields` and `size` from its declarations."""

    fields: ClassVar[dict[str, Field]] = {}
    size: ClassVar[int] = 0  # bytes
    source: ClassVar[str] = ""  # where the layout is defined
    short: ClassVar[str] = ""  # how the packet language calls it: `p.ip`
    mark: ClassVar[str] = ""  # the packet mark it starts at: mac, network, transport

    def __init_subclass__(cls) -> None:
        cls.fields, position = {}, 0
        for name, value in list(vars(cls).items()):
            if not isinstance(value, Field):
                continue
            field = replace(value, name=name, offset=position if value.offset == _NEXT else value.offset)
            position = field.end if value.offset == _NEXT else position
            cls.fields[name] = field
            setattr(cls, name, field)
        assert position % 8 == 0, f"{cls.__name__}: the fields end inside a byte, at bit {position}"
        assert all(f.end <= position for f in cls.fields.values()), f"{cls.__name__}: a view reaches past the header"
        cls.size = position // 8

    @classmethod
    def pack(cls, **values: int) -> bytes:
        """The header's bytes with these fields set and all others zero."""
        header = bytearray(cls.size)
        for name, value in values.items():
            cls.fields[name].write(header, value)
        return bytes(header)

    @classmethod
    def unpack(cls, data: bytes) -> dict[str, int]:
        """Every field's value, views included, from bytes that start with this header."""
        return {name: field.read(data) for name, field in cls.fields.items()}
