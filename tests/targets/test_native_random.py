"""Random IR on both targets: the same values, the same packets, the same faults."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mezzo.elements.store import make_cell
from mezzo.ir import ops
from mezzo.ir.module import Function, Linked, Param, Program, State, Unit
from mezzo.ir.ops import Body, Const, Expr, Stmt
from mezzo.ir.types import BOOL, I64, PACKET, U8, U16, U32, U48, U64, U128, VOID, Type
from mezzo.packet.arena import Arena, Packet
from tests.targets.native_units import TARGETS, P

INTS = (U8, U16, U32, U48, U64, I64, U128)
LOADED = (U8, U16, U32, U48, U64, U128)
STATES = (
    *(State(f"s{t}", "scalar", t) for t in (*INTS, BOOL)),
    State("arr", "array", U16, 8),
    State("tab", "table", U64, 4, U32),
    State("lru", "lru", U64, 4, U32),
    State("lpm", "lpm", U32, 0, U32),
    State("blob", "blob", VOID),
    State("ring", "ring", PACKET, 4),
    State("slots", "slots", PACKET, 2),
    State("buf", "buffer", VOID, 64),
)
LOCALS = {f"v{t}": t for t in (*INTS, BOOL)}


class Maker:
    """Makes random but valid expressions and statements about the packet `p`."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def const(self, t: Type) -> Const:
        edge = self.r.choice([0, 1, 2, 7, t.bits - 1, t.bits, t.mask, t.mask >> 1, (t.mask >> 1) + 1])
        return Const(t, t.wrap(self.r.choice([edge, self.r.getrandbits(t.bits)])))

    def small(self, high: int, depth: int = 1) -> Expr:
        """A u32 that is mostly in range."""
        if self.r.random() < 0.95 or depth <= 0:
            return Const(U32, self.r.randrange(high if self.r.random() < 0.1 else max(high // 3, 1)))
        return ops.Bin("and", U32, self.expr(U32, depth), Const(U32, 63))

    def expr(self, t: Type, depth: int) -> Expr:
        if depth <= 0:
            return self.leaf(t)
        rows = [self.leaf, self.binary, self.cast, self.select] if t is not BOOL else [self.boolean]
        return self.r.choice(rows)(t, depth - 1)

    def leaf(self, t: Type, depth: int = 0) -> Expr:
        choices: list[Any] = [lambda: self.const(t), lambda: ops.Local(t, f"v{t}"), lambda: ops.Get(t, f"s{t}")]
        if t in LOADED:
            mark, order = self.r.choice(ops.MARKS[:3]), self.r.choice(["big", "little"])
            choices.append(lambda: ops.PLoad(t, P, mark, self.small(48, depth), order))
            choices.append(lambda: ops.Anno(t, P, self.r.randrange(48 - t.bits // 8), order))
            choices.append(lambda: ops.BlobLoad(t, "blob", Const(U64, self.r.randrange(25)), order))
        extra: dict[Type, list[Any]] = {
            U16: [lambda: ops.Index(U16, "arr", self.small(9)), lambda: self.sum16(depth)],
            U32: [
                lambda: ops.Meta(U32, P, self.r.choice(["length", "headroom", "tailroom"])),
                lambda: ops.LpmGet(U32, "lpm", self.expr(U32, depth), self.const(U32)),
                lambda: ops.Count(self.r.choice(["ring", "tab", "lru", "buf", "blob"])),
                lambda: ops.Random(),
            ],
            U64: [
                lambda: ops.TableGet(U64, "tab", self.small(8), self.const(U64)),
                lambda: ops.LruGet(U64, "lru", self.small(8), self.const(U64)),
                lambda: ops.Meta(U64, P, "timestamp"),
            ],
            I64: [lambda: ops.Meta(I64, P, self.r.choice(ops.MARKS[1:]))],
            BOOL: [
                lambda: ops.Meta(BOOL, P, "has_net"),
                lambda: ops.SlotUsed("slots", self.small(3)),
                lambda: ops.LruHas("lru", self.small(8)),
            ],
        }
        return self.r.choice([*choices, *extra.get(t, [])])()

    def sum16(self, depth: int) -> Expr:
        return ops.Sum16(P, "data", self.small(20), self.small(40), self.expr(U32, depth))

    def binary(self, t: Type, depth: int) -> Expr:
        op = self.r.choice(["add", "sub", "mul", "div", "mod", "and", "or", "xor", "shl", "shr"])
        return ops.Bin(op, t, self.expr(t, depth), self.expr(t, depth))

    def cast(self, t: Type, depth: int) -> Expr:
        return ops.Cast(t, self.expr(self.r.choice([*INTS, BOOL]), depth))

    def select(self, t: Type, depth: int) -> Expr:
        return ops.Select(t, self.boolean(BOOL, depth), self.expr(t, depth), self.expr(t, depth))

    def boolean(self, _: Type, depth: int) -> Expr:
        kind = self.r.randrange(5) if depth > 0 else 4
        t = self.r.choice(INTS)
        if kind == 0:
            return ops.Cmp(
                self.r.choice(["eq", "ne", "lt", "le", "gt", "ge"]), self.expr(t, depth), self.expr(t, depth)
            )
        if kind == 1:
            return ops.Logic(self.r.choice(["and", "or"]), self.boolean(BOOL, depth - 1), self.boolean(BOOL, depth - 1))
        if kind == 2:
            return ops.Not(self.boolean(BOOL, depth - 1))
        return ops.Cast(BOOL, self.expr(t, depth - 1)) if kind == 3 else self.leaf(BOOL)

    def stmt(self, depth: int, in_loop: bool) -> Body:
        t = self.r.choice([*INTS, BOOL])
        loaded, order = self.r.choice(LOADED), self.r.choice(["big", "little"])
        q = ops.Local(PACKET, "q")
        flow: list[Stmt] = [ops.Break(), ops.Continue()] if in_loop else [ops.Return(self.expr(U32, 1))]
        kinds: list[Any] = [
            lambda: (ops.Set(f"v{t}", self.expr(t, 3)),),
            lambda: (ops.Put(f"s{t}", self.expr(t, 2)),),
            lambda: (ops.PStore(P, self.r.choice(ops.MARKS[:3]), self.small(48), self.expr(loaded, 2), order),),
            lambda: (ops.AnnoSet(P, self.r.randrange(48 - loaded.bits // 8), self.expr(loaded, 2), order),),
            lambda: (ops.MetaSet(P, self.r.choice(ops.MARKS[1:]), Const(I64, self.r.randrange(-20, 50))),),
            lambda: (ops.MetaSet(P, "timestamp", self.expr(U64, 1)),),
            lambda: (ops.MarkClear(P, self.r.choice(ops.MARKS[1:])),),
            lambda: (ops.Resize(self.r.choice(["strip", "prepend", "append", "trim"]), P, self.small(12)),),
            lambda: (ops.Copy(P, "data", self.small(30), P, "data", self.small(30), self.small(20)),),
            lambda: (ops.CopyBlob(P, "data", self.small(30), "blob", Const(U64, self.r.randrange(9)), self.small(20)),),
            lambda: (ops.Store("arr", self.small(9), self.expr(U16, 2)),),
            lambda: (ops.TablePut("vbool", self.r.choice(["tab", "lru"]), self.small(8), self.expr(U64, 1)),),
            lambda: (ops.TableDel("vbool", self.r.choice(["tab", "lru"]), self.small(8)),),
            lambda: (ops.BufPut("buf", self.expr(loaded, 1), order),),
            lambda: (ops.BufPutPacket("buf", P, "data", self.small(30), self.small(9)),),
            lambda: self.with_packet(q),
        ]
        if depth > 0:
            kinds += [
                lambda: (ops.If(self.boolean(BOOL, 2), self.body(depth - 1, in_loop), self.body(depth - 1, in_loop)),),
                lambda: (ops.For("i", self.small(5), 4, self.body(depth - 1, True)),),
                lambda: (ops.If(self.boolean(BOOL, 2), (self.r.choice(flow),)),),
            ]
        return self.r.choice(kinds)()  # type: ignore[no-any-return]

    def with_packet(self, q: ops.Local) -> Body:
        """Gets a second packet from somewhere, and lets it go."""
        get = self.r.choice(
            [
                ops.Make("q", self.small(99)),
                ops.Clone("q", P),
                ops.RingPop("q", "ring", self.r.random() < 0.5),
                ops.MakeFrom("q", "blob", Const(U64, self.r.randrange(9)), self.small(25)),
                ops.SlotTake("q", "slots", self.small(2)),
            ]
        )
        let = self.r.choice(
            [
                ops.Kill(q, self.r.randrange(-1, 2)),
                ops.RingPush("ring", q, self.r.random() < 0.5),
                ops.SlotPut("slots", self.small(2), q),
                ops.Emit(self.small(3), q, self.r.randrange(-1, 2)),
            ]
        )
        return get, ops.If(ops.Not(ops.IsNone(q)), (ops.PStore(q, "data", self.small(9), self.expr(U16, 1)), let))

    def body(self, depth: int, in_loop: bool) -> Body:
        return tuple(s for _ in range(self.r.randrange(1, 4)) for s in self.stmt(depth, in_loop))

    def program(self) -> Program:
        start = tuple(ops.Set(name, self.const(t)) for name, t in LOCALS.items())
        body = tuple(s for _ in range(8) for s in self.stmt(2, False))
        process = Function(
            "process", (Param("p", PACKET),), U32, (*start, *body, ops.Return(self.small(3), self.r.randrange(-1, 2)))
        )
        unit = Unit("Random", (process,), STATES, ("one", "two"))
        taker = Function("push", (Param("port", U32), Param("p", PACKET)), VOID, (ops.RingPush("got", P),))
        sink = Unit("Sink", (taker,), (State("got", "ring", PACKET, 500),))
        return Program((Linked("x", unit, ((1, 0), None, (1, 0)), (None,)), Linked("d", sink, (), (None,))), (), ())


def picture(packet: Packet) -> tuple[Any, ...]:
    marks = tuple(packet.mark(m) for m in ops.MARKS[1:])
    return bytes(packet), packet.headroom, marks, bytes(packet.anno), packet.timestamp


def play(target: str, program: Program, seed: int) -> list[Any]:
    """Everything that can be seen of a run."""
    cells = [{s.name: make_cell(s) for s in x.unit.states} for x in program.instances]
    cells[0]["blob"].bind(bytes(range(200, 224)))
    for key, length, value in ((0, 0, 5), (0, 1, 6), (1, 32, 7), (0xFFFF0000, 16, 8)):
        cells[0]["lpm"].add(key, length, value)
    arena = Arena(40)
    engine = TARGETS[target].build(program, arena, cells, {}, seed=seed, virtual=True, cache=False)
    r = random.Random(seed)
    seen: list[Any] = []
    for _ in range(12):
        packet = arena.make_from(r.randbytes(r.choice([10, 60, 60, 60])))
        if packet is None:
            break
        if r.random() < 0.95:
            packet.set_mark("net", r.randrange(-2, 20))
            packet.set_mark("mac", 0)
        engine.push(0, 0, packet.frame)
        state = [cell.dump() for name, cell in engine.cells[0].items() if name not in ("lpm", "lru", "blob")]
        state.append((engine.cells[0]["lru"].forgotten, engine.cells[0]["lru"].items()))  # the order shows later
        seen.append((state, engine.drops(0), engine.drops(1), arena.held))
        seen.append([picture(Packet(arena, f)) for f in engine.cells[1]["got"].dump()])
        seen.append([picture(Packet(arena, f)) for f in engine.cells[0]["ring"].dump()])
    return seen


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_agree(seed: int) -> None:
    program = Maker(seed).program()
    assert play("native", program, seed) == play("python", program, seed)
