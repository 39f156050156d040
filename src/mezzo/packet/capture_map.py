"""A whole capture file as memory, for code that walks it by itself.

    with_bytes = map_capture("trace.pcap.gz")
    with_bytes.data, with_bytes.index

Files of some size are mapped and read as they are walked; small ones are copied, so that a file that is cut meanwhile
does no harm.  Compressed files (gzip, bzip2, xz) and what is no regular file (a pipe, `-` for the standard input) are
read to their end into memory first; but who asks for it (`stream`) gets a plain classic capture out of a pipe as its
header in `data` and the `pipe` with the rest.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import mmap
import os
import stat
import sys
import zlib
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from mezzo.base import Diagnostic, MezzoError
from mezzo.packet.capture_index import CaptureIndex, index_capture
from mezzo.packet.capture_pcap import HEADER_SIZE
from mezzo.packet.capture_pcapng import SECTION_MAGIC
from mezzo.packet.capture_pipe import Pipe, spool

COPIED = 1 << 26  # smaller files are copied unless the caller wants a map
POPULATED = 1 << 28  # smaller maps are filled at once

_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}


@dataclass(frozen=True)
class MappedCapture:
    """`data`: every byte of the file, unpacked; offsets in `index` are into it."""

    name: str
    data: Any
    index: CaptureIndex
    pipe: Pipe | None = None


def map_capture(path: str, use_mmap: bool | None = None, rows: bool = False, stream: bool = False) -> MappedCapture:
    """Opens and describes a capture; None for `use_mmap` decides by size; `rows` asks for the table of packets in any
    case.  MezzoError when it cannot be read."""
    file, name = _open(path), "standard input" if path == "-" else path
    try:
        whole, pipe = _whole(file, name)
        index = _index(whole, name, rows)
        if pipe is not None and not (stream and index.is_classic):
            whole, pipe = spool(name, whole.read(), pipe), None
            index = _index(whole, name, rows)
        return MappedCapture(name, _bytes(whole, use_mmap), index, pipe)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as trouble:
        raise MezzoError(f"cannot read `{name}`: {getattr(trouble, 'strerror', None) or trouble}") from None
    finally:
        if file is not sys.stdin.buffer:
            file.close()


def _open(path: str) -> BinaryIO:
    if path == "-":
        return sys.stdin.buffer
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except (OSError, ValueError) as trouble:
        raise MezzoError(f"cannot read `{path}`: {getattr(trouble, 'strerror', None) or trouble}") from None


def _whole(file: BinaryIO, name: str) -> tuple[BinaryIO, Pipe | None]:
    """The file itself, or a copy in memory of what is compressed; of a pipe, its start and the pipe."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        opener = _opener(file.read(5))
        file.seek(0)
        return (file if opener is None else spool(name, b"", opener(file, "rb"))), None
    pipe = Pipe(file.fileno(), patient=file is sys.stdin.buffer)
    start = pipe.read_start(HEADER_SIZE)
    opener = _opener(start)
    if opener is None and not start.startswith(SECTION_MAGIC):
        return spool(name, start), pipe
    packed = spool(name, start, pipe)
    return (packed if opener is None else spool(name, b"", opener(packed, "rb"))), None


def _opener(start: bytes) -> Any:
    return next((o for magic, o in _OPENERS.items() if start.startswith(magic)), None)


def _index(whole: BinaryIO, name: str, rows: bool) -> CaptureIndex:
    here = f"/proc/self/fd/{whole.fileno()}"
    try:
        return replace(index_capture(here, rows), path=name)
    except MezzoError as trouble:
        raise _renamed(trouble, here, name) from None


def _bytes(file: BinaryIO, use_mmap: bool | None) -> Any:
    size = os.fstat(file.fileno()).st_size
    if not (size >= COPIED if use_mmap is None else use_mmap):
        file.seek(0)
        return file.read()
    flags = mmap.MAP_SHARED | (getattr(mmap, "MAP_POPULATE", 0) if size < POPULATED else 0)
    mapped = mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ)
    mapped.madvise(mmap.MADV_SEQUENTIAL)
    return mapped


def _renamed(trouble: MezzoError, old: str, new: str) -> MezzoError:
    """The same trouble with the name the user knows."""
    return MezzoError(
        *(
            Diagnostic(d.message.replace(old, new), d.span, d.notes, d.hint.replace(old, new), d.severity)
            for d in trouble.diagnostics
        )
    )
