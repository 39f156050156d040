"""Runs one test of Click's format (`run_test`): requirements, files, script, then what came of it.

Each runs in a folder of its own below the current one, in a process group of its own, under `sh -e`.  `click` and
Click's tools are mezzo's there.  Before every command of a script its place is written to standard error, which is how
a failure finds its line; these lines are taken out before standard error is compared.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mezzo.tools._clicktest_file import Command, Section, TestCase
from mezzo.tools._clicktest_match import BadPattern, Difference, compare, ignorer

PRELUDE = """clicktest_failed () {
  exitval=$?
  test $exitval = 0 || { echo; echo clicktest_failure:$exitval; } >&2
  exit $exitval
}
clicktest_subtest () { echo clicktest_subtest "$@"; echo clicktest_subtest "$@" >&2; }
testie_subtest () { clicktest_subtest "$@"; }
trap clicktest_failed EXIT
"""
_OWN_LINES = re.compile(r"^clicktest_(?:lineno|failure|error):.*\n?", re.MULTILINE)
_UNFINISHED = re.compile(r"(?:&&|\|\||\|)\s*\Z")
_REMARK = re.compile(r"\s*\{\{\?.*?\}\}\s*")
_SHOWABLE = re.compile(r"[\t -~]*")
NAMES = ("stdin", "stdout", "stderr")
PATIENCE_S = 0.5

_running: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()  # scripts that start from now on end at once


@dataclass
class Outcome:
    """`status` is "passed", "failed", "skipped" or "bad"."""

    name: str
    status: str = "passed"
    seconds: float = 0.0
    messages: list[str] = field(default_factory=list)
    requirement: str = ""  # the command whose failure made it be skipped, where nothing else says so
    shown: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, *messages: str) -> None:
        self.status = "failed"
        self.messages += messages


@dataclass(frozen=True)
class Settings:
    """How tests are run."""

    variables: Mapping[str, str] = field(default_factory=dict)
    path: Sequence[str] = ()
    timeout_s: float = 45.0
    keep: bool = False
    loud: bool = False  # failed requirements are told in full
    show: Sequence[tuple[str, bool]] = ()  # (file, whether ignored lines are left out); "*" for all

    def environment(self, tools: str) -> dict[str, str]:
        path = os.pathsep.join([*(str(Path(p).absolute()) for p in self.path), tools, os.environ.get("PATH", "")])
        return {**os.environ, "VALGRIND": "", "LC_ALL": "C", **self.variables, "PATH": path, "rundir": ".."}


def run_test(test: TestCase, settings: Settings, number: int, tools: str) -> Outcome:
    """Runs a test; its folder is gone afterwards unless it is to be kept."""
    outcome = Outcome(test.name, messages=list(test.remarks))
    if test.troubles:
        outcome.status = "bad"
        outcome.messages += test.troubles
        return outcome
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"clicktest{os.getpid()}-{number}-", dir=".")).absolute()
    try:
        _Runner(test, settings, folder, settings.environment(tools), outcome).run()
    finally:
        if not settings.keep:
            shutil.rmtree(folder, ignore_errors=True)
    outcome.seconds = time.monotonic() - begun
    return outcome


class _Runner:
    def __init__(
        self, test: TestCase, settings: Settings, folder: Path, environment: dict[str, str], outcome: Outcome
    ) -> None:
        self._test = test
        self._settings = settings
        self._folder = folder
        self._environment = environment
        self._outcome = outcome

    def run(self) -> None:
        test = self._test
        if test.require and self._shell("%require", test.require, "") != 0:
            self._say_failure(test.require, requirement=True)
            return
        try:
            write_files(test, self._folder)
        except OSError as trouble:
            self._outcome.fail(f"{test.name}: {trouble.filename}: {trouble.strerror}")
            return
        status = self._shell("%script", test.script, "stdin" if "stdin" in test.files else "")
        self._show()
        if status != 0:
            self._say_failure(test.script, requirement=False)
        else:
            self._compare()

    # Running

    def _shell(self, name: str, commands: Sequence[Command], stdin: str) -> int:
        """Runs a script; its status, 124 when it took too long."""
        _write(self._folder / name, script_text(commands))
        streams = [self._folder / stdin if stdin else Path(os.devnull)]
        streams += [self._folder / stream for stream in ("stdout", "stderr")]
        with streams[0].open("rb") as given, streams[1].open("wb") as out, streams[2].open("wb") as err:
            # A group of its own, so that what a script leaves behind ends with it.
            child = subprocess.Popen(
                ["/bin/sh", "-e", f"./{name}"], stdin=given, stdout=out, stderr=err,
                cwd=self._folder, env=self._environment, start_new_session=True,
            )  # fmt: skip
            _running.add(child)
            if _ending.is_set():
                _signal(child, signal.SIGKILL)
            try:
                status = child.wait(self._settings.timeout_s)
            except subprocess.TimeoutExpired:
                status = 124
                with (self._folder / "stderr").open("a") as more:
                    more.write("\nclicktest_failure:timeout\n")
            finally:
                _end_group(child)
                _running.discard(child)
        return status

    # What went wrong

    def _say_failure(self, commands: Sequence[Command], requirement: bool) -> None:
        place, said, failure, subtest = last_command(self._read("stderr"))
        command = next((c for c in commands if c.place == place), None)
        what = {"timeout": f"timed out after {self._settings.timeout_s:g} sec", "1": "failure"}.get(failure)
        what = ("requirement " if requirement else "") + (what or f"error {failure or 'undefined'}")
        text = _short(command.text) if command is not None else "undefined point in script"
        place = (place or self._test.name) + (f" subtest {subtest}" if subtest else "")
        errors = re.findall(r"^clicktest_error:(.*)$", said, re.MULTILINE)
        told = [f"{place}: {error}" for error in errors] or [f"{place}: {what} at '{text}'"]
        told += [f"{place}:   {line}" for line in _OWN_LINES.sub("", said).split("\n") if line.strip()]
        if not requirement:
            self._outcome.fail(*told)
            return
        self._outcome.status = "skipped"
        if self._settings.loud:
            self._outcome.messages += told
        elif command is not None and not command.quiet:
            self._outcome.requirement = text

    def _compare(self) -> None:
        for name, expects in self._test.expects.items():
            path = self._folder / name
            if not path.is_file():
                self._outcome.fail(f"{self._test.name}: {name}: there is no such file")
                continue
            try:
                text = _OWN_LINES.sub("", self._read(name)) if name == "stderr" else self._read(name)
                difference = compare(text, expects, self._ignores(name))
            except BadPattern as trouble:
                self._outcome.status = "bad"
                self._outcome.messages.append(f"{self._test.name}: {trouble}")
                continue
            if difference is not None:
                self._outcome.fail(*_told(name, difference))

    def _ignores(self, name: str) -> list[Section]:
        return [*self._test.ignores.get(name, []), *self._test.ignores.get("all", [])]

    def _show(self) -> None:
        for name, hide in self._settings.show:
            names = ["stdout", "stderr", *sorted(set(self._test.expects) - {*NAMES})] if name == "*" else [name]
            for each in names:
                self._outcome.shown.append((each, self._shown(each, hide)))

    def _shown(self, name: str, hide: bool) -> str:
        if not (self._folder / name).is_file():
            return f"{name} does not exist\n"
        is_ignored = ignorer(self._ignores(name)) if hide else None
        text = _OWN_LINES.sub("", self._read(name)) if hide else self._read(name)
        if is_ignored is None:
            return text
        return "".join(f"{line}\n" for line in text.removesuffix("\n").split("\n") if not is_ignored(line))

    def _read(self, name: str) -> str:
        with (self._folder / name).open(encoding="latin-1", newline="") as stream:
            return stream.read()


def script_text(commands: Sequence[Command], marked: bool = True) -> str:
    """The script; `marked`: with the place of each command, and commands of the folder above."""
    parts = [PRELUDE] if marked else []
    unfinished = False
    for command in commands:
        if marked and not unfinished:
            parts.append(f"echo >&2; echo clicktest_lineno:{command.place} >&2\n")
        unfinished = _UNFINISHED.search(command.text) is not None
        text = re.sub(r"\A(\s*)\./", r"\1../", command.text) if marked else command.text
        parts.append(f"{text}\n")
    return "".join(parts)


def write_files(test: TestCase, folder: Path) -> None:
    """The input files of a test."""
    for name in {*test.files, *test.expects}:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name, text in test.files.items():
        _write(folder / name, text)


def tools_folder(spare: Path) -> str:
    """The folder in which `click` and Click's tools are this mezzo's; made in `spare` where nothing is installed."""
    from mezzo.tools.main import click_names

    scripts = Path(sysconfig.get_path("scripts"))
    if all((scripts / name).is_file() for name in click_names()):
        return str(scripts)
    for name in click_names():
        file = spare / name
        file.write_text(f"#!{sys.executable}\nimport sys\nfrom mezzo.tools.main import main\nsys.exit(main())\n")
        file.chmod(0o755)
    return str(spare)


def last_command(stderr: str) -> tuple[str, str, str, str]:
    """(place of the last command begun, what it said, how it failed, subtest) from what the script left."""
    failure = re.findall(r"^clicktest_failure:(.*)$", stderr, re.MULTILINE)
    *_, tail = stderr.rpartition("clicktest_lineno:")
    place, _, said = tail.partition("\n") if "clicktest_lineno:" in stderr else ("", "", stderr)
    subtest = re.findall(r"^clicktest_subtest (.*)$", stderr, re.MULTILINE)
    said = re.sub(r"^clicktest_(?:failure:|subtest ).*\n?", "", said, flags=re.MULTILINE)
    return place.strip(), said, failure[-1] if failure else "", subtest[-1] if subtest else ""


def _told(name: str, d: Difference) -> list[str]:
    """As Click's harness tells it."""
    place = f"{d.section.file}:{d.expected_line}"
    what = {"stdout": "standard output", "stderr": "standard error"}.get(name, f"file {name}")
    where = f"{place}: subtest {d.subtest}" if d.subtest else place
    told = [f"{where}: {what} has unexpected value starting at line {d.line}"]
    expected = d.expected if d.section.kind == "expectv" else _REMARK.sub("", d.expected)
    if _SHOWABLE.fullmatch(expected.rstrip("\r")) and _SHOWABLE.fullmatch(d.found.rstrip("\r")):
        told.append(f"{place}: {name}:{d.line}: expected '{expected.rstrip()}'")
        told.append(f"{place}: {name}:{d.line}: but got  '{d.found.rstrip()}'")
    return told + ([f"{place}: {name}:{d.line}: {d.remark}"] if d.remark else [])


def _short(text: str) -> str:
    text = "".join(c if " " <= c <= "~" else f"\\{ord(c):03o}" for c in text.strip())
    return text if len(text) <= 40 else f"{text[:40]}..."


def begin() -> None:
    """Before the first test."""
    _ending.clear()


def end_all() -> None:
    """Ends the scripts that are running or about to, when the tests are interrupted."""
    _ending.set()
    for child in list(_running):
        _signal(child, signal.SIGKILL)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """Ends what a script left running: first with a word, then without."""
    until = time.monotonic() + PATIENCE_S
    left = _signal(child, signal.SIGHUP)
    while left and time.monotonic() < until:
        time.sleep(0.005)
        child.poll()
        left = _signal(child, 0)
    if left:
        _signal(child, signal.SIGKILL)
    child.wait()


def _signal(child: subprocess.Popen[bytes], number: int) -> bool:
    """Whether there was anybody to take it."""
    try:
        os.killpg(child.pid, number)
    except OSError:
        return False
    return True


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="latin-1", newline="") as stream:
        stream.write(text)
