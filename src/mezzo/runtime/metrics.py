"""What a running router measures, as families of samples, and their text: OpenMetrics, or Prometheus' older form.

All is read at one quiescent point a scrape, so the samples of one agree with each other.  A read handler that is one
word of state is a sample: one of 64 bits without sign counts (`mezzo_element_events_total`), another is a state
(`mezzo_element_state`).  `Registry.collectors` may be added to.

Rules of the text (OpenMetrics 1.0): a family is described once, and its samples follow at once; a counter's sample ends
in `_total`; a name ends in its unit; backslash, quote and newline are escaped in label values; `# EOF` is last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mezzo import __version__
from mezzo.ir.types import U64
from mezzo.runtime.threads import schedulers

if TYPE_CHECKING:
    from mezzo.runtime.router import Router

Labels = dict[str, str]
CPUCLOCK_THREAD = 4 | 2  # of one thread, what the scheduler counts
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
OLD = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Family:
    """Samples of one name; `kind` is counter, gauge or info; a unit is the end of the name."""

    name: str
    kind: str
    help: str
    unit: str = ""
    samples: list[tuple[Labels, float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> None:
        self.samples.append((labels, value))


Collector = Callable[["Router"], Iterable[Family]]


class Registry:
    """Who gives families; `text` asks all of them."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.collectors: list[Collector] = [_build, _elements, _queues, _tasks, _threads, _ports, _pool, _share]

    def families(self) -> list[Family]:
        """All that have samples, read at one quiescent point."""
        begun = time.perf_counter()
        found: list[Family] = self.router.at_rest(lambda: [f for c in self.collectors for f in c(self.router)])
        took = Family("mezzo_scrape_duration_seconds", "gauge", "How long reading all this took", "seconds")
        took.add(time.perf_counter() - begun)
        return [family for family in [*found, took] if family.samples]

    def text(self, is_open: bool = True) -> str:
        return exposition(self.families(), is_open)


def exposition(families: Iterable[Family], is_open: bool = True) -> str:
    lines = [line for family in families for line in _lines(family, is_open)]
    return "\n".join([*lines, *(["# EOF"] if is_open else [])]) + "\n"


def _lines(family: Family, is_open: bool) -> Iterator[str]:
    end = {"counter": "_total", "info": "_info"}.get(family.kind, "")
    # The older form knows no info, and describes samples by the name that they have.
    name = family.name if is_open else family.name + end
    yield f"# TYPE {name} {family.kind if is_open or family.kind != 'info' else 'gauge'}"
    if family.unit and is_open:
        yield f"# UNIT {name} {family.unit}"
    yield f"# HELP {name} {_escaped(family.help, is_open)}"
    for labels, value in family.samples:
        inside = ",".join(f'{key}="{_escaped(text, True)}"' for key, text in labels.items())
        yield f"{family.name}{end}{f'{{{inside}}}' if inside else ''} {_number(value)}"


def _escaped(text: str, quotes: bool) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    # Names in a configuration may hold bytes that are no text.
    text = text.encode("utf-8", "replace").decode()
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, bool | int) else repr(float(value))


# -- collectors, each called at rest


def _build(router: Router) -> Iterator[Family]:
    info = Family("mezzo_build", "info", "What runs")
    info.add(1, version=__version__, target=router.target)
    clock = Family("mezzo_clock_seconds", "gauge", "The router's clock, since 1970", "seconds")
    clock.add((router.engine.epoch_ns + router.now_ns) / 1e9)
    yield from (info, clock)


def _of(element: Any) -> Labels:
    return {"element": element.name, "class": type(element).__name__}


def _elements(router: Router) -> Iterator[Family]:
    events = Family("mezzo_element_events", "counter", "What elements count, by the name of the read handler")
    states = Family("mezzo_element_state", "gauge", "Other numbers that elements keep, by the name of the read handler")
    drops = Family("mezzo_element_drops_packets", "counter", "Packets that died in an element, by reason", "packets")
    for element in router.elements.values():
        for name in type(element).reads:
            spec = element.state_specs.get(name)
            if spec is not None and spec.kind == "scalar" and spec.type.bits <= 64:
                kind = events if spec.type is U64 else states
                kind.add(int(element.cell(name).value), **_of(element), handler=name)
        for reason, count in router.engine.drops(element.index).items():
            drops.add(count, **_of(element), reason=reason)
    yield from (events, states, drops)


