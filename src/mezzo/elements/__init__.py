"""The element contract, then the library: one class a file or a small family a file, found by scan.

Element files import what they need from here.  They do not use `from __future__ import annotations`: the state
annotations are values.
"""

from typing import Any

from mezzo.elements.args import (
    REQUIRED,
    U8,
    U16,
    U32,
    U64,
    AnnoOffset,
    Arg,
    Bandwidth,
    Bool,
    Data,
    Duration,
    Env,
    EtherAddress,
    Fixed,
    Int,
    IPAddress,
    IPPrefix,
    Kind,
    Many,
    Named,
    OneOf,
    Raw,
    Rest,
    Text,
    Word,
)
from mezzo.elements.element import (
    LPM,
    Array,
    Blob,
    Buffer,
    ConfigError,
    Element,
    Handler,
    LRUTable,
    Port,
    Ring,
    Slots,
    Table,
    entry,
    python,
    rare,
    read,
    write,
)
from mezzo.ir.types import BOOL as flag
from mezzo.ir.types import I64 as i64
from mezzo.ir.types import KILL
from mezzo.ir.types import U8 as u8
from mezzo.ir.types import U16 as u16
from mezzo.ir.types import U32 as u32
from mezzo.ir.types import U48 as u48
from mezzo.ir.types import U64 as u64
from mezzo.ir.types import U128 as u128
from mezzo.packet.arena import NO_FRAME, Packet


def _packet_only(name: str) -> Any:
    """A function of the packet language; the compiler knows it by `packet_function`."""

    def placeholder(*args: Any) -> Any:
        raise RuntimeError(f"{name}() has a meaning in packet code only")

    placeholder.__dict__["packet_function"] = name
    return placeholder


now, walltime, random, randrange = map(_packet_only, ("now", "walltime", "random", "randrange"))
bounded, checksum_adjust = map(_packet_only, ("bounded", "checksum_adjust"))
# The runtime dialect, for classes with `runtime = True` (docs/design/0002).
mem_u8, mem_u16, mem_u32, mem_u64 = map(_packet_only, ("mem_u8", "mem_u16", "mem_u32", "mem_u64"))
set_mem_u8, set_mem_u16 = map(_packet_only, ("set_mem_u8", "set_mem_u16"))
set_mem_u32, set_mem_u64 = map(_packet_only, ("set_mem_u32", "set_mem_u64"))
load_acquire_u32, load_acquire_u64 = map(_packet_only, ("load_acquire_u32", "load_acquire_u64"))
store_release_u32, store_release_u64 = map(_packet_only, ("store_release_u32", "store_release_u64"))
atomic_add_u64, atomic_swap_u32 = map(_packet_only, ("atomic_add_u64", "atomic_swap_u32"))
mem_copy, mem_zero, mem_sum16 = map(_packet_only, ("mem_copy", "mem_zero", "mem_sum16"))
libc, frame_address = map(_packet_only, ("libc", "frame_address"))
frame_size, prefetch_frame = map(_packet_only, ("frame_size", "prefetch_frame"))

__all__ = [
    "KILL", "LPM", "NO_FRAME", "REQUIRED", "U8", "U16", "U32", "U64", "AnnoOffset", "Arg", "Array", "Bandwidth",
    "Blob", "Bool", "Buffer", "ConfigError", "Data", "Duration", "Element", "Env", "EtherAddress", "Fixed",
    "Handler", "IPAddress", "IPPrefix", "Int", "Kind", "LRUTable", "Many", "Named", "OneOf", "Packet", "Port",
    "Raw", "Rest", "Ring", "Slots", "Table", "Text", "Word", "atomic_add_u64", "atomic_swap_u32", "bounded",
    "checksum_adjust", "entry", "flag", "frame_address", "frame_size", "i64", "libc", "load_acquire_u32",
    "load_acquire_u64", "mem_copy", "mem_sum16", "mem_u8", "mem_u16", "mem_u32", "mem_u64", "mem_zero", "now",
    "prefetch_frame", "python", "random", "randrange", "rare", "read", "set_mem_u8", "set_mem_u16", "set_mem_u32",
    "set_mem_u64", "store_release_u32", "store_release_u64", "u8", "u16", "u32", "u48", "u64", "u128", "walltime",
    "write",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """`from mezzo.elements import Counter`: any class of the library, imported when it is asked for."""
    from mezzo.elements.library import maybe_find

    found = None if name.startswith("_") else maybe_find(name)
    if found is None:
        raise AttributeError(f"mezzo.elements has no `{name}`")
    return found
