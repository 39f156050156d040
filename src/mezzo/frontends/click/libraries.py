"""`require(library FILE)`: finding and reading the files a configuration includes, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mezzo.base import Reporter, Span
from mezzo.frontends.click.parser import parse_text
from mezzo.frontends.click.source import SourceText
from mezzo.frontends.click.tree import Block

MAX_LIBRARY_DEPTH = 32


@dataclass(slots=True)
class Libraries:
    """The files included so far, and the other requirements met."""

    reporter: Reporter
    path: Sequence[Path]
    requirements: list[str] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)
    _depth: int = 0

    def load(self, name: str, asking_file: str, span: Span) -> Block | None:
        """The library's statements; None if it is already in, or cannot be had (reported).  `leave` after use."""
        file = self._find(name, asking_file)
        if file is None:
            searched = ", ".join(str(d) for d in self._directories(asking_file))
            self.reporter.error(f"library `{name}` is not found", span, hint=f"searched in: {searched}")
            return None
        if file in self._seen:
            return None
        self._seen.add(file)
        if self._depth >= MAX_LIBRARY_DEPTH:
            self.reporter.error(f"libraries require each other more than {MAX_LIBRARY_DEPTH} deep", span)
            return None
        text = self._read(file, span)
        if text is None:
            return None
        self._depth += 1
        return parse_text(SourceText(text, str(file)), self.reporter)

    def leave(self) -> None:
        self._depth -= 1

    def _directories(self, asking_file: str) -> list[Path]:
        return [Path(asking_file).parent, *self.path]

    def _find(self, name: str, asking_file: str) -> Path | None:
        if "\0" in name or not name:
            return None
        for directory in self._directories(asking_file):
            file = directory / name
            try:
                if file.is_file():
                    return file.resolve()
            except OSError:  # a name the file system refuses, for example one that is too long
                continue
        return None

    def _read(self, file: Path, span: Span) -> str | None:
        try:
            # newline="" keeps line ends as written, so that offsets agree with the file.
            with file.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
                return stream.read()
        except OSError as error:
            self.reporter.error(f"library `{file}` cannot be read: {error.strerror}", span)
            return None
