"""Expressions: each IR expression as LLVM text for BPF.  A row per op; the table is what this target can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mezzo.ir import ops
from mezzo.ir.ops import Const, Expr
from mezzo.ir.types import BOOL, I64
from mezzo.targets.kernel.facts import UNSET
from mezzo.targets.kernel.frame import MAP_LOOKUP, Frame
from mezzo.targets.kernel.layout import mem_bytes
from mezzo.targets.kernel.proofs import assume, length_proof
from mezzo.targets.kernel.sums import sum16
from mezzo.targets.native.text import ll, ll_mem

CMP = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
BIN = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
STEP = 0x9E3779B97F4A7C15  # of splitmix64


def value(f: Frame, e: Expr) -> str:
    """Emits the code of `e`; the name of its value."""
    with f.t.place(getattr(e, "span", None)):
        return EXPR[type(e)](f, e)


def _const(f: Frame, e: ops.Const) -> str:
    return str(e.value) if e.type is not BOOL else "true" if e.value else "false"


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
    if bits == 128:
        return _shift_wide(f, e.op == "shl", a, b)
    small = t.op(f"icmp ult {type} {b}, {bits}")
    count = t.op(f"select i1 {small}, {type} {b}, {type} {bits - 1}")
    shifted = t.op(f"{op} {type} {a}, {count}")
    return shifted if op == "ashr" else t.op(f"select i1 {small}, {type} {shifted}, {type} 0")


def _shift_wide(f: Frame, left: bool, a: str, b: str) -> str:
    """128 bits by an open count, in halves: LLVM would call a function of a library that is not there."""
    t = f.t
    forth, back = ("shl", "lshr") if left else ("lshr", "shl")
    low, high = (t.op(f"trunc i128 {x} to i64") for x in (a, t.op(f"lshr i128 {a}, 64")))
    near, far = (low, high) if left else (high, low)  # bits go from `near` to `far`
    small, whole = t.op(f"icmp ult i128 {b}, 128"), t.op(f"icmp uge i128 {b}, 64")
    count = t.op(f"and i64 {t.op(f'trunc i128 {b} to i64')}, 63")
    moved = t.op(f"{forth} i64 {near}, {count}")
    across = t.op(f"{back} i64 {t.op(f'{back} i64 {near}, 1')}, {t.op(f'sub i64 63, {count}')}")
    joined = t.op(f"or i64 {t.op(f'{forth} i64 {far}, {count}')}, {across}")
    far = t.op(f"select i1 {whole}, i64 {moved}, i64 {joined}")
    near = t.op(f"select i1 {whole}, i64 0, i64 {moved}")
    low, high = (near, far) if left else (far, near)
    top = t.op(f"shl i128 {t.widen(high, 'i64', 'i128')}, 64")
    result = t.op(f"or i128 {top}, {t.widen(low, 'i64', 'i128')}")
    return t.op(f"select i1 {small}, i128 {result}, i128 0")


def _divide(f: Frame, e: ops.Bin, a: str, b: str) -> str:
    """x/0 = 0 and x%0 = x.  BPF divides without sign (signed only since its version 4)."""
    t, type = f.t, ll(e.type)
    size = t.op(f"icmp slt {type} {a}, 0"), t.op(f"icmp slt {type} {b}, 0")
    if e.type.signed:
        a, b = (t.op(f"select i1 {s}, {type} {t.op(f'sub {type} 0, {v}')}, {type} {v}")
                for s, v in zip(size, (a, b), strict=True))  # fmt: skip
    zero = t.op(f"icmp eq {type} {b}, 0")
    by = t.op(f"select i1 {zero}, {type} 1, {type} {b}")
    result = t.op(f"u{'div' if e.op == 'div' else 'rem'} {type} {a}, {by}")
    result = t.op(f"select i1 {zero}, {type} {'0' if e.op == 'div' else a}, {type} {result}")
    if not e.type.signed:
        return result
    minus = t.op(f"xor i1 {size[0]}, {size[1]}") if e.op == "div" else size[0]
    return t.op(f"select i1 {minus}, {type} {t.op(f'sub {type} 0, {result}')}, {type} {result}")


def _cmp(f: Frame, e: ops.Cmp) -> str:
    proof = length_proof(f, e)
    if proof:
        return proof
    a, b = value(f, e.a), value(f, e.b)
    op = CMP[e.op].replace("u", "s") if e.a.type.signed else CMP[e.op]
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
    assume(f, e.a, e.op == "and")
    t.do(f"store i1 {value(f, e.b)}, ptr {slot}")
    f.facts = before.both(f.facts)
    t.jump(done)
    t.at(done)
    return t.op(f"load i1, ptr {slot}")


def _cast(f: Frame, e: ops.Cast) -> str:
    a = value(f, e.a)
    if e.type is BOOL and e.a.type is not BOOL:
        return f.t.op(f"icmp ne {ll(e.a.type)} {a}, 0")
    return f.t.widen(a, ll(e.a.type), ll(e.type), e.a.type.signed)


def _select(f: Frame, e: ops.Select) -> str:
    cond, a, b = value(f, e.cond), value(f, e.a), value(f, e.b)
    return f.t.op(f"select i1 {cond}, {ll(e.type)} {a}, {ll(e.type)} {b}")


# -- packets


def _pload(f: Frame, e: ops.PLoad) -> str:
    at = f.span(e.mark, e.offset, value(f, e.offset), e.type.bits // 8)
    return f.swap(e.type, f.t.load(ll(e.type), at), e.order)


def _meta(f: Frame, e: ops.Meta) -> str:
    t = f.t
    if e.field == "timestamp":
        return f.timestamp()
    if e.field == "packet_type":
        return t.op(f"load i8, ptr {f.kind}")
    if e.field.startswith("has_"):
        return t.op(f"icmp ne i64 {f.at(e.field.removeprefix('has_'))}, {UNSET}")
    if e.field in ("mac", "net", "trans"):
        return _mark(f, e.field)
    if e.field == "length":
        return t.op(f"trunc nuw nsw i64 {f.length()} to i32")
    if e.field == "headroom":
        return t.widen(f.headroom(), "i64", "i32")
    return t.widen(t.op(f"sub i64 {f.frame_size}, {f.plus(f.headroom(), f.length())}"), "i64", "i32")


def _mark(f: Frame, mark: str) -> str:
    """Where it is from the data; an unset one is UNSET bytes from the start of the frame."""
    if mark in f.facts.known and f.facts.known[mark] != UNSET:
        return f.t.op(f"sub i64 {f.at(mark)}, {f.at('data')}")
    t, place = f.t, f.at(mark)
    unset = t.op(f"icmp eq i64 {place}, {UNSET}")
    far, near = t.op(f"sub i64 {UNSET}, {f.headroom()}"), t.op(f"sub i64 {place}, {f.at('data')}")
    return t.op(f"select i1 {unset}, i64 {far}, i64 {near}")


def _anno(f: Frame, e: ops.Anno) -> str:
    return f.swap(e.type, f.annotation(e.type, e.offset), e.order)


# -- state


def _get(f: Frame, e: ops.Get) -> str:
    return f.from_mem(e.type, f.t.load(ll_mem(e.type), f.address(f.state(e.state)[1])))


def element(f: Frame, name: str, index: str) -> str:
    """The address of a checked element of an array."""
    state, place = f.state(name)
    t = f.t
    if index.isdigit() and int(index) < state.size:
        return t.gep(f.address(place), int(index) * mem_bytes(state.type))
    wide = t.opaque("i64", t.widen(index, "i32", "i64"), "")
    f.check(t.op(f"icmp ult i64 {wide}, {state.size}"))
    return t.gep(f.address(place), t.op(f"mul i64 {wide}, {mem_bytes(state.type)}"))


def _index(f: Frame, e: ops.Index) -> str:
    at = element(f, e.state, value(f, e.index))
    return f.from_mem(e.type, f.t.load(ll_mem(e.type), at))


def table_key(f: Frame, name: str, key: Expr) -> str:
    """The address of a key on the stack, each byte of it set."""
    slot = f.t.slot(ll_mem(key.type))
    f.t.do(f"store {ll_mem(key.type)} {f.as_mem(key.type, value(f, key))}, ptr {slot}")
    return slot


def found(f: Frame, name: str, key: str) -> str:
    """Where the value of a key lies, or null; to a map that forgets it is a use."""
    return f.t.helper(MAP_LOOKUP, f"ptr {f.map(f.state(name)[1].symbol)}", f"ptr {key}", result="ptr")


def _at_found(f: Frame, place: str, type: str, default: str) -> str:
    """What lies at an address, or `default` where there is none."""
    t = f.t
    slot, some, done = t.slot(type), t.label("found"), t.label("looked")
    t.do(f"store {type} {default}, ptr {slot}")
    t.branch(t.op(f"icmp ne ptr {place}, null"), some, done)
    t.at(some)
    t.do(f"store {type} {t.load(type, place)}, ptr {slot}")
    t.jump(done)
    t.at(done)
    return t.op(f"load {type}, ptr {slot}")


def _table_get(f: Frame, e: ops.TableGet | ops.LruGet) -> str:
    key = table_key(f, e.state, e.key)
    default = f.as_mem(e.type, value(f, e.default))
    return f.from_mem(e.type, _at_found(f, found(f, e.state, key), ll_mem(e.type), default))


def _table_has(f: Frame, e: ops.TableHas | ops.LruHas) -> str:
    key = table_key(f, e.state, e.key)
    return f.t.op(f"icmp ne ptr {found(f, e.state, key)}, null")


def _lpm_get(f: Frame, e: ops.LpmGet) -> str:
    """The trie's key is the prefix length, then the bits, the first ones first.  Volatile, or LLVM would write several
    parts at once, across what the verifier holds the stack's alignment to be."""
    t, type = f.t, e.key.type
    key, default = value(f, e.key), value(f, e.default)
    slot = t.gep(t.slot(f"[{8 + type.bits // 8} x i8]"), 4)
    t.do(f"store volatile i32 {type.bits}, ptr {slot}, align 4")
    bits = f.swap(type, key, "big")
    for at in range(0, type.bits, 32):
        size = min(32, type.bits - at)
        part = t.widen(t.op(f"lshr {ll(type)} {bits}, {at}") if at else bits, ll(type), f"i{size}")
        t.do(f"store volatile i{size} {part}, ptr {t.gep(slot, 4 + at // 8)}, align {size // 8}")
    return _at_found(f, found(f, e.state, slot), "i32", default)


