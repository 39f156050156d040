"""The lines of the LLVM function that a program becomes, each with its place in the Python source.

A place is the number of a statement in a list of spans, written as the line of a debug location.  LLVM carries it
through all passes into `.BTF.ext`, so that an instruction of the finished program leads back to the Python line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mezzo.base import Span

ROLLED = 10  # the debug record of a loop that stays one
RARE = ", !prof !9"  # a branch whose second side is the rare one
PURE = " nounwind willreturn memory(none)"  # of a call that may be left out, or done once for several
HEAD = 'target triple = "bpfel"\n'
SECTION = "xdp"
FUNCTION = "mezzo"
PLAIN = 'nounwind "no-jump-tables"="true"'  # tables would be data of the object, and there is only code
FIRST = 20  # the number of the first debug location
WEIGHTS = 1 << 19  # numbers of the weights of switches, by their ways
STRIDE = 1 << 20  # numbers of debug records that a function has
_SUBPROGRAM = (
    '!{number} = distinct !DISubprogram(name: "{name}", scope: !1, file: !1, line: 1, type: !2, '
    "spFlags: DISPFlagLocalToUnit|DISPFlagDefinition|DISPFlagOptimized, unit: !0)"
)
_FIXED = """
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!4}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, producer: "mezzo", isOptimized: true, runtimeVersion: 0, \
emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "mezzo", directory: "/")
!2 = !DISubroutineType(types: !{})
!3 = distinct !DISubprogram(name: "mezzo", scope: !1, file: !1, line: 1, type: !2, \
spFlags: DISPFlagDefinition|DISPFlagOptimized, unit: !0)
!4 = !{i32 2, !"Debug Info Version", i32 3}
!9 = !{!"branch_weights", i32 4000, i32 1}
!10 = distinct !{!10, !11}
!11 = !{!"llvm.loop.unroll.disable"}
"""


def _weights(ways: int) -> str:
    """A way is twice as likely as the next one; the first number is of what is none of them."""
    likely = ", ".join(f"i32 {1 << max(20 - n, 0)}" for n in range(ways))
    return f'!{WEIGHTS + ways} = !{{!"branch_weights", i32 1{", " * bool(ways)}{likely}}}'


class Text:
    """A function in the making.  `op` names a result, `do` has none.  `careful`: LLVM is kept from joining numbers and
    addresses in ways that the verifier may not follow, which costs instructions."""

    def __init__(self, careful: bool = False) -> None:
        self.careful = careful
        self.slots: list[str] = []
        self.lines: list[str] = []
        self.spans: list[Span | None] = [None]
        self.owner = -1  # the instance that is written
        self.owners = [-1]  # of each place
        self.rounds: list[str] = []  # functions that are the body of a loop
        self.switches: set[int] = set()  # numbers of ways that some switch has
        self.count = 0
        self._here = 0

    @contextmanager
    def place(self, span: Span | None) -> Iterator[None]:
        """Lines written inside belong to this place; without one, to that around."""
        before = self._here
        if span is not None or self.owner != self.owners[before]:
            if (self.spans[-1], self.owners[-1]) != (span, self.owner):
                self.spans.append(span)
                self.owners.append(self.owner)
            self._here = len(self.spans) - 1
        yield
        self._here = before

    def name(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def op(self, text: str) -> str:
        name = self.name()
        self.do(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}, !dbg !{FIRST + self._here}")

    def label(self, hint: str = "b") -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def at(self, label: str) -> None:
        """Starts the block `label`; the block before must have ended."""
        self.lines.append(f"{label}:")

    def slot(self, type: str, initial: str | None = None, align: int = 8) -> str:
        """A stack variable; a register after LLVM's mem2reg, where nobody takes its address."""
        name = self.name()
        self.slots.append(f"  {name} = alloca {type}, align {align}")
        if initial is not None:
            self.slots.append(f"  store {type} {initial}, ptr {name}")
        return name

    def gep(self, base: str, offset: int | str) -> str:
        return base if offset == 0 else self.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, type: str, base: str, offset: int = 0) -> str:
        return self.op(f"load {type}, ptr {self.gep(base, offset)}, align 1")

    def store(self, type: str, value: str, base: str, offset: int = 0) -> None:
        self.do(f"store {type} {value}, ptr {self.gep(base, offset)}, align 1")

    def widen(self, value: str, source: str, target: str, signed: bool = False) -> str:
        """`value` of integer type `source` as `target`."""
        have, want = int(source[1:]), int(target[1:])
        if have == want or (value.isdigit() and have < want and not signed):
            return value
        return self.op(f"{'trunc' if have > want else 'sext' if signed else 'zext'} {source} {value} to {target}")

    def branch(self, cond: str, yes: str, no: str, extra: str = "") -> None:
        self.do(f"br i1 {cond}, label %{yes}, label %{no}{extra}")

    def weights(self, ways: int) -> str:
        """Of a switch: the first ways are the likely ones."""
        self.switches.add(ways)
        return f", !prof !{WEIGHTS + ways}"

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def opaque(self, type: str, value: str, effect: str = "sideeffect ", below: int = 0) -> str:
        """The same value, of which LLVM knows nothing: what is checked on it stays a check on this register, and the
        verifier sees it; LLVM would check one copy and use another.  Without `effect` equal ones may become one.
        `below`: LLVM may know that it is less."""
        if self.careful:
            effect, below = "sideeffect ", 0
        range, pure = f"range({type} 0, {below}) " if below else "", "" if effect else PURE
        return self.op(f'call {range}{type} asm {effect}"", "=r,0"({type} {value}){pure}')

    def apart(self) -> None:
        """Nothing, which no other block has: LLVM would make one of the ends of two, and choose what differs in front
        of it, on both ways."""
        self.do('call void asm sideeffect "", ""()')

    def helper(self, number: int, *args: str, result: str = "i64", extra: str = "") -> str:
        """A call of a function of the kernel, by its number (uapi/linux/bpf.h)."""
        return self.op(f"call {result} inttoptr (i64 {number} to ptr)({', '.join(args)}){extra}")

    def module(self, declares: list[str]) -> str:
        """The whole assembly."""
        head = f'define i32 @{FUNCTION}(ptr %ctx) {PLAIN} section "{SECTION}" !dbg !3 {{'
        start = [head, "entry:", *self.slots, "  br label %body", "body:"]
        where = [_weights(ways) for ways in sorted(self.switches)] + self._locations(3, FIRST)
        for number, _ in enumerate(self.rounds):
            where += [_SUBPROGRAM.format(number=self.subprogram(number), name=f"round{number}")]
            where += self._locations(self.subprogram(number), self.first_location(number))
        return "\n".join([HEAD, *declares, *start, *self.lines, "}", *self.rounds, _FIXED, *where, ""])

    def _locations(self, scope: int, first: int) -> list[str]:
        count = len(self.spans)
        return [f"!{first + i} = !DILocation(line: {i}, column: 1, scope: !{scope})" for i in range(count)]

    @staticmethod
    def subprogram(round: int) -> int:
        """The number of the debug record of a round's function."""
        return (round + 1) * STRIDE

    def first_location(self, round: int) -> int:
        return self.subprogram(round) + FIRST
