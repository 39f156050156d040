"""Addresses of C functions, for `libc(address, …)` in packet code.

`read` and `write` of the C library are points where a thread may be cancelled; as soon as a process has a second thread
that costs them 25 ns of some 400.  `syscall(number, …)` is none, so a driver that makes a call for each packet uses it.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache

# asm/unistd_64.h of x86, powerpc and s390; the others have asm-generic/unistd.h
NUMBERS = {"x86_64": {"read": 0, "write": 1, "writev": 20}}
NUMBERS["s390x"] = NUMBERS["ppc64le"] = {"read": 3, "write": 4, "writev": 146}
GENERIC = {"read": 63, "write": 64, "writev": 66}


@cache
def address_of(name: str) -> int:
    """Where the C library's function is in this process."""
    function = getattr(ctypes.CDLL(None), name)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def call_number(name: str) -> int:
    """The number of a system call on this machine."""
    return NUMBERS.get(platform.machine(), GENERIC)[name]
