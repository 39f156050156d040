"""Expressions: each IR expression as LLVM text.  A row per op; the table is what this target can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.ir import ops
from mezzo.ir.ops import Const, Expr
from mezzo.ir.types import BOOL, Type
from mezzo.packet.arena import META, UNSET
from mezzo.targets.native.facts import Facts, touched
from mezzo.targets.native.frame import Frame
from mezzo.targets.native.hashes import Hash
from mezzo.targets.native.layout import LPM_BITS, RUNTIME, is_inline, table_shape
from mezzo.targets.native.shared import FLUSH, let_go, load_shown, ring_ends
from mezzo.targets.native.tables import table_id
from mezzo.targets.native.text import ll, ll_mem

CMP = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
BIN = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}


def value(f: Frame, e: Expr) -> str:
    """Emits the code of `e`; the name of its value."""
    return EXPR[type(e)](f, e)


def _const(f: Frame, e: ops.Const) -> str:
    return str(e.value) if e.type is not BOOL else "true" if e.value else "false"


def _local(f: Frame, e: ops.Local) -> str:
    return f.read(e.name)


def _bin(f: Frame, e: ops.Bin) -> str:
    a, b = value(f, e.a), value(f, e.b)
    if e.op in BIN:
        return f.t.op(f"{BIN[e.op]} {ll(e.type)} {a}, {b}")
    return (_shift if e.op in ("shl", "shr") else _divide)(f, e, a, b)


def _shift(f: Frame, e: ops.Bin, a: str, b: str) -> str:
    """A count of the width or more gives 0, or the sign."""
    t, type, bits = f.t, ll(e.type), e.type.bits
    op = "shl" if e.op == "shl" else "ashr" if e.type.signed else "lshr"
    if isinstance(e.b, Const) and 0 <= e.b.value < bits:
        return t.op(f"{op} {type} {a}, {b}")
    small = t.op(f"icmp ult {type} {b}, {bits}")
    count = t.op(f"select i1 {small}, {type} {b}, {type} {bits - 1}")
    shifted = t.op(f"{op} {type} {a}, {count}")
    return shifted if op == "ashr" else t.op(f"select i1 {small}, {type} {shifted}, {type} 0")


def _divide(f: Frame, e: ops.Bin, a: str, b: str) -> str:
    """x/0 = 0 and x%0 = x; the least i64 by -1 wraps."""
    t, type = f.t, ll(e.type)
    zero = t.op(f"icmp eq {type} {b}, 0")
    by = t.op(f"select i1 {zero}, {type} 1, {type} {b}")
    if e.type.bits == 128:
        f.site.needs.add("divmod128")
        both = t.op(f"call fastcc {{ i128, i128 }} @divmod128(i128 {a}, i128 {by})")
        result = t.op(f"extractvalue {{ i128, i128 }} {both}, {0 if e.op == 'div' else 1}")
    elif e.type.signed:
        minus = t.op(f"icmp eq {type} {b}, -1")
        safe = t.op(f"select i1 {minus}, {type} 1, {type} {by}")
        plain = t.op(f"s{'div' if e.op == 'div' else 'rem'} {type} {a}, {safe}")
        other = t.op(f"sub {type} 0, {a}") if e.op == "div" else "0"
        result = t.op(f"select i1 {minus}, {type} {other}, {type} {plain}")
    else:
        result = t.op(f"u{'div' if e.op == 'div' else 'rem'} {type} {a}, {by}")
    return t.op(f"select i1 {zero}, {type} {'0' if e.op == 'div' else a}, {type} {result}")


def _cmp(f: Frame, e: ops.Cmp) -> str:
    a, b = value(f, e.a), value(f, e.b)
    op = CMP[e.op]
    if e.a.type.signed:
        op = op.replace("u", "s")
    return f.t.op(f"icmp {op} {ll(e.a.type)} {a}, {b}")


def _logic(f: Frame, e: ops.Logic) -> str:
    t = f.t
    slot = t.slot("i1")
    a = value(f, e.a)
    t.do(f"store i1 {a}, ptr {slot}")
    second, done = t.label("logic"), t.label("done")
    t.branch(a, *((second, done) if e.op == "and" else (done, second)))
    t.at(second)
    before = f.facts.copy()
    f.facts.assume(e.a, e.op == "and")
    t.do(f"store i1 {value(f, e.b)}, ptr {slot}")
    f.facts = before.both(f.facts)
    t.jump(done)
    t.at(done)
    return t.op(f"load i1, ptr {slot}")


def _not(f: Frame, e: ops.Not) -> str:
    return f.t.op(f"xor i1 {value(f, e.a)}, true")


def _cast(f: Frame, e: ops.Cast) -> str:
    a = value(f, e.a)
    if e.type is BOOL and e.a.type is not BOOL:
        return f.t.op(f"icmp ne {ll(e.a.type)} {a}, 0")
    return f.t.widen(a, ll(e.a.type), ll(e.type), e.a.type.signed)


def _select(f: Frame, e: ops.Select) -> str:
    cond, a, b = value(f, e.cond), value(f, e.a), value(f, e.b)
    return f.t.op(f"select i1 {cond}, {ll(e.type)} {a}, {ll(e.type)} {b}")


def _pload(f: Frame, e: ops.PLoad) -> str:
    offset = value(f, e.offset)
    at = f.span(e.packet, e.mark, e.offset, offset, str(e.type.bits // 8))
    return f.swap(e.type, f.t.load(ll(e.type), at, 0, "data"), e.order)


def _meta(f: Frame, e: ops.Meta) -> str:
    t = f.t
    if e.field in ("timestamp", "packet_type"):
        return f.meta(e.packet, e.field)
    if e.field == "frame":
        return value(f, e.packet)
    if e.field.startswith("has_"):
        return t.op(f"icmp ne i64 {f.place(e.packet, e.field.removeprefix('has_'))}, {UNSET}")
    if e.field in ("mac", "net", "trans"):
        return t.op(f"sub nsw i64 {f.place(e.packet, e.field)}, {f.place(e.packet, 'data')}")
    if e.field == "length":
        return t.widen(f.length(e.packet), "i64", "i32")
    if e.field == "headroom":
        return t.widen(f.place(e.packet, "data"), "i64", "i32")
    return t.widen(t.op(f"sub nuw nsw i64 {f.site.arena.frame_size}, {f.place(e.packet, 'end')}"), "i64", "i32")


def _anno(f: Frame, e: ops.Anno) -> str:
    meta, _ = f.anchor(e.packet)
    return f.swap(e.type, f.t.load(ll(e.type), meta, META["anno"][0] + e.offset, "meta"), e.order)


def _sum16(f: Frame, e: ops.Sum16) -> str:
    offset, length, init = (value(f, x) for x in (e.offset, e.length, e.init))
    f.site.needs.add("sum16")
    wide = f.t.widen(length, "i32", "i64") if not isinstance(e.length, Const) else length
    at = f.span(e.packet, e.mark, e.offset, offset, wide)
    if isinstance(e.length, Const) and e.length.value <= 64 and e.length.value % 2 == 0:
        return _sum_inline(f, at, e.length.value, init)
    return f.t.op(f"call fastcc i16 @sum16(ptr {at}, i64 {wide}, i32 {init})")


def _sum_inline(f: Frame, at: str, length: int, init: str) -> str:
    """A constant length: straight adds of 32-bit words (IP headers)."""
    t, total = f.t, "0"
    for offset in range(0, length, 4):
        bits = min(32, 8 * (length - offset))
        word = t.widen(t.load(f"i{bits}", at, offset, "data"), f"i{bits}", "i64")
        total = t.op(f"add i64 {total}, {word}")
    return t.op(f"call fastcc i16 @sumfold(i64 {total}, i32 {init})")


def _is_none(f: Frame, e: ops.IsNone) -> str:
    return f.t.op(f"icmp eq i32 {value(f, e.packet)}, -1")


def _get(f: Frame, e: ops.Get) -> str:
    if e.state in f.site.share.shown:
        raw = load_shown(f.t, f.t.gep("%s", f.site.layout.states[e.state]), ll_mem(e.type))
        return raw if ll_mem(e.type) == ll(e.type) else f.t.op(f"trunc {ll_mem(e.type)} {raw} to {ll(e.type)}")
    return f.load_value(e.type, "%s", f.site.layout.states[e.state], "state", f.volatile(e.state))


def array_body(f: Frame, name: str) -> str:
    state, at = f.state(name)
    return f.descriptor(name) if is_inline(state) else f.t.load("ptr", "%s", at, "desc")


def _index(f: Frame, e: ops.Index) -> str:
    state, _ = f.state(e.state)
    at = f.element(state, value(f, e.index))
    return f.load_value(state.type, f.t.gep(array_body(f, e.state), at), 0, "array", f.volatile(e.state))


def table_functions(f: Frame, name: str) -> tuple[str, str]:
    """What the functions of a table's kind are called by, and the type of its keys."""
    state, _ = f.state(name)
    kind = Hash.of(state) if name in f.site.hashes else table_shape(state)
    f.site.needs.add(kind)
    return (kind.id if isinstance(kind, Hash) else table_id(kind)), ll(kind.key)


