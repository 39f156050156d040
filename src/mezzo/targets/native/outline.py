"""Takes the rare branches out of the road that packets take.

LLVM inlines a function along the graph only while it is small, and a packet method is often a short road with long
side roads: options, misses, errors.  A branch that ends in a return, and does not look like the main way out, becomes a
function of its own (`process.rare1`) that takes over the packets; what stays is small enough to be fused with its
neighbours.  A main way out is output 0, a computed output, one without a reason for drops, a packet given to a
puller or put in a ring (of an element or of a port).

`as_push` turns what is left of `process` into code that pushes where it returned a port, for one instance: no port
number is carried, so nothing has to be decoded behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from mezzo.ir import ops
from mezzo.ir.module import Function, Param, Unit
from mezzo.ir.ops import Body, Const, Local, Stmt
from mezzo.ir.types import KILL, PACKET, U32, VOID, Type
from mezzo.targets.native.layout import walk

ROLES = ("process", "push", "pull")
ERROR_SIZE = 12  # nodes: an exit that is not the main one is taken out from this size
SLOW_SIZE = 40  # nodes: of two main ways the much longer one is taken out from this size
SLOWER = 1.25
PUSH_SIZE = 160  # nodes: a longer `process` is called, not copied into each instance


@dataclass(frozen=True)
class Leave(Stmt):
    """Goes on in another function of the unit, which takes over the packets among `args`, and returns as it does."""

    function: str
    args: tuple[Local, ...]


def role_of(name: str) -> str:
    """`process.rare1` plays the role of `process`."""
    return name.partition(".rare")[0]


def size(node: object) -> int:
    return sum(1 for _ in walk(node))


def outline(unit: Unit) -> Unit:
    """The unit with the rare branches of its roles as functions of their own."""
    functions: list[Function] = []
    for function in unit.functions:
        if function.name in ROLES and size(function.body) > SLOW_SIZE:
            functions += _Splitter(function).run()
        else:
            functions.append(function)
    return replace(unit, functions=tuple(functions))


def as_push(process: Function) -> Function:
    """`process` as code that pushes the packet where it returned a port."""
    packet = process.params[0]
    params = (Param("port", U32), packet)
    return Function("push", params, VOID, _pushing(process.body, Local(PACKET, packet.name)), span=process.span)


def _pushing(body: Body, packet: Local) -> Body:
    out: list[Stmt] = []
    for s in body:
        if isinstance(s, ops.If):
            out.append(replace(s, then=_pushing(s.then, packet), orelse=_pushing(s.orelse, packet)))
        elif isinstance(s, ops.For):
            out.append(replace(s, body=_pushing(s.body, packet)))
        elif isinstance(s, ops.Return) and s.value is not None:
            out += [ops.Emit(s.value, packet, s.reason, span=s.span), ops.Return(span=s.span)]
        else:
            out.append(s)
    return tuple(out)


def returns(body: Body) -> bool:
    """Every path through `body` ends in a return."""
    last = body[-1] if body else None
    if isinstance(last, ops.If):
        return returns(last.then) and returns(last.orelse) and not _jumps(body)
    return isinstance(last, ops.Return | Leave) and not _jumps(body)


def _jumps(body: Body) -> bool:
    """Whether a break or continue leaves `body` for a loop around it."""
    return any(
        isinstance(s, ops.Break | ops.Continue) or (isinstance(s, ops.If) and (_jumps(s.then) or _jumps(s.orelse)))
        for s in body
    )


def _is_main(body: Body) -> bool:
    """Whether a packet's usual way could lead through here."""
    for node in walk(body):
        if isinstance(node, ops.Emit) and _is_main_port(node.port, node.reason):
            return True
        if isinstance(node, ops.Return) and node.value is not None and _is_main_port(node.value, node.reason):
            return True
        if isinstance(node, ops.RingPush | ops.Lend):
            return True
    return False


