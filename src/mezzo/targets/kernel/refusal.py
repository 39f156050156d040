"""Says at which Python line the kernel's verifier refuses a program, and why, in words.

The verifier follows every way through a program and ends its log at the instruction that it cannot prove; which Python
statement that came from, LLVM's line records tell.  The whole log is in the error's `log`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mezzo.base import Diagnostic, MezzoError, Note, Span
from mezzo.base.bpf import Refused
from mezzo.targets.kernel.elf import Object

# What the verifier says, and what it means to somebody who writes an element.
WORDS: tuple[tuple[str, str], ...] = (
    (r"prohibited for !root|pointer -= pointer prohibited",
     "without CAP_PERFMON (beside CAP_BPF and CAP_NET_ADMIN) it follows no computed address"),
    (r"invalid access to packet|offset is outside of the packet", "it cannot see that this access stays in the packet"),
    (r"invalid access to map value|outside of the allowed memory range",
     "it cannot see that this access stays in the element's state"),
    (r"pointer arithmetic|math between|pointer comparison prohibited|pointer -= pointer",
     "an address is computed in a way that it does not follow"),
    (r"invalid (?:indirect )?read from stack|invalid indirect access to stack", "bytes on the stack are read unset"),
    (r"invalid mem access '(?:scalar|inv)'", "an address is used that is none any more: the packet moved in memory"),
    (r"invalid mem access '\w+_or_null'", "what a look-up found is used before it is tested"),
    (r"!read_ok", "a value is used that nothing on this way has set"),
    (r"infinite loop|back-edge", "it cannot see that a loop ends"),
    (r"BPF program is too large|too many states|sequence of \d+ jumps is too complex",
     "there are more ways through the program than it follows"),
    (r"combined stack size|stack limit|stack depth|invalid write to stack|invalid stack",
     "the element's variables need more than 512 bytes of stack"),
    (r"misaligned (?:stack )?access", "an access on the stack is not aligned"),
    (r"unknown func|invalid func|program of this type cannot use helper",
     "this kernel does not offer a function that is needed; it is too old"),
    (r"unreachable insn", "a part of the program cannot be reached"),
    (r"jump out of range|invalid BPF_LD_IMM", "the instructions are not well formed: a mistake of mezzo's"),
)  # fmt: skip
TOO_MUCH = r"too large|too many|sequence of \d+ jumps|stack (?:size|limit|depth)|jump out of range|write to stack"
_AT = re.compile(r"^(\d+): \(", re.M)
_STATISTICS = re.compile(r"(processed|verification time|stack depth|Global function) |\d+: |;|from \d+")
LAST_LINES = 3


class KernelRefusal(MezzoError):
    """The kernel refuses a program; `log` is all that its verifier said.  `is_size`: less of it might be taken.
    `instance`: where it is, -1 when that is not known."""

    def __init__(self, diagnostic: Diagnostic, log: str, is_size: bool = False, instance: int = -1) -> None:
        super().__init__(diagnostic)
        self.log, self.is_size, self.instance = log, is_size, instance


def explain(refusal: Refused, found: Object, spans: Sequence[Span | None], owners: Sequence[int] = ()) -> KernelRefusal:
    """The error with its place and reason; `owners`: the instance of each place."""
    log = refusal.log
    said = last_words(log)
    reason = next((words for pattern, words in WORDS if re.search(pattern, said)), "")
    what = f"the kernel refuses this: {reason}" if reason else f"the kernel refuses the program: {refusal.strerror}"
    line = _line(log, found)
    span = spans[line] if line < len(spans) else None
    notes = tuple(Note(f"the verifier: {line}") for line in said.splitlines())
    hint = "keep the element out of the kernel, or show the whole log with --log"
    instance = owners[line] if line < len(owners) else -1
    return KernelRefusal(Diagnostic(what, span, notes, hint), log, bool(re.search(TOO_MUCH, said)), instance)


def last_words(log: str) -> str:
    """What the verifier said last, without its statistics and the state of registers."""
    lines = [x.strip() for x in log.splitlines()]
    said = [x for x in lines if x and not _STATISTICS.match(x)]
    return "\n".join(said[-LAST_LINES:])


def _line(log: str, found: Object) -> int:
    """The number of the place of the last instruction that the verifier looked at."""
    numbers = _AT.findall(log)
    return found.line_of(int(numbers[-1])) if numbers else 0
