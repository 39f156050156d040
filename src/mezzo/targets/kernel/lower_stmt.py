"""Statements: each IR statement as LLVM text for BPF.  A row per op; the table is what this target can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.base.bpf import ONLY_NEW
from mezzo.ir import ops
from mezzo.ir.cost import rounds
from mezzo.ir.growth import array_growth, growth
from mezzo.ir.ops import KILL, Body, Const, Expr
from mezzo.ir.spec import nodes
from mezzo.ir.types import PACKET
from mezzo.targets.kernel.facts import Facts
from mezzo.targets.kernel.frame import MAP_DELETE, MAP_UPDATE, Frame
from mezzo.targets.kernel.lower import EXPR, element, found, table_key, value
from mezzo.targets.kernel.lower_packet import PACKETS
from mezzo.targets.kernel.proofs import assume, prepare
from mezzo.targets.kernel.rounds import write_rounds
from mezzo.targets.native.text import ll, ll_mem

UNROLLED = 8  # rounds up to which a loop stays a loop: the verifier follows each of them, with all that comes after


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


_FIRST = (ops.Call, ops.Logic, ops.Random, ops.LruGet, ops.LruHas)


def needed(body: Body) -> dict[str, int]:
    """Bytes from each mark that the first statements need in any case: a packet that has less dies at one of them, and
    none does anything that is seen after that.  So one comparison is enough for all."""
    found: dict[str, int] = {}
    for stmt in body:
        whole, part = _looked_at(stmt)
        inner = list(nodes(part)) if part is not None else []
        if part is None or any(isinstance(n, _FIRST) for n in inner):
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
    if isinstance(s.value, ops.Call) and f.answers:
        f.facts.cases[f.scope.slots[s.name]] = f.answers


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
            f.t.do(f"atomicrmw add ptr {f.address(place)}, {type} {by} monotonic, align {state.type.bits // 8}")
            return
    v = f.as_mem(state.type, value(f, s.value))
    f.t.store(type, v, f.address(place))


def _store(f: Frame, s: ops.Store) -> None:
    type, grows = s.value.type, array_growth(s)
    if grows is not None:
        index, by = value(f, s.index), value(f, grows)
        at = element(f, s.state, index)
        f.t.do(f"atomicrmw add ptr {at}, {ll(type)} {by} monotonic, align {type.bits // 8}")
        return
    index, v = value(f, s.index), value(f, s.value)
    f.t.store(ll_mem(type), f.as_mem(type, v), element(f, s.state, index))


def _table_put(f: Frame, s: ops.TablePut) -> None:
    t, type = f.t, s.value.type
    key = table_key(f, s.state, s.key)
    slot = t.slot(ll_mem(type))
    t.do(f"store {ll_mem(type)} {f.as_mem(type, value(f, s.value))}, ptr {slot}")
    update = _update_counted if f.state(s.state)[0].kind == "lru" else _update
    f.bind(s.done, update(f, s.state, key, slot))


def _update(f: Frame, name: str, key: str, slot: str, flags: int = 0) -> str:
    """Whether the kernel did it."""
    at = f.map(f.state(name)[1].symbol)
    failed = f.t.helper(MAP_UPDATE, f"ptr {at}", f"ptr {key}", f"ptr {slot}", f"i64 {flags}")
    return f.t.op(f"icmp eq i64 {failed}, 0")


def _update_counted(f: Frame, name: str, key: str, slot: str) -> str:
    """The same, and an entry that is new counts as made.  It is looked for first: to put it in, the kernel takes a free
    entry even where it finds the key then, and may forget another for it."""
    t = f.t
    done, new, old, made, out = t.slot("i1"), t.label("new"), t.label("old"), t.label("made"), t.label("put")
    t.branch(t.op(f"icmp eq ptr {found(f, name, key)}, null"), new, old)
    t.at(new)
    t.do(f"store i1 1, ptr {done}")
    t.branch(_update(f, name, key, slot, ONLY_NEW), made, old)
    t.at(made)
    _grow(f, name, "1")
    t.jump(out)
    t.at(old)
    t.do(f"store i1 {_update(f, name, key, slot)}, ptr {done}")
    t.jump(out)
    t.at(out)
    return t.op(f"load i1, ptr {done}")


def _grow(f: Frame, name: str, by: str) -> None:
    """Adds to the word of a table that forgets."""
    at = f.t.gep(f.map("state"), f.state(name)[1].offset)
    f.t.do(f"atomicrmw add ptr {at}, i64 {by} monotonic, align 8")


def _table_del(f: Frame, s: ops.TableDel) -> None:
    t, key = f.t, table_key(f, s.state, s.key)
    state, place = f.state(s.state)
    failed = t.helper(MAP_DELETE, f"ptr {f.map(place.symbol)}", f"ptr {key}")
    done = t.op(f"icmp eq i64 {failed}, 0")
    if state.kind == "lru":
        _grow(f, s.state, t.op(f"sext i1 {done} to i64"))
    f.bind(s.done, done)


STMT: dict[Any, Callable[[Frame, Any], None]] = {
    ops.Set: _set,
    ops.Eval: lambda f, s: (value(f, s.value), None)[1],
    ops.If: _if,
    ops.For: _for,
    ops.Break: lambda f, s: f.t.jump(f.scope.loops[-1][1]),
    ops.Continue: lambda f, s: f.t.jump(f.scope.loops[-1][0]),
    ops.Return: _return,
    **PACKETS,
    ops.Emit: _emit,
    ops.Kill: _kill,
    ops.Put: _put,
    ops.Store: _store,
    ops.TablePut: _table_put,
    ops.TableDel: _table_del,
}
EXPR[ops.Call] = _call
