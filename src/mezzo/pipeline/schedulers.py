"""The schedulers of a program, and what a configuration says about threads.

One thread without descriptors has the plain scheduler; a thread that may have to sleep, beside others or for devices,
has a ThreadScheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements.args import Env
from mezzo.elements.element import Element
from mezzo.elements.scheduler import Scheduler
from mezzo.elements.thread_scheduler import ThreadScheduler
from mezzo.ir.module import Linked
from mezzo.ir.sharing import Share, Threading
from mezzo.pipeline.threads import MOST
from mezzo.pipeline.units import units_of


def check_threads(threads: int, virtual: bool) -> None:
    if not 1 <= threads <= MOST:
        raise MezzoError(f"{threads} threads: give 1 to {MOST}")
    if threads > 1 and virtual:
        raise MezzoError(
            Diagnostic(
                f"a virtual clock has one thread, not {threads}",
                hint="the order of events would not be the same in every run; leave one of the two out",
            )
        )


def make_schedulers(
    virtual: bool, tasks: int, timers: int, threads: int, watches: bool
) -> list[tuple[Element, Linked]]:
    """The scheduler of each thread; `watches`: some element may watch a descriptor."""
    # Powers of two, so that routers of like size share the scheduler's code.
    places = max(2, 1 << (tasks + timers).bit_length())
    words = [f"VIRTUAL {str(virtual).lower()}", f"NTASKS {tasks}", f"PLACES {places}"]
    if threads == 1 and (virtual or not watches):
        return [_made(Scheduler(name="scheduler"), words)]
    several = f"SEVERAL {str(threads > 1).lower()}"
    return [
        _made(
            ThreadScheduler(name=f"scheduler@{k}" if k else "scheduler"),
            [*words, several, f"FIRST {str(not k).lower()}"],
        )
        for k in range(threads)
    ]


def _made(scheduler: Element, words: list[str]) -> tuple[Element, Linked]:
    troubles = scheduler.setup(words, Env())
    assert not troubles, troubles
    return scheduler, Linked(scheduler.name, units_of([scheduler])[0])


def with_schedulers(threading: Threading) -> Threading:
    """The threading of a program to which the schedulers of threads 1, 2, … are added."""
    more = range(1, threading.count)
    shares = (*threading.shares, *(Share(threads=(k,)) for k in more))
    return replace(threading, shares=shares, homes=(*threading.homes, *more))


def wishes_of(elements: Sequence[Element], threads: int) -> tuple[dict[str, int], list[Diagnostic]]:
    """(element -> thread as StaticThreadSched elements say, warnings).  The last one that names an element is heard."""
    names = [e.name for e in elements]
    wishes: dict[str, int] = {}
    warnings: list[Diagnostic] = []
    for element in elements:
        for name, thread in getattr(element, "placement", ()):
            found = _named(name, element.name, names)
            head = f"{element.name} :: {type(element).__name__}"
            if not found:
                raise MezzoError(f"{head}: there is no element `{name}`")
            if thread >= threads:
                hint = f"give -j {thread + 1} or more"
                warnings.append(Diagnostic(f"{head}: no thread {thread}: `{name}` runs on thread 0", hint=hint))
            wishes |= dict.fromkeys(found, thread if thread < threads else 0)
    return wishes, warnings


def _named(name: str, owner: str, names: Sequence[str]) -> list[str]:
    """The elements that a name stands for: one, or all in a compound; in the owner's compound, then outside."""
    scope = owner.rpartition("/")[0]
    while True:
        full = f"{scope}/{name}" if scope else name
        found = [n for n in names if n == full or n.startswith(full + "/")]
        if found or not scope:
            return found
        scope = scope.rpartition("/")[0]
