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
Ways = dict[tuple[int, int], Pairs]  # by the old and the new thread


class Turns:
    """`stay`: instances that have a place in both; `turned`: elements whose tasks look anew, whatever they did."""

    def __init__(self, before: Plan, after: Plan, stay: Iterable[tuple[int, int]], turned: set[str]) -> None:
        olds, news = before.program.instances, after.program.instances
        self._first_timer, self._ntasks = len(before.program.tasks), len(after.program.tasks)
        self._tasks: Ways = {}
        self._timers: Ways = {}
        for a, b in stay:
            if (its := olds[a].task) >= 0 and (task := news[b].task) >= 0:
                way = _thread(before, its), _thread(after, task)
                self._tasks.setdefault(way, []).append((its, task))
            if (its := olds[a].timer) >= 0 and (timer := news[b].timer) >= 0:
                way = _thread_of_timer(before, its), _thread_of_timer(after, timer)
                self._timers.setdefault(way, []).append((its, timer))
        owners = [after.elements[i] for i in after.program.tasks]
        self._turned = {task for task, element in enumerate(owners) if element.name in turned}
        known = {task for pairs in self._tasks.values() for _, task in pairs}
        self._begun = [
            (_thread(after, task), task)
            for task, element in enumerate(owners)
            if task not in known and element.wants_task
        ]

    def move(self, old: Any, new: Any) -> None:
        """While nobody runs; the new engine has not run yet."""
        was = [[cells[name].dump() for name in ("where", "key", "stride")] for cells in schedulers(old)]
        fresh = schedulers(new)
        runnable: list[list[int]] = [[] for _ in fresh]
        strides: list[Pairs] = [[] for _ in fresh]
        timers: list[Pairs] = [[] for _ in fresh]
        for (its, mine), pairs in self._tasks.items():
            where, _, stride = was[its]
            strides[mine] += [(task, stride[t]) for t, task in pairs]
            runnable[mine] += [task for t, task in pairs if where[t] != NOWHERE or task in self._turned]
        for mine, task in self._begun:
            runnable[mine].append(task)
        for (its, mine), pairs in self._timers.items():
            where, key, _ = was[its]
            set_ones = [(self._first_timer + t, timer) for t, timer in pairs]
            timers[mine] += [(timer, key[item]) for item, timer in set_ones if where[item] != NOWHERE]
        for cells, *given in zip(fresh, runnable, timers, strides, strict=True):
            fill(cells, self._ntasks, *given)


def _thread(plan: Plan, task: int) -> int:
    return plan.threading.tasks[task] if plan.threading is not None else 0


def _thread_of_timer(plan: Plan, timer: int) -> int:
    return plan.threading.timers[timer] if plan.threading is not None else 0
