"""Element arguments as Click reads them: positional, keyword, optional, typed.

An element class declares `limit = Arg(Int(), -1)`; after configuration `element.limit` is the parsed value, and in
packet code a constant.  The keyword is the name in capitals.  Positional arguments are taken in order of declaration.
`Rest` takes all further ones.  With `live=` the value is state instead: handlers may change it while packets flow.

A kind turns text into a value or raises ValueError with a text that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mezzo.elements import confparse, units
from mezzo.ir.types import Type
from mezzo.wire import address

REQUIRED: Any = object()


@dataclass
class Env:
    """What arguments may refer to: names declared by AddressInfo and its like, by kind of value."""

    names: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # "ip" | "prefix" | "ether" | "ip6" | ... -> name -> value
    folder: str = "."
    scope: str = ""  # the compound element that is being configured, `a/b/`; names made inside are known inside only

    def look(self, kind: str, name: str) -> Any:
        """What `name` stands for as `kind`, innermost compound first; a suffix such as `:eth` must name that kind."""
        known = self.names.get(kind, {})
        stem, colon, suffix = name.rpartition(":")
        if colon and suffix in SUFFIXES.get(kind, ()):
            name = stem
        scope = self.scope
        while scope and scope + name not in known:
            scope = scope[: scope.rfind("/", 0, -1) + 1]
        found = known.get(scope + name)
        return found if found is not None or name[:1].isdigit() else _of_interface(kind, name)

    def within(self, element: str) -> Env:
        """The same names as seen by the element of that name."""
        return replace(self, scope=element[: element.rfind("/") + 1])


def _of_interface(kind: str, name: str) -> Any:
    """What a name stands for as an interface of this machine: `eth0:eth` is its Ethernet address."""
    # Sockets take 5 ms to import, and few configurations name an interface.
    from mezzo.elements import _interface

    ask = {"ether": _interface.maybe_ether, "ip": _interface.maybe_ip, "prefix": _interface.maybe_prefix}.get(kind)
    return ask(name) if ask is not None else None


# What makes the kind of a name plain where several would do.
SUFFIXES = {
    "ip": ("ip", "ip4"),
    "prefix": ("ipnet", "ip4net"),
    "ether": ("eth", "ether", "ethernet"),
    "ip6": ("ip6",),
    "prefix6": ("ip6net",),
}


class Kind:
    """How one argument's text is read.  `words` says what is expected, for errors and pages."""

    words = "text"

    def parse(self, text: str, env: Env) -> Any:
        """The value; ValueError says what is wrong.  Every kind has its own, and there is no usual one."""
        raise NotImplementedError

    def show(self, value: Any) -> str:
        return str(value)


class Text(Kind):
    """The argument unquoted."""

    def parse(self, text: str, env: Env) -> str:
        return confparse.unquote(text)


class Raw(Kind):
    """The argument as written, quotes and all."""

    def parse(self, text: str, env: Env) -> str:
        return text


class Data(Kind):
    """Bytes: quoted text with backslash escapes, or \\<hex>."""

    words = 'data, as "text" or \\<48 65>'

    def parse(self, text: str, env: Env) -> bytes:
        return confparse.unquote_bytes(text)

    def show(self, value: Any) -> str:
        return confparse.quote(bytes(value).decode("latin-1"))


class Word(Kind):
    """One word, or one of `choices` (case does not count; the value is as listed)."""

    words = "one word"

    def __init__(self, *choices: str) -> None:
        self.choices = choices
        if choices:
            self.words = "one of " + ", ".join(choices)

    def parse(self, text: str, env: Env) -> str:
        text = confparse.unquote(text)
        if not self.choices and text and len(text.split()) == 1:
            return text
        for choice in self.choices:
            if choice.lower() == text.lower():
                return choice
        raise ValueError(f"expected {self.words}, not `{text}`")


class Bool(Kind):
    """true false yes no 1 0 (and t f y n on off)."""

    words = "true or false"

    def parse(self, text: str, env: Env) -> bool:
        word = text.lower()
        if word in ("true", "yes", "1", "t", "y", "on"):
            return True
        if word in ("false", "no", "0", "f", "n", "off"):
            return False
        raise ValueError(f"expected {self.words}, not `{text}`")

    def show(self, value: Any) -> str:
        return "true" if value else "false"


