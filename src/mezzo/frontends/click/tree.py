"""What the parser makes of a text: statements as written, nothing looked up yet.

    Block       statements of a file, a compound's body, or a group
    Chain       `a, b [1] -> x :: Class(config) => ( ... )`; a declaration is a chain of one list
    ClassDef    `elementclass Name { ... }` or `elementclass Name Other`
    Define      `define($x 1)`
    Require     `require(library x.click)`

Nodes carry offsets, not spans: a span is made only when something is to be said about a place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mezzo.frontends.click.source import ConfigText, SourceText


@dataclass(slots=True, eq=False)
class Ports:
    """`[0, 2-4]`; `open` when it ends in a comma (`[0,]`): as many more as the other side of `=>` has."""

    numbers: list[int]
    open: bool
    offset: int


@dataclass(slots=True, eq=False)
class ClassName:
    """A class by its name."""

    name: str
    offset: int


@dataclass(slots=True, eq=False)
class Formal:
    """A compound's parameter: `$name`, or `KEYWORD $name` (`__REST__ $name` takes what is left)."""

    name: str
    keyword: str
    offset: int


@dataclass(slots=True, eq=False)
class Block:
    """Statements in the order written."""

    source: SourceText
    offset: int
    statements: list[Statement] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Body:
    """One overload of a compound."""

    formals: list[Formal]
    block: Block


@dataclass(slots=True, eq=False)
class Compound:
    """`{ body || body || ... }`; `extends` is the place of a closing `...`."""

    offset: int
    bodies: list[Body] = field(default_factory=list)
    extends: int | None = None


@dataclass(slots=True, eq=False)
class Reference:
    """One element in a chain.

    `what` is a name (of an element or a class), an anonymous compound, or a group; an end `left_out` stands for
    `input` or `output`.  `declared` is the class behind `::`.
    """

    what: str | Compound | Block
    offset: int
    declared: ClassName | Compound | None = None
    config: ConfigText | None = None
    inputs: Ports | None = None
    outputs: Ports | None = None
    left_out: bool = False

    @property
    def is_bare(self) -> bool:
        """A name alone, as in the names before the last of `a, b :: Queue`."""
        only_name = self.declared is None and self.config is None and not self.has_ports and not self.left_out
        return only_name and isinstance(self.what, str)

    @property
    def has_ports(self) -> bool:
        return self.inputs is not None or self.outputs is not None


@dataclass(slots=True, eq=False)
class Arrow:
    """`->`, or `=>` which joins many to many."""

    many: bool
    offset: int


@dataclass(slots=True, eq=False)
class Chain:
    """Lists of elements with the arrows between them."""

    lists: list[list[Reference]]
    arrows: list[Arrow]


@dataclass(slots=True, eq=False)
class ClassDef:
    """A named class."""

    name: str
    offset: int
    target: ClassName | Compound


@dataclass(slots=True, eq=False)
class Define:
    """Parameter definitions, still one string."""

    config: ConfigText


@dataclass(slots=True, eq=False)
class Require:
    """Requirements, still one string."""

    config: ConfigText
    offset: int


Statement = Chain | ClassDef | Define | Require
