"""Statements: each IR statement as LLVM text.  A row per op; the table is what this target can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mezzo.ir import ops
from mezzo.ir.growth import array_growth, growth
from mezzo.ir.ops import KILL, Body, Const, Expr, Local
from mezzo.ir.types import PACKET
from mezzo.packet.arena import ANNO_SIZE, META, UNSET
from mezzo.targets.native import raw
from mezzo.targets.native.facts import NOTHING
from mezzo.targets.native.frame import GONE, Frame
from mezzo.targets.native.layout import power_of_two
from mezzo.targets.native.lower import EXPR, array_body, blob_span, helper_type, slot_address, table_functions, value
from mezzo.targets.native.outline import Leave, role_of
from mezzo.targets.native.shared import add, let_go, mail, move_end, ring_ends, store_shown, unlock, wake
from mezzo.targets.native.text import CHAIN, FRAME, RARE, TAGS, ll, ll_mem

# role -> how it leaves when it faults, and at the end of its body.
FAULT = {
    "process": f"ret {{ i32, i32 }} {{ i32 {GONE}, i32 0 }}",
    "pull": "ret i32 -1",
    "task": "ret i1 true",
    "ready": "ret i1 false",
    "push": "ret void",
    "timer": "ret void",
    "init": "ret void",
}
RESIZE = {"strip": ("data", "add"), "prepend": ("data", "sub"), "append": ("end", "add"), "trim": ("end", "sub")}
PAGE = 4096
END = FAULT | {"task": "ret i1 false"}


def run(f: Frame, body: Body) -> bool:
    """Emits `body`; whether control reaches its end."""
    for stmt in body:
        STMT[type(stmt)](f, stmt)
        if isinstance(stmt, ops.Return | ops.Break | ops.Continue | Leave):
            return False
    return True


def leave(f: Frame) -> None:
    """Leaves at the end of the body."""
    role = role_of(f.function.name)
    if role in END:
        unlock(f)
    f.t.do(END[role] if role in END else f"ret {helper_type(f.function.ret)} zeroinitializer")


# -- control


def _set(f: Frame, s: ops.Set) -> None:
    f.bind(s.name, value(f, s.value))


def _eval(f: Frame, s: ops.Eval) -> None:
    value(f, s.value)


def _if(f: Frame, s: ops.If) -> None:
    t = f.t
    cond = value(f, s.cond)
    then, other, done = t.label("then"), t.label("else"), t.label("fi")
    t.branch(cond, then, other, RARE if _is_record(s) else "")
    before, ends = f.facts, []
    for label, body in ((then, s.then), (other, s.orelse)):
        t.at(label)
        f.facts = before.copy()
        f.facts.assume(s.cond, label is then)
        if run(f, body):
            t.jump(done)
            ends.append(f.facts)
    t.at(done)
    f.facts = ends[0].both(ends[1]) if len(ends) == 2 else ends[0] if ends else before
    if not ends:
        t.do("unreachable")
        t.at(t.label("dead"))


def _is_record(s: ops.If) -> bool:
    """`if x > self.most: self.most = x`: that is rare."""
    put = s.then[0] if len(s.then) == 1 and not s.orelse else None
    if not isinstance(put, ops.Put) or not isinstance(s.cond, ops.Cmp):
        return False
    return any(isinstance(side, ops.Get) and side.state == put.state for side in (s.cond.a, s.cond.b))


def _for(f: Frame, s: ops.For) -> None:
    t = f.t
    count = value(f, s.count)
    if not isinstance(s.count, Const) or s.count.value > s.limit:
        f.check(t.op(f"icmp ule i32 {count}, {s.limit}"))
    counter = t.slot("i32")
    t.do(f"store i32 0, ptr {counter}")
    head, body, step, done = t.label("for"), t.label("do"), t.label("step"), t.label("done")
    t.jump(head)
    t.at(head)
    i = t.op(f"load i32, ptr {counter}")
    t.branch(t.op(f"icmp ult i32 {i}, {count}"), body, done)
    t.at(body)
    f.bind(s.name, i)
    f.loops.append((step, done))
    f.facts.enter_loop(s.body)
    before = f.facts.copy()
    if run(f, s.body):
        t.jump(step)
    f.facts = before
    f.loops.pop()
    t.at(step)
    t.do(f"store i32 {t.op(f'add nuw i32 {i}, 1')}, ptr {counter}")
    t.jump(head)
    t.at(done)


def _break(f: Frame, s: ops.Break) -> None:
    f.t.jump(f.loops[-1][1])


def _continue(f: Frame, s: ops.Continue) -> None:
    f.t.jump(f.loops[-1][0])


def _return(f: Frame, s: ops.Return) -> None:
    t, role = f.t, role_of(f.function.name)
    if s.value is None:
        leave(f)
        return
    result = value(f, s.value)
    if role in FAULT:
        unlock(f)
    if role == "process":
        pair = t.op(f"insertvalue {{ i32, i32 }} {{ i32 undef, i32 {s.reason} }}, i32 {result}, 0")
        t.do(f"ret {{ i32, i32 }} {pair}")
    elif role in FAULT:
        t.do("ret void" if FAULT[role] == "ret void" else f"ret {ll(s.value.type)} {result}")
    else:
        type = helper_type(f.function.ret)
        both = t.op(f"insertvalue {type} zeroinitializer, {ll(s.value.type)} {result}, 1")
        t.do(f"ret {type} {both}")


def _leave(f: Frame, s: Leave) -> None:
    """Goes on in a function that takes over; what it returns is returned."""
    t, role = f.t, role_of(s.function)
    args = [f"{ll(a.type)} {value(f, a)}" for a in s.args]
    call = {"process": "{ i32, i32 }", "pull": "i32", "push": "void"}[role]
    call = f"call {CHAIN} {call} {f.site.call(s.function, args)}"
    if role == "push":
        t.do(call)
        t.do("ret void")
    elif role == role_of(f.function.name):
        result = t.op(call)
        t.do(f"ret {'i32' if role == 'pull' else '{ i32, i32 }'} {result}")
    else:  # a process that pushes where it would return: the port is known only now
        assert f.site.linked is not None
        result = t.op(call)
        port, reason = (t.op(f"extractvalue {{ i32, i32 }} {result}, {i}") for i in (0, 1))
        packet = f.function.params[-1].name
        t.do(f"call fastcc void @leave{f.site.number}(ptr %c, ptr %a, i32 {port}, i32 {reason}, i32 {f.read(packet)})")
        t.do("ret void")


# -- packets


def _pstore(f: Frame, s: ops.PStore) -> None:
    offset, v = value(f, s.offset), value(f, s.value)
    type = s.value.type
    at = f.span(s.packet, s.mark, s.offset, offset, str(type.bits // 8))
    f.t.store(ll(type), f.swap(type, v, s.order), at, 0, "data")


def _meta_set(f: Frame, s: ops.MetaSet) -> None:
    t = f.t
    assert isinstance(s.packet, Local)
    v = value(f, s.value)
    meta, _ = f.anchor(s.packet)
    at, size = META[s.field]
    if s.field in ("mac", "net", "trans"):
        moved = t.op(f"add i64 {v}, {f.place(s.packet, 'data')}")
        f.check(t.op(f"icmp ult i64 {moved}, {UNSET}"))
        v = t.widen(moved, "i64", "i16")
        f.facts.marked(s.packet.name, s.field, moved, s.value)
    t.store(f"i{8 * size}", v, meta, at, "meta")


def _mark_clear(f: Frame, s: ops.MarkClear) -> None:
    assert isinstance(s.packet, Local)
    meta, _ = f.anchor(s.packet)
    f.facts.forget(s.packet.name, s.mark)
    f.t.store("i16", "-1", meta, META[s.mark][0], "meta")


def _anno_set(f: Frame, s: ops.AnnoSet) -> None:
    type = s.value.type
    assert s.offset + type.bits // 8 <= ANNO_SIZE
    v = f.swap(type, value(f, s.value), s.order)
    meta, _ = f.anchor(s.packet)
    f.t.store(ll(type), v, meta, META["anno"][0] + s.offset, "meta")


def _resize(f: Frame, s: ops.Resize) -> None:
    t, packet = f.t, s.packet
    assert isinstance(packet, Local)
    amount = _wide(f, s.amount, value(f, s.amount))
    meta, frame = f.anchor(packet)
    field, op = RESIZE[s.kind]
    old = f.place(packet, field)
    if s.kind == "prepend":
        room = old
    else:
        room = f.length(packet) if s.kind != "append" else t.op(f"sub nuw nsw i64 {f.site.arena.frame_size}, {old}")
    f.check(t.op(f"icmp ule i64 {amount}, {room}"))
    if s.kind == "append":
        _move(f, "memset", t.gep(frame, old), "i8 0", amount)
    new = t.op(f"{op} nuw nsw i64 {old}, {amount}")
    t.store("i32", t.widen(new, "i64", "i32"), meta, META[field][0], "meta")
    _, high = f.facts.extents.get((packet.name, "data"), NOTHING)
    (f.facts.moved_data if field == "data" else f.facts.moved_end)(packet.name)
    f.facts.values[packet.name, field] = new
    if field == "data" and isinstance(s.amount, Const):
        by = s.amount.value if s.kind == "strip" else -s.amount.value
        f.facts.extents[packet.name, "data"] = 0, high - by


def _move(f: Frame, kind: str, to: str, source: str, length: str, tag: str = TAGS["data"]) -> None:
    """memset, memcpy or memmove."""
    suffix = "p0.i64" if kind == "memset" else "p0.p0.i64"
    f.t.do(f"call void @llvm.{kind}.{suffix}(ptr {to}, {source}, i64 {length}, i1 false){tag}")


def _copy_in(f: Frame, to: str, source: str, length: str) -> None:
    """Copies from a blob.  A short constant length is wide loads and stores: LLVM would merge a `memcpy` with another
    of unknown length into one call, and it does not hoist the loads of a `memcpy` out of a loop."""
    if not length.isdigit() or int(length) > 256:
        _move(f, "memcpy", to, f"ptr {source}", length, "")
        return
    for start, size in _pieces(int(length)):
        type = f"<{size} x i8>"
        f.t.store(type, f.t.load(type, source, start, "blob"), to, start, "data")


def _pieces(length: int) -> Iterator[tuple[int, int]]:
    """(start, size) of stores that cover `length` bytes.  A load soon after is served from a wide store only where it
    lies within 8 bytes counted from that store's start, and otherwise waits until the store is in the cache (5 ns).
    So the second store begins at byte 14 again, with the header that follows an Ethernet header.  The last may overlap
    the one before where no such header is."""
    at, framed = 0, length > 34
    while at < length:
        at = 14 if at == 16 and framed else at
        size = 16 if at == 0 and framed else max(s for s in (32, 16, 8, 4, 2, 1) if s <= length - at)
        over = power_of_two(length - at)
        if over <= min(32, length) and (at == 0 or length - over >= 42):
            at, size = length - over, over
        yield at, size
        at += size


def _wide(f: Frame, e: Expr, v: str) -> str:
    """A u32 as i64; constants stay constants."""
    return v if isinstance(e, Const) else f.t.widen(v, "i32", "i64")


def _copy(f: Frame, s: ops.Copy) -> None:
    offset, source_offset = value(f, s.offset), value(f, s.source_offset)
    length = _wide(f, s.length, value(f, s.length))
    to = f.span(s.packet, s.mark, s.offset, offset, length)
    _move(f, "memmove", to, f"ptr {f.span(s.source, s.source_mark, s.source_offset, source_offset, length)}", length)


def _copy_blob(f: Frame, s: ops.CopyBlob) -> None:
    offset, source = value(f, s.offset), value(f, s.source_offset)
    length = _wide(f, s.length, value(f, s.length))
    to = f.span(s.packet, s.mark, s.offset, offset, length)
    _copy_in(f, to, blob_span(f, s.state, source, length), length)


def _new(f: Frame, name: str, length: str) -> tuple[str, str]:
    """Makes a packet and binds it; (its bytes, the label after).  Goes on where there is one."""
    t = f.t
    f.site.needs.add("make")
    frame = t.op(f"call fastcc i32 @make(ptr %a, i32 {length})")
    f.bind(name, frame)
    some, done = t.label("made"), t.label("done")
    t.branch(t.op(f"icmp ne i32 {frame}, -1"), some, done, ", !prof !1")
    t.at(some)
    packet = Local(PACKET, name)
    _, data = f.anchor(packet)
    return t.gep(data, f.place(packet, "data")), done


def _make(f: Frame, s: ops.Make) -> None:
    length = value(f, s.length)
    at, done = _new(f, s.name, length)
    _move(f, "memset", at, "i8 0", _wide(f, s.length, length))
    _made(f, s.name, done)


def _made(f: Frame, name: str, done: str) -> None:
    """Where the paths with and without the packet meet nothing is known of it."""
    f.t.jump(done)
    f.t.at(done)
    f.facts.forget(name)


def _fetch_ahead(f: Frame, source: str) -> None:
    """Who walks through a blob soon needs the bytes a page further on.  The CPU fetches ahead by itself only to the end
    of a page, and the place of a record is known only when the one before was read: 17 against 11 ns a record."""
    for at in (PAGE, PAGE + 64):
        far = f.t.op(f"getelementptr i8, ptr {source}, i64 {at}")  # may lie outside: nothing is read
        f.t.do(f"call void @llvm.prefetch.p0(ptr {far}, i32 0, i32 3, i32 1)")


def _make_from(f: Frame, s: ops.MakeFrom) -> None:
    offset, length = value(f, s.offset), value(f, s.length)
    source = blob_span(f, s.state, offset, _wide(f, s.length, length))
    if not isinstance(s.offset, Const):
        _fetch_ahead(f, source)
    at, done = _new(f, s.name, length)
    _copy_in(f, at, source, _wide(f, s.length, length))
    _made(f, s.name, done)


def _clone(f: Frame, s: ops.Clone) -> None:
    f.site.needs |= {"make", "clone"}
    f.bind(s.name, f.t.op(f"call fastcc i32 @clone(ptr %a, i32 {value(f, s.packet)})"))


def _kill(f: Frame, s: ops.Kill) -> None:
    frame = value(f, s.packet)
    f.consumed(s.packet)
    if s.reason >= 0:
        f.drop(frame, s.reason)
    else:
        f.kill(frame)


def _switch(f: Frame, port: Expr, ways: int, way: Callable[[int], None], other: Callable[[str], None]) -> None:
    """Runs `way(i)` for i = port, `other(port)` for one outside."""
    t = f.t
    if isinstance(port, Const):
        way(port.value) if port.value < ways else other(str(port.value))
        return
    v = value(f, port)
    labels, rest, done = [t.label("way") for _ in range(ways)], t.label("rest"), t.label("done")
    cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels))
    t.do(f"switch i32 {v}, label %{rest} [{cases}]")
    for i, label in enumerate(labels):
        t.at(label)
        way(i)
        t.jump(done)
    t.at(rest)
    other(v)
    t.jump(done)
    t.at(done)


def _emit(f: Frame, s: ops.Emit) -> None:
    assert f.site.linked is not None
    outputs = f.site.linked.outputs

    def lost(port: str) -> None:
        frame = value(f, s.packet)
        f.consumed(s.packet)
        if s.reason >= 0:
            f.drop(frame, s.reason)
            return
        if port.isdigit() and int(port) != KILL:
            f.drop(frame, s.reason)
            return
        f.kill(frame)
        other, done = f.t.label("other"), f.t.label("done")
        f.t.branch(f.t.op(f"icmp eq i32 {port}, {KILL}"), done, other)  # told to die: no drop
        f.t.at(other)
        f.count(s.reason)
        f.t.jump(done)
        f.t.at(done)

    def push(i: int) -> None:
        to = outputs[i]
        if to is None:
            lost(str(i))
            return
        assert isinstance(s.packet, Local)
        frame, places = value(f, s.packet), f.places(s.packet)
        f.consumed(s.packet)
        with let_go(f):
            f.t.do(f"call {CHAIN} void @push{to[0]}(ptr %c, ptr %a, i32 {to[1]}, i32 {frame}, {places})")

    _switch(f, s.port, len(outputs), push, lost)


def pull_from(f: Frame, i: int) -> str:
    """Code that pulls from input `i`; the frame or -1."""
    linked = f.site.linked
    assert linked is not None
    source = linked.inputs[i] if i < len(linked.inputs) else None
    if source is None:
        return "-1"
    with let_go(f):
        frame = f.t.op(f"call fastcc i32 @pull{source[0]}(ptr %c, ptr %a, i32 {source[1]})")
    return frame


def _pull(f: Frame, s: ops.Pull) -> None:
    assert f.site.linked is not None
    _switch(
        f, s.port, len(f.site.linked.inputs),
        lambda i: f.bind(s.name, pull_from(f, i)), lambda v: f.bind(s.name, "-1"),
    )


# -- state


def _put(f: Frame, s: ops.Put) -> None:
    state, at = f.state(s.state)
    if s.state in f.site.share.added or (s.state in f.site.common and growth(s) is not None):
        grows = growth(s)
        assert grows is not None, f"{s.state} is more than added to"
        add(f.t, f.t.gep("%s", at), ll_mem(state.type), value(f, grows))
    elif s.state in f.site.share.shown:
        v = f.as_mem(state.type, value(f, s.value))
        store_shown(f.t, f.t.gep("%s", at), ll_mem(state.type), v)
    else:
        f.store_value(state.type, value(f, s.value), "%s", at, "state", f.volatile(s.state))


def _store(f: Frame, s: ops.Store) -> None:
    state, _ = f.state(s.state)
    if s.state in f.site.common and (grows := array_growth(s)) is not None:
        index, by = value(f, s.index), value(f, grows)
        add(f.t, f.t.gep(array_body(f, s.state), f.element(state, index)), ll_mem(state.type), by)
        return
    index, v = value(f, s.index), value(f, s.value)
    at = f.element(state, index)
    f.store_value(state.type, v, f.t.gep(array_body(f, s.state), at), 0, "array", f.volatile(s.state))


def _table_put(f: Frame, s: ops.TablePut) -> None:
    state, _ = f.state(s.state)
    (called, key_type), mem = table_functions(f, s.state), ll_mem(state.type)
    key, v = value(f, s.key), f.as_mem(state.type, value(f, s.value))
    args = f"ptr {f.descriptor(s.state)}, {key_type} {key}, {mem} {v}, i64 {state.size}"
    f.bind(s.done, f.t.op(f"call fastcc i1 @tput_{called}({args})"))


def _table_del(f: Frame, s: ops.TableDel) -> None:
    key = value(f, s.key)
    called, key_type = table_functions(f, s.state)
    f.bind(s.done, f.t.op(f"call fastcc i1 @tdel_{called}(ptr {f.descriptor(s.state)}, {key_type} {key})"))


def _ring_cell(f: Frame, name: str, counter: str) -> str:
    state, at = f.state(name)
    mask = (1 << max(state.size - 1, 0).bit_length()) - 1
    index = f.t.widen(f.t.op(f"and i32 {counter}, {mask}"), "i32", "i64")
    return f.t.op(f"getelementptr inbounds i32, ptr {f.t.load('ptr', '%s', at, 'desc')}, i64 {index}")


def _ring_push(f: Frame, s: ops.RingPush) -> None:
    t = f.t
    state, _ = f.state(s.state)
    frame = value(f, s.packet)
    head, tail = ring_ends(f, s.state)
    f.check(t.op(f"icmp ult i32 {t.op(f'sub i32 {tail}, {head}')}, {state.size}"))
    f.consumed(s.packet)
    moved = t.op(f"add i32 {head}, -1") if s.front else t.op(f"add i32 {tail}, 1")
    t.store("i32", frame, _ring_cell(f, s.state, moved if s.front else tail), 0, "ring")
    move_end(f, s.state, 8 if s.front else 12, moved)


def _ring_pop(f: Frame, s: ops.RingPop) -> None:
    t = f.t
    head, tail = ring_ends(f, s.state)
    f.bind(s.name, "-1")
    some, done = t.label("some"), t.label("done")
    t.branch(t.op(f"icmp ne i32 {head}, {tail}"), some, done)
    t.at(some)
    moved = t.op(f"add i32 {tail}, -1") if s.back else t.op(f"add i32 {head}, 1")
    frame = t.load("i32", _ring_cell(f, s.state, moved if s.back else head), 0, "ring", FRAME)
    f.bind(s.name, frame)
    move_end(f, s.state, 12 if s.back else 8, moved)
    t.jump(done)
    t.at(done)


def _slot_put(f: Frame, s: ops.SlotPut) -> None:
    index, frame = value(f, s.index), value(f, s.packet)
    at = slot_address(f, s.state, index)
    f.check(f.t.op(f"icmp eq i32 {f.t.load('i32', at, 0, 'ring')}, -1"))
    f.consumed(s.packet)
    f.t.store("i32", frame, at, 0, "ring")


def _slot_take(f: Frame, s: ops.SlotTake) -> None:
    at = slot_address(f, s.state, value(f, s.index))
    f.bind(s.name, f.t.load("i32", at, 0, "ring"))
    f.t.store("i32", "-1", at, 0, "ring")


def _buffer_room(f: Frame, name: str, length: str) -> str:
    """The address where `length` (i64) checked bytes go; they count as written."""
    t = f.t
    state, at = f.state(name)
    used = t.load("i64", "%s", at + 8, "desc")
    grown = t.op(f"add nuw nsw i64 {used}, {length}")
    f.check(t.op(f"icmp ule i64 {grown}, {state.size}"))
    t.store("i64", grown, "%s", at + 8, "desc")
    return t.gep(t.load("ptr", "%s", at, "desc"), used)


def _buf_put(f: Frame, s: ops.BufPut) -> None:
    type = s.value.type
    v = f.swap(type, value(f, s.value), s.order)
    at = _buffer_room(f, s.state, str(type.bits // 8))
    f.t.store(ll(type), v, at, 0, "array")


def _buf_put_packet(f: Frame, s: ops.BufPutPacket) -> None:
    offset = value(f, s.offset)
    length = _wide(f, s.length, value(f, s.length))
    source = f.span(s.packet, s.mark, s.offset, offset, length)
    _move(f, "memcpy", _buffer_room(f, s.state, length), f"ptr {source}", length, "")


# -- scheduling


def _wake(f: Frame, s: ops.Wake) -> None:
    linked = f.site.linked
    assert linked is not None
    tasks = {"self": (linked.task,), "down": linked.wake_down, "up": linked.wake_up}[s.who]
    wake(f.t, f.site.place, f.site.needs, tasks)


def _timer_set(f: Frame, s: ops.TimerSet) -> None:
    assert f.site.linked is not None
    at = value(f, s.at)
    if not mail(f, at):
        args = f"i32 {f.site.linked.timer}, i64 {at}"
        f.t.do(f"call fastcc void @timer_set(ptr %c, ptr %a, {args}){TAGS['tasks']}")


def _timer_clear(f: Frame, s: ops.TimerClear) -> None:
    assert f.site.linked is not None
    if not mail(f, "-1"):
        f.t.do(f"call fastcc void @timer_clear(ptr %c, ptr %a, i32 {f.site.linked.timer}){TAGS['tasks']}")


STMT: dict[Any, Callable[[Frame, Any], None]] = {
    ops.Set: _set,
    ops.Eval: _eval,
    ops.If: _if,
    ops.For: _for,
    ops.Break: _break,
    ops.Continue: _continue,
    ops.Return: _return,
    Leave: _leave,
    ops.PStore: _pstore,
    ops.MetaSet: _meta_set,
    ops.MarkClear: _mark_clear,
    ops.AnnoSet: _anno_set,
    ops.Resize: _resize,
    ops.Copy: _copy,
    ops.CopyBlob: _copy_blob,
    ops.Make: _make,
    ops.MakeFrom: _make_from,
    ops.Clone: _clone,
    ops.Emit: _emit,
    ops.Kill: _kill,
    ops.Pull: _pull,
    ops.Put: _put,
    ops.Store: _store,
    ops.TablePut: _table_put,
    ops.TableDel: _table_del,
    ops.RingPush: _ring_push,
    ops.RingPop: _ring_pop,
    ops.SlotPut: _slot_put,
    ops.SlotTake: _slot_take,
    ops.BufPut: _buf_put,
    ops.BufPutPacket: _buf_put_packet,
    ops.Wake: _wake,
    ops.TimerSet: _timer_set,
    ops.TimerClear: _timer_clear,
    **raw.STMT,
}
EXPR.update(raw.EXPR)
