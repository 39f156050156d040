"""Maps and programs of the kernel's level made by whoever has the rights: what a stranger may have, and what not."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import pytest

from mezzo.base import bpf
from mezzo.ports import _bpf, _making, privileged
from mezzo.ports._bpf import Instruction
from mezzo.ports.privileged import Refused

pytestmark = pytest.mark.needs_root
RETURN = [Instruction(_bpf.MOVE_IMM, immediate=1), Instruction(_bpf.EXIT)]
LOOK_UP, PROBE_READ_KERNEL = 1, 113


@pytest.fixture
def asking() -> _making._Asking:
    return _making._Asking("lo")


@pytest.fixture
def array() -> Iterator[int]:
    made = bpf.create_map(bpf.MAP_ARRAY, 4, 64, 1, "words")
    yield made
    os.close(made)


def packed(*code: Instruction) -> bytes:
    return b"".join(one.pack() for one in (*code, *RETURN))


def named(fd: int) -> tuple[Instruction, ...]:
    """Writes a byte of the map's one value."""
    address = (Instruction(_bpf.LOAD_IMM64, dst=1, src=_making.MAP_VALUE, immediate=fd), Instruction(0, immediate=8))
    return (*address, Instruction(0xB7, dst=2, immediate=5), Instruction(0x73, dst=1, src=2))


def test_a_program_names_the_maps_that_come_with_it(asking: _making._Asking, array: int) -> None:
    program = asking.program(packed(*named(array)), "mezzo", 0, b"", ())
    assert bpf.test_run(program, b"", bytes(64)).verdict == 1
    assert bpf.map_get(array, bytes(4), 64) == bytes(8) + b"\5" + bytes(55)
    os.close(program)


class Counting:
    """A maker that counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def map(self, kind: int, key_size: int, value_size: int, entries: int, name: str, flags: int) -> int:
        self.asked.append(f"{name} {kind} {key_size} {value_size} {entries} {flags}")
        return -1

    def program(self, code: bytes, name: str, flags: int, types: bytes, functions: tuple[int, ...]) -> int:
        self.asked.append(f"{name} {len(code)} {flags} {types!r} {functions}")
        return -2


def test_in_a_block_what_is_asked_of_base_goes_to_a_maker() -> None:
    maker = Counting()
    with bpf.made_by(maker):
        assert bpf.create_map(bpf.MAP_HASH, 4, 8, 10, "t") == -1
        assert bpf.load_code(packed(), "x") == -2
    assert maker.asked == ["t 1 4 8 10 0", "x 16 0 b'' ()"]
    os.close(bpf.create_map(bpf.MAP_HASH, 4, 8, 10, "t"))
    assert len(maker.asked) == 2


def test_the_verifiers_words_come_back(asking: _making._Asking) -> None:
    read_nowhere = Instruction(0x61, dst=2, src=3)  # r3 was never written
    with pytest.raises(bpf.Refused) as refusal:
        asking.program(packed(read_nowhere), "mezzo", 0, b"", ())
    assert "R3 !read_ok" in refusal.value.log and refusal.value.errno == 13


# -- what a stranger may not have


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (Instruction(_bpf.CALL, immediate=PROBE_READ_KERNEL), "calls function 113 of the kernel"),
        (Instruction(_bpf.CALL, src=2, immediate=1), "calls function 1 of the kernel"),  # a kernel function by its BTF
        (Instruction(_bpf.LOAD_IMM64, dst=1, src=3, immediate=1), "names something else"),  # a kernel variable
    ],
)
def test_calls_that_no_element_needs_are_refused(asking: _making._Asking, code: Instruction, said: str) -> None:
    rest = (Instruction(0),) if code.opcode == _bpf.LOAD_IMM64 else ()
    with pytest.raises(Refused, match=said):
        asking.program(packed(code, *rest), "mezzo", 0, b"", ())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 12,
        _making.HEAD.pack(7, 0, 0) + bytes(8),
        _making.HEAD.pack(16, 0, 0) + bytes(8),
        _making.HEAD.pack(1 << 21, 0, 0),
        _making.HEAD.pack(8, 1 << 31, 0) + bytes(8),
        _making.HEAD.pack(8, 0, 1 << 31) + bytes(8),
        _making.HEAD.pack(16, 0, 0) + struct.pack("=BBhi", _bpf.LOAD_IMM64, 1, 0, 0) + bytes(8),
        _making.HEAD.pack(16, 0, 0) + struct.pack("=BBhi", _bpf.LOAD_IMM64, 0x11, 0, 99) + bytes(8),
        _making.HEAD.pack(16, 0, 0) + struct.pack("=BBhi", _bpf.LOAD_IMM64, 0x11, 0, -1) + bytes(8),
        _making.HEAD.pack(8, 0, 0) + struct.pack("=BBhi", _bpf.LOAD_IMM64, 0x01, 0, 0),
    ],
)
def test_nonsense_is_refused(content: bytes) -> None:
    file = os.memfd_create("nonsense")
    os.pwrite(file, content, 0)
    try:
        made, facts = privileged.ask({"do": "bpf_program", "device": "lo", "name": "x", "flags": 0}, (file,))
        assert made == [] and facts["refused"] > 0
    except Refused as refusal:
        assert refusal.reason.startswith("lo: a program of the kernel's level: ")
    os.close(file)


def test_a_pipe_is_no_file() -> None:
    out, into = os.pipe()
    with pytest.raises(Refused, match="the code is no file"):
        privileged.ask({"do": "bpf_program", "device": "lo", "name": "x", "flags": 0}, (out,))
    os.close(out)
    os.close(into)


@pytest.mark.parametrize(
    ("kind", "entries", "flags", "said"),
    [
        (29, 1, 0, "no map of kind 29"),
        (bpf.MAP_ARRAY, 1, 1 << 9, "no map of kind 2 with flags 0x200"),
        (bpf.MAP_HASH, 1 << 30, 0, "a map has 256 MB at most"),
    ],
)
def test_maps_that_no_element_needs_are_refused(kind: int, entries: int, flags: int, said: str) -> None:
    request = {"do": "bpf_map", "device": "lo", "kind": kind, "key": 4, "value": 8, "entries": entries, "flags": flags}
    with pytest.raises(Refused, match=said):
        privileged.ask(request)
