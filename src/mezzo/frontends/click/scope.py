"""What names mean: a tree becomes units whose members know their classes and whose links know their ports.

A `Unit` is the inside of the file or of one compound body.  Its members are elements, and the ends of tunnels: a
tunnel carries connections through `input` and `output` of a group or compound, and is gone when all is expanded.

Element names belong to their unit; a group shares the unit around it.  Classes are scoped by the text: a definition
holds from its end to the end of the block around it, and a class may hide one of the same name, which its own body
still sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mezzo.base import Note, Reporter, Span
from mezzo.frontends.click.source import ConfigText, SourceText
from mezzo.frontends.click.tree import Block, Chain, Formal
from mezzo.frontends.click.variables import Definition

MAX_NAMES_FOR_HINTS = 2000


@dataclass(slots=True, eq=False)
class CompoundClass:
    """A class made of units, tried in turn; `fallback` is the class it extends."""

    name: str
    place: Callable[[], Span]
    units: list[Unit] = field(default_factory=list)
    fallback: ElementClass | None = None


ElementClass = str | CompoundClass


@dataclass(slots=True, eq=False)
class Member:
    """An element, or a tunnel's end (`cls` is None), with the number of its ports that links use."""

    name: str
    cls: ElementClass | None
    config: ConfigText | None
    source: SourceText
    offset: int
    anonymous: bool = False
    ninputs: int = 0
    noutputs: int = 0

    def place(self) -> Span:
        width = len(self.name.partition("@")[0]) if self.anonymous else len(self.name)
        return self.source.span(self.offset, max(1, width))


@dataclass(slots=True)
class Link:
    """A connection between members of one unit, by their numbers."""

    src: int
    src_port: int
    dst: int
    dst_port: int
    source: SourceText
    offset: int


@dataclass(slots=True, eq=False)
class Unit:
    """The inside of a file or compound body.  `tunnels`: what arrives at the first goes on from the second."""

    name: str
    depth: int
    place: Callable[[], Span]
    formals: list[Formal] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    tunnels: dict[int, int] = field(default_factory=dict)
    definitions: dict[str, Definition] = field(default_factory=dict)
    ninputs: int = 0
    noutputs: int = 0
    # Ports of tunnel ends that links use: {member: ports}.
    used_inputs: dict[int, set[int]] = field(default_factory=dict)
    used_outputs: dict[int, set[int]] = field(default_factory=dict)

    def add(self, member: Member) -> int:
        self.members.append(member)
        if member.cls is None:
            self.used_inputs[len(self.members) - 1] = set()
            self.used_outputs[len(self.members) - 1] = set()
        return len(self.members) - 1

    def link(self, link: Link) -> None:
        self.links.append(link)
        src, dst = self.members[link.src], self.members[link.dst]
        src.noutputs = max(src.noutputs, link.src_port + 1)
        dst.ninputs = max(dst.ninputs, link.dst_port + 1)
        if src.cls is None:
            self.used_outputs[link.src].add(link.src_port)
        if dst.cls is None:
            self.used_inputs[link.dst].add(link.dst_port)

    def anonymous_number(self) -> int:
        """The N of the next `Class@N`: the running number of the element; `input` and `output` do not count."""
        return len(self.members) + (1 if self.depth == 0 else -1)


@dataclass(slots=True, eq=False)
class Scope:
    """Names and classes while a unit is being built."""

    unit: Unit
    blocks: list[Block]
    reporter: Reporter
    is_element_class: Callable[[str], bool] | None
    class_names: Sequence[str] = ()
    parent: Scope | None = None
    guesses: bool = False
    names: dict[str, int] = field(default_factory=dict)
    classes: dict[str, ElementClass] = field(default_factory=dict)
    _declared_anywhere: dict[str, Span] | None = None

    def find_class(self, name: str) -> ElementClass | None:
        """The class of this name, or None where nobody knows one."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.classes:
                return scope.classes[name]
            scope = scope.parent
        return name if self.is_element_class is not None and self.is_element_class(name) else None

    def guesses_class(self, name: str) -> bool:
        """Whether a name that is declared nowhere is taken for a class nobody here knows."""
        return self.is_element_class is None or (self.guesses and name[:1].isupper())

    def declare(self, member: Member) -> int:
        """Add an element under its own name; a second one of the name is an error that shows both places."""
        old = self.names.get(member.name)
        if old is not None:
            self.reporter.error(
                f"`{member.name}` is already an element",
                member.place(),
                [Note("first declared here", self.unit.members[old].place())],
                "use another name, or drop this declaration to keep the first",
            )
            return old
        if any(part.isdigit() for part in member.name.split("/")):
            self.reporter.error(
                f"`{member.name}` is not an element name: a part of it is a number",
                member.place(),
                hint="begin each part of the name with a letter",
            )
        number = self.names[member.name] = self.unit.add(member)
        return number

    def enter_library(self, block: Block) -> None:
        self.blocks.append(block)
        self._declared_anywhere = None

    def declared_later(self, name: str) -> Span | None:
        """The place of a declaration of this name anywhere in the scope, for messages about its use before."""
        if self._declared_anywhere is None:
            self._declared_anywhere = {}
            for block in self.blocks:
                _collect_declarations(block, self._declared_anywhere)
        return self._declared_anywhere.get(name)

    def undeclared(self, name: str, span: Span) -> None:
        """Report a name that is neither an element nor a class."""
        later = self.declared_later(name)
        if later is not None:
            self.reporter.error(
                f"`{name}` is used before its declaration",
                span,
                [Note("declared here", later)],
                "move the declaration up, or declare the element here",
            )
        elif name in ("input", "output"):
            self.reporter.error(
                f"`{name}` is known only inside a compound or group", span, hint="name an element of this file"
            )
        else:
            hint = self._near(name) or f"declare it with `{name} :: CLASS`"
            self.reporter.error(f"`{name}` is neither a declared element nor an element class", span, hint=hint)

    def _near(self, name: str) -> str:
        import difflib  # only for hints

        known = [*list(self.names)[:MAX_NAMES_FOR_HINTS], *self.classes, *self.class_names]
        near = difflib.get_close_matches(name, known, n=1)
        return f"did you mean `{near[0]}`?" if near else ""

    def settle_anonymous_names(self) -> None:
        """Give each anonymous element a name no declared element has: `Class@N`, or the next free number."""
        for number, member in enumerate(self.unit.members):
            if not member.anonymous:
                continue
            stem, _, digits = member.name.rpartition("@")
            counted = int(digits)
            while f"{stem}@{counted}" in self.names:
                counted += 1
            member.name = f"{stem}@{counted}"
            self.names[member.name] = number


def _collect_declarations(block: Block, found: dict[str, Span]) -> None:
    for statement in block.statements:
        if not isinstance(statement, Chain):
            continue
        for refs in statement.lists:
            spread = refs[-1].declared is not None and not statement.arrows
            for ref in refs:
                if isinstance(ref.what, Block):
                    _collect_declarations(ref.what, found)
                elif isinstance(ref.what, str) and (ref.declared is not None or spread) and ref.what not in found:
                    found[ref.what] = block.source.span(ref.offset, len(ref.what))
