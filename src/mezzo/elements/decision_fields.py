"""The bytes that a decision diagram asks for, as a few numbers: one diagram then serves packets of any length.

A field is bytes that tests look at together; each test is a comparison of one field or of several.  Where bytes of a
field are missing the others are filled up with such a value that every test which needs the missing ones fails: that
is what `decision` wants of them.  So a packet that is too short needs no diagram of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from mezzo.elements.decision import ByteTest, Diagram
from mezzo.ir import ops
from mezzo.ir.types import PACKET, Type, by_width

MOST = 8  # fields that are worth reading before anything is asked
_PACKET = ops.Local(PACKET, "p")


@dataclass(frozen=True)
class Field:
    """`width` bytes at `mark + offset`, as a little-endian number: so it grows from its first byte.  `mask`: the bits
    that tests look at.  `fills`: for each number of bytes that some test makes do with, what is in the place of the
    rest where there are only so many."""

    mark: str
    offset: int
    width: int
    mask: int = 0
    fills: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.mark}{self.offset}"

    @property
    def type(self) -> Type:
        return by_width(8 * self.width)

    @property
    def local(self) -> ops.Local:
        return ops.Local(self.type, self.name)

    def part(self, test: ByteTest) -> tuple[int, int]:
        """(mask, value) of what a test asks of this field; the mask is 0 where that is nothing."""
        end = self.offset + self.width
        if test.mark != self.mark or self.offset < test.offset or end > test.offset + test.width:
            return 0, 0
        part = test.part(self.offset, self.width)
        return self._turned(part.mask), self._turned(part.value)

    def _turned(self, number: int) -> int:
        return int.from_bytes(number.to_bytes(self.width, "big"), "little")

    def load(self, count: int) -> ops.Expr:
        """The first `count` bytes of it, as far as tests look at them."""
        whole, there = self._load(count), (1 << 8 * count) - 1
        if self.mask & there == there:
            return whole
        return ops.Bin("and", self.type, whole, ops.Const(self.type, self.mask & there))

    def _load(self, count: int) -> ops.Expr:
        whole: ops.Expr = ops.Const(self.type, 0)
        at = 0
        while at < count:
            size = max(size for size in (1, 2, 4) if at + size <= count)
            order = "little" if size > 1 else "big"
            piece: ops.Expr = ops.PLoad(by_width(8 * size), _PACKET, self.mark, ops.u32(self.offset + at), order)
            if size < self.width:
                piece = ops.Bin("shl", self.type, ops.Cast(self.type, piece), ops.Const(self.type, 8 * at))
            whole = ops.Bin("or", self.type, whole, piece) if at else piece
            at += size
        return whole

    def filled(self, count: int, fill: int) -> ops.Stmt:
        """Sets it, where only so many bytes are there."""
        if count == 0:
            return ops.Set(self.name, ops.Const(self.type, fill))
        loaded = self.load(count)
        return ops.Set(self.name, ops.Bin("or", self.type, loaded, ops.Const(self.type, fill)) if fill else loaded)


def fields_of(diagram: Diagram) -> list[Field] | None:
    """The fields of a diagram, in their order; None where they are many, or where no value is left to fill one up."""
    tests = [node.test for node in diagram.nodes]
    found = [Field(*place) for place in sorted(set(_places(tests)))]
    if len(found) > MOST:
        return None
    fields = [_with_fills(field, tests) for field in found]
    return [field for field in fields if field is not None] if None not in fields else None


def _places(tests: Iterable[ByteTest]) -> Iterator[tuple[str, int, int]]:
    """(mark, offset, width) of bytes of each word that some test looks at together."""
    words: dict[tuple[str, int, int], list[int]] = {}
    for test in tests:
        words.setdefault(test.place, []).append(test.mask)
    for (mark, offset, width), masks in words.items():
        seen = [{n for n, m in enumerate(masks) if m >> 8 * (width - 1 - at) & 0xFF} for at in range(width)]
        at = 0
        while at < width:
            end = at + 1
            while end < width and seen[end] & seen[end - 1]:
                end += 1
            size = max(size for size in (1, 2, 4) if at + size <= end)
            if seen[at]:
                yield mark, offset + at, size
            at += size


def _with_fills(field: Field, tests: Iterable[ByteTest]) -> Field | None:
    """The field, and what it is filled up with."""
    parts = {field.part(test) for test in tests} - {(0, 0)}
    mask = reduce(or_, (mask for mask, _ in parts))
    needs = sorted({(mask.bit_length() + 7) // 8 for mask, _ in parts})
    fills = []
    for count in [0, *needs[:-1]]:
        fill = _fill(count, field.width, [part for part in parts if part[0] >> 8 * count])
        if fill is None:
            return None
        fills.append((count, fill & mask))
    return replace(field, mask=mask, fills=(*fills, (needs[-1], 0)))


def _fill(count: int, width: int, parts: list[tuple[int, int]]) -> int | None:
    """Bytes behind the first `count` with which none of the parts holds."""
    for byte in range(256):
        fill = int.from_bytes(bytes([byte]) * (width - count), "little") << 8 * count
        if all((fill & mask) >> 8 * count != value >> 8 * count for mask, value in parts):
            return fill
    return None