class Int(Kind):
    """An integer in base 10, 16 (0x), 8 (0) or 2 (0b), from `low` to `high`."""

    def __init__(self, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> None:
        self.low, self.high = low, high
        self.words = "an integer" if low == -(1 << 63) and high == (1 << 63) - 1 else f"an integer from {low} to {high}"

    def parse(self, text: str, env: Env) -> int:
        value = units.parse_int(text)
        if not self.low <= value <= self.high:
            raise ValueError(f"{value} is out of range; expected {self.words}")
        return value


def U8() -> Int:
    return Int(0, 255)


def U16() -> Int:
    return Int(0, 0xFFFF)


def U32() -> Int:
    return Int(0, 0xFFFF_FFFF)


def U64() -> Int:
    return Int(0, (1 << 64) - 1)


class Fixed(Kind):
    """A decimal number scaled to an integer: 1.5 with scale 1000 is 1500."""

    def __init__(self, scale: int, low: int = 0, high: int = (1 << 63) - 1) -> None:
        self.scale, self.low, self.high = scale, low, high
        self.words = "a number"

    def parse(self, text: str, env: Env) -> int:
        value = units.parse_scaled(text, self.scale)
        if not self.low <= value <= self.high:
            raise ValueError(
                f"{text} is out of range; expected {self.low / self.scale:g} to {self.high / self.scale:g}"
            )
        return value

    def show(self, value: Any) -> str:
        return f"{value / self.scale:g}"


class Duration(Kind):
    """A time: 1.5, 20ms, 10us, 5min, 1h; a bare number is in `unit` (s or ms ...).  The value is in ns."""

    words = "a time such as 20ms or 1.5s"

    def __init__(self, unit: str = "s") -> None:
        self.unit = unit

    def parse(self, text: str, env: Env) -> int:
        return units.parse_duration(text, self.unit)

    def show(self, value: Any) -> str:
        return units.format_duration(int(value))


class Bandwidth(Kind):
    """A rate: 10Mbps, 1.5 GBps, 384kbit/s; a bare number is bytes a second.  The value is bytes a second."""

    words = "a bandwidth such as 10Mbps or 100kBps"

    def parse(self, text: str, env: Env) -> int:
        return units.parse_bandwidth(text)


class IPAddress(Kind):
    """An IPv4 address or a name that AddressInfo gives one; the value is an integer (u32)."""

    words = "an IPv4 address"

    def parse(self, text: str, env: Env) -> int:
        known = env.look("ip", text)
        return known if known is not None else address.parse_ip(text)

    def show(self, value: Any) -> str:
        return address.format_ip(value)


class IPPrefix(Kind):
    """An IPv4 prefix, 10.0.0.0/8 or 10.0.0.0/255.0.0.0, NAME or NAME/32; the value is (address, length)."""

    words = "an IPv4 prefix such as 10.0.0.0/8"

    def parse(self, text: str, env: Env) -> tuple[int, int]:
        known = env.look("prefix", text)
        if known is not None:
            return known
        name, slash, bits = text.partition("/")
        host = env.look("ip", name) if slash else None
        return address.parse_prefix(text if host is None else f"{address.format_ip(host)}/{bits}")

    def show(self, value: Any) -> str:
        return f"{address.format_ip(value[0])}/{value[1]}"


class EtherAddress(Kind):
    """An Ethernet address, 00:11:22:33:44:55, or a name; the value is an integer (u48)."""

    words = "an Ethernet address such as 00:11:22:33:44:55"

    def parse(self, text: str, env: Env) -> int:
        known = env.look("ether", text)
        if known is None and re.fullmatch(r"[\w.\-]+:eth(er|ernet)?", text) and not text[:1].isdigit():
            name = text.partition(":")[0]
            raise ValueError(f"`{text}`: there is no interface `{name}` here, and AddressInfo has no such name")
        return known if known is not None else address.parse_ether(text)

    def show(self, value: Any) -> str:
        return address.format_ether(value)


class OneOf(Kind):
    """The first of several kinds that reads the text."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds
        self.words = " or ".join(k.words for k in kinds)

    def parse(self, text: str, env: Env) -> Any:
        for kind in self.kinds:
            try:
                return kind.parse(text, env)
            except ValueError:
                continue
        raise ValueError(f"expected {self.words}, not `{text}`")


class Many(Kind):
    """Words of one kind, separated by spaces; the value is a tuple."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.words = f"{kind.words}, or several with spaces between"

    def parse(self, text: str, env: Env) -> tuple[Any, ...]:
        return tuple(self.kind.parse(word, env) for word in text.split())

    def show(self, value: Any) -> str:
        return " ".join(self.kind.show(x) for x in value)


class Named(Kind):
    """Words with fixed integer values, or an integer of `kind`: Named(dict(time=11), U8())."""

    def __init__(self, values: Mapping[str, int], kind: Kind) -> None:
        self.values, self.kind = dict(values), kind
        self.words = f"{kind.words} or one of {', '.join(values)}"

    def parse(self, text: str, env: Env) -> int:
        value = self.values.get(text.lower())
        if value is not None:
            return value
        try:
            return int(self.kind.parse(text, env))
        except ValueError:
            raise ValueError(f"expected {self.words}, not `{text}`") from None


# Annotation names as Click has them: name -> (offset, bytes).
ANNOTATIONS: dict[str, tuple[int, int]] = {
    "DST_IP": (0, 4),
    "DST_IP6": (0, 16),
    "PAINT": (16, 1),
    "ICMP_PARAMPROB": (17, 1),
    "FIX_IP_SRC": (18, 1),
    "VLAN_TCI": (18, 2),
    "AGGREGATE": (20, 4),
    "FWD_RATE": (24, 4),
    "EXTRA_PACKETS": (24, 4),
    "REV_RATE": (28, 4),
    "EXTRA_LENGTH": (28, 4),
    "FIRST_TIMESTAMP": (32, 8),
    "SEQUENCE_NUMBER": (40, 4),
    "PACKET_NUMBER": (40, 4),
}


class AnnoOffset(Kind):
    """A place in the annotations for `size` bytes: a number, a name such as PAINT, or one that AnnotationInfo gives."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.words = f"an annotation name or an offset from 0 to {48 - size}"

    def parse(self, text: str, env: Env) -> int:
        named, own = ANNOTATIONS.get(text.upper()), env.look("annotation", text)
        if own is not None and own[1] < self.size:
            raise ValueError(f"the annotation `{text}` has {own[1]} bytes; this takes {self.size}")
        offset = own[0] if own is not None else named[0] if named else units.parse_int(text)
        if not 0 <= offset <= 48 - self.size:
            raise ValueError(f"{offset} is out of range; expected {self.words}")
        return offset


class Arg:
    """One declared argument.

    kind: how the text is read.  default: the value when it is not given, REQUIRED when it must be.
    positional: may also be given by place.  keyword: the name to write (the attribute's in capitals).
    live: a Type; the value is then packet-time state with a write handler.  handler: also a read handler.
    """

    def __init__(
        self,
        kind: Kind,
        default: Any = REQUIRED,
        doc: str = "",
        *,
        positional: bool = True,
        keyword: str | None = None,
        live: Type | None = None,
        handler: bool = False,
    ) -> None:
        self.kind, self.default, self.doc = kind, default, doc
        self.positional, self.keyword, self.live = positional, keyword, live
        self.handler = handler or live is not None
        self.name = ""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self.keyword = self.keyword or name.upper()

    def __get__(self, element: Any, owner: type | None = None) -> Any:
        if element is None:
            return self
        if self.live is not None:
            return element.cell(self.name).value
        return element.args[self.name]

    def __set__(self, element: Any, value: Any) -> None:
        if self.live is not None:
            element.cell(self.name).load(value)
        else:
            element.args[self.name] = value


class Rest(Arg):
    """All further positional arguments, a list."""

    def __init__(self, kind: Kind, doc: str = "", *, least: int = 0) -> None:
        super().__init__(kind, [], doc)
        self.least = least


def read_arguments(
    declared: Sequence[Arg], words: Sequence[str], env: Env, complain: Callable[[str, str | None], None]
) -> dict[str, Any]:
    """The values of `declared` out of the argument texts `words`; every trouble goes to `complain`, with its word."""
    by_keyword = {a.keyword: a for a in declared if a.keyword and not isinstance(a, Rest)}
    given: dict[str, str] = {}
    source: dict[str, str] = {}  # the whole word a keyword's text is from
    places: list[str] = []
    for word in words:
        head, tail = (*word.split(None, 1), "", "")[:2]
        arg = by_keyword.get(head)
        # A word in capitals that is declared is a keyword; alone it is one only where a flag makes sense.
        if arg is not None and (tail or not arg.positional or isinstance(arg.kind, Bool)):
            if arg.name in given:
                complain(f"{head} is given twice", word)
            given[arg.name], source[arg.name] = tail.strip(), word
        else:
            places.append(word)
    values: dict[str, Any] = {}
    rest = next((a for a in declared if isinstance(a, Rest)), None)
    queue = iter(places)
    for arg in declared:
        if isinstance(arg, Rest):
            continue
        text = given.get(arg.name)
        if text is None and arg.positional:
            text = next(queue, None)
        if text is None or (text == "" and not arg.required and not isinstance(arg.kind, (Text, Data, Bool))):
            if arg.required:
                complain(f"the argument {arg.keyword} is missing: {arg.kind.words}", None)
            values[arg.name] = None if arg.required else arg.default
            continue
        if text == "" and arg.name in given and isinstance(arg.kind, Bool):
            text = "true"
        values[arg.name] = _read(arg, text, env, complain, source.get(arg.name, text))
    left = list(queue)
    if rest is not None:
        values[rest.name] = [_read(rest, text, env, complain, text) for text in left]
        if len(left) < rest.least:
            complain(f"too few arguments: at least {rest.least} more of {rest.kind.words} expected", None)
    elif left:
        known = ", ".join(k for k in by_keyword if k)
        first = left[0].split(None, 1)[0] if left[0] else ""
        what = (
            f"unknown keyword {first}"
            if first.isupper() and len(first) > 1
            else f"too many arguments, from `{left[0][:40]}` on"
        )
        complain(f"{what}; it takes {known}" if known else f"{what}; it takes none", left[0])
    return values


def _read(arg: Arg, text: str, env: Env, complain: Callable[[str, str | None], None], word: str) -> Any:
    try:
        return arg.kind.parse(text, env)
    except ValueError as trouble:
        complain(f"{arg.keyword}: {trouble}", word)
        return None if arg.required else arg.default