def _count(f: Frame, e: ops.Count) -> str:
    return str(f.blobs[f.instance, e.state])


def _blob_load(f: Frame, e: ops.BlobLoad) -> str:
    at = blob_span(f, e.state, value(f, e.offset), e.type.bits // 8)
    return f.swap(e.type, f.t.load(ll(e.type), at), e.order)


def blob_span(f: Frame, name: str, offset: str, length: int) -> str:
    """The address of checked bytes of a blob."""
    last = f.blobs[f.instance, name] - length
    inside = f.t.opaque("i64", offset)
    f.check("false" if last < 0 else f.t.op(f"icmp ule i64 {inside}, {last}"))
    return f.t.gep(f.address(f.state(name)[1]), inside)


# -- the world


def _now(f: Frame, e: Expr) -> str:
    return f.t.load("i64", f.word("now")) if f.virtual else f.clock()


def _wall(f: Frame, e: ops.WallTime) -> str:
    return f.t.op(f"add i64 {_now(f, e)}, {f.t.load('i64', f.word('epoch'))}")


def _random(f: Frame, e: ops.Random) -> str:
    """splitmix64, the high half; its counter is common to all CPUs."""
    t = f.t
    before = t.op(f"atomicrmw add ptr {f.word('random')}, i64 {I64.wrap(STEP)} seq_cst, align 8")
    z = t.op(f"add i64 {before}, {I64.wrap(STEP)}")
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        shifted = t.op(f"lshr i64 {z}, {shift}")
        z = t.op(f"mul i64 {t.op(f'xor i64 {z}, {shifted}')}, {I64.wrap(factor)}")
    z = t.op(f"xor i64 {z}, {t.op(f'lshr i64 {z}, 31')}")
    return t.op(f"trunc i64 {t.op(f'lshr i64 {z}, 32')} to i32")


EXPR: dict[Any, Callable[[Frame, Any], str]] = {
    ops.Const: _const,
    ops.Local: lambda f, e: f.read(e.name),
    ops.Bin: _bin,
    ops.Cmp: _cmp,
    ops.Logic: _logic,
    ops.Not: lambda f, e: f.t.op(f"xor i1 {value(f, e.a)}, true"),
    ops.Cast: _cast,
    ops.Select: _select,
    ops.PLoad: _pload,
    ops.Meta: _meta,
    ops.Anno: _anno,
    ops.Sum16: lambda f, e: sum16(f, e, *(value(f, x) for x in (e.offset, e.length, e.init))),
    ops.IsNone: lambda f, e: "false",  # there is one packet, and it is there
    ops.Get: _get,
    ops.Index: _index,
    ops.TableGet: _table_get,
    ops.TableHas: _table_has,
    ops.LruGet: _table_get,
    ops.LruHas: _table_has,
    ops.LpmGet: _lpm_get,
    ops.Count: _count,
    ops.BlobLoad: _blob_load,
    ops.Now: _now,
    ops.WallTime: _wall,
    ops.Random: _random,
    ops.Ready: lambda f, e: "true",  # nothing in the kernel stores packets
}
