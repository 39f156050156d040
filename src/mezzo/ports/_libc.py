"""Addresses of C functions, for `libc(address, …)` in packet code."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def address_of(name: str) -> int:
    """Where the C library's function is in this process."""
    function = getattr(ctypes.CDLL(None), name)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
