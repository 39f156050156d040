"""Whose turn it is, when another graph takes over: tasks that run and timers that are set go to the new scheduler.

Nothing of the old heaps is copied, for tasks have other numbers in the new program.  Who is concerned is found out
beforehand; while nobody runs, a few arrays of each old scheduler are read, and those of each new one are written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mezzo.elements.scheduler import NOWHERE, fill
from mezzo.pipeline import Plan
from mezzo.runtime.threads import schedulers

Pairs = list[tuple[int, int]]  # numbers in the old and in the new program


class Turns:
    """`stay`: instances that have a place in both; `turned`: elements whose tasks look anew, whatever they did."""

    def __init__(self, before: Plan, after: Plan, stay: Iterable[tuple[int, int]], turned: set[str]) -> None:
        self._before, self._after = before, after
        olds, news = before.program.instances, after.program.instances
        stay = list(stay)
        self._tasks: Pairs = [(olds[a].task, news[b].task) for a, b in stay if olds[a].task >= 0 and news[b].task >= 0]
        self._timers: Pairs = [
            (olds[a].timer, news[b].timer) for a, b in stay if olds[a].timer >= 0 and news[b].timer >= 0
        ]
        owners = [after.elements[i] for i in after.program.tasks]
        self._turned = {task for task, element in enumerate(owners) if element.name in turned}
        known = {task for _, task in self._tasks}
        self._begun = [task for task, element in enumerate(owners) if task not in known and element.wants_task]

    def move(self, old: Any, new: Any) -> None:
        """While nobody runs; the new engine has not run yet."""
        was = [{name: cells[name].dump() for name in ("where", "key", "stride")} for cells in schedulers(old)]
        fresh = schedulers(new)
        runnable: list[list[int]] = [[] for _ in fresh]
        strides: list[dict[int, int]] = [{} for _ in fresh]
        timers: list[Pairs] = [[] for _ in fresh]
        for its, task in self._tasks:
            row, at = was[_thread(self._before, its)], _thread(self._after, task)
            strides[at][task] = row["stride"][its]
            if row["where"][its] != NOWHERE or task in self._turned:
                runnable[at].append(task)
        for task in self._begun:
            runnable[_thread(self._after, task)].append(task)
        for its, timer in self._timers:
            row, item = was[_thread_of_timer(self._before, its)], len(self._before.program.tasks) + its
            if row["where"][item] != NOWHERE:
                timers[_thread_of_timer(self._after, timer)].append((timer, row["key"][item]))
        ntasks = len(self._after.program.tasks)
        for cells, *given in zip(fresh, runnable, timers, strides, strict=True):
            fill(cells, ntasks, *given)


def _thread(plan: Plan, task: int) -> int:
    return plan.threading.tasks[task] if plan.threading is not None else 0


def _thread_of_timer(plan: Plan, timer: int) -> int:
    return plan.threading.timers[timer] if plan.threading is not None else 0
