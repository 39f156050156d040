"""Statements: each IR statement as LLVM text for BPF.  A row per op; the table is what this target can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.ir import ops
from mezzo.ir.cost import rounds
from mezzo.ir.growth import growth
from mezzo.ir.ops import KILL, Body, Const, Expr
from mezzo.ir.spec import nodes
from mezzo.ir.types import PACKET
from mezzo.targets.kernel.facts import UNSET, Facts
from mezzo.targets.kernel.frame import (
    ADJUST_HEAD,
    ADJUST_TAIL,
    LOAD_BYTES,
    MAP_DELETE,
    MAP_UPDATE,
    STORE_BYTES,
    Frame,
)
from mezzo.targets.kernel.lower import EXPR, element, table_key, value
from mezzo.targets.kernel.proofs import assume, prepare
from mezzo.targets.kernel.rounds import write_rounds
from mezzo.targets.native.text import ll, ll_mem

UNROLLED = 8  # rounds up to which a loop stays a loop: the verifier follows each of them, with all that comes after
STRAIGHT = 64  # bytes up to which a copy is loads and stores


def run(f: Frame, body: Body) -> bool:
    """Emits `body`; whether control reaches its end."""
    for place, stmt in enumerate(body):
        f.ahead = needed(body[place:])
        with f.t.place(getattr(stmt, "span", None)):
            STMT[type(stmt)](f, stmt)
        f.ahead = {}
        if isinstance(stmt, ops.Return | ops.Break | ops.Continue | ops.Emit):
            return False  # after Emit comes nothing: see `capable`
    return True


def needed(body: Body) -> dict[str, int]:
    """Bytes from each mark that the first statements need in any case: a packet that has less dies at one of them, and
    none does anything that is seen after that.  So one comparison is enough for all."""
    found: dict[str, int] = {}
    for stmt in body:
        whole, part = _looked_at(stmt)
        inner = list(nodes(part)) if part is not None else []
        if part is None or any(isinstance(n, ops.Call | ops.Logic | ops.Random) for n in inner):
            break
        for n in inner:
            if isinstance(n, ops.PLoad) and isinstance(n.offset, Const):
                found[n.mark] = max(found.get(n.mark, 0), n.offset.value + n.type.bits // 8)
            elif isinstance(n, ops.PStore) and isinstance(n.offset, Const):
                found[n.mark] = max(found.get(n.mark, 0), n.offset.value + n.value.type.bits // 8)
        if not whole:
            break
    return found


def _looked_at(stmt: ops.Stmt) -> tuple[bool, ops.Node | None]:
    """(whether statements behind it are reached for sure, what of it is)."""
    if isinstance(stmt, ops.If):
        return False, stmt.cond
    if isinstance(stmt, ops.Return):
        return False, stmt.value
    return True, stmt if isinstance(stmt, ops.Set | ops.PStore | ops.AnnoSet | ops.Eval) else None


# -- control


def _if(f: Frame, s: ops.If) -> None:
    t = f.t
    f.answers = {}
    prepare(f, s.cond)
    cond = value(f, s.cond)
    answers = f.answers if isinstance(s.cond, ops.Call) else {}
    then, other, done = t.label("then"), t.label("else"), t.label("fi")
    t.branch(cond, then, other)
    before, ends = f.facts, list[Facts]()
    for label, body in ((then, s.then), (other, s.orelse)):
        t.at(label)
        f.facts = before.copy()
        f.facts.take(answers.get(int(label is then)))
        assume(f, s.cond, label is then)
        if run(f, body):
            t.jump(done)
            ends.append(f.facts)
    t.at(done)
    f.facts = ends[0].both(ends[-1]) if ends else before
    if not ends:
        t.do("unreachable")
        t.at(t.label("dead"))


def _set(f: Frame, s: ops.Set) -> None:
    f.answers = {}
    f.bind(s.name, value(f, s.value))
    slot = f.scope.slots[s.name]
    f.facts.cases.pop(slot, None)
    if isinstance(s.value, ops.Call) and f.answers:
        f.facts.cases[slot] = f.answers


def _for(f: Frame, s: ops.For) -> None:
    t = f.t
    count = value(f, s.count)
    if not isinstance(s.count, Const) or s.count.value > s.limit:
        count = t.opaque("i32", count)
        f.check(t.op(f"icmp ule i32 {count}, {s.limit}"))
    if rounds(s) > UNROLLED:
        _rounds(f, s, count)
        return
    counter = t.slot("i32")
    t.do(f"store i32 0, ptr {counter}")
    head, body, step, done = t.label("for"), t.label("do"), t.label("step"), t.label("done")
    t.jump(head)
    t.at(head)
    i = t.op(f"load i32, ptr {counter}")
    t.branch(t.op(f"icmp ult i32 {i}, {count}"), body, done)
    t.at(body)
    f.bind(s.name, i)
    f.scope.loops.append((step, done))
    f.facts.enter_loop(f.unit, s.body)
    before = f.facts.copy()
    if run(f, s.body):
        t.jump(step)
    f.facts = before
    f.scope.loops.pop()
    t.at(step)
    t.do(f"store i32 {t.op(f'add nuw i32 {i}, 1')}, ptr {counter}")
    t.jump(head)
    t.at(done)


def _rounds(f: Frame, s: ops.For, count: str) -> None:
    """A longer loop, its body a function that the kernel calls: see `rounds`."""
    t = f.t
    f.facts.enter_loop(f.unit, s.body)
    f.facts.memory_moved()
    before, outer = f.facts.copy(), t.lines
    t.lines, f.inside = [], f.inside + 1
    step, stop = t.label("step"), t.label("stop")
    f.bind(s.name, "%i")
    f.scope.loops.append((step, stop))
    if run(f, s.body):
        t.jump(step)
    f.scope.loops.pop()
    body, t.lines, f.inside = t.lines, outer, f.inside - 1
    f.facts = before
    write_rounds(f, body, step, stop, count)


def _return(f: Frame, s: ops.Return) -> None:
    if f.scope.done:
        if s.value is not None:
            f.t.do(f"store {ll(s.value.type)} {value(f, s.value)}, ptr {f.scope.result}")
        f.scope.ends.append((f.known(), s.value.value if isinstance(s.value, Const) else None))
        f.t.jump(f.scope.done)
    elif s.value is None or s.value.type is PACKET:
        f.t.jump("dead")
    else:
        _by_port(f, s.value, s.reason)


def _call(f: Frame, e: ops.Call) -> str:
    """A helper is written where it is called."""
    function = f.unit.function(e.function)
    assert function is not None, "the unit is valid"
    args = [value(f, a) if a.type is not PACKET else "" for a in e.args]
    done = f.t.label("back")
    scope = f.open(function, done)
    for param, arg in zip(function.params, args, strict=True):
        if param.type is not PACKET:
            f.bind(param.name, arg)
    if run(f, function.body):
        scope.ends.append((f.known(), None))
        f.t.jump(done)
    f.scopes.pop()
    f.t.at(done)
    f.answers = {}
    for i, (known, answer) in enumerate(scope.ends):
        f.facts = known if i == 0 else f.facts.both(known)
        if answer is not None:
            f.answers[answer] = f.answers[answer].both(known) if answer in f.answers else known
    if any(answer is None for _, answer in scope.ends):
        f.answers = {}
    if not scope.result:
        return ""
    result = f.t.op(f"load {ll(function.ret)}, ptr {scope.result}")
    # Of several answers LLVM would make a flag for each that is asked for, and set them all in front of the usual way.
    return f.t.opaque(ll(function.ret), result, "") if len(f.answers) > 2 else result


def _by_port(f: Frame, port: Expr, reason: int) -> None:
    """The packet leaves by an output, which may be worked out."""
    if isinstance(port, Const):
        f.leave(port.value, reason)
        return
    t, ways = f.t, range(len(f.linked.outputs))
    v, labels, other, lost = value(f, port), [t.label("way") for _ in ways], t.label("other"), t.label("lost")
    cases = " ".join(f"i32 {i}, label %{labels[i]}" for i in ways)
    t.do(f"switch i32 {v}, label %{other} [{cases}]{t.weights(len(ways))}")
    facts = f.facts
    for i in ways:
        t.at(labels[i])
        f.facts = facts.copy()
        f.leave(i, reason)
    t.at(other)
    if reason < 0:
        t.branch(t.op(f"icmp eq i32 {v}, {KILL}"), "dead", lost)
        t.at(lost)
    f.drop(reason)


def _emit(f: Frame, s: ops.Emit) -> None:
    _by_port(f, s.port, s.reason)


def _kill(f: Frame, s: ops.Kill) -> None:
    if s.reason >= 0:
        f.count(s.reason)


# -- packets


def _pstore(f: Frame, s: ops.PStore) -> None:
    offset, v = value(f, s.offset), value(f, s.value)
    at = f.span(s.mark, s.offset, offset, s.value.type.bits // 8)
    f.t.store(ll(s.value.type), f.swap(s.value.type, v, s.order), at)


def _meta_set(f: Frame, s: ops.MetaSet) -> None:
    if isinstance(s.value, ops.WallTime) and not f.virtual:
        f.set_timestamp(f.t.load("i64", f.word("epoch")), late=True)
        return
    v = value(f, s.value)
    if s.field == "timestamp":
        f.set_timestamp(v)
    elif s.field == "packet_type":
        f.t.do(f"store i8 {v}, ptr {f.kind}")
    else:
        from_frame = f.t.op(f"add i64 {f.headroom()}, {v}")
        f.check(f.t.op(f"icmp ult i64 {from_frame}, {UNSET}"))
        f.move(s.field, f.plus(f.at("data"), v))


def _anno_set(f: Frame, s: ops.AnnoSet) -> None:
    f.annotate(s.value.type, s.offset, f.swap(s.value.type, value(f, s.value), s.order))


def _resize(f: Frame, s: ops.Resize) -> None:
    amount = value(f, s.amount)
    wide = amount if isinstance(s.amount, Const) else f.t.widen(amount, "i32", "i64")
    {"strip": _strip, "prepend": _prepend, "append": _append, "trim": _trim}[s.kind](f, wide)


def _strip(f: Frame, amount: str) -> None:
    known = f.facts.known
    if amount.isdigit() and {"data", "front"} <= known.keys() and known["data"] + int(amount) > f.facts.reach:
        pointer = f.t.gep(f.start(), min(known["data"] - known["front"], 1 << 15))
        if int(amount) <= f.frame_size:
            f.not_behind(pointer, int(amount))
            f.facts.reach = known["data"] + int(amount)
        else:
            f.check("false")
    elif not (amount.isdigit() and {"data", "front"} <= known.keys()):
        f.check(f.t.op(f"icmp ule i64 {amount}, {f.length()}"))
    to = f.plus(f.at("data"), amount)
    f.facts.data_moved()
    f.move("data", to)


def _prepend(f: Frame, amount: str) -> None:
    """Where the memory that the packet has does not suffice, the kernel gives more."""
    t = f.t
    f.check(t.op(f"icmp ule i64 {amount}, {f.headroom()}"))
    to = f.plus(f.at("data"), amount, "sub")
    front = f.at("front")
    f.facts.data_moved()
    f.move("data", to)
    if to.lstrip("-").isdigit() and front.lstrip("-").isdigit():
        if int(to) < int(front):
            _grow(f, to, front)
        return
    more, enough = t.label("more"), t.label("enough")
    t.branch(t.op(f"icmp slt i64 {to}, {front}"), more, enough)
    t.at(more)
    before = f.facts.copy()
    _grow(f, to, front)
    t.jump(enough)
    t.at(enough)
    f.facts = before.both(f.facts)


def _grow(f: Frame, to: str, front: str) -> None:
    by = f.t.op(f"trunc i64 {f.plus(to, front, 'sub')} to i32")
    f.check(f.t.op(f"icmp eq i64 {f.t.helper(ADJUST_HEAD, 'ptr %ctx', f'i32 {by}')}, 0"))
    f.read_ends()
    f.facts.memory_moved()
    f.move("front", to)


def _append(f: Frame, amount: str) -> None:
    t = f.t
    tail = t.op(f"sub i64 {f.frame_size}, {f.plus(f.headroom(), f.length())}")
    f.check(t.op(f"icmp ule i64 {amount}, {tail}"))
    _move_end(f, amount)


def _trim(f: Frame, amount: str) -> None:
    f.check(f.t.op(f"icmp ule i64 {amount}, {f.length()}"))
    _move_end(f, f.t.op(f"sub i64 0, {amount}"))


def _move_end(f: Frame, by: str) -> None:
    """The kernel zeroes what it grows into."""
    by = f.t.op(f"trunc i64 {by} to i32")
    f.check(f.t.op(f"icmp eq i64 {f.t.helper(ADJUST_TAIL, 'ptr %ctx', f'i32 {by}')}, 0"))
    f.read_ends()
    f.facts.memory_moved()


def _copy(f: Frame, s: ops.Copy) -> None:
    """Within the packet: all is read before anything is written, so the ranges may overlap."""
    offset, source = value(f, s.offset), value(f, s.source_offset)
    length, t = value(f, s.length), f.t
    if isinstance(s.length, Const) and s.length.value <= STRAIGHT:
        if not s.length.value:
            f.range(s.mark, offset, "0")
            f.range(s.source_mark, source, "0")
            return
        to = f.span(s.mark, s.offset, offset, s.length.value)
        pieces = _pieces(s.length.value)
        start = f.span(s.source_mark, s.source_offset, source, s.length.value)
        loaded = [(f"i{8 * bytes_}", place, t.load(f"i{8 * bytes_}", start, place)) for place, bytes_ in pieces]
        for type, place, v in loaded:
            t.store(type, v, to, place)
        return
    to, _ = f.range(s.mark, offset, length)
    start, count = f.range(s.source_mark, source, length)
    some, done = t.label("some"), t.label("copied")
    t.branch(t.op(f"icmp ne i64 {count}, 0"), some, done)
    t.at(some)
    room, size = f.lane(f.layout.room), t.op(f"trunc i64 {count} to i32")
    for helper, where in ((LOAD_BYTES, start), (STORE_BYTES, to)):
        moved = t.helper(helper, "ptr %ctx", f"i32 {where}", f"ptr {room}", f"i32 {size}")
        f.check(t.op(f"icmp eq i64 {moved}, 0"))
    f.read_ends()
    f.facts.memory_moved()
    t.jump(done)
    t.at(done)


def _pieces(length: int) -> list[tuple[int, int]]:
    """(start, size) of the loads that cover `length` bytes."""
    found, at = [], 0
    while at < length:
        size = max(s for s in (8, 4, 2, 1) if s <= length - at)
        found.append((at, size))
        at += size
    return found


def _copy_blob(f: Frame, s: ops.CopyBlob) -> None:
    """From a constant place in the blob; `capable` refuses others: of two open numbers the verifier sees no sum."""
    assert isinstance(s.source_offset, Const)
    offset, length, t = value(f, s.offset), value(f, s.length), f.t
    to, count = f.range(s.mark, offset, length)
    left = f.blobs[f.instance, s.state] - s.source_offset.value
    f.check("false" if left < 0 else t.op(f"icmp ule i64 {count}, {left}"))
    some, done = t.label("some"), t.label("copied")
    t.branch(t.op(f"icmp ne i64 {count}, 0"), some, done)
    t.at(some)
    start, size = t.gep(f.address(f.state(s.state)[1]), s.source_offset.value), t.op(f"trunc i64 {count} to i32")
    stored = t.helper(STORE_BYTES, "ptr %ctx", f"i32 {to}", f"ptr {start}", f"i32 {size}")
    f.check(t.op(f"icmp eq i64 {stored}, 0"))
    f.read_ends()
    f.facts.memory_moved()
    t.jump(done)
    t.at(done)


# -- state


def _put(f: Frame, s: ops.Put) -> None:
    state, place = f.state(s.state)
    grows, type = growth(s), ll_mem(state.type)
    if grows is not None:
        by = f.as_mem(state.type, value(f, grows))
        if place.is_lane:
            at = f.address(place)
            wide = f.t.widen(by, type, "i64")
            f.t.store("i64", f.t.op(f"add i64 {f.t.load('i64', at)}, {wide}"), at)
            return
        if state.type.bits in (32, 64):
            f.t.do(f"atomicrmw add ptr {f.address(place)}, {type} {by} seq_cst, align {state.type.bits // 8}")
            return
    v = f.as_mem(state.type, value(f, s.value))
    f.t.store(type, v, f.address(place))


def _store(f: Frame, s: ops.Store) -> None:
    index, v = value(f, s.index), value(f, s.value)
    type = s.value.type
    f.t.store(ll_mem(type), f.as_mem(type, v), element(f, s.state, index))


def _table_put(f: Frame, s: ops.TablePut) -> None:
    t, type = f.t, s.value.type
    key = table_key(f, s.state, s.key)
    slot = t.slot(ll_mem(type))
    t.do(f"store {ll_mem(type)} {f.as_mem(type, value(f, s.value))}, ptr {slot}")
    at = f.map(f.state(s.state)[1].symbol)
    failed = t.helper(MAP_UPDATE, f"ptr {at}", f"ptr {key}", f"ptr {slot}", "i64 0")
    f.bind(s.done, t.op(f"icmp eq i64 {failed}, 0"))


def _table_del(f: Frame, s: ops.TableDel) -> None:
    key = table_key(f, s.state, s.key)
    failed = f.t.helper(MAP_DELETE, f"ptr {f.map(f.state(s.state)[1].symbol)}", f"ptr {key}")
    f.bind(s.done, f.t.op(f"icmp eq i64 {failed}, 0"))


STMT: dict[Any, Callable[[Frame, Any], None]] = {
    ops.Set: _set,
    ops.Eval: lambda f, s: (value(f, s.value), None)[1],
    ops.If: _if,
    ops.For: _for,
    ops.Break: lambda f, s: f.t.jump(f.scope.loops[-1][1]),
    ops.Continue: lambda f, s: f.t.jump(f.scope.loops[-1][0]),
    ops.Return: _return,
    ops.PStore: _pstore,
    ops.MetaSet: _meta_set,
    ops.MarkClear: lambda f, s: f.move(s.mark, str(UNSET)),
    ops.AnnoSet: _anno_set,
    ops.Resize: _resize,
    ops.Copy: _copy,
    ops.CopyBlob: _copy_blob,
    ops.Emit: _emit,
    ops.Kill: _kill,
    ops.Put: _put,
    ops.Store: _store,
    ops.TablePut: _table_put,
    ops.TableDel: _table_del,
}
EXPR[ops.Call] = _call
