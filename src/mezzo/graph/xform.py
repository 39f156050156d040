"""Replaces parts of a graph that match patterns until none is left (`transform`).

Patterns are tried in their order, and from the first one again after each replacement, as click-xform does.  Only what
a replacement changed can match anew, so only its elements and their neighbours are looked at again.

An element that a replacement put there is `Pattern@N/name`, unless the pattern has an element of that name too: then it
keeps the name of the one it stands for, and with it its handlers' paths.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mezzo.base import Diagnostic, MezzoError, Span
from mezzo.elements.confparse import join_args, split_args
from mezzo.graph.draft import Draft
from mezzo.graph.graph import Connection, Graph, Instance
from mezzo.graph.pattern import Finder, Match, Shape

MOST_PER_ELEMENT = 10
MOST_AT_LEAST = 1000


@dataclass(frozen=True)
class Rule:
    """A pattern and its replacement."""

    name: str
    pattern: Shape
    replacement: Shape
    span: Span | None = None


def transform(graph: Graph, rules: Sequence[Rule]) -> tuple[Graph, Counter[str]]:
    """The graph with all matches replaced, and how often each rule was applied."""
    worker = _Worker(graph, rules)
    worker.run()
    return worker.draft.graph(), worker.applied


class _Worker:
    def __init__(self, graph: Graph, rules: Sequence[Rule]) -> None:
        self.draft = Draft(graph)
        self.applied: Counter[str] = Counter()
        self._rules = [rule for rule in rules if rule.pattern.roles]
        self._origins: dict[str, int] = {}
        self._finders = [Finder(rule.pattern, i, self._origins) for i, rule in enumerate(self._rules)]
        self._limit = max(MOST_AT_LEAST, MOST_PER_ELEMENT * len(graph.instances))
        counted = Counter(i.cls for i in graph.instances.values())
        # Elements that each pattern has to look at: at first those of its rarest class.
        self._waiting = [self._first(finder, counted) for finder in self._finders]
        self._numbers: Counter[str] = Counter()
        self._taken = {name.rpartition("/")[0] for name in graph.instances}

    def _first(self, finder: Finder, counted: Counter[str]) -> _Waiting:
        role = min(finder.shape.roles, key=lambda r: counted[finder.shape.roles[r].cls])
        waiting = _Waiting()
        for name in self.draft.of_class(finder.shape.roles[role].cls):
            waiting.add(role, name)
        return waiting

    def run(self) -> None:
        while self._step():
            if self.applied.total() > self._limit:
                raise self._endless()

    def _endless(self) -> MezzoError:
        often = [name for name, _ in self.applied.most_common(2)]
        names = " and ".join(f"`{name}`" for name in often)
        place = next(rule.span for rule in self._rules if rule.name == often[0])
        message = f"after {self._limit} replacements there is still something to replace: {names} go on for ever"
        hint = "a replacement must not make what another pattern replaces by the first again"
        return MezzoError(Diagnostic(message, place, hint=hint))

    def _step(self) -> bool:
        """Replace the first match there is."""
        for number, finder in enumerate(self._finders):
            waiting = self._waiting[number]
            while waiting:
                role, name = waiting.first()
                match = finder.find(self.draft, role, name) if name in self.draft.instances else None
                if match is not None:
                    self._replace(number, match)
                    return True
                waiting.drop_first()
        return False

    def _replace(self, number: int, match: Match) -> None:
        rule, draft = self._rules[number], self.draft
        names = self._add(rule, {role: draft.instances[name] for role, name in match.cast.items()}, match)
        self._connect(rule.replacement, names, match)
        for name in names.values():
            self._origins[name] = number
        self.applied[rule.name] += 1
        changed = [*names.values(), *(c.src for c, _ in match.into), *(c.dst for c, _ in match.out_of)]
        self._look_again(dict.fromkeys(changed))

    def _connect(self, shape: Shape, names: Mapping[str, str], match: Match) -> None:
        draft = self.draft
        for c in shape.connections:
            draft.connect(Connection(names[c.src], c.src_port, names[c.dst], c.dst_port))
        for c, port in match.into:
            for role, end in shape.inputs.get(port, ()):
                draft.connect(Connection(c.src, c.src_port, names[role], end))
        for c, port in match.out_of:
            for role, end in shape.outputs.get(port, ()):
                draft.connect(Connection(names[role], end, c.dst, c.dst_port))
        self._pass_through(shape, match)

    def _add(self, rule: Rule, old: dict[str, Instance], match: Match) -> dict[str, str]:
        """Put the new elements where the old ones were; their names by role."""
        draft, names = self.draft, {}
        prefix = self._prefix(rule.name) if set(rule.replacement.roles) - set(old) else ""
        first = match.cast[next(iter(rule.pattern.roles))]
        places = [draft.place_of(match.cast[role] if role in old else first) for role in rule.replacement.roles]
        for instance in old.values():
            draft.drop(instance.name)
            self._origins.pop(instance.name, None)
        for (role, instance), place in zip(rule.replacement.roles.items(), places, strict=True):
            name = old[role].name if role in old else f"{prefix}/{role}"
            args = [match.variables.get(arg, arg) for arg in split_args(instance.config)]
            draft.add(replace(instance, name=name, config=join_args(args), written=None), place)
            names[role] = name
        return names

    def _prefix(self, name: str) -> str:
        """`Name@N` under which no element is."""
        while True:
            self._numbers[name] += 1
            prefix = f"{name}@{self._numbers[name]}"
            if prefix not in self._taken:
                return prefix

    def _pass_through(self, shape: Shape, match: Match) -> None:
        """A replacement may join its input to its output."""
        for port_in, port_out in shape.through:
            for c, into in match.into:
                for d, out in match.out_of:
                    if (into, out) == (port_in, port_out):
                        self.draft.connect(Connection(c.src, c.src_port, d.dst, d.dst_port))

    def _look_again(self, changed: dict[str, None]) -> None:
        for number, finder in enumerate(self._finders):
            for name in changed:
                instance = self.draft.instances.get(name)
                for role in finder.roles_of(instance.cls) if instance is not None else ():
                    self._waiting[number].add(role, name)


class _Waiting:
    """What one pattern has to look at: an element in a role, each once, in the order of arrival."""

    def __init__(self) -> None:
        self._order: deque[tuple[str, str]] = deque()
        self._known: set[tuple[str, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._order)

    def add(self, role: str, name: str) -> None:
        if (role, name) not in self._known:
            self._known.add((role, name))
            self._order.append((role, name))

    def first(self) -> tuple[str, str]:
        return self._order[0]

    def drop_first(self) -> None:
        self._known.remove(self._order.popleft())
