"""The kernel target: elements as an XDP program, loaded with the bpf system call (docs/design/0003)."""

from mezzo.targets.kernel.build import build, why_not
from mezzo.targets.kernel.capable import refusals
from mezzo.targets.kernel.part import Part
from mezzo.targets.kernel.refusal import KernelRefusal
from mezzo.targets.kernel.run import Engine

__all__ = ["Engine", "KernelRefusal", "Part", "build", "refusals", "why_not"]
