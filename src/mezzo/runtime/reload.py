"""Another configuration takes the place of the one that runs (docs/design/0004, "Hot reload").

    compile ─► diff ─► prepare ─► swap, at a quiescent point ─► after
    (the old graph forwards all the while)   (nobody runs)      (the new one forwards)

The new router is made whole beside the old one, on the same arena, and at the swap state moves: words are copied,
bodies stay where they are.  Whatever may fail for reasons of the user's fails before the swap, and leaves nothing.

An element that is the same in both goes on as the object that it is.  One whose arguments changed is a new object that
takes over the state that its configuration has not just set (`Element.hands_over`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.elements import library
from mezzo.elements.element import ConfigError, Element, Seats
from mezzo.elements.scheduler import Scheduler
from mezzo.elements.store import make_cell
from mezzo.frontends.click import parse_click
from mezzo.graph import Graph, assemble
from mezzo.graph.diff import ADD, CLOSE, HAND_OVER, KEEP, OPEN, REMOVE, REPLACE, Action, Facts, Side, counts, diff
from mezzo.ir.module import State
from mezzo.pipeline import Plan, compile_graph, compile_text
from mezzo.pipeline.compile import is_class
from mezzo.ports.change import Change
from mezzo.runtime.levels import Levels
from mezzo.runtime.turns import Turns
from mezzo.targets import load_target

if TYPE_CHECKING:
    from mezzo.runtime.router import Router


@dataclass(frozen=True)
class Report:
    """What a reload did.  `lost`: packets that went with elements that held them; `blackout_ns`: how long no packet
    code ran; `reopened`: devices that were closed and opened again meanwhile."""

    actions: tuple[Action, ...]
    blackout_ns: int
    lost: Mapping[str, int] = field(default_factory=dict)
    reopened: tuple[str, ...] = ()

    def __str__(self) -> str:
        told = {KEEP: "kept", HAND_OVER: "handed over", REPLACE: "replaced", ADD: "added", REMOVE: "removed"}
        found = counts(self.actions)
        words = [f"{word} {found[what]}" for what, word in told.items() if found.get(what)]
        words += [f"{word} {found[what]}" for what, word in ((OPEN, "opened"), (CLOSE, "closed")) if found.get(what)]
        words += [f"reopened {', '.join(self.reopened)}"] if self.reopened else []
        words += [f"lost {n} packet{'s' * (n != 1)} of {name}" for name, n in self.lost.items()]
        return f"{', '.join([*words, f'blackout {self.blackout_ns / 1e6:.2f} ms'])}\n"

    def as_dict(self) -> dict[str, Any]:
        rows = [{"what": a.what, "name": a.name, "why": a.why} for a in self.actions]
        more = {"lost": dict(self.lost), "reopened": list(self.reopened)}
        return {"actions": rows, "counts": counts(self.actions), "blackout_ms": self.blackout_ns / 1e6, **more}


# -- what is to be done


def side_of(plan: Plan) -> Side:
    """A plan as `graph.diff` wants it; as it was written, without what the compiler put in."""
    units = {x.name: x.unit for x in plan.program.instances}
    mine = plan.by_name()
    facts = {
        name: Facts(
            type(e).__name__,
            tuple(e.words),
            (e.input_kinds, e.output_kinds),
            f"{units[name].digest} {units[name].states}",
            (e.device,) if hasattr(e, "make_port") else (),
        )
        for name, e in mine.items()
    }
    return Side(facts, tuple(plan.graph.connections))


def what_to_do(old: Plan, new: Plan) -> tuple[Action, ...]:
    return diff(side_of(old), side_of(new))


@dataclass(frozen=True)
class Heir:
    """An element that has a place in both programs.  `moved`: states that go along as they are; `fitted`: those of
    another size or type."""

    name: str
    old: int
    new: int
    kept: bool
    moved: frozenset[str]
    fitted: tuple[str, ...] = ()


class Coming:
    """The router as elements see it that are not of it yet: what is beside them are those of the new graph."""

    def __init__(self, router: Router, elements: Mapping[str, Element]) -> None:
        self._router, self.elements = router, elements

    def __getattr__(self, name: str) -> Any:
        return getattr(self._router, name)


class Reload:
    """One reload of a router, from a plan on."""

    def __init__(self, router: Router, plan: Plan, text: str, actions: tuple[Action, ...] | None = None) -> None:
        self.router, self.before, self.plan, self.text = router, router.plan, plan, text
        self.actions = actions or what_to_do(router.plan, plan)
        self.what = {a.name: a.what for a in self.actions if a.what in (KEEP, HAND_OVER, REPLACE, ADD, REMOVE)}
        self.set_up: list[Element] = []  # new elements that are initialized
        self.engine: Any = None
        self.lost: dict[str, int] = {}
        self.blackout_ns = 0
        self.trouble: BaseException | None = None
        self.is_made = False  # the swap was begun

    def run(self) -> Report:
        """Prepares, swaps, and cleans up; MezzoError says why not, and then nothing has changed."""
        self.make_ready()
        try:
            self.router.at_quiescence(self.swap_at_once, self.after)
        finally:
            if not self.is_made:
                self.give_up()
        if not self.is_made:
            raise self.trouble or MezzoError("the router is closed")
        return self.report()

    def make_ready(self) -> None:
        """All that can be done while the old graph forwards, and may fail."""
        self.require()
        try:
            self.prepare()
        except BaseException:
            self.give_up()
            raise

    def report(self) -> Report:
        return Report(self.actions, self.blackout_ns, self.lost, self.ports.reopened)

    def require(self) -> None:
        """What cannot change while the router runs."""
        threads = self.plan.threading.count if self.plan.threading is not None else 1
        if threads != self.router.threads:
            raise MezzoError(f"the number of threads stays while a router runs: {self.router.threads}, not {threads}")

    # -- beside the old graph

    def prepare(self) -> None:
        router, plan = self.router, self.plan
        olds = {e.name: (i, e) for i, e in enumerate(self.before.elements)}
        self.reopened = self._reopened()
        self.heirs: list[Heir] = []
        cells: list[dict[str, Any]] = []
        self.fresh: list[Element] = []
        places: list[int] = []
        for i, element in enumerate(plan.elements):
            what = self.what.get(element.name)
            old = olds.get(element.name)
            if what not in (KEEP, HAND_OVER) and not (old is not None and self._is_hidden(element, old[1])):
                old = None
            if old is not None and not isinstance(element, Scheduler):
                heir = self._heir(element, i, *old)
                self.heirs.append(heir)
                if heir.kept:
                    plan.elements[i] = plan.linker.elements[i - 1] = old[1]
                    cells.append({s.name: make_cell(s) for s in plan.program.instances[i].unit.states})
                    continue
            self.fresh.append(element)
            places.append(i)
            cells.append(element.all_cells())
        self.engine = self._build(cells)
        self.inherit = load_target(router.target).inherit
        if router.target == "native":
            self.engine.memory.touch()
        self._keep()
        self.elements = plan.by_name()
        coming = Coming(router, self.elements)
        for i, element in zip(places, self.fresh, strict=True):
            element.bind(self.seats, i)
            element.router = coming
        self.turned, self.orphans = self._turned(), self._orphans()
        self.told = [
            (plan.elements[h.new], self.before.elements[h.old])
            for h in self.heirs
            if type(plan.elements[h.new]).moved is not Element.moved
        ]
        self.begun = [i for i in places if plan.program.instances[i].unit.function("init") is not None]
        self.turns = Turns(self.before, plan, [(h.old, h.new) for h in self.heirs], self.turned)
        tasks = plan.program.instances
        self.tasks = {h.name: tasks[h.new].task for h in self.heirs if h.kept}
        if router.team is not None:
            router.team.invite(self.engine, plan.threading)
        if self.levels.parts:
            self.levels.lend(self.fresh)
        self.ports = Change(router.ports, plan.elements, router.arena)
        self._initialize(olds)

    def _keep(self) -> None:
        """Works out how what is kept moves, with nothing left to do for each while nobody runs."""
        old, self.seats = self.router.engine, Seats(self.engine, len(self.plan.elements))
        self.moving = load_target(self.router.target).moving(self.engine, old)
        self.stay = [h for h in self.heirs if h.kept and self.moving.keep(h.new, h.old)]
        whole = {h.new for h in self.stay}
        self.each = [h for h in self.heirs if h.new not in whole]
        self.then = list(self.router.seats.at)
        for heir in self.heirs:
            if heir.kept:
                self.then[heir.old] = self.engine, heir.new

    def _is_hidden(self, element: Element, old: Element) -> bool:
        """Of what the compiler put in (counters of connections, guards of loops), what is the same stays."""
        return element.name not in self.what and type(old) is type(element)

    def _reopened(self) -> set[str]:
        """Ends of devices that do not go on as they are, because another end of theirs is another."""
        sides = [
            {(e.method, e.device_key, e.name) for e in plan.elements if hasattr(e, "make_port")}
            for plan in (self.before, self.plan)
        ]
        changed = {(m, d) for m, d, name in sides[0] ^ sides[1]}
        changed |= {(m, d) for m, d, name in sides[1] if self.what.get(name) != KEEP}
        # A device that has something in the kernel in one, and nothing in the other, is opened otherwise.
        turned = devices_below(self.before) ^ devices_below(self.plan)
        changed |= {(m, d) for m, d, _ in sides[1] if d in turned}
        changed |= {key for key, port in self.router.ports.all.items() if port.is_back()}
        return {name for m, d, name in sides[1] if (m, d) in changed}

    def _orphans(self) -> list[tuple[int, str]]:
        """Places of packets that nobody takes over."""
        taken = {(h.old, name) for h in self.heirs for name in (*h.moved, *h.fitted)}
        places = [(i, s) for i, x in enumerate(self.before.program.instances) for s in x.unit.states]
        return [(i, s.name) for i, s in places if s.kind in ("ring", "slots") and (i, s.name) not in taken]

    def _turned(self) -> set[str]:
        """Elements whose tasks look anew: what they waited for may have come already, where they are connected
        otherwise than before, or where they are told otherwise what to do."""
        before, after = (set(plan.resolved.graph.connections) for plan in (self.before, self.plan))
        ends = {name for c in before ^ after for name in (c.src, c.dst)}
        told = {h.name for h in self.heirs if not h.kept and self.plan.elements[h.new].wants_task}
        return ends | told

    def _heir(self, element: Element, new: int, old: int, was: Element) -> Heir:
        mine = {s.name: s for s in self.plan.program.instances[new].unit.states}
        its = {s.name: s for s in self.before.program.instances[old].unit.states}
        stays = self.what.get(element.name, KEEP) == KEEP and element.name not in self.reopened
        if stays and mine == its and not self.what_changes(element, was):
            return Heir(element.name, old, new, True, frozenset(mine))
        names = [n for n in element.hands_over(was) if n in mine and n in its and mine[n].kind == its[n].kind]
        moved = frozenset(n for n in names if mine[n] == its[n])
        return Heir(element.name, old, new, False, moved, tuple(n for n in names if n not in moved))

    def what_changes(self, element: Element, was: Element) -> bool:
        """Whether an element of equal words must be another object after all: what the compiler put in has none."""
        return type(element) is not type(was) or element.words != was.words

    def _build(self, cells: list[dict[str, Any]]) -> Any:
        router, plan = self.router, self.plan
        more: dict[str, Any] = {**router.made_with, "whole": plan.whole}
        more |= {"threading": plan.threading} if plan.threading is not None else {}
        if router.trace is not None:
            more["trace"] = router.tracer(plan, router.trace)
        self.levels = Levels(plan, router.target)
        traced = router.trace is not None
        more |= self.levels.build(
            cells, router.arena.frame_size, more["seed"], more["cache"], traced, router.levels, self._whole()
        )
        engine = load_target(router.target).build(plan.program, router.arena, cells, router.hosts_of(plan), **more)
        self.levels.load()
        return engine

    def _whole(self) -> Callable[[str], bool]:
        """Which elements take over all that those before them have, so that in the kernel it may stay where it is."""
        units = {x.name: x.unit for x in self.plan.program.instances}
        whole = {h.name for h in self.heirs if h.moved >= {s.name for s in units[h.name].states}}
        return whole.__contains__

    def _initialize(self, olds: Mapping[str, tuple[int, Element]]) -> None:
        troubles = []
        names = self.plan.by_name()
        for element in self.fresh:
            if element.name not in names or self.ports.is_late(element):
                continue
            was = olds[element.name][1] if self.what.get(element.name) == HAND_OVER else None
            try:
                element.initialize_after(was)
                self.set_up.append(element)
            except (ConfigError, OSError) as trouble:
                written = self.plan.resolved.graph.instances.get(element.name)
                what = f"{element.name} :: {type(element).__name__}: {trouble}"
                troubles.append(Diagnostic(what, written.span if written is not None else None))
        if troubles:
            raise MezzoError(*troubles)

    def give_up(self) -> None:
        """Nothing of the new graph stays."""
        undone: list[Callable[[], object]] = [element.cleanup for element in reversed(self.set_up)]
        if hasattr(self, "ports"):
            undone.append(self.ports.undo)
        if self.engine is not None:
            undone.append(self.engine.close)
        if hasattr(self, "levels"):
            undone.append(self.levels.close)
        self._do_all(undone)

    # -- while nobody runs

    def swap_at_once(self) -> None:
        """Without the collector, which would look at all objects of both graphs in the middle of it."""
        if self.router.changing.ending:
            return
        was = gc.isenabled()
        gc.disable()
        try:
            self.swap()
        finally:
            if was:
                gc.enable()

    def swap(self) -> None:
        router, old, new = self.router, self.router.engine, self.engine
        begun = router.rested_ns()
        try:
            self.ports.reopen(router)
        except Exception as trouble:  # the old graph goes on
            self.trouble = trouble
            if router.ports.dead:
                router.break_off(router.ports.dead)
            return
        self.is_made = True
        self.moving.apply()
        for heir in self.each:
            self.inherit(new, heir.new, old, heir.old, heir.moved)
            for name in heir.fitted:
                self._fit(heir, name, old, new)
        self.turns.move(old, new)
        router.seats.at = self.then
        for heir in self.each:
            if heir.kept:
                self.plan.elements[heir.new].bind(self.seats, heir.new)
        router.become(self.plan, self.seats, new, self.text, self.elements)
        for element in self.fresh:
            element.router = router
        if router.team is not None:
            router.team.join(new, self.tasks)
        self.ports.enter(router)
        self.left, router.levels = router.levels, self.levels
        for element, old_element in self.told:
            element.moved(old_element)
        for index in self.begun:
            new.call(index, "init")
        self._send_home(old)
        for told in router.on_change:
            told()
        self.blackout_ns = time.monotonic_ns() - begun

    def _fit(self, heir: Heir, name: str, old: Any, new: Any) -> None:
        """State of another size or type: as much as there is room for."""
        mine, its = new.cells[heir.new][name], old.cells[heir.old][name]
        state = self.plan.program.instances[heir.new].unit.state(name)
        if state.kind == "ring":
            for frame in iter(its.pop, -1):
                if not mine.push(frame):
                    self._free(heir.name, frame)
        elif state.kind == "slots":
            for at in range(len(its)):
                frame = its.take(at)
                if frame >= 0 and not (at < len(mine) and mine.put(at, frame)):
                    self._free(heir.name, frame)
        else:
            mine.load(fitting(its.dump(), state, len(mine) if state.kind == "array" else 0))

    def _free(self, name: str, frame: int) -> None:
        self.router.arena.free(frame)
        self.lost[name] = self.lost.get(name, 0) + 1

    def _send_home(self, old: Any) -> None:
        """Frees what elements that are not in the new graph held."""
        for i, name in self.orphans:
            for frame in [f for f in old.cells[i][name].dump() if f >= 0]:
                self._free(self.before.program.instances[i].name, frame)

    # -- while the new graph forwards

    def after(self) -> None:
        """What went lets go of what it had.  Programs in the kernel are replaced now: each takes the kernel some ten
        milliseconds, in which packets that come meet the old one, whose ways and state are the new one's too."""
        if not self.is_made:
            return
        self.moving.settle()
        for heir in self.stay:
            self.plan.elements[heir.new].bind(self.seats, heir.new)
        if self.router.eye is not None:
            self.router.eye.replaced()
        if self.left.parts:
            self.levels.replace(self.left, self.router.ports)
            self.router.at_rest(self.engine.catch_up)
        kept = {id(e) for e in self.plan.elements}
        gone = [e for e in reversed(self.before.by_name().values()) if id(e) not in kept]
        for element in gone:
            self.router.forget(element)
        cleanups = [element.cleanup for element in gone]
        self._do_all([self.router.ports.start, *cleanups, lambda: self.ports.finish(self.router)])

    def _do_all(self, steps: Sequence[Callable[[], object]]) -> None:
        """What lets go of things; trouble of one is said, and does not keep the others from it."""
        for step in steps:
            try:
                step()
            except Exception as trouble:
                self.router.say(f"reload: {type(trouble).__name__}: {trouble}")


