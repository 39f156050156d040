"""Arithmetic on known numbers, as every target does it: the rules at the head of `ir.ops`."""

from __future__ import annotations

from collections.abc import Callable

from mezzo.ir.types import BOOL, Type


def _divide(a: int, b: int) -> int:
    """Toward zero; x/0 = 0."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divide,
    "mod": lambda a, b: a - b * _divide(a, b),  # so x%0 = x
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def compute(op: str, type_: Type, a: int, b: int) -> int:
    """`a op b` in a type that holds both."""
    if op not in ("shl", "shr"):
        return type_.wrap(_BINARY[op](a, b))
    if not 0 <= b < type_.bits:
        return -1 if op == "shr" and a < 0 else 0
    return type_.wrap(a << b if op == "shl" else a >> b)


def compare(op: str, a: int, b: int) -> bool:
    return _COMPARE[op](a, b)


def convert(type_: Type, value: int) -> int:
    """The value as `type_`: cut, or whether it is not zero."""
    return int(value != 0) if type_ is BOOL else type_.wrap(value)
