"""What the ops of the runtime dialect mean: raw memory and C functions through ctypes, for one thread."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from mezzo.ir.dialect import MOST_BYTES
from mezzo.packet.arena import Arena, Packet

# `use_errno`: ctypes keeps the errno of the call, whatever Python does afterwards.
C_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_ulong] * 6, use_errno=True)
MINUS_ONE = 0xFFFF_FFFF


class Fault(Exception):
    """An access that is not allowed."""


def need(ok: bool) -> None:
    if not ok:
        raise Fault


def mem_load(address: int, size: int) -> int:
    return int.from_bytes(ctypes.string_at(address, size), "little")


def mem_store(address: int, value: int, size: int) -> None:
    ctypes.memmove(address, value.to_bytes(size, "little"), size)


def atomic(op: str, address: int, value: int, size: int) -> int:
    before = mem_load(address, size)
    mem_store(address, (before + value) % (1 << 8 * size) if op == "add" else value, size)
    return before


def mem_copy(to: int, source: int, length: int) -> None:
    need(length <= MOST_BYTES)
    ctypes.memmove(to, source, length)


def mem_zero(to: int, length: int) -> None:
    need(length <= MOST_BYTES)
    ctypes.memset(to, 0, length)


def mem_sum16(address: int, length: int, init: int) -> int:
    need(length <= MOST_BYTES)
    return ones_sum(ctypes.string_at(address, length), init)


def ones_sum(data: bytes, init: int) -> int:
    """RFC 1071: the folded one's complement sum of 16-bit words, the last one padded with zero."""
    data += b"\0" * (len(data) & 1)
    total = init + sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@cache
def _function(address: int) -> Callable[..., int]:
    return C_FUNCTION(address)


def libc(address: int, *words: int) -> int:
    """The result, or -errno.  An `int` of -1 has an upper half that means nothing, so only the lower half is asked."""
    need(address != 0)
    result = _function(address)(*words, *[0] * (6 - len(words)))
    return -ctypes.get_errno() if result & MINUS_ONE == MINUS_ONE else result


def frame_address(arena: Arena, frame: int) -> int:
    need(frame < arena.frames)
    return arena.frame_address(frame)


def adopt(arena: Arena, frame: int, start: int, length: int) -> Packet:
    need(arena.in_ring(frame) and start + length <= arena.frame_size)
    return arena.adopt(frame, start, length)


def give_frame(arena: Arena, frame: int) -> None:
    need(arena.in_ring(frame))
    arena.give_frame(frame)
