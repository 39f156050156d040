"""What this process may do (capabilities(7)), what a request lacks, and how to grant it.

A process whose user is not root has no capabilities unless the file it was started from carries some, or they were
handed on as ambient ones.  A script carries none, whatever setcap says about its file: `mezzo-open --install` makes
a small program that may.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterable
from pathlib import Path

# include/uapi/linux/capability.h
NUMBERS = {
    "CAP_DAC_READ_SEARCH": 2,
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_IPC_LOCK": 14,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
    "CAP_PERFMON": 38,
    "CAP_BPF": 39,
}
COVERED_BY = {"CAP_BPF": "CAP_SYS_ADMIN", "CAP_PERFMON": "CAP_SYS_ADMIN"}  # what they were before Linux 5.8
PR_SET_NO_NEW_PRIVS = 38


def effective() -> int:
    """The effective capabilities of this thread, a bit each."""
    return _status("CapEff", 16)


def has(name: str) -> bool:
    mask = effective()
    return any(mask >> NUMBERS[n] & 1 for n in (name, COVERED_BY.get(name, name)))


def missing(needs: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in needs if not has(name))


def no_new_privileges() -> bool:
    return bool(_status("NoNewPrivs", 10))


def renounce() -> None:
    """From here on no program that this process starts gains rights by its file (prctl(2) PR_SET_NO_NEW_PRIVS)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def how_to_grant(device: str, names: Collection[str]) -> str:
    """One way that is good for once, and one that stays."""
    pattern = f"'{device.replace('%d', '*')}'" if "%" in device else device  # a name that the kernel completes
    peers = " --peers" if "CAP_SYS_ADMIN" in names else ""
    again = f"mezzo-open --install /usr/local/bin/mezzo-open --devices {pattern}{peers}"
    return (
        f"for once: sudo mezzo run …; for good: sudo {again} makes a helper with "
        f"{','.join(n.lower() for n in names)} that opens {device} for whoever may run it"
    )


def all_there(needs: Iterable[str]) -> str:
    names = " and ".join(needs)
    return (
        f"{names} {'are' if ' ' in names else 'is'} there, so something else forbids it: a container's seccomp filter, "
        "or an interface that belongs to another user namespace"
    )


def _status(name: str, base: int) -> int:
    for line in Path("/proc/thread-self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1], base)
    return 0
