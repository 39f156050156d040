"""Whether a file is what a test expects (`compare`).

`%expect`: line by line; blank lines, blanks at line ends and ignored lines do not count; `{{…}}` holds a regular
expression, `{{~ 5 - 15}}` or `{{~ 100 +- 5%}}` a range of numbers, `{{?…}}` a remark shown when the line differs.
`%expectx`: the same, each line an expression.  `%expectv`: byte for byte.  Of several expectations one must hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mezzo.tools._clicktest_file import Section

_RANGE = re.compile(r"~\s*([\d.]+)\s*(\+-|-)\s*([\d.]+)\s*(%?)\s*\Z")
_BLANKS = " \f\r\t\v"
_NO_BLANKS = str.maketrans("", "", _BLANKS)
_SUBTEST = "clicktest_subtest "
# What Perl writes otherwise.
_PERL = {r"\z": r"\Z", r"\h": r"[ \t]", r"\R": r"(?:\r\n|\n|\r)"}
END = "<end of file>"


@dataclass(frozen=True)
class Difference:
    """The first line that is not as expected; `line` counts in the file that was compared."""

    section: Section
    line: int
    expected: str
    found: str
    expected_line: int
    remark: str = ""
    subtest: str = ""


class BadPattern(ValueError):
    """An expression that cannot be read."""


@dataclass(frozen=True)
class _Line:
    """An expectation of one line: an expression, numbers in ranges, and a remark."""

    expression: re.Pattern[str]
    ranges: Sequence[tuple[float, float]]
    remark: str

    def matches(self, text: str) -> bool:
        m = self.expression.fullmatch(text)
        if m is None:
            return False
        return all(low <= float(m[f"number{i}"]) <= high for i, (low, high) in enumerate(self.ranges))


def compare(text: str, expects: Sequence[Section], ignores: Sequence[Section]) -> Difference | None:
    """None where one of the expectations holds; else the difference that comes latest."""
    furthest: Difference | None = None
    is_ignored = ignorer(ignores)
    for section in expects:
        difference = _exact(text, section) if section.kind == "expectv" else _by_lines(text, section, is_ignored)
        if difference is None:
            return None
        if furthest is None or difference.line > furthest.line:
            furthest = difference
    return furthest


def ignorer(sections: Sequence[Section]) -> Callable[[str], bool]:
    """Whether a line of output is one to be left out."""
    patterns = [pattern for section in sections for pattern in _ignored(section)]

    def is_ignored(line: str) -> bool:
        line = line.rstrip(_BLANKS)
        return any(p.matches(line.translate(_NO_BLANKS) if any_space else line) for p, any_space in patterns)

    return is_ignored if patterns else lambda line: False


def _ignored(section: Section) -> Iterator[tuple[_Line, bool]]:
    for line in section.text.split("\n"):
        text = line.translate(_NO_BLANKS) if section.any_space else line.rstrip(_BLANKS)
        if text:
            yield _line(text, section.kind.removeprefix("ignore"), section.any_case), section.any_space


def _exact(text: str, section: Section) -> Difference | None:
    if text == section.text:
        return None
    found, expected = [*text.split("\n"), END], [*section.text.split("\n"), END]
    at = next(i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b)
    return Difference(section, at + 1, expected[at], found[at], section.line + at)


def _by_lines(text: str, section: Section, is_ignored: Callable[[str], bool]) -> Difference | None:
    found = _Found(text, is_ignored)
    for number, expected in enumerate(section.text.split("\n"), section.line):
        if not expected.strip(_BLANKS):
            continue
        line = found.next()
        wanted = _line(
            _squeezed(expected) if section.any_space else expected.rstrip(_BLANKS),
            section.kind.removeprefix("expect"),
            section.any_case,
        )
        given = line.translate(_NO_BLANKS) if section.any_space else line
        if found.ended or not wanted.matches(given):
            return Difference(section, found.at, expected, line, number, wanted.remark, found.subtest)
    line = found.next()
    after = section.line + section.text.count("\n")
    return None if found.ended else Difference(section, found.at, END, line, after, "", found.subtest)


class _Found:
    """The lines of output that count."""

    def __init__(self, text: str, is_ignored: Callable[[str], bool]) -> None:
        self._lines = text.split("\n")
        self._is_ignored = is_ignored
        self.at = 0
        self.subtest = ""
        self.ended = False

    def next(self) -> str:
        """The next one, without blanks at its end."""
        while self.at < len(self._lines):
            line = self._lines[self.at].rstrip(_BLANKS)
            self.at += 1
            if line.startswith(_SUBTEST):
                self.subtest = line.removeprefix(_SUBTEST)
            elif line and not self._is_ignored(line):
                return line
        self.ended = True
        return END


# Lines and expressions


def _line(text: str, mode: str, any_case: bool) -> _Line:
    """A line of an expectation: plain text with `{{…}}` (mode ""), an expression ("x"), or plain text ("v")."""
    parts: list[str] = []
    ranges: list[tuple[float, float]] = []
    remarks: list[str] = []
    plain: Callable[[str], str] = _translated if mode == "x" else re.escape
    for before, inside in _braces(text) if mode != "v" else [(text, None)]:
        if inside is not None and inside.startswith("?"):
            remarks.append(inside[1:].strip())
            parts.append(plain(before.rstrip(_BLANKS)))
            continue
        parts.append(plain(before))
        if inside is not None:
            parts.append(_inside(inside, ranges, any_case))
    flags = re.ASCII | (re.IGNORECASE if any_case and mode == "x" else 0)
    try:
        return _Line(re.compile("".join(parts), flags), ranges, " ".join(remarks))
    except (re.error, OverflowError, RecursionError) as trouble:
        raise BadPattern(f"`{text.strip()}` is no regular expression: {trouble}") from None


def _inside(text: str, ranges: list[tuple[float, float]], any_case: bool) -> str:
    found = _range(text, ranges)
    if found is not None:
        return found
    inner = "".join(_translated(before) + (_range(inside, ranges) or "") for before, inside in _braces(text))
    return f"(?i:{inner})" if any_case else f"(?:{inner})"


def _range(text: str | None, ranges: list[tuple[float, float]]) -> str | None:
    """An expression for a number; between what it must lie is noted."""
    m = _RANGE.match(text) if text is not None else None
    if m is None:
        return None
    try:
        first, second = float(m[1]), float(m[3])
    except ValueError:
        return None
    if m[2] == "+-":
        width = first * second / 100 if m[4] else second
        ranges.append((max(0.0, first - width), first + width))
    else:
        ranges.append((min(first, second), max(first, second)))
    number = r"\d+(?:\.\d*)?" if "." in m[1] + m[3] else r"\d+"
    return f"(?P<number{len(ranges) - 1}>{number})"


def _braces(text: str) -> list[tuple[str, str | None]]:
    """(text before, text in `{{ }}`), and at the end (text, None); braces may be nested once."""
    found: list[tuple[str, str | None]] = []
    pos = 0
    while (begin := text.find("{{", pos)) >= 0:
        end, depth = begin + 2, 1
        while depth and (m := re.compile(r"\{\{|\}\}").search(text, end)) is not None:
            depth += 1 if m.group() == "{{" else -1
            end = m.end()
        if depth:
            break
        found.append((text[pos:begin], text[begin + 2 : end - 2]))
        pos = end
        if found[-1][1] is not None and str(found[-1][1]).startswith("?"):
            pos = end + len(text[end:]) - len(text[end:].lstrip(_BLANKS))
    return [*found, (text[pos:], None)]


def _squeezed(text: str) -> str:
    """Without blanks outside braces."""
    return "".join(
        before.translate(_NO_BLANKS) + (f"{{{{{inside}}}}}" if inside is not None else "")
        for before, inside in _braces(text)
    )


def _translated(text: str) -> str:
    """A Perl expression for Python."""
    return re.sub(r"\\.", lambda m: _PERL.get(m.group(), m.group()), text, flags=re.DOTALL)
