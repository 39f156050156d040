"""`mezzo-open` from both sides: requests and answers over a UNIX socket, descriptors beside them.

A connection is a SOCK_SEQPACKET socket, so a message arrives whole and its descriptors (SCM_RIGHTS, unix(7)) with it. A
message is one line of JSON:

    {"do": "packet", "device": "eth0"}           →  {"facts": {…}}  and descriptors
    {"do": "xdp_root", …}  and descriptors       →  the same
    {"undo": [changes]}                          →  {"facts": {"left": [texts]}}
                                                 or {"refused": {"reason": …, "errno": …, "missing": […], "hint": …}}

The helper does nothing but rows of `privileged.RIGHTS`, for devices that its command line names (`--devices`), for
users that it names (SO_PEERCRED).  It is the warden of what it changes: when a connection ends, by close or by the
death of who asked, it undoes what was done for it.

What the list of devices is worth: it keeps mistakes away from other interfaces.  A packet socket can be bound anew to
any interface of its network namespace (packet(7)), so against a router that is malicious only a namespace helps.

Where it comes from, first found: `use(path)` or MEZZO_OPEN=path (a socket that it listens on); a `mezzo-open` on PATH
whose file has capabilities, started once and kept, its connection being its standard input.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from mezzo.base import MezzoError
from mezzo.ports import _fork
from mezzo.ports.privileged import Answer, Refused, Request

LARGEST = 1 << 16
MOST_DESCRIPTORS = 128  # SCM_MAX_FD is 253
SOCKET, PROGRAM = "MEZZO_OPEN", "mezzo-open"
PATIENCE_S = 10
CAPABILITIES = "security.capability"  # the attribute of a file that setcap writes


class Helper:
    """Who asks; one connection."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self._socket, self._process = connection, process

    @classmethod
    def at(cls, path: str) -> Helper:
        """One that listens already."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            made.connect(path)
        except OSError as trouble:
            made.close()
            raise Refused(f"{path}: no helper answers ({trouble.strerror})", trouble.errno or 0) from None
        return cls(made)

    @classmethod
    def start(cls, program: str) -> Helper:
        """One of our own; it ends with this process."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        with theirs:
            process = subprocess.Popen(
                [program], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, start_new_session=True
            )
        return cls(ours, process)

    def ask(self, request: Request, given: Iterable[int] = ()) -> Answer:
        answer, descriptors = self._answer(request, given)
        if answer is None:
            raise Refused(f"{request.get('device', 'mezzo-open')}: the helper went away", errno.EPIPE)
        if "refused" in answer:
            said = answer["refused"]
            raise Refused(said["reason"], said["errno"], said["missing"], said["hint"])
        return descriptors, answer["facts"]

    def _answer(self, request: Request, given: Iterable[int]) -> tuple[dict[str, Any] | None, list[int]]:
        with suppress(OSError):  # it may have hung up, but not without a word
            send(self._socket, request, given)
        for _ in range(2):  # a hang-up with our request unread is told before the word is (ECONNRESET)
            with suppress(OSError):
                return receive(self._socket)
        return None, []

    def let_go(self) -> None:
        self._socket.close()

    def close(self) -> None:
        self.let_go()
        if self._process is not None:
            self._process.wait(PATIENCE_S)


_helper: Helper | None = None
_address = ""


def use(path: str) -> None:
    """From now on requests go to the helper that listens at `path`; "" takes that back."""
    global _address
    stop()
    _address = path


def stop() -> None:
    """Ends the connection; what was done over it is undone."""
    global _helper
    if _helper is not None:
        done, _helper = _helper, None
        done.close()


class _Connection:
    """A forked child is not who the helper waits for: what was done for its parent ends with the parent."""

    def forget(self) -> None:
        global _helper
        if _helper is not None:
            _helper.let_go()
            _helper = None


_connection = _Connection()
_fork.note(_connection)


def helper_for(missing: Iterable[str]) -> Helper | None:
    """The helper, if requests go to one: told to, or because this process lacks capabilities and there is one."""
    global _helper
    if _helper is None:
        path = _address or os.environ.get(SOCKET, "")
        program = "" if path else maybe_program()
        if path:
            _helper = Helper.at(path)
        elif program and tuple(missing):
            _helper = Helper.start(program)
    return _helper


def in_use() -> bool:
    return _helper is not None


def maybe_program() -> str:
    """A `mezzo-open` on PATH that has capabilities; "" when there is none.  The script of the same name has none."""
    for folder in os.get_exec_path():
        found = shutil.which(PROGRAM, path=folder)
        with suppress(OSError):
            if found and os.getxattr(found, CAPABILITIES):
                return found
    return ""


def undo(changes: list[dict[str, Any]]) -> list[str]:
    """Has the helper undo what it did; after its end there is nothing left to undo."""
    if _helper is None:
        return []
    try:
        return list(_helper.ask({"undo": changes})[1]["left"])
    except Refused:
        return []


# -- messages


def send(connection: socket.socket, message: Mapping[str, Any], descriptors: Iterable[int] = ()) -> None:
    socket.send_fds(connection, [json.dumps(dict(message)).encode()], list(descriptors))


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """One message and its descriptors, which are not inherited by programs; None when the other side is gone."""
    data, descriptors, _, _ = socket.recv_fds(connection, LARGEST, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if not data:
        return None, []
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        for descriptor in descriptors:
            os.close(descriptor)
        raise MezzoError("a message that is no line of JSON")
    return message, descriptors
