"""Code that tells where packets are, beside the code of an engine that runs: the same memory, another way in.

An engine calls packet code by doors, and `_doors` is where it remembers them.  Traced code is compiled from the same
program and has the same layout, so it is enough to hang other doors there, and to take them away again.  What runs
untraced is untouched: seeing that is off costs nothing.

Traced code calls the function whose address is in the context's `trace` word at each *sight*: a packet goes into an
element (its input), or has been pulled out of one (its output, with OUT set); and when a push has ended (LEFT).  That
function is made here, too: the *eye*.  Of each viewer it has a byte per instance (does it want sights of this one?),
and does one of three things:

    times   adds a row without bytes, as long as there is room; the ends of pushes, too
    bytes   adds a row with the packet's first bytes; the oldest row is written over
    call    calls a Python function, which waits for the GIL: for few packets

A row is `ROW` bytes, then the packet's: counter of the CPU (u64), instance (u32), port (u32), frame (u32), length
(u32), address of the thread's arena (u64).
"""

from __future__ import annotations

import ctypes
import platform
import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import llvmlite.binding as llvm

from mezzo.packet.arena import META, META_SIZE, Arena
from mezzo.targets.native.build import Code, compile_text
from mezzo.targets.native.layout import LEFT, OUT, RUNTIME
from mezzo.targets.native.run import DOOR, Engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mezzo.targets.native.threads import Engines

ROW = 32
_HEAD = struct.Struct("<QIIIIQ")
TIMES, BYTES, CALL = "times", "bytes", "call"


@dataclass(frozen=True)
class Sight:
    """A row: where a packet was seen, by the counter of the CPU."""

    ticks: int
    instance: int
    port: int
    is_out: bool
    is_left: bool
    frame: int
    length: int
    thread: int
    data: bytes


@dataclass(frozen=True)
class Rows:
    """Rows as they were copied, quickly, while packets rested; they may be read later."""

    memory: bytes
    stride: int
    lost: int = 0

    def __len__(self) -> int:
        return len(self.memory) // self.stride

    def __iter__(self) -> Iterator[Sight]:
        for start in range(0, len(self.memory), self.stride):
            ticks, instance, port, frame, length, thread = _HEAD.unpack_from(self.memory, start)
            data = self.memory[start + ROW : start + min(ROW + length, self.stride)]
            is_out, is_left = bool(port & OUT), bool(port & LEFT)
            yield Sight(ticks, instance, port & ~(OUT | LEFT), is_out, is_left, frame, length, thread, data)


