"""Maps and programs of the kernel's level, made for a router that has not the rights: both sides of it.

A program comes as a file in memory (memfd) with its code, the types of its functions and where these begin, and with
the maps that it names: an instruction that names one holds its number among them.  When the verifier refuses the
program, its log comes back in the file.

    code bytes u32 | types bytes u32 | functions u32 | code | types | functions, u32 each

Whoever has CAP_PERFMON may load programs that read all of the kernel's memory, by certain helpers; so the side that has
it takes only calls of those that elements need, none of which reads more than packets, maps and clocks.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from mezzo.base import bpf
from mezzo.ports import _capabilities, privileged

HEAD = struct.Struct("=III")
MOST_CODE, MOST_FUNCTIONS, MOST_TYPES = 1 << 20, 1000, 1 << 16
MOST_BYTES = 1 << 28  # of a map's keys and values
LOAD_WIDE, CALL = 0x18, 0x85  # opcodes
NUMBER, MAP, MAP_VALUE, FUNCTION = 0, 1, 2, 4  # what a wide load's source says
HELPER, LOCAL = 0, 1  # what a call's source says
RING = 27  # BPF_MAP_TYPE_RINGBUF
KINDS = {
    bpf.MAP_HASH, bpf.MAP_ARRAY, bpf.MAP_PROG_ARRAY, bpf.MAP_LRU, bpf.MAP_LPM, bpf.MAP_DEVMAP, bpf.MAP_XSK, RING,
}  # fmt: skip
FLAGS = bpf.NO_PREALLOC | bpf.READ_ONLY_PROG | bpf.MMAPABLE
# Helpers by number: maps, time, random, tail call, CPU, redirect, sums, head, tail and bytes of the packet, loop, ring.
HELPERS = {1, 2, 3, 5, 7, 8, 12, 23, 28, 44, 51, 54, 65, 125, 130, 131, 132, 133, 134, 181, 188, 189, 190}


# -- with the rights


def make_map(request: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    kind, key, value, entries, flags = (request.get(w, 0) for w in ("kind", "key", "value", "entries", "flags"))
    if kind not in KINDS or flags & ~FLAGS:
        raise OSError(errno.EINVAL, f"no map of kind {kind} with flags {flags:#x} belongs to the kernel's level")
    lasting = 0 if kind == bpf.MAP_LPM and flags & bpf.NO_PREALLOC else entries
    if (key + value) * max(lasting, 1) > MOST_BYTES:
        raise OSError(errno.E2BIG, f"a map has {MOST_BYTES >> 20} MB at most")
    return [bpf.create_map(kind, key, value, entries, request.get("name", ""), flags)], {}


def make_program(request: Mapping[str, Any], given: Sequence[int]) -> tuple[list[int], dict[str, Any]]:
    file, *maps = given
    code, types, functions = read_file(file)
    named = with_maps(code, lambda number: maps[number])
    require_known_calls(named)
    try:
        made = bpf.load_code(named, request.get("name", ""), request.get("flags", 0), types=types, functions=functions)
    except bpf.Refused as refusal:
        os.ftruncate(file, 0)
        os.pwrite(file, refusal.log.encode(), 0)
        return [], {"refused": refusal.errno or errno.EINVAL}
    return [made], {}


def read_file(file: int) -> tuple[bytes, bytes, tuple[int, ...]]:
    """(code, types, functions) of a file that a stranger wrote."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        raise OSError(errno.EINVAL, "the code is no file")
    head = os.pread(file, HEAD.size, 0)
    sizes = HEAD.unpack(head) if len(head) == HEAD.size else (0, 0, 0)
    code, types, count = sizes
    if not 0 < code <= MOST_CODE or code % 8 or types > MOST_TYPES or count > MOST_FUNCTIONS:
        raise OSError(errno.EINVAL, "the code has no sound size")
    whole = os.pread(file, code + types + 4 * count, HEAD.size)
    if len(whole) != code + types + 4 * count:
        raise OSError(errno.EINVAL, "the code is not all there")
    return whole[:code], whole[code : code + types], struct.unpack(f"={count}I", whole[code + types :])


def instructions(code: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(place, opcode, source, immediate) of each; the second half of a wide load is left out."""
    at = 0
    while at < len(code):
        opcode, registers, _, immediate = struct.unpack_from("=BBhi", code, at)
        yield at, opcode, registers >> 4, immediate
        at += 16 if opcode == LOAD_WIDE else 8


def with_maps(code: bytes, name: Any) -> bytes:
    """The code with `name(number)` where it names a map by a number."""
    changed = bytearray(code)
    for at, opcode, source, immediate in instructions(code):
        if opcode == LOAD_WIDE and source in (MAP, MAP_VALUE):
            struct.pack_into("=i", changed, at + 4, name(immediate))
    return bytes(changed)


def require_known_calls(code: bytes) -> None:
    for _, opcode, source, immediate in instructions(code):
        if opcode == CALL and not (source == LOCAL or (source == HELPER and immediate in HELPERS)):
            raise OSError(errno.EPERM, f"the code calls function {immediate} of the kernel, which no element needs")
        if opcode == LOAD_WIDE and source not in (NUMBER, MAP, MAP_VALUE, FUNCTION):
            raise OSError(errno.EPERM, "the code names something else than maps and functions")


# -- without


@contextmanager
def for_device(device: str) -> Iterator[None]:
    """In the block maps and programs are made where the rights are; Refused says which ones nobody has."""
    from mezzo.ports import _opener

    needs = privileged.RIGHTS["bpf_program"].needs
    missing = _capabilities.missing(needs)
    if _opener.helper_for(missing) is not None:
        with bpf.made_by(_Asking(device)):
            yield
        return
    if missing:
        what = f"{device}: the kernel's level needs {' and '.join(missing)}, which this process has not"
        raise privileged.Refused(what, errno.EPERM, missing, _capabilities.how_to_grant(device, missing))
    yield


class _Asking:
    """Asks `privileged` for what `base.bpf` is asked for."""

    def __init__(self, device: str) -> None:
        self.device = device

    def map(self, kind: int, key_size: int, value_size: int, entries: int, name: str, flags: int) -> int:
        sizes = {"kind": kind, "key": key_size, "value": value_size, "entries": entries, "flags": flags}
        return privileged.ask({"do": "bpf_map", "device": self.device, "name": name, **sizes})[0][0]

    def program(self, code: bytes, name: str, flags: int, types: bytes, functions: tuple[int, ...]) -> int:
        maps: dict[int, int] = {}
        numbered = with_maps(code, lambda fd: maps.setdefault(fd, len(maps)))
        file = os.memfd_create("mezzo-program", os.MFD_CLOEXEC)
        try:
            head = HEAD.pack(len(code), len(types), len(functions))
            os.pwrite(file, head + numbered + types + struct.pack(f"={len(functions)}I", *functions), 0)
            request = {"do": "bpf_program", "device": self.device, "name": name, "flags": flags}
            made, facts = privileged.ask(request, (file, *maps))
            if not made:
                trouble = OSError(facts["refused"], os.strerror(facts["refused"]))
                raise bpf.Refused(trouble, os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace"))
            return made[0]
        finally:
            os.close(file)
