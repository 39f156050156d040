"""Where a configuration comes from: a file, standard input (`-`), or an expression; with VAR=VALUE beside it.

Element classes of one's own come from Python files (`--elements police.py`): every element class that such a file
defines is known to the configuration by its name.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError, Span

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True)
class Source:
    """A configuration's text, what its errors call it, and the variables given beside it."""

    text: str
    file: str
    variables: dict[str, str] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()  # where `require` looks for libraries


def source_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments every subcommand has that reads a configuration."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="FILE|VAR=VALUE",
        help="the configuration, - for standard input; values of its $variables",
    )
    parser.add_argument("-f", "--file", metavar="FILE", help="the configuration, as an option")
    parser.add_argument("-e", "--expression", metavar="EXPR", help="the configuration itself instead of a file")
    parser.add_argument(
        "-C",
        "--clickpath",
        metavar="PATH",
        default="",
        help="folders, with : between, where `require(library FILE)` looks first",
    )
    elements_argument(parser)


def place_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--place",
        action="append",
        default=[],
        metavar="PATTERN=LEVEL",
        help="run these elements in the kernel (kernel, kernel?, auto) or not (native); auto alone: all worth it",
    )
    parser.add_argument(
        "--place-order",
        dest="place",
        action="append",
        type="ORDER={}".format,
        metavar="ORDER",
        help="may packets of a flow that are done in the kernel overtake those that are not: strict (no) or loose",
    )


def elements_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--elements",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a Python file with element classes of your own; may be repeated",
    )


def load_elements(names: Sequence[str]) -> None:
    """Makes the element classes of these Python files known."""
    for name in names:
        _load_module(Path(name))


def _load_module(path: Path) -> None:
    import importlib.util

    from mezzo.elements import Element, library

    spec = importlib.util.spec_from_file_location(f"mezzo_user_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise MezzoError(Diagnostic(f"--elements {path}: there is no such Python file", hint=_near_file(str(path))))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as trouble:
        place = Span(str(path), trouble.lineno or 1, trouble.offset or 1, (trouble.text or "").rstrip("\n"))
        raise MezzoError(Diagnostic(trouble.msg, place)) from None
    except Exception as trouble:
        raise MezzoError(
            Diagnostic(f"{path} cannot be imported: {type(trouble).__name__}: {trouble}", _place(path, trouble))
        ) from None
    made = [
        c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Element) and c.__module__ == spec.name
    ]
    if not made:
        raise MezzoError(
            Diagnostic(
                f"{path} defines no element class",
                hint="an element is a class that derives from mezzo.elements.Element",
            )
        )
    for cls in made:
        library.register(cls)


def _place(path: Path, trouble: Exception) -> Span | None:
    """The deepest line of that file that the exception passed."""
    import linecache
    import traceback

    # Python knows the module by its whole path, also where the file was named by a relative one.
    whole = str(path.absolute())
    lines = [n for f, n in traceback.walk_tb(trouble.__traceback__) if f.f_code.co_filename == whole]
    return Span(str(path), lines[-1], 1, linecache.getline(str(path), lines[-1]).rstrip("\n")) if lines else None


def read_source(args: argparse.Namespace) -> Source:
    load_elements(args.elements)
    words = [*([args.file] if args.file else []), *args.words]
    # Click's tools read standard input where nothing is named.
    if getattr(args, "as_click", False) and args.expression is None and all(VARIABLE.match(w) for w in words):
        words.append("-")
    return find_source(words, args.expression, args.clickpath)


def find_source(words: Sequence[str], expression: str | None, clickpath: str = "") -> Source:
    """The configuration that a command line names; MezzoError where it names none, or several."""
    variables = dict(w.split("=", 1) for w in words if VARIABLE.match(w))
    files = [w for w in words if not VARIABLE.match(w)]
    if expression is not None and files:
        raise MezzoError(Diagnostic("the configuration is given twice", hint=f"give either -e or the file {files[0]}"))
    if len(files) > 1:
        raise MezzoError(
            Diagnostic(f"one configuration at a time: {', '.join(files)}", hint="run the command once for each file")
        )
    if expression is None and not files:
        raise MezzoError(
            Diagnostic(
                "no configuration is given", hint="name a file, or - for standard input, or write it with -e 'EXPR'"
            )
        )
    path = search_path(clickpath)
    if expression is not None:
        return Source(expression, "expression", variables, path)
    return Source(read_file(files[0]), "stdin" if files[0] == "-" else files[0], variables, path)


def search_path(clickpath: str) -> tuple[Path, ...]:
    words = [*clickpath.split(":"), *os.environ.get("CLICKPATH", "").split(":")]
    return tuple(Path(w) for w in words if w)


def read_file(name: str) -> str:
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
