"""Captures that come through a pipe or a device: perhaps nobody writes, and perhaps there is no end.

* A named pipe is opened without waiting for a writer.  What is silent for PATIENCE_S while the router is set up is
  refused; only the standard input may be silent for ever, for who gave it to us is there.
* What must be held as a whole, because it is compressed or no plain classic capture, may have MOST bytes.
* A plain classic capture is not held: `maybe_read` gives what came since, for a window that moves on.
* Whoever describes a pipe again while it is being read, because a router gets another configuration, is shown the start
  that came by the first time, and takes nothing away from the one that reads.
"""

from __future__ import annotations

import errno
import io
import os
import select
import weakref
from typing import Any, BinaryIO

from mezzo.base import Diagnostic, MezzoError

PATIENCE_S = 10.0
MOST = 1 << 30
CHUNK = 1 << 20
START = 64  # bytes: the header of the file and that of its first record

_open: weakref.WeakSet[Pipe] = weakref.WeakSet()


class Pipe(io.RawIOBase):
    """The reading end, with a descriptor of its own.  As a file it waits for what comes."""

    def __init__(self, descriptor: int, patient: bool = False) -> None:
        self.descriptor = os.dup(descriptor)
        self.patience_ms = None if patient else int(PATIENCE_S * 1000)
        self.poll = select.poll()
        self.poll.register(self.descriptor, select.POLLIN)
        status = os.fstat(descriptor)
        self.identity = status.st_dev, status.st_ino
        self.start: bytes = next((p.start for p in _open if p.identity == self.identity and not p.closed), b"")
        self.shown = self.start  # what is still to be given of it
        _open.add(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self.shown:
            piece, self.shown = self.shown[: len(buffer)], self.shown[len(buffer) :]
            buffer[: len(piece)] = piece
            return len(piece)
        # A named pipe that no writer has opened yet is not readable; one that all writers have left is.
        if not self.poll.poll(self.patience_ms):
            raise OSError(errno.ETIMEDOUT, f"nothing came for {PATIENCE_S:g} s; is anybody writing to it?")
        count = os.readv(self.descriptor, [buffer])
        self._note(bytes(memoryview(buffer)[: min(count, START)]))
        return count

    def maybe_read(self, wait_ms: int = 0) -> bytes | None:
        """What has come, nothing at the end, None when there may be more later."""
        ready = self.poll.poll(wait_ms)
        if not ready and self.patience_ms is None:
            return None  # the standard input is not ours to make non-blocking
        try:
            piece = os.read(self.descriptor, CHUNK)
        except BlockingIOError:
            return None
        self._note(piece)
        return piece

    def _note(self, piece: bytes) -> None:
        if len(self.start) < START:
            self.start += piece[: START - len(self.start)]

    def go_on_from(self, other: Pipe) -> None:
        """Takes the place of one that has read on."""
        self.start, self.shown = other.start, b""

    def read_start(self, count: int) -> bytes:
        """The first `count` bytes; fewer if the end comes before."""
        start = b""
        while len(start) < count and (piece := self.read(count - len(start))):
            start += piece
        return start

    def close(self) -> None:
        if not self.closed:
            os.close(self.descriptor)
        super().close()


def spool(name: str, start: bytes, source: Any = None) -> BinaryIO:
    """A file in memory with `start` and all of `source`, of which there must be an end."""
    copy: BinaryIO = os.fdopen(os.memfd_create("mezzo-capture"), "w+b")
    copy.write(start)
    while source is not None and (piece := source.read(CHUNK)):
        if copy.tell() > MOST:
            copy.close()
            hint = "unpack it or write it to a file, and read that"
            raise MezzoError(Diagnostic(f"`{name}` has more than {MOST >> 20} MiB, which memory is not for", hint=hint))
        copy.write(piece)
    copy.flush()
    copy.seek(0)
    return copy
