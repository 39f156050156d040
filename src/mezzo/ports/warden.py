"""A small process that undoes what a router changed when the router is gone, however it went.

The router holds the only writing end of a pipe and writes a line for every change that it is about to make (`hold`)
and for every one that it has undone itself (`drop`).  The kernel closes that end when the router dies, also by kill -9;
then the warden undoes what is left, says what could not be, and ends.  It starts with the first such change (most
routers need none), ends with the router, and has a session of its own: what is sent to the router's group does not
reach it.

A supervisor that kills every process of a group at once (systemd's KillMode=control-group, a container's end) takes
the warden too: nothing undoes then, but a container takes its interfaces along.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from mezzo.ports import _netns, _undo

PATIENCE_S = 10
SOURCE = Path(__file__).parent.parent.parent


class Warden:
    """The router's end: a process, and the pipe to it."""

    def __init__(self) -> None:
        theirs, self._pipe = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs)],
                pass_fds=[theirs],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)

    def tell(self, what: str, change: _undo.Told) -> None:
        os.write(self._pipe, json.dumps({what: change}).encode() + b"\n")

    def let_go(self) -> None:
        os.close(self._pipe)

    def close(self) -> None:
        """It ends by itself, and is waited for, so no zombie stays."""
        self.let_go()
        self.process.wait(PATIENCE_S)


_lock = threading.Lock()
_warden: Warden | None = None
_held: dict[str, _undo.Told] = {}


def tell(what: str, change: _undo.Told) -> None:
    """What the ledger says: `hold` or `drop`.  A warden that somebody killed has a successor."""
    with _lock:
        try:
            _started().tell(what, change)
        except BrokenPipeError:
            _successor().tell(what, change)
        if what == "hold":
            _held[_name(change)] = change
        else:
            _held.pop(_name(change), None)


def _name(change: _undo.Told) -> str:
    return json.dumps(change, sort_keys=True)


def _started() -> Warden:
    global _warden
    if _warden is None:
        _warden = Warden()
    return _warden


def _successor() -> Warden:
    """It learns what its predecessor knew, which undid nothing if it was killed."""
    global _warden
    if _warden is not None:
        _warden.close()
        _warden = None
    for change in _held.values():
        _started().tell("hold", change)
    return _started()


def stop() -> None:
    """At the end of the process, so that the warden's end comes before ours."""
    global _warden
    with _lock:
        if _warden is not None:
            done, _warden = _warden, None
            _undo.ledger().let_go()
            done.close()


def _forked() -> None:
    """A forked child must not hold the pipe open: the changes are its parent's."""
    global _warden, _lock
    _lock = threading.Lock()
    if _warden is not None:
        _warden.let_go()
        _warden = None
    _held.clear()
    _undo.ledger.cache_clear()


atexit.register(stop)
os.register_at_fork(after_in_child=_forked)


# -- the process


def watch(descriptor: int) -> list[str]:
    """Reads until the router is gone; what could not be undone, as text."""
    left: dict[str, dict[str, Any]] = {}
    with os.fdopen(descriptor, "r", encoding="ascii") as lines:
        for line in lines:
            if not line.endswith("\n"):  # it died while it wrote, so the change was not made yet
                break
            ((what, told),) = json.loads(line).items()
            if what == "hold":
                left[_name(told)] = told
            else:
                left.pop(_name(told), None)
    return _undo.undo_all(_undo.from_json(told) for told in left.values())


if __name__ == "__main__":
    with suppress(OSError):
        # The router's namespace may be deleted while it runs; nobody should keep it but those who use it.
        _netns.leave()
    for trouble in watch(int(sys.argv[1])):
        print(f"mezzo: {trouble}", file=sys.stderr)
