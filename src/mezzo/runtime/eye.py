"""Looking into a router that runs: viewers, and when its code is the one that tells them what passes.

A *viewer* (a trace, a tap, the profile, the recorder) says which sights it wants and how it takes them (see
`targets/native/watched`).  While there is one, packets run through traced code of the same program over the same
memory; else through the code that they always ran through.  `add` and `remove` change that at a quiescent point.

Code is compiled by a thread of ours, while packets flow.  When a reload puts another program in the place of this one,
viewers are told (`begin` again), and traced code is made of the new one.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError

if TYPE_CHECKING:
    from mezzo.runtime.below import Below
    from mezzo.runtime.router import Router
    from mezzo.targets.native.watched import Lens, Rows, Watched

SETTLE_S = 0.02
CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_void_p)


class Viewer:
    """Who wants to see.  `kind`, `rows` and `snap` are those of its lens."""

    kind, rows, snap = "times", 1, 0

    def begin(self, lens: Lens) -> None:
        """Called at rest, when traced code is about to run: says of which instances sights are wanted."""
        ctypes.memset(lens.wanted, 1, ctypes.sizeof(lens.wanted))

    def below(self) -> Collection[int] | None:
        """The instances of the kernel's level of which it wants notes; None for all that happens there."""
        return ()

    def saw(self, instance: int, port: int, is_out: bool, frame: int) -> None:
        """A sight, for the kind that is called."""


