"""The bpf(2) system call, as far as XDP needs it: maps, programs, links, and what the kernel knows of them.

Each command takes a `union bpf_attr`, packed here by `struct` in the order of linux/bpf.h; the kernel zero-fills what
is behind the bytes given.  A program is a table of instructions (RFC 9669, section 3): no compiler is involved.
Descriptors are plain numbers; who opens one closes it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from mezzo.base import Diagnostic, MezzoError

_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_LIBC = ctypes.CDLL(None, use_errno=True)

MAP_CREATE, MAP_UPDATE, PROG_LOAD = 0, 2, 5
PROG_NEXT_ID, PROG_BY_ID, INFO_BY_FD = 11, 13, 15
LINK_CREATE, LINK_BY_ID, LINK_NEXT_ID, LINK_DETACH = 28, 30, 31, 34
MAP_XSK = 17
PROG_XDP = 6
ATTACH_XDP = 37
LINK_XDP = 6
HAS_FRAGS = 1 << 5  # BPF_F_XDP_HAS_FRAGS: the program takes packets of several buffers


def bpf(command: int, attributes: bytes | bytearray) -> int:
    """One bpf(2) call; what the kernel writes comes back in a bytearray.  OSError when it refuses."""
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(errno.ENOSYS, f"bpf(2) has no number here for {platform.machine()}")
    held = bytearray(attributes)
    array = (ctypes.c_char * len(held)).from_buffer(held)
    result = int(_LIBC.syscall(number, command, ctypes.byref(array), len(held)))
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


# -- maps


def create_map(kind: int, key_size: int, value_size: int, entries: int, name: str) -> int:
    return bpf(MAP_CREATE, struct.pack("=7I16s", kind, key_size, value_size, entries, 0, 0, 0, name_field(name)))


def map_put(fd: int, key: bytes, value: bytes) -> None:
    held_key, held_value = ctypes.create_string_buffer(key), ctypes.create_string_buffer(value)
    bpf(MAP_UPDATE, struct.pack("=IIQQQ", fd, 0, ctypes.addressof(held_key), ctypes.addressof(held_value), 0))


# -- programs


@dataclass(frozen=True, slots=True)
class Instruction:
    """One eBPF instruction; `wide` is the second half of a 64-bit load."""

    opcode: int
    dst: int = 0
    src: int = 0
    offset: int = 0
    immediate: int = 0

    def pack(self) -> bytes:
        return struct.pack("=BBhi", self.opcode, self.dst | self.src << 4, self.offset, self.immediate)


# Opcodes by RFC 9669: class | size or source | mode or operation.
LOAD_U32, LOAD_U16 = 0x61, 0x69
LOAD_IMM64, MAP_FD = 0x18, 1
MOVE, MOVE_IMM, ADD_IMM = 0xBF, 0xB7, 0x07
JUMP, JUMP_GREATER, JUMP_EQUAL_IMM = 0x05, 0x2D, 0x15
CALL, EXIT = 0x85, 0x95
REDIRECT_MAP = 51  # the helper bpf_redirect_map
PASS = 2  # XDP_PASS
CONTEXT = {"data": 0, "data_end": 4, "queue": 16}  # fields of struct xdp_md


def redirect_program(map_fd: int, ethertypes: tuple[int, ...] = ()) -> list[Instruction]:
    """Gives a packet to the socket of its receive queue, or to the kernel where there is none.

    With `ethertypes` only packets of these go to the socket.  A redirect through a map takes what to do without an
    entry from its flags since Linux 5.3.
    """
    take = [
        Instruction(LOAD_U32, dst=2, src=1, offset=CONTEXT["queue"]),
        Instruction(LOAD_IMM64, dst=1, src=MAP_FD, immediate=map_fd),
        Instruction(0),
        Instruction(MOVE_IMM, dst=3, immediate=PASS),
        Instruction(CALL, immediate=REDIRECT_MAP),
        Instruction(EXIT),
    ]
    return _filter(ethertypes) + take if ethertypes else take


def _filter(ethertypes: tuple[int, ...]) -> list[Instruction]:
    """Leaves with XDP_PASS unless the ethertype at byte 12 is one of these."""
    count = len(ethertypes)
    tests = [
        # The field is loaded as the machine has it, so the constant is swapped where the machine is little-endian.
        Instruction(
            JUMP_EQUAL_IMM,
            dst=5,
            offset=count - place + 1,
            immediate=int.from_bytes(kind.to_bytes(2, "big"), _ORDER),
        )
        for place, kind in enumerate(ethertypes)
    ]
    return [
        Instruction(LOAD_U32, dst=2, src=1, offset=CONTEXT["data"]),
        Instruction(LOAD_U32, dst=3, src=1, offset=CONTEXT["data_end"]),
        Instruction(MOVE, dst=4, src=2),
        Instruction(ADD_IMM, dst=4, immediate=14),
        Instruction(JUMP_GREATER, dst=4, src=3, offset=1 + count),
        Instruction(LOAD_U16, dst=5, src=2, offset=12),
        *tests,
        Instruction(MOVE_IMM, dst=0, immediate=PASS),
        Instruction(EXIT),
    ]


_ORDER: Literal["little", "big"] = "little" if struct.pack("=H", 1) == b"\1\0" else "big"


def load_program(
    instructions: list[Instruction], name: str, flags: int = 0, kind: int = PROG_XDP, attach: int = ATTACH_XDP
) -> int:
    """Loads a program, of XDP unless told otherwise; what the verifier says of it is in the error."""
    code = b"".join(one.pack() for one in instructions)
    held, licence, log = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"any"), None

    def attributes() -> bytes:
        return struct.pack(
            "=IIQQIIQII16sII",
            kind,
            len(instructions),
            ctypes.addressof(held),
            ctypes.addressof(licence),
            1 if log else 0,
            len(log) if log else 0,
            ctypes.addressof(log) if log else 0,
            0,
            flags,
            name_field(name),
            0,
            attach,
        )

    try:
        return bpf(PROG_LOAD, attributes())
    except OSError as refusal:
        if refusal.errno == errno.EPERM:  # no right to load; the verifier says EACCES or EINVAL
            raise
        log = ctypes.create_string_buffer(1 << 16)
        try:
            return bpf(PROG_LOAD, attributes())
        except OSError:
            text = log.value.decode(errors="replace").strip()
            raise MezzoError(
                Diagnostic(f"the kernel does not load the program `{name}`: {refusal.strerror}", hint=text)
            ) from refusal


# -- links


def create_link(program: int, ifindex: int, flags: int) -> int:
    """Attaches an XDP program; it is detached when the last descriptor of the link is closed, also by a kill."""
    return bpf(LINK_CREATE, struct.pack("=4I", program, ifindex, ATTACH_XDP, flags))


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
