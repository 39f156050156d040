"""What code is among threads: locks, counters, ring ends, wakes that cross, frames from the depot.

The code of each thread is a module of its own, over the same context and the thread's view of the arena.  An instance
that one thread touches is lowered as if there were no others; what differs for the rest is here.

The context and the view are `noalias`, and other threads write to the context all the same.  That is sound because LLVM
moves nothing across an atomic access that is ordered; a *barrier* (an assembly statement of no instructions that is
given both) says the same of calls, whose attributes LLVM would else infer from the little that a callee itself touches.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mezzo.elements.thread_scheduler import ASLEEP, EVENT, MAIL, SEQUENCE
from mezzo.ir.module import Linked, Program
from mezzo.ir.sharing import GUARDED, Share, Threading
from mezzo.packet.arena import Arena
from mezzo.targets.native.depot import depot_text
from mezzo.targets.native.layout import (
    HEAD_LANE,
    POP_LANE,
    PUSH_LANE,
    TAIL_LANE,
    Layout,
    UnitLayout,
    is_inline,
)  # fmt: skip
from mezzo.targets.native.text import COLD, TAGS, Text

if TYPE_CHECKING:
    from mezzo.targets.native.frame import Frame

X86 = platform.machine() in ("x86_64", "AMD64", "i686")
PAUSE = "void @llvm.x86.sse2.pause()" if X86 else "void @llvm.aarch64.hint(i32 1)"
BARRIER = 'call void asm sideeffect "", "r,r,~{memory}"(ptr %c, ptr %a)'
ALONE = Share()


@dataclass(frozen=True)
class Place:
    """The thread that code is for.  `schedulers[k]`: the instance that is thread k's scheduler in the whole program."""

    thread: int
    threading: Threading
    layout: Layout  # of the whole program
    schedulers: tuple[int, ...]

    def share(self, instance: int) -> Share:
        return self.threading.shares[instance]

    def others(self, tasks: Iterable[int]) -> list[int]:
        """The other threads that run some of these tasks."""
        return sorted({self.threading.tasks[t] for t in tasks if t >= 0} - {self.thread})

    def own(self, tasks: Iterable[int]) -> list[int]:
        return [t for t in tasks if t >= 0 and self.threading.tasks[t] == self.thread]

    def text(self) -> str:
        """What the code depends on: a part of its name on disk."""
        return f"{self.thread} {self.threading.places()} {self.layout.bells} {self.schedulers}"


# -- the lock of an instance


def lock(f: Frame) -> None:
    """Takes the lock of a guarded instance."""
    if f.site.share.mode != GUARDED:
        return
    take_lock(f.t, f.site.layout)
    f.site.needs.add("lock_wait")


def take_lock(t: Text, layout: UnitLayout) -> None:
    at = t.gep("%s", layout.lock)
    got, wait = t.label("got"), t.label("wait")
    free = t.op(f"icmp eq i32 {t.op(f'atomicrmw xchg ptr {at}, i32 1 acquire, align 4')}, 0")
    t.branch(free, got, wait, COLD)
    t.at(wait)
    t.do(f"call fastcc void @lock_wait(ptr {at})")
    t.jump(got)
    t.at(got)
    t.do(BARRIER)


def unlock(f: Frame) -> None:
    if f.site.share.mode == GUARDED:
        release_lock(f.t, f.site.layout)


def release_lock(t: Text, layout: UnitLayout) -> None:
    t.do(BARRIER)
    t.do(f"store atomic i32 0, ptr {t.gep('%s', layout.lock)} release, align 4")


@contextmanager
def let_go(f: Frame) -> Iterator[None]:
    """Around what may lead to other instances, or to Python: whoever waits there may hold another lock."""
    unlock(f)
    yield
    lock(f)


# -- state


def bump(t: Text, base: str, offset: int, share: Share) -> None:
    """Adds one to a drop counter."""
    if share.several:
        add(t, t.gep(base, offset), "i64", "1")
    else:
        t.bump(base, offset)


def add(t: Text, at: str, type: str, value: str) -> None:
    t.op(f"atomicrmw add ptr {at}, {type} {value} monotonic, align {int(type[1:]) // 8}")


def load_shown(t: Text, at: str, type: str) -> str:
    return t.op(f"load atomic {type}, ptr {at} acquire, align {int(type[1:]) // 8}")


def store_shown(t: Text, at: str, type: str, value: str) -> None:
    t.do(f"store atomic {type} {value}, ptr {at} release, align {int(type[1:]) // 8}")


# Between two threads each side moves an end of its own, and publishes it every PUBLISH packets and after each task: the
# line that both look at then changes hands once in many packets.  Room and packets are seen that much later, no more.
PUBLISH = 32


