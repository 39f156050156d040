"""Machine code from the IR, through LLVM."""

from typing import Any

from mezzo.targets.native.build import build
from mezzo.targets.native.run import Engine, inherit


def moving(new: Any, old: Any) -> Any:
    """See `mover.Moving`."""
    from mezzo.targets.native.mover import Moving  # only a reload needs it

    return Moving(new, old)


__all__ = ["Engine", "build", "inherit", "moving"]
