"""A small process that undoes what a router changed when the router is gone, however it went.

The router holds the only writing end of a pipe and writes a line for every change that it is about to make (`hold`)
and for every one that it has undone itself (`drop`).  The kernel closes that end when the router dies, also by kill -9;
then the warden undoes what is left, says what could not be, and ends.  It starts with the first such change, ends with
the last, and has a session of its own: what is sent to the router's group does not reach it.

A supervisor that kills every process of a group at once (systemd's KillMode=control-group, a container's end) takes
the warden too: nothing undoes then, but a container takes its interfaces along.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from mezzo.ports import _undo

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
                env={"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(theirs)

    def tell(self, what: str, change: _undo.Told) -> None:
        os.write(self._pipe, json.dumps({what: change}).encode() + b"\n")

    def close(self) -> None:
        """It ends by itself, and is waited for, so no zombie stays."""
        os.close(self._pipe)
        self.process.wait(PATIENCE_S)


_lock = threading.Lock()
_warden: Warden | None = None
_held = 0


def tell(what: str, change: _undo.Told) -> None:
    """What the ledger says: `hold` or `drop`."""
    global _warden, _held
    with _lock:
        if _warden is None:
            _warden = Warden()
        _warden.tell(what, change)
        _held += 1 if what == "hold" else -1
        if not _held:
            done, _warden = _warden, None
            done.close()


# -- the process


def watch(descriptor: int) -> list[str]:
    """Reads until the router is gone; what could not be undone, as text."""
    left: dict[str, dict[str, Any]] = {}
    with os.fdopen(descriptor, "r", encoding="ascii") as lines:
        for line in lines:
            if not line.endswith("\n"):  # it died while it wrote, so the change was not made yet
                break
            ((what, told),) = json.loads(line).items()
            name = json.dumps(told, sort_keys=True)
            if what == "hold":
                left[name] = told
            else:
                left.pop(name, None)
    return _undo.undo_all(_undo.from_json(told) for told in left.values())


if __name__ == "__main__":
    for trouble in watch(int(sys.argv[1])):
        print(f"mezzo: {trouble}", file=sys.stderr)
