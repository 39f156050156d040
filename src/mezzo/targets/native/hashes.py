"""Tables that programs in the kernel have too: the same functions as in tables.py, by the bpf system call.

The descriptor's first word is the map's number.  What the call says no to (the map is full, an entry is not there) is
the answer; the call itself is made where packets are few, because those that are many stay in the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mezzo.base.bpf import MAP_DELETE, MAP_LOOKUP, MAP_NEXT_KEY, MAP_UPDATE, ONLY_NEW, system_call
from mezzo.ir.module import State
from mezzo.ir.types import Type
from mezzo.targets.native.text import fill, ll, ll_mem


@dataclass(frozen=True, slots=True)
class Hash:
    """A hash of the kernel: what its keys and values are."""

    key: Type
    value: Type
    forgets: bool = False

    @staticmethod
    def of(state: State) -> Hash:
        assert state.key is not None
        return Hash(state.key, state.type, state.kind == "lru")

    @property
    def id(self) -> str:
        return f"{self.key}_{self.value}_{'lru' if self.forgets else 'kernel'}"


# struct bpf_attr of map elements (linux/bpf.h): the map, the key's address, the value's or the next key's, flags.
_DECLARE = """
declare i64 @syscall(i64, ...) nounwind
"""
_ASK = """
define internal fastcc i64 @bpf_element(ptr %d, i64 %command, ptr %k, ptr %v, i64 %flags) noinline nounwind {
  %attr = alloca [32 x i8], align 8
  %fd = load i64, ptr %d, align 8
  store i64 %fd, ptr %attr, align 8
  %kp = getelementptr inbounds i8, ptr %attr, i64 8
  store ptr %k, ptr %kp, align 8
  %vp = getelementptr inbounds i8, ptr %attr, i64 16
  store ptr %v, ptr %vp, align 8
  %fp = getelementptr inbounds i8, ptr %attr, i64 24
  store i64 %flags, ptr %fp, align 8
  %r = call i64 (i64, ...) @syscall(i64 NUMBER, i64 %command, ptr %attr, i64 32)
  ret i64 %r
}
"""
_HASH = """
define internal fastcc void @tkey_ID(ptr %at, KEY %k) alwaysinline {
  %wide = zext KEY %k to i256
  %mem = trunc i256 %wide to KMEM
  store KMEM %mem, ptr %at, align 8
  ret void
}
define internal fastcc VMEM @tget_ID(ptr %d, KEY %k, VMEM %default) {
  %ka = alloca KMEM, align 8
  %va = alloca VMEM, align 8
  call fastcc void @tkey_ID(ptr %ka, KEY %k)
  %r = call fastcc i64 @bpf_element(ptr %d, i64 LOOKUP, ptr %ka, ptr %va, i64 0)
  %v = load VMEM, ptr %va, align 8
  %has = icmp eq i64 %r, 0
  %got = select i1 %has, VMEM %v, VMEM %default
  ret VMEM %got
}
define internal fastcc i1 @thas_ID(ptr %d, KEY %k) {
  %ka = alloca KMEM, align 8
  %va = alloca VMEM, align 8
  call fastcc void @tkey_ID(ptr %ka, KEY %k)
  %r = call fastcc i64 @bpf_element(ptr %d, i64 LOOKUP, ptr %ka, ptr %va, i64 0)
  %has = icmp eq i64 %r, 0
  ret i1 %has
}
define internal fastcc i1 @tput_ID(ptr %d, KEY %k, VMEM %v, i64 %capacity) {
  %ka = alloca KMEM, align 8
  %va = alloca VMEM, align 8
  call fastcc void @tkey_ID(ptr %ka, KEY %k)
  store VMEM %v, ptr %va, align 8
NEW
  %r = call fastcc i64 @bpf_element(ptr %d, i64 UPDATE, ptr %ka, ptr %va, i64 0)
  %done = icmp eq i64 %r, 0
  ret i1 %done
}
define internal fastcc i1 @tdel_ID(ptr %d, KEY %k) {
  %ka = alloca KMEM, align 8
  call fastcc void @tkey_ID(ptr %ka, KEY %k)
  %r = call fastcc i64 @bpf_element(ptr %d, i64 DELETE, ptr %ka, ptr null, i64 0)
  %done = icmp eq i64 %r, 0
GONE
  ret i1 %done
}
define internal fastcc i32 @tcount_ID(ptr %d, i32 %most) {
entry:
  %ka = alloca KMEM, align 8
  %na = alloca KMEM, align 8
  br label %next
next:
  %n = phi i32 [ 0, %entry ], [ %n1, %more ]
  %first = icmp eq i32 %n, 0
  %from = select i1 %first, ptr null, ptr %ka
  %r = call fastcc i64 @bpf_element(ptr %d, i64 NEXT, ptr %from, ptr %na, i64 0)
  %some = icmp eq i64 %r, 0
  br i1 %some, label %found, label %done
found:
  %key = load KMEM, ptr %na, align 8
  store KMEM %key, ptr %ka, align 8
  %n1 = add nuw nsw i32 %n, 1
  %full = icmp uge i32 %n1, %most
  br i1 %full, label %done, label %more
more:
  br label %next
done:
  %count = phi i32 [ %n, %next ], [ %n1, %found ]
  ret i32 %count
}
"""


# Of those that forget: what is made and what is deleted counts, in the word that the descriptor leads to.  A new key is
# looked for first (see kernel/lower_stmt).
_COUNT = """
  %wp = getelementptr inbounds i8, ptr %d, i64 8
  %word = load ptr, ptr %wp, align 8
  %old = atomicrmw add ptr %word, i64 BY monotonic, align 8"""
_NEW = f"""
  %was = alloca VMEM, align 8
  %looked = call fastcc i64 @bpf_element(ptr %d, i64 LOOKUP, ptr %ka, ptr %was, i64 0)
  %there = icmp eq i64 %looked, 0
  br i1 %there, label %put, label %new
new:
  %n = call fastcc i64 @bpf_element(ptr %d, i64 UPDATE, ptr %ka, ptr %va, i64 ONLY_NEW)
  %made = icmp eq i64 %n, 0
  br i1 %made, label %count, label %put
count:{_COUNT.replace("BY", "1")}
  ret i1 true
put:"""
_GONE = "  %by = sext i1 %done to i64" + _COUNT.replace("BY", "%by")


def hashes_text(kinds: Sequence[Hash]) -> list[str]:
    """The functions of these kinds, and the one that they all call."""
    if not kinds:
        return []
    whole = [_DECLARE, fill(_ASK, {"NUMBER": str(system_call())})]
    return whole + [_text(kind) for kind in sorted(kinds, key=lambda kind: kind.id)]


def _text(kind: Hash) -> str:
    names = {"ID": kind.id, "KEY": ll(kind.key), "KMEM": ll_mem(kind.key), "VMEM": ll_mem(kind.value)}
    numbers = {
        "LOOKUP": MAP_LOOKUP, "UPDATE": MAP_UPDATE, "DELETE": MAP_DELETE, "NEXT": MAP_NEXT_KEY, "ONLY_NEW": ONLY_NEW,
    }  # fmt: skip
    text = fill(_HASH, {"NEW": _NEW, "GONE": _GONE} if kind.forgets else {"NEW": "", "GONE": ""})
    return fill(text, names | {name: str(number) for name, number in numbers.items()})
