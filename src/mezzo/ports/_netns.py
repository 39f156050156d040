"""Network namespaces: be in another one for a moment, and find the one where a veth's peer is.

A namespace is named by a name of `ip netns` (a file in /run/netns), a path, a process (its number), or its inode,
which is the only name that a note about it may keep: a descriptor or a path that is held would keep a deleted
namespace alive, with its interfaces.  So nothing here holds one longer than a block.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mezzo.base import Diagnostic, MezzoError
from mezzo.ports import _netlink as nl

NAMED = Path("/run/netns")
HERE = "/proc/thread-self/ns/net"
CLONE_NEWNET = 0x4000_0000
NETNSA_NSID, NETNSA_FD = 1, 3
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Space:
    """A namespace that this process can enter: by `path`; `name` is how messages call it."""

    inode: int
    path: str
    name: str


@contextmanager
def inside(where: str | int) -> Iterator[None]:
    """This thread is in the namespace `where` (a name, a path, or a process) until the block ends.

    Where it is there already nothing is done: even that would take CAP_SYS_ADMIN.
    """
    path = path_of(where)
    if _is_here(path):
        yield
        return
    back = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter_path(path)
        try:
            yield
        finally:
            _enter(back)
    finally:
        os.close(back)


def _is_here(path: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.stat(HERE))
    except OSError:
        return False


def leave() -> None:
    """This thread is in an empty namespace of its own from now on, so that it keeps nobody else's."""
    if _libc.unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"making a network namespace: {os.strerror(number)}")


def path_of(where: str | int) -> str:
    """The file that stands for a namespace."""
    if isinstance(where, int):
        return f"/proc/{where}/ns/net"
    return where if "/" in where else str(NAMED / where)


def _enter_path(path: str) -> None:
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        known = ", ".join(sorted(s.name for s in spaces())) or "none"
        raise MezzoError(Diagnostic(f"there is no network namespace {path}", hint=f"there are: {known}")) from None
    try:
        _enter(there)
    finally:
        os.close(there)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"entering a network namespace: {os.strerror(number)}")


def inode_here() -> int:
    """The inode of the namespace that this thread is in."""
    return os.stat(HERE).st_ino


def spaces() -> Iterator[Space]:
    """Every namespace that can be reached, once: named ones first, then those of processes."""
    device = os.stat(HERE).st_dev  # files that were left in /run/netns without a namespace have another
    seen: set[int] = set()
    for path, name in _candidates():
        try:
            found = os.stat(path)
        except OSError:  # gone meanwhile, or another user's process
            continue
        if found.st_dev == device and found.st_ino not in seen:
            seen.add(found.st_ino)
            yield Space(found.st_ino, path, name)


def _candidates() -> Iterator[tuple[str, str]]:
    yield HERE, "this one"
    with suppress(OSError):
        yield from ((str(path), path.name) for path in NAMED.iterdir())
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            yield f"/proc/{entry}/ns/net", f"of process {entry}"


def by_inode(inode: int) -> Space | None:
    return next((s for s in spaces() if s.inode == inode), None)


def by_nsid(nsid: int) -> Space | None:
    """The namespace that this one calls `nsid` (the kernel gives such a number to the place of a veth's peer)."""
    with nl.Netlink() as link:
        return next((s for s in spaces() if _nsid(link, s.path) == nsid), None)


def _nsid(link: nl.Netlink, path: str) -> int:
    """What this namespace calls another one; -1 when it has no number for it."""
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        answers = link.ask(nl.RTM_GETNSID, bytes(4), {NETNSA_FD: struct.pack("=I", there)})
        return nl.i32(answers[0].attributes(4)[NETNSA_NSID]) if answers else -1
    except OSError as trouble:
        if trouble.errno in (errno.EINVAL, errno.ENOENT, errno.EPERM):
            return -1
        raise
    finally:
        os.close(there)
