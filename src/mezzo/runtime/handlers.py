"""Handlers: the one door through which a running router is asked and told.

A path is `element.handler`, or the name of a global handler.  A read gives text; a write takes text and raises
HandlerError with a sentence for the caller.  Nothing else in mezzo reads or changes a running router.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mezzo import __version__
from mezzo.base import MezzoError
from mezzo.elements.element import Element, Handler
from mezzo.frontends.click import unparse
from mezzo.graph import Graph
from mezzo.ir.types import BOOL

if TYPE_CHECKING:
    from mezzo.runtime.router import Router


class HandlerError(MezzoError):
    """`code` is Click's ControlSocket code: 510 no such element, 511 no such handler, 520 the handler refused."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def show(value: Any) -> str:
    """A handler's value as text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


class Handlers:
    """Reads and writes of one router."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.unready: set[str] = set()  # elements whose `initialize` is still to come
        self.kept: dict[str, Callable[[], str]] = {}  # plain reads by path, as `plain` made them

    def read(self, path: str, argument: str = "") -> str:
        element, handler = self.find(path)
        if handler.read is None:
            raise HandlerError(511, f"`{path}` is a write handler: it cannot be read")
        try:
            return show(handler.read(element if element is not None else self.router, argument))
        except ValueError as trouble:
            raise HandlerError(520, f"{path}: {trouble}") from None

    def write(self, path: str, text: str = "") -> None:
        element, handler = self.find(path)
        if handler.write is None:
            raise HandlerError(511, f"`{path}` is a read handler: it cannot be written")
        try:
            handler.write(element if element is not None else self.router, text)
        except ValueError as trouble:
            raise HandlerError(520, f"{path}: {trouble}") from None

    def find(self, path: str) -> tuple[Element | None, Handler]:
        """The element (None: the router itself) and the handler of a path."""
        owner, dot, name = path.rpartition(".")
        if not dot or path in GLOBAL:
            found = GLOBAL.get(path)
            if found is not None:
                return None, found
            raise HandlerError(511, f"there is no global handler `{path}`; there are {', '.join(GLOBAL)}")
        element = self.router.elements.get(owner)
        if element is None and "." in owner:  # the handler of an element that speaks for others: `proxy.q.length`
            owner, _, name = path.partition(".")
            element = self.router.elements.get(owner)
        if element is None and owner.isdecimal() and len(owner) < 10 and 0 < int(owner) <= len(self.router.elements):
            element = list(self.router.elements.values())[int(owner) - 1]
        if element is None:
            near = ", ".join(_near(owner, list(self.router.elements)))
            raise HandlerError(510, f"there is no element `{owner}`" + (f"; did you mean {near}?" if near else ""))
        if element.name in self.unready and name in element.handler_table and name not in element.early:
            raise HandlerError(520, f"`{element.name}` is not ready: the router is still starting")
        handler = self.table(element).get(name) or element.other_handler(name)
        if handler is None:
            raise HandlerError(
                511, f"`{owner}` has no handler `{name}`; it has {', '.join(sorted(self.table(element)))}"
            )
        return element, handler

    def is_plain(self, path: str) -> bool:
        """Whether a read is that of one word of state, which is whole at any time: nobody need stop for it."""
        element, handler = self.find(path)
        spec = element.state_specs.get(handler.name) if element is not None else None
        return (
            spec is not None and handler.name in type(element).reads and spec.kind == "scalar" and spec.type.bits <= 64
        )

    def needs_rest(self, element: Element | None, handler: Handler) -> bool:
        """Whether a read looks at what packets change; what a configuration says it does not change while it runs."""
        own, names = (GLOBAL, BESIDE) if element is None else (STANDARD, STILL)
        return handler.name not in names or own[handler.name] is not handler

    def plain(self, path: str) -> Callable[[], str] | None:
        """What reads a word of state again and again, quickly; None where the handler is no plain read."""
        kept = self.kept
        if not self.is_plain(path):
            return None
        element, handler = self.find(path)
        assert element is not None
        cell, kind = element.cell(handler.name), element.state_specs[handler.name].type
        word = cell.word() if hasattr(cell, "word") else cell
        if kind is BOOL:
            made: Callable[[], str] = lambda: "true" if word.value else "false"  # noqa: E731
        else:
            made = lambda: str(word.value)  # noqa: E731
        return kept.setdefault(path, made)

    def forget(self) -> None:
        """Elements have changed: paths are to be looked up anew."""
        self.kept = {}  # another one: who is about to keep something of the elements before keeps it there

    def table(self, element: Element) -> dict[str, Handler]:
        """All handlers of an element: those every element has, those of a task's owner, its own."""
        tasks = TASK if self.router.task_of(element) >= 0 else {}
        return {**STANDARD, **tasks, **element.handler_table}

    def listing(self, element: Element) -> str:
        lines = []
        for name, h in sorted(self.table(element).items()):
            if not h.private:
                lines.append(f"{name}\t{'r' if h.read else ''}{'w' if h.write else ''}{h.flags}")
        return "\n".join(lines) + "\n"


