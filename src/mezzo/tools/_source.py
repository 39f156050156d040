"""Where a configuration comes from: a file, standard input (`-`), or an expression; with VAR=VALUE beside it."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class Source:
    """A configuration's text, what its errors call it, and the variables given beside it."""

    text: str
    file: str
    variables: dict[str, str] = field(default_factory=dict)
    library_path: tuple[Path, ...] = ()


def source_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments every subcommand has that reads a configuration."""
    parser.add_argument("words", nargs="*", metavar="FILE|VAR=VALUE", help="the configuration, - for standard input; values of its $variables")
    parser.add_argument("-e", "--expression", metavar="EXPR", help="the configuration itself instead of a file")
    parser.add_argument("-C", "--clickpath", metavar="PATH", default="", help="folders, with : between, where `require(library FILE)` looks first")


def read_source(args: argparse.Namespace) -> Source:
    return find_source(args.words, args.expression, args.clickpath)


def find_source(words: Sequence[str], expression: str | None, clickpath: str = "") -> Source:
    """The configuration that a command line names; MezzoError where it names none, or several."""
    variables = dict(w.split("=", 1) for w in words if _VARIABLE.match(w))
    files = [w for w in words if not _VARIABLE.match(w)]
    if expression is not None and files:
        raise MezzoError(Diagnostic("the configuration is given twice", hint=f"give either -e or the file {files[0]}"))
    if len(files) > 1:
        raise MezzoError(Diagnostic(f"one configuration at a time: {', '.join(files)}", hint="run the command once for each file"))
    if expression is None and not files:
        raise MezzoError(Diagnostic("no configuration is given", hint="name a file, or - for standard input, or write it with -e 'EXPR'"))
    path = search_path(clickpath)
    if expression is not None:
        return Source(expression, "expression", variables, path)
    return Source(_read(files[0]), "stdin" if files[0] == "-" else files[0], variables, path)


def search_path(clickpath: str) -> tuple[Path, ...]:
    words = [*clickpath.split(":"), *os.environ.get("CLICKPATH", "").split(":")]
    return tuple(Path(w) for w in words if w)


def _read(name: str) -> str:
    """The text of a file; bytes that are no UTF-8 stay what they are."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as trouble:
        raise MezzoError(Diagnostic(f"{name}: {trouble.strerror}", hint=_near_file(name))) from None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _near_file(name: str) -> str:
    import difflib

    folder = Path(name).parent
    there = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    near = difflib.get_close_matches(Path(name).name, there, 1)
    return f"did you mean {folder / near[0]}?" if near and near[0] != Path(name).name else ""