class Lens:
    """What one viewer wants and gets.  `wanted[i]`: sights of instance i; `rows` a power of two."""

    def __init__(self, kind: str, instances: int, rows: int = 0, snap: int = 0, call: int = 0) -> None:
        assert rows & (rows - 1) == 0 and snap % 8 == 0
        self.kind, self.rows, self.snap, self.call = kind, rows, snap if kind == BYTES else 0, call
        self.wanted = (ctypes.c_uint8 * max(instances, 1))()
        self._place = (ctypes.c_uint64 * 8)()
        self.stride = ROW + self.snap
        self._memory = ctypes.create_string_buffer(max(self.stride * rows, 1))
        self._read = 0

    @property
    def count(self) -> int:
        """Rows written since it was made, also those that are gone."""
        return int(self._place[0])

    def clear(self) -> None:
        self._place[0] = self._read = 0

    def take(self) -> Rows:
        """Rows that were not taken yet; no packet code may run meanwhile."""
        end = min(self.count, self.rows) if self.kind == TIMES else self.count
        begin = self._read if self.kind == TIMES else max(self._read, end - self.rows)
        lost, self._read = begin - self._read, end
        return Rows(self._copy(begin, end), self.stride, lost)

    def last(self, most: int) -> Rows:
        """The last rows there are, at most so many."""
        return Rows(self._copy(max(0, self.count - min(self.rows, most)), self.count), self.stride)

    def _copy(self, begin: int, end: int) -> bytes:
        first, count = begin & (self.rows - 1), end - begin
        head = min(count, self.rows - first)
        whole, start = memoryview(self._memory), first * self.stride
        return bytes(whole[start : start + head * self.stride]) + bytes(whole[: (count - head) * self.stride])

    def code(self, number: int, arena: Arena) -> str:
        """What the eye does for this viewer."""
        wanted, place = ctypes.addressof(self.wanted), ctypes.addressof(self._place)
        body = self._call(number) if self.kind == CALL else self._row_code(number, place, arena)
        n = number
        left = "" if self.kind == TIMES else f"  br i1 %left, label %ask{n + 1}, label %is{n}\nis{n}:\n"
        return (
            f"ask{n}:\n{left}  %at{n} = getelementptr i8, ptr inttoptr (i64 {wanted} to ptr), i64 %wide\n"
            f"  %w{n} = load i8, ptr %at{n}\n  %no{n} = icmp eq i8 %w{n}, 0\n"
            f"  br i1 %no{n}, label %ask{n + 1}, label %do{n}\ndo{n}:\n{body}"
        )

    def _call(self, n: int) -> str:
        args = "i32 %i, i32 %port, i32 %p, ptr %c, ptr %a"
        return f"  call void inttoptr (i64 {self.call} to ptr)({args})\n  br label %ask{n + 1}\n"

    def _row_code(self, n: int, place: int, arena: Arena) -> str:
        memory = ctypes.addressof(self._memory)
        text = f"  %n{n} = atomicrmw add ptr inttoptr (i64 {place} to ptr), i64 1 monotonic\n"
        if self.kind == TIMES:
            text += f"  %full{n} = icmp uge i64 %n{n}, {self.rows}\n"
            text += f"  br i1 %full{n}, label %ask{n + 1}, label %row{n}\nrow{n}:\n"
        text += f"{_ticks(f't{n}')}{_packet(n, arena)}"
        text += f"  %slot{n} = and i64 %n{n}, {self.rows - 1}\n  %off{n} = mul i64 %slot{n}, {self.stride}\n"
        text += f"  %to{n} = getelementptr i8, ptr inttoptr (i64 {memory} to ptr), i64 %off{n}\n"
        fields = (f"i64 %t{n}", "i32 %i", "i32 %port", "i32 %p", f"i32 %length{n}", "ptr %a")
        for value, at in zip(fields, (0, 8, 12, 16, 20, 24), strict=True):
            text += f"  %f{n}.{at} = getelementptr i8, ptr %to{n}, i64 {at}\n  store {value}, ptr %f{n}.{at}\n"
        if self.snap:
            text += (
                f"  %cut{n} = call i32 @llvm.umin.i32(i32 %length{n}, i32 {self.snap})\n"
                f"  %body{n} = getelementptr i8, ptr %to{n}, i64 {ROW}\n"
                f"  call void @llvm.memcpy.p0.p0.i32(ptr %body{n}, ptr %bytes{n}, i32 %cut{n}, i1 false)\n"
            )
        return text + f"  br label %ask{n + 1}\n"


def _packet(n: int, arena: Arena) -> str:
    """What finds the packet's %length and %bytes."""
    data, end = META["data"][0], META["end"][0]
    return (
        f"  %frame{n} = zext i32 %p to i64\n  %m{n}.0 = mul i64 %frame{n}, {META_SIZE}\n"
        f"  %m{n}.1 = add i64 %m{n}.0, {arena.meta_offset}\n  %meta{n} = getelementptr i8, ptr %a, i64 %m{n}.1\n"
        f"  %start.at{n} = getelementptr i8, ptr %meta{n}, i64 {data}\n  %start{n} = load i32, ptr %start.at{n}\n"
        f"  %end.at{n} = getelementptr i8, ptr %meta{n}, i64 {end}\n  %end{n} = load i32, ptr %end.at{n}\n"
        f"  %length{n} = sub i32 %end{n}, %start{n}\n  %d{n}.0 = mul i64 %frame{n}, {arena.frame_size}\n"
        f"  %d{n}.1 = add i64 %d{n}.0, {arena.data_offset}\n  %d{n}.2 = zext i32 %start{n} to i64\n"
        f"  %d{n}.3 = add i64 %d{n}.1, %d{n}.2\n  %bytes{n} = getelementptr i8, ptr %a, i64 %d{n}.3\n"
    )