def flat_text(graph: Graph) -> str:
    """A graph in the Click language."""
    return unparse(graph.instances, graph.connections, graph.requirements)


def config_text(router: Router) -> str:
    """The configuration as given; with require(compact_config) it is not kept, and the flat one stands for it."""
    graph = router.plan.graph
    return flat_text(graph) if "compact_config" in graph.requirements else router.text


def _near(name: str, names: list[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(name, names, 3, 0.6)


def _read(name: str, function: Callable[[Any], Any], doc: str) -> Handler:
    return Handler(name, read=lambda owner, text: function(owner), doc=doc)


def _ports(element: Element) -> str:
    """Click's form: the number of inputs, a line each, then the outputs."""
    graph = element.router.graph
    into, out_of = graph.inputs_of(element.name), graph.outputs_of(element.name)
    inputs = [
        (k, [f"{c.src} [{c.src_port}]" for c in into if c.dst_port == i]) for i, k in enumerate(element.input_kinds)
    ]
    outputs = [
        (k, [f"[{c.dst_port}] {c.dst}" for c in out_of if c.src_port == i]) for i, k in enumerate(element.output_kinds)
    ]
    lines = []
    for word, ports in (("input", inputs), ("output", outputs)):
        lines.append(f"{len(ports)} {word}{'' if len(ports) == 1 else 's'}")
        lines += [f"{kind}\t-\t{', '.join(ends)}" for kind, ends in ports]
    return "\n".join(lines) + "\n"


def _scheduled(element: Element) -> bool:
    return bool(element.router.engine.call(0, "is_scheduled", element.router.task_of(element)))


def _set_scheduled(element: Element, text: str) -> None:
    from mezzo.elements.args import Bool, Env

    wanted = Bool().parse(text.strip(), Env())
    element.router.engine.call(0, "wake" if wanted else "sleep", element.router.task_of(element))


def _set_tickets(element: Element, text: str) -> None:
    from mezzo.elements.args import Env, Int

    element.router.engine.call(
        0, "set_tickets", element.router.task_of(element), Int(1, 32768).parse(text.strip(), Env())
    )


def _tickets(element: Element) -> int:
    from mezzo.elements.scheduler import STRIDE1

    return STRIDE1 // int(element.router.scheduler_cells(element)["stride"][element.router.task_of(element)])


def _home_thread(element: Element) -> int:
    deal = element.router.plan.threading
    return 0 if deal is None else int(deal.tasks[element.router.task_of(element)])


def _threads(router: Router) -> str:
    """A line an element: name, threads, how it is shared among them, why."""
    from mezzo.pipeline.threads import described

    plan = router.plan
    rows = described(plan.program, plan.threading) if plan.threading is not None else []
    return _lines(["\t".join(row) for row in rows if row[0] in router.elements])


def _levels(router: Router) -> str:
    """A line an element: name, level, why; nothing where all is native because nobody wished otherwise."""
    placement = router.plan.placement
    return _lines([f"{row.name}\t{row.level}\t{row.why}" for row in placement.rows] if placement is not None else [])


def _thread_load(router: Router) -> str:
    desks = router.team.desks if router.team is not None else []
    names = ("rounds", "sleeps", "task_count", "timer_count")
    return _lines([f"{k} " + " ".join(str(d.cells[n].value) for n in names) for k, d in enumerate(desks)])


STANDARD = {
    "name": _read("name", lambda e: e.name, "the element's name"),
    "class": _read("class", lambda e: type(e).__name__, "its class"),
    "config": _read("config", lambda e: ", ".join(e.words), "its configuration string"),
    "ports": _read("ports", _ports, "its ports and what they are joined to"),
    "handlers": _read("handlers", lambda e: e.router.handlers.listing(e), "its handlers"),
    "drop_reasons": _read(
        "drop_reasons",
        lambda e: "".join(f"{n}\t{reason}\n" for reason, n in sorted(e.router.engine.drops(e.index).items())),
        "packets that died here, by reason",
    ),
}
TASK = {
    "scheduled": Handler("scheduled", lambda e, t: _scheduled(e), _set_scheduled, "is the task on the run queue"),
    "tickets": Handler("tickets", lambda e, t: _tickets(e), _set_tickets, "the task's share, 1 to 32768"),
    "home_thread": _read("home_thread", _home_thread, "the thread that runs the task"),
}


def _lines(items: list[str]) -> str:
    return "".join(f"{x}\n" for x in items)


def _counted(items: list[str]) -> str:
    return f"{len(items)}\n" + _lines(items)


def _classes() -> str:
    from mezzo.elements import library

    return _lines(library.names())


def _seeing() -> Any:
    """Only who looks needs it."""
    from mezzo.runtime import seeing_handlers

    return seeing_handlers


GLOBAL = {
    "version": _read("version", lambda r: __version__, "mezzo's version"),
    "driver": _read("driver", lambda r: "userlevel", "Click's word for where the router runs"),
    "config": _read("config", lambda r: config_text(r), "the configuration as given"),
    "flatconfig": _read("flatconfig", lambda r: flat_text(r.plan.graph), "the configuration without compounds"),
    "list": _read("list", lambda r: _counted(list(r.elements)), "the elements' names"),
    "classes": _read("classes", lambda r: _classes(), "all element classes"),
    "requirements": _read(
        "requirements", lambda r: _lines(list(r.graph.requirements)), "what the configuration requires"
    ),
    "packages": _read("packages", lambda r: "", "loaded packages (none: everything is built in)"),
    "handlers": _read(
        "handlers",
        lambda r: "".join(f"{n}\t{'r' if h.read else ''}{'w' if h.write else ''}\n" for n, h in sorted(GLOBAL.items())),
        "global handlers",
    ),
    "drops": _read(
        "drops",
        lambda r: "".join(f"{n}\t{e}\t{why}\n" for (e, why), n in sorted(r.drops().items())),
        "every drop: count, element, reason",
    ),
    "conservation": _read(
        "conservation", lambda r: r.conservation().table(), "where every frame of the arena is, and do accounts agree"
    ),
    "threads": _read("threads", _threads, "which threads meet in which element, and what that makes of its code"),
    "thread_load": _read(
        "thread_load", _thread_load, "of each thread: number, rounds, sleeps, tasks and timers waiting"
    ),
    "levels": _read("levels", _levels, "which elements are in the kernel, for all or part of their work, and why"),
    "hotconfig": Handler(
        "hotconfig",
        lambda r, form: r.last_reload(form),
        lambda r, text: r.hotconfig(text),
        "another configuration in the place of this one; reads what the last one did (`json`: as JSON)",
        "+",
    ),
    "replace": Handler(
        "replace", write=lambda r, text: r.hot_element(text), doc="NAME CLASS(CONFIG): another element in its place"
    ),
    "look": Handler(
        "look",
        lambda r, word: _seeing().seen(r, word),
        lambda r, text: _seeing().look(r, text),
        "a trace, a tap or the profile: JSON begins one; WORD: what it saw since the last time",
        "+",
    ),
    "unlook": Handler("unlook", write=lambda r, word: _seeing().unlook(r, word), doc="WORD: ends what `look` began"),
    "metrics": _read("metrics", lambda r: _seeing().metrics(r), "all numbers, as OpenMetrics text"),
    "snapshot": _read("snapshot", lambda r: _seeing().snapshot(r), "what `mezzo top` shows, as JSON"),
    "element_cycles.csv": _read(
        "element_cycles.csv", lambda r: _seeing().cycles(r), "the sampled profile, where one is under way"
    ),
    "active_ports": _read("active_ports", lambda r: _seeing().active_ports(r), "elements, their inputs and outputs"),
    "recorder": Handler(
        "recorder",
        lambda r, text: _seeing().recorded(r),
        lambda r, text: _seeing().dump(r, text),
        "of the flight recorder: what it has; FILE: writes FILE.pcapng and FILE.txt",
    ),
    "stop": Handler("stop", write=lambda r, text: r.please_stop(), doc="stops the router"),
}
CHANGES = {name: GLOBAL[name].write for name in ("hotconfig", "replace")}  # take long, and need rest only for a moment
# Reads that ask for rest themselves, as briefly as they can, or need none: what they tell stays until a reload puts
# another plan there.
BESIDE = frozenset({"look", "metrics", "snapshot"}) | {
    "version", "driver", "config", "flatconfig", "list", "classes", "requirements", "packages", "handlers",
}  # fmt: skip
STILL = frozenset({"name", "class", "config", "ports", "handlers"})  # the same of an element
