"""The bpf(2) system call: maps, programs and their test runs, links, and what the kernel knows of them.

Each command takes a `union bpf_attr`, packed here by `struct` in the order of linux/bpf.h; the kernel zero-fills what
is behind the bytes given.  Descriptors are plain numbers; who opens one closes it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_LIBC = ctypes.CDLL(None, use_errno=True)

MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, MAP_DELETE, MAP_NEXT_KEY, PROG_LOAD, TEST_RUN = 0, 1, 2, 3, 4, 5, 10
PROG_NEXT_ID, PROG_BY_ID, INFO_BY_FD, BTF_LOAD = 11, 13, 15, 18
MAP_FREEZE, MAP_LOOKUP_BATCH, MAP_UPDATE_BATCH = 22, 24, 26
LINK_CREATE, LINK_UPDATE, LINK_BY_ID, LINK_NEXT_ID, LINK_DETACH = 28, 29, 30, 31, 34
MAP_HASH, MAP_ARRAY, MAP_PROG_ARRAY, MAP_PERCPU_ARRAY, MAP_LRU, MAP_LPM, MAP_DEVMAP, MAP_XSK = 1, 2, 3, 6, 9, 11, 14, 17
ONLY_NEW = 1  # BPF_NOEXIST: a flag of an update
PROG_XDP = 6
ATTACH_XDP = 37
LINK_XDP = 6
NO_PREALLOC, READ_ONLY_PROG, MMAPABLE = 1 << 0, 1 << 7, 1 << 10  # flags of maps
HAS_FRAGS = 1 << 5  # BPF_F_XDP_HAS_FRAGS: the program takes packets of several buffers
BATCH = 4096  # entries that are asked for in one call
LOG_SIZE = 1 << 24  # the verifier's log, where it is asked for: longer ones fail with ENOSPC


class Refused(OSError):
    """The verifier refuses a program; `log` is what it says."""

    def __init__(self, refusal: OSError, log: str) -> None:
        super().__init__(refusal.errno, refusal.strerror)
        self.log = log


def system_call() -> int:
    """The number of bpf(2) on this kind of machine."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"bpf(2) has no number here for {platform.machine()}")
    return number


def bpf(command: int, attributes: bytes | bytearray) -> int:
    """One bpf(2) call; what the kernel writes comes back in a bytearray.  OSError when it refuses."""
    held = bytearray(attributes)
    array = (ctypes.c_char * len(held)).from_buffer(held)
    result = int(_LIBC.syscall(system_call(), command, ctypes.byref(array), len(held)))
    del array
    if isinstance(attributes, bytearray):
        attributes[:] = held
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def name_field(name: str) -> bytes:
    """A name in the kernel's 16 bytes."""
    return name.encode()[:15].ljust(16, b"\0")


def _at(held: ctypes.Array[ctypes.c_char] | None) -> int:
    return 0 if held is None else ctypes.addressof(held)


class Maker(Protocol):
    """Somebody with the rights to make maps and programs, for a process that has not; what he made is ours."""

    def map(self, kind: int, key_size: int, value_size: int, entries: int, name: str, flags: int) -> int: ...

    def program(self, code: bytes, name: str, flags: int, types: bytes, functions: tuple[int, ...]) -> int: ...


_makers: list[Maker] = []


@contextmanager
def made_by(maker: Maker) -> Iterator[None]:
    """In the block maps and XDP programs are made by somebody else."""
    _makers.append(maker)
    try:
        yield
    finally:
        _makers.pop()


# -- maps


def create_map(kind: int, key_size: int, value_size: int, entries: int, name: str, flags: int = 0) -> int:
    if _makers:
        return _makers[-1].map(kind, key_size, value_size, entries, name, flags)
    return bpf(MAP_CREATE, struct.pack("=7I16s", kind, key_size, value_size, entries, flags, 0, 0, name_field(name)))


def _element(command: int, fd: int, key: bytes, value: ctypes.Array[ctypes.c_char] | None, flags: int = 0) -> None:
    held = ctypes.create_string_buffer(key, len(key))
    bpf(command, struct.pack("=IIQQQ", fd, 0, _at(held), _at(value), flags))


def map_put(fd: int, key: bytes, value: bytes) -> None:
    _element(MAP_UPDATE, fd, key, ctypes.create_string_buffer(value, len(value)))


