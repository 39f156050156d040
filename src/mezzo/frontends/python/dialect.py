"""The runtime dialect in packet code: raw memory, C functions, frames (docs/design/0002).

Only classes with `runtime = True` have these names: nothing proves that an address is good.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from mezzo.frontends.python.arguments import NOTHING, Arguments
from mezzo.frontends.python.values import Lit, Num, Pkt, Value, cast, literal
from mezzo.frontends.python.wording import describe
from mezzo.ir import ops
from mezzo.ir.types import I64, U8, U16, U32, U64, Type

Row = Callable[["Dialect", ast.Call], Value]
MOST_WORDS = 6  # a C function takes


def _load(type_: Type, acquire: bool = False) -> Row:
    def row(self: Dialect, node: ast.Call) -> Value:
        (at,) = self.raw(node, 1, "address")
        return Num(ops.MemLoad(type_, self.number(at, U64), acquire))

    return row


def _store(type_: Type, release: bool = False) -> Row:
    def row(self: Dialect, node: ast.Call) -> Value:
        at, value = self.raw(node, 2, "address, value")
        address = self.number(at, U64)
        self.out.add(ops.MemStore(address, self.number(value, type_), release, span=self.span(node)))
        return NOTHING

    return row


def _atomic(op: str, type_: Type) -> Row:
    def row(self: Dialect, node: ast.Call) -> Value:
        at, value = self.raw(node, 2, "address, value")
        address = self.number(at, U64)
        return Num(ops.Atomic(op, type_, address, self.number(value, type_)))

    return row


class Dialect(Arguments):
    """Functions fn_NAME and methods my_NAME of the dialect."""

    def raw(self, node: ast.Call, count: int, usage: str) -> list[ast.expr]:
        """The arguments of a call that is of the dialect."""
        name = ast.unparse(node.func)
        self.of_dialect(node.func, name)
        return self.args(node, count, count, f"{name}({usage})")

    def of_dialect(self, node: ast.AST, name: str) -> None:
        """Refuses the name in a class that is not of the runtime."""
        if not self.unit.element.runtime:
            hint = "packets have checked access (p.u16(offset)), and Python is called by a @python method"
            self.fail(node, f"`{name}` is of the runtime dialect; only mezzo's own ports use it", hint)

    fn_mem_u8, fn_mem_u16, fn_mem_u32, fn_mem_u64 = map(_load, (U8, U16, U32, U64))
    fn_set_mem_u8, fn_set_mem_u16, fn_set_mem_u32, fn_set_mem_u64 = map(_store, (U8, U16, U32, U64))
    fn_load_acquire_u32, fn_load_acquire_u64 = _load(U32, True), _load(U64, True)
    fn_store_release_u32, fn_store_release_u64 = _store(U32, True), _store(U64, True)
    fn_atomic_add_u64, fn_atomic_swap_u32 = _atomic("add", U64), _atomic("swap", U32)

    def fn_mem_copy(self, node: ast.Call) -> Value:
        to, source, count = self.raw(node, 3, "to, from, count")
        addresses = self.number(to, U64), self.number(source, U64)
        self.out.add(ops.MemCopy(*addresses, self.number(count, U32), span=self.span(node)))
        return NOTHING

    def fn_mem_zero(self, node: ast.Call) -> Value:
        to, count = self.raw(node, 2, "to, count")
        address = self.number(to, U64)
        self.out.add(ops.MemZero(address, self.number(count, U32), span=self.span(node)))
        return NOTHING

    def fn_mem_sum16(self, node: ast.Call) -> Value:
        at, count, init = self.raw(node, 3, "address, count, init")
        address, length = self.number(at, U64), self.number(count, U32)
        return Num(ops.MemSum16(address, length, self.number(init, U32), span=self.span(node)))

    def fn_libc(self, node: ast.Call) -> Value:
        self.of_dialect(node.func, "libc")
        address, *words = self.args(node, 1, 1 + MOST_WORDS, "libc(address, up to six words)")
        target = self.number(address, U64)
        return Num(ops.Libc(target, tuple(self.word(x) for x in words), span=self.span(node)))

    def word(self, node: ast.expr) -> ops.Expr:
        """A 64-bit argument: signed numbers keep their bits."""
        value = self.expr(node)
        if isinstance(value, Lit) and (I64.holds(value.value) or U64.holds(value.value)):
            return literal(value.value, U64)
        if isinstance(value, Num) and 0 < value.type.bits <= 64:
            return cast(U64, value.expr)
        self.fail(node, f"a number of 64 bits at most is wanted here, and this is {describe(value)}")

    def fn_frame_address(self, node: ast.Call) -> Value:
        (frame,) = self.raw(node, 1, "frame")
        return Num(ops.FrameAddress(self.number(frame, U32), span=self.span(node)))

    def fn_frame_size(self, node: ast.Call) -> Value:
        self.raw(node, 0, "")
        return Num(ops.FrameSize())

    def fn_prefetch_frame(self, node: ast.Call) -> Value:
        frame, start = (self.number(x, U32) for x in self.raw(node, 2, "frame, start"))
        self.out.add(ops.PrefetchFrame(frame, start, span=self.span(node)))
        return NOTHING

    def my_lend(self, node: ast.Call, name: str) -> Value:
        (packet,) = self.raw(node, 1, "p")
        frame = self.out.fresh("frame")
        self.out.add(ops.Lend(frame, self.packet(packet).expr, span=self.span(node)))
        return Num(ops.Local(U32, frame))

    def my_adopt(self, node: ast.Call, name: str) -> Value:
        frame, start, length = (self.number(x, U32) for x in self.raw(node, 3, "frame, start, length"))
        born = self.birth(node, name)
        self.out.add(ops.Adopt(born, frame, start, length, span=self.span(node)))
        return Pkt(born)

    def my_take_frame(self, node: ast.Call, name: str) -> Value:
        self.raw(node, 0, "")
        return Num(ops.TakeFrame())

    def my_give_frame(self, node: ast.Call, name: str) -> Value:
        (frame,) = self.raw(node, 1, "frame")
        self.out.add(ops.GiveFrame(self.number(frame, U32), span=self.span(node)))
        return NOTHING
