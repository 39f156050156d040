"""Threads of a running router, and threads that sleep.

`Team` belongs to a router whose schedulers sleep by themselves (elements/thread_scheduler): one with several threads,
or with descriptors to watch.  Thread 0 is whoever calls `run`; the others live as long as that call.  Each is in native
code, outside the GIL, until somebody wants it back: then its `stop` is set and its eventfd written, it ends the task
that it runs, and waits here.  While all wait, the router is at rest, and state may be changed.

A router is done when no thread has anything to do, no timer is set and nothing is watched.  A thread that falls asleep
tells thread 0, and thread 0, when it is idle too, asks: at rest, every scheduler looks once more at all that it polls;
if none had anything to do, and none rang for another meanwhile, nothing ever will happen again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError
from mezzo.elements.scheduler import BUDGET, DONE, STOPPED
from mezzo.elements.thread_scheduler import ASLEEP, EVENT

if TYPE_CHECKING:
    from mezzo.elements.element import Element
    from mezzo.ir.sharing import Threading
    from mezzo.runtime.router import Router

SLICE_NS = 20_000_000  # how long the loop may stay away from Python
MOST_WATCHED = 1024  # descriptors a thread
POLLFD = struct.Struct("=ihh")
LINE, TIMESPEC, SCRATCH, FDS = 0, 64, 80, 128  # in a thread's desk
STOP, CALL = 1, 2  # why `stop` is set: to end the run, or to let Python do something
SETTLE = 1 << 16  # rounds in which a thread must find that it has nothing to do
REGISTER_EXPEDITED, SYS_MEMBARRIER = 16, {"x86_64": 324, "aarch64": 283}

_libc = ctypes.CDLL(None, use_errno=True)


def _address(name: str) -> int:
    return ctypes.cast(getattr(_libc, name), ctypes.c_void_p).value or 0


def schedulers(engine: Any) -> list[dict[str, Any]]:
    """The cells of each thread's scheduler."""
    return [one.cells[0] for one in getattr(engine, "engines", [engine])]


class Desk:
    """What one thread needs to sleep: its eventfd, what it polls, and where its scheduler finds them."""

    def __init__(self, cells: dict[str, Any], bell: int | None) -> None:
        self.event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.memory = ctypes.create_string_buffer(FDS + POLLFD.size * (1 + MOST_WATCHED))
        self.fds, self.count, self.watched = ctypes.addressof(self.memory) + FDS, 0, list[tuple[str, int]]()
        self.lay(cells, bell)
        self.sit(cells, bell)
        cells["ends"].value = 1
        self.add("", self.event, select.POLLIN)

    def bell_of(self, bell: int | None) -> int:
        return bell if bell is not None else ctypes.addressof(self.memory) + LINE

    def lay(self, cells: dict[str, Any], bell: int | None) -> None:
        """Tells a scheduler, by its cells, where everything is; it may be one that does not run yet."""
        base, rings = ctypes.addressof(self.memory), self.bell_of(bell)
        ctypes.c_uint32.from_address(rings + EVENT).value = self.event
        for name, value in {
            "bell": rings,
            "timespec": base + TIMESPEC,
            "scratch": base + SCRATCH,
            "fds": self.fds,
        }.items():
            cells[name].value = value
        for name, function in (("ppoll", "ppoll"), ("read", "read"), ("write", "write"), ("membarrier", "syscall")):
            cells[f"{name}_at"].value = _address(function)
        cells["membarrier_number"].value = SYS_MEMBARRIER.get(os.uname().machine, 0)

    def sit(self, cells: dict[str, Any], bell: int | None) -> None:
        """From now on it is that scheduler's."""
        self.cells, self.bell = cells, self.bell_of(bell)
        cells["nfds"].value = self.count
        cells["now"].value = time.monotonic_ns()

    def add(self, name: str, fd: int, events: int) -> int:
        """Polls a descriptor too; the address of its `events` (u16), which packet code may change."""
        if self.count > MOST_WATCHED:
            raise MezzoError(f"{name}: a thread watches {MOST_WATCHED} descriptors at most")
        at = FDS + POLLFD.size * self.count
        self.memory[at : at + POLLFD.size] = POLLFD.pack(fd, events, 0)
        self.watched.append((name, fd))
        self.count += 1
        self.cells["nfds"].value = self.count
        return ctypes.addressof(self.memory) + at + 4

    def remove(self, name: str, fd: int) -> None:
        """Polls it no more; its place stays: addresses that were handed out stay good."""
        for i, entry in enumerate(self.watched):
            if entry == (name, fd):
                at = FDS + POLLFD.size * i
                self.memory[at : at + 4] = struct.pack("=i", -1)
                self.watched[i] = ("", -1)

    @property
    def asleep(self) -> bool:
        return ctypes.c_uint32.from_address(self.bell + ASLEEP).value != 0

    @asleep.setter
    def asleep(self, value: bool) -> None:
        ctypes.c_uint32.from_address(self.bell + ASLEEP).value = value

    def ring(self) -> None:
        os.eventfd_write(self.event, 1)

    def close(self) -> None:
        os.close(self.event)


