"""Counts the instructions that a program runs for a packet: a small interpreter of BPF (RFC 9669).

Memory is a few pieces at made-up addresses: the context, the packet, the stack, and a copy of each map's value that the
program looks up or addresses.  Helpers are those that the measured programs call; a redirect always succeeds.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from mezzo.base import bpf

CONTEXT, PACKET, STACK, VALUES = 0x1000, 0x10_0000, 0x20_0000, 1 << 32
WORD = (1 << 64) - 1
SIZES = {0x00: 4, 0x08: 2, 0x10: 1, 0x18: 8}
Compare = Callable[[int, int, int], bool]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


COMPARE: dict[int, Compare] = {
    0x00: lambda a, b, n: True, 0x10: lambda a, b, n: a == b, 0x20: lambda a, b, n: a > b,
    0x30: lambda a, b, n: a >= b, 0x40: lambda a, b, n: bool(a & b), 0x50: lambda a, b, n: a != b,
    0x60: lambda a, b, n: signed(a, n) > signed(b, n), 0x70: lambda a, b, n: signed(a, n) >= signed(b, n),
    0xA0: lambda a, b, n: a < b, 0xB0: lambda a, b, n: a <= b,
    0xC0: lambda a, b, n: signed(a, n) < signed(b, n), 0xD0: lambda a, b, n: signed(a, n) <= signed(b, n),
}  # fmt: skip
COMPUTE: dict[int, Callable[[int, int, int], int]] = {
    0x00: lambda a, b, n: a + b, 0x10: lambda a, b, n: a - b, 0x20: lambda a, b, n: a * b,
    0x30: lambda a, b, n: a // b if b else 0, 0x40: lambda a, b, n: a | b, 0x50: lambda a, b, n: a & b,
    0x60: lambda a, b, n: a << (b % n), 0x70: lambda a, b, n: a >> (b % n), 0x80: lambda a, b, n: -a,
    0x90: lambda a, b, n: a % b if b else a, 0xA0: lambda a, b, n: a ^ b, 0xB0: lambda a, b, n: b,
    0xC0: lambda a, b, n: signed(a, n) >> (b % n),
}  # fmt: skip


class Machine:
    """`values`: bytes of a value of each map, by descriptor."""

    def __init__(self, packet: bytes, values: dict[int, int]) -> None:
        head = struct.pack("=6I", PACKET, PACKET + len(packet), PACKET, 1, 0, 0)
        self.memory = {CONTEXT: bytearray(head), PACKET: bytearray(packet), STACK: bytearray(512)}
        self.values, self.known = values, dict[tuple[int, bytes], int]()
        self.registers = [0, CONTEXT, *[0] * 8, STACK + 512]

    def at(self, address: int) -> tuple[bytearray, int]:
        base = max(b for b in self.memory if b <= address)
        return self.memory[base], address - base

    def load(self, address: int, size: int) -> int:
        held, at = self.at(address)
        return int.from_bytes(held[at : at + size], "little")

    def store(self, address: int, size: int, value: int) -> None:
        held, at = self.at(address)
        held[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")

    def value_of(self, fd: int, key: bytes) -> int:
        """The address of a copy of a map's value; 0 where there is none."""
        if (fd, key) not in self.known:
            found = bpf.map_get(fd, key, self.values[fd])
            self.known[fd, key] = VALUES + (len(self.known) << 24) if found is not None else 0
            if found is not None:
                self.memory[self.known[fd, key]] = bytearray(found)
        return self.known[fd, key]

    def call(self, number: int, keys: dict[int, int]) -> int:
        r = self.registers
        if number == 1:
            held, at = self.at(r[2])
            return self.value_of(r[1], bytes(held[at : at + keys[r[1]]]))
        return {5: 1, 8: 0, 51: 4}[number]

    def run(self, code: bytes, keys: dict[int, int]) -> tuple[int, int]:
        """(the verdict, how many instructions it took); `keys`: bytes of a key of each map."""
        r, at, steps = self.registers, 0, 0
        while True:
            op, registers, offset, immediate = struct.unpack_from("<BBhi", code, 8 * at)
            to, source, kind = registers & 15, registers >> 4, op & 7
            at, steps = at + 1, steps + 1
            if op == 0x95:
                return r[0], steps
            if op == 0x85:
                r[0] = self.call(immediate, keys)
            elif op == 0x18:
                (high,) = struct.unpack_from("<i", code, 8 * at + 4)
                number = (immediate & 0xFFFFFFFF | high << 32) & WORD
                r[to] = self.value_of(immediate, bytes(4)) + high if source == 2 else number
                at += 1
            elif kind == 1:
                r[to] = self.load(r[source] + offset, SIZES[op & 0x18])
            elif kind in (2, 3):
                self.store(r[to] + offset, SIZES[op & 0x18], r[source] if kind == 3 else immediate)
            elif kind in (5, 6):
                bits = 64 if kind == 5 else 32
                mask = (1 << bits) - 1
                other = r[source] if op & 8 else immediate
                at += offset if COMPARE[op & 0xF0](r[to] & mask, other & mask, bits) else 0
            else:
                self._compute(op, to, r[source] if op & 8 else immediate, immediate)

    def _compute(self, op: int, to: int, other: int, immediate: int) -> None:
        bits = 64 if op & 7 == 7 else 32
        mask, mine = (1 << bits) - 1, self.registers[to]
        if op & 0xF0 == 0xD0:  # to big-endian
            self.registers[to] = int.from_bytes(
                (mine & ((1 << immediate) - 1)).to_bytes(immediate // 8, "little"), "big"
            )
            return
        self.registers[to] = COMPUTE[op & 0xF0](mine & mask, other & mask, bits) & mask & WORD
