"""Numbers with units, as Click writes them.

Integers in base 10, 16, 8 and 2.  Durations become nanoseconds, bandwidths bytes a second; both exactly (no floats).
"""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z/µ]*)\Z")

SECONDS = {
    "s": Fraction(1), "sec": Fraction(1), "second": Fraction(1), "seconds": Fraction(1),
    "m": Fraction(60), "min": Fraction(60), "minute": Fraction(60), "minutes": Fraction(60),
    "h": Fraction(3600), "hr": Fraction(3600), "hour": Fraction(3600), "hours": Fraction(3600),
    "d": Fraction(86400), "day": Fraction(86400), "days": Fraction(86400),
    "ms": Fraction(1, 10**3), "msec": Fraction(1, 10**3),
    "us": Fraction(1, 10**6), "usec": Fraction(1, 10**6), "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9), "nsec": Fraction(1, 10**9),
}  # fmt: skip
PREFIXES = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "m": 10**6, "G": 10**9, "g": 10**9, "T": 10**12}


def parse_int(text: str) -> int:
    """An integer with an optional sign in base 10, 16 (0x…), 8 (0…) or 2 (0b…)."""
    body = text.strip().lower()
    sign = -1 if body.startswith("-") else 1
    body = body[1:] if body[:1] in ("+", "-") else body
    base = (
        16 if body.startswith("0x") else 2 if body.startswith("0b") else 8 if len(body) > 1 and body[0] == "0" else 10
    )
    try:
        if "_" in body or not body[:1].isalnum():  # a second sign, a blank behind the first
            raise ValueError
        return sign * int(body, base)
    except ValueError:
        raise ValueError(f"expected an integer, not `{text}`") from None


def _split(text: str) -> tuple[Fraction, str]:
    match = _NUMBER.match(text.strip())
    # A huge exponent would take for ever to expand.
    if match is None or ("e" in match[1].lower() and abs(int(re.split("[eE]", match[1])[1])) > 18):
        raise ValueError(f"expected a number, not `{text}`")
    return Fraction(match[1]), match[2]


def parse_scaled(text: str, scale: int) -> int:
    """A decimal number times `scale`, rounded to the nearest integer."""
    number, unit = _split(text)
    if unit:
        raise ValueError(f"expected a number without unit, not `{text}`")
    return round(number * scale)


def parse_duration(text: str, unit: str = "s") -> int:
    """A time in ns; a bare number is in `unit`."""
    try:
        number, given = _split(text)
        factor = SECONDS[given or unit]
    except (ValueError, KeyError):
        raise ValueError(f"expected a time such as 20ms or 1.5s, not `{text}`") from None
    if number < 0:
        raise ValueError(f"a time cannot be negative: `{text}`")
    ns = round(number * factor * 10**9)
    if ns >= 1 << 63:
        raise ValueError(f"{text} is too long a time; at most 292 years")
    return ns


def format_duration(ns: int) -> str:
    """The shortest exact form: 1.5s, 20ms, 3us, 7ns."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if ns % size == 0 or (unit == "s" and ns > size):
            return f"{Fraction(ns, size)}{unit}" if ns % size == 0 else f"{ns / size:.9f}".rstrip("0") + unit
    return f"{ns}ns"


def parse_bandwidth(text: str) -> int:
    """Bytes a second: a bare number is that; bps and bit/s count bits, Bps and byte/s bytes, with k M G T."""
    wrong = f"expected a bandwidth such as 10Mbps or 100kBps, not `{text}`"
    try:
        number, unit = _split(text)
    except ValueError:
        raise ValueError(wrong) from None
    match = re.match(r"([kKMmGgT]?)(bps|b/s|bit/s|bits/s|baud|Bps|B/s|byte/s|bytes/s)?\Z", unit)
    if match is None or number < 0:
        raise ValueError(wrong)
    per_byte = 8 if match[2] and (match[2].startswith("b") and not match[2].startswith("byte")) else 1
    value = round(number * PREFIXES[match[1]] / per_byte)
    if value >= 1 << 63:
        raise ValueError(f"{text} is too much; at most 2^63 - 1 bytes a second")
    if not value and number:
        raise ValueError(f"{text} is less than a byte a second; at least 8bps")
    return value