def _table_get(f: Frame, e: ops.TableGet | ops.LruGet) -> str:
    state, _ = f.state(e.state)
    key, default = value(f, e.key), f.as_mem(state.type, value(f, e.default))
    (called, key_type), mem = table_functions(f, e.state), ll_mem(state.type)
    args = f"ptr {f.descriptor(e.state)}, {key_type} {key}, {mem} {default}"
    return f.t.widen(f.t.op(f"call fastcc {mem} @tget_{called}({args})"), mem, ll(state.type))


def _table_has(f: Frame, e: ops.TableHas | ops.LruHas) -> str:
    key = value(f, e.key)
    called, key_type = table_functions(f, e.state)
    return f.t.op(f"call fastcc i1 @thas_{called}(ptr {f.descriptor(e.state)}, {key_type} {key})")


def _lpm_get(f: Frame, e: ops.LpmGet) -> str:
    key, default = value(f, e.key), value(f, e.default)
    bits = e.key.type.bits
    name, width = ("lpm32", "i32") if bits == LPM_BITS else ("lpmany", "i128")
    f.site.needs.add(name)
    wide = f.t.widen(key, ll(e.key.type), width)
    return f.t.op(f"call fastcc i32 @{name}(ptr {f.descriptor(e.state)}, {width} {wide}, i32 {default})")


