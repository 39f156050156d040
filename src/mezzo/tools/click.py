"""The driver that answers to `click`: Click's options, with Click's meaning, on a router of mezzo.

    click [OPTION]... [ROUTERFILE] [VAR=VALUE]...

The configuration is built and initialized, `-o` written, the router run, then handlers read (`-h`, `-x`).  Unlike Click
this driver ends when nothing can ever happen again, and nobody may ask it for anything (`-p`, `-u`, `--socket`).

What takes long to import is imported where it is used: a Ctrl-C meanwhile finds `guarded` in charge.
"""

from __future__ import annotations

import argparse
import fnmatch
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from mezzo import __version__
from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._terminal import print_errors

if TYPE_CHECKING:
    from mezzo.runtime import Router


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Click's status for a wrong command line is 1."""
        self.exit(1, f"{self.prog}: {message}\nTry '{self.prog} --help' for more information.\n")


def parser() -> argparse.ArgumentParser:
    from mezzo.tools._control import control_arguments

    made = _Parser(
        "click",
        description="Runs a router in the Click language.",
        add_help=False,
        usage="click [OPTION]... [ROUTERFILE] [VAR=VALUE]...",
    )
    add = made.add_argument
    add(
        "words",
        nargs="*",
        metavar="ROUTERFILE|VAR=VALUE",
        help="the configuration (standard input without one); values of its $variables",
    )
    add("-f", "--file", action="append", default=[], metavar="FILE", help="read the configuration from FILE")
    add("-e", "--expression", action="append", default=[], metavar="EXPR", help="use EXPR as configuration")
    add(
        "-h",
        "--handler",
        action="append",
        default=[],
        metavar="EL.H",
        help="read handler H of element EL after the run and print it",
    )
    add("-x", "--exit-handler", metavar="EL.H", help="the exit status is what this handler reads")
    add("-o", "--output", metavar="FILE", help="write the flat configuration to FILE, - for standard output")
    add("-q", "--quit", action="store_true", help="build and initialize, do not run")
    add("-t", "--time", action="store_true", help="print how long the run took")
    add("-w", "--no-warnings", action="store_true", help="do not print warnings")
    add("--warnings", action="store_true", help=argparse.SUPPRESS)
    add("-C", "--clickpath", default="", metavar="PATH", help="where libraries are looked for")
    add("-D", "--define", action="append", default=[], metavar="VAR=VALUE", help="the value of a $variable")
    add("-j", "--threads", type=int, default=1, metavar="N", help="threads (1)")
    add(
        "--simtime",
        "--simulation-time",
        action="store_true",
        help="run under the virtual clock, which starts at 1000000000 s; --simtime=T: at T s",
    )
    add("--simtime-begin", type=begin_ns, metavar="T", help=argparse.SUPPRESS)
    control_arguments(made)
    add("--help", action="help", help="print this and end")
    add("-v", "--version", action="version", version=f"click (mezzo) {__version__}", help="print the version and end")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    from mezzo.tools.main import guarded

    words = [w for word in (sys.argv[1:] if argv is None else argv) for w in simtime_apart(word)]
    return guarded(lambda: run(parser().parse_intermixed_args(words)))


def simtime_apart(word: str) -> list[str]:
    """`--simtime=T` in two words: its value is optional, and must not be looked for in the word behind it."""
    name, equals, value = word.partition("=")
    if equals and name in ("--simtime", "--simulation-time"):
        return [name, f"--simtime-begin={value}"]
    return [word]


def begin_ns(text: str) -> int:
    """Seconds since 1970, in nanoseconds."""
    from mezzo.elements.units import parse_duration

    try:
        return parse_duration(text, "s")
    except ValueError as trouble:
        raise argparse.ArgumentTypeError(str(trouble)) from None


def run(args: argparse.Namespace) -> int:
    from mezzo.runtime import Router
    from mezzo.tools._source import find_source
    from mezzo.tools.run import ended_in_order

    words, expression = sources(args)
    source = find_source([*words, *definitions(args.define)], expression, args.clickpath)
    made = {"virtual": args.simtime, "threads": args.threads}
    with (
        ended_in_order(),
        Router.from_click(source.text, source.file, source.variables, source.folders, **made) as router,
    ):
        if args.simtime_begin is not None:
            router.engine.epoch_ns = args.simtime_begin
        if not args.no_warnings:
            print_errors(router.plan.warnings)
        status = write_flat(router, args.output) if args.output else 0
        if not args.quit:
            drive(router, args, source.file)
        status = read_handlers(router, args.handler) or status
        if args.exit_handler:
            return exit_status(router, args.exit_handler)
    return 1 if router.failures else status


