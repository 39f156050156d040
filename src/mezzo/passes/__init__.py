"""Named rewrites of the IR, valid in and valid out.  Each is one file with `run(unit) -> Unit`."""

from __future__ import annotations

from collections.abc import Callable

from mezzo.ir.module import Unit
from mezzo.passes import dead, fold

# In order: folding shows which branches are dead, and what is dead leaves nothing to fold.
PIPELINE: tuple[Callable[[Unit], Unit], ...] = (fold.run, dead.run)

__all__ = ["PIPELINE"]
