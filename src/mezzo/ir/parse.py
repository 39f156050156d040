"""Reads the text form of the IR back; its face and its rules are in `ir.text`.

One line is one statement, two spaces are one level.  Types are not guessed: they come from number suffixes, the
declarations of states and functions, and the assignments above.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from mezzo.base import MezzoError
from mezzo.ir import ops
from mezzo.ir.lines import META, RESIZE, Line
from mezzo.ir.module import TABLES, Function, Param, State, Unit
from mezzo.ir.parse_expr import Declared, ExprParser, dotted
from mezzo.ir.types import BOOL, PACKET, TYPES, U32, U64, VOID, Type


def parse_unit(text: str) -> Unit:
    """The unit that `print_unit` wrote; MezzoError points at what it does not understand."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    return _UnitParser(lines).run()


class _UnitParser(Declared):
    """Declarations and function heads; bodies are read when every function's type is known."""

    def __init__(self, lines: list[tuple[int, str]]) -> None:
        super().__init__()
        self.lines = [Line(number, text) for number, text in lines]

    def run(self) -> Unit:
        if not self.lines:
            raise MezzoError("this text holds no unit")
        head = self.lines[0]
        head.take("unit")
        name = head.name()
        head.end()
        starts = [i for i, line in enumerate(self.lines) if i and line.indent == 0]
        heads: list[tuple[Function, int, int]] = []
        for start, stop in pairwise([*starts, len(self.lines)]):
            made = self.declaration(self.lines[start])
            if made is not None:
                heads.append((made, start + 1, stop))
        functions = [self.function(*given) for given in heads]
        return Unit(name, tuple(functions), tuple(self.states.values()), tuple(self.reasons), tuple(self.hosts))

    def declaration(self, line: Line) -> Function | None:
        if line.peek() == "state" and line.peek(2) == ":":
            self.state(line)
        elif line.peek() == "reasons" and line.tokens[1].kind == "text":
            line.take()
            self.reasons = _listed(line, line.string)
        elif line.peek() == "hosts" and line.peek(1) != "(":
            line.take()
            self.hosts = _listed(line, line.name)
        else:
            return self.head(line)
        line.end()
        return None

    def state(self, line: Line) -> None:
        line.take("state")
        name = line.name()
        line.take(":")
        kind = "scalar" if line.peek() in TYPES else line.take()
        key = None
        if line.maybe("["):
            key = line.type()
            line.take("]")
        type_ = line.type() if line.peek() in TYPES else VOID
        size = line.number() if line.maybe("x") else 0
        self.states[name] = State(name, kind, type_, size, key)

    def head(self, line: Line) -> Function:
        entry, rare = line.maybe("entry"), line.maybe("rare")
        name = dotted(line)
        line.take("(")
        params: list[Param] = []
        while not line.maybe(")"):
            given = line.name()
            line.take(":")
            params.append(Param(given, line.type()))
            if line.peek() != ")":
                line.take(",")
        ret = line.type() if line.maybe("->") else VOID
        line.take(":")
        line.end()
        self.returns[name] = ret
        return Function(name, tuple(params), ret, (), entry, rare=rare)

    def function(self, head: Function, start: int, stop: int) -> Function:
        if start == stop:
            self.lines[start - 1].fail("expected a body below this")
        reader = _BodyParser(self, self.lines[start:stop], {p.name: p.type for p in head.params})
        return replace(head, body=reader.body(2))


def _listed(line: Line, item: Callable[[], str]) -> list[str]:
    items = [item()]
    while line.maybe(","):
        items.append(item())
    return items


