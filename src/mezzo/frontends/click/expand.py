"""Units become a flat configuration (`expand_unit`): compounds put in place, variables replaced, tunnels gone.

Elements come out in Click's order: the members of a compound behind everything that was there when it was expanded.
A member of compound `c` is named `c/member`.  Of several overloads the first wins whose parameters and port numbers
fit the use; a single body also serves fewer ports than it has.

Rules of this file: no recursion, since classes may stack up; sizes are bounded, since each class may use the one
before it twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mezzo.base import MezzoError, Note, Reporter, Span
from mezzo.elements.confparse import join_args, split_args, split_words, strip_comments
from mezzo.frontends.click.flat import FlatConnection, FlatElement
from mezzo.frontends.click.resolve import REST
from mezzo.frontends.click.scope import CompoundClass, ElementClass, Link, Member, Unit
from mezzo.frontends.click.variables import Budget, Environment

MAX_ELEMENTS = 500_000
MAX_CONNECTIONS = 2_000_000
MAX_NESTING = 128

Port = tuple[int, int]


def expand_unit(
    unit: Unit, variables: Mapping[str, str], reporter: Reporter
) -> tuple[tuple[FlatElement, ...], tuple[FlatConnection, ...]]:
    """The elements and connections of a file's unit; `variables` override its own definitions."""
    expander = _Expander(reporter)
    expander.run(unit, variables)
    return expander.elements(), tuple(expander.connections())


@dataclass(slots=True, eq=False)
class _Item:
    """A member in place: its full name, and its configuration with variables replaced."""

    name: str
    member: Member
    cls: str | None
    config: str = ""
    nesting: int = 0


class _Expander:
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._items: list[_Item] = []
        self._numbers: dict[str, int] = {}
        self._links: list[tuple[int, Link]] = []  # with the number of the first member of the link's unit
        self._onward: dict[int, int] = {}

    def run(self, unit: Unit, variables: Mapping[str, str]) -> None:
        top = Environment(self._reporter, Budget(), definitions=dict(unit.definitions))
        for name, value in variables.items():
            top.definitions.pop(name, None)
            top.values[name] = value
        for name in list(top.definitions):
            top.lookup(name)
        base = self._place_unit(unit, "", 0)
        pending = [(base + i, top) for i in reversed(range(len(unit.members)))]
        while pending:
            number, env = pending.pop()
            pending += self._expand_item(number, env)

    def _place_unit(self, unit: Unit, prefix: str, nesting: int) -> int:
        """Append a unit's members and links; the number of its first member."""
        base = len(self._items)
        if base + len(unit.members) > MAX_ELEMENTS:
            self._reporter.error(f"this configuration expands to more than {MAX_ELEMENTS} elements", unit.place())
            raise MezzoError(*self._reporter.errors)
        for member in unit.members:
            self._place_member(member, prefix + member.name, nesting)
        for outer, inner in unit.tunnels.items():
            self._onward[base + outer] = base + inner
        self._links += [(base, link) for link in unit.links]
        return base

    def _place_member(self, member: Member, name: str, nesting: int) -> None:
        number = len(self._items)
        if member.cls is not None:
            old = self._numbers.setdefault(name, number)
            if old != number:
                self._reporter.error(
                    f"`{name}` is the name of two elements",
                    member.place(),
                    [Note("the other is declared here", self._items[old].member.place())],
                    "element names with `/` belong to compounds; rename one",
                )
        self._items.append(_Item(name, member, None, nesting=nesting))

    def _expand_item(self, number: int, env: Environment) -> list[tuple[int, Environment]]:
        """Settle one item's class and configuration; what a compound brought in is to be expanded next."""
        item = self._items[number]
        member = item.member
        if member.cls is None:
            return []
        written = member.config.text if member.config is not None else ""
        config = env.expand(strip_comments(written)).strip()
        cls: ElementClass | Unit = member.cls
        values: dict[str, str] = {}
        if isinstance(cls, CompoundClass):
            cls, values = self._choose(item, cls, split_args(config))
        if isinstance(cls, Unit):
            return self._expand_compound(number, cls, values, env)
        item.cls, item.config = cls, config
        return []

    def _expand_compound(
        self, number: int, unit: Unit, values: dict[str, str], env: Environment
    ) -> list[tuple[int, Environment]]:
        item = self._items[number]
        if item.nesting >= MAX_NESTING:
            self._reporter.error(f"compounds are nested more than {MAX_NESTING} deep", item.member.place())
            raise MezzoError(*self._reporter.errors)
        base = self._place_unit(unit, item.name + "/", item.nesting + 1)
        self._onward[number] = base
        self._onward[base + 1] = number
        own = {name: d for name, d in unit.definitions.items() if name not in values}
        inner = Environment(env.reporter, env.budget, unit.depth, env.outside(unit.depth), values, own)
        return [(base + i, inner) for i in reversed(range(2, len(unit.members)))]

    # Overloads

    def _choose(self, item: _Item, cls: CompoundClass, args: list[str]) -> tuple[str | Unit, dict[str, str]]:
        """The body (or primitive class) that fits, and its parameters' values."""
        member = item.member
        units: list[Unit] = []
        at: ElementClass | None = cls
        while isinstance(at, CompoundClass):
            for unit in at.units:
                values = _bind(unit, args)
                if isinstance(values, dict) and (unit.ninputs, unit.noutputs) == (member.ninputs, member.noutputs):
                    return unit, values
                units.append(unit)
            at = at.fallback
        if at is not None:
            return at, {}
        return self._only_one(item, units, args) if len(units) == 1 else self._no_match(item, cls, units, args)

    def _only_one(self, item: _Item, units: list[Unit], args: list[str]) -> tuple[Unit, dict[str, str]]:
        unit, member = units[0], item.member
        values = _bind(unit, args)
        if isinstance(values, str):
            self._misuse(item, unit, values)
            values = {formal.name: "" for formal in unit.formals}
        for side, used, has in (
            ("input", member.ninputs, unit.ninputs),
            ("output", member.noutputs, unit.noutputs),
        ):
            if used > has:
                self._misuse(item, unit, f"has no {side} {used - 1}, only {_count(has, side)}")
        return unit, values

    def _misuse(self, item: _Item, unit: Unit, what: str) -> None:
        name = f"compound `{unit.name}`" if unit.name else "the compound"
        hint = f"its form is {_form(unit)}"
        self._reporter.error(
            f"`{item.name}`: {name} {what}", item.member.place(), [Note("the compound is here", unit.place())], hint
        )

    def _no_match(
        self, item: _Item, cls: CompoundClass, units: list[Unit], args: list[str]
    ) -> tuple[Unit, dict[str, str]]:
        member = item.member
        use = f"{_count(len(args), 'argument')}, {_count(member.ninputs, 'input')}, {_count(member.noutputs, 'output')}"
        self._reporter.error(
            f"`{item.name}`: no form of `{cls.name or 'the compound'}` takes {use}",
            member.place(),
            [Note(f"one form is {_form(unit)}", unit.place()) for unit in units],
        )
        return units[0], {formal.name: "" for formal in units[0].formals}

    # Results

    def elements(self) -> tuple[FlatElement, ...]:
        return tuple(
            FlatElement(item.name, item.cls, item.config, item.member.place(), item.member.config)
            for item in self._items
            if item.cls is not None
        )

    def connections(self) -> Iterator[FlatConnection]:
        """Connections between elements, each once, those through tunnels where they began."""
        onward: dict[Port, list[Port]] = {}
        for base, link in self._links:
            if self._items[base + link.src].cls is None:
                key = (base + link.src, link.src_port)
                onward.setdefault(key, []).append((base + link.dst, link.dst_port))
        seen: set[tuple[int, int, int, int]] = set()
        for base, link in self._links:
            src = base + link.src
            if self._items[src].cls is None:
                continue
            span = link.source.span(link.offset, 2)
            for dst, dst_port in self._ends((base + link.dst, link.dst_port), onward):
                key4 = (src, link.src_port, dst, dst_port)
                if key4 not in seen:
                    seen.add(key4)
                    self._guard_count(len(seen), span)
                    yield FlatConnection(self._items[src].name, link.src_port, self._items[dst].name, dst_port, span)

    def _guard_count(self, count: int, span: Span) -> None:
        if count > MAX_CONNECTIONS:
            self._reporter.error(f"this configuration expands to more than {MAX_CONNECTIONS} connections", span)
            raise MezzoError(*self._reporter.errors)

    def _ends(self, first: Port, onward: dict[Port, list[Port]]) -> Iterator[Port]:
        """The input ports of elements that a connection to this port reaches; rounds of tunnels lead nowhere."""
        if self._items[first[0]].cls is not None:
            yield first
            return
        seen = {first}
        pending = [first]
        while pending:
            number, port = pending.pop()
            if self._items[number].cls is not None:
                yield number, port
                continue
            through = self._onward.get(number)
            for target in reversed(onward.get((through, port), []) if through is not None else []):
                if target not in seen:
                    seen.add(target)
                    pending.append(target)