class Team:
    """The threads of one router."""

    def __init__(self, router: Router) -> None:
        self.router, self.engine = router, router.engine
        deal = router.plan.threading
        self.count = deal.count if deal is not None else 1
        self.desks = [Desk(cells, bell) for cells, bell in _places(self.engine, deal)]
        self._show(self.engine, deal)
        if self.count > 1:
            _register_membarrier()
        self.workers: list[threading.Thread] = []
        self.trouble: BaseException | None = None
        self._news = threading.Condition()
        self._say = threading.RLock()  # who sets `stop` of thread 0
        self._state, self._parked, self._depth = "run", set[int](), 0
        self.rested_ns = 0  # when the threads were last asked to rest

    def _show(self, engine: Any, deal: Threading | None) -> None:
        """Tells the schedulers of an engine what they look at without being asked."""
        places = _places(engine, deal)
        for k, (cells, _) in enumerate(places):
            cells["first_bell"].value = self.desks[0].bell_of(places[0][1])
            _poll(cells, deal.polled[k] if deal is not None else ())

    # -- another graph takes the place of the one that runs

    def homes(self) -> dict[str, int]:
        """The thread of each element that has a task: descriptors are watched there, and go on being."""
        plan = self.router.plan
        return {plan.elements[i].name: self.thread_of(plan.elements[i]) for i in plan.program.tasks}

    def invite(self, engine: Any, deal: Threading | None) -> None:
        """The schedulers of `engine` are shown the desks, at which others sit yet."""
        for desk, (cells, bell) in zip(self.desks, _places(engine, deal), strict=True):
            desk.lay(cells, bell)
        self._show(engine, deal)

    def join(self, engine: Any, tasks: Mapping[str, int]) -> None:
        """They sit down there; `tasks`: those of the elements that stay, by name."""
        self.engine = engine
        with self._say:  # a wish to stop that came just now is not lost
            stop = self.desks[0].cells["stop"].value
            for desk, (cells, bell) in zip(self.desks, _places(engine, self.router.plan.threading), strict=True):
                desk.sit(cells, bell)
            self.desks[0].cells["stop"].value = stop
        for desk in self.desks:
            for name, fd in desk.watched:
                if name and name not in tasks:
                    desk.remove(name, fd)
            _poll(desk.cells, [tasks[name] for name, _ in desk.watched if name])
        self._look_for_ends()

    # -- what is polled

    def thread_of(self, element: Element) -> int:
        task = self.router.task_of(element)
        deal = self.router.plan.threading
        return deal.tasks[task] if deal is not None and task >= 0 else 0

    def watch(self, element: Element, fd: int, events: int) -> int:
        task, thread = self.router.task_of(element), self.thread_of(element)
        assert task >= 0, f"{element.name} has no task that a descriptor could make runnable"
        _poll(self.desks[thread].cells, (task,))
        for desk in self.desks:
            desk.cells["ends"].value = 0
        at = self.desks[thread].add(element.name, fd, events)
        self.desks[thread].ring()
        return at

    def unwatch(self, element: Element, fd: int) -> None:
        self.desks[self.thread_of(element)].remove(element.name, fd)
        self._look_for_ends()

    def _look_for_ends(self) -> None:
        ends = not any(name for desk in self.desks for name, _ in desk.watched)
        for desk in self.desks:
            desk.cells["ends"].value = ends

    # -- running

    def start(self) -> None:
        self._state, self._parked, self.trouble = "run", set(), None
        for thread in range(1, self.count):
            self.desks[thread].cells["stop"].value = 0
            worker = threading.Thread(target=self._work, args=(thread,), name=f"mezzo-{thread}", daemon=True)
            self.workers.append(worker)
            worker.start()

    def end(self) -> None:
        """The further threads end after the tasks that they run."""
        with self._news:
            self._state = "end"
            self._news.notify_all()
        self._call_back()
        for worker in self.workers:
            while worker.is_alive():
                worker.join(0.02)
                self.router.serve()  # its callback may be asking for something
        self.workers = []

    def _call_back(self) -> None:
        for desk in self.desks[1:]:
            desk.cells["stop"].value = 1
            desk.ring()

    def _work(self, thread: int) -> None:
        desk = self.desks[thread]
        try:
            while True:
                self.engine.run(1 << 30, thread)
                if desk.cells["stop"].value and not self._park(thread, desk):
                    return
        except BaseException as trouble:  # it comes out of `run`
            self.trouble = self.trouble or trouble
            self.call()
        finally:
            with self._news:
                self._parked.add(thread)
                self._news.notify_all()

    def _park(self, thread: int, desk: Desk) -> bool:
        """Waits until it may go on; False when it shall end."""
        with self._news:
            while self._state == "rest":
                self._parked.add(thread)
                self._news.notify_all()
                self._news.wait()
            self._parked.discard(thread)
            desk.cells["stop"].value = 0
            return self._state != "end"

    def number_of(self, ident: int) -> int | None:
        """Which of the further threads one of the system's is."""
        return next((k for k, worker in enumerate(self.workers, 1) if worker.ident == ident), None)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """A further thread, in Python for a callback, waits for thread 0 and may be taken for one at rest."""
        thread = self.number_of(threading.get_ident())
        if thread is None:
            yield
            return
        with self._news:
            self._parked.add(thread)
            self._news.notify_all()
        yield
        with self._news:
            self._news.wait_for(lambda: self._state != "rest")
            self._parked.discard(thread)

    @contextlib.contextmanager
    def rest(self) -> Iterator[None]:
        """Nobody runs packet code meanwhile, but the caller, who is thread 0."""
        if self._depth or not self.workers:
            yield
            return
        self._depth, self.rested_ns = 1, time.monotonic_ns()
        with self._news:
            before, self._state = self._state, "rest"
            self._call_back()
            self._news.wait_for(lambda: len(self._parked) == len(self.workers))
        for thread in range(1, self.count):
            self.desks[thread].cells["stop"].value = 0
            self.engine.engines[thread].call(0, "look")
        try:
            yield
        finally:
            self._depth = 0
            with self._news:
                self._state = before if self._state == "rest" else self._state
                self._news.notify_all()

    # -- thread 0

    def break_off(self) -> None:
        """While all rest: the further threads end where they are, and thread 0's run ends, before another task."""
        with self._news:
            self._state = "end"
        self.stop()

    def stop(self) -> None:
        """Thread 0 comes back, and the run ends."""
        with self._say:
            self.desks[0].cells["stop"].value = STOP
        self.desks[0].ring()

    def call(self) -> None:
        """Thread 0 comes back to Python, to go on after that."""
        with self._say:
            if not self.desks[0].cells["stop"].value:
                self.desks[0].cells["stop"].value = CALL
        self.desks[0].ring()

    def was_called(self) -> bool:
        """Whether thread 0 came back for a call only; takes the reason away."""
        stop = self.desks[0].cells["stop"]
        with self._say:
            if stop.value != CALL:
                return False
            stop.value = 0
            return True

    def done(self) -> bool:
        """Asked when thread 0 has nothing to do: has nobody, for ever?"""
        if self.count == 1:
            return True
        if not all(desk.asleep for desk in self.desks[1:]):
            return False
        with self.rest():
            for desk in self.desks:
                desk.asleep = True
            idle = [self._settled(thread) for thread in range(self.count)]
            return all(idle) and all(desk.asleep for desk in self.desks)

    def _settled(self, thread: int) -> bool:
        cells = self.desks[thread].cells
        cells["settling"].value = 1
        status = self.engine.run(SETTLE, thread)
        cells["settling"].value = 0
        return bool(status == DONE and not cells["timer_count"].value)

    def close(self) -> None:
        for desk in self.desks:
            desk.close()


