"""Signals of the process that scripts of TYPE SIGNAL ask for.

Signals belong to the process, so there is one desk.  Python runs its handler in the main thread, between any two steps
of Python, so a taker only makes a note (`Router.post`) and works at the router's next quiescent point.  While none of
the takers listens, a signal does what it did before the desk took it over.
"""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any, Protocol

# The kernel hands these two to nobody; the others come from a faulty instruction, which a handler would repeat.
NEVER_GIVEN = frozenset((signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL))


def signal_number(word: str) -> int:
    """`INT`, `SIGINT` or `2`; ValueError where it is none."""
    name = word.upper().removeprefix("SIG")
    try:
        return int(signal.Signals(int(word)) if word.isdigit() else signal.Signals["SIG" + name])
    except (KeyError, ValueError):
        raise ValueError(f"`{word}` is no signal; write a name such as INT, HUP or USR1, or a number") from None


def catchable(number: int) -> int:
    """The number; ValueError where no program can take this signal."""
    if number in NEVER_GIVEN:
        raise ValueError(f"no program can take the signal {signal_name(number)}")
    return number


def signal_name(number: int) -> str:
    return signal.Signals(number).name.removeprefix("SIG")


class _Taker(Protocol):
    """Who asks for signals: may say that it does not listen now, and is told of one otherwise."""

    listening: bool

    def came(self, number: int) -> None: ...


class SignalDesk:
    """Who takes which signal, and what a signal did before."""

    def __init__(self) -> None:
        self.takers: dict[int, list[_Taker]] = {}
        self.under: dict[int, Any] = {}

    def join(self, number: int, taker: _Taker) -> None:
        """From now on `taker` is told of a signal.  ValueError where this thread cannot arrange that."""
        if number not in self.under:
            try:
                self.under[number] = signal.signal(number, self._came)
            except ValueError:
                raise ValueError("signals reach the main thread only: make the router there") from None
        self.takers.setdefault(number, []).append(taker)

    def leave(self, taker: _Taker) -> None:
        """`taker` is told no more; a signal that nobody takes is given back."""
        for number, takers in self.takers.items():
            if taker in takers:
                takers.remove(taker)
            if not takers and number in self.under and not _elsewhere():
                signal.signal(number, _handler(self.under.pop(number)))

    def underlay(self, number: int, handler: Any) -> Any:
        """As `signal.signal`, but a signal that scripts take stays theirs first."""
        if number not in self.under:
            return signal.signal(number, handler)
        before, self.under[number] = self.under[number], handler
        return before

    def _came(self, number: int, frame: FrameType | None) -> None:
        takers = [taker for taker in self.takers.get(number, ()) if taker.listening]
        for taker in takers:
            taker.came(number)
        if not takers:
            self._pass_on(number, frame)

    def declined(self, number: int) -> None:
        """Who was told of a signal did not listen any more when it was its turn."""
        if not any(taker.listening for taker in self.takers.get(number, ())):
            signal.raise_signal(number)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        before = self.under[number]
        if callable(before):
            before(number, frame)
        elif before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            signal.signal(number, self._came)  # the default of some signals is to go on


DESK = SignalDesk()


def _elsewhere() -> bool:
    """Whether this is a thread that may not change signal handlers; the desk then keeps them and passes on."""
    import threading

    return threading.current_thread() is not threading.main_thread()


def _handler(before: Any) -> Any:
    """None stands for a handler that was not Python's, which Python cannot put back."""
    return signal.SIG_DFL if before is None else before


def kill(text: str) -> str:
    """Sends a signal to processes: SIGNAL PROCESS..."""
    words = text.split()
    if len(words) < 2:
        raise ValueError("write kill SIGNAL PROCESS...")
    number = signal_number(words[0])
    if not all(word.isdigit() and int(word) > 0 for word in words[1:]):
        raise ValueError(f"process numbers are 1 or more, not `{' '.join(words[1:])}`")
    for word in words[1:]:
        try:
            os.kill(int(word), number)
        except (OSError, OverflowError) as trouble:
            raise ValueError(f"kill {words[0]} {word}: {getattr(trouble, 'strerror', None) or trouble}") from None
    return ""
