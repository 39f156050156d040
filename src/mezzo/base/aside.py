"""Another Python that works for this one.

llvmlite lets one thread at a time into LLVM, so two compilations at once take two processes.  The other is a fresh
Python (no fork: what is open here is none of its business).  It gets all at its start and ends by itself, so nothing
stays when this process is killed.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

SIZE = struct.Struct("=Q")


class Worker:
    """Another Python that makes bytes of each of some texts: by `function` of a module that can be imported here."""

    def __init__(self, module: str, function: str, texts: Sequence[str]) -> None:
        self._texts = texts
        code = f"import sys; sys.path[:] = {sys.path!r}\n"
        code += f"from mezzo.base.aside import serve; from {module} import {function}; serve({function})"
        self._process: subprocess.Popen[bytes] | None = None
        given, self._made = os.memfd_create("mezzo-given"), os.memfd_create("mezzo-made")
        os.pwrite(given, packed([text.encode() for text in texts]), 0)
        words = [sys.executable, "-I", "-S", "-c", code]
        if sys.executable and not getattr(sys, "frozen", False):  # else this program is no Python
            with suppress(OSError):
                silent = subprocess.DEVNULL
                self._process = subprocess.Popen(words, stdin=given, stdout=self._made, stderr=silent)
        os.close(given)

    def results(self) -> dict[str, bytes]:
        """By text, when it has ended; what it could not do is not among them."""
        if self._process is None or self._process.wait() != 0:
            return {}
        content = os.pread(self._made, os.fstat(self._made).st_size, 0)
        return dict(zip(self._texts, unpacked(content), strict=True))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        os.close(self._made)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def packed(pieces: Sequence[bytes]) -> bytes:
    return b"".join(SIZE.pack(len(piece)) + piece for piece in pieces)


def unpacked(content: bytes) -> list[bytes]:
    pieces, at = [], 0
    while at < len(content):
        size = SIZE.unpack_from(content, at)[0]
        pieces.append(content[at + SIZE.size : at + SIZE.size + size])
        at += SIZE.size + size
    return pieces


def serve(function: Callable[[str], bytes]) -> None:
    """The other side."""
    given = sys.stdin.buffer.read()
    made = packed([function(text.decode()) for text in unpacked(given)])
    sys.stdout.buffer.write(made)
    sys.stdout.buffer.flush()
