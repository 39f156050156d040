"""Who else needs a change: routers of other processes that rely on one switch, so that it stays until the last ends.

A process that holds a change has an abstract socket in the interface's namespace whose name tells of it, with the value
from before the first of them.  The kernel takes the name away when the process dies, however it dies, and lists all of
them in /proc/net/unix; so nothing needs a file, a right, or tidying.  Two that end in the same moment may both undo,
which is the same as once.
"""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

LISTED = Path("/proc/thread-self/net/unix")  # of the namespace that the thread is in
NAME = "mezzo-undo"
Words = tuple[str, ...]


def claim(place: Words, old: int, owner: str) -> closing[socket.socket]:
    """Says that this process needs what it found as `old`; in the interface's namespace, until it is closed."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        made.bind("\0" + " ".join((NAME, *place, str(old), owner)))
    except OSError:
        made.close()
        raise
    return closing(made)


def others(place: Words, owner: str) -> list[int]:
    """The values from before, as other processes have them that need the same; none: nobody does."""
    head = "@" + " ".join((NAME, *place)) + " "
    names = (line.split(maxsplit=7)[-1] for line in LISTED.read_text(errors="replace").splitlines())
    found = [name.removeprefix(head).split() for name in names if name.startswith(head)]
    return [int(words[0]) for words in found if len(words) == 2 and words[0].isdigit() and words[1] != owner]
