"""Code that was compiled quickly, so that a router could start, is compiled well beside it, and takes its place.

LLVM works in a thread of its own, outside of Python's lock.  Both codes have one layout and the same doors, so other
doors are enough (as in `watched`), between two calls; a call that is under way ends in the code where it began, which
stays loaded.  A process that ends waits for the work, which the next start finds on disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial

from mezzo.targets.native.build import Draft, Linked
from mezzo.targets.native.run import Engine
from mezzo.targets.native.threads import Engines

Later = Callable[[Callable[[], None]], None]
_under_way: set[threading.Event] = set()


def finish(engine: Engine | Engines, later: Later) -> None:
    """Begins it, where something is to be done.  `later` runs a job when no packet code runs."""
    drafts = [(one, one.code.draft) for one in getattr(engine, "engines", [engine]) if one.code.draft is not None]
    if drafts:
        done = threading.Event()
        _under_way.add(done)
        threading.Thread(target=_compile, args=(drafts, later, done), name="mezzo-finish").start()


def _compile(drafts: list[tuple[Engine, Draft]], later: Later, done: threading.Event) -> None:
    try:
        # All that needs LLVM first: who runs packet code must not wait for its lock.
        ready = [(engine, draft, engine.code.link(draft.finished())) for engine, draft in drafts]
        for engine, draft, linked in ready:
            later(partial(_take, engine, draft, linked, later))
    finally:
        _under_way.discard(done)
        done.set()


def _take(engine: Engine, draft: Draft, linked: Linked, later: Later) -> None:
    if engine.code.draft is draft:
        engine.forget_doors(engine.code.take_finished(draft, linked))
    else:
        finish(engine, later)  # there are more doors meanwhile


def _wait() -> None:
    for done in list(_under_way):
        done.wait()


# In the child nobody would give LLVM's lock back.
os.register_at_fork(before=_wait)