def map_put_new(fd: int, key: bytes, value: bytes) -> bool:
    """False, and nothing done, where the key is there."""
    try:
        _element(MAP_UPDATE, fd, key, ctypes.create_string_buffer(value, len(value)), ONLY_NEW)
    except FileExistsError:
        return False
    return True


def map_get(fd: int, key: bytes, size: int) -> bytes | None:
    """The value of `size` bytes, or None."""
    held = ctypes.create_string_buffer(size)
    try:
        _element(MAP_LOOKUP, fd, key, held)
    except FileNotFoundError:
        return None
    return held.raw


def map_delete(fd: int, key: bytes) -> bool:
    """Whether there was such a key."""
    try:
        _element(MAP_DELETE, fd, key, None)
    except FileNotFoundError:
        return False
    return True


def map_put_many(fd: int, keys: bytes, values: bytes, count: int) -> None:
    """Puts `count` entries that lie one behind the other; in one call where the kernel takes batches of this kind."""
    if not count:
        return
    held, content = ctypes.create_string_buffer(keys, len(keys)), ctypes.create_string_buffer(values, len(values))
    bpf(MAP_UPDATE_BATCH, struct.pack("=QQQQIIQQ", 0, 0, _at(held), _at(content), count, fd, 0, 0))


def map_items(fd: int, key_size: int, value_size: int, entries: int) -> list[tuple[bytes, bytes]]:
    """All (key, value) of a hash of so many entries, in the kernel's order: a few calls, and what comes and goes
    meanwhile is there or not, but nothing is there twice (as with keys one after the other)."""
    place, room = ctypes.create_string_buffer(8), min(entries, BATCH)
    found: list[tuple[bytes, bytes]] = []
    more, first = True, True
    while more:
        keys, values = ctypes.create_string_buffer(room * key_size), ctypes.create_string_buffer(room * value_size)
        head = struct.pack("=QQQQ", 0 if first else _at(place), _at(place), _at(keys), _at(values))
        told = bytearray(head + struct.pack("=IIQQ", room, fd, 0, 0))
        try:
            bpf(MAP_LOOKUP_BATCH, told)
        except OSError as end:
            if end.errno == errno.ENOSPC:  # more in one bucket than there is room for
                room *= 2
                continue
            if end.errno != errno.ENOENT:
                raise
            more = False
        count, first = struct.unpack_from("=I", told, 32)[0], False
        parts = ((content.raw[: count * size], size) for content, size in ((keys, key_size), (values, value_size)))
        found += zip(*([x[at : at + size] for at in range(0, len(x), size)] for x, size in parts), strict=True)
    return found


def freeze_map(fd: int) -> None:
    """Nobody outside programs may write it any more."""
    bpf(MAP_FREEZE, struct.pack("=I", fd))


# -- programs


