"""Which thread runs what, and what that makes of each instance.

A task runs on the thread that StaticThreadSched names, else on the next one in turn; what runs Python (an element that
is `in_python`, or whose very role is a `@python` method) stays on thread 0, the one that called `run`.  Packet code
that calls Python now and then, to warn for example, may be anywhere.  From each task, and from each timer, the
connections are followed: pushes forward, pulls backward, and questions for room.  So every instance has a set of
threads and, from its unit's `uses`, what each of them does to each piece of state; from these follows how it is shared
(see ir/sharing).  What may never be wrong is on the safe side: a role counts where it could be reached.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mezzo.base import Diagnostic
from mezzo.ir.module import Linked, Program, State
from mezzo.ir.sharing import COUNTING, GUARDED, PLAIN, SPSC, Share, Threading
from mezzo.pipeline.link import Linker

Touch = tuple[int, str]  # (instance, role)
MOST = 64  # threads


@dataclass(frozen=True)
class Deal:
    """The outcome, and what of the user's wishes could not be."""

    threading: Threading
    warnings: tuple[Diagnostic, ...] = ()


def deal(linker: Linker, program: Program, count: int, wished: Mapping[str, int]) -> Deal:
    """Spreads tasks over `count` threads; `wished`: element name -> thread (StaticThreadSched)."""
    return _Dealer(linker, program, count, wished).run()


class _Dealer:
    def __init__(self, linker: Linker, program: Program, count: int, wished: Mapping[str, int]) -> None:
        self.linker, self.program, self.count, self.wished = linker, program, count, wished
        self.warnings: list[Diagnostic] = []
        self.touches: list[dict[str, set[int]]] = [defaultdict(set) for _ in program.instances]  # role -> threads

    def run(self) -> Deal:
        tasks = tuple(self._task_threads())
        for number, instance in enumerate(self.program.tasks):
            self._touch(tasks[number], (instance, "task"))
        timers = self._timer_threads(tasks)
        shares = [Share(threads=(0,))]
        shares += [
            share_of(x, roles, timers[x.timer] if x.timer >= 0 else -1)
            for x, roles in zip(self.program.instances[1:], self.touches[1:], strict=True)
        ]
        homes = tuple(self._home(i, share, tasks, timers) for i, share in enumerate(shares))
        threading = Threading(self.count, tasks, timers, tuple(shares), homes, self._polled(tasks, shares))
        return Deal(threading, tuple(self.warnings))

    # -- who runs what

    def _task_threads(self) -> Iterator[int]:
        turn = 0
        for instance in self.program.tasks:
            name = self.program.instances[instance].name
            wish = self.wished.get(name)
            python = self._python_reached((instance, "task"))
            if python:
                if wish:
                    self._stays(name, wish, python)
                yield 0
            elif wish is not None:
                yield wish
            else:
                yield turn % self.count
                turn += 1

    def _stays(self, name: str, wish: int, python: str) -> None:
        text = f"`{name}` runs on thread 0, not {wish}: its packets meet `{python}`, which is Python"
        self.warnings.append(Diagnostic(text, hint="put a Queue between, and the Python element behind it"))

    def _python_reached(self, start: Touch) -> str:
        """The name of an element on the way that is Python; empty when there is none."""
        for instance, role in self._reach([start]):
            cls = type(self.linker.elements[instance - 1])
            if cls.in_python or getattr(getattr(cls, role, None), "__python__", False):
                return self.program.instances[instance].name
        return ""

    def _timer_threads(self, tasks: tuple[int, ...]) -> tuple[int, ...]:
        """A timer is with its element's task, else with a thread that touches the element.  What timers do may touch
        elements of further timers, so it is repeated until nothing changes; a timer that has a thread keeps it."""
        found: dict[int, int] = {}
        while len(found) < len(self.program.timers):
            ready = [
                t for t, i in enumerate(self.program.timers) if t not in found and (self._of(i) or self._has_task(i))
            ]
            ready = ready or [t for t in range(len(self.program.timers)) if t not in found][:1]
            for timer in ready:
                instance = self.program.timers[timer]
                linked = self.program.instances[instance]
                python = self._python_reached((instance, "timer"))
                wish = self.wished.get(linked.name)
                home = tasks[linked.task] if linked.task >= 0 else min(self._of(instance), default=wish or 0)
                found[timer] = 0 if python else home
                self._touch(found[timer], (instance, "timer"))
        return tuple(found[t] for t in range(len(self.program.timers)))

    def _has_task(self, instance: int) -> bool:
        return self.program.instances[instance].task >= 0

    def _of(self, instance: int) -> set[int]:
        """The threads that touch an instance."""
        return {thread for threads in self.touches[instance].values() for thread in threads}

    def _touch(self, thread: int, start: Touch) -> None:
        for instance, role in self._reach([start]):
            self.touches[instance][role].add(thread)

    def _reach(self, start: Iterable[Touch]) -> Iterator[Touch]:
        """Roles that can run when these do."""
        seen, stack = set(start), list(start)
        while stack:
            instance, role = stack.pop()
            yield instance, role
            fresh = self._next(instance, role) - seen
            seen |= fresh
            stack += sorted(fresh)

    def _next(self, instance: int, role: str) -> set[Touch]:
        linked = self.program.instances[instance]
        if role == "ready":
            return set()
        found = {(to, self._entered(to, "push")) for end in linked.outputs if end is not None for to in (end[0],)}
        found |= {(to, self._entered(to, "pull")) for end in linked.inputs if end is not None for to in (end[0],)}
        return found | {(to, "ready") for several in linked.ready for to in several}

    def _entered(self, instance: int, way: str) -> str:
        return "process" if self.program.instances[instance].unit.function("process") is not None else way

    # -- what follows

    def _home(self, i: int, share: Share, tasks: tuple[int, ...], timers: tuple[int, ...]) -> int:
        """Where Python calls an instance: with its task or timer, so that both are set there directly."""
        linked = self.program.instances[i]
        if linked.timer >= 0:
            return timers[linked.timer]
        return tasks[linked.task] if linked.task >= 0 else min(share.threads, default=0)

    def _polled(self, tasks: tuple[int, ...], shares: list[Share]) -> tuple[tuple[int, ...], ...]:
        """The tasks that an instance which another thread touches can wake."""
        found: list[set[int]] = [set() for _ in range(self.count)]
        for linked, share in zip(self.program.instances, shares, strict=True):
            for task in {*linked.wake_down, *linked.wake_up, linked.task} - {-1}:
                if set(share.threads) - {tasks[task]}:
                    found[tasks[task]].add(task)
        return tuple(tuple(sorted(x)) for x in found)