def devices_below(plan: Plan) -> set[str]:
    """The devices of what runs in the kernel."""
    kernel = plan.placement.kernel if plan.placement is not None else None
    return {*kernel.devices.values()} if kernel is not None else set()


def fitting(content: Any, state: State, size: int) -> Any:
    """What of the contents has room."""
    if state.kind == "array":
        return content[:size]
    return content[: state.size] if state.kind in ("table", "buffer") else content


def plan_like(router: Router, text: str) -> Plan:
    """Compiles a configuration as that of the router was.  It came without a name: places in it are of `hotconfig`, in
    the folder from which the names of files count."""
    source = router.source
    file = str(Path(source.get("file", "config")).with_name("hotconfig"))
    given = file, source.get("variables"), source.get("library_path", ())
    return compile_text(text, *given, router.virtual, **_running(router))


def graph_like(router: Router, graph: Graph) -> Plan:
    folder = str(Path(router.source.get("file", "config")).parent)
    return compile_graph(graph, router.virtual, folder=folder, **_running(router))


def _running(router: Router) -> dict[str, Any]:
    team = router.team
    more: dict[str, Any] = {"sleeps": team is not None, "stay": team.homes() if team is not None else {}}
    if router.plan.placement is not None:
        from mezzo.pipeline.numbering import ways_of  # with the kernel's target

        more["ways"] = ways_of(router.plan)
    return {
        "counted": bool(router.plan.edges),
        "threads": router.threads,
        "place": router.source.get("place", ()),
        **more,
    }


def graph_with(graph: Graph, name: str, written: str) -> Graph:
    """The graph with another element, as it is written in the Click language, in the place of one."""
    if name not in graph.instances:
        near = ", ".join(get_close_matches(name, graph.instances, 3, 0.6))
        hint = f"did you mean {near}?" if near else ""
        raise MezzoError(Diagnostic(f"there is no element `{name}`", hint=hint))
    made = parse_click(f"{name.replace('/', '_')} :: {written};", "replace", {}, (), is_class, library.names_of_files())
    if len(made.elements) != 1:
        raise MezzoError(Diagnostic(f"`{written}` is not one element", hint="write CLASS(CONFIG)"))
    (new,) = assemble(made).instances.values()
    return graph.with_instance(replace(new, name=name))
