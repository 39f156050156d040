"""What a pattern is, and whether a part of a graph matches it (`find`).

A part matches where its elements correspond one to one to the pattern's: same classes, same arguments (`$x` stands for
any one argument, the same at each use), every connection of the pattern there, and every other connection of these
elements allowed by a port of the pattern: one that comes in must come as `input [i]` of the pattern does, which leads
to all the places to which `input [i]` leads, and one that goes out likewise.  Each port of the pattern must be used.

The search starts with one element in one role and goes along the pattern's connections from there, so that it looks
at few elements however large the graph is.  A role that no connection leads to is tried with every element of its
class.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from mezzo.elements.confparse import split_args
from mezzo.graph.draft import Draft, Port
from mezzo.graph.graph import Connection, Graph, Instance

_VARIABLE = re.compile(r"\$[A-Za-z0-9_]+")


@dataclass(frozen=True)
class Shape:
    """A compound's inside: elements, their connections, and where its own ports lead to and come from."""

    roles: Mapping[str, Instance]
    connections: tuple[Connection, ...]
    inputs: Mapping[int, tuple[Port, ...]]
    outputs: Mapping[int, tuple[Port, ...]]
    through: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, graph: Graph) -> Shape:
        """From a graph in which `input` and `output` are elements without a class."""
        inputs: dict[int, tuple[Port, ...]] = {}
        outputs: dict[int, tuple[Port, ...]] = {}
        inner, through = [], []
        for c in graph.connections:
            if c.src == "input" and c.dst == "output":
                through.append((c.src_port, c.dst_port))
            elif c.src == "input":
                inputs[c.src_port] = (*inputs.get(c.src_port, ()), (c.dst, c.dst_port))
            elif c.dst == "output":
                outputs[c.dst_port] = (*outputs.get(c.dst_port, ()), (c.src, c.src_port))
            else:
                inner.append(c)
        roles = {name: instance for name, instance in graph.instances.items() if instance.cls}
        return cls(roles, tuple(inner), dict(sorted(inputs.items())), dict(sorted(outputs.items())), tuple(through))


@dataclass
class Match:
    """Which element plays which role, what the variables stand for, and which port each outer connection uses."""

    cast: dict[str, str]
    variables: dict[str, str] = field(default_factory=dict)
    into: list[tuple[Connection, int]] = field(default_factory=list)
    out_of: list[tuple[Connection, int]] = field(default_factory=list)


class Finder:
    """Looks for one shape; `origins` says which shape an element came from, by number."""

    def __init__(self, shape: Shape, number: int, origins: Mapping[str, int]) -> None:
        self.shape = shape
        self._number = number
        self._origins = origins
        self._arguments = {role: split_args(i.config) for role, i in shape.roles.items()}
        self._plans = {role: self._plan(role) for role in shape.roles}

    def roles_of(self, cls: str) -> list[str]:
        return [role for role, instance in self.shape.roles.items() if instance.cls == cls]

    def find(self, draft: Draft, role: str, name: str) -> Match | None:
        """A match in which this element plays this role, or None."""
        match = Match({role: name})
        if not self._suits(draft, role, name, match):
            return None
        return next(self._extended(draft, self._plans[role], 0, match), None)

    # The search

    def _plan(self, start: str) -> list[tuple[str, Connection | None]]:
        """The other roles in the order in which they are cast, each with a connection to one that is cast before."""
        plan: list[tuple[str, Connection | None]] = []
        known = {start}
        while len(known) < len(self.shape.roles):
            step = next((c for c in self.shape.connections if (c.src in known) != (c.dst in known)), None)
            if step is None:
                role = next(r for r in self.shape.roles if r not in known)
            else:
                role = step.dst if step.src in known else step.src
            plan.append((role, step))
            known.add(role)
        return plan

    def _extended(
        self, draft: Draft, plan: list[tuple[str, Connection | None]], depth: int, match: Match
    ) -> Iterator[Match]:
        if depth == len(plan):
            if self._allowed(draft, match):
                yield match
            return
        role, along = plan[depth]
        for name in self._candidates(draft, role, along, match):
            grown = Match({**match.cast, role: name}, dict(match.variables))
            if name not in match.cast.values() and self._suits(draft, role, name, grown):
                yield from self._extended(draft, plan, depth + 1, grown)

    def _candidates(self, draft: Draft, role: str, along: Connection | None, match: Match) -> list[str]:
        if along is None:
            return draft.of_class(self.shape.roles[role].cls)
        if along.dst == role:
            near = draft.out_of(match.cast[along.src], along.src_port)
            return [c.dst for c in near if c.dst_port == along.dst_port]
        near = draft.into(match.cast[along.dst], along.dst_port)
        return [c.src for c in near if c.src_port == along.src_port]

    def _suits(self, draft: Draft, role: str, name: str, match: Match) -> bool:
        """Class and arguments; what variables stand for is noted in the match."""
        instance = draft.instances[name]
        if instance.cls != self.shape.roles[role].cls:
            return False
        wanted, given = self._arguments[role], split_args(instance.config)
        if len(wanted) != len(given):
            return False
        for pattern, text in zip(wanted, given, strict=True):
            variable = _VARIABLE.fullmatch(pattern) is not None
            if match.variables.setdefault(pattern, text) != text if variable else pattern != text:
                return False
        return True

    # Connections

    def _allowed(self, draft: Draft, match: Match) -> bool:
        cast = match.cast
        if all(self._origins.get(name) == self._number for name in cast.values()):
            return False  # what a pattern put there is not replaced by the same pattern again
        wanted = {Connection(cast[c.src], c.src_port, cast[c.dst], c.dst_port) for c in self.shape.connections}
        if any(c not in draft for c in wanted):
            return False
        roles = {name: role for role, name in cast.items()}
        for name in roles:
            if not all(self._allows_in(draft, c, roles, wanted, match) for c in draft.into(name)):
                return False
            if not all(self._allows_out(draft, c, roles, match) for c in draft.out_of(name)):
                return False
        used_in, used_out = {port for _, port in match.into}, {port for _, port in match.out_of}
        return used_in == set(self.shape.inputs) and used_out == set(self.shape.outputs)

    def _allows_in(
        self, draft: Draft, c: Connection, roles: dict[str, str], wanted: set[Connection], match: Match
    ) -> bool:
        if c.src in roles:
            return c in wanted
        for port, ends in self.shape.inputs.items():
            reached = [Connection(c.src, c.src_port, match.cast[role], p) for role, p in ends]
            if (roles[c.dst], c.dst_port) in ends and all(other in draft for other in reached):
                match.into.append((c, port))
                return True
        return False

    def _allows_out(self, draft: Draft, c: Connection, roles: dict[str, str], match: Match) -> bool:
        if c.dst in roles:
            return True  # looked at as one that comes in
        for port, ends in self.shape.outputs.items():
            reached = [Connection(match.cast[role], p, c.dst, c.dst_port) for role, p in ends]
            if (roles[c.src], c.src_port) in ends and all(other in draft for other in reached):
                match.out_of.append((c, port))
                return True
        return False