def _ticks(name: str) -> str:
    """What reads the CPU's counter."""
    if platform.machine() == "aarch64":  # the cycle counter is the kernel's there; this one is everybody's
        return f'  %{name} = call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()\n'
    return f"  %{name} = call i64 @llvm.readcyclecounter()\n"


def eye_text(lenses: Sequence[Lens], arena: Arena) -> str:
    """The eye as assembly."""
    head = (
        "define void @eye(i32 %i, i32 %port, i32 %p, ptr %c, ptr %a) {\n  %wide = zext i32 %i to i64\n"
        f"  %bit = and i32 %port, {LEFT}\n  %left = icmp ne i32 %bit, 0\n"
        "  br label %ask0\n"
    )
    body = "".join(lens.code(n, arena) for n, lens in enumerate(lenses))
    return (
        f"{head}{body}ask{len(lenses)}:\n  ret void\n}}\n"
        "define void @spin(i64 %n, ptr %a) {\n  br label %again\nagain:\n"
        "  %k = phi i64 [ 0, %0 ], [ %next, %again ]\n  call void @eye(i32 0, i32 0, i32 0, ptr null, ptr %a)\n"
        "  %next = add i64 %k, 1\n  %more = icmp ult i64 %next, %n\n  br i1 %more, label %again, label %end\n"
        "end:\n  ret void\n}\n"
        "define i64 @ticks() {\n" + _ticks("t") + "  ret i64 %t\n}\n"
        "declare i64 @llvm.readcyclecounter()\ndeclare i32 @llvm.umin.i32(i32, i32)\n"
        "declare void @llvm.memcpy.p0.p0.i32(ptr, ptr, i32, i1)\n"
    )


class Eye:
    """The compiled eye; `ticks()` reads the counter of its rows."""

    def __init__(self, lenses: Sequence[Lens], arena: Arena) -> None:
        self.lenses = lenses  # their memory is in the code
        code = compile_text(eye_text(lenses, arena))
        made = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
        engine = llvm.create_lljit_compiler(made, use_jit_link=True)
        library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for name in ("eye", "ticks", "spin"):
            library.export_symbol(name)
        self._linked = (library.link(engine, "eye"), engine)
        self.address = int(self._linked[0]["eye"])
        self.spin = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)(int(self._linked[0]["spin"]))
        self.ticks = ctypes.CFUNCTYPE(ctypes.c_uint64)(int(self._linked[0]["ticks"]))


def cost_of_a_sight(arena: Arena) -> float:
    """The ticks that a row without bytes takes: what a profile must take off."""
    lens = Lens(TIMES, 1, 1024)
    lens.wanted[0] = 1
    eye = Eye([lens], arena)
    eye.spin(1024, arena.address)
    steps = sorted(b.ticks - a.ticks for a, b in pairwise(lens.take()))
    return float(steps[len(steps) // 2])


class Watched:
    """Traced code of an engine, or of the engines of several threads."""

    def __init__(self, engine: Engine | Engines) -> None:
        self.engine = engine
        self.each: list[Engine] = list(getattr(engine, "engines", [engine]))
        self.codes = [_traced(one.code) for one in self.each]

    def open(self, eye: Eye) -> None:
        """From the next call on, packet code is the traced one; nobody runs now."""
        self.engine.memory.put(RUNTIME["trace"], 8, eye.address)
        for one, code in zip(self.each, self.codes, strict=True):
            one._doors.update({key: DOOR(address) for key, address in _doors(code).items()})

    def shut(self) -> None:
        for one, code in zip(self.each, self.codes, strict=True):
            for key in _doors(code):
                one._doors.pop(key, None)


def _traced(base: Code) -> Code:
    return Code(base.program, base.arena, True, base.cache, base.whole, base.place, base.common)


def _doors(code: Code) -> dict[tuple[Any, ...], int]:
    """What packets go through: the scheduler's `run`, and inputs and outputs that Python uses."""
    found: dict[tuple[Any, ...], int] = {(0, "run"): code.function_door(0, "run")}
    for name in code.doors:
        for role in ("push", "pull"):
            if name.startswith(role) and name[4:].isdigit():
                found[role, int(name[4:])] = code.door(name)
    return found
