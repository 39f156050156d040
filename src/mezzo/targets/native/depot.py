"""How frames go between a thread's free list and the depot (packet/views.py), as LLVM text.

A make that finds its list empty asks the depot and looks again; after a task what a list holds over its limit is given
back.  Both are rare, a lock word guards the depot, and frames move in one piece.
"""

from __future__ import annotations

from mezzo.packet.arena import CONTROL, Arena
from mezzo.packet.views import DEPOT_COUNT, DEPOT_FRAMES
from mezzo.targets.native.text import COLD, Text, fill

# The depot %l is locked, and holds %k frames.
_LOCKED = """\
  %l = getelementptr inbounds i8, ptr %a, i64 DEPOT
  %old = atomicrmw xchg ptr %l, i32 1 acquire, align 4
  %got = icmp eq i32 %old, 0
  br i1 %got, label %held, label %wait
wait:
  call fastcc void @lock_wait(ptr %l)
  br label %held
held:
  %kp = getelementptr inbounds i8, ptr %l, i64 COUNT
  %k = load i64, ptr %kp, align 8
"""

_DEPOT = """
define internal fastcc i1 @refill(ptr %a) cold noinline nounwind {
""" + _LOCKED + """  %few = icmp ult i64 %k, BATCH
  %n = select i1 %few, i64 %k, i64 BATCH
  %left = sub i64 %k, %n
  store i64 %left, ptr %kp, align 8
  %fp = getelementptr inbounds i8, ptr %l, i64 FRAMES
  %from = getelementptr inbounds i32, ptr %fp, i64 %left
  %cp = getelementptr inbounds i8, ptr %a, i64 FREE_COUNT
  %c = load i64, ptr %cp, align 8
  %base = getelementptr inbounds i8, ptr %a, i64 FREE_AT
  %to = getelementptr inbounds i32, ptr %base, i64 %c
  %bytes = shl i64 %n, 2
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %c1 = add i64 %c, %n
  store i64 %c1, ptr %cp, align 8
  store atomic i32 0, ptr %l release, align 4
  %some = icmp ne i64 %n, 0
  ret i1 %some
}
define internal fastcc void @surplus(ptr %a) cold noinline nounwind {
""" + _LOCKED + """  %fp = getelementptr inbounds i8, ptr %l, i64 FRAMES
  %to = getelementptr inbounds i32, ptr %fp, i64 %k
  %cp = getelementptr inbounds i8, ptr %a, i64 FREE_COUNT
  %c = load i64, ptr %cp, align 8
  %n = sub i64 %c, KEEP
  %base = getelementptr inbounds i8, ptr %a, i64 FREE_AT
  %from = getelementptr inbounds i32, ptr %base, i64 KEEP
  %bytes = shl i64 %n, 2
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %k1 = add i64 %k, %n
  store i64 %k1, ptr %kp, align 8
  store i64 KEEP, ptr %cp, align 8
  store atomic i32 0, ptr %l release, align 4
  ret void
}
define void @door_refill(ptr %c, ptr %s, ptr %a, ptr %args, ptr %result) {
  %got = call fastcc i1 @refill(ptr %a)
  ret void
}
"""


def depot_text(arena: Arena) -> str:
    """The functions `refill` and `surplus`, and the door by which Python refills."""
    assert arena.depot is not None
    depot = arena.depot
    named = {
        "DEPOT": depot.offset, "COUNT": DEPOT_COUNT, "FRAMES": DEPOT_FRAMES, "BATCH": depot.batch, "KEEP": depot.keep,
        "FREE_COUNT": CONTROL["free_count"], "FREE_AT": arena.free_offset,
    }  # fmt: skip
    return fill(_DEPOT, {name: str(value) for name, value in named.items()})


# What another CPU wrote last takes long to come, and stores wait for it one after the other: asked for a few packets
# ahead, the lines come side by side.  An entry below the list is no frame, and a prefetch of it nothing.
POPPED = "!range !3\n"
AHEAD = """\
  %soon = getelementptr i32, ptr %sp, i64 -6
  %g = load i32, ptr %soon, align 4
  %gz = zext i32 %g to i64
  %gmo = shl i64 %gz, META_SHIFT
  %gma = add i64 %gmo, META_AT
  %gm = getelementptr i8, ptr %a, i64 %gma
  call void @llvm.prefetch.p0(ptr %gm, i32 1, i32 3, i32 1)
  %gm2 = getelementptr i8, ptr %gm, i64 64
  call void @llvm.prefetch.p0(ptr %gm2, i32 1, i32 3, i32 1)
  %gst = and i64 %gz, STAGGER_MASK
  %gs64 = shl i64 %gst, 6
  %gdo = shl i64 %gz, FRAME_SHIFT
  %gda = add i64 %gdo, DATA_AT
  %gdb = add i64 %gda, %gs64
  %gd = getelementptr i8, ptr %a, i64 %gdb
  %gdh = getelementptr i8, ptr %gd, i64 HEADROOM
  call void @llvm.prefetch.p0(ptr %gdh, i32 1, i32 3, i32 1)
"""


def asking_depot(piece: str) -> str:
    """`make` or `take_frame`, such that an empty list is filled from the depot and looked at again."""
    ask = f"none:\n  %filled = call fastcc i1 @refill(ptr %a)\n  br i1 %filled, label %short, label %out{COLD}\nout:\n"
    if "short:\n" not in piece:
        head, brace, body = piece.partition(" {\n")
        piece = f"{head}{brace}  br label %short\nshort:\n{body}"
    return piece.replace("none:\n", ask).replace(POPPED, POPPED + AHEAD)


def give_surplus(t: Text, arena: Arena) -> None:
    """After a task: frames over what a thread may keep go to the depot."""
    assert arena.depot is not None
    count = t.load("i64", "%a", CONTROL["free_count"], "control")
    much, fine = t.label("much"), t.label("fine")
    t.branch(t.op(f"icmp ule i64 {count}, {arena.depot.most}"), fine, much, COLD)
    t.at(much)
    t.do("call fastcc void @surplus(ptr %a)")
    t.jump(fine)
    t.at(fine)
