"""A tree becomes a unit: names are looked up, anonymous elements numbered, port lists joined (`resolve_file`).

Anonymous names are Click's: `Class@N`, where N is the running number of the element in its unit.  The elements of
one list `a, B(1), ( ... )` are numbered when the list ends, groups inside it before the rest; a group takes three
numbers, because Click counts the ends of its tunnels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from mezzo.base import Note, Reporter, Span
from mezzo.elements.confparse import split_args, split_words, unquote
from mezzo.frontends.click.libraries import Libraries
from mezzo.frontends.click.scope import CompoundClass, ElementClass, Link, Member, Scope, Unit
from mezzo.frontends.click.source import ConfigText, SourceText
from mezzo.frontends.click.tree import (
    Arrow,
    Block,
    Body,
    Chain,
    ClassDef,
    ClassName,
    Compound,
    Define,
    Formal,
    Reference,
    Require,
)
from mezzo.frontends.click.variables import Definition

REST = "__REST__"


@dataclass(slots=True)
class End:
    """One element on one side of an arrow; `ports` is empty where none are written."""

    member: int
    inputs: list[int]
    outputs: list[int]
    open_inputs: bool = False
    open_outputs: bool = False


def resolve_file(
    block: Block,
    reporter: Reporter,
    libraries: Libraries,
    is_element_class: Callable[[str], bool] | None = None,
    class_names: Sequence[str] = (),
    guesses: bool = False,
) -> Unit:
    """The unit of a whole file; `libraries` gathers its requirements."""
    return resolve_scope(block, reporter, libraries, is_element_class, class_names, guesses).unit


def resolve_scope(
    block: Block,
    reporter: Reporter,
    libraries: Libraries,
    is_element_class: Callable[[str], bool] | None = None,
    class_names: Sequence[str] = (),
    guesses: bool = False,
) -> Scope:
    """The unit of a whole file, with the classes it defines."""
    # Asked for each name there is, and an answer may cost a look at the disk.
    is_element_class = cache(is_element_class) if is_element_class is not None else None
    unit = Unit("", 0, lambda: block.source.span(0))
    scope = Scope(unit, [block], reporter, is_element_class, class_names, guesses=guesses)
    resolver = _Resolver(scope, block.source, libraries)
    resolver.block(block)
    resolver.check_groups()
    scope.settle_anonymous_names()
    return scope


class _Resolver:
    """Walks the statements of one scope."""

    def __init__(self, scope: Scope, source: SourceText, libraries: Libraries) -> None:
        self._scope = scope
        self._unit = scope.unit
        self._source = source
        self._libraries = libraries
        self._reporter = scope.reporter
        # Each group met: its member, its block's offset, how many inputs and outputs it has.
        self._groups: list[tuple[int, int, int, int]] = []

    def block(self, block: Block) -> None:
        for statement in block.statements:
            if isinstance(statement, Chain):
                self._chain(statement)
            elif isinstance(statement, ClassDef):
                self._class_definition(statement)
            elif isinstance(statement, Define):
                self._define(statement)
            else:
                self._require(statement)

    def _error(self, message: str, offset: int, width: int = 1, notes: Iterable[Note] = (), hint: str = "") -> None:
        self._reporter.error(message, self._source.span(offset, width), notes, hint)

    # Statements

    def _class_definition(self, statement: ClassDef) -> None:
        old = self._scope.names.get(statement.name)
        if old is not None:
            self._error(
                f"`{statement.name}` is already an element, so it cannot name a class",
                statement.offset,
                len(statement.name),
                [Note("the element is declared here", self._unit.members[old].place())],
                "use another name for the class",
            )
        cls = self._class(statement.target, statement.name)
        self._scope.classes[statement.name] = cls

    def _define(self, statement: Define) -> None:
        for index, arg in enumerate(split_args(statement.config.text)):
            if not arg:
                continue
            word, *rest = arg.split(None, 1)
            place = _place(statement.config, index, len(word))
            name = word[1:]
            if word[0] != "$" or not name.replace("_", "a").isalnum() or not name.isascii():
                self._reporter.error(f"`{word}` is not a variable", place(), hint="write `define($NAME VALUE)`")
            elif name in self._unit.definitions:
                notes = [Note("first defined here", self._unit.definitions[name].place())]
                self._reporter.error(f"`${name}` is already defined", place(), notes, "drop one of the two")
            else:
                self._unit.definitions[name] = Definition(rest[0] if rest else "", place)

    def _require(self, statement: Require) -> None:
        for arg in split_args(statement.config.text):
            words = [unquote(word) for word in split_words(arg)]
            if not words:
                continue
            if len(words) == 1 and words[0] not in ("compact_config", "package", "library"):
                words.insert(0, "package")
            if words == ["compact_config"] or (words[0] == "package" and len(words) == 2):
                self._libraries.requirements.append(" ".join(words))
            elif words[0] == "library" and len(words) == 2:
                self._include(words[1], statement)
            else:
                hint = "write `package NAME`, `library FILE` or `compact_config`"
                self._error(f"`{arg}` is not a requirement", statement.offset, len("require"), hint=hint)

    def _include(self, name: str, statement: Require) -> None:
        if self._unit.depth:
            hint = "move it out of the compound"
            self._error("a library can be required by a file only", statement.offset, len("require"), hint=hint)
            return
        block = self._libraries.load(name, self._source.file, self._source.span(statement.offset, len("require")))
        if block is None:
            return
        self._scope.enter_library(block)
        inner = _Resolver(self._scope, block.source, self._libraries)
        inner.block(block)
        inner.check_groups()
        self._libraries.leave()

    # Classes

    def _class(self, target: ClassName | Compound, name: str) -> ElementClass:
        if isinstance(target, Compound):
            return self._compound(target, name)
        # A class nobody knows here is left to the check, which knows what is near.
        return self._scope.find_class(target.name) or target.name

    def _compound(self, compound: Compound, name: str) -> CompoundClass:
        cls = CompoundClass(name, self._placer(compound.offset))
        if compound.extends is not None:
            cls.fallback = self._extended(name, compound.extends)
        cls.units = [self._body(body, name, compound.offset) for body in compound.bodies]
        return cls

    def _extended(self, name: str, offset: int) -> ElementClass | None:
        known = self._scope.find_class(name)
        if known is None and name and self._scope.guesses_class(name):
            return name
        if known is None:
            what = f"`{name}`, which is not an element class" if name else "a compound without a name"
            self._error(f"`...` cannot extend {what}", offset, 3, hint="drop the `|| ...`")
        return known

    def _body(self, body: Body, name: str, offset: int) -> Unit:
        unit = Unit(name, self._unit.depth + 1, self._placer(offset), body.formals)
        around = self._scope
        known, names = around.is_element_class, around.class_names
        scope = Scope(unit, [body.block], around.reporter, known, names, around, around.guesses)
        for end in ("input", "output"):
            scope.names[end] = unit.add(Member(end, None, None, self._source, offset))
        inner = _Resolver(scope, self._source, self._libraries)
        inner._formals(body.formals)
        inner.block(body.block)
        inner.check_groups()
        what = f"compound `{name}`" if name else "this compound"
        unit.ninputs, unit.noutputs = inner._count_ports(0, 1, what, offset)
        scope.settle_anonymous_names()
        return unit

    def _formals(self, formals: list[Formal]) -> None:
        keywords: set[str] = set()
        rank = 0
        for formal in formals:
            place = self._placer(formal.offset)
            if formal.name in self._unit.definitions:
                notes = [Note("first named here", self._unit.definitions[formal.name].place())]
                self._reporter.error(f"parameter `${formal.name}` is named twice", place(), notes, "rename one")
            if formal.keyword and formal.keyword in keywords:
                self._reporter.error(f"keyword `{formal.keyword}` is used twice", place(), hint="rename one")
            keywords.add(formal.keyword)
            this_rank = 2 if formal.keyword == REST else 1 if formal.keyword else 0
            if this_rank < rank or (this_rank == rank == 2):
                hint = "positional parameters come first, then keywords, then `__REST__`"
                self._reporter.error(f"parameter `${formal.name}` is out of order", place(), hint=hint)
            rank = max(rank, this_rank)
            # A parameter holds the place of its name; its value comes with each use of the compound.
            self._unit.definitions[formal.name] = Definition("", place)

    def _placer(self, offset: int) -> Callable[[], Span]:
        source = self._source
        return lambda: source.span(offset)

    # Chains

    def _chain(self, chain: Chain) -> None:
        before: list[End] = []
        for index, refs in enumerate(chain.lists):
            ends = self._list(refs, alone=not chain.arrows)
            if index == 0:
                self._refuse_useless_ports(refs, "input")
            else:
                self._join(before, ends, chain.arrows[index - 1])
            before = ends
        self._refuse_useless_ports(chain.lists[-1], "output")

    def _refuse_useless_ports(self, refs: list[Reference], side: str) -> None:
        for ref in refs:
            ports = ref.inputs if side == "input" else ref.outputs
            if ports is not None:
                what = "before the first" if side == "input" else "behind the last"
                message = f"the {side} ports {what} element of a chain lead nowhere"
                self._error(message, ports.offset, hint="add an arrow, or drop the ports")

    def _list(self, refs: list[Reference], alone: bool) -> list[End]:
        if alone and len(refs) > 1:
            self._spread_declaration(refs)
        groups = {i: self._group(ref.what) for i, ref in enumerate(refs) if isinstance(ref.what, Block)}
        inner = [self._inner_class(ref) for ref in refs]
        ends = []
        for i, ref in enumerate(refs):
            if i in groups:
                number, ninputs, noutputs = groups[i]
                end = End(number, list(range(ninputs)), list(range(noutputs)))
            else:
                end = End(self._member(ref, inner[i]), [], [])
            if ref.inputs is not None:
                end.inputs, end.open_inputs = ref.inputs.numbers, ref.inputs.open
            if ref.outputs is not None:
                end.outputs, end.open_outputs = ref.outputs.numbers, ref.outputs.open
            ends.append(end)
        return ends

    def _spread_declaration(self, refs: list[Reference]) -> None:
        """`a, b :: Class(config)` declares both."""
        last = refs[-1]
        if last.declared is None or last.has_ports or not all(ref.is_bare for ref in refs[:-1]):
            return
        for ref in refs[:-1]:
            ref.declared, ref.config = last.declared, last.config

    def _inner_class(self, ref: Reference) -> ElementClass | None:
        """The class a reference spells out, resolved before the list's elements are numbered."""
        if isinstance(ref.what, Compound):
            return self._compound(ref.what, "")
        if ref.declared is not None:
            return self._class(ref.declared, "")
        return None

    def _member(self, ref: Reference, cls: ElementClass | None) -> int:
        if not isinstance(ref.what, str):
            return self._anonymous("", cls, ref)
        if ref.left_out:
            return self._scope.names[ref.what]
        known = self._scope.find_class(ref.what)
        if cls is not None:
            if known is not None:
                self._class_as_name(ref, known)
            return self._scope.declare(Member(ref.what, cls, ref.config, self._source, ref.offset))
        if known is not None:
            return self._anonymous(ref.what, known, ref)
        if ref.what in self._scope.names:
            return self._existing(ref, self._scope.names[ref.what])
        return self._unknown(ref, ref.what)

    def _existing(self, ref: Reference, number: int) -> int:
        if ref.config is not None:
            member = self._unit.members[number]
            self._error(
                f"`{member.name}` has its configuration from its declaration",
                ref.offset,
                len(member.name),
                [Note("declared here", member.place())],
                "drop the parentheses here",
            )
        return number

    def _unknown(self, ref: Reference, name: str) -> int:
        guessing = self._scope.guesses_class(name) and self._scope.declared_later(name) is None
        if ref.config is not None or (guessing and name not in ("input", "output")):
            return self._anonymous(name, name, ref)
        self._scope.undeclared(name, self._source.span(ref.offset, len(name)))
        # Taken as an element from here on, so that it is reported once.
        number = self._unit.add(Member(name, name, None, self._source, ref.offset))
        if self._scope.declared_later(name) is None:
            self._scope.names[name] = number
        return number

    def _class_as_name(self, ref: Reference, known: ElementClass) -> None:
        notes = [Note("the class is defined here", known.place())] if isinstance(known, CompoundClass) else []
        self._error(
            f"`{ref.what}` is an element class, so it cannot name an element",
            ref.offset,
            len(str(ref.what)),
            notes,
            "use another name",
        )

    def _anonymous(self, name: str, cls: ElementClass | None, ref: Reference) -> int:
        assert cls is not None, "an anonymous element has a class"
        numbered = f"{name}@{self._unit.anonymous_number()}"
        return self._unit.add(Member(numbered, cls, ref.config, self._source, ref.offset, anonymous=True))

    # Groups

    def _group(self, block: Block) -> tuple[int, int, int]:
        """The group's member, and how many inputs and outputs it has."""
        unit, names = self._unit, self._scope.names
        stem = f"@{unit.anonymous_number()}"
        outer = unit.add(Member(stem, None, None, self._source, block.offset))
        ends = {}
        for end in ("input", "output"):
            ends[end] = unit.add(Member(f"{stem}/{end}", None, None, self._source, block.offset))
        unit.tunnels[outer] = ends["input"]
        unit.tunnels[ends["output"]] = outer
        hidden = {end: names.get(end) for end in ends}
        names.update(ends)
        self.block(block)
        for end, number in hidden.items():
            if number is None:
                del names[end]
            else:
                names[end] = number
        ninputs, noutputs = self._count_ports(ends["input"], ends["output"], "this group", block.offset)
        self._groups.append((outer, block.offset, ninputs, noutputs))
        return outer, ninputs, noutputs

    def check_groups(self) -> None:
        """The outside of a group connects to each of its ports, and to no others."""
        unit = self._unit
        for outer, offset, ninputs, noutputs in self._groups:
            for side, used, count in (
                ("input", unit.used_inputs[outer], ninputs),
                ("output", unit.used_outputs[outer], noutputs),
            ):
                wrong = sorted(used ^ set(range(count)))
                if wrong and wrong[0] < count:
                    self._error(f"{side} {_ranges(wrong)} of this group is not connected", offset)
                elif wrong:
                    hint = f"the group uses `{side}` {count} times"
                    self._error(f"this group has no {side} {_ranges(wrong)}", offset, hint=hint)

    def _count_ports(self, into: int, out_of: int, what: str, offset: int) -> tuple[int, int]:
        """How many inputs and outputs lead through; a gap, or a use from the wrong side, is an error."""
        unit = self._unit
        ninputs, noutputs = unit.members[into].noutputs, unit.members[out_of].ninputs
        if unit.members[into].ninputs:
            self._error(f"a connection leads into `input` of {what}", offset, hint="use `output` as its end")
        if unit.members[out_of].noutputs:
            self._error(f"a connection begins at `output` of {what}", offset, hint="use `input` as its beginning")
        for side, used, count in (
            ("input", unit.used_outputs[into], ninputs),
            ("output", unit.used_inputs[out_of], noutputs),
        ):
            missing = [port for port in range(count) if port not in used]
            if missing:
                self._error(
                    f"{what} uses `{side}` {count - 1} but not {_ranges(missing)}", offset, hint="number without gaps"
                )
        return ninputs, noutputs

    # Arrows

    def _join(self, left: list[End], right: list[End], arrow: Arrow) -> None:
        if len(left) == len(right) == 1 and _at_most_one_port(left[0], right[0]):
            src_port = left[0].outputs[0] if left[0].outputs else 0
            dst_port = right[0].inputs[0] if right[0].inputs else 0
            link = Link(left[0].member, src_port, right[0].member, dst_port, self._source, arrow.offset)
            self._unit.link(link)
        else:
            self._join_many(left, right, arrow)

    def _join_many(self, left: list[End], right: list[End], arrow: Arrow) -> None:
        froms = _Side([(end.member, end.outputs, end.open_outputs) for end in left])
        tos = _Side([(end.member, end.inputs, end.open_inputs) for end in right])
        if arrow.many:
            froms.open_if_alone(tos.count)
            tos.open_if_alone(froms.count)
        if froms.opened and tos.opened:
            self._error("both sides of this arrow leave their ports open", arrow.offset, 2, hint="number one side")
            return
        sources, targets = froms.ports(tos.count), tos.ports(froms.count)
        if len(sources) > 1 and len(targets) > 1:
            if not arrow.many:
                hint = "write `=>` to join them one by one"
                self._error(f"`->` joins {len(sources)} outputs to {len(targets)} inputs", arrow.offset, 2, hint=hint)
            if len(sources) != len(targets):
                message = f"{len(sources)} outputs do not match {len(targets)} inputs"
                self._error(message, arrow.offset, 2, hint="give both sides of `=>` the same number of ports")
                return
        longest = max(len(sources), len(targets))
        sources *= longest if len(sources) == 1 else 1
        targets *= longest if len(targets) == 1 else 1
        for (src, src_port), (dst, dst_port) in zip(sources, targets, strict=True):
            self._unit.link(Link(src, src_port, dst, dst_port, self._source, arrow.offset))


