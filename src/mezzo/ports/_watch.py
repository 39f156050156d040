"""News of the interface behind a port, for a port to inherit: told as they come, by a thread that does nothing else.

Packet code has no part in it, so no end is bound to the thread that may call Python.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import Any

from mezzo.ports import _netdev
from mezzo.ports.port import Port


class Watching(Port):
    """A port that tells when its interface goes down, comes up, changes, or vanishes."""

    by_name = False  # it is of an interface that somebody else made

    called = ""  # what the interface is called now, where somebody renamed it

    def is_back(self) -> bool:
        return self.by_name and self.state == "gone" and _netdev.maybe_link(self.device) is not None

    def require_there(self) -> None:
        if self.by_name and self.state == "gone":
            _netdev.link(self.device)

    def watch_link(self, index: int, say: Callable[[str], None]) -> None:
        """In the interface's namespace; from now on until the port closes."""
        watch, stop = _netdev.Watch(index), os.eventfd(0, os.EFD_CLOEXEC)
        name = f"watch-{self.device}"
        thread = threading.Thread(target=self._listen, args=(watch, stop, say), name=name, daemon=True)
        thread.start()

        def end() -> None:
            os.eventfd_write(stop, 1)
            thread.join()
            watch.close()
            os.close(stop)

        self.defer("watching the interface", end)

    def _listen(self, watch: _netdev.Watch, stop: int, say: Callable[[str], None]) -> None:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        poll.register(stop, select.POLLIN)
        while all(fd != stop for fd, _ in poll.poll()):
            for line in watch.news():
                say(f"{self.called or self.device} {self.leave() if line == 'gone' else line}")
            if watch.last is not None:
                self.called = watch.last.name if watch.last.name != self.device else ""
            if watch.is_gone:
                poll.unregister(watch)

    def facts(self) -> dict[str, Any]:
        """By the name that people find it by."""
        told = super().facts()
        return told | {"device": self.called, "opened as": self.device} if self.called else told

    def leave(self) -> str:
        """The interface is not in this namespace any more; gives words for that."""
        self.state = "gone"
        return "is gone; the rest goes on"