def _places(engine: Any, deal: Threading | None) -> list[tuple[dict[str, Any], int | None]]:
    """(the cells of each thread's scheduler, its bell where that is in the engine's memory)."""
    return [(cells, engine.bell(k) if deal is not None else None) for k, cells in enumerate(schedulers(engine))]


def _poll(cells: dict[str, Any], tasks: Sequence[int]) -> None:
    """A scheduler makes these tasks runnable now and then, for it cannot know when they are."""
    count = cells["polled_count"].value
    have = cells["polled"].dump()[:count]
    fresh = [task for task in dict.fromkeys(tasks) if task not in have]
    for at, task in enumerate(fresh, count):
        cells["polled"][at] = task
    cells["polled_count"].value = count + len(fresh)


def drive(team: Team, end_ns: int, rounds: int | None, until: Callable[[], bool] | None) -> str:
    """Router.run, where schedulers sleep by themselves.  `rounds` are thread 0's."""
    router, left, size = team.router, 1 << 62 if rounds is None else rounds, 256
    team.desks[0].cells["limit"].value = end_ns  # a graph that takes the place of this one gets it, too
    team.start()
    try:
        while True:
            router.serve()
            patience = router.patience
            count = min(size * patience, left)
            begun = time.monotonic_ns()
            status = router.engine.run(count)
            size = next_size(size, (time.monotonic_ns() - begun) // patience) if status == BUDGET else size
            left -= count if rounds is not None else 0
            if team.trouble is not None:
                raise team.trouble
            if status == STOPPED and not team.was_called() and not router.stop_refused():
                return "stopped"
            if until is not None and until():
                return "until"
            if router.now_ns >= end_ns:
                return "time"
            if left <= 0:
                return "rounds"
            if status == DONE and router.requests.empty() and not router.awaited and team.done():
                return "done"
    finally:
        team.end()


def next_size(size: int, spent_ns: int) -> int:
    """How many rounds to stay away from Python, after `size` took `spent_ns`."""
    if spent_ns < SLICE_NS // 2:
        return min(size * 2, 1 << 30)
    return max(size // 2, 1) if spent_ns > SLICE_NS else size


def _register_membarrier() -> None:
    """The process says that it will ask for barriers; without, a sleeper could miss a packet."""
    number = SYS_MEMBARRIER.get(os.uname().machine, -1)
    if number < 0 or _libc.syscall(number, REGISTER_EXPEDITED, 0, 0) != 0:
        raise MezzoError("several threads need the system call membarrier (Linux 4.14 or newer, on x86-64 or aarch64)")
