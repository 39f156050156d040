"""A terminal as a screen: the other page, no cursor, keys at once; whatever happens it is given back as it was."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Sequence
from types import TracebackType
from typing import Any

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME, END_OF_LINE, REST = "\x1b[H", "\x1b[K", "\x1b[J"


class Screen:
    """Use it as a context manager."""

    def __init__(self) -> None:
        self._in = sys.stdin.fileno() if sys.stdin.isatty() else -1
        self._before: Any = None
        self._signals: dict[int, Any] = {}
        self._typed = ""

    def __enter__(self) -> Screen:
        # A signal must end us by way of __exit__.
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._signals[number] = signal.signal(number, _leave)
        # A window that changes its size ends the wait for a key.
        self._signals[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._resized)
        self._signals[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._suspended)
        self.resized = False
        self._take()
        return self

    def _take(self) -> None:
        if self._in >= 0:
            self._before = termios.tcgetattr(self._in)
            tty.setcbreak(self._in)
        self._write(ENTER)

    def _give_back(self) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone, and then there is nothing to give back
            self._write(LEAVE)
        if self._before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)

    def _suspended(self, number: int, frame: object) -> None:
        """Ctrl-Z: the shell gets its terminal as it was; who comes back by `fg` finds the screen again."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspended)
        self._take()
        self.resized = True

    def __exit__(
        self, kind: type[BaseException] | None, trouble: BaseException | None, where: TracebackType | None
    ) -> bool:
        self._give_back()
        for number, handler in self._signals.items():
            signal.signal(number, handler)
        return kind is KeyboardInterrupt

    def _resized(self, number: int, frame: object) -> None:
        self.resized = True

    def key(self, wait_s: float) -> str:
        """The key that was pressed within this time; empty where none was, or the window has another size."""
        if self._typed:
            return self._next()
        end = time.monotonic() + wait_s
        while (left := end - time.monotonic()) > 0 and not self.resized:
            watched = [self._in] if self._in >= 0 else []
            if select.select(watched, [], [], min(left, 0.1))[0]:
                typed = os.read(self._in, 64).decode("latin-1") or "q"  # the end of the input is one, too
                self._typed = "" if typed.startswith("\x1b") else typed
                return self._next()
        self.resized = False
        return ""

    def _next(self) -> str:
        key, self._typed = self._typed[:1], self._typed[1:]
        return key

    def size(self) -> tuple[int, int]:
        """(columns, lines)."""
        found = os.get_terminal_size(sys.stdout.fileno())
        return max(found.columns, 1), max(found.lines, 1)

    def show(self, lines: Sequence[str]) -> None:
        """All lines in one write, so that nothing flickers; no newline behind the last, which would scroll."""
        self._write(HOME + "\n".join(line + END_OF_LINE for line in lines) + REST)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