def ring_ends(f: Frame, name: str) -> tuple[str, str]:
    """Head and tail of a ring: what this thread moves as it is, what another moves as published."""
    t, at, ends = f.t, f.site.layout.states[name], f.site.share.ends(name)
    if ends is None:
        return t.load("i32", "%s", at + 8), t.load("i32", "%s", at + 12)
    place, lanes = _lanes(f, name)
    pushes, pops = ends
    head = _own(t, lanes + POP_LANE) if pops == place.thread else _published(t, lanes + HEAD_LANE)
    tail = _own(t, lanes + PUSH_LANE) if pushes == place.thread else _published(t, lanes + TAIL_LANE)
    return head, tail


def _lanes(f: Frame, name: str) -> tuple[Place, int]:
    place = f.site.place
    assert place is not None
    return place, place.layout.lanes[f.site.number, name]


def _own(t: Text, at: int) -> str:
    return t.load("i32", "%c", at)


def _published(t: Text, at: int) -> str:
    return load_shown(t, t.gep("%c", at), "i32")


def move_end(f: Frame, name: str, offset: int, value: str) -> None:
    """Moves the head (`offset` 8) or tail (12) of a ring."""
    t, ends = f.t, f.site.share.ends(name)
    if ends is None:
        t.store("i32", value, "%s", f.site.layout.states[name] + offset)
        return
    place, lanes = _lanes(f, name)
    own, shown = (POP_LANE, HEAD_LANE) if offset == 8 else (PUSH_LANE, TAIL_LANE)
    t.store("i32", value, "%c", lanes + own)
    if ends[1 if offset == 8 else 0] != place.thread:  # Python asked, while nobody runs
        t.store("i32", value, "%c", lanes + own + 4)
        store_shown(t, t.gep("%c", lanes + shown), "i32", value)
        return
    linked = f.site.linked
    assert linked is not None
    many, few = t.label("many"), t.label("few")
    t.branch(t.op(f"icmp eq i32 {t.op(f'and i32 {value}, {PUBLISH - 1}')}, 0"), many, few)
    t.at(many)
    publish(t, place, f.site.needs, lanes, own, value, linked)
    t.jump(few)
    t.at(few)


def publish(t: Text, place: Place, needs: set[object], lanes: int, own: int, value: str, linked: Linked) -> None:
    """Shows the other side how far this one is, then rings for who sleeps and waits for it."""
    t.do(BARRIER)
    t.store("i32", value, "%c", lanes + own + 4)
    shown, waiting = (HEAD_LANE, linked.wake_up) if own == POP_LANE else (TAIL_LANE, linked.wake_down)
    store_shown(t, t.gep("%c", lanes + shown), "i32", value)
    ring_bells(t, place, needs, waiting)


FLUSH = "call fastcc void @flush(ptr %c, ptr %a)"


def flush_text(place: Place, needs: set[object], program: Program) -> str:
    """Publishes all that this thread has moved: after each task, and before Python sees anything."""
    t = Text("define internal fastcc void @flush(ptr %c, ptr %a)")
    for (number, name), lanes in place.layout.lanes.items():
        pushes, pops = place.share(number).ends(name) or (-1, -1)
        for thread, own in ((pushes, PUSH_LANE), (pops, POP_LANE)):
            if thread == place.thread:
                _flush_end(t, place, needs, lanes, own, program.instances[number])
    t.do("ret void")
    return t.finish()


def _flush_end(t: Text, place: Place, needs: set[object], lanes: int, own: int, linked: Linked) -> None:
    value, shown = _own(t, lanes + own), _own(t, lanes + own + 4)
    moved, same = t.label("moved"), t.label("same")
    t.branch(t.op(f"icmp eq i32 {value}, {shown}"), same, moved)
    t.at(moved)
    publish(t, place, needs, lanes, own, value, linked)
    t.jump(same)
    t.at(same)


# -- wakes


def ring_bells(t: Text, place: Place | None, needs: set[object], tasks: Iterable[int]) -> None:
    for thread in place.others(tasks) if place is not None else ():
        needs.add(("bell", thread))
        t.do(f"call fastcc void @bell{thread}(ptr %c, ptr %a)")


def wake(t: Text, place: Place | None, needs: set[object], tasks: Iterable[int]) -> None:
    """Wakes tasks: those of this thread through its scheduler; other threads poll theirs, unless they sleep."""
    tasks = [task for task in tasks if task >= 0]
    for task in place.own(tasks) if place is not None else tasks:
        t.do(f"call fastcc void @wake(ptr %c, ptr %a, i32 {task}) cold{TAGS['tasks']}")
    ring_bells(t, place, needs, tasks)


def mail(f: Frame, at: str) -> bool:
    """Sets the instance's timer where that is another thread's; -1 clears it."""
    place, linked = f.site.place, f.site.linked
    assert linked is not None
    if place is None or place.threading.timers[linked.timer] == place.thread:
        return False
    home = place.threading.timers[linked.timer]
    f.site.needs.add(("mail", home))
    f.t.do(f"call fastcc void @mail{home}(ptr %c, ptr %a, i32 {linked.timer}, i64 {at})")
    return True


