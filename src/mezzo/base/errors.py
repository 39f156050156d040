"""Errors and their one printer.

A trouble of the user's is a `Diagnostic`: what is wrong, where, and what to write instead.  It prints as

    router.click:7:1: `q` is already an element
    7 | q :: Queue(200);
      | ^
    router.click:3:1: first declared here
    3 | q :: Queue(64);
      | ^
    use another name, or drop this line to keep the first

A `Reporter` collects several, so that one run reports them all; `MezzoError` carries them to the caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

LONGEST_LINE = 160


MOST_SHOWN = 400  # diagnostics that one error tells; more help nobody
LONGEST = 600  # characters of a message


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a source text: `line` and `column` count from 1; `text` is that whole source line."""

    file: str
    line: int
    column: int = 1
    text: str = ""
    width: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Note:
    """A second place that belongs to a diagnostic, for example the other side of a conflict."""

    message: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One trouble: `message` says what, `span` where, `notes` the other places, `hint` what to write instead."""

    message: str
    span: Span | None = None
    notes: tuple[Note, ...] = ()
    hint: str = ""
    severity: str = "error"

    def render(self) -> str:
        """The printed form: location line, source line, caret, notes, hint."""
        word = "" if self.severity == "error" else f"{self.severity}: "
        lines = list(_render_place(word + self.message, self.span))
        for note in self.notes:
            lines += _render_place(note.message, note.span)
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


def _render_place(message: str, span: Span | None) -> Iterable[str]:
    if span is None:
        return [message]
    head = f"{span}: {message}"
    if not span.text:
        return [head]
    number = str(span.line)
    gutter = " " * len(number)
    text, column = _clip(span.text, span.column)
    # Tabs in the source must push the caret as far as they push the text.
    before = "".join("\t" if c == "\t" else " " for c in text[: column - 1])
    caret = "^" * max(1, min(span.width, len(text) - column + 1))
    return [head, f"{number} | {text}", f"{gutter} | {before}{caret}"]


def _clip(text: str, column: int) -> tuple[str, int]:
    """The part of a long line around the column: generated sources have lines of megabytes."""
    if len(text) <= LONGEST_LINE:
        return text, column
    begin = max(0, min(column - 1 - LONGEST_LINE // 2, len(text) - LONGEST_LINE))
    end = begin + LONGEST_LINE
    head, tail = "... " if begin else "", " ..." if end < len(text) else ""
    return head + text[begin:end] + tail, column - begin + len(head)


def shortened(message: str) -> str:
    """A message that quotes a very long text, without its middle."""
    return message if len(message) <= LONGEST else f"{message[: LONGEST // 2]} … {message[-LONGEST // 4 :]}"


class MezzoError(Exception):
    """One or more diagnostics for the user; `str()` prints them all."""

    def __init__(self, *diagnostics: Diagnostic | str) -> None:
        self.diagnostics = tuple(d if isinstance(d, Diagnostic) else Diagnostic(d) for d in diagnostics)
        super().__init__("\n".join(d.render() for d in self.diagnostics))


@dataclass(slots=True)
class Reporter:
    """Collects diagnostics.  `raise_if_errors()` ends a step that found any."""

    diagnostics: list[Diagnostic] = field(default_factory=list)

    def error(self, message: str, span: Span | None = None, notes: Iterable[Note] = (), hint: str = "") -> None:
        self.diagnostics.append(Diagnostic(shortened(message), span, tuple(notes), hint))

    def warn(self, message: str, span: Span | None = None, notes: Iterable[Note] = (), hint: str = "") -> None:
        self.diagnostics.append(Diagnostic(message, span, tuple(notes), hint, "warning"))

    def extend(self, error: MezzoError) -> None:
        self.diagnostics.extend(error.diagnostics)

    @property
    def errors(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.severity != "error"]

    def raise_if_errors(self) -> None:
        """The warnings go along: they often say where an error comes from."""
        if self.errors:
            shown = self.diagnostics[:MOST_SHOWN]
            more = len(self.diagnostics) - len(shown)
            raise MezzoError(*shown, *([f"{more} more are not shown"] if more else []))