def _at_most_one_port(left: End, right: End) -> bool:
    is_open = left.open_outputs or right.open_inputs
    return not is_open and len(left.outputs) < 2 and len(right.inputs) < 2


class _Side:
    """The ports on one side of an arrow."""

    def __init__(self, ends: list[tuple[int, list[int], bool]]) -> None:
        self._ends = ends
        self._open = next((i for i, (_, _, is_open) in enumerate(ends) if is_open), None)
        self.count = sum(max(1, len(ports)) for _, ports, _ in ends)

    @property
    def opened(self) -> bool:
        return self._open is not None

    def open_if_alone(self, others: int) -> None:
        """`c => x, y`: one element without ports gives as many as the other side asks for."""
        if self.count == 1 and others > 1 and not self._ends[0][1]:
            self._open = 0

    def ports(self, others: int) -> list[tuple[int, int]]:
        """All (member, port); an open end is filled up to the other side's count."""
        listed: list[tuple[int, int]] = []
        for i, (member, ports, _) in enumerate(self._ends):
            numbers = list(ports) or [0]
            if i == self._open:
                numbers += range(numbers[-1] + 1, numbers[-1] + 1 + max(0, others - self.count))
            listed += [(member, number) for number in numbers]
        return listed


def _place(config: ConfigText, argument: int, width: int) -> Callable[[], Span]:
    return lambda: config.argument_span(argument, width) or config.span()


def _ranges(numbers: list[int]) -> str:
    """`0, 2-4`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
