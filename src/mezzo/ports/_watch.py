"""News of the interface behind a port: told by the receiving end when it has nothing else to do.

The descriptor of a `_netdev.Watch` wakes the end's task; that looks whether there is news, and only then calls Python.
"""

from mezzo.elements import Element, i64, libc, python, u64
from mezzo.ports import _netdev
from mezzo.ports._libc import address_of

DONT_WAIT, PEEK = 0x40, 0x2
WORDS = {"gone": "is gone; the rest goes on"}


class _Watched(Element):
    """For a receiving end to inherit; its port calls `watch_with`."""

    runtime = True
    watch: i64
    peek_at: u64

    def watch_with(self, watch):
        self.watch, self.peek_at = watch.fileno(), address_of("recv")

    def hear(self):
        """Tells the news, if there is any."""
        if self.watch != 0 and libc(self.peek_at, self.watch, 0, 0, DONT_WAIT | PEEK) >= 0:
            self.tell()

    @python
    def tell(self):
        for line in self.port.news():
            self.say(f"{self.name}: {self.port.device} {WORDS.get(line, line)}")


class Watching:
    """For a port to inherit."""

    watched = None

    def watch_link(self, index, end):
        self.watched = _netdev.Watch(index)
        self.defer("watching the interface", self.watched.close)
        end.watch_with(self.watched)

    def news(self):
        """What happened to the interface since the last call."""
        if self.watched is None or self.state == "gone":
            return []
        said = self.watched.news()
        if self.watched.is_gone:
            self.state = "gone"
        return said
