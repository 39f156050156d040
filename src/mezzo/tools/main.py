"""The command `mezzo`: finds a subcommand by its file, and turns trouble into messages and exit statuses.

Exit status: 0 fine, 1 the user's error (printed to stderr with its place), 2 wrong usage of the command line.

A subcommand is a file of this folder whose name has no underscore in front: its docstring is its help,
`arguments(parser)` declares what it takes, `main(args)` does it and gives the exit status.  Only the one that is asked
for is imported, and each imports what it needs: `mezzo --version` must not wait for a compiler.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from mezzo import __version__

_NOT_COMMANDS = {"main", "click"}

# The commands of Click's that are subcommands here: the words in front of those that are given.
_CLICK_TOOLS = {
    "click2xml": ["flatten", "--xml"],
    "clicktest": ["clicktest"],
    "xml2click": ["xml2click"],
    **{
        f"click-{name}": [name]
        for name in (
            "align", "buildtool", "check", "combine", "devirtualize", "fastclassifier", "flatten", "mkmindriver",
            "pretty", "uncombine", "undead", "xform",
        )
    },
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line; the exit status.  Under the name of a command of Click's this is that command."""
    name = Path(sys.argv[0]).name if argv is None else ""
    if name == "click":
        from mezzo.tools import click

        return click.main()
    words = list(sys.argv[1:] if argv is None else argv)
    if name in _CLICK_TOOLS:
        return click_tool(name, words)
    return guarded(lambda: _dispatch(words))


def click_names() -> list[str]:
    """The commands of Click's that mezzo answers to."""
    return ["click", *_CLICK_TOOLS]


def click_tool(name: str, words: Sequence[str]) -> int:
    """A tool of Click's by its own name: it reads standard input where nothing is named, and ends with 1 for misuse."""
    if list(words) in (["--version"], ["-v"]):
        print(f"{name} (mezzo) {__version__}")
        return 0
    subcommand, *front = _CLICK_TOOLS[name]
    return guarded(lambda: run_subcommand(subcommand, [*front, *words], name))


def _dispatch(words: list[str]) -> int:
    if words and words[0] in ("--version", "-V", "version"):
        print(f"mezzo {__version__}")
        return 0
    if not words or words[0] in ("--help", "-h") or words == ["help"]:
        print(overview())
        return 0 if words else 2
    names = command_names()
    if words[0] not in names:
        import difflib

        near = difflib.get_close_matches(words[0], names, 1)
        hint = f"did you mean `mezzo {near[0]}`?" if near else f"there are {', '.join(names)}"
        print(f"mezzo: there is no subcommand `{words[0]}`; {hint}", file=sys.stderr)
        return 2
    return run_subcommand(words[0], words[1:])


def run_subcommand(name: str, words: list[str], click_name: str = "") -> int:
    """Parses a subcommand's words and runs it; `args.given` are the words, `args.as_click` says whose name was used."""
    module = import_module(f"mezzo.tools.{name}")
    parser = parser_of(name, module.__doc__ or "", click_name)
    module.arguments(parser)
    args = parser.parse_intermixed_args(words)
    args.given, args.as_click = words, bool(click_name)
    return int(module.main(args))


class _ClickParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """The status of Click's tools for a wrong command line is 1."""
        self.exit(1, f"{self.prog}: {message}\nTry '{self.prog} --help' for more information.\n")


def parser_of(name: str, doc: str, click_name: str = "") -> argparse.ArgumentParser:
    """A parser whose help is the docstring as it is written."""
    kind = _ClickParser if click_name else argparse.ArgumentParser
    return kind(
        click_name or f"mezzo {name}",
        description=doc.strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def command_names() -> list[str]:
    files = (path.stem for path in Path(__file__).parent.glob("*.py"))
    return sorted(name for name in files if not name.startswith("_") and name not in _NOT_COMMANDS)


def overview() -> str:
    """All subcommands with the first line of their help, without importing them."""
    lines = ["mezzo, a multi-level modular router", "", "usage: mezzo COMMAND …     mezzo COMMAND --help", ""]
    for name in command_names():
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8"))
        first = (ast.get_docstring(tree) or "").split("\n", 1)[0]
        lines.append(f"  {name:<14} {first}")
    last = "`click` is the same router behind the options of Click's driver; `click-flatten` … are Click's tools."
    return "\n".join([*lines, "", last])


def guarded(work: Callable[[], int]) -> int:
    """Runs `work()`; a user's error is printed instead of a traceback, a reader that went away ends it quietly."""
    try:
        _stand_in()
        return _told(work)
    except KeyboardInterrupt:
        print("mezzo: interrupted", file=sys.stderr)
        return 130


def _stand_in() -> None:
    """Something stands in for standard streams that are closed: what is opened later must not come in their place, and
    be written to by a `print`.  Writing to a standard output that is closed fails, as it would have."""
    for fd, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is not None:
            continue
        opened = os.open(os.devnull, flags)
        if opened != fd:
            os.dup2(opened, fd)
            os.close(opened)
        setattr(sys, name, open(fd, "w" if fd else "r", closefd=False))  # noqa: SIM115


def _told(work: Callable[[], int]) -> int:
    from mezzo.base import MezzoError

    try:
        status = work()
        sys.stdout.flush()
        return status
    except MezzoError as trouble:
        from mezzo.tools._terminal import print_errors

        _flush_quietly()
        print_errors(trouble.diagnostics)
        return 1
    except BrokenPipeError:
        _flush_quietly()
        return 1
    except OSError as trouble:
        # A disk that is full, a file that went away while packets flowed: not ours, and no traceback's business.
        print(f"mezzo: {trouble}", file=sys.stderr)
        _flush_quietly()
        return 1


def _flush_quietly() -> None:
    """What is still buffered would fail again when Python ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
