"""A router that runs.

`Router.from_click(text)` compiles and builds; `run` drives the native (or Python) loop in slices, so that signals,
handlers of other threads and Python timers get their turn between slices: that is the quiescent point at which state
may change.  Every packet goes home: after `close` the pool is full, or the holder is named.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements.element import ConfigError, Element, Seats
from mezzo.elements.scheduler import BUDGET, DONE, STOPPED, WAIT
from mezzo.elements.wiring import Wired
from mezzo.graph import Connection
from mezzo.packet.arena import Arena, Packet
from mezzo.pipeline import Plan, compile_graph, compile_text, graph_of
from mezzo.ports.port import PortTable
from mezzo.runtime.asking import Asking
from mezzo.runtime.changing import Changing
from mezzo.runtime.conservation import Ledger, ledger
from mezzo.runtime.control import Control
from mezzo.runtime.exchange import Exchange
from mezzo.runtime.fallback import built
from mezzo.runtime.handlers import HandlerError, Handlers, flat_text
from mezzo.runtime.levels import Levels
from mezzo.runtime.threads import Team, drive, next_size, schedulers
from mezzo.targets import load_target

if TYPE_CHECKING:
    from mezzo.runtime.eye import Eye
    from mezzo.runtime.recorder import Recorder
    from mezzo.runtime.reload import Report

VIRTUAL_EPOCH_NS = 1_000_000_000 * 10**9  # the wall time at which a virtual clock starts, as Click's simtime
NEVER = (1 << 64) - 1
NAP_S = 0.05
COUNTED = {"rounds", "sleeps"}  # of each scheduler, since the router began
STANDSTILL = 1 << 24  # rounds without a move of a virtual clock that has an end to reach


def run_all(*steps: Callable[[], object]) -> None:
    """Runs every step, also when one fails or is interrupted; the first failure is raised at the end."""
    failures = []
    for step in steps:
        try:
            step()
        except BaseException as trouble:
            failures.append(trouble)
    if failures:
        raise failures[0]


def check_fit(threads: int, target: str, traced: bool) -> None:
    """Several threads are for native code that nobody watches step by step."""
    if threads > 1 and (traced or target != "native"):
        what = "tracing follows one thread" if traced else f"the {target} target runs one thread"
        raise MezzoError(Diagnostic(f"{what}, not {threads}", hint="run it with one thread"))


class Router(Asking, Exchange):
    """A built router.  Use it as a context manager, or `close` it."""

    alive: weakref.WeakSet[Router] = weakref.WeakSet()  # what a leak check looks through

    def __init__(
        self,
        plan: Plan,
        *,
        target: str = "native",
        virtual: bool = False,
        seed: int = 1,
        frames: int = 32768,
        frame_size: int = 2048,
        trace: Callable[[Element, int, Packet], None] | None = None,
        cache: bool = True,
        text: str = "",
        force: bool = False,
    ) -> None:
        self.plan, self.graph, self.virtual, self.text = (
            plan,
            plan.graph if plan.edges else plan.resolved.graph,
            virtual,
            text,
        )
        self.elements: dict[str, Element] = plan.by_name()
        self.handlers = Handlers(self)
        self.control = Control(self)
        self.stop_hooks: list[Callable[[], bool]] = []
        self.failures: list[str] = []  # troubles that did not stop it, but of which a run is no success
        Asking.__init__(self)
        self._turn = threading.Lock()  # held by the one `run` there may be
        self.changing = Changing(self)
        self.eye: Eye | None = None  # made when somebody looks into it while it runs
        self.recorder: Recorder | None = None  # of the last packets and events, where one was asked for
        self.reconfigurable = False  # by handlers
        self.reloaded: Report | None = None  # what the last reload did
        self.on_change: list[Callable[[], None]] = []  # called at rest, when another graph has taken over
        self.closed = False
        self.output: Any = None  # where `say` writes; None: stderr
        self.hearers: list[Callable[[str], None]] = []  # who is told it, too
        self.patience = 1  # how many times longer than usual packet threads stay away from Python (see gently)
        self.ports = PortTable(force)
        self.threads = plan.threading.count if plan.threading is not None else 1
        check_fit(self.threads, target, trace is not None)
        self.arena = Arena(frames, frame_size, self.threads)
        self.target, self.trace, self.made_with = target, trace, {"seed": seed, "virtual": virtual, "cache": cache}
        self.source: dict[str, Any] = {}  # how a configuration in the Click language was given
        saw = self.tracer(plan, trace) if trace is not None else None
        cells = [e.all_cells() for e in plan.elements]
        self.levels = Levels(plan, target)
        try:
            build = load_target(target).build
            more: dict[str, Any] = {**self.made_with, "trace": saw, "whole": plan.whole}
            more |= {"threading": plan.threading} if plan.threading is not None else {}
            more |= self.levels.build(cells, frame_size, seed, cache, trace is not None)
            # Beside a part native code is the slow path: it need not be the best from the first packet on.
            more |= {"hurry": True} if self.levels.parts else {}
            self.engine = build(plan.program, self.arena, cells, self.hosts_of(plan), **more)
            self.levels.load()
        except BaseException:
            self.levels.close()
            self.arena.close()
            raise
        self.team = Team(self) if plan.sleeps else None  # threads, and descriptors to watch
        Router.alive.add(self)
        self.seats = Seats(self.engine, len(plan.elements))
        for index, element in enumerate(plan.elements):
            element.bind(self.seats, index)
            element.router = self
        self._set_clock()
        self._start()
        if self.levels.parts:
            from mezzo.targets.native.finish import finish

            finish(self.engine, self._later)

    # -- making one

    @classmethod
    def from_click(
        cls,
        text: str,
        file: str = "config",
        variables: Mapping[str, str] | None = None,
        library_path: Sequence[Path] = (),
        virtual: bool = False,
        counted: bool = False,
        threads: int = 1,
        place: str | Sequence[str] = (),
        **options: Any,
    ) -> Router:
        """Compiles a configuration in the Click language and builds it; MezzoError says what is wrong with it.

        `counted`: `edge_counts` then tells what went over every connection.  `threads`: how many run it.
        `place`: what is to run in the kernel, `auto` or several `pattern=kernel` (see `pipeline.wishes`).
        """

        def compiled(wishes: list[str]) -> Plan:
            return compile_text(text, file, variables, library_path, virtual, counted, threads, wishes)

        made, place = built(place, compiled, lambda plan: cls(plan, virtual=virtual, text=text, **options))
        made.source = {"file": file, "variables": variables, "library_path": library_path, "place": place}
        return made

    @classmethod
    def from_elements(cls, start: Wired, virtual: bool = False, **options: Any) -> Router:
        """Builds the graph that `start` belongs to: `Router.from_elements(src >> Counter() >> Discard())`."""
        graph, made = graph_of(start)
        return cls.from_graph(graph, made, virtual, **options)

    @classmethod
    def from_graph(
        cls,
        graph: Any,
        made: Mapping[str, Element] | None = None,
        virtual: bool = False,
        threads: int = 1,
        place: str | Sequence[str] = (),
        **options: Any,
    ) -> Router:
        """Builds a graph value; `made` are its elements where they exist already."""
        return cls(compile_graph(graph, virtual, made, threads=threads, place=place), virtual=virtual, **options)

    def hosts_of(self, plan: Plan) -> dict[tuple[int, str], Callable[..., int | None]]:
        return {
            (i, name): getattr(e, name)
            for i, (e, x) in enumerate(zip(plan.elements, plan.program.instances, strict=True))
            for name in x.unit.hosts
        }

    def tracer(self, plan: Plan, trace: Callable[[Element, int, Packet], None]) -> Callable[[int, int, int], None]:
        elements, arena = plan.elements, self.arena
        return lambda instance, port, frame: trace(elements[instance], port, Packet(arena, frame))

    def _set_clock(self) -> None:
        if self.virtual:
            self.engine.epoch_ns = VIRTUAL_EPOCH_NS
        else:
            self.engine.epoch_ns = time.time_ns() - time.monotonic_ns()
            self.engine.cells[0]["now"].load(time.monotonic_ns())
            self.levels.set_clock(self.engine.epoch_ns)

    def _start(self) -> None:
        """Python initialization first, so that code finds its files; then tasks, then `init` methods."""
        try:
            self.ports.parts = self.levels.parts
            self.ports.open(self.plan.elements, self.arena)
            self._initialize()
            self._wake_all()
        except BaseException:
            self.close()
            raise
        self.control.start()

    def _initialize(self) -> None:
        """What elements do in Python before packets flow; all that refuse are told together."""
        troubles = []
        self.handlers.unready.update(self.elements)
        for element in self.elements.values():
            try:
                element.initialize()
                self.handlers.unready.discard(element.name)
            except (ConfigError, OSError) as trouble:
                written = self.plan.resolved.graph.instances.get(element.name)
                text = f"{element.name} :: {type(element).__name__}: {trouble}"
                troubles.append(Diagnostic(text, written.span if written is not None else None))
        if troubles:
            raise MezzoError(*troubles)

    def _wake_all(self) -> None:
        if self.team is not None:
            self.ports.watch(self)
        elif self.virtual:
            self._refuse_wires()
        for task, index in enumerate(self.plan.program.tasks):
            if self.plan.elements[index].wants_task:
                self.engine.call(0, "wake", task)
        for index, linked in enumerate(self.plan.program.instances):
            if linked.unit.function("init") is not None:
                self.engine.call(index, "init")

    def _refuse_wires(self) -> None:
        """What comes from outside comes in real time, and a virtual clock would not wait for it."""
        found = [end for port in self.ports for end, _, _ in port.descriptors()]
        if found:
            what = f"`{found[0].device}` is read and written in real time, and a virtual clock does not wait for it"
            hint = "leave the virtual clock out, or use a capture (METHOD PCAP)"
            raise MezzoError(Diagnostic(what, found[0].place, hint=hint))

    # -- running

    def run(
        self, seconds: float | None = None, rounds: int | None = None, until: Callable[[], bool] | None = None
    ) -> str:
        """Runs until stopped, until nothing will ever happen again, or until a limit; says which: "stopped", "done",
        "time", "rounds", "until".  Seconds are of the router's clock.  One `run` at a time."""
        self._require_open()
        if self.ports.dead:
            raise MezzoError(self.ports.dead)
        if not self._turn.acquire(blocking=False):
            raise MezzoError("the router runs already: one thread at a time may run it")
        try:
            self._take_over()
            try:
                return self._run(seconds, rounds, until)
            finally:
                self._hand_back()
        finally:
            self._turn.release()

    def _run(self, seconds: float | None, rounds: int | None, until: Callable[[], bool] | None) -> str:
        if not self.virtual:
            self.engine.call(0, "look")  # what passed since the last run is not of this one
            self.ports.start()
        end_ns = NEVER if seconds is None else self.now_ns + int(seconds * 1e9)
        if self.team is not None:
            return self._run_team(self.team, end_ns, rounds, until)
        self.engine.cells[0]["limit"].load(end_ns)
        left = rounds if rounds is not None else 1 << 62
        size = 256
        moved_ns, stood = self.now_ns, 0
        try:
            while True:
                self.serve()
                if self.team is not None:  # a graph that took the place of this one has devices
                    return drive(self.team, end_ns, None if rounds is None else left, until)
                patience, ran = self.patience, self.engine.cells[0]["rounds"]
                count = min(size * patience, left)
                begun, before = time.monotonic_ns(), ran.value
                status = self.engine.run(count)
                spent, count = time.monotonic_ns() - begun, ran.value - before
                left -= count
                if status == STOPPED and not self._was_called() and not self.stop_refused():
                    return "stopped"
                if until is not None and until():
                    return "until"
                if self.now_ns >= end_ns:
                    return "time"
                stood = stood + count if self.now_ns == moved_ns else 0
                moved_ns = self.now_ns
                if self.virtual and end_ns != NEVER and stood > STANDSTILL:
                    raise self._standstill()
                if left <= 0:
                    return "rounds"
                if status == BUDGET:
                    size = next_size(size, spent // patience)
                elif status in (DONE, WAIT) and self.requests.empty():
                    if status == DONE and (not self.awaited or (self.virtual and end_ns != NEVER)):
                        return "done"  # nobody outside can make a virtual clock reach its limit
                    self._sleep(end_ns)
        except BaseException:
            self.engine.cells[0]["stop"].load(0)  # what a callback raised has stopped this run, not the next
            raise

    def _run_team(self, team: Team, end_ns: int, rounds: int | None, until: Callable[[], bool] | None) -> str:
        try:
            return drive(team, end_ns, rounds, until)
        except BaseException:
            self.engine.cells[0]["stop"].load(0)
            raise

    def _standstill(self) -> MezzoError:
        """A virtual clock moves when nothing is runnable; a task that is always busy holds it for ever."""
        busy = [
            self.plan.elements[i].name
            for task, i in enumerate(self.plan.program.tasks)
            if self.engine.call(0, "is_scheduled", task)
        ]
        return MezzoError(
            Diagnostic(
                f"the virtual clock stands still: `{'`, `'.join(busy[:4])}` is always busy; the time limit never comes",
                hint="give a source a LIMIT or a rate, or run under the wall clock",
            )
        )

    def stop_refused(self) -> bool:
        """A stop may be answered by a script that goes on; then the loop does too."""
        self.engine.cells[0]["stop"].load(0)
        return any(hook() for hook in self.stop_hooks)

    def _sleep(self, end_ns: int) -> None:
        """Waits for the next timer, or for a request of another thread; `until` is asked now and then."""
        if self.virtual:
            return self._bell.wait(NAP_S)
        due = min(self.engine.call(0, "next_due"), end_ns)
        wait = (due - time.monotonic_ns()) / 1e9
        if wait > 0:
            self._bell.wait(min(wait, NAP_S))
            self.engine.call(0, "look")

    @property
    def now_ns(self) -> int:
        return int(self.engine.cells[0]["now"].value)

    # -- another graph takes the place of the one that runs (see reload.py)

    def reload(self, text: str, plan: Plan | None = None) -> Report:
        """Another configuration in the place of this one, while it runs: what stays goes on, what has the same name
        takes over its state, and nothing that the graph holds is lost.  MezzoError says what is wrong with it, and then
        this one goes on."""
        from mezzo.runtime.reload import plan_like

        self._require_open()
        return self.changing.run(lambda before: (plan or plan_like(self, text), text))

    def replace(self, name: str, written: str) -> Report:
        """Another element in the place of one, while its neighbours run: `router.replace("q", "Queue(500)")`."""
        from mezzo.runtime.reload import graph_like, graph_with

        def making(before: Plan) -> tuple[Plan, str]:
            graph = graph_with(before.graph, name, written)
            return graph_like(self, graph), flat_text(graph)

        self._require_open()
        return self.changing.run(making)

    def hotconfig(self, text: str) -> None:
        """The handler."""
        self._by_handler(lambda: self.reload(text))

    def hot_element(self, text: str) -> None:
        name, _, written = text.strip().partition(" ")
        self._by_handler(lambda: self.replace(name, written.strip()))

    def _by_handler(self, job: Callable[[], Report]) -> None:
        if not self.reconfigurable:
            raise HandlerError(520, "the configuration may not be changed while it runs; start the router with -R")
        try:
            job()
        except MezzoError as trouble:
            raise HandlerError(520, str(trouble)) from None

    def last_reload(self, form: str) -> str:
        import json

        if self.reloaded is None:
            return ""
        return json.dumps(self.reloaded.as_dict()) + "\n" if form.strip() == "json" else str(self.reloaded)

    def become(self, plan: Plan, seats: Seats, engine: Any, text: str, elements: dict[str, Element]) -> None:
        """From now on it runs another plan; nobody runs it now."""
        old = self.engine
        for name in ("now", "limit"):
            engine.cells[0][name].load(old.cells[0][name].dump())
        for mine, its in zip(schedulers(engine), schedulers(old), strict=True):
            for name in COUNTED & mine.keys() & its.keys():
                mine[name].load(its[name].dump())
        engine.go_on(old)
        self.plan, self.seats, self.text, self.elements = plan, seats, text, elements
        with self._say:  # a wish to stop that came just now is not lost
            engine.cells[0]["stop"].load(old.cells[0]["stop"].dump())
            self.engine = engine
        self.graph = plan.graph if plan.edges else plan.resolved.graph
        self.handlers.forget()
        self.handlers.unready.clear()
        if self.team is None and plan.sleeps:
            self.team = Team(self)
        if self.recorder is not None:
            self.recorder.note("another configuration took over")

    def forget(self, element: Element) -> None:
        """An element that is no part of it any more."""
        self.stop_hooks = [hook for hook in self.stop_hooks if getattr(hook, "__self__", None) is not element]

    # -- what elements ask for

    def task_of(self, element: Element) -> int:
        return self.plan.program.instances[element.index].task if element.index >= 0 else -1

    def scheduler_cells(self, element: Element) -> dict[str, Any]:
        """The state of the scheduler that runs an element's task."""
        if self.plan.threading is None:
            return self.engine.cells[0]  # type: ignore[no-any-return]
        return self.engine.scheduler_of(self.task_of(element))  # type: ignore[no-any-return]

    def watch(self, element: Element, fd: int, events: int) -> int:
        """From now on `events` (of poll(2)) of a descriptor make the element's task runnable.  Gives the address of a
        u16 that holds the events: packet code may change them."""
        if self.virtual:
            raise MezzoError(f"{element.name}: under a virtual clock no descriptor can be watched")
        assert self.team is not None, f"say `watches = True` in class {type(element).__name__}"
        return self.team.watch(element, fd, events)

    def unwatch(self, element: Element, fd: int) -> None:
        if self.team is not None:
            self.team.unwatch(element, fd)

    def wake(self, element: Element, who: str) -> None:
        """Wakes the element's own task, or those that pull from it ("down") or push to it ("up")."""
        self._at_rest(lambda: self._wake(element, who))

    def _wake(self, element: Element, who: str) -> None:
        for task in self.plan.linker.reached(element.index, who):
            self.engine.call(0, "wake", task)

    def say(self, text: str) -> None:
        print(text, file=self.output or sys.stderr)
        for hear in self.hearers:
            hear(text)

    def _repr_svg_(self) -> str:
        return self.graph._repr_svg_()

    @property
    def parts(self) -> list[Any]:
        """What of it is in the kernel: `targets.kernel.Part`s, none where everything is native."""
        return self.levels.parts

    # -- the ledger

    def drops(self) -> dict[tuple[str, str], int]:
        """(element, reason) -> packets that died there."""
        self._require_open()
        found = {}
        for index, element in enumerate(self.plan.elements):
            for reason, count in self.engine.drops(index).items():
                found[element.name, reason] = count
        for what in ("exhausted", "too_long"):
            if self.arena.counter(what):
                found["pool", what.replace("_", " ")] = self.arena.counter(what)
        return found

    def edge_counts(self) -> dict[Connection, int]:
        """Packets over each connection, where the router was made with `counted`."""
        edges = self.plan.edges
        return {edges[e.name]: int(e.cell("count").value) for e in self.plan.elements if e.name in edges}

    def holders(self) -> dict[str, int]:
        """Element -> packets it holds in rings and slots."""
        found: dict[str, int] = {}
        for index, linked in enumerate(self.plan.program.instances):
            for state in linked.unit.states:
                if state.kind in ("ring", "slots"):
                    held = sum(f >= 0 for f in self.engine.cells[index][state.name].dump())
                    if held:
                        found[linked.name] = found.get(linked.name, 0) + held
        return found

    def conservation(self) -> Ledger:
        """Where every frame is, and whether all accounts agree."""
        return self.at_rest(lambda: ledger(self))  # type: ignore[no-any-return]

    # -- the end

    def close(self) -> None:
        """Ends the elements' Python work and sends every packet home; a packet without a holder is a bug of ours."""
        if self.closed:
            return
        if not self._turn.acquire(blocking=False):
            raise MezzoError("the router runs: call `please_stop`, and `close` it when `run` has returned")
        self.changing.end()
        self.closed = True
        self.handlers.forget()
        self._turn.release()
        cleanups = [element.cleanup for element in self.elements.values()]
        # Programs and sockets first: what the kernel may still write to is freed last.
        faces = [*([self.eye.close] if self.eye is not None else []), self.control.close]
        run_all(*faces, self.ports.close, *cleanups, self._send_home, self._free_ports, *self._endings())

    def _free_ports(self) -> None:
        for trouble in self.ports.free():
            self.say(trouble)

    def _endings(self) -> list[Callable[[], object]]:
        team = [self.team.close] if self.team is not None else []
        return [*team, self.engine.close, self.levels.close, self.arena.close]

    def _send_home(self) -> None:
        """Every frame becomes free; one that nobody had on account is a bug of ours."""
        found = ledger(self)
        for index, linked in enumerate(self.plan.program.instances):
            for state in linked.unit.states:
                if state.kind in ("ring", "slots"):
                    self._empty(self.engine.cells[index][state.name], state.kind)
        for frame in [*self.arena.ring_frames()] if found.in_rings else []:
            self.arena.give_frame(frame)
        lost = list(self.arena.live_frames()) if self.arena.held else []
        assert not lost, f"{len(lost)} packets have no holder: frames {lost[:8]}"
        assert found.balanced, "; ".join(found.troubles())

    def _empty(self, cell: Any, kind: str) -> None:
        if kind == "ring":
            while (frame := cell.pop()) >= 0:
                self.arena.free(frame)
        else:
            for index in range(len(cell)):
                if cell.used(index):
                    self.arena.free(cell.take(index))

    def __enter__(self) -> Router:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
