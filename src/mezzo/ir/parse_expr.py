"""Reads the expressions of the IR's text; see `ir.parse`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from mezzo.ir import ops
from mezzo.ir.lines import BINARY, COMPARE, META, RESERVED, TYPE_WORDS, Line, whole
from mezzo.ir.module import State
from mezzo.ir.types import PACKET, TYPES, U32, Type

_ACCESS = re.compile(rf"({TYPE_WORDS})(le|be)?")
_ORDER = {"le": "little", "be": "big"}


@dataclass
class Declared:
    """What the rest of the unit says: its states, reasons, host methods, and what its functions give back."""

    states: dict[str, State] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    returns: dict[str, Type] = field(default_factory=dict)


def dotted(line: Line) -> str:
    parts = [line.name()]
    while line.maybe("."):
        parts.append(line.name())
    return ".".join(parts)


class ExprParser:
    """Expressions of one line."""

    unit: Declared
    types: dict[str, Type]

    def expr(self, line: Line) -> ops.Expr:
        a = self.operand(line)
        sign = line.peek()
        if line.kind() == "sign" and sign in BINARY:
            line.take()
            return ops.Bin(BINARY[sign], a.type, a, self.operand(line))
        if line.kind() == "sign" and sign in COMPARE:
            line.take()
            return ops.Cmp(COMPARE[sign], a, self.operand(line))
        if sign in ("and", "or"):
            return ops.Logic(line.take(), a, self.operand(line))
        if line.maybe("is"):
            line.take("none")
            return ops.IsNone(a)
        if line.maybe("?"):
            then = self.operand(line)
            line.take(":")
            return ops.Select(then.type, a, then, self.operand(line))
        return a

    def operand(self, line: Line) -> ops.Expr:
        word = line.peek()
        if line.kind() == "number":
            return self.number(line)
        if line.maybe("("):
            inner = self.expr(line)
            line.take(")")
            return inner
        if word in _LEADS:
            line.take()
            return _LEADS[word](self, line)
        if word in TYPES:
            type_ = line.type()
            return ops.Cast(type_, self.args(line, 1)[0])
        packet = self.local(line)
        return self.packet_read(packet, line) if line.maybe(".") else packet

    def number(self, line: Line) -> ops.Const:
        found = re.fullmatch(rf"(-?(?:0x[0-9a-f]+|\d+))({TYPE_WORDS})?", line.take())
        assert found is not None, "the token is a number"
        return ops.Const(TYPES[found[2]] if found[2] else U32, whole(found[1]))

    def local(self, line: Line) -> ops.Local:
        if line.kind() != "name" or line.peek() in RESERVED:
            line.fail("expected a value here")
        name, _, given = line.name().partition(":")
        type_ = TYPES[given] if given else self.types.get(name := name.strip("`"))
        if type_ is None:
            line.at -= 1
            line.fail(f"nothing above says which type `{name}` has; write {name}:u32 or another type")
        return ops.Local(type_, name.strip("`"))

    def args(self, line: Line, count: int = -1) -> list[ops.Expr]:
        line.take("(")
        found: list[ops.Expr] = []
        while line.peek() != ")":
            found.append(self.expr(line))
            if line.peek() != ")":
                line.take(",")
        if count >= 0 and len(found) != count:
            line.fail(f"expected {count} values in these parentheses")
        line.take(")")
        return found

    def state(self, line: Line, *kinds: str) -> State:
        """`.NAME` after `self`."""
        line.take(".")
        name = line.name()
        found = self.unit.states.get(name)
        if found is None or (kinds and found.kind not in kinds):
            line.at -= 1
            line.fail(f"there is no {' or '.join(kinds) or 'state'} `{name}`")
        return found

    def width(self, line: Line, default: str) -> tuple[Type, str]:
        found = _ACCESS.fullmatch(line.peek())
        if found is None:
            line.fail("expected a width such as u16 or u16le here")
        line.take()
        return TYPES[found[1]], _ORDER[found[2]] if found[2] else default

    def place(self, line: Line) -> tuple[str, ops.Expr]:
        """`[mark + offset`, without the bracket that closes."""
        line.take("[")
        mark = line.take(*ops.MARKS)
        line.take("+")
        return mark, self.operand(line)

    def packet_read(self, packet: ops.Expr, line: Line) -> ops.Expr:
        """What stands behind `p.`."""
        if line.peek() in META:
            word = line.take()
            return ops.Meta(META[word], packet, word)
        if line.maybe("anno"):
            type_, order, at = self.anno(line)
            return ops.Anno(type_, packet, at, order)
        if line.maybe("sum16"):
            mark, offset = self.place(line)
            line.take(",")
            length = self.expr(line)
            line.take(",")
            init = self.expr(line)
            line.take("]")
            return ops.Sum16(packet, mark, offset, length, init)
        type_, order = self.width(line, "big")
        mark, offset = self.place(line)
        line.take("]")
        return ops.PLoad(type_, packet, mark, offset, order)

    def anno(self, line: Line) -> tuple[Type, str, int]:
        line.take(".")
        type_, order = self.width(line, "little")
        line.take("[")
        at = line.number()
        line.take("]")
        return type_, order, at

    def state_read(self, line: Line) -> ops.Expr:
        """What stands behind `self`."""
        state = self.state(line)
        if line.maybe("["):
            index = self.expr(line)
            line.take("]")
            return ops.Index(state.type, state.name, index)
        if not line.maybe("."):
            return ops.Get(state.type, state.name)
        word = line.peek()
        if word in _STATE_READS:
            line.take()
            return _STATE_READS[word](self, line, state)
        type_, order = self.width(line, "little")
        line.take("[")
        offset = self.expr(line)
        line.take("]")
        return ops.BlobLoad(type_, state.name, offset, order)

    def table_get(self, line: Line, state: State) -> ops.Expr:
        key, default = self.args(line, 2)
        made = ops.LruGet if state.kind == "lru" else ops.TableGet
        return made(state.type, state.name, key, default)

    def table_has(self, line: Line, state: State) -> ops.Expr:
        (key,) = self.args(line, 1)
        return (ops.LruHas if state.kind == "lru" else ops.TableHas)(state.name, key)

    def lpm_get(self, line: Line, state: State) -> ops.Expr:
        key, default = self.args(line, 2)
        return ops.LpmGet(U32, state.name, key, default)

    def count(self, line: Line, state: State) -> ops.Expr:
        self.args(line, 0)
        return ops.Count(state.name)

    def called(self, line: Line) -> ops.Expr:
        name = dotted(line)
        if name not in self.unit.returns:
            line.fail(f"there is no function `{name}`")
        return ops.Call(self.unit.returns[name], name, tuple(self.args(line)))

    def host(self, line: Line) -> ops.Expr:
        line.take(".")
        method, args = line.name(), self.args(line)
        lent = bool(args) and args[0].type is PACKET
        return ops.Host(method, args[0] if lent else None, tuple(args[lent:]))

    def parts(self, line: Line, count: int) -> list[ops.Expr]:
        """`[a, b, …]` of raw memory."""
        line.take("[")
        found = [self.expr(line)]
        while len(found) < count:
            line.take(",")
            found.append(self.expr(line))
        line.take("]")
        return found

    def mem_read(self, line: Line) -> ops.Expr:
        """What stands behind `mem` where a value is wanted."""
        line.take(".")
        if line.maybe("sum16"):
            address, length, init = self.parts(line, 3)
            return ops.MemSum16(address, length, init)
        type_ = line.type()
        word = line.take("acquire", "add", "swap") if line.maybe(".") else ""
        if word in ("", "acquire"):
            return ops.MemLoad(type_, self.parts(line, 1)[0], bool(word))
        address, value = self.parts(line, 2)
        return ops.Atomic(word, type_, address, value)

    def libc(self, line: Line) -> ops.Expr:
        address, *args = self.args(line)
        return ops.Libc(address, tuple(args))

    def bare(self, line: Line, made: ops.Expr) -> ops.Expr:
        self.args(line, 0)
        return made

    def ready(self, line: Line) -> ops.Expr:
        line.take("(")
        port = line.number()
        line.take(")")
        return ops.Ready(port)


_LEADS: dict[str, Callable[[ExprParser, Line], ops.Expr]] = {
    "true": lambda p, line: ops.TRUE,
    "false": lambda p, line: ops.FALSE,
    "not": lambda p, line: ops.Not(p.operand(line)),
    "self": ExprParser.state_read,
    "python": ExprParser.host,
    "call": ExprParser.called,
    "now": lambda p, line: p.bare(line, ops.Now()),
    "walltime": lambda p, line: p.bare(line, ops.WallTime()),
    "random": lambda p, line: p.bare(line, ops.Random()),
    "ready": ExprParser.ready,
    "mem": ExprParser.mem_read,
    "libc": ExprParser.libc,
    "frame_address": lambda p, line: ops.FrameAddress(p.args(line, 1)[0]),
    "frame_size": lambda p, line: p.bare(line, ops.FrameSize()),
    "take_frame": lambda p, line: p.bare(line, ops.TakeFrame()),
}
_STATE_READS: dict[str, Callable[[ExprParser, Line, State], ops.Expr]] = {
    "get": ExprParser.table_get,
    "has": ExprParser.table_has,
    "lookup": ExprParser.lpm_get,
    "count": ExprParser.count,
    "used": lambda p, line, s: ops.SlotUsed(s.name, p.args(line, 1)[0]),
}