class Clock:
    """Turns counts of the CPU into times since 1970, by readings of both.  Made where packets do not wait for it."""

    def __init__(self, native: Any) -> None:
        self._native = native
        self._first = self._at = self._reading()
        time.sleep(SETTLE_S)
        self.rate = 1.0  # nanoseconds a tick
        self._measure()

    def _reading(self) -> tuple[int, int]:
        """(ticks, monotonic time) of one moment: the closest of a few."""
        found = []
        for _ in range(5):
            before, now_ns, after = self._native.ticks(), time.monotonic_ns(), self._native.ticks()
            found.append((after - before, (before + after) // 2, now_ns))
        return min(found)[1:]

    def _measure(self) -> None:
        self._at = self._reading()
        ticks, ns = self._at[0] - self._first[0], self._at[1] - self._first[1]
        self.rate = ns / ticks if ticks > 0 else 1.0
        self._shift_ns = time.time_ns() - time.monotonic_ns()

    def look(self) -> None:
        """Measures anew, now and then: the longer it is since the first reading, the better."""
        if time.monotonic_ns() - self._at[1] > 10**9:
            self._measure()

    def time_ns(self, ticks: int) -> int:
        return self._at[1] + self._shift_ns + int((ticks - self._at[0]) * self.rate)


class Eye:
    """`router.eye`, made when somebody looks."""

    def __init__(self, router: Router) -> None:
        if router.trace is not None:
            raise MezzoError("this router was started with a trace: it is watched already")
        if router.target == "python":
            raise MezzoError("looking into a router that runs is for the native target")
        self.router = router
        self.lenses: dict[Viewer, Lens] = {}
        self.clock: Clock | None = None
        self._watched: Watched | None = None  # what was compiled last
        self._engine: Any = None  # of which the traced code is in place now
        self._callbacks: dict[Viewer, Any] = {}  # what that calls
        self._native: Any = None  # what traced code calls
        self.below: Below | None = None  # while viewers look at the kernel's level
        self.resting: set[Viewer] = set()
        self.sessions: dict[str, Any] = {}  # of handlers, see `seeing`
        self.profile: Any = None  # while somebody wants it
        self._turn = threading.Lock()

    # -- viewers

    def add(self, viewer: Viewer) -> None:
        """From the next quiescent point on it sees; compiles, so never call it where packets rest."""
        with self._turn:
            wanting = [*self.lenses, viewer]
            self._arrange(wanting)

    def remove(self, viewer: Viewer) -> None:
        with self._turn:
            if viewer in self.lenses:
                self._arrange([v for v in self.lenses if v is not viewer])

    def replaced(self) -> None:
        """Another program runs: traced code of that one is made, in a thread of its own."""
        if self.lenses:
            threading.Thread(target=self._again, name="mezzo-eye", daemon=True).start()

    def _again(self) -> None:
        with self._turn, contextlib.suppress(MezzoError):  # it was closed meanwhile
            if self._engine is not self.router.engine:
                self._arrange(list(self.lenses))

    def _arrange(self, viewers: list[Viewer]) -> None:
        """Compiles what these viewers need, and swaps."""
        from mezzo.targets.native.watched import Eye as Native
        from mezzo.targets.native.watched import Lens, Watched

        while True:
            engine, plan = self.router.engine, self.router.plan
            if viewers and (self._watched is None or self._watched.engine is not engine):
                self._watched = Watched(engine)
            count, callbacks = len(plan.program.instances), {v: CALLBACK(self._call_of(v)) for v in viewers}
            lenses = {
                v: Lens(v.kind, count, v.rows, v.snap, ctypes.cast(callbacks[v], ctypes.c_void_p).value or 0)
                for v in viewers
            }
            # Rows of those who go on looking at the same program stay.
            if self._engine is engine:
                lenses |= {v: lens for v, lens in self.lenses.items() if v in lenses and v.kind != "call"}
            native = Native(list(lenses.values()), self.router.arena) if viewers else None
            if native is not None and self.clock is None:
                self.clock = Clock(native)
            before, below = self.below, self._below(viewers)
            try:
                done = self._swap(engine, lenses, callbacks, native, below)
            finally:
                for one in {before, below} - {None, self.below}:
                    one.close()
            if done:
                return

    def _below(self, viewers: list[Viewer]) -> Below | None:
        """What notes for these viewers in the kernel's level, where there is one."""
        asked = [viewer.below() for viewer in viewers]
        wanted = None if None in asked else frozenset(i for some in asked if some is not None for i in some)
        if not self.router.parts or wanted == frozenset():
            return None
        known = self.below
        if known is not None and known.of is self.router.parts[0] and known.wanted == wanted:
            return known
        from mezzo.runtime.below import Below

        try:
            return Below(self.router, wanted)
        except MezzoError as refusal:
            self.router.say(f"the kernel's level cannot be looked at: {refusal}")
            return None

    def _call_of(self, viewer: Viewer) -> Callable[..., None]:
        def call(instance: int, port: int, frame: int, *_: object) -> None:
            try:
                viewer.saw(instance, port & 0x7FFF_FFFF, bool(port >> 31), frame)
            except Exception as trouble:  # it must not unwind through native code, nor stop the router
                self.router.say(f"looking: {type(trouble).__name__}: {trouble}")

        return call

    def _swap(
        self,
        engine: Any,
        lenses: dict[Viewer, Lens],
        callbacks: dict[Viewer, Any],
        native: Any,
        below: Below | None,
    ) -> bool:
        """At a quiescent point; False when another program came in between."""
        done = []

        def job() -> None:
            if self.router.engine is not engine:
                return
            before, self.lenses = self.lenses, lenses
            self._look_below(below)
            if native is None:
                if self._engine is engine and self._watched is not None:
                    self._watched.shut()
                self._engine, self.resting = None, set()
            else:
                assert self._watched is not None
                self._watched.open(native)
                self.resting = set()
                fresh = [v for v in lenses if before.get(v) is not lenses[v]]
                self._engine = engine
                for viewer in fresh:
                    viewer.begin(lenses[viewer])
            self._native, self._callbacks = native, callbacks
            done.append(True)

        self.router.at_quiescence(job, lambda: None)
        if self.router.closed and not done:
            raise MezzoError("the router is closed")
        return bool(done)

    def _look_below(self, below: Below | None) -> None:
        before, self.below = self.below, below
        if below is not None and below is not before:
            try:
                below.put(self.router.ports, before)
            except (OSError, MezzoError) as trouble:  # of an interface that is gone, say
                self.router.say(f"the kernel's level cannot be looked at: {trouble}")
        elif below is None and before is not None and before.of in self.router.parts:
            before.take_back(self.router.ports)

    def close(self) -> None:
        """The router is about to end: whoever looks does not any more."""
        workers = [session.thread for session in self.sessions.values()]
        for session in self.sessions.values():
            session.end.set()
        if self.profile is not None:
            self.profile.stop()
            workers.append(self.profile.thread)
        if self.router.recorder is not None:
            self.router.recorder.stop()
            workers.append(self.router.recorder.thread)
        for worker in workers:
            if worker is not threading.current_thread():
                worker.join(5.0)
        if self.below is not None:
            self.below.close()
            self.below = None

    # -- sampling

    def rest(self, viewer: Viewer, resting: bool, then: Callable[[Lens], None] = lambda lens: None) -> None:
        """A viewer that looks only now and then: while all rest, packets run through the code without sights.
        `then` is called by the way, with the viewer's lens."""

        def job() -> None:
            lens = self.lenses.get(viewer)
            if lens is None or self._engine is not self.router.engine or self._watched is None:
                return
            self.resting = self.resting - {viewer} if not resting else self.resting | {viewer}
            ctypes.memset(lens.wanted, 0, ctypes.sizeof(lens.wanted))
            if not resting:
                viewer.begin(lens)
            if set(self.lenses) <= self.resting:
                self._watched.shut()
            else:
                self._watched.open(self._native)
            then(lens)

        with self._turn:
            self.router.at_quiescence(job, lambda: None)

    # -- what was seen

    def take(self, viewer: Viewer) -> Rows | None:
        """Rows that were not taken yet; call it at rest, and read them elsewhere."""
        lens = self.lenses.get(viewer)
        return lens.take() if lens is not None else None


def eye_of(router: Router) -> Eye:
    """The eye of a router."""
    if router.eye is None:
        router.eye = Eye(router)
    return router.eye