# -- how an instance is shared


def share_of(linked: Linked, roles: Mapping[str, set[int]], timer: int) -> Share:
    """From who plays which role; `timer` is the thread of its timer, -1 without."""
    threads = tuple(sorted({t for who in roles.values() for t in who}))
    if len(threads) < 2:
        return Share(PLAIN, threads, why=f"only thread {threads[0]}" if threads else "no thread touches it")
    did = _done(linked, roles)
    if did.pop(("timer", ""), set()) - {timer}:
        return Share(GUARDED, threads, why="its timer is set by several threads")
    found: dict[str, set[str]] = {SPSC: set(), COUNTING: set(), "shown": set()}
    whys = []
    for state in linked.unit.states:
        kind, why = _state_kind(state, {what: who for (what, name), who in did.items() if name == state.name})
        if kind == GUARDED:
            return Share(GUARDED, threads, why=f"{state.name}: {why}")
        if kind != PLAIN:
            found[kind].add(state.name)
            whys.append(f"{state.name}: {why}")
    rings = tuple((name, _only(did, "push", name), _only(did, "pop", name)) for name in sorted(found[SPSC]))
    why = "; ".join(whys) or f"threads {_and(threads)} write nothing"
    added, shown = frozenset(found[COUNTING]), frozenset(found["shown"])
    return Share(SPSC if rings else COUNTING, threads, rings, added, shown, why)


def _only(did: Mapping[tuple[str, str], set[int]], what: str, ring: str) -> int:
    """The one thread that does this to a ring; -1 when none does."""
    return min(did.get((what, ring), ()), default=-1)


def _done(linked: Linked, roles: Mapping[str, set[int]]) -> dict[tuple[str, str], set[int]]:
    """(what, state) -> the threads that do it."""
    did: dict[tuple[str, str], set[int]] = defaultdict(set)
    for word in linked.unit.uses:
        role, _, rest = word.partition(":")
        if rest and role in roles:
            what, _, name = rest.partition(":")
            did[what, name] |= roles[role]
    return did


def _state_kind(state: State, did: Mapping[str, set[int]]) -> tuple[str, str]:
    """(kind, why) of one state: PLAIN, SPSC (a ring), COUNTING, "shown", or GUARDED."""
    everybody = set().union(*did.values()) if did else set()
    if len(everybody) < 2 or not set(did) - {"read", "len"}:
        return PLAIN, ""
    if state.kind == "ring":
        return _ring_kind(did)
    adders, writers, readers = (did.get(what, set()) for what in ("add", "write", "read"))
    if state.kind != "scalar" or state.type.bits > 64:
        return GUARDED, f"{state.kind}, changed while threads {_and(everybody)} use it"
    if not writers and not readers:
        return COUNTING, f"added to by threads {_and(adders)}"
    if len(adders | writers) > 1:
        return GUARDED, f"changed by threads {_and(adders | writers)}"
    return "shown", f"written by thread {_and(adders | writers)}, read by {_and(readers - adders - writers)}"


def _ring_kind(did: Mapping[str, set[int]]) -> tuple[str, str]:
    pushers, poppers = did.get("push", set()), did.get("pop", set())
    if did.get("pushfront") or did.get("popback"):
        return GUARDED, "packets enter or leave at both ends"
    if len(pushers) > 1:
        return GUARDED, f"pushed by threads {_and(pushers)}"
    if len(poppers) > 1:
        return GUARDED, f"popped by threads {_and(poppers)}"
    pushed = f"pushed by thread {_and(pushers)}" if pushers else "pushed by nobody"
    return SPSC, f"{pushed}, popped by {_and(poppers) if poppers else 'nobody'}"


def _and(threads: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(threads)))


# -- for people


def described(program: Program, threading: Threading) -> list[tuple[str, str, str, str]]:
    """(element, threads, how it is shared, why) of each element; tasks are marked."""
    rows = []
    for linked, share in zip(program.instances[1:], threading.shares[1:], strict=True):
        task = f" (task on {threading.tasks[linked.task]})" if linked.task >= 0 else ""
        rows.append((linked.name, _and(share.threads) + task, share.mode, share.why))
    return rows
