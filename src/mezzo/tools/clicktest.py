"""runs tests in the format of Click's clicktest files, with mezzo in Click's place

    mezzo clicktest test/           all *.clicktest and *.testie below a folder
    mezzo clicktest -V x.clicktest VAR=VALUE

A test is a shell script (%script) with its input files (%file) and what must come of it (%expect, %expectx, %expectv;
%ignore); %require says when it makes sense.  `click`, `click-flatten` and so on are mezzo's in it.  Exit status: 0 when
all passed, 1 when one failed or all were skipped, 2 when a file cannot be read or understood.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from mezzo.base import Diagnostic, MezzoError
from mezzo.tools._clicktest_file import TestCase, read_tests
from mezzo.tools._clicktest_run import (
    Outcome,
    Settings,
    begin,
    end_all,
    run_test,
    script_text,
    tools_folder,
    write_files,
)
from mezzo.tools._source import VARIABLE
from mezzo.tools._terminal import Progress

ENDINGS = (".clicktest", ".testie")


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("words", nargs="*", metavar="FILE|FOLDER|VAR=VALUE", help="tests, and variables of their scripts")
    add("-v", "-V", "--verbose", action="count", default=0, help="tell of tests that pass; twice: with their %%info")
    add("-q", "--quiet", action="store_true", help="only failures and the sum")
    add("--json", action="store_true", help="the results as JSON on standard output")
    add("-j", "--jobs", type=int, default=1, metavar="N", help="so many tests at a time (1)")
    add("-t", "--timeout", type=float, default=45.0, metavar="S", help="seconds a script may take (45)")
    add("-p", "--path", action="append", default=[], metavar="FOLDER", help="put in front of PATH")
    add("-s", "--show", action="append", default=[], metavar="FILE", help="show a file of each test when it is done")
    add("-S", "--show-raw", action="append", default=[], metavar="FILE", help="as --show, with ignored lines")
    add("--show-all", action="store_true", help="show all files that are compared")
    add("--show-all-raw", action="store_true", help="as --show-all, with ignored lines")
    add("-e", "--expand", action="store_true", help="run nothing: write the files of a test into this folder")
    add("--preserve-temporaries", action="store_true", help="keep the folders of the tests")
    add("--superverbose", action="store_const", dest="verbose", const=2, help=argparse.SUPPRESS)


def main(args: argparse.Namespace) -> int:
    variables = dict(w.split("=", 1) for w in args.words if VARIABLE.match(w))
    names = [w for w in args.words if not VARIABLE.match(w)]
    if not names and not args.as_click:
        raise MezzoError(Diagnostic("no test is given", hint="name a file, a folder, or - for standard input"))
    found = list(gather(names or ["-"]))
    if args.expand:
        return expand([test for _, tests in found for test in tests])
    settings = Settings(
        variables, args.path, args.timeout, args.preserve_temporaries, args.verbose > 0, shown_files(args)
    )
    outcomes = run_all(found, settings, args)
    if args.json:
        print(json.dumps([as_json(o) for o in outcomes], indent=2))
    return sum_up(outcomes)


def shown_files(args: argparse.Namespace) -> list[tuple[str, bool]]:
    some = [(name, True) for name in args.show] + [(name, False) for name in args.show_raw]
    return some + [("*", True)] * args.show_all + [("*", False)] * args.show_all_raw


def gather(names: Sequence[str]) -> Iterator[tuple[str, list[TestCase]]]:
    """The tests of each file; a file that cannot be read is a test that is bad."""
    for name in names:
        for file in files_of(name):
            try:
                text = sys.stdin.buffer.read().decode("latin-1") if file == "-" else read_bytes(file)
            except OSError as trouble:
                yield file, [TestCase(file, troubles=[f"{file}: {trouble.strerror}"])]
                continue
            yield file, read_tests(text, "<stdin>" if file == "-" else file)


def files_of(name: str) -> list[str]:
    if name == "-" or not Path(name).is_dir():
        return [name]
    paths = (p for p in sorted(Path(name).rglob("*")) if p.suffix in ENDINGS and not p.name.startswith(("#", ".")))
    return [str(p) for p in paths if p.is_file()]


def read_bytes(file: str) -> str:
    return Path(file).read_bytes().decode("latin-1")


# Running


def run_all(
    found: Sequence[tuple[str, list[TestCase]]], settings: Settings, args: argparse.Namespace
) -> list[Outcome]:
    """Runs them, several at a time, and tells of each in order."""
    numbered = list(enumerate(test for _, tests in found for test in tests))
    progress, outcomes = Progress(), list[Outcome]()
    begin()
    with ended_in_order(), tempfile.TemporaryDirectory() as spare, ThreadPoolExecutor(max(1, args.jobs)) as pool:
        try:
            tools = tools_folder(Path(spare))
            running = [pool.submit(run_test, test, settings, number, tools) for number, test in numbered]
            for (_, test), result in zip(numbered, running, strict=True):
                if not args.quiet and len(numbered) > 1:
                    progress.show(f"[{test.name}]")
                outcomes.append(result.result())
                progress.clear()
                tell(test, outcomes[-1], args.verbose)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise
    progress.clear()
    return outcomes


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM and SIGHUP end this as Ctrl-C does: scripts are ended and folders removed."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def tell(test: TestCase, outcome: Outcome, verbose: int) -> None:
    """What is to be said of one test."""
    if verbose > 1:
        about = test.info.strip().split("\n\n")[0]
        print(f"{test.name} Information:\n" + "".join(f"  {line}\n" for line in about.splitlines()), file=sys.stderr)
    for name, text in outcome.shown:
        print(f"{test.name}: {name}\n{'=' * 79}\n{text}{'=' * 79}", flush=True)
    for line in outcome.messages:
        print(line, file=sys.stderr)
    if verbose and outcome.status == "passed":
        print(f"{test.name}: Success!", file=sys.stderr)


def sum_up(outcomes: Sequence[Outcome]) -> int:
    """The last lines, and the exit status."""
    counts = {s: sum(o.status == s for o in outcomes) for s in ("passed", "failed", "skipped", "bad")}
    commands = sorted({o.requirement for o in outcomes if o.requirement})
    if commands:
        blocked = sum(1 for o in outcomes if o.requirement)
        tests = f"{blocked} test{'s' * (blocked != 1)}"
        print(f"clicktest: requirement failures blocked {tests}, use '-V' for details", file=sys.stderr)
        listed = "', '".join(commands)
        print(f"clicktest: (command{'s' * (len(commands) != 1)} '{listed}')", file=sys.stderr)
    failures = counts["failed"] + counts["bad"]
    good = f"{counts['passed']} success{'es' * (counts['passed'] != 1)}"
    bad = f"{failures} failure{'s' * (failures != 1)}"
    print(f"clicktest: {good}, {bad}, {counts['skipped']} skipped", file=sys.stderr)
    if counts["bad"]:
        return 2
    all_skipped = outcomes and counts["skipped"] == len(outcomes)
    return 1 if counts["failed"] or all_skipped else 0


def as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "test": outcome.name,
        "status": outcome.status,
        "seconds": round(outcome.seconds, 3),
        "messages": outcome.messages,
        "requirement": outcome.requirement or None,
    }


def expand(tests: Sequence[TestCase]) -> int:
    """Writes the files and scripts of tests into the current folder."""
    for test in tests:
        if test.troubles:
            raise MezzoError(*test.troubles)
        write_files(test, Path("."))
        for name, commands in (("%require", test.require), ("%script", test.script)):
            if commands:
                Path(name).write_text(script_text(commands, marked=False), encoding="latin-1")
    return 0
