"""What is at work beside packet threads holds them up as little as can be.

A packet thread comes back to Python now and then, and waits there for the lock of the interpreter: how long is up to
whoever has it.  Threads give it away after Python's switch interval, the collector and other C code when they are done.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SWITCH_S = 0.0005
PATIENCE = 32  # how many times longer packet threads stay away from Python


class Switching:
    """Python's switch interval is short while anybody asks for that, and what it was after that."""

    def __init__(self) -> None:
        self._lock, self._count, self._before = threading.Lock(), 0, 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, SWITCH_S))
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                sys.setswitchinterval(self._before)


switching = Switching()


@contextmanager
def gently(router: Any) -> Iterator[None]:
    """Around work that makes many objects and takes some tenths of a second, such as compiling.  What it has made is
    looked through by the collector at the end, while packet threads stay away from Python yet."""
    was = gc.isenabled()
    switching.begin()
    router.patience = PATIENCE
    gc.disable()
    try:
        yield
    finally:
        gc.collect(1)
        if was:
            gc.enable()
        router.patience = 1
        switching.end()