def _count(f: Frame, e: ops.Count) -> str:
    state, at = f.state(e.state)
    if state.kind == "ring":
        head, tail = ring_ends(f, e.state)
        return f.t.op(f"sub i32 {tail}, {head}")
    if e.state in f.site.hashes:
        called, _ = table_functions(f, e.state)
        return f.t.op(f"call fastcc i32 @tcount_{called}(ptr {f.descriptor(e.state)}, i32 {state.size})")
    return f.t.widen(f.t.load("i64", "%s", at + 8, "desc"), "i64", "i32")


def _slot_used(f: Frame, e: ops.SlotUsed) -> str:
    at = slot_address(f, e.state, value(f, e.index))
    return f.t.op(f"icmp ne i32 {f.t.load('i32', at, 0, 'ring')}, -1")


def slot_address(f: Frame, name: str, index: str) -> str:
    state, at = f.state(name)
    f.check(f.t.op(f"icmp ult i32 {index}, {state.size}"))
    body = f.t.load("ptr", "%s", at, "desc")
    return f.t.op(f"getelementptr inbounds i32, ptr {body}, i64 {f.t.widen(index, 'i32', 'i64')}")


def blob_span(f: Frame, name: str, offset: str, length: str) -> str:
    """The address of `length` (i64) checked bytes of a blob."""
    t, at = f.t, f.site.layout.states[name]
    size = t.load("i64", "%s", at + 8, "desc")
    f.check(t.op(f"icmp ule i64 {length}, {size}"))
    f.check(t.op(f"icmp ule i64 {offset}, {t.op(f'sub nuw i64 {size}, {length}')}"))
    return t.gep(t.load("ptr", "%s", at, "desc"), offset)


