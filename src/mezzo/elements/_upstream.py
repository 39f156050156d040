"""Whether packets may still come from the elements in front of one.

An element is at work while its task is on the run queue or its timer is set, or where it reads what comes from outside.
Asked from a timer, when no packet is under way.
"""

from __future__ import annotations

from typing import Any

from mezzo.elements.scheduler import NOWHERE


def upstream_of(element: Any) -> list[Any]:
    """All elements from which packets can come here, the nearest first."""
    router = element.router
    found, todo = {element.name: element}, [element.name]
    for name in todo:
        for wire in router.graph.inputs_of(name):
            if wire.src not in found:
                found[wire.src] = router.elements[wire.src]
                todo.append(wire.src)
    return list(found.values())[1:]


def runs_by_itself(element: Any) -> bool:
    return element.router.task_of(element) >= 0 or _timer_of(element) >= 0


def is_at_work(element: Any) -> bool:
    router = element.router
    task, timer = router.task_of(element), _timer_of(element)
    if element.watches or (task >= 0 and router.engine.call(0, "is_scheduled", task)):
        return True
    return timer >= 0 and _is_set(router, timer)


def _timer_of(element: Any) -> int:
    return int(element.router.plan.program.instances[element.index].timer)


def _is_set(router: Any, timer: int) -> bool:
    deal = router.plan.threading
    cells = router.engine.cells[0] if deal is None else router.engine.engines[deal.timers[timer]].cells[0]
    return bool(cells["where"][len(router.plan.program.tasks) + timer] != NOWHERE)
