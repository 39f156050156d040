"""Configuration strings: splitting them into arguments and words, quoting and unquoting them.

A configuration string is a list of arguments separated by commas; an argument is a list of words separated by
spaces.  Inside `"..."` and `'...'` commas, spaces and comment openers are ordinary characters; `"..."` and a bare
`\\<48 65>` take backslash substitutions, `'...'` takes none.  A comment counts as one space.  One trailing empty
argument is dropped, so `Print(A,)` is `Print(A)`.  Commas inside balanced parentheses do not split.

Rules of this file:
- A routing table may be one configuration string of tens of megabytes, so every function first looks for the plain
  case (no quotes, no comments, no parentheses) and hands it to `str.split`.
- Data written as bytes (`\\<ff>`) and text meet in `str`: bytes that are not UTF-8 become surrogates
  (`surrogateescape`), and `unquote_bytes` gives the bytes themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

# No group is repeated possessively: Python 3.11.2 (Debian 12's) matches those short.
_COMMENT = r"//[^\r\n]*|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/)?"
_DOUBLE = r'"[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\\?\Z)'
_SINGLE = r"'[^']*+(?:'|\Z)"
_HEX = r"\\<[^>]*+(?:>|\Z)"

_COMMENT_OR_QUOTED = re.compile(f"(?P<comment>{_COMMENT})|{_DOUBLE}|{_SINGLE}|{_HEX}", re.DOTALL)
_QUOTED = re.compile(f"{_DOUBLE}|{_SINGLE}|{_HEX}", re.DOTALL)
_SPLITTER = re.compile(f"{_DOUBLE}|{_SINGLE}|{_HEX}|(?P<mark>[(),])", re.DOTALL)
_PLACER = re.compile(f"{_COMMENT}|{_DOUBLE}|{_SINGLE}|{_HEX}|(?P<mark>[(),])", re.DOTALL)
_WORD = re.compile(f"(?:{_DOUBLE}|{_SINGLE}|{_HEX}|[^\\s\"'\\\\]|\\\\(?!<))+", re.DOTALL)
_PIECE = re.compile(f"(?P<double>{_DOUBLE})|(?P<single>{_SINGLE})|(?P<hex>{_HEX})|[^\"'\\\\]+|\\\\", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:(?P<hex><[^>]*>?)|(?P<octal>[0-7]{1,3})|x(?P<x>[0-9A-Fa-f]+)|(?P<newline>\r\n?|\n)|(?P<char>.)|\Z)",
    re.DOTALL,
)
_C_ESCAPES = {"a": b"\a", "b": b"\b", "t": b"\t", "n": b"\n", "v": b"\v", "f": b"\f", "r": b"\r"}
_SPACE_BEFORE = re.compile(rf"(?:\s+|{_COMMENT})*")

# What may stand in an argument without quotes: no space, comma, quote, bracket, backslash, `$`, comment, or control.
_BARE = re.compile(r"(?!.*(?://|/\*))[!#%&*+\-./0-9:;<=>?@A-Z\[\]^_`a-z{|}~\u00a1-\ud7ff\ue000-\U0010ffff]+")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_QUOTE_SPECIAL = re.compile(r'["\\$]|[\x00-\x1f\x7f]|[\ud800-\udfff]+')


def split_args(text: str) -> list[str]:
    """The arguments of a configuration string, still quoted, without comments and outer spaces.

    >>> split_args('1.0.0.0/8 0, "a, b" /* why */, (x, y),')
    ['1.0.0.0/8 0', '"a, b"', '(x, y)']
    """
    text = strip_comments(text)
    if "(" in text or ")" in text:
        parts = list(_split_marked(text))
    elif _is_plain(text):
        parts = text.split(",")
    else:
        parts = _split_quoted(text)
    args = [part.strip() for part in parts]
    if not args[-1]:
        args.pop()
    return args


def join_args(args: Iterable[str]) -> str:
    """The configuration string of these arguments; `split_args` gives them back."""
    listed = list(args)
    text = ", ".join(listed)
    return text + "," if listed and not listed[-1] else text


def split_words(text: str) -> list[str]:
    """The words of one argument, still quoted.

    >>> split_words('allow "a b" c')
    ['allow', '"a b"', 'c']
    """
    if _is_plain(text):
        return text.split()
    return [m.group() for m in _WORD.finditer(text)]


def strip_comments(text: str) -> str:
    """The text with each comment outside quotes replaced by one space."""
    if "//" not in text and "/*" not in text:
        return text
    return _COMMENT_OR_QUOTED.sub(lambda m: " " if m.group("comment") is not None else m.group(), text)


def argument_offsets(text: str) -> list[int]:
    """Where each argument that `split_args` finds begins in the text as written, comments and all."""
    spaces = (_SPACE_BEFORE.match(text, start) for start in _argument_starts(text))
    return [space.end() for space in spaces if space is not None]  # there always is one, of no length perhaps


def unquote(text: str) -> str:
    """The value of an argument or word: quotes removed, substitutions done, pieces put together.

    >>> unquote('a"b c"\\\\<64>')
    'ab cd'
    """
    if _is_plain(text):
        return text
    return unquote_bytes(text).decode("utf-8", "surrogateescape")


def unquote_bytes(text: str) -> bytes:
    """As `unquote`, but the bytes themselves; text is written in UTF-8."""
    if _is_plain(text):
        return _encode(text)
    return b"".join(_piece_bytes(m) for m in _PIECE.finditer(text))


def quote(text: str) -> str:
    """The text as one word that `unquote` turns back; quotes only where they are needed."""
    if _BARE.fullmatch(text) and text.split() == [text]:  # spaces of any script part words
        return text
    return '"' + quote_inner(text) + '"'


def quote_inner(text: str) -> str:
    """The text as it is written between double quotes."""
    if _UNSEEN.search(text) is not None:
        return _QUOTE_SPECIAL.sub(_escape, text)
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")  # the same, for megabytes


def _is_plain(text: str) -> bool:
    return '"' not in text and "'" not in text and "\\" not in text


def _split_quoted(text: str) -> list[str]:
    parts = [""]
    start = 0
    for m in _QUOTED.finditer(text):
        first, *rest = text[start : m.start()].split(",")
        parts[-1] += first
        parts += rest
        parts[-1] += m.group()
        start = m.end()
    first, *rest = text[start:].split(",")
    parts[-1] += first
    return parts + rest


def _split_marked(text: str) -> Iterator[str]:
    grouping = _parens_balance(text, _SPLITTER)
    start = depth = 0
    for m in _SPLITTER.finditer(text):
        mark = m.group("mark")
        if mark == "," and depth == 0:
            yield text[start : m.start()]
            start = m.end()
        elif grouping and mark in ("(", ")"):
            depth += 1 if mark == "(" else -1
    yield text[start:]


def _argument_starts(text: str) -> Iterator[int]:
    """The beginning, and the place behind each comma that splits."""
    yield 0
    if _is_plain(text) and not any(mark in text for mark in ("(", ")", "//", "/*")):
        yield from accumulate(len(part) + 1 for part in text.split(",")[:-1])
        return
    depth = 0
    grouping = _parens_balance(text, _PLACER)
    for m in _PLACER.finditer(text):
        mark = m.group("mark")
        if mark == "," and depth == 0:
            yield m.end()
        elif grouping and mark in ("(", ")"):
            depth += 1 if mark == "(" else -1


def _parens_balance(text: str, pattern: re.Pattern[str]) -> bool:
    """A stray parenthesis (possible in handler writes) must not swallow the commas behind it."""
    depth = 0
    for m in pattern.finditer(text):
        mark = m.group("mark")
        if mark == "(":
            depth += 1
        elif mark == ")":
            depth -= 1
            if depth < 0:
                return False
    return depth == 0


def _piece_bytes(m: re.Match[str]) -> bytes:
    text = m.group()
    if m.group("double") is not None:
        return _unescape(text[1:-1] if len(text) > 1 and text[-1] == '"' else text[1:])
    if m.group("single") is not None:
        return _encode(text[1:].removesuffix("'"))
    if m.group("hex") is not None:
        return _hex_data(text[2:])
    return _encode(text)


def _unescape(text: str) -> bytes:
    if "\\" not in text:
        return _encode(text)
    parts, start = [], 0
    for m in _ESCAPE.finditer(text):
        parts += [_encode(text[start : m.start()]), _escape_bytes(m)]
        start = m.end()
    return b"".join([*parts, _encode(text[start:])])


def _escape_bytes(m: re.Match[str]) -> bytes:
    if (digits := m.group("hex")) is not None:
        return _hex_data(digits[1:])
    if (digits := m.group("octal")) is not None:
        return bytes([int(digits, 8) & 0xFF])
    if (digits := m.group("x")) is not None:
        return bytes([int(digits[-2:], 16)])
    if m.group("newline") is not None:
        return b""
    char = m.group("char")
    return _C_ESCAPES.get(char) or _encode(char) if char else b"\\"


def _hex_data(text: str) -> bytes:
    """The bytes of `\\< ... >`; spaces and comments are allowed anywhere, an odd last digit is a low nibble."""
    digits = re.sub(r"[^0-9A-Fa-f]", "", strip_comments(text))
    if len(digits) % 2:
        digits = digits[:-1] + "0" + digits[-1]
    return bytes.fromhex(digits)


def _escape(m: re.Match[str]) -> str:
    char = m.group()
    if char in '"\\$':
        return "\\" + char
    if char == "\n":
        return "\\n"
    if char == "\t":
        return "\\t"
    return "\\<" + _encode(char).hex() + ">"


def _encode(text: str) -> bytes:
    # A lone surrogate that stands for no byte can only come from a Python caller; it is kept as its three bytes.
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
