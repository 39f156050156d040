"""What a filter expression asks of a packet: tests of header fields, joined by and, or, not; and rules made of them.

An expression is a `Clause` (all of some byte tests, or not all of them), or `All`, `Any` or `Not` of expressions.
`rules_of` multiplies it out into rules for a decision diagram, which shares again what the alternatives have in common.

A test that needs bytes which the packet does not have is false, and so is a comparison with `!=`, `<` or `>` behind the
20 bytes that every IP header has; only `not` makes a missing byte true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from mezzo.elements.decision import ByteTest, Clause, Rule

MOST_RULES = 4096
IP_HEADER = 20


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Any:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Expr


Expr = Clause | All | Any | Not
TRUE, FALSE = All(()), Any(())


@dataclass(frozen=True, slots=True)
class Field:
    """`width` bits at `bit` bits behind a mark (net or trans), inside one aligned word of 32 bits."""

    mark: str
    bit: int
    width: int

    @property
    def most(self) -> int:
        return (1 << self.width) - 1

    def test(self, value: int, mask: int) -> ByteTest:
        word, inside = divmod(self.bit, 32)
        shift = 32 - inside - self.width
        assert shift >= 0, "a field lies in one word"
        return ByteTest(self.mark, 4 * word, 4, mask << shift, (value & mask) << shift)

    @property
    def is_sure(self) -> bool:
        """Every packet with an IP header has it."""
        return self.mark == "net" and self.bit + self.width <= 8 * IP_HEADER

    def there(self) -> Expr:
        """True where the packet has this field: its last bit is 0 or 1."""
        return TRUE if self.is_sure else Any((_clause(self.test(0, 1)), _clause(self.test(1, 1))))


def _clause(*tests: ByteTest) -> Clause:
    return Clause(tests)


def compare(field: Field, relation: str, value: int, mask: int, is_there: bool = False) -> Expr:
    """`field & mask` against `value` by == != < <= > >=; `is_there`: it is known that no byte is missing."""
    if relation in ("==", "!="):
        equal: Expr = _equal(field, value, mask)
        return equal if relation == "==" else All((field.there(), Not(equal)))
    value -= relation in (">=", "<")
    if relation in ("<", "<="):
        return All((field.there(), Not(_above(field, value, mask))))
    if is_there or field.is_sure or not 0 <= value < mask:
        return _above(field, value, mask)
    # The first byte alone may decide that it is greater; whether the last one is there is asked all the same.
    return All((field.there(), Not(_below(field, value + 1, mask))))


def _equal(field: Field, value: int, mask: int) -> Expr:
    if value & ~mask:
        return FALSE
    return _clause(field.test(value, mask)) if mask else TRUE


def _above(field: Field, value: int, mask: int) -> Expr:
    """Whether `field & mask` is greater: equal in the high bits, and 1 where `value` has a 0."""
    if value < 0:
        return field.there()
    if value >= mask:
        return FALSE
    found: list[Expr] = []
    high = 0
    for bit in reversed(range(field.width)):
        one = 1 << bit
        if not value & one and mask & one and not value & ~mask & -one:
            found.append(_clause(field.test(value & high | one, (high | one) & mask)))
        elif value & one and not mask & one:
            break
        high |= one
    return Any(tuple(found))


def _below(field: Field, value: int, mask: int) -> Expr:
    """Whether `field & mask` is less than `value`, 1 to `mask`: equal in the high bits, and 0 where `value` has a 1."""
    found: list[Expr] = []
    high = 0
    for bit in reversed(range(field.width)):
        one = 1 << bit
        high |= one
        if value & one:
            found.append(_clause(field.test(value & ~one, high & mask)))
            if not mask & one:
                break
    return Any(tuple(found))


def rules_of(expression: Expr) -> list[Rule]:
    """The alternatives: the expression holds where one of the rules does.  ValueError where there are too many."""
    return [rule for rule in dict.fromkeys(_alternatives(_inward(expression, False))) if not _is_never(rule)]


def _inward(e: Expr, negated: bool) -> Expr:
    """The same with `not` only at clauses."""
    if isinstance(e, Clause):
        return Clause(e.tests, e.negated != negated)
    if isinstance(e, Not):
        return _inward(e.part, not negated)
    if negated and isinstance(e, All) and all(isinstance(p, Clause) and not p.negated for p in e.parts):
        return Clause(tuple(t for p in e.parts if isinstance(p, Clause) for t in p.tests), True)
    parts = tuple(_inward(p, negated) for p in e.parts)
    return All(parts) if isinstance(e, All) != negated else Any(parts)


def _alternatives(e: Expr) -> list[Rule]:
    if isinstance(e, Clause):
        return [(e,)]
    if isinstance(e, Any):
        found = [rule for part in e.parts for rule in _alternatives(part)]
    else:
        assert isinstance(e, All)
        choices = [_alternatives(part) for part in e.parts]
        count = 1
        for choice in choices:
            count *= len(choice)
        _limit(count)
        found = [tuple(dict.fromkeys(c for rule in chosen for c in rule)) for chosen in product(*choices)]
    _limit(len(found))
    return found


def _limit(count: int) -> None:
    if count > MOST_RULES:
        raise ValueError(
            f"it has {count} alternatives, {MOST_RULES} at most; use fewer `or`, `<` and `>` in one pattern"
        )


def _is_never(rule: Rule) -> bool:
    return any(c.negated and not c.tests for c in rule) or _contradicts(list(_positive(rule)))


def _positive(rule: Rule) -> Iterator[ByteTest]:
    for clause in rule:
        if not clause.negated:
            yield from clause.tests


def _contradicts(tests: list[ByteTest]) -> bool:
    known: dict[tuple[str, int, int], tuple[int, int]] = {}
    for t in tests:
        mask, value = known.get(t.place, (0, 0))
        if (value ^ t.value) & mask & t.mask:
            return True
        known[t.place] = mask | t.mask, value | t.value
    return False