def definitions(given: Sequence[str]) -> list[str]:
    from mezzo.tools._source import VARIABLE

    wrong = [d for d in given if not VARIABLE.match(d)]
    if wrong:
        raise MezzoError(Diagnostic(f"-D {wrong[0]}: this gives no variable a value", hint="write -D VAR=VALUE"))
    return list(given)


def sources(args: argparse.Namespace) -> tuple[list[str], str | None]:
    """(words with at most one file, expression): standard input where none is given."""
    from mezzo.tools._source import VARIABLE

    if len(args.expression) > 1:
        raise MezzoError("the configuration is given twice, each with -e")
    words = [*args.file, *args.words]
    if not args.expression and all(VARIABLE.match(w) for w in words):
        words.append("-")
    return words, args.expression[0] if args.expression else None


def write_flat(router: Router, name: str) -> int:
    text = router.read("flatconfig")
    if name == "-":
        print(text, end="", flush=True)
        return 0
    try:
        Path(name).write_text(text, encoding="utf-8")
    except OSError as trouble:
        print(f"{name}: {trouble.strerror}", file=sys.stderr)
        return 1
    return 0


def drive(router: Router, args: argparse.Namespace, file: str) -> None:
    from mezzo.ports import privileged
    from mezzo.tools._control import open_control
    from mezzo.tools.run import stop_on_signals

    if not router.elements and not args.no_warnings:
        print(f"{file}: warning: the configuration has no elements", file=sys.stderr)
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    with stop_on_signals(router) as interrupted:
        open_control(router, args)
        privileged.renounce()
        router.run(until=interrupted)
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - began
    if args.time:
        user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        print(f"{user:.3f}u {system:.3f}s {int(wall // 60)}:{wall % 60:05.2f}", flush=True)


def read_handlers(router: Router, paths: Sequence[str]) -> int:
    """Prints handlers as Click does: with a head line each where there are several; 1 when one could not be read."""
    from mezzo.tools.run import read_handler

    found: list[tuple[str, bool]] = []
    troubles: list[Diagnostic] = []
    for path in paths:
        names = expand(router, path)
        found += [(name, len(paths) > 1 or names != [path]) for name in names]
    for name, headed in found:
        try:
            text = read_handler(router, name)
        except MezzoError as trouble:
            troubles += trouble.diagnostics
            continue
        print(f"{name}:\n{text}\n" if headed else text, end="", flush=True)
    print_errors(troubles)
    return 1 if troubles else 0


def expand(router: Router, path: str) -> list[str]:
    """A handler of every element whose name fits a pattern (`q*.length`) or whose class is named (`Queue.length`)."""
    name, space, argument = path.partition(" ")
    owner, dot, handler = name.rpartition(".")
    if not dot or owner in router.elements:
        return [path]
    if any(c in owner for c in "*?["):
        names = [n for n in router.elements if fnmatch.fnmatchcase(n, owner)]
    else:
        names = [n for n, e in router.elements.items() if owner in {c.__name__ for c in type(e).__mro__}]
    tables = {n: router.handlers.table(router.elements[n]) for n in names}
    readable = [n for n in names if handler in tables[n] and tables[n][handler].read]
    return [f"{n}.{handler}{space}{argument}" for n in readable] or [path]


def exit_status(router: Router, path: str) -> int:
    """A number, or true (0) or false (1); anything else is an error, and 255."""
    from mezzo.elements.args import Bool, Env
    from mezzo.elements.units import parse_int
    from mezzo.tools.run import read_handler

    try:
        text = read_handler(router, path).strip()
        try:
            return parse_int(text) & 0xFF
        except ValueError:
            return 0 if Bool().parse(text, Env()) else 1
    except (MezzoError, ValueError) as trouble:
        print(f"-x {path}: {trouble}", file=sys.stderr)
        return 255


if __name__ == "__main__":
    sys.exit(main())