def queue_of(router: Router, element: Any) -> tuple[int, int] | None:
    """(packets held, room) of an element that queues; None where it has no ring."""
    rings = [s.name for s in router.plan.program.instances[element.index].unit.states if s.kind == "ring"]
    if not rings:
        return None
    held = sum(len(router.engine.cells[element.index][name].dump()) for name in rings)
    room = getattr(element, "capacity", None)
    return held, int(room) if isinstance(room, int) else 0


def _queues(router: Router) -> Iterator[Family]:
    length = Family("mezzo_queue_length_packets", "gauge", "Packets that an element holds in its queue", "packets")
    room = Family("mezzo_queue_capacity_packets", "gauge", "Packets that its queue may hold", "packets")
    for element in router.elements.values():
        found = queue_of(router, element)
        if found is not None:
            length.add(found[0], **_of(element))
            if found[1]:
                room.add(found[1], **_of(element))
    yield from (length, room)


def _tasks(router: Router) -> Iterator[Family]:
    family = Family("mezzo_task_runnable", "gauge", "Whether an element's task is on the run queue")
    for task, index in enumerate(router.plan.program.tasks):
        if router.plan.elements[index].name in router.elements:
            family.add(int(bool(router.engine.call(0, "is_scheduled", task))), **_of(router.plan.elements[index]))
    yield family


def cpu_ns(router: Router, thread: int) -> int | None:
    """The CPU time of a packet thread; None while there is none."""
    workers = router.team.workers if router.team is not None else []
    tid = router.runner_tid if thread == 0 else workers[thread - 1].native_id if thread <= len(workers) else None
    if tid is None:
        return None
    # clock_gettime(2) by the thread's number: by its pthread_t a thread that has just ended would be followed into
    # memory that is gone (kernel: MAKE_THREAD_CPUCLOCK).
    try:
        return time.clock_gettime_ns(~tid << 3 | CPUCLOCK_THREAD)
    except OSError:
        return None


def _threads(router: Router) -> Iterator[Family]:
    rounds = Family("mezzo_thread_rounds", "counter", "Rounds of a thread's scheduler")
    sleeps = Family("mezzo_thread_sleeps", "counter", "How often a thread had nothing to do and slept")
    tasks = Family("mezzo_thread_tasks", "gauge", "Tasks that a thread has to run")
    timers = Family("mezzo_thread_timers", "gauge", "Timers that are set on a thread")
    cpu = Family("mezzo_thread_cpu_seconds", "counter", "CPU time of a packet thread", "seconds")
    for number, cells in enumerate(schedulers(router.engine)):
        if (spent := cpu_ns(router, number)) is not None:
            cpu.add(spent / 1e9, thread=str(number))
        rows = ((rounds, "rounds"), (sleeps, "sleeps"), (tasks, "task_count"), (timers, "timer_count"))
        for family, name in rows:
            if name in cells:
                family.add(int(cells[name].value), thread=str(number))
    yield from (rounds, sleeps, tasks, timers, cpu)


def _ports(router: Router) -> Iterator[Family]:
    counts = Family("mezzo_port_statistics", "counter", "What a device or the kernel counts, by its name for it")
    lost = Family("mezzo_port_kernel_drops_packets", "counter", "Packets that the kernel dropped before", "packets")
    frames = Family("mezzo_port_ring_frames", "gauge", "Frames in a port's rings, by place", "frames")
    for port in router.ports:
        labels = {"port": port.name, "method": port.method}
        for name, count in port.statistics().items():
            counts.add(int(count), **labels, statistic=str(name))
        dropped = port.kernel_drops()
        if dropped is not None:
            lost.add(int(dropped), **labels)
        for place, count in port.all_frames().items():
            frames.add(int(count), **labels, place=place)
    yield from (counts, lost, frames)


def _pool(router: Router) -> Iterator[Family]:
    arena = router.arena
    room = Family("mezzo_pool_frames", "gauge", "Frames that packets are made of", "frames")
    room.add(arena.frames)
    held = Family("mezzo_pool_held_frames", "gauge", "Frames that hold packets, or wait in rings", "frames")
    held.add(arena.held)
    lost = Family("mezzo_pool_refusals", "counter", "Packets that could not be made, by reason")
    for reason in ("exhausted", "too_long"):
        lost.add(arena.counter(reason), reason=reason.replace("_", " "))
    yield from (room, held, lost)


def _share(router: Router) -> Iterator[Family]:
    """The profile, where one is under way."""
    share = Family("mezzo_element_time_ratio", "gauge", "An element's part of packet code's time, sampled", "ratio")
    profile = router.eye.profile if router.eye is not None else None
    for name, cls, part, _ in profile.table() if profile is not None else []:
        share.add(part, **{"element": name, "class": cls})
    yield share