def load_code(
    code: bytes,
    name: str,
    flags: int = 0,
    kind: int = PROG_XDP,
    attach: int = ATTACH_XDP,
    *,
    types: bytes = b"",
    functions: tuple[int, ...] = (),
) -> int:
    """Loads a program of packed instructions; `Refused` holds what the verifier says of it.

    `functions`: the first instruction of each function, where one is given to the kernel to call; `types` is BTF whose
    types from number 2 on are these functions.
    """
    if _makers and kind == PROG_XDP:
        return _makers[-1].program(code, name, flags, types, functions)
    held, licence = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(b"any")
    rows = b"".join(struct.pack("=II", at, number) for number, at in enumerate(functions, 2))
    records = ctypes.create_string_buffer(rows, len(rows)) if functions else None
    known = load_types(types) if functions else -1

    def load(log: ctypes.Array[ctypes.c_char] | None) -> int:
        where = (int(log is not None), len(log) if log is not None else 0, _at(log), 0)
        head = struct.pack("=IIQQ", kind, len(code) // 8, _at(held), _at(licence))
        head += struct.pack("=IIQII16sII", *where, flags, name_field(name), 0, attach)
        return bpf(PROG_LOAD, head + (struct.pack("=IIQI", known, 8, _at(records), len(rows) // 8) if rows else b""))

    try:
        return _load(load)
    finally:
        if known >= 0:
            os.close(known)


def _load(load: Callable[[ctypes.Array[ctypes.c_char] | None], int]) -> int:
    """Loads; a second time with a log where the verifier refuses."""
    try:
        return load(None)
    except OSError as refusal:
        if refusal.errno == errno.EPERM:  # no right to load; the verifier says EACCES or EINVAL
            raise
    log = ctypes.create_string_buffer(LOG_SIZE)
    try:
        return load(log)
    except OSError as refusal:
        raise Refused(refusal, log.value.decode(errors="replace")) from refusal


def load_types(types: bytes) -> int:
    """Makes types (BTF) known to the kernel."""
    held = ctypes.create_string_buffer(types, len(types))
    return bpf(BTF_LOAD, struct.pack("=QQIIII", _at(held), 0, len(types), 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Tested:
    """What a test run gave: the program's verdict, metadata and packet, and its mean time."""

    verdict: int
    metadata: bytes
    packet: bytes
    duration_ns: int


def test_run(program: int, metadata: bytes, packet: bytes, room: int = 4096, repeat: int = 1) -> Tested:
    """Runs an XDP program on a packet that nobody sent (BPF_PROG_TEST_RUN)."""
    data = ctypes.create_string_buffer(metadata + packet, len(metadata) + len(packet))
    out = ctypes.create_string_buffer(room + 256)
    context = ctypes.create_string_buffer(struct.pack("=6I", len(metadata), len(data), 0, 0, 0, 0), 24)
    back = ctypes.create_string_buffer(24)
    told = bytearray(
        struct.pack("=IIIIQQII", program, 0, len(data), len(out), _at(data), _at(out), repeat, 0)
        + struct.pack("=IIQQIII", 24, 24, _at(context), _at(back), 0, 0, 0)
    )
    bpf(TEST_RUN, told)
    verdict, _, length = struct.unpack_from("=III", told, 4)
    split = struct.unpack_from("=I", back)[0]
    return Tested(verdict, out.raw[:split], out.raw[split:length], struct.unpack_from("=I", told, 36)[0])


# -- links


def create_link(program: int, ifindex: int, flags: int) -> int:
    """Attaches an XDP program; it is detached when the last descriptor of the link is closed, also by a kill."""
    return bpf(LINK_CREATE, struct.pack("=4I", program, ifindex, ATTACH_XDP, flags))


def update_link(fd: int, program: int) -> None:
    """Puts another program in the place of the one that a link attaches, at once: every packet meets one of them."""
    bpf(LINK_UPDATE, struct.pack("=4I", fd, program, 0, 0))


def detach_link(fd: int) -> None:
    bpf(LINK_DETACH, struct.pack("=I", fd))


# -- what there is


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    id: int
    kind: int
    name: str


@dataclass(frozen=True, slots=True)
class LinkInfo:
    id: int
    kind: int
    program: int
    ifindex: int


Info = TypeVar("Info", ProgramInfo, LinkInfo)


def program_info(fd: int) -> ProgramInfo:
    info = _info(fd, 80)
    kind, number = struct.unpack_from("=II", info)
    return ProgramInfo(number, kind, info[64:80].split(b"\0")[0].decode(errors="replace"))


def link_info(fd: int) -> LinkInfo:
    kind, number, program, _, ifindex = struct.unpack_from("=5I", _info(fd, 32))
    return LinkInfo(number, kind, program, ifindex)


def _info(fd: int, size: int) -> bytes:
    held = ctypes.create_string_buffer(size)
    bpf(INFO_BY_FD, struct.pack("=IIQ", fd, size, ctypes.addressof(held)))
    return held.raw


def program_by_id(number: int) -> ProgramInfo | None:
    """What is known of a program; None when it is gone."""
    return _by_id(PROG_BY_ID, number, program_info)


def open_link(number: int) -> int:
    return bpf(LINK_BY_ID, struct.pack("=III", number, 0, 0))


def program_ids() -> Iterator[int]:
    return _ids(PROG_NEXT_ID)


def links() -> Iterator[LinkInfo]:
    """All links of the machine; one that goes away meanwhile is left out."""
    found = (_by_id(LINK_BY_ID, number, link_info) for number in _ids(LINK_NEXT_ID))
    return (one for one in found if one is not None)


def _by_id(command: int, number: int, look: Callable[[int], Info]) -> Info | None:
    try:
        fd = bpf(command, struct.pack("=III", number, 0, 0))
    except FileNotFoundError:
        return None
    try:
        return look(fd)
    finally:
        os.close(fd)


def _ids(command: int) -> Iterator[int]:
    number = 0
    while True:
        held = bytearray(struct.pack("=III", number, 0, 0))
        try:
            bpf(command, held)
        except FileNotFoundError:
            return
        number = struct.unpack_from("=II", held)[1]
        yield number
