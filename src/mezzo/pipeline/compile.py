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
from typing import Any

from mezzo.base import Diagnostic, MezzoError, Reporter
from mezzo.elements import confparse, library
from mezzo.elements.args import Env
from mezzo.elements.element import Element
from mezzo.elements.scheduler import Scheduler
from mezzo.elements.wiring import Wired, reachable
from mezzo.frontends.click import parse_click
from mezzo.frontends.python import translate
from mezzo.graph import Connection, Graph, Instance, Resolved, assemble, check
from mezzo.ir.linear import check_linear
from mezzo.ir.module import Linked, Program, Unit
from mezzo.ir.spec import check_unit
from mezzo.passes import PIPELINE
from mezzo.pipeline.edges import count_edges
from mezzo.pipeline.link import link


@dataclass
class Plan:
    """A configured router, ready to be built: elements[0] is the scheduler, like the program's instances."""

    graph: Graph
    resolved: Resolved
    elements: list[Element]
    program: Program
    warnings: list[Diagnostic] = field(default_factory=list)
    edges: dict[str, Connection] = field(default_factory=dict)  # hidden counters; see pipeline/edges

    def by_name(self) -> dict[str, Element]:
        return {e.name: e for e in self.elements[1:] if e.name not in self.edges}


def compile_text(
    text: str,
    file: str = "config",
    variables: Mapping[str, str] | None = None,
    library_path: Sequence[Path] = (),
    virtual: bool = False,
    counted: bool = False,
) -> Plan:
    """The plan of a configuration in the Click language; `counted`: with a counter on every connection."""
    flat = parse_click(text, file, variables or {}, library_path, is_class, library.names_of_files())
    return compile_graph(assemble(flat), virtual, folder=str(Path(file).parent), counted=counted)


def compile_graph(
    graph: Graph, virtual: bool = False, made: Mapping[str, Element] | None = None, folder: str = ".", counted: bool = False
) -> Plan:
    """The plan of a graph.  `made`: elements that exist already, by name (graphs built in Python)."""
    given, edges = graph, dict[str, Connection]()
    if counted:
        # Errors about ports must show the graph as it was written.
        check_graph(graph)
        graph, edges = count_edges(graph)
    resolved, elements, warnings = configure_graph(graph, made, folder)
    # Constants are known now; translate once per distinct class and configuration.
    units = translate_all(elements)
    # Who is reached by what is a matter of the graph alone.
    tasks, timers, linked = link(resolved, elements, units)
    scheduler = make_scheduler(virtual, len(tasks), len(timers))
    program = Program((scheduler[1], *linked), tasks, timers)
    return Plan(given, resolved, [scheduler[0], *elements], program, warnings, edges)


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


def guard_loops(resolved: Resolved) -> Graph:
    """The graph with a LoopGuard on each push connection that closes a loop."""
    graph = resolved.graph
    closing = closing_connections(resolved)
    kept = tuple(c for c in graph.connections if c not in closing)
    guarded = replace(graph, connections=kept, warnings=())
    for number, c in enumerate(closing):
        name = f"loop@{number + 1}"
        guarded = guarded.with_instance(Instance(name, "LoopGuard", "", c.span))
        guarded = guarded.with_connection(Connection(c.src, c.src_port, name, 0, c.span))
        guarded = guarded.with_connection(Connection(name, 0, c.dst, c.dst_port, c.span))
    return guarded


def closing_connections(resolved: Resolved) -> list[Connection]:
    """Push connections that lead back to an element on the way from a source, found depth first."""
    graph, found = resolved.graph, []
    done: set[str] = set()
    roots = sorted(graph.instances, key=lambda n: "push" in resolved.input_kinds[n])  # sources first
    for root in roots:
        if root in done:
            continue
        path = {root}
        stack = [(root, iter(push_outputs(resolved, root)))]
        while stack:
            name, rest = stack[-1]
            connection = next(rest, None)
            if connection is None:
                stack.pop()
                path.discard(name)
                done.add(name)
            elif connection.dst in path:
                found.append(connection)
            elif connection.dst not in done:
                path.add(connection.dst)
                stack.append((connection.dst, iter(push_outputs(resolved, connection.dst))))
    return found


def push_outputs(resolved: Resolved, name: str) -> list[Connection]:
    kinds = resolved.output_kinds[name]
    return [c for c in resolved.graph.outputs_of(name) if kinds[c.src_port] == "push"]


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
        for trouble in element.setup(words, env):
            reporter.error(f"{element.name} :: {instance.cls}: {trouble}", instance.span)
        for warning in getattr(element, "warnings", ()):
            reporter.warn(f"{element.name} :: {instance.cls}: {warning}", instance.span)


def translate_all(elements: Sequence[Element]) -> list[Unit]:
    """The proved and rewritten unit of each element; equal elements get the same object."""
    known: dict[Any, Unit] = {}
    units = []
    for element in elements:
        key = unit_key(element)
        unit = known.get(key) if key is not None else None
        if unit is None:
            unit = prepare(translate(element))
            if key is not None:
                known[key] = unit
        units.append(unit)
    return units


def prepare(unit: Unit) -> Unit:
    """Proves a unit and runs the passes over it."""
    check_unit(unit)
    check_linear(unit)
    for one_pass in PIPELINE:
        unit = one_pass(unit)
    return unit


_NOT_CODE = {
    "name", "config", "serial", "wires_in", "wires_out", "words", "env", "cells", "engine", "router", "index", "troubles", "warnings", "args", "input_kinds", "output_kinds"
}  # fmt: skip


def unit_key(element: Element) -> Any:
    """What the packet code of an element depends on; None when that cannot be told cheaply."""
    facts: list[Any] = [type(element), tuple(s.size for s in element.state_declarations())]
    for name, value in sorted({**vars(element), **element.args}.items()):
        if name in _NOT_CODE and name not in element.args:
            continue
        if isinstance(value, (int, str, bytes, type(None))):
            facts.append((name, type(value), value))
        elif isinstance(value, (tuple, list)) and len(value) <= 64:
            facts.append((name, repr(value)))
        else:
            return None
    return tuple(facts)


def make_scheduler(virtual: bool, tasks: int, timers: int) -> tuple[Element, Linked]:
    scheduler = Scheduler(name="scheduler")
    # Powers of two, so that routers of like size share the scheduler's code.
    places = max(2, 1 << (tasks + timers).bit_length())
    troubles = scheduler.setup([f"VIRTUAL {str(virtual).lower()}", f"NTASKS {tasks}", f"PLACES {places}"], Env())
    assert not troubles, troubles
    return scheduler, Linked("scheduler", prepare(translate(scheduler)))
