"""Test files in the format of Click's clicktest (once testie): what stands in one (`read_tests`).

A file is a list of sections, each begun by a line `%NAME arguments`.  `%eot` ends a test and begins another one.  All
is kept byte for byte, as text in latin-1, because tests compare bytes.

Rules of this file: nothing is run or compared; what is wrong with the file is gathered in `troubles` (the test is bad)
and `remarks` (it is not); lines end with a newline and nothing else.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_SECTION = re.compile(r"%\s*(\w+)\s*(.*?)\s*\Z", re.DOTALL)
_FILE_NAME = re.compile(r"[-A-Za-z_0-9./]+")
_BAD_NAME = re.compile(r"\A\.\.(/|\Z)|/\.\.(/|\Z)|\A/|//|/\Z")
_SPECIAL = {"stdin": ("file",), "stdout": ("expect", "ignore"), "stderr": ("expect", "ignore"), "all": ("ignore",)}
_FLAGS = {
    "file": "de", "expect": "adeiw", "expectx": "adiw", "expectv": "ade",
    "ignore": "diw", "ignorex": "diw", "ignorev": "diw",
}  # fmt: skip
_FILE_SECTIONS = {
    "file": ("file", "stdin"), "stdin": ("file", "stdin"), "input": ("file", "stdin"),
    "expect": ("expect", "stdout"), "stdout": ("expect", "stdout"), "output": ("expect", "stdout"),
    "stderr": ("expect", "stderr"), "expectx": ("expectx", "stdout"), "expectv": ("expectv", "stdout"),
    "expect_verbatim": ("expectv", "stdout"), "verbatim": ("expectv", "stdout"),
    "ignore": ("ignore", "all"), "ignorex": ("ignorex", "all"), "ignorev": ("ignorev", "all"),
}  # fmt: skip


@dataclass(frozen=True)
class Command:
    """One command of a script, and where it stands."""

    text: str
    place: str
    quiet: bool = False


@dataclass(frozen=True)
class Section:
    """The text of one section for one file; `line` is where the text begins."""

    kind: str
    text: str
    file: str
    line: int
    any_case: bool = False
    any_space: bool = False


@dataclass
class TestCase:
    """One test: what to run, with what, and what must come of it."""

    name: str
    script: list[Command] = field(default_factory=list)
    require: list[Command] = field(default_factory=list)
    info: str = ""
    files: dict[str, str] = field(default_factory=dict)
    expects: dict[str, list[Section]] = field(default_factory=dict)
    ignores: dict[str, list[Section]] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def read_tests(text: str, file: str) -> list[TestCase]:
    """All tests of a file."""
    reader = _Reader(text, file)
    tests = [reader.test(file)]
    if not reader.seen:
        tests[0].troubles.append(f"{file}: there is no section in this file, so it tests nothing")
    while reader.more:
        test = reader.test(f"{file}<{len(tests) + 1}>")
        tests += [test] if reader.seen else []  # nothing may follow the last %eot
    return tests


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        # (line, file, number), as %include puts other files in between.
        self._lines = [(line, file, i) for i, line in enumerate(_LINE.findall(text), 1)]
        self._pos = 0
        self._included = 0
        self.more = False
        self.seen = False

    def test(self, name: str) -> TestCase:
        """Reads up to the end of a test."""
        test, self.more, self.seen = TestCase(name), False, False
        seen = False
        while self._pos < len(self._lines):
            line, file, number = self._lines[self._pos]
            self._pos += 1
            m = _SECTION.match(line)
            if m is None:
                self._outside(test, line, f"{file}:{number}", seen)
                seen = seen and (line.startswith(("#", "!")) or not line.strip())
                continue
            seen = self.seen = True
            word, args = m[1].lower(), m[2]
            if word in ("eot", "eof"):
                self.more = word == "eot"
                self._pos = self._pos if self.more else len(self._lines)
                break
            self._section(test, word, args, file, number)
        return test

    def _outside(self, test: TestCase, line: str, place: str, behind_section: bool) -> None:
        if line.startswith("%"):
            test.troubles.append(f"{place}: a `%` must be followed by the name of a section")
        elif line.strip() and not line.startswith(("#", "!")) and behind_section:
            test.remarks.append(f"{place}: warning: garbage ignored")

    def _section(self, test: TestCase, word: str, args: str, file: str, number: int) -> None:
        place = f"{file}:{number}"
        if word in ("script", "test", "require"):
            self._script(test, "require" if word == "require" else "script", args, place)
        elif word in ("info", "desc", "cut", "end"):
            text = self._text()
            test.info += text if word in ("info", "desc") else ""
        elif word in _FILE_SECTIONS:
            kind, usual = _FILE_SECTIONS[word]
            # %stdin and its like name their file themselves.
            args = args if word in _FLAGS or word in ("expect_verbatim", "verbatim") else f"{args} {usual}"
            self._file(test, kind, args.split() or [usual], usual, file, number)
        elif word == "include":
            self._include(test, args, file, place)
        else:
            test.troubles.append(f"{place}: there is no section `%{word}`")
            self._text()

    def _text(self) -> str:
        """The lines up to the next section."""
        parts = []
        while self._pos < len(self._lines) and not self._lines[self._pos][0].startswith("%"):
            line = self._lines[self._pos][0]
            parts.append(line[1:] if line.startswith("\\%") else line)
            self._pos += 1
        return "".join(parts)

    def _script(self, test: TestCase, kind: str, args: str, place: str) -> None:
        quiet = kind == "require" and args == "-q"
        if args and not quiet:
            test.remarks.append(f"{place}: arguments of `%{kind}` ignored")
        file, _, number = place.rpartition(":")
        commands, trouble = split_commands(self._text(), file, int(number) + 1, quiet)
        (test.require if kind == "require" else test.script).extend(commands)
        if trouble:
            test.troubles.append(f"{place}: {trouble} in `%{kind}`")

    def _include(self, test: TestCase, name: str, file: str, place: str) -> None:
        path = Path(file).parent / name
        self._included += 1
        if self._included > 100:
            test.troubles.append(f"{place}: files include each other without end")
            return
        try:
            text = path.read_bytes().decode("latin-1")
        except OSError as trouble:
            test.troubles.append(f"{place}: %include {path}: {trouble.strerror}")
            return
        lines = [(line, str(path), i) for i, line in enumerate(_LINE.findall(text), 1)]
        self._lines[self._pos : self._pos] = lines

    def _file(self, test: TestCase, kind: str, words: list[str], usual: str, file: str, number: int) -> None:
        place = f"{file}:{number}"
        flags, length, names = _options(words)
        for flag in sorted(set(flags) - set(_FLAGS[kind])):
            test.troubles.append(f"{place}: `%{kind}` has no -{flag}")
        text = self._text() if length is None else self._exactly(length, test, place)
        if "d" in flags:
            text = re.sub(r"^[^\n]", "", text, flags=re.MULTILINE)
        if "e" in flags:
            text, kind = _decoded(text, test, place), "expectv" if kind == "expect" else kind
        section = Section(kind, text, file, number + 1, "i" in flags, "w" in flags)
        for name in names or [usual]:
            _place(test, section, name, "a" in flags, place)

    def _exactly(self, length: int, test: TestCase, place: str) -> str:
        """As many bytes; what is left of the last line begins the next section."""
        parts, left = [], length
        while left > 0 and self._pos < len(self._lines):
            line, file, number = self._lines[self._pos]
            parts.append(line[:left])
            if len(line) > left:
                self._lines[self._pos] = (line[left:], file, number)
            else:
                self._pos += 1
            left -= len(parts[-1])
        if left:
            test.troubles.append(f"{place}: the file ends {left} bytes too early")
        return "".join(parts)


def _options(words: list[str]) -> tuple[str, int | None, list[str]]:
    """(flags, length, file names) of a section's arguments."""
    flags, length = "", None
    for at, word in enumerate(words):
        if re.fullmatch(r"\+\d+", word):
            length = int(word)
        elif re.fullmatch(r"-[A-Za-z]+", word):
            flags += word[1:]
        else:
            return flags, length, words[at:]
    return flags, length, []


