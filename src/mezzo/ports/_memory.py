"""Memory of a port that is no frame of the arena: rings, messages, super-packets."""

from __future__ import annotations

import ctypes
import mmap


class Memory:
    """`size` zero bytes with an address; `map` is Python's view.  They are there until `free`."""

    def __init__(self, size: int) -> None:
        self.map = mmap.mmap(-1, size)
        self._pin: ctypes.c_char | None = ctypes.c_char.from_buffer(self.map)
        self.address = ctypes.addressof(self._pin)

    def free(self) -> None:
        self._pin = None
        self.map.close()
