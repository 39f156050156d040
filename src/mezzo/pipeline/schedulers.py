"""The schedulers of a program, and what a configuration says about threads.

One thread without descriptors has the plain scheduler; a thread that may have to sleep, beside others or for devices,
has a ThreadScheduler.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mezzo.base import Diagnostic, MezzoError, Note, Reporter, Span
from mezzo.elements.args import Env
from mezzo.elements.element import Element
from mezzo.elements.scheduler import Scheduler
from mezzo.elements.thread_scheduler import ThreadScheduler
from mezzo.graph import Instance
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


@dataclass(frozen=True)
class _Wish:
    """What one StaticThreadSched says of one element; `name` as it is written, which may be of a compound around it."""

    name: str
    thread: int
    by: Element
    span: Span | None

    @property
    def depth(self) -> int:
        return self.name.count("/")


def wishes_of(
    elements: Sequence[Element], threads: int, written: Mapping[str, Instance]
) -> tuple[dict[str, int], list[Diagnostic]]:
    """(element -> thread as StaticThreadSched elements say, warnings).

    A name says more than that of a compound around it; two that say as much, and differ, are an error.
    """
    names = [e.name for e in elements]
    wishes: dict[str, _Wish] = {}
    reporter = Reporter()
    for element in elements:
        for number, (name, thread) in enumerate(getattr(element, "placement", ())):
            span = written[element.name].argument_span(number) if element.name in written else None
            head = f"{element.name} :: {type(element).__name__}"
            full, found = _named(name, element.name, names)
            if not found:
                near = difflib.get_close_matches(name, names, 3, 0.6)
                hint = f"did you mean {', '.join(near)}?" if near else ""
                reporter.error(f"{head}: there is no element `{name}`", span, hint=hint)
            if thread >= threads:
                what = f"{head}: no thread {thread}: `{name}` runs on thread 0"
                reporter.warn(what, span, hint=f"give -j {thread + 1} or more")
            for one in found:
                _wish(wishes, one, _Wish(full, thread, element, span), reporter)
    reporter.raise_if_errors()
    return {name: w.thread if w.thread < threads else 0 for name, w in wishes.items()}, reporter.warnings


def _wish(wishes: dict[str, _Wish], name: str, wish: _Wish, reporter: Reporter) -> None:
    """Adds one wish, or says that it meets another."""
    other = wishes.get(name)
    if other is None or wish.depth > other.depth:
        wishes[name] = wish
    elif wish.depth == other.depth and wish.thread != other.thread:
        what = f"{wish.by.name} :: {type(wish.by).__name__}: `{name}` is to run on thread {wish.thread}"
        notes = [Note(f"thread {other.thread} is said here", other.span)]
        reporter.error(what, wish.span, notes, "name it once")


def _named(name: str, owner: str, names: Sequence[str]) -> tuple[str, list[str]]:
    """The elements that a name stands for, and its full form: one, or all in a compound; in the owner's compound, then
    outside."""
    scope = owner.rpartition("/")[0]
    while True:
        full = f"{scope}/{name}" if scope else name
        found = [n for n in names if n == full or n.startswith(full + "/")]
        if found or not scope:
            return full, found
        scope = scope.rpartition("/")[0]