def _decoded(text: str, test: TestCase, place: str) -> str:
    try:
        return base64.b64decode(re.sub(r"\s", "", text)).decode("latin-1")
    except (binascii.Error, ValueError):
        test.troubles.append(f"{place}: this is not base 64")
        return ""


def _place(test: TestCase, section: Section, name: str, alternate: bool, place: str) -> None:
    """File a section under the name of the file that it is about."""
    group = "ignore" if section.kind.startswith("ignore") else "file" if section.kind == "file" else "expect"
    if group not in _SPECIAL.get(name, (group,)):
        test.troubles.append(f"{place}: `{name}` has no meaning for `%{section.kind}`")
    elif not _FILE_NAME.fullmatch(name) or _BAD_NAME.search(name):
        test.troubles.append(f"{place}: `{name}` is no name for a file in the test's folder")
    elif group == "file":
        if name in test.files:
            test.troubles.append(f"{place}: `%file {name}` is already there")
        test.files[name] = section.text
    else:
        table = test.ignores if group == "ignore" else test.expects
        listed = table.setdefault(name, [])
        if group == "expect" and not alternate and any(s.kind == section.kind for s in listed):
            test.troubles.append(f"{place}: `%{section.kind} {name}` is already there; alternatives have -a")
        listed.append(section)


# Scripts

_SHELL = re.compile(r"\\.|['\"`{}\n]|(?:(?<=\s)|\A)\#[^\n]*", re.DOTALL)


def split_commands(text: str, file: str, line: int, quiet: bool = False) -> tuple[list[Command], str]:
    """The commands of a script, which end at line ends outside quotes and braces; and what is not closed."""
    commands: list[Command] = []
    begin, quote, depth, back = 0, "", 0, False
    for m in _SHELL.finditer(text):
        mark = m.group()
        if quote:
            quote = "" if mark == quote else quote
            if quote == "'" and mark == "\\'":  # a backslash means nothing there
                quote = ""
        elif mark in ("'", '"'):
            quote = mark
        elif mark == "`":
            back = not back
        elif mark in ("{", "}"):
            depth += 1 if mark == "{" else -1
        elif mark == "\n" and not back and depth <= 0:
            commands += _command(text, begin, m.end(), file, line, quiet)
            begin, depth = m.end(), 0
    commands += _command(text, begin, len(text), file, line, quiet)
    open_mark = quote or ("`" if back else "")
    return commands, f"a {open_mark} is not closed" if open_mark else ""


def _command(text: str, begin: int, end: int, file: str, line: int, quiet: bool) -> Iterator[Command]:
    piece = text[begin:end]
    if piece.strip():
        # Empty lines before a command are not its place.
        first = begin + len(piece) - len(piece.lstrip())
        yield Command(piece.rstrip("\n"), f"{file}:{line + text.count(chr(10), 0, first)}", quiet)
