"""The words of the IR's text: its signs, its reserved names, and the tokens of one line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import NoReturn

from mezzo.base import Diagnostic, MezzoError, Span
from mezzo.ir.types import BOOL, I64, TYPES, U8, U32, U64, Type

BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "mod",
    "&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr",
}  # fmt: skip
COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
META: dict[str, Type] = {
    "length": U32, "headroom": U32, "tailroom": U32, "frame": U32, "timestamp": U64, "packet_type": U8,
    "mac": I64, "net": I64, "trans": I64, "has_mac": BOOL, "has_net": BOOL, "has_trans": BOOL,
}  # fmt: skip
RESIZE = ("strip", "prepend", "append", "trim")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.\d+)*", re.ASCII)
RESERVED = frozenset(
    {
        "self", "python", "true", "false", "none", "not", "and", "or", "is", "if", "else", "for", "in", "range",
        "max", "pass", "break", "continue", "return", "emit", "kill", "wake", "timer", "clear", "copy", "from",
        "to", "eval", "call", "make", "make_from", "clone", "pull", "run_task", "fire_timer", "read_clock", "mem",
        "libc", "frame_address", "take_frame", "give_frame", "lend", "adopt", "now", "walltime",
        "prefetch_frame", "frame_size", "random", "ready", "unit", "state", "reasons", "hosts", "entry", "rare", *TYPES,
    }
)  # fmt: skip

TYPE_WORDS = "|".join(TYPES)
_TOKEN = re.compile(
    rf"""\s*(?:
    (?P<name>(?:[A-Za-z_]\w*(?:\.\d+)*|`[^`]+`)(?::(?:{TYPE_WORDS})\b)?)
  | (?P<number>-?(?:0x[0-9a-f]+|\d+)(?:{TYPE_WORDS})?)
  | (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<reason>\#-?\d+)
  | (?P<sign>->|<<|>>|[=!<>]=|[-+*/%&|^<>=()\[\],.:?])
  )""",
    re.VERBOSE | re.ASCII,
)


def whole(digits: str) -> int:
    """A number in base 16 (0x…) or 10."""
    return int(digits, 16 if "0x" in digits else 10)


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    column: int


class Line:
    """The tokens of one line and how far they are read."""

    def __init__(self, number: int, text: str) -> None:
        self.row, self.text, self.at = number, text, 0
        self.indent = len(text) - len(text.lstrip(" "))
        self.tokens: list[Token] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                place = Span("ir", number, position + 1, text)
                raise MezzoError(Diagnostic("this is not part of the IR's text", place))
            kind = found.lastgroup or ""
            self.tokens.append(Token(kind, found[kind], found.start(kind)))
            position = found.end()
        self.tokens.append(Token("end", "", len(text)))

    def fail(self, message: str) -> NoReturn:
        token = self.tokens[self.at]
        place = Span("ir", self.row, token.column + 1, self.text, max(1, len(token.text)))
        raise MezzoError(Diagnostic(message, place))

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)].text

    def kind(self) -> str:
        return self.tokens[self.at].kind

    def take(self, *words: str) -> str:
        """The next token, which must be one of `words` (any, if none are given)."""
        token = self.tokens[self.at]
        if token.kind == "end" or (words and token.text not in words):
            self.fail(f"expected {' or '.join(words) or 'more'} here")
        self.at += 1
        return token.text

    def maybe(self, word: str) -> bool:
        found = self.peek() == word and self.kind() != "end"
        self.at += found
        return found

    def name(self) -> str:
        token = self.tokens[self.at]
        if token.kind != "name":
            self.fail("expected a name here")
        self.at += 1
        return token.text.strip("`")

    def type(self) -> Type:
        if self.peek() not in TYPES:
            self.fail("expected a type here")
        return TYPES[self.take()]

    def number(self) -> int:
        if self.kind() != "number" or self.peek().endswith(tuple(TYPES)):
            self.fail("expected a number without a type here")
        return whole(self.take())

    def string(self) -> str:
        try:
            text = json.loads(self.peek()) if self.kind() == "text" else None
        except ValueError:
            text = None
        if not isinstance(text, str):
            self.fail("expected a text in double quotes here")
        self.at += 1
        return text

    def end(self) -> None:
        if self.kind() != "end":
            self.fail("expected the end of the line here")