class _BodyParser(ExprParser):
    """The statements of one function."""

    def __init__(self, unit: Declared, lines: list[Line], types: dict[str, Type]) -> None:
        self.unit, self.lines, self.types, self.next = unit, lines, types, 0

    def body(self, indent: int) -> ops.Body:
        made: list[ops.Stmt] = []
        first = self.next
        while self.next < len(self.lines) and self.lines[self.next].indent >= indent:
            line = self.lines[self.next]
            if line.indent != indent:
                line.fail(f"expected {indent} spaces before this")
            if line.peek() == "else":
                break
            self.next += 1
            if not line.maybe("pass"):
                made.append(self.statement(line, indent))
            line.end()
        if self.next == first:
            self.lines[min(first, len(self.lines) - 1)].fail("expected a statement here")
        return tuple(made)

    def statement(self, line: Line, indent: int) -> ops.Stmt:
        word = line.peek()
        if word in ("if", "for"):
            return self.branch(line, indent) if word == "if" else self.loop(line, indent)
        if word in _STATEMENTS:
            line.take()
            return _STATEMENTS[word](self, line)
        if word == "self":
            line.take()
            return self.state_write(line)
        if line.peek(1) == "=":
            return self.assign(line)
        packet = self.local(line)
        line.take(".")
        return self.packet_write(packet, line)

    def branch(self, line: Line, indent: int) -> ops.Stmt:
        line.take("if")
        cond = self.expr(line)
        line.take(":")
        then = self.body(indent + 2)
        orelse: ops.Body = ()
        follows = self.lines[self.next] if self.next < len(self.lines) else line
        if follows.indent == indent and follows.maybe("else"):
            follows.take(":")
            follows.end()
            self.next += 1
            orelse = self.body(indent + 2)
        return ops.If(cond, then, orelse)

    def loop(self, line: Line, indent: int) -> ops.Stmt:
        line.take("for")
        name = line.name()
        line.take("in")
        line.take("range")
        (count,) = self.args(line, 1)
        line.take("max")
        limit = line.number()
        line.take(":")
        self.types[name] = U32
        return ops.For(name, count, limit, self.body(indent + 2))

    def reason(self, line: Line) -> int:
        if line.kind() == "text":
            text = line.string()
            if text not in self.unit.reasons:
                line.fail("this reason is not among the unit's `reasons`")
            return self.unit.reasons.index(text)
        return int(line.take()[1:]) if line.kind() == "reason" else -1

    def returned(self, line: Line) -> ops.Stmt:
        value = None if line.kind() in ("end", "text", "reason") else self.expr(line)
        return ops.Return(value, self.reason(line))

    def emit(self, line: Line) -> ops.Stmt:
        packet = self.local(line)
        line.take("to")
        port = self.operand(line)
        return ops.Emit(port, packet, self.reason(line))

    def kill(self, line: Line) -> ops.Stmt:
        packet = self.local(line)
        return ops.Kill(packet, self.reason(line))

    def timer(self, line: Line) -> ops.Stmt:
        return ops.TimerClear() if line.maybe("clear") else ops.TimerSet(self.expr(line))

    def clear(self, line: Line) -> ops.Stmt:
        packet = self.local(line)
        line.take(".")
        return ops.MarkClear(packet, line.take("mac", "net", "trans"))

    def copy(self, line: Line) -> ops.Stmt:
        packet = self.local(line)
        mark, offset = self.place(line)
        line.take("]")
        line.take("from")
        if line.maybe("self"):
            state = self.state(line, "blob").name
            line.take("[")
            start = self.expr(line)
            return ops.CopyBlob(packet, mark, offset, state, start, self.copy_length(line))
        source = self.local(line)
        source_mark, start = self.place(line)
        return ops.Copy(packet, mark, offset, source, source_mark, start, self.copy_length(line))

    def copy_length(self, line: Line) -> ops.Expr:
        line.take("]")
        line.take("for")
        return self.operand(line)

    # -- `self.…` as a statement

    def state_write(self, line: Line) -> ops.Stmt:
        state = self.state(line)
        if line.maybe("="):
            return ops.Put(state.name, self.expr(line))
        if line.maybe("["):
            index = self.expr(line)
            line.take("]")
            line.take("=")
            return ops.Store(state.name, index, self.expr(line))
        line.take(".")
        return self.state_call(state, line)

    def state_call(self, state: State, line: Line) -> ops.Stmt:
        word = line.name()
        if state.kind in TABLES:
            return self.table_change("", state, word, line)
        if word == "put_packet":
            return self.put_packet(state, line)
        found = _STATE_CALLS.get((state.kind, word))
        if found is None:
            line.fail(f"a {state.kind} has no `{word}`")
        return found(state.name, self.args(line, 2 if state.kind == "slots" else 1))

    def table_change(self, done: str, state: State, word: str, line: Line) -> ops.Stmt:
        if word == "delete":
            return ops.TableDel(done, state.name, self.args(line, 1)[0])
        if word != "put":
            line.fail(f"a {state.kind} has no `{word}`")
        key, value = self.args(line, 2)
        return ops.TablePut(done, state.name, key, value)

    def put_packet(self, state: State, line: Line) -> ops.Stmt:
        line.take("(")
        packet = self.local(line)
        mark, offset = self.place(line)
        line.take("]")
        line.take(",")
        length = self.expr(line)
        line.take(")")
        return ops.BufPutPacket(state.name, packet, mark, offset, length)

    def mem_write(self, line: Line) -> ops.Stmt:
        """What stands behind `mem` as a statement."""
        line.take(".")
        if line.maybe("copy"):
            to, source, length = self.parts(line, 3)
            return ops.MemCopy(to, source, length)
        if line.maybe("zero"):
            to, length = self.parts(line, 2)
            return ops.MemZero(to, length)
        type_ = line.type()
        release = line.maybe(".") and line.take("release") == "release"
        (address,) = self.parts(line, 1)
        return ops.MemStore(address, self.stored(type_, line), release)

    def prefetch_frame(self, line: Line) -> ops.Stmt:
        frame, start = self.args(line, 2)
        return ops.PrefetchFrame(frame, start)

    # -- `name = …`

    def assign(self, line: Line) -> ops.Stmt:
        name = line.name().partition(":")[0].strip("`")
        line.take("=")
        word = line.peek()
        if word in _BIRTHS:
            line.take()
            made, type_ = _BIRTHS[word](self, name, line)
            self.types[name] = type_
            return made
        if word == "self" and line.peek(3) == "." and line.peek(4) in ("put", "delete", "pop", "pop_back", "take"):
            return self.from_state(name, line)
        value = self.expr(line)
        self.types[name] = value.type
        return ops.Set(name, value)

    def from_state(self, name: str, line: Line) -> ops.Stmt:
        line.take("self")
        state = self.state(line, *TABLES, "ring", "slots")
        line.take(".")
        word = line.name()
        if state.kind in TABLES:
            made = self.table_change(name, state, word, line)
            self.types[name] = BOOL
            return made
        args = self.args(line, 1 if word == "take" else 0)
        self.types[name] = PACKET
        if word == "take":
            return ops.SlotTake(name, state.name, args[0])
        return ops.RingPop(name, state.name, word == "pop_back")

    def make_from(self, name: str, line: Line) -> tuple[ops.Stmt, Type]:
        line.take("(")
        line.take("self")
        state = self.state(line, "blob")
        line.take(",")
        offset = self.expr(line)
        line.take(",")
        length = self.expr(line)
        line.take(")")
        return ops.MakeFrom(name, state.name, offset, length), PACKET

    def adopt(self, name: str, line: Line) -> tuple[ops.Stmt, Type]:
        frame, start, length = self.args(line, 3)
        return ops.Adopt(name, frame, start, length), PACKET

    def read_clock(self, name: str, line: Line) -> tuple[ops.Stmt, Type]:
        self.args(line, 0)
        return ops.ReadClock(name), U64

    # -- `p.… =`

    def packet_write(self, packet: ops.Expr, line: Line) -> ops.Stmt:
        word = line.peek()
        if word in RESIZE:
            line.take()
            return ops.Resize(word, packet, self.args(line, 1)[0])
        if word in META:
            line.take()
            line.take("=")
            return ops.MetaSet(packet, word, self.expr(line))
        if line.maybe("anno"):
            type_, order, at = self.anno(line)
            return ops.AnnoSet(packet, at, self.stored(type_, line), order)
        type_, order = self.width(line, "big")
        mark, offset = self.place(line)
        line.take("]")
        return ops.PStore(packet, mark, offset, self.stored(type_, line), order)

    def stored(self, type_: Type, line: Line) -> ops.Expr:
        line.take("=")
        value = self.expr(line)
        if value.type is not type_:
            line.fail(f"this stores a {value.type} as {type_}")
        return value


