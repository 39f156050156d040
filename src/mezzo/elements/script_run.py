"""What a script does: it goes from instruction to instruction until it blocks (`pause`, `wait`) or ends.

A timer, a `step`, a stop of the router, a packet, a signal or a handler makes it go on.  A step takes it past one
blocking instruction.  A script that jumps `MOST_JUMPS` times without blocking is given up, and so is one among scripts
that call each other and jump `MOST_TOGETHER` times in all.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from mezzo.base import MezzoError
from mezzo.elements._paths import full_path
from mezzo.elements.confparse import split_words, unquote
from mezzo.elements.script_functions import show_bool, truth
from mezzo.elements.script_program import END, ERROR, EXIT, STOP, Instruction, split_first
from mezzo.elements.script_text import expand
from mezzo.elements.units import parse_duration, parse_int

MOST_JUMPS = 1000
MOST_TOGETHER = 100_000  # of scripts that one script calls, and those call
MOST_SAID = 10
MOST_SHOWN = 1000  # characters of a trouble
ENDS = {END: "end", EXIT: "exit", ERROR: "error", STOP: "stop"}


class _Together(threading.local):
    """The jumps of all scripts that run inside one another."""

    depth = jumps = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc: object) -> None:
        self.depth -= 1
        self.jumps = self.jumps if self.depth else 0


TOGETHER = _Together()


class Runner:
    """A program and how far it is.  `element`: the script; `router` reads and writes, `arm` and `disarm` its timer."""

    def __init__(self, element: Any, program: Sequence[Instruction]) -> None:
        self.element, self.program = element, program
        self.variables: dict[str, str] = {}
        self.args, self.status = "", 0
        self.asked, self.written = "", False  # the handler that made it run; was that one written
        self.result, self.ended = "", ""
        self.failed: str | None = None
        self.at = self.steps = 0
        self.running = self.jumped = self.waiting = False
        self.said: Counter[str] = Counter()
        self.unheard = False  # nobody reads what it prints any more

    @property
    def word(self) -> str:
        """The instruction it is at."""
        return self.program[self.at].word

    @property
    def blocked(self) -> bool:
        return self.word in ("wait", "pause")

    def prepare(self) -> None:
        """The `init` and `export` instructions, once."""
        for one in self.program:
            if one.word in ("init", "export"):
                self.attempt(self.do_set, one)

    def advance(self, steps: int) -> bool:
        """Goes on until it blocks or ends; `steps` blocking instructions are passed.  Says whether it blocks."""
        self.steps += steps
        if self.running:  # an instruction told this very script
            return True
        self.running = True
        self.said.clear()
        try:
            with TOGETHER:
                fine = self.go()
        finally:
            self.running, self.steps = False, 0
        if not fine:
            self.give_up()
        return self.blocked

    def go(self) -> bool:
        """Instruction by instruction, until it blocks or ends; False where it jumps too often."""
        jumps = 0
        while jumps < MOST_JUMPS and TOGETHER.jumps < MOST_TOGETHER:
            self.jumped = False
            goes_on = self.do(self.program[self.at])
            if self.jumped:
                jumps += 1
                TOGETHER.jumps += 1
            elif not goes_on:
                return True
            else:
                self.at += 1
        return False

    def give_up(self) -> None:
        self.element.say(f"{self.element.name} :: {type(self.element).__name__}: too many jumps, giving up")
        self.at, self.ended = len(self.program) - 1, "jumps"
        self.disarm()

    def disarm(self) -> None:
        self.waiting = False
        self.element.call("disarm")

    def do(self, one: Instruction) -> bool:
        """One instruction; False where the script stays there."""
        return self.attempt(getattr(self, "do_" + one.word), one)

    def attempt(self, work: Callable[[Instruction], bool | None], one: Instruction) -> bool:
        """A trouble is said, and the script goes on."""
        try:
            return work(one) is not False
        except (MezzoError, ValueError, OSError, OverflowError) as trouble:
            self.complain(str(trouble))
        except RecursionError:
            self.complain("scripts call each other too deeply")
        return True

    def complain(self, text: str) -> None:
        """Says a trouble, but the same one in a loop not for ever."""
        self.said[text] += 1
        if self.said[text] > MOST_SAID:
            return
        shown = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
        self.element.say(f"While executing '{self.element.name} :: {type(self.element).__name__}':\n  {shown}")

    def jump(self, target: int) -> None:
        """Goes on at another place; pauses from there on count anew."""
        for one in self.program[target:]:
            one.seen = 0
        self.at, self.jumped = target, True

    def restart(self, args: str, asked: str = "run", written: bool = False) -> None:
        """Makes ready to run from the first instruction; `asked`: the handler on whose behalf."""
        self.disarm()
        self.args, self.asked, self.written = args, asked, written
        self.result, self.ended, self.failed = "", "", None
        self.jump(0)

    def end(self, how: str) -> bool:
        self.ended = how
        return False

    def jump_to(self, label: str) -> None:
        """Goes on at a label; ValueError where there is none."""
        found = next((i for i, x in enumerate(self.program) if x.word == "label" and x.text == label), -1)
        if found < 0:
            raise ValueError(f"there is no label `{label}`")
        self.disarm()
        self.jump(found)

    # -- text

    def text_of(self, text: str, unquoted: bool = False) -> str:
        found = expand(text, self.value_of, self.ask)
        return unquote(found) if unquoted else found

    def value_of(self, name: str) -> str | None:
        if name in self.variables:
            return self.variables[name]
        if name in _GIVEN:
            return _GIVEN[name](self)
        if name.isdecimal():
            words, number = split_words(self.args), int(name[:9])  # no script has so many arguments
            return words[number - 1] if 0 < number <= len(words) else ""
        return None

    def ask(self, text: str, unquoted: bool = False) -> str:
        path, argument = self.call_in(text, unquoted)
        return str(self.element.router.read(path, argument))

    def call_in(self, text: str, unquoted: bool) -> tuple[str, str]:
        """(path of a handler, what it is given): `HANDLER TEXT`."""
        path, argument = split_first(text)
        return self.path_of(path), unquote(argument) if unquoted else argument

    def path_of(self, path: str) -> str:
        """The full path of a handler: own ones need no element, and elements of this compound no prefix."""
        element = self.element
        if "." not in path and path in element.router.handlers.table(element):
            return f"{element.name}.{path}"
        return full_path(element, path)

    # -- instructions: False blocks or ends

    def do_set(self, one: Instruction) -> None:
        name, text = split_first(one.text)
        self.variables[name] = self.text_of(text, one.unquoted)

    def do_init(self, one: Instruction) -> None:
        """Done by `prepare`."""

    do_export = do_init

    def do_print(self, one: Instruction, end: str = "\n") -> None:
        file, mode, text = _redirected(one.text)
        if text[:1].isalpha() or text.startswith(("@", "_")):
            shown = self.ask(self.text_of(text), one.unquoted)
        else:
            shown = unquote(expand(text, self.value_of, self.ask, quoted=True))
        self.put(file, mode, shown if shown.endswith("\n") else shown + end)

    def put(self, file: str, mode: str, text: str) -> None:
        """Writes to a file or to standard output.  Where that one's reader has gone it is said once."""
        if file not in ("", "-"):
            return _write(unquote(file), mode, text)
        try:
            if not self.unheard:
                _print(text)
        except OSError as trouble:
            self.unheard = trouble.errno in (errno.EPIPE, errno.EBADF)
            why = "; nothing is printed there from now on" if self.unheard else ""
            raise OSError(f"standard output: {trouble.strerror or trouble}{why}") from None

    def do_printn(self, one: Instruction) -> None:
        self.do_print(one, end="")

    def do_read(self, one: Instruction) -> None:
        path, argument = self.call_in(self.text_of(one.text), one.unquoted)
        self.element.say(f"{path}:\n{self.element.router.read(path, argument)}")

    def do_write(self, one: Instruction) -> None:
        self.status = -1
        path, text = self.call_in(self.text_of(one.text), one.unquoted)
        self.element.router.write(path, text)
        self.status = 0

    def do_save(self, one: Instruction, mode: str = "w") -> None:
        words = split_words(self.text_of(one.text))
        file = words.pop() if len(words) > 1 else "-"
        shown = self.ask(" ".join(words))
        self.put(file, mode, shown if shown.endswith("\n") else shown + "\n")

    def do_append(self, one: Instruction) -> None:
        self.do_save(one, mode="a")

    def do_pause(self, one: Instruction) -> bool:
        count = parse_int(self.text_of(one.text)) if one.text else 1
        used = min(self.steps, count - one.seen)
        self.steps -= used
        one.seen += used
        if one.seen < count:
            return False
        one.seen = 0
        return True

    def do_wait(self, one: Instruction) -> bool:
        if self.steps:
            self.steps -= 1
            self.disarm()
            return True
        self.element.call("arm", parse_duration(self.text_of(one.text)))
        self.waiting = True
        return False

    def do_label(self, one: Instruction) -> None:
        """A place only."""

    def do_goto(self, one: Instruction) -> bool:
        condition = self.text_of(one.text)
        if condition and not truth(condition):
            return True
        if one.target >= 0:
            self.jump(one.target)
            return True
        if one.target == ERROR:
            self.failed = ""
        return self.do_stop(one) if one.target == STOP else self.end(ENDS[one.target])

    def do_return(self, one: Instruction) -> bool:
        self.result = self.text_of(one.text, one.unquoted)
        return self.end("return")

    def do_error(self, one: Instruction) -> bool:
        self.failed = self.text_of(one.text, one.unquoted)
        return self.end("error")

    def do_end(self, one: Instruction) -> bool:
        return self.end("end")

    def do_exit(self, one: Instruction) -> bool:
        return self.end("exit")

    def do_stop(self, one: Instruction) -> bool:
        self.element.router.please_stop()
        return self.end("stop")


def _redirected(text: str) -> tuple[str, str, str]:
    """(file, mode, the text behind) of what `print` is given."""
    if not text.startswith(">"):
        return "-", "w", text
    mode = "a" if text.startswith(">>") else "w"
    file, rest = split_first(text[1 + (mode == "a") :])
    return file, mode, rest


def _write(file: str, mode: str, text: str) -> None:
    kind = os.O_APPEND if mode == "a" else os.O_TRUNC
    # A pipe that nobody reads must not hold up the router.
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | kind
    with open(os.open(file, flags, 0o666), "wb") as out:
        out.write(_bytes(text))


def _print(text: str) -> None:
    if not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(_bytes(text))
    sys.stdout.buffer.flush()


def _bytes(text: str) -> bytes:
    """The bytes of a text that came from bytes are those again."""
    return text.encode("utf-8", "surrogateescape")


# What a script is told without having set it.
_GIVEN: dict[str, Callable[[Runner], str]] = {
    "args": lambda run: run.args,
    "#": lambda run: str(len(split_words(run.args))),
    "?": lambda run: str(run.status),
    "$": lambda run: str(os.getpid()),
    "0": lambda run: run.asked,
    "write": lambda run: show_bool(run.written),
}
