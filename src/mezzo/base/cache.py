"""Files kept between runs: found by the hash of all that decides them, safe under concurrent runs, bounded in size.

A file is the SHA-256 of its content, then the content; one that does not match its hash (torn, damaged) is as good
as absent.  Writes go to a name of their own and are renamed into place.  Reading a file touches it, and the files
touched longest ago go when the directory grows over its bound.  Whatever goes wrong with the disk, the caller makes
the content anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from functools import cache

BOUND = 256 << 20  # bytes
TRIM_AT = "0"  # names are hashes: one save in sixteen looks through the directory
TRIM_EVERY = 500  # but a process that saves thousands only once in so many

_saves_left = 0


def directory() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "mezzo")


@cache
def own_stamp() -> str:
    """Changes whenever a source file of mezzo does: names, sizes and times of all of them."""
    stamp = hashlib.sha256()
    for line in sorted(_sources(os.path.dirname(os.path.dirname(__file__)))):
        stamp.update(line.encode())
    return stamp.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                stat = entry.stat()
                yield f"{entry.path}:{stat.st_size}:{stat.st_mtime_ns}\n"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path)


def load(name: str) -> bytes | None:
    """The content kept under `name`."""
    path = os.path.join(directory(), name)
    try:
        with open(path, "rb") as file:
            raw = file.read()
        with contextlib.suppress(OSError):
            os.utime(path)
    except OSError:
        return None
    content = raw[32:]
    return content if hashlib.sha256(content).digest() == raw[:32] else None


def save(name: str, content: bytes) -> None:
    """Keeps `content`, if the disk lets us."""
    with contextlib.suppress(OSError):
        folder = directory()
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, f"{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            with open(temporary, "xb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, os.path.join(folder, name))
        except OSError:
            os.unlink(temporary)
            raise
        _maybe_trim(name, folder)


def _maybe_trim(name: str, folder: str) -> None:
    global _saves_left
    _saves_left -= 1
    if name[0] in TRIM_AT and _saves_left <= 0:
        _saves_left = TRIM_EVERY
        trim(folder)


def trim(folder: str | os.PathLike[str], bound: int = BOUND) -> None:
    """Removes the files touched longest ago until the rest fits."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                stat = entry.stat()
                files.append((stat.st_mtime_ns, stat.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= bound:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size
