"""Small XDP programs as tables of instructions (RFC 9669, section 3): no compiler is involved.

The bpf(2) system call is `mezzo.base.bpf`; what ports need of it has its name here too.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

from mezzo.base import Diagnostic, MezzoError
from mezzo.base.bpf import (
    ATTACH_XDP,
    HAS_FRAGS,
    LINK_CREATE,
    LINK_XDP,
    MAP_XSK,
    PROG_LOAD,
    PROG_XDP,
    Refused,
    bpf,
    create_link,
    create_map,
    detach_link,
    link_info,
    links,
    load_code,
    map_put,
    name_field,
    open_link,
    program_by_id,
    program_ids,
    program_info,
)

__all__ = [
    "ATTACH_XDP", "DROP_ALL", "HAS_FRAGS", "LINK_CREATE", "LINK_XDP", "MAP_XSK", "PASS_ALL", "PROG_LOAD", "PROG_XDP",
    "Instruction", "bpf", "create_link", "create_map", "detach_link", "link_info", "links", "load_program", "map_put",
    "name_field", "open_link", "program_by_id", "program_ids", "program_info", "redirect_program",
]  # fmt: skip


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
REDIRECT_MAP, ADJUST_META = 51, 54  # the helpers bpf_redirect_map, bpf_xdp_adjust_meta
PASS = 2  # XDP_PASS
DROP = 1  # XDP_DROP
CONTEXT = {"data": 0, "data_end": 4, "queue": 16}  # fields of struct xdp_md


DROP_ALL, PASS_ALL = ([Instruction(MOVE_IMM, dst=0, immediate=verdict), Instruction(EXIT)] for verdict in (DROP, PASS))


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
    try:
        return load_code(code, name, flags, kind, attach)
    except Refused as refusal:
        what = f"the kernel does not load the program `{name}`: {refusal.strerror}"
        raise MezzoError(Diagnostic(what, hint=refusal.log.strip())) from refusal
