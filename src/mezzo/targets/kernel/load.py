"""From assembly to a loaded program: LLVM, the object, the maps, the kernel.

Which map an instruction means is written into it here: the descriptor of a hash or trie (source 1), of a map whose one
value is addressed directly, with the offset in it (source 2; Linux 5.2); or how far away a function is (source 4).
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import llvmlite

from mezzo.base import MezzoError, Span, bpf, cache
from mezzo.base.aside import Worker
from mezzo.targets.bpf_code import CPU, FEATURES, compile_text
from mezzo.targets.kernel.elf import Object, read_object
from mezzo.targets.kernel.layout import Layout, Map
from mezzo.targets.kernel.refusal import explain

BY_DESCRIPTOR, BY_VALUE, BY_CODE = 1, 2, 4
FUNCTION, PROTOTYPE = 12, 13  # kinds of BTF
NAME = "mezzo_xsk"  # by which ports know a program of ours


def name_of(text: str) -> str:
    """Under which its object is kept."""
    return hashlib.sha256(f"{llvmlite.__version__} {CPU} {FEATURES}\n{text}".encode()).hexdigest() + ".bpf"


class Compiler:
    """Makes objects, or finds them where they were made before: on disk, or in another process (see `begin`)."""

    def __init__(self, use_disk: bool) -> None:
        self.use_disk = use_disk
        self._worker: Worker | None = None
        self._known: dict[str, bytes] = {}

    def begin(self, texts: Sequence[str]) -> None:
        """Has these compiled while this process compiles something else."""
        texts = [text for text in dict.fromkeys(texts) if self._kept(text) is None]
        if texts:
            self._worker = Worker("mezzo.targets.bpf_code", "compile_text", texts)

    def _kept(self, text: str) -> bytes | None:
        if text not in self._known and self.use_disk and (kept := cache.load(name_of(text))) is not None:
            self._known[text] = kept
        return self._known.get(text)

    def object_of(self, text: str) -> Object:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            with worker:
                self._keep(worker.results())
        kept = self._kept(text)
        if kept is None:
            kept = compile_text(text)
            self._keep({text: kept})
        return read_object(kept)

    def _keep(self, made: Mapping[str, bytes]) -> None:
        self._known |= made
        for text, content in made.items() if self.use_disk else ():
            cache.save(name_of(text), content)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


@dataclass
class Maps:
    """The maps of a layout, open; `close` gives them back."""

    layout: Layout
    descriptors: dict[str, int] = field(default_factory=dict)
    users: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def make(layout: Layout, given: Mapping[str, int] | None = None) -> Maps:
        """`given`: maps that there are already."""
        made, given = Maps(layout), given or {}
        try:
            for symbol, one in layout.maps.items():
                made.descriptors[symbol] = os.dup(given[symbol]) if symbol in given else _create(symbol, one)
        except OSError as refusal:
            made.close()
            raise MezzoError(f"the kernel makes no map for `{symbol}`: {refusal.strerror}") from refusal
        return made

    def user(self, symbol: str) -> int:
        """The program by which Python and native code use an entry of a hash that forgets; -1 for none."""
        if symbol not in self.users:
            self.users[symbol] = bpf.user_of(self.descriptors[symbol])
        return self.users[symbol]

    def close(self) -> None:
        for fd in (*self.descriptors.values(), *self.users.values()):
            if fd >= 0:
                os.close(fd)
        self.descriptors.clear()
        self.users.clear()


def _create(symbol: str, one: Map) -> int:
    return bpf.create_map(one.kind, one.key, one.value, one.entries, symbol, one.flags)


def patch(found: Object, maps: Maps) -> bytes:
    """The code with the maps that it names."""
    code = bytearray(found.code)
    for at, symbol in found.names:
        opcode, registers, offset, addend = struct.unpack_from("<BBhi", code, at)
        by_value = maps.layout.maps[symbol].kind == bpf.MAP_ARRAY
        source = BY_VALUE if by_value else BY_DESCRIPTOR
        fd = maps.descriptors[symbol]
        struct.pack_into("<BBhi", code, at, opcode, registers & 15 | source << 4, offset, fd)
        struct.pack_into("<I", code, at + 12, addend if by_value else 0)
    for at, function in found.calls:
        opcode, registers, offset, _ = struct.unpack_from("<BBhi", code, at)
        struct.pack_into("<BBhi", code, at, opcode, registers & 15 | BY_CODE << 4, offset, (function - at) // 8 - 1)
        struct.pack_into("<I", code, at + 12, 0)
    return bytes(code)


def types_of(found: Object) -> bytes:
    """BTF that says of each function that it is one (Documentation/bpf/btf.rst): the kernel calls none without."""
    strings, records = b"\0", struct.pack("=III", 0, PROTOTYPE << 24, 0)
    for at, name in found.functions:
        records += struct.pack("=III", len(strings), FUNCTION << 24 | (at == 0), 1)
        strings += name.encode() + b"\0"
    head = struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(records), len(records), len(strings))
    return head + records + strings


def load(
    text: str,
    spans: Sequence[Span | None],
    maps: Maps,
    compiler: Compiler,
    flags: int = 0,
    owners: Sequence[int] = (),
) -> tuple[int, int]:
    """(the program's descriptor, its instructions); KernelRefusal says at which Python line the kernel refuses it."""
    found = compiler.object_of(text)
    known = tuple(at // 8 for at, _ in found.functions) if found.calls else ()
    try:
        fd = bpf.load_code(patch(found, maps), NAME, flags, types=types_of(found), functions=known)
    except bpf.Refused as refusal:
        raise explain(refusal, found, spans, owners) from refusal
    return fd, len(found.code) // 8