def _blob_load(f: Frame, e: ops.BlobLoad) -> str:
    at = blob_span(f, e.state, value(f, e.offset), str(e.type.bits // 8))
    return f.swap(e.type, f.t.load(ll(e.type), at, 0, "blob"), e.order)


def _now(f: Frame, e: ops.Now) -> str:
    return f.t.op("call fastcc i64 @now(ptr %c)")


def _wall(f: Frame, e: ops.WallTime) -> str:
    return f.t.op(f"add i64 {f.t.op('call fastcc i64 @now(ptr %c)')}, {f.t.load('i64', '%c', RUNTIME['epoch'])}")


def _random(f: Frame, e: ops.Random) -> str:
    f.site.needs.add("random")
    return f.t.op("call fastcc i32 @random(ptr %c)")


def _ready(f: Frame, e: ops.Ready) -> str:
    assert f.site.linked is not None
    askable = f.site.linked.ready
    result = "true"
    for other in askable[e.port] if e.port < len(askable) else ():
        with let_go(f):
            one = f.t.op(f"call fastcc i1 @ready{other}(ptr %c, ptr %a)")
        result = f.t.op(f"and i1 {result}, {one}")
    return result


def helper_type(type: Type) -> str:
    """What a helper returns: its value, and whether it faulted."""
    return "{ i1 }" if ll(type) == "void" else f"{{ i1, {ll(type)} }}"


def _call(f: Frame, e: ops.Call) -> str:
    args = [f"{ll(a.type)} {value(f, a)}" for a in e.args]
    type = helper_type(e.type)
    both = f.t.op(f"call fastcc {type} {f.site.call(e.function, args)}")
    bad = f.t.op(f"extractvalue {type} {both}, 0")
    f.check(f.t.op(f"xor i1 {bad}, true"))
    for name in touched(e):
        f.facts.forget(name)
    return f.t.op(f"extractvalue {type} {both}, 1") if ll(e.type) != "void" else ""


def _host(f: Frame, e: ops.Host) -> str:
    """The callback gets the instance, the method's number, the packet or -1, and the arguments as triples of words:
    low, high, sign.  It gets the context and the arena too, so that LLVM knows that it may change them."""
    t = f.t
    packet = value(f, e.packet) if e.packet is not None else "-1"
    values = [value(f, a) for a in e.args]
    area = t.slot(f"[{max(3 * len(values), 1)} x i64]")
    for i, (arg, v) in enumerate(zip(e.args, values, strict=True)):
        wide = t.widen(v, ll(arg.type), "i192", arg.type.signed)
        t.do(f"store i192 {wide}, ptr {t.gep(area, 24 * i)}, align 8")
    number = t.load("i32", "%s", f.site.layout.number)
    call = t.load("ptr", "%c", RUNTIME["host"], "desc")
    method = f.site.unit.hosts.index(e.method)
    args = f"i32 {number}, i32 {method}, i32 {packet}, i32 {len(values)}, ptr {area}, ptr %c, ptr %a"
    f.facts = Facts()
    if f.site.place is not None:
        t.do(FLUSH)
    with let_go(f):
        result = t.op(f"call i64 {call}({args}) nounwind")
    return result


EXPR: dict[Any, Callable[[Frame, Any], str]] = {
    ops.Const: _const,
    ops.Local: _local,
    ops.Bin: _bin,
    ops.Cmp: _cmp,
    ops.Logic: _logic,
    ops.Not: _not,
    ops.Cast: _cast,
    ops.Select: _select,
    ops.PLoad: _pload,
    ops.Meta: _meta,
    ops.Anno: _anno,
    ops.Sum16: _sum16,
    ops.IsNone: _is_none,
    ops.Get: _get,
    ops.Index: _index,
    ops.TableGet: _table_get,
    ops.TableHas: _table_has,
    ops.LruGet: _table_get,
    ops.LruHas: _table_has,
    ops.LpmGet: _lpm_get,
    ops.Count: _count,
    ops.SlotUsed: _slot_used,
    ops.BlobLoad: _blob_load,
    ops.Now: _now,
    ops.WallTime: _wall,
    ops.Random: _random,
    ops.Ready: _ready,
    ops.Call: _call,
    ops.Host: _host,
}
