"""The whole road, step by step, each with its reason.

    text ─► parse ─► assemble ─► check ─► instantiate, configure ─► translate ─► prove ─► passes ─► link ─► Plan

Each step reports all the trouble it finds; the next one starts only when there was none, because its messages would be
about what the one before already said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError, Reporter, Span
from mezzo.elements import confparse, library
from mezzo.elements.args import Env
from mezzo.elements.element import PLACED, Element, Trouble
from mezzo.elements.scheduler import Scheduler
from mezzo.elements.thread_scheduler import ThreadScheduler
from mezzo.elements.wiring import Wired, reachable
from mezzo.frontends.click import parse_click
from mezzo.graph import Connection, Graph, Instance, Resolved, assemble, check
from mezzo.ir.module import Program, Unit
from mezzo.ir.sharing import Threading
from mezzo.pipeline.edges import count_edges
from mezzo.pipeline.link import Linker
from mezzo.pipeline.loops import guard_loops
from mezzo.pipeline.schedulers import check_threads, make_schedulers, wishes_of, with_schedulers
from mezzo.pipeline.threads import deal
from mezzo.pipeline.units import make, units_of
from mezzo.pipeline.wishes import is_ordered, wishes_for

if TYPE_CHECKING:
    from mezzo.pipeline.told import Placement


@dataclass
class Plan:
    """A configured router, ready to be built: elements[0] is the scheduler, like the program's instances."""

    graph: Graph
    resolved: Resolved
    elements: list[Element]
    program: Program
    linker: Linker
    warnings: list[Diagnostic] = field(default_factory=list)
    edges: dict[str, Connection] = field(default_factory=dict)  # hidden counters; see pipeline/edges
    placement: Placement | None = None  # where somebody wishes that something is in the kernel
    threading: Threading | None = None  # where there are several threads; the last elements are their schedulers

    @property
    def sleeps(self) -> bool:
        """Whether schedulers sleep by themselves, as they must beside other threads and descriptors."""
        return isinstance(self.elements[0], ThreadScheduler)

    def whole(self) -> Program:
        """The program with every unit's bodies: what a target asks for when the code is not on disk."""
        made: dict[str, Unit] = {}
        instances = []
        for element, linked in zip(self.elements, self.program.instances, strict=True):
            unit = linked.unit
            if unit.is_skeleton:
                if unit.digest not in made:
                    made[unit.digest] = make(element)
                unit = made[unit.digest]
            instances.append(replace(linked, unit=unit))
        return replace(self.program, instances=tuple(instances))

    def by_name(self) -> dict[str, Element]:
        hidden = {*self.edges, *(e.name for e in self.elements if isinstance(e, Scheduler))}
        return {e.name: e for e in self.elements if e.name not in hidden}


def compile_text(
    text: str,
    file: str = "config",
    variables: Mapping[str, str] | None = None,
    library_path: Sequence[Path] = (),
    virtual: bool = False,
    counted: bool = False,
    threads: int = 1,
    place: str | Sequence[str] = (),
    **running: Any,
) -> Plan:
    """The plan of a configuration in the Click language; `counted`: with a counter on every connection; `place`: what
    is to be in the kernel (see `wishes`); `running`: see `compile_graph`."""
    flat = parse_click(text, file, variables or {}, library_path, is_class, library.names_of_files())
    return compile_graph(
        assemble(flat),
        virtual,
        folder=str(Path(file).parent),
        counted=counted,
        threads=threads,
        place=place,
        **running,
    )


def compile_graph(
    graph: Graph,
    virtual: bool = False,
    made: Mapping[str, Element] | None = None,
    folder: str = ".",
    counted: bool = False,
    threads: int = 1,
    place: str | Sequence[str] = (),
    sleeps: bool = False,
    stay: Mapping[str, int] | None = None,
    ways: Sequence[tuple[str, int]] = (),
) -> Plan:
    """The plan of a graph.  `made`: elements that exist already, by name (graphs built in Python).  For one that takes
    the place of another: `sleeps`, its schedulers do; `stay`, the threads that elements are on; `ways`, those by which
    packets come up from the kernel (see `numbering`)."""
    check_threads(threads, virtual)
    given, edges = graph, dict[str, Connection]()
    if counted:
        # Errors about ports must show the graph as it was written.
        check_graph(graph)
        graph, edges = count_edges(graph)
    resolved, elements, warnings = configure_graph(graph, made, folder)
    # Constants are known now; translate once per distinct class and configuration.
    units = units_of(elements)
    # Who is reached by what is a matter of the graph alone.
    linker = Linker(resolved, elements, units)
    tasks, timers, linked = linker.run()
    # What goes into the kernel comes up again by outputs that its device inputs have natively.
    placement, wishes = None, wishes_for(place, elements, resolved.graph)
    if wishes:
        # Most routers need nothing of the kernel's target.
        from mezzo.pipeline.numbering import numbered_as
        from mezzo.pipeline.placement import place_elements, with_ups

        found = place_elements(linker, resolved, wishes, virtual, is_ordered(place, elements))
        placement = numbered_as(found, elements, ways)
        linker = with_ups(linker, resolved, placement)
        tasks, timers, linked = linker.run()
    schedulers = make_schedulers(virtual, len(tasks), len(timers), threads, sleeps or any(e.watches for e in elements))
    program = Program((schedulers[0][1], *linked), tasks, timers)
    everyone = [schedulers[0][0], *elements, *(element for element, _ in schedulers[1:])]
    own, strange = wishes_of(elements, threads, resolved.graph.instances)
    plan = Plan(given, resolved, everyone, program, linker, [*warnings, *strange], edges, placement=placement)
    if threads > 1:
        # Who meets whom on which thread decides how the code of each instance must be.
        dealt = deal(linker, program, threads, {**(stay or {}), **own})
        plan.threading, plan.warnings = with_schedulers(dealt.threading), [*plan.warnings, *dealt.warnings]
        plan.program = replace(program, instances=(*program.instances, *(one for _, one in schedulers[1:])))
    return plan


