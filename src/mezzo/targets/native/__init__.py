"""Machine code from the IR, through LLVM."""

from mezzo.targets.native.build import build
from mezzo.targets.native.run import Engine, inherit

__all__ = ["Engine", "build", "inherit"]
