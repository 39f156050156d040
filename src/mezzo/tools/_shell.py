"""What `mezzo shell` understands; a command is a method `do_…`, and a line that begins with none reads a handler."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mezzo.base import MezzoError
from mezzo.tools._client import Client, ControlError, ask_all, encoded
from mezzo.tools._terminal import harmless, print_errors, table
from mezzo.tools._watch import readings

HISTORY = 1000  # lines


class Shell:
    """Runs commands on one router.  What goes wrong is said, and counted in `failed`."""

    def __init__(self, client: Client, help_text: str) -> None:
        self.client, self.help_text = client, help_text
        self.failed = 0
        self.over = False
        self._names: list[str] | None = None
        self._handlers: dict[str, list[tuple[str, str]]] = {}

    # -- running

    def script(self, lines: Iterable[str]) -> int:
        for line in lines:
            self.run(line)
            if self.over:
                break
        return 1 if self.failed else 0

    def interactive(self) -> int:
        self._start_editing()
        print(f"mezzo shell on {self.client.where}; `help` says what there is")
        while not self.over:
            try:
                line = input("mezzo> ")
            except EOFError:
                print()
                break
            except KeyboardInterrupt:
                print()
                continue
            self.run(line)
        return 0

    def run(self, line: str) -> None:
        """One command line; a trouble is said.  A connection that is lost ends the shell."""
        words = line.split()
        if not words or words[0].startswith("#"):
            return
        try:
            do = getattr(self, f"do_{words[0]}", None)
            if do is not None and "." not in words[0]:
                do(line.strip()[len(words[0]) :].strip())
            elif len(words) > 1 and words[1] == "=":
                self.do_write(line.replace("=", "", 1))
            else:
                self.do_read(line.strip())
        except ControlError as trouble:
            self._say(trouble)
        except MezzoError as trouble:
            self._say(trouble)
            self.over = True
        except KeyboardInterrupt:
            print()

    def _say(self, trouble: MezzoError) -> None:
        self.failed += 1
        print_errors(trouble.diagnostics)

    # -- commands

    def do_read(self, text: str) -> None:
        path, _, argument = text.partition(" ")
        value = self.client.read(self._path(path), encoded(argument.strip())).decode("utf-8", "replace")
        print(harmless(value), end="" if value.endswith("\n") else "\n")

    def do_write(self, text: str) -> None:
        words = text.split(None, 1)
        answer = self.client.write(self._path(words[0] if words else ""), encoded(words[1]) if len(words) > 1 else b"")
        print(harmless(answer))

    def do_watch(self, text: str) -> None:
        """`watch H… [every T] [times N]`."""
        paths, every, times = _watch_words(text.split())
        for path in paths:
            self._path(path)
        rounds = readings(
            lambda: {p: d.decode("utf-8", "replace") for p, d in ask_all(self.client, paths).items()}, every, times
        )
        shown = 0
        for lines in rounds:
            if shown and sys.stdout.isatty():
                print(f"\x1b[{shown}A\x1b[J", end="")
            print("\n".join(lines), flush=True)
            shown = len(lines)

    def do_ls(self, text: str) -> None:
        if not text:
            for name in self.names():
                print(harmless(f"{name}  {self.client.text(f'{name}.class')}"))
            return
        rows = self.handlers(text)
        print(harmless(table(("handler", ""), rows)))

    def do_help(self, text: str) -> None:
        print(self.help_text.strip())

    def do_quit(self, text: str) -> None:
        self.over = True

    do_exit = do_quit

    def _path(self, path: str) -> str:
        if not path:
            raise ControlError(500, "which handler? Write ELEMENT.HANDLER")
        return path

    # -- what there is

    def names(self) -> list[str]:
        if self._names is None:
            self._names = self.client.names()
        return self._names

    def handlers(self, element: str = "") -> list[tuple[str, str]]:
        if element not in self._handlers:
            self._handlers[element] = self.client.handlers(element)
        return self._handlers[element]

    def completions(self, line: str, word: str) -> list[str]:
        """What `word`, the last of `line`, may become."""
        before = line[: len(line) - len(word)].split()
        if before[:1] == ["ls"]:
            return [n for n in self.names() if n.startswith(word)]
        owner, dot, start = word.rpartition(".")
        if dot:
            flag = "w" if before[:1] == ["write"] else ""
            return [f"{owner}.{n}" for n, flags in self.handlers(owner) if n.startswith(start) and flag in flags]
        commands = [] if before else [name[3:] for name in dir(self) if name.startswith("do_")]
        everything = [*commands, *(n for n, _ in self.handlers()), *(f"{n}." for n in self.names())]
        return sorted(x for x in everything if x.startswith(word))

    # -- the terminal

    def _start_editing(self) -> None:
        """Lines are edited, completed and remembered, where Python has readline."""
        with suppress(ImportError):
            import readline

            readline.set_completer_delims(" ")
            readline.set_completer(self._complete)
            readline.parse_and_bind("tab: complete")
            file = history_file()
            with suppress(OSError):
                readline.read_history_file(file)
            readline.set_history_length(HISTORY)
            import atexit

            atexit.register(_keep_history, file)

    def _complete(self, word: str, state: int) -> str | None:
        import readline

        if state == 0:
            try:
                self._found = self.completions(readline.get_line_buffer()[: readline.get_endidx()], word)
            except MezzoError:
                self._found = []
        return self._found[state] if state < len(self._found) else None


def _watch_words(words: list[str]) -> tuple[list[str], float, int | None]:
    """(handlers, seconds between readings, how many) of what stands behind `watch`."""
    from mezzo.elements.units import parse_duration, parse_int

    every, times, paths = 1.0, None, []
    while words:
        word = words.pop(0)
        if word in ("every", "times") and words:
            try:
                if word == "every":
                    every = parse_duration(words.pop(0), "s") / 1e9
                else:
                    times = parse_int(words.pop(0))
            except ValueError as trouble:
                raise ControlError(500, str(trouble)) from None
        else:
            paths.append(word)
    if not paths:
        raise ControlError(500, "watch what? Write ELEMENT.HANDLER, perhaps several")
    return paths, every, times


def history_file() -> Path:
    """Where lines are kept, as the XDG base directories say."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "mezzo" / "shell_history"


def _keep_history(file: Path) -> None:
    import readline

    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o600)
        readline.write_history_file(file)
