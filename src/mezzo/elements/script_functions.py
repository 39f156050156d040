"""The functions of scripts: text in, text out, ValueError when they cannot.

Integers have 64 bits, as in Click, but a result that does not fit is an error here and does not wrap.  Where a word is
no such integer it is a number with a fraction, and so is the result; comparison falls back to text.
"""

from __future__ import annotations

import math
import operator
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from mezzo.elements.args import Bool, Env
from mezzo.elements.confparse import quote, split_words, unquote
from mezzo.elements.script_signals import kill
from mezzo.elements.units import parse_int

Number = int | float
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
_WIDEST = 4096  # what sprintf fills a field up to
_LARGEST = 1 << 24  # bytes of a file
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\Z")
_FORMAT = re.compile(
    r"%(?P<flags>[0# +-]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?(?P<size>[hlLqjzt]*)(?P<kind>.|\Z)", re.DOTALL
)


def words_of(text: str) -> list[str]:
    return [unquote(word) for word in split_words(text)]


def maybe_number(word: str) -> Number | None:
    try:
        return parse_int(word)
    except ValueError:
        return float(word) if _DECIMAL.match(word) else None


def number(word: str) -> Number:
    found = maybe_number(word)
    if found is None:
        raise ValueError(f"expected numbers, not `{word}`")
    return found if _LOW <= found <= _HIGH or isinstance(found, float) else float(found)


def show_number(value: Number) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    if not _LOW <= value <= _HIGH:
        raise ValueError(f"the result {value} does not fit 64 bits")
    return str(value)


def truth(text: str) -> bool:
    return Bool().parse(unquote(text.strip()), Env())


def show_bool(value: bool) -> str:
    return "true" if value else "false"


def _fold(step: Callable[[Number, Number], Number], empty: int) -> Callable[[str], str]:
    def run(text: str) -> str:
        numbers = [number(word) for word in words_of(text)]
        value: Number = numbers[0] if numbers else empty
        for one in numbers[1:]:
            value = step(value, one)
        return show_number(value)

    return run


def _divide(a: Number, b: Number) -> Number:
    """As floating point has it: 1/0 is infinite."""
    if b == 0:
        return float("nan") if a == 0 else float("inf") if a > 0 else float("-inf")
    return a / b


def _div(text: str) -> str:
    numbers = [number(word) for word in words_of(text)]
    value: Number = numbers[0] if numbers else 1
    for one in numbers[1:]:
        value = _divide(value, one)
    return f"{float(value):.12g}"


def _whole(a: Number, b: Number) -> int:
    if b == 0:
        raise ValueError("division by zero")
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if not math.isfinite(a / b):
        raise ValueError(f"{a} divided by {b} is no integer")
    return int(a / b)


def _mod(text: str) -> str:
    """The remainder of integers; its sign is the dividend's, as C has it."""
    a, b = (parse_int(word) for word in _some(text, 2, "two integers"))
    if b == 0:
        raise ValueError("division by zero")
    return show_number(a - b * _whole(a, b))


def _rem(text: str) -> str:
    a, b = (number(word) for word in _some(text, 2, "two numbers"))
    if b == 0 or not math.isfinite(a):
        raise ValueError("division by zero" if b == 0 else f"{a} has no remainder")
    if isinstance(a, float) or isinstance(b, float):
        return show_number(math.fmod(a, b))
    return show_number(a - b * _whole(a, b))


def _one(step: Callable[[Number], Number]) -> Callable[[str], str]:
    def run(text: str) -> str:
        (word,) = _some(text, 1, "one number")
        return show_number(step(number(word)))

    return run


def _some(text: str, count: int, what: str) -> list[str]:
    words = words_of(text)
    if len(words) != count:
        raise ValueError(f"expected {what}, not `{text.strip()}`")
    return words


def _compare(holds: Callable[[Any, Any], bool]) -> Callable[[str], str]:
    def run(text: str) -> str:
        a, b = _some(text, 2, "two values")
        x, y = maybe_number(a), maybe_number(b)
        return show_bool(holds(a, b) if x is None or y is None else holds(x, y))

    return run


def _logic(decide: Callable[[Sequence[bool]], bool]) -> Callable[[str], str]:
    return lambda text: show_bool(decide([truth(word) for word in split_words(text)]))


def _if(text: str) -> str:
    words = words_of(text)
    if not 2 <= len(words) <= 3:
        raise ValueError("write if CONDITION THEN [ELSE]")
    return words[1] if truth(words[0]) else words[2] if len(words) == 3 else ""


def _in(text: str) -> str:
    words = words_of(text)
    return show_bool(bool(words) and words[0] in words[1:])


def _first(text: str) -> str:
    return next(iter(split_words(text)), "")


def _rest(text: str) -> str:
    first = _first(text)
    return text.strip()[len(first) :].strip()


def _sprintf(text: str) -> str:
    words = words_of(text)
    if not words:
        raise ValueError("write sprintf FORMAT [ARGUMENT...]")
    arguments = iter(words[1:])

    def take() -> str:
        word = next(arguments, None)
        if word is None:
            raise ValueError(f"sprintf has too few arguments for {words[0]!r}")
        return word

    shown = _FORMAT.sub(lambda match: _format(match, take), words[0])
    if next(arguments, None) is not None:
        raise ValueError(f"sprintf has too many arguments for {words[0]!r}")
    return shown


