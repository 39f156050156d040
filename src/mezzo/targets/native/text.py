"""LLVM assembly, written as text: types, memory classes, and the builder of one function.

Text is several times quicker to make than objects of a builder library, and it is what the parser wants anyway.

Memory is split into classes that never overlap (packet metadata, packet bytes, the free list, ring bodies, ...).
Each access carries its class as a TBAA tag; that is what lets LLVM keep a counter in a register across a store
into a packet.

All that the scheduler keeps is one class, and calls that touch nothing else (a wake) carry it too: LLVM then keeps the
ends of a queue in registers through a loop that may wake somebody.
"""

from __future__ import annotations

import re

from mezzo.ir.types import Type

CLASSES = (
    "state", "meta", "data", "control", "free", "ring", "array", "table", "lpm", "desc", "blob", "drops", "tasks",
)  # fmt: skip
TAGS = {name: f", !tbaa !{10 + i}" for i, name in enumerate(CLASSES)}
# The way of a packet: the callee saves no registers.  Most calls on it are the last thing a function does, so nobody
# needs any saved; the few that go on afterwards spill what they hold.  Saving cost 60 of 420 instructions in the IP
# router.
CHAIN = "preserve_nonecc"
# Every loop is bounded and nothing unwinds: callbacks keep their exceptions.  Where a call in a loop could end the run,
# LLVM would store counters before it.
ENDS = "nounwind willreturn"
COLD = ", !prof !1"  # a branch whose second side is the rare one
RARE = ", !prof !4"  # a branch whose first side is
RANGE = ", !range !2"  # an offset in a frame
FRAME = ", !range !3"  # a frame's number

_LLVM = {"bool": "i1", "i64": "i64", "packet": "i32", "void": "void"}


def metadata(frame_size: int, frames: int) -> str:
    """The metadata nodes that the tags name."""
    lines = ['!0 = !{!"mezzo"}', '!1 = !{!"branch_weights", i32 4000, i32 1}']
    lines.append(f"!2 = !{{i32 0, i32 {frame_size + 1}}}")
    lines.append(f"!3 = !{{i32 0, i32 {frames}}}")
    lines.append('!4 = !{!"branch_weights", i32 1, i32 4000}')
    for i, name in enumerate(CLASSES):
        lines += [f'!{40 + i} = !{{!"{name}", !0}}', f"!{10 + i} = !{{!{40 + i}, !{40 + i}, i64 0}}"]
    return "\n".join(lines)


def ll(type: Type) -> str:
    """The LLVM type of a value."""
    return _LLVM.get(type.name) or f"i{type.bits}"


def ll_mem(type: Type) -> str:
    """The LLVM type of a value in state memory."""
    return {1: "i8", 48: "i64"}.get(type.bits) or ll(type)


class Text:
    """The lines of one function in the making.  `op` names a result, `do` has none.

    `only`: the class of all its tagged accesses, whatever they say.
    """

    def __init__(self, head: str, only: str = "") -> None:
        self.head, self.only = head, only
        self.slots: list[str] = []
        self.lines: list[str] = []
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def op(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, hint: str = "b") -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def at(self, label: str) -> None:
        """Starts the block `label`; the block before must have ended."""
        self.lines.append(f"{label}:")

    def slot(self, type: str, initial: str | None = None, name: str | None = None) -> str:
        """A stack variable (a register, after LLVM's mem2reg)."""
        name = name or self.name()
        self.slots.append(f"  {name} = alloca {type}")
        if initial is not None:
            self.slots.append(f"  store {type} {initial}, ptr {name}")
        return name

    def gep(self, base: str, offset: int | str, kind: str = "i64") -> str:
        if offset == 0:
            return base
        return self.op(f"getelementptr inbounds i8, ptr {base}, {kind} {offset}")

    def load(self, type: str, base: str, offset: int = 0, tag: str = "state", extra: str = "") -> str:
        return self.op(f"load {type}, ptr {self.gep(base, offset)}, align 1{TAGS[self.only or tag]}{extra}")

    def store(
        self, type: str, value: str, base: str, offset: int = 0, tag: str = "state", volatile: str = ""
    ) -> None:
        self.do(f"store {volatile}{type} {value}, ptr {self.gep(base, offset)}, align 1{TAGS[self.only or tag]}")

    def widen(self, value: str, source: str, target: str, signed: bool = False) -> str:
        """`value` of integer type `source` as `target`."""
        have, want = int(source[1:]), int(target[1:])
        if have == want:
            return value
        op = "trunc" if have > want else "sext" if signed else "zext"
        return self.op(f"{op} {source} {value} to {target}")

    def bump(self, base: str, offset: int, tag: str = "drops") -> None:
        """Adds one to a u64."""
        old = self.load("i64", base, offset, tag)
        self.store("i64", self.op(f"add i64 {old}, 1"), base, offset, tag)

    def branch(self, cond: str, yes: str, no: str, extra: str = "") -> None:
        self.do(f"br i1 {cond}, label %{yes}, label %{no}{extra}")

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def finish(self) -> str:
        start = [f"{self.head} {ENDS} {{", "entry:", *self.slots, "  br label %body", "body:"]
        return "\n".join([*start, *self.lines, "}", ""])


def fill(template: str, names: dict[str, str]) -> str:
    """`template` with each name in it replaced."""
    pattern = re.compile("|".join(sorted(names, key=len, reverse=True)))
    return pattern.sub(lambda m: names[m[0]], template)
