"""Decision diagrams: ordered rules over packet bytes, turned into few tests and then into IR.

A rule is a list of clauses that must all hold; a clause is a list of tests that must all hold, or with `negated` must
not all hold.  The first rule that holds decides; its number is the answer, the number of rules when none does.

Theory
* A `ByteTest` compares masked bytes.  A test that needs bytes which the packet does not have is false.
* A node of the diagram is what is left of the rules after the tests above it.  Equal rests are one node, so rules that
  do not depend on a test share their nodes behind both of its branches.
* After a test held, its bits are known: they are taken out of the tests below (which may decide them), so that nothing
  has to be remembered.  After it failed, every test that could only hold together with it fails too.  Both are also
  true for short packets: a test that holds proves that its bytes are there.
* Where this would make the diagram too large (more than `MOST_NODES`), only equal tests decide each other.

`decision_code` makes the IR.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

MOST_NODES = 4096


@dataclass(frozen=True, slots=True, order=True)
class ByteTest:
    """Whether the `width` bytes (1, 2 or 4) at `mark + offset`, masked with `mask` (not 0), are `value`."""

    mark: str
    offset: int
    width: int
    mask: int
    value: int

    @property
    def place(self) -> tuple[str, int, int]:
        return self.mark, self.offset, self.width

    @property
    def need(self) -> int:
        """The length that the test needs, counted from its mark: up to the last byte it looks at."""
        unseen = ((self.mask & -self.mask).bit_length() - 1) // 8
        return self.offset + self.width - unseen

    def part(self, start: int, width: int) -> ByteTest:
        """The test on the `width` bytes at `start` alone."""
        shift = 8 * (self.offset + self.width - start - width)
        low = (1 << 8 * width) - 1
        return ByteTest(self.mark, start, width, self.mask >> shift & low, self.value >> shift & low)

    def __str__(self) -> str:
        digits = 2 * self.width
        where = "" if self.mark == "data" else self.mark + " "
        return f"{where}{self.offset}/{self.value:0{digits}x}%{self.mask:0{digits}x}"


@dataclass(frozen=True, slots=True)
class Clause:
    """All of `tests`, or not all of them.  No tests: true, or false when negated."""

    tests: tuple[ByteTest, ...]
    negated: bool = False


Rule = tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """Asks `test` and goes on at the node `yes` or `no`; below zero they are answers: -1 - number."""

    test: ByteTest
    yes: int
    no: int


def word_tests(mark: str, offset: int, value: bytes, mask: bytes) -> tuple[ByteTest, ...]:
    """The tests that compare these bytes, by words at multiples of four, as other patterns will have them too."""
    first = offset & ~3
    before = bytes(offset - first)
    after = bytes(-(offset + len(value)) % 4)
    values, masks = before + value + after, before + mask + after
    tests = []
    for at in range(0, len(values), 4):
        m = int.from_bytes(masks[at : at + 4], "big")
        if m:
            tests.append(ByteTest(mark, first + at, 4, m, int.from_bytes(values[at : at + 4], "big") & m))
    return tuple(tests)


# -- what a known answer leaves of tests, clauses and rules ---------------------------------------------------------


def _implied(test: ByteTest, asked: ByteTest, held: bool) -> ByteTest | bool:
    """What is left of `test` once `asked` held, or did not."""
    if test.place != asked.place:
        return test
    common = test.mask & asked.mask
    agree = (test.value ^ asked.value) & common == 0
    if not held:
        return False if agree and common == asked.mask else test
    if not agree:
        return False
    left = test.mask & ~asked.mask
    return ByteTest(*test.place, left, test.value & left) if left else True


def _equal(test: ByteTest, asked: ByteTest, held: bool) -> ByteTest | bool:
    """As `_implied`, for large rule sets: only the test itself is decided."""
    return held if test == asked else test


Knowledge = Callable[[ByteTest, ByteTest, bool], "ByteTest | bool"]


def _left_of_clause(clause: Clause, asked: ByteTest, held: bool, know: Knowledge) -> Clause | bool:
    left = []
    for test in clause.tests:
        now = know(test, asked, held)
        if now is False:
            return clause.negated
        if now is not True:
            left.append(now)
    return Clause(tuple(left), clause.negated) if left else not clause.negated


def _left_of_rule(rule: Rule, asked: ByteTest, held: bool, know: Knowledge) -> Rule | None:
    """The rule with what is known taken out; None when it cannot hold any more."""
    left = []
    for clause in rule:
        now = _left_of_clause(clause, asked, held, know)
        if now is False:
            return None
        if now is not True:
            left.append(now)
    return tuple(left)


# -- the diagram ----------------------------------------------------------------------------------------------------

Rest = tuple[int, ...]  # what is left of all rules: numbers of `_Builder.table`


class _TooMany(Exception):
    pass


class _Builder:
    """Builds nodes breadth first.  Rules in all their states have numbers, so that rests compare quickly."""

    def __init__(self, rules: Sequence[Rule], know: Knowledge, most: int) -> None:
        self.know, self.most, self.none = know, most, len(rules)
        self.table: list[tuple[int, Rule, frozenset[tuple[str, int, int]]]] = []
        self.numbers: dict[tuple[int, Rule], int] = {}
        self.places: dict[Rest, int] = {}
        self.todo: deque[Rest] = deque()
        self.nodes: list[Node] = []
        self.root = self.place(self.cut(self.number(i, r) for i, r in enumerate(map(_plain, rules)) if r is not None))
        while self.todo:
            self.nodes.append(self.node(self.todo.popleft()))

    def number(self, answer: int, rule: Rule) -> int:
        found = self.numbers.get((answer, rule))
        if found is None:
            found = self.numbers[answer, rule] = len(self.table)
            self.table.append((answer, rule, frozenset(t.place for c in rule for t in c.tests)))
        return found

    def cut(self, numbers: Iterator[int]) -> Rest:
        """Up to the first rule that always holds."""
        left = []
        for number in numbers:
            left.append(number)
            if not self.table[number][1]:
                break
        return tuple(left)

    def place(self, rest: Rest) -> int:
        """The node of a rest, or its answer."""
        answer, rule = self.table[rest[0]][:2] if rest else (self.none, ())
        if not rule:
            return -1 - answer
        found = self.places.get(rest)
        if found is None:
            found = self.places[rest] = len(self.places)
            self.todo.append(rest)
            if found >= self.most:
                raise _TooMany
        return found

    def node(self, rest: Rest) -> Node:
        asked = self.table[rest[0]][1][0].tests[0]
        yes, no = (self.place(self.cut(self.left(rest, asked, held))) for held in (True, False))
        return Node(asked, yes, no)

    def left(self, rest: Rest, asked: ByteTest, held: bool) -> Iterator[int]:
        for number in rest:
            answer, rule, places = self.table[number]
            if asked.place not in places:
                yield number
                continue
            now = _left_of_rule(rule, asked, held, self.know)
            if now is not None:
                yield self.number(answer, now)


def _plain(rule: Rule) -> Rule | None:
    """The rule without clauses that always hold; None when it never does."""
    if any(c.negated and not c.tests for c in rule):
        return None
    return tuple(c for c in rule if c.tests)


class Diagram:
    """The diagram of `rules`: `nodes`, each before those it leads to, and `root`, a node or an answer below zero."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        try:
            built = _Builder(rules, _implied, MOST_NODES)
        except _TooMany:
            built = _Builder(rules, _equal, 1 << 30)
        self.none = len(rules)
        self.nodes, self.root = _arrange(built.nodes, built.root)

    def answer(self, holds: Callable[[ByteTest], bool]) -> int:
        """The rule that decides where `holds` says which tests hold."""
        at = self.root
        while at >= 0:
            at = self.nodes[at].yes if holds(self.nodes[at].test) else self.nodes[at].no
        return -1 - at

    def answers(self) -> set[int]:
        """The rules that decide some packet."""
        ends = {self.root} | {end for node in self.nodes for end in (node.yes, node.no)}
        return {-1 - end for end in ends if end < 0}

    def needs(self) -> dict[str, int]:
        """For each mark, the length behind it from which on every test has its bytes."""
        found: dict[str, int] = {}
        for node in self.nodes:
            found[node.test.mark] = max(found.get(node.test.mark, 0), node.test.need)
        return found

    def describe(self) -> str:
        """One step a line, as `0  12/08000000%ffff0000  yes->[0]  no->step 1`."""

        def goes(end: int) -> str:
            return f"step {end}" if end >= 0 else "[X]" if -1 - end == self.none else f"[{-1 - end}]"

        if self.root < 0:
            return f"all->{goes(self.root)}\n"
        rows = [f"{i:<3} {n.test}  yes->{goes(n.yes)}  no->{goes(n.no)}\n" for i, n in enumerate(self.nodes)]
        return "".join(rows) + "".join(f"safe length {need}\n" for need in self.needs().values())


def _arrange(nodes: Sequence[Node], root: int) -> tuple[list[Node], int]:
    """The nodes in use, each before those it leads to; those whose branches agree are stepped over."""
    backwards = _last_first(nodes, root)
    goes: dict[int, int] = {}
    kept: list[Node] = []
    for at in backwards:
        node = nodes[at]
        yes, no = goes.get(node.yes, node.yes), goes.get(node.no, node.no)
        if yes == no:
            goes[at] = yes
        else:
            goes[at] = len(kept)
            kept.append(Node(node.test, yes, no))
    last = len(kept) - 1
    turned = [Node(n.test, *(last - end if end >= 0 else end for end in (n.yes, n.no))) for n in reversed(kept)]
    start = goes.get(root, root)
    return turned, last - start if start >= 0 else start


def _last_first(nodes: Sequence[Node], root: int) -> list[int]:
    """Every node behind those it leads to (depth first, without recursion: diagrams may be deep)."""
    order: list[int] = []
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        at, done = stack.pop()
        if done:
            order.append(at)
        elif at >= 0 and at not in seen:
            seen.add(at)
            stack += [(at, True), (nodes[at].yes, False), (nodes[at].no, False)]
    return order