def _is_main_port(port: ops.Expr, reason: int) -> bool:
    return not isinstance(port, Const) or (port.value != KILL and (port.value == 0 or reason < 0))


def _is_plain_return(s: Stmt) -> bool:
    return isinstance(s, ops.Return) and (s.value is None or isinstance(s.value, Const))


def _unless(body: Body, rest: Body) -> Body:
    """`rest`, where control can come to it."""
    return () if returns(body) else rest


def _is_setting(cond: ops.Expr) -> bool:
    """Whether a condition only looks at scalars of the state: no packet decides it, so no side is the rare one."""
    leaves = [x for x in walk(cond) if not isinstance(x, ops.Cmp | ops.Logic | ops.Not | ops.Cast | Const)]
    return all(isinstance(x, ops.Get) for x in leaves)


class _Splitter:
    """Splits one function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.params = {p.name for p in function.params}
        self.bound = Counter(bindings(function.body))
        self.made: list[Function] = []

    def run(self) -> list[Function]:
        body = self.body(self.function.body)
        return [replace(self.function, body=body), *self.made]

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for at, s in enumerate(body):
            if isinstance(s, ops.If):
                rest = body[at + 1 :]
                if len(rest) == 1 and _is_plain_return(rest[0]):
                    s = replace(s, then=s.then + _unless(s.then, rest), orelse=s.orelse + _unless(s.orelse, rest))
                    rest = ()
                if returns(s.then) or returns(s.orelse):
                    # What follows belongs to the side that goes on.
                    then = s.then if returns(s.then) else s.then + rest
                    orelse = s.orelse if returns(s.orelse) else s.orelse + rest
                    then, orelse = self.choose(s.cond, then, orelse)
                    return (*out, replace(s, then=then, orelse=orelse))
                s = replace(s, then=self.body(s.then), orelse=self.body(s.orelse))
            elif isinstance(s, ops.For):
                s = replace(s, body=self.body(s.body))
            out.append(s)
        return tuple(out)

    def choose(self, cond: ops.Expr, a: Body, b: Body) -> tuple[Body, Body]:
        """Both sides, the rare one taken out."""
        sides, sizes = [a, b], [size(a), size(b)]
        main = [_is_main(side) for side in sides]
        rare = [returns(sides[i]) and sizes[i] >= ERROR_SIZE and not main[i] for i in (0, 1)]
        if all(main) and not _is_setting(cond):
            long = 0 if sizes[0] > sizes[1] else 1
            rare[long] = returns(sides[long]) and sizes[long] >= max(SLOW_SIZE, SLOWER * sizes[1 - long])
        done = [self.take_out(sides[i]) if rare[i] else self.body(sides[i]) for i in (0, 1)]
        return done[0], done[1]

    def take_out(self, body: Body) -> Body:
        name = f"{self.function.name}.rare{len(self.made) + 1}"
        inside = Counter(bindings(body))
        read: dict[str, Type] = {}
        for node in walk(body):
            if not isinstance(node, Local):
                continue
            known = node.name in self.params or self.bound[node.name] > inside[node.name]
            # A packet born inside is not the one of that name outside, which is gone by then.
            if known and not (node.type is PACKET and inside[node.name]):
                read[node.name] = node.type
        params = tuple(Param(n, t) for n, t in read.items())
        self.made.append(Function(name, params, self.function.ret, body, span=self.function.span))
        return (Leave(name, tuple(Local(t, n) for n, t in read.items())),)


def bindings(body: Body) -> Iterator[str]:
    """The names that statements in `body` bind, as often as they do."""
    for node in walk(body):
        if isinstance(node, BINDS):
            yield node.name
        elif isinstance(node, ops.TablePut | ops.TableDel):
            yield node.done


BINDS = (
    ops.Set, ops.For, ops.Make, ops.MakeFrom, ops.Clone, ops.Pull, ops.RingPop, ops.SlotTake, ops.RunTask,
    ops.ReadClock, ops.Lend, ops.Adopt,
)  # fmt: skip
