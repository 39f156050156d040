"""Control sockets as the system has them.

A UNIX socket is the owner's alone: on Linux the file that bind makes has the mode that the socket had before, so there
is no moment in which others could connect.  A socket's file that nobody listens on any more is replaced; anything else
of that name is left alone.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress

from mezzo.elements.control_address import Address

BACKLOG = 1024
NEXT_TRIES = 10  # further ports that `7777+` tries


def open_socket(address: Address) -> tuple[socket.socket, Address]:
    """(A socket that listens, or with a descriptor perhaps a connection, and where it is); OSError says why not."""
    made, at = {"TCP": _open_tcp, "UNIX": _open_unix, "SOCKET": _take}[address.kind](address)
    made.setblocking(False)
    return made, at


def is_listening(made: socket.socket) -> bool:
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) != 0


def _open_tcp(address: Address) -> tuple[socket.socket, Address]:
    last = min(address.port + NEXT_TRIES * address.further, 65535)
    for port in range(address.port, last + 1):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address.host, port))
            made.listen(BACKLOG)
            return made, Address("TCP", address.host, made.getsockname()[1])
        except OSError as trouble:
            made.close()
            if trouble.errno != errno.EADDRINUSE or port == last:
                raise
    raise AssertionError("the last port either opens or raises")


def _open_unix(address: Address) -> tuple[socket.socket, Address]:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(made.fileno(), 0o600)
        if _is_dead(address.path):
            os.unlink(address.path)
        made.bind(address.path)
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made, address


def _is_dead(path: str) -> bool:
    """Whether there is a socket's file on which nobody listens."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False


def _take(address: Address) -> tuple[socket.socket, Address]:
    if not stat.S_ISSOCK(os.fstat(address.fd).st_mode):
        raise OSError(errno.ENOTSOCK, "it is no socket")
    os.set_inheritable(address.fd, False)
    made = socket.socket(fileno=address.fd)
    if made.type != socket.SOCK_STREAM:
        made.detach()
        raise OSError(errno.EPROTOTYPE, "it is no stream socket")
    return made, address


def file_of(address: Address) -> tuple[int, int] | None:
    """What tells the file of a UNIX socket from another one of the same name."""
    with suppress(OSError):
        found = os.lstat(address.path)
        return found.st_dev, found.st_ino
    return None


def remove_file(address: Address, mine: tuple[int, int] | None) -> None:
    """Takes the name of a UNIX socket away, if it is still ours."""
    if mine is not None and file_of(address) == mine:
        with suppress(OSError):
            os.unlink(address.path)