def _bind(unit: Unit, args: list[str]) -> dict[str, str] | str:
    """The values of a body's parameters, or what is wrong with the arguments."""
    keywords = {f.keyword: f.name for f in unit.formals if f.keyword and f.keyword != REST}
    positional = [f.name for f in unit.formals if not f.keyword]
    rest = next((f.name for f in unit.formals if f.keyword == REST), None)
    values: dict[str, str] = {}
    others: list[str] = []
    for arg in args:
        word = split_words(arg)[:1] if keywords else []
        if word and word[0] in keywords:
            values[keywords[word[0]]] = arg[len(word[0]) :].strip()
        else:
            others.append(arg)
    if len(others) < len(positional):
        return "lacks arguments for " + ", ".join(f"`${name}`" for name in positional[len(others) :])
    missing = [keyword for keyword, name in keywords.items() if name not in values]
    if missing:
        return "lacks the arguments " + ", ".join(f"`{keyword} ...`" for keyword in missing)
    if len(others) > len(positional) and rest is None:
        return f"does not know what to do with the argument `{others[len(positional)]}`"
    values.update(zip(positional, others, strict=False))
    if rest is not None:
        values[rest] = join_args(others[len(positional) :])
    return values


def _form(unit: Unit) -> str:
    """`Name($a, KEY $b), 1 input, 2 outputs`."""
    formals = ", ".join(f"{f.keyword} ${f.name}".strip() for f in unit.formals)
    ports = f"{_count(unit.ninputs, 'input')}, {_count(unit.noutputs, 'output')}"
    return f"`{unit.name or '{...}'}" + (f"({formals})" if formals else "") + f"`, {ports}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
