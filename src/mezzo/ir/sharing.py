"""What threads make of a program: which thread runs which task and timer, and how each instance is shared.

`pipeline.threads` finds it, targets read it.  A program with one thread has none of this.

* plain: one thread touches the instance, or nobody writes;
* spsc: each ring has one thread that pushes and one that pops, all other state has one writer;
* counting: the rest is counters that are only added to;
* guarded: a spin lock is held in its code, and let go around each push, pull, callback and return.
"""

from __future__ import annotations

from dataclasses import dataclass

PLAIN, SPSC, COUNTING, GUARDED = "plain", "spsc", "counting", "guarded"


@dataclass(frozen=True, slots=True)
class Share:
    """How one instance is shared.

    threads: who touches it.  rings: (name, thread that pushes, thread that pops) of those between two threads, -1 for
    none.  added: scalars that several threads add to.  shown: scalars that one writes and another reads.  why: a
    sentence.
    """

    mode: str = PLAIN
    threads: tuple[int, ...] = ()
    rings: tuple[tuple[str, int, int], ...] = ()
    added: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    why: str = ""

    def code(self) -> tuple[object, ...]:
        """All that code depends on."""
        return self.mode, self.threads, self.rings, tuple(sorted(self.added)), tuple(sorted(self.shown))

    def ends(self, ring: str) -> tuple[int, int] | None:
        """(who pushes, who pops) of a ring between two threads."""
        return next(((pushes, pops) for name, pushes, pops in self.rings if name == ring), None)

    @property
    def several(self) -> bool:
        return len(self.threads) > 1


@dataclass(frozen=True, slots=True)
class Threading:
    """Of a program: tasks[t] and timers[t] are the thread of task or timer t; homes[i] is the thread whose code Python
    calls for instance i; polled[k] are the tasks of thread k that other threads can make runnable."""

    count: int
    tasks: tuple[int, ...]
    timers: tuple[int, ...]
    shares: tuple[Share, ...]
    homes: tuple[int, ...]
    polled: tuple[tuple[int, ...], ...]

    def places(self) -> str:
        """All that code depends on, as text: a part of the name of object code on disk."""
        return repr((self.count, self.tasks, self.timers, [s.code() for s in self.shares], self.homes))