def _format(match: re.Match[str], take: Callable[[], str]) -> str:
    kind = match["kind"]
    if kind == "%":
        return "%"
    width = _extent(match["width"], take)
    precision = match["precision"] if match["precision"] is None else _extent(match["precision"], take)
    form = f"%{match['flags']}{width}" + (f".{precision}" if precision is not None else "")
    if kind in "diu" and kind:
        return (form + "d") % _sized(parse_int(take()), match["size"], signed=kind != "u")
    if kind in "oxX" and kind:
        digits = (form.replace("#", "") + kind) % _sized(parse_int(take()), match["size"], signed=False)
        return ("0" if kind == "o" else "0" + kind) + digits if "#" in match["flags"] else digits
    if kind in "eEfgG" and kind:
        return (form + kind) % number(take())
    if kind == "s":
        return (form + "s") % take()
    raise ValueError(f"sprintf does not know `{match[0]}`; it knows %d %u %o %x %X %s %e %f %g and %%")


def _extent(text: str, take: Callable[[], str]) -> str:
    """A width or a precision, maybe taken from the arguments."""
    shown = str(parse_int(take())) if text == "*" else text
    if len(shown) > 5 or abs(int(shown or 0)) > _WIDEST:
        raise ValueError(f"sprintf fills up to {_WIDEST} characters, not {shown[:20]}")
    return shown


def _sized(value: int, size: str, signed: bool) -> int:
    """A number cut to the 64 or, with `h`, 16 bits that C would show of it."""
    bits = 16 if size.startswith("h") else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _cat(text: str) -> str:
    (name,) = _some(text, 1, "a file name")
    try:
        # A pipe that nobody writes to must not hold up the router.
        with open(os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(_LARGEST + 1) or b""
    except (OSError, ValueError) as trouble:
        raise ValueError(f"{name}: {getattr(trouble, 'strerror', None) or trouble}") from None
    if len(data) > _LARGEST:
        raise ValueError(f"{name} has more than {_LARGEST} bytes")
    return data.decode("utf-8", "surrogateescape")


def _getenv(text: str) -> str:
    words = words_of(text)
    if not 1 <= len(words) <= 2:
        raise ValueError("write getenv NAME [DEFAULT]")
    return os.environ.get(words[0], words[1] if len(words) == 2 else "")


def _length(text: str) -> str:
    return str(len(text.encode("utf-8", "surrogateescape")))


def _swapped(bits: int) -> Callable[[str], str]:
    def run(text: str) -> str:
        (word,) = _some(text, 1, "one number")
        return str(int.from_bytes((parse_int(word) & (1 << bits) - 1).to_bytes(bits // 8, "big"), "little"))

    return run


FUNCTIONS: dict[str, tuple[Callable[[str], str], str]] = {
    "add": (_fold(operator.add, 0), "the sum of numbers"),
    "sub": (_fold(operator.sub, 0), "the first number less the others"),
    "mul": (_fold(operator.mul, 1), "the product of numbers"),
    "div": (_div, "the first number divided by the others, with a fraction"),
    "idiv": (_fold(_whole, 1), "the first number divided by the others, without fraction"),
    "mod": (_mod, "the remainder of two integers"),
    "rem": (_rem, "the remainder of two numbers"),
    "min": (_fold(min, 0), "the least of numbers"),
    "max": (_fold(max, 0), "the greatest of numbers"),
    "neg": (_one(operator.neg), "the number with the other sign"),
    "abs": (_one(abs), "the number without sign"),
    "eq": (_compare(operator.eq), "are two values equal, as numbers if they are"),
    "ne": (_compare(operator.ne), "do two values differ"),
    "lt": (_compare(operator.lt), "is the first value less"),
    "gt": (_compare(operator.gt), "is the first value greater"),
    "le": (_compare(operator.le), "is the first value less or equal"),
    "ge": (_compare(operator.ge), "is the first value greater or equal"),
    "not": (lambda text: show_bool(not truth(text)), "the other truth value"),
    "and": (_logic(all), "are all true"),
    "or": (_logic(any), "is one true"),
    "nand": (_logic(lambda values: not all(values)), "is one false"),
    "nor": (_logic(lambda values: not any(values)), "are all false"),
    "if": (_if, "if CONDITION THEN [ELSE]"),
    "in": (_in, "is the first word among the others"),
    "sprintf": (_sprintf, "sprintf FORMAT ARGUMENT..."),
    "first": (_first, "the first word"),
    "rest": (_rest, "all words but the first"),
    "length": (_length, "the number of bytes"),
    "unquote": (unquote, "the text without its quotes"),
    "true": (lambda text: "true", "true"),
    "false": (lambda text: "false", "false"),
    "cat": (_cat, f"what a file holds, at most {_LARGEST >> 20} MiB"),
    "catq": (lambda text: quote(_cat(text)), "what a file holds, in quotes"),
    "getenv": (_getenv, "getenv NAME [DEFAULT]: a variable of the environment"),
    "kill": (kill, "kill SIGNAL PROCESS...: sends a signal; $$ is this process"),
    "htons": (_swapped(16), "a 16-bit number's bytes turned round"),
    "ntohs": (_swapped(16), "a 16-bit number's bytes turned round"),
    "htonl": (_swapped(32), "a 32-bit number's bytes turned round"),
    "ntohl": (_swapped(32), "a 32-bit number's bytes turned round"),
}

# What a script may do, and nobody at the other end of a control socket.
PRIVATE = frozenset(("cat", "catq", "getenv", "kill"))