_STATEMENTS: dict[str, Callable[[_BodyParser, Line], ops.Stmt]] = {
    "return": _BodyParser.returned,
    "emit": _BodyParser.emit,
    "kill": _BodyParser.kill,
    "timer": _BodyParser.timer,
    "clear": _BodyParser.clear,
    "copy": _BodyParser.copy,
    "break": lambda p, line: ops.Break(),
    "continue": lambda p, line: ops.Continue(),
    "eval": lambda p, line: ops.Eval(p.expr(line)),
    "wake": lambda p, line: ops.Wake(line.take("self", "down", "up")),
    "mem": _BodyParser.mem_write,
    "give_frame": lambda p, line: ops.GiveFrame(p.args(line, 1)[0]),
    "prefetch_frame": _BodyParser.prefetch_frame,
    "fire_timer": lambda p, line: ops.FireTimer(p.args(line, 1)[0]),
}
_BIRTHS: dict[str, Callable[[_BodyParser, str, Line], tuple[ops.Stmt, Type]]] = {
    "make": lambda p, name, line: (ops.Make(name, p.args(line, 1)[0]), PACKET),
    "make_from": _BodyParser.make_from,
    "clone": lambda p, name, line: (ops.Clone(name, p.args(line, 1)[0]), PACKET),
    "pull": lambda p, name, line: (ops.Pull(name, p.args(line, 1)[0]), PACKET),
    "lend": lambda p, name, line: (ops.Lend(name, p.args(line, 1)[0]), U32),
    "adopt": _BodyParser.adopt,
    "run_task": lambda p, name, line: (ops.RunTask(name, p.args(line, 1)[0]), BOOL),
    "read_clock": _BodyParser.read_clock,
}
_STATE_CALLS: dict[tuple[str, str], Callable[[str, list[ops.Expr]], ops.Stmt]] = {
    ("ring", "push"): lambda s, a: ops.RingPush(s, a[0]),
    ("ring", "push_front"): lambda s, a: ops.RingPush(s, a[0], True),
    ("slots", "put"): lambda s, a: ops.SlotPut(s, a[0], a[1]),
    ("buffer", "put"): lambda s, a: ops.BufPut(s, a[0]),
    ("buffer", "put_be"): lambda s, a: ops.BufPut(s, a[0], "big"),
}
