"""The types of the packet language and its IR.

Integers have a width and wrap at it; `i64` is the one signed type.  A `packet` is a handle that may also be none;
that it is used once is proved by `ir.linear`, not by its type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """A value type: `name` as written, `bits` wide (a packet handle and void have none)."""

    name: str
    bits: int
    signed: bool = False

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], Type], tuple[str]]:
        return _named, (self.name,)  # types are compared by identity

    @property
    def is_int(self) -> bool:
        return self.bits > 1

    @property
    def mask(self) -> int:
        return (1 << self.bits) - 1

    def wrap(self, value: int) -> int:
        """`value` reduced to this type's range."""
        value &= self.mask
        return value - (1 << self.bits) if self.signed and value >> (self.bits - 1) else value

    def __call__(self, value: int) -> int:
        """In configuration code `u16(x)` is `x` cut to 16 bits, as in packet code."""
        return self.wrap(int(value))

    def holds(self, value: int) -> bool:
        return self.wrap(value) == value


BOOL = Type("bool", 1)
U8 = Type("u8", 8)
U16 = Type("u16", 16)
U32 = Type("u32", 32)
U48 = Type("u48", 48)
U64 = Type("u64", 64)
I64 = Type("i64", 64, signed=True)
U128 = Type("u128", 128)
PACKET = Type("packet", 0)
VOID = Type("void", 0)

KILL = 0xFFFF_FFFF  # as a returned port: the packet dies
PUNT = 0xFFFF_FFFE  # … the packet, as it came in, goes through the same instance on the level above

TYPES: dict[str, Type] = {t.name: t for t in (BOOL, U8, U16, U32, U48, U64, I64, U128, PACKET, VOID)}


def _named(name: str) -> Type:
    return TYPES[name]


def by_width(bits: int) -> Type:
    """The smallest unsigned type that holds `bits` bits."""
    for t in (BOOL, U8, U16, U32, U48, U64, U128):
        if bits <= t.bits:
            return t
    raise ValueError(f"no type holds {bits} bits")
