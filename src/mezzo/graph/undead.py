"""Takes dead code out of a graph: what no packet passes, and what does nothing to those that pass (`undead`).

1. Elements whose way is settled are put aside: Null, StaticSwitch, StaticPullSwitch.
2. An element is alive if a packet can come to it from a source and go on from it to a sink; Click asks no more than
   that there is a way, whatever the ports.  Elements without ports are alive, and so are those whose handlers the
   configuration of a living element names.
3. Inputs of schedulers and outputs of tees behind which all is dead go; one with a single port left goes itself.
4. What is still there and lost a neighbour gets an Idle in its place.

A sink takes packets out of the router: ToDevice, ToDump.  A Discard is one where it pulls; packets that are pushed
into a Discard need not have been made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from mezzo.base import Reporter
from mezzo.elements.confparse import join_args, split_args
from mezzo.graph.check import PortSpec, Resolved, check
from mezzo.graph.draft import Draft, port_counts
from mezzo.graph.graph import Connection, Graph, Instance

SCHEDULERS = ("RoundRobinSched", "PrioSched", "StrideSched", "DRRSched", "SimpleRoundRobinSched", "SimplePrioSched")
NO_SOURCES = {"Idle"}
NO_SINKS = {"Idle", "Discard", "DiscardNoFree"}
SOURCES = {"ICMPPingSource", "Socket", "RouterLink", "KernelTun", "KernelTap", "KernelTunTap"}
SINKS = {"ToDump", "ToIPSummaryDump", "ToHost", "ToSocket", "Socket", "RouterLink", "KernelTun", "KernelTap"}
SINKS |= {"KernelTunTap", "ToDevice", "ToUserDevice", "ToIPFlowDumps"}

_HANDLER = re.compile(r"([A-Za-z_][\w@]*(?:/[\w@]+)*)\.[a-z]\w*")
_NUMBER = re.compile(r"(?:(?:OUTPUT|INPUT|K)\s+)?(-?\d+)")


@dataclass
class Notes:
    """What became of the elements, for those who want to know why."""

    said: list[tuple[Instance, str]] = field(default_factory=list)

    def add(self, instance: Instance, what: str) -> None:
        self.said.append((instance, what))


def undead(
    graph: Graph,
    spec_of: Callable[[Instance], PortSpec],
    sources: Collection[str] = (),
    sinks: Collection[str] = (),
    notes: Notes | None = None,
) -> Graph:
    """The graph without its dead parts.  `sources`, `sinks`: further classes that are one."""
    notes = notes if notes is not None else Notes()
    inputs, outputs = port_counts(graph.connections)
    draft = Draft(graph)
    for name in draft.of_class("StaticSwitch"):
        _pass_switch(draft, name, notes)
    for name in draft.of_class("StaticPullSwitch"):
        _pass_pull_switch(draft, name, notes)
    for name in draft.of_class("Null"):
        _pass_null(draft, name, notes)
    _bury(draft, _Life(_resolved(draft, spec_of), sources, sinks, notes).living(), notes)
    while any([*_thin_schedulers(draft, inputs, notes), *_thin_tees(draft, outputs, notes)]):
        pass
    _close_ports(draft, inputs, outputs)
    return draft.graph()


def _resolved(draft: Draft, spec_of: Callable[[Instance], PortSpec]) -> Resolved:
    """Which ports push.  What is wrong with the graph is told by the check of it, not here: parts are missing now."""
    return check(draft.graph(), spec_of, Reporter())


# Elements whose way is settled


def _number(config: str) -> int | None:
    m = _NUMBER.fullmatch(config.strip())
    return int(m.group(1)) if m is not None else None


def _pass_switch(draft: Draft, name: str, notes: Notes) -> None:
    instance = draft.instances[name]
    chosen = _number(instance.config)
    if chosen is None:
        return
    ahead = draft.out_of(name, chosen)
    others = [c for c in draft.out_of(name) if c.src_port != chosen]
    idle = draft.add_anonymous("Idle") if others or not ahead else ""
    target = (ahead[0].dst, ahead[0].dst_port) if ahead else (idle, 0)
    for port, connection in enumerate(others):
        draft.lead_from(connection, (idle, port))
    for connection in draft.into(name):
        draft.lead_to(connection, target)
    draft.drop(name)
    notes.add(instance, f"always uses output {chosen}")


def _pass_pull_switch(draft: Draft, name: str, notes: Notes) -> None:
    instance = draft.instances[name]
    chosen = _number(instance.config)
    if chosen is None:
        return
    behind = draft.into(name, chosen)
    others = [c for c in draft.into(name) if c.dst_port != chosen]
    idle = draft.add_anonymous("Idle") if others or not behind else ""
    source = (behind[0].src, behind[0].src_port) if behind else (idle, 0)
    for port, connection in enumerate(others):
        draft.lead_to(connection, (idle, port))
    for connection in draft.out_of(name):
        draft.lead_from(connection, source)
    draft.drop(name)
    notes.add(instance, f"always uses input {chosen}")


def _pass_null(draft: Draft, name: str, notes: Notes) -> None:
    into, out_of = draft.into(name), draft.out_of(name)
    if not _join(draft, name, into, out_of):
        return
    notes.add(draft.instances[name], "does nothing")
    draft.drop(name)


def _join(draft: Draft, name: str, into: list[Connection], out_of: list[Connection]) -> bool:
    """Lead the connections of an element past it; False where many come in and many go out."""
    round_trip = any(c.src == name for c in into)
    if len(into) > 1 and len(out_of) > 1:
        return False
    if len(into) == 1 and not round_trip:
        for connection in out_of:
            draft.lead_from(connection, (into[0].src, into[0].src_port))
    elif len(out_of) == 1 and not round_trip:
        for connection in into:
            draft.lead_to(connection, (out_of[0].dst, out_of[0].dst_port))
    return True


# Life


@dataclass
class _Life:
    """Finds the living elements."""

    resolved: Resolved
    more_sources: Collection[str]
    more_sinks: Collection[str]
    notes: Notes

    def living(self) -> set[str]:
        instances = self.resolved.graph.instances
        starts = [n for n, i in instances.items() if self._is(i, "source")]
        ends = [n for n, i in instances.items() if self._is(i, "sink")]
        living = self._spread(starts, forward=True) & self._spread(ends, forward=False)
        living |= {n for n in instances if not self.resolved.ninputs[n] and not self.resolved.noutputs[n]}
        living -= {n for n, i in instances.items() if i.cls == "Idle"}
        return living | self._named(living)

    def _is(self, instance: Instance, what: str) -> bool:
        found = self._is_source(instance) if what == "source" else self._is_sink(instance)
        if found:
            self.notes.add(instance, f"is a {what}")
        return found

    def _is_source(self, instance: Instance) -> bool:
        if instance.cls in SOURCES or instance.cls in self.more_sources:
            return True
        has_ports = self.resolved.noutputs[instance.name] and not self.resolved.ninputs[instance.name]
        return bool(has_ports) and instance.cls not in NO_SOURCES

    def _is_sink(self, instance: Instance) -> bool:
        if instance.cls in SINKS or instance.cls in self.more_sinks:
            return True
        kinds = self.resolved.input_kinds[instance.name]
        if not kinds or self.resolved.noutputs[instance.name]:
            return False
        return instance.cls not in NO_SINKS or (instance.cls != "Idle" and "pull" in kinds)

    def _spread(self, starts: Iterable[str], forward: bool) -> set[str]:
        """What packets reach from these elements, or reach these elements from; nothing passes an Idle."""
        graph = self.resolved.graph
        reached, waiting = set(starts), list(starts)
        while waiting:
            name = waiting.pop()
            if graph.instances[name].cls == "Idle":
                continue
            near = [c.dst for c in graph.outputs_of(name)] if forward else [c.src for c in graph.inputs_of(name)]
            new = [n for n in dict.fromkeys(near) if n not in reached]
            reached.update(new)
            waiting += new
        return reached

    def _named(self, living: set[str]) -> set[str]:
        """The elements whose handlers living ones name, and so on."""
        instances = self.resolved.graph.instances
        named: set[str] = set()
        waiting = list(living)
        while waiting:
            words = _HANDLER.findall(instances[waiting.pop()].config)
            new = {w for w in words if w in instances} - living - named
            named |= new
            waiting += new
        return named


def _bury(draft: Draft, living: set[str], notes: Notes) -> None:
    for name in [n for n in draft.instances if n not in living]:
        if draft.instances[name].cls != "Idle":
            notes.add(draft.instances[name], "is dead")
        draft.drop(name)


# Ports that nothing uses any more


def _thin_schedulers(draft: Draft, inputs: dict[str, int], notes: Notes) -> list[str]:
    return [name for name in draft.of_class(*SCHEDULERS) if _thin_scheduler(draft, name, inputs, notes)]


def _thin_scheduler(draft: Draft, name: str, inputs: dict[str, int], notes: Notes) -> bool:
    """Close up the inputs; True where the scheduler went."""
    instance, into = draft.instances[name], sorted(draft.into(name), key=lambda c: c.dst_port)
    used = sorted({c.dst_port for c in into})
    args = split_args(instance.config)
    if instance.cls == "StrideSched":
        if len(args) != inputs.get(name, 0):
            return False
        draft.configure(name, join_args(args[port] for port in used))
    if len(into) == 1 and _join(draft, name, into, draft.out_of(name)):
        notes.add(instance, "has one input only")
        draft.drop(name)
        return True
    for connection in into:
        draft.lead_to(connection, (name, used.index(connection.dst_port)))
    inputs[name] = len(used)
    return False


def _thin_tees(draft: Draft, outputs: dict[str, int], notes: Notes) -> list[str]:
    return [name for name in draft.of_class("Tee", "PullTee") if _thin_tee(draft, name, outputs, notes)]


def _thin_tee(draft: Draft, name: str, outputs: dict[str, int], notes: Notes) -> bool:
    """Close up the outputs; True where the tee went."""
    instance, out_of = draft.instances[name], sorted(draft.out_of(name), key=lambda c: c.src_port)
    used = sorted({c.src_port for c in out_of})
    if instance.cls == "PullTee" and 0 not in used:  # by output 0 it is asked
        used.insert(0, 0)
    if used == [0] and len(out_of) == 1 and _join(draft, name, draft.into(name), out_of):
        notes.add(instance, "has one output only")
        draft.drop(name)
        return True
    for connection in out_of:
        draft.lead_from(connection, (name, used.index(connection.src_port)))
    if len(used) != outputs.get(name, 0) and instance.config:
        draft.configure(name, str(len(used)))
    outputs[name] = len(used)
    return False


def _close_ports(draft: Draft, inputs: dict[str, int], outputs: dict[str, int]) -> None:
    """Join the ports that had a neighbour to one Idle."""
    open_inputs = [(n, p) for n in draft.instances for p in range(inputs.get(n, 0)) if not draft.into(n, p)]
    open_outputs = [(n, p) for n in draft.instances for p in range(outputs.get(n, 0)) if not draft.out_of(n, p)]
    if not open_inputs and not open_outputs:
        return
    idle = draft.add_anonymous("Idle")
    for number, (name, port) in enumerate(open_inputs):
        draft.connect(Connection(idle, number, name, port))
    for number, (name, port) in enumerate(open_outputs):
        draft.connect(Connection(name, port, idle, number))
