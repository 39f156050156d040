"""What a forked child must not keep: descriptors and mappings by which the kernel would go on serving a parent's port.

Programs that a router starts inherit nothing (all is CLOEXEC).  A child by fork alone (multiprocessing) holds every
socket, link and tap as well, so when the router closes or dies its queues stay bound, its XDP program attached, its
device there.  So each port notes its `Belongings`; in a forked child other descriptors, which are never ready, and
empty memory take their place at once, and the arena is copied when it is written to.  The port is the parent's: the
child's copy undoes nothing and sees nothing come.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

MAP_FIXED = 0x10
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mmap.restype = ctypes.c_void_p


class Belongings:
    """Of one port."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self.mappings: list[tuple[int, int]] = []  # address, bytes
        self._maps: list[Callable[[], None]] = []

    def take_map(self, address: int, map: mmap.mmap, close: Callable[[], None]) -> None:
        """A mapping of Python's, which has a descriptor of its own and must be closed by it."""
        self.mappings.append((address, len(map)))
        self._maps.append(close)

    def forget(self) -> None:
        quiet = os.eventfd(0, os.EFD_CLOEXEC)
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.dup2(quiet, descriptor, inheritable=False)
        os.close(quiet)
        for close in self._maps:
            with suppress(BufferError):
                close()
        for address, length in self.mappings:
            map_own(address, length)
        self.descriptors, self.mappings, self._maps = [], [], []


def map_own(address: int, length: int, descriptor: int = -1) -> None:
    """Puts memory of this process alone in the place of shared one: empty, or a file's contents."""
    how = mmap.MAP_PRIVATE | MAP_FIXED | (mmap.MAP_ANONYMOUS if descriptor < 0 else 0)
    _libc.mmap(address, length, mmap.PROT_READ | mmap.PROT_WRITE, how, descriptor, 0)


class _Keeper(Protocol):
    def forget(self) -> None: ...


_keepers: WeakSet[_Keeper] = WeakSet()


def note(keeper: _Keeper) -> None:
    """From now on `keeper.forget()` is called in every forked child, while somebody holds it."""
    _keepers.add(keeper)


def _forked() -> None:
    for keeper in list(_keepers):
        keeper.forget()


os.register_at_fork(after_in_child=_forked)