def bell_text(place: Place, thread: int) -> str:
    at = place.layout.bells[thread]
    return f"""
define internal fastcc void @bell{thread}(ptr %c, ptr %a) alwaysinline nounwind {{
  {BARRIER}
  %p = getelementptr inbounds i8, ptr %c, i64 {at + ASLEEP}
  %s = load atomic i32, ptr %p monotonic, align 4
  %awake = icmp eq i32 %s, 0
  br i1 %awake, label %done, label %ring{COLD}
ring:
  call fastcc void @ring_bell(ptr %p)
  br label %done
done:
  ret void
}}
"""


def mail_text(place: Place, thread: int, inline: bool) -> str:
    """Sends a setting of a timer to another thread's scheduler; its instance's lock is held."""
    scheduler = place.schedulers[thread]
    far = place.layout.offsets[scheduler] + place.layout.units[scheduler].states["far"]
    body = "getelementptr inbounds i8, ptr %d, i64 0" if inline else "load ptr, ptr %d, align 8"
    return f"""
define internal fastcc void @mail{thread}(ptr %c, ptr %a, i32 %timer, i64 %at) noinline nounwind {{
  %d = getelementptr inbounds i8, ptr %c, i64 {far}
  %body = {body}
  %tz = zext i32 %timer to i64
  %p = getelementptr inbounds i64, ptr %body, i64 %tz
  %old = load i64, ptr %p, align 8
  %next = add i64 %old, 1
  %count = and i64 %next, {SEQUENCE}
  %time = and i64 %at, {-1 - SEQUENCE}
  %new = or i64 %time, %count
  store atomic i64 %new, ptr %p release, align 8
  %mp = getelementptr inbounds i8, ptr %c, i64 {place.layout.bells[thread] + MAIL}
  store atomic i32 1, ptr %mp release, align 4
  call fastcc void @bell{thread}(ptr %c, ptr %a)
  ret void
}}
"""


# -- pieces of the library

RING_BELL = f"""
define internal fastcc void @ring_bell(ptr %p) cold noinline nounwind {{
  %one = alloca i64
  %s = atomicrmw xchg ptr %p, i32 0 seq_cst, align 4
  %first = icmp ne i32 %s, 0
  br i1 %first, label %write, label %done
write:
  store i64 1, ptr %one
  %fp = getelementptr inbounds i8, ptr %p, i64 {EVENT - ASLEEP}
  %fd = load i32, ptr %fp, align 4
  %n = call i64 @write(i32 %fd, ptr %one, i64 8)
  br label %done
done:
  ret void
}}
"""

# After some 10 µs the holder has lost its CPU: it gets ours.
LOCK_WAIT = f"""
define internal fastcc void @lock_wait(ptr %l) cold noinline nounwind {{
entry:
  br label %spin
spin:
  %i = phi i32 [ 0, %entry ], [ %i1, %again ]
  call {PAUSE}
  %v = load atomic i32, ptr %l monotonic, align 4
  %free = icmp eq i32 %v, 0
  br i1 %free, label %try, label %held
try:
  %old = atomicrmw xchg ptr %l, i32 1 acquire, align 4
  %got = icmp eq i32 %old, 0
  br i1 %got, label %done, label %held
held:
  %i1 = add i32 %i, 1
  %low = and i32 %i1, 255
  %long = icmp eq i32 %low, 0
  br i1 %long, label %yield, label %again
yield:
  %y = call i32 @sched_yield()
  br label %again
again:
  br label %spin
done:
  ret void
}}
"""

DROP_SHARED = """
define internal fastcc void @drop_shared(ptr %a, i32 %f, ptr %n) noinline nounwind willreturn {
  call fastcc void @kill(ptr %a, i32 %f)
  %old = atomicrmw add ptr %n, i64 1 monotonic, align 8
  ret void
}
"""

DECLARES = f"""\
declare {PAUSE.replace("i32 1", "i32")}
declare i64 @write(i32, ptr, i64) nounwind
declare i32 @sched_yield() nounwind
"""


def library(place: Place, needs: set[object], arena: Arena, program: Program) -> list[str]:
    """The pieces that code for one of several threads asks for."""
    inline = is_inline(program.instances[0].unit.state("far"))
    flush = flush_text(place, needs, program)
    threads = sorted(n[1] for n in needs if isinstance(n, tuple) and n[0] == "mail")
    bells = sorted({n[1] for n in needs if isinstance(n, tuple)})
    fixed = [flush, DECLARES, RING_BELL, LOCK_WAIT, DROP_SHARED, depot_text(arena)]
    return [*fixed, *(bell_text(place, k) for k in bells), *(mail_text(place, k, inline) for k in threads)]
