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
import tempfile
from functools import cache
from pathlib import Path

BOUND = 256 << 20  # bytes


def directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "mezzo"


@cache
def own_stamp() -> str:
    """Changes whenever a source file of mezzo does: names, sizes and times of all of them."""
    root = Path(__file__).parents[1]
    stamp = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        stat = path.stat()
        stamp.update(f"{path}:{stat.st_size}:{stat.st_mtime_ns}\n".encode())
    return stamp.hexdigest()


def load(name: str) -> bytes | None:
    """The content kept under `name`."""
    path = directory() / name
    try:
        raw = path.read_bytes()
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
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).digest() + content)
            os.replace(temporary, folder / name)
        except OSError:
            os.unlink(temporary)
            raise
        trim(folder)


def trim(folder: Path, bound: int = BOUND) -> None:
    """Removes the files touched longest ago until the rest fits."""
    files = []
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            stat = path.stat()
            files.append((stat.st_mtime_ns, stat.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= bound:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
