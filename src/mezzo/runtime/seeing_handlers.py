"""What the global handlers of `seeing` say and do; imported when one is asked."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from mezzo.runtime.metrics import Registry, cpu_ns, queue_of
from mezzo.runtime.seeing import look, seen, unlook
from mezzo.runtime.threads import schedulers

if TYPE_CHECKING:
    from mezzo.runtime.router import Router

__all__ = ["active_ports", "cycles", "dump", "look", "metrics", "recorded", "seen", "snapshot", "unlook"]


def metrics(router: Router) -> str:
    return Registry(router).text()


def snapshot(router: Router) -> str:
    """Counters of elements, queues, threads and ports, at one moment."""
    return json.dumps(router.at_rest(lambda: _snapshot(router)))


def _snapshot(router: Router) -> dict[str, Any]:
    return {
        "time_ns": router.engine.epoch_ns + router.now_ns,
        "elements": [_element(router, e) for e in router.elements.values()],
        "wall_ns": time.monotonic_ns(),
        "threads": [_thread(router, k, cells) for k, cells in enumerate(schedulers(router.engine))],
        "ports": [{"name": p.name, "state": p.state, **p.statistics()} for p in router.ports],
        "pool": {"frames": router.arena.frames, "held": router.arena.held},
        "profile": [list(row) for row in _profile(router)],
    }


def _profile(router: Router) -> list[tuple[str, str, float, float]]:
    profile = router.eye.profile if router.eye is not None else None
    return profile.table() if profile is not None else []


def _element(router: Router, element: Any) -> dict[str, Any]:
    specs, reads = element.state_specs, type(element).reads
    counts = {
        name: int(element.cell(name).value)
        for name in reads
        if name in specs and specs[name].kind == "scalar" and specs[name].type.bits <= 64
    }
    queue = queue_of(router, element)
    drops = router.engine.drops(element.index)
    task = router.task_of(element)
    found = {"name": element.name, "class": type(element).__name__, "counts": counts, "drops": drops}
    found |= {"queue": list(queue)} if queue is not None else {}
    return found | ({"runnable": bool(router.engine.call(0, "is_scheduled", task))} if task >= 0 else {})


def _thread(router: Router, number: int, cells: dict[str, Any]) -> dict[str, int]:
    names = ("rounds", "sleeps", "task_count", "timer_count")
    counts = {name: int(cells[name].value) for name in names if name in cells}
    return {"thread": number, **counts, "cpu_ns": cpu_ns(router, number) or 0}


def cycles(router: Router) -> str:
    """Click's form of a profile: a line an element."""
    rows = _profile(router)
    return "name,class,share,ns_per_packet\n" + "".join(f"{n},{c},{part:.6f},{ns:.1f}\n" for n, c, part, ns in rows)


def active_ports(router: Router) -> str:
    """Of each element: how many inputs and outputs it has."""
    return "".join(f"{e.name}\t{e.ninputs}\t{e.noutputs}\n" for e in router.elements.values())


def recorded(router: Router) -> str:
    return _recorder(router).status()


def dump(router: Router, prefix: str) -> None:
    recorder = _recorder(router)
    if not recorder.dump("asked by a handler", prefix.strip()):
        raise ValueError("the recorder's files could not be written")


def _recorder(router: Router) -> Any:
    if router.recorder is None:
        raise ValueError("nothing is recorded: run it with --recorder N")
    return router.recorder
