"""What a placement says: a row for each element, and the plan for the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from mezzo.base import Span
from mezzo.targets.kernel.plan import KernelPlan

KERNEL, BOTH, NATIVE = "kernel", "kernel+native", "native"


@dataclass(frozen=True, slots=True)
class Row:
    """Where an element is and why; `span`: the line of packet code that decides, `place`: where it is declared."""

    name: str
    cls: str
    level: str
    why: str
    span: Span | None = None
    place: Span | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """A row for each element; `kernel`, None when nothing is there; `order`: what becomes of the order of packets."""

    rows: tuple[Row, ...]
    kernel: KernelPlan | None = None
    order: str = ""

    def __str__(self) -> str:
        counts = [sum(row.level == level for row in self.rows) for level in (KERNEL, BOTH, NATIVE)]
        words = ("in the kernel", "in the kernel for their usual work", "native")
        return ", ".join(f"{n} {word}" for n, word in zip(counts, words, strict=True) if n) or "no elements"