def check_graph(graph: Graph) -> Resolved:
    """Raises all that is wrong with ports and connections."""
    reporter = Reporter()
    resolved = check(graph, spec_of, reporter, library.names_of_files())
    reporter.raise_if_errors()
    return resolved


def configure_graph(
    graph: Graph, made: Mapping[str, Element] | None = None, folder: str = "."
) -> tuple[Resolved, list[Element], list[Diagnostic]]:
    """Checks a graph and configures its elements: all that `mezzo check` needs."""
    reporter = Reporter()
    # Port counts and push or pull are facts of the classes, so mistakes show before any element is configured.
    ask = partial(class_of, made or {})
    resolved = check(graph, ask, reporter, library.names_of_files())
    reporter.raise_if_errors()
    if resolved.loops:
        # A loop with a way out is sound for sound packets; a guard ends the others instead of the stack.
        resolved = check(guard_loops(resolved), ask, reporter)
        reporter.raise_if_errors()
        graph = resolved.graph
    elements = instantiate(resolved, made or {})
    configure(graph, elements, Env(folder=folder), reporter)
    reporter.raise_if_errors()
    return resolved, elements, reporter.warnings


def is_class(name: str) -> bool:
    return library.maybe_find(name) is not None


def spec_of(instance: Instance) -> type[Element]:
    """What `graph.check` asks of a class: its port codes."""
    found = library.maybe_find(instance.cls)
    if found is None:
        raise LookupError(instance.cls)
    return found


def class_of(made: Mapping[str, Element], instance: Instance) -> type[Element]:
    """The class of an instance that may exist already."""
    return type(made[instance.name]) if instance.name in made else spec_of(instance)


def graph_of(start: Wired) -> tuple[Graph, dict[str, Element]]:
    """The graph that an element wired in Python belongs to, and its elements by name."""
    elements = reachable(start.entry()[0])
    made: dict[str, Element] = {}
    for number, element in enumerate(elements, 1):
        element.name = element.name or f"{type(element).__name__}@{number}"
        if element.name in made:
            raise MezzoError(f"two elements are called `{element.name}`; give one another name=")
        made[element.name] = element
    instances = {n: Instance(n, type(e).__name__, e.config) for n, e in made.items()}
    wires = [Connection(e.name, out, to.name, into) for e in elements for out, to, into in e.wires_out]
    return Graph(instances, tuple(wires)), made


def picture(start: Wired) -> str:
    """The SVG of a graph written in Python."""
    return graph_of(start)[0]._repr_svg_()


Wired.picture = staticmethod(picture)


def instantiate(resolved: Resolved, made: Mapping[str, Element]) -> list[Element]:
    """An element per instance, in the order of the graph, its ports known."""
    elements = []
    for name, instance in resolved.graph.instances.items():
        element = made[name] if name in made else spec_of(instance)(name=name)
        element.ninputs, element.noutputs = resolved.ninputs[name], resolved.noutputs[name]
        element.input_kinds, element.output_kinds = resolved.input_kinds[name], resolved.output_kinds[name]
        elements.append(element)
    return elements


def configure(graph: Graph, elements: Sequence[Element], env: Env, reporter: Reporter) -> None:
    """Gives every element its arguments; those that define names for the others come first."""
    order = sorted(elements, key=lambda e: not getattr(e, "configure_first", False))
    for element in order:
        instance = graph.instances[element.name]
        words = confparse.split_args(instance.config)
        for number, trouble in enumerate(element.setup(words, env)):
            # Finding an argument goes through the whole text, which may be a table of megabytes.
            place = place_of(trouble, instance, len(words)) if number < PLACED else instance.span
            reporter.error(f"{element.name} :: {instance.cls}: {trouble}", place)
        for warning in getattr(element, "warnings", ()):
            reporter.warn(f"{element.name} :: {instance.cls}: {warning}", instance.span)


def place_of(trouble: str, instance: Instance, count: int) -> Span | None:
    """The argument that a trouble is about; the element where it is about none, or variables became several."""
    last, behind = instance.argument_span(count - 1), instance.argument_span(count)
    if not isinstance(trouble, Trouble) or last is instance.span or behind is not instance.span:
        return instance.span
    return instance.argument_span(trouble.argument)
