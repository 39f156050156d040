"""Reads what LLVM makes for BPF: the code, which instructions name a map, and the place of each in the source.

The object is ELF64, little-endian (gABI chapter 4).  A name of a map is a relocation R_BPF_64_64 (type 1) on a 64-bit
load, whose first immediate holds the addend.  Places are the line records of `.BTF.ext` (linux
Documentation/bpf/btf.rst, 4.2), sorted by offset.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from dataclasses import dataclass

from mezzo.targets.kernel.text import SECTION

ABS64 = 1
FUNCTION_SYMBOL = 2
SYMBOL = struct.Struct("<IBBHQQ")
SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True, slots=True)
class Symbol:
    """`section`: 0 for what the object does not define."""

    name: str
    kind: int
    section: int
    value: int


@dataclass(frozen=True, slots=True)
class Object:
    """`names`: (byte offset of the load, symbol).  `lines`: (instruction, line), sorted.  `calls`: (byte offset of the
    load, byte offset of the function), for addresses of functions.  `functions`: where each begins, and its name."""

    code: bytes
    names: tuple[tuple[int, str], ...]
    calls: tuple[tuple[int, int], ...]
    functions: tuple[tuple[int, str], ...]
    lines: tuple[tuple[int, int], ...]

    def line_of(self, instruction: int) -> int:
        """The line that an instruction belongs to; 0 when unknown."""
        at = bisect_right(self.lines, (instruction, 1 << 32)) - 1
        return self.lines[at][1] if at >= 0 else 0


def read_object(content: bytes) -> Object:
    """The program in an object; ValueError when it is none of LLVM's for BPF."""
    sections = _sections(content)
    if SECTION not in sections or content[18:20] != b"\xf7\x00":  # EM_BPF
        raise ValueError("this is no BPF object with a program of ours")
    code, strings = sections[SECTION], sections[".strtab"]
    symbols = [Symbol(_string(strings, name), info & 15, section, value)
               for name, info, _, section, value, _ in SYMBOL.iter_unpack(sections[".symtab"])]  # fmt: skip
    names, calls = [], []
    for offset, info in struct.iter_unpack("<QQ", sections.get(f".rel{SECTION}", b"")):
        if info & 0xFFFFFFFF != ABS64:
            raise ValueError(f"a relocation of type {info & 0xFFFFFFFF} at {offset}, which names no map")
        symbol = symbols[info >> 32]
        if symbol.section and symbol.section != list(sections).index(SECTION):
            raise ValueError(f"an address of data at {offset}, and there is only code")
        if symbol.section:
            calls.append((offset, symbol.value + int.from_bytes(code[offset + 4 : offset + 8], "little")))
        else:
            names.append((offset, symbol.name))
    functions = sorted((s.value, s.name) for s in symbols if s.kind == FUNCTION_SYMBOL)
    lines = _lines(sections.get(".BTF.ext", b""))
    return Object(code, tuple(names), tuple(calls), tuple(functions), tuple(sorted(lines)))


def _string(table: bytes, at: int) -> str:
    return table[at : table.index(b"\0", at)].decode()


def _sections(content: bytes) -> dict[str, bytes]:
    if content[:6] != b"\x7fELF\x02\x01":
        raise ValueError("this is no little-endian ELF64 object")
    (start,) = struct.unpack_from("<Q", content, 40)
    size, count, names_at = struct.unpack_from("<HHH", content, 58)
    headers = [SECTION_HEADER.unpack_from(content, start + size * i) for i in range(count)]
    name_table = content[headers[names_at][4] :]
    return {_string(name_table, h[0]): content[h[4] : h[4] + h[5]] for h in headers}


def _lines(table: bytes) -> list[tuple[int, int]]:
    if not table:
        return []
    head, _, _, at, length = struct.unpack_from("<5I", table, 4)
    body = table[head + at : head + at + length]
    (size,) = struct.unpack_from("<I", body)
    found, at = [], 4
    while at < len(body):
        _, count = struct.unpack_from("<II", body, at)
        records = (struct.unpack_from("<4I", body, at + 8 + size * i) for i in range(count))
        found += [(offset // 8, place >> 10) for offset, _, _, place in records]
        at += 8 + size * count
    return found
