"""When a question or a wish reaches a running router (docs/design/0004).

Whoever runs the router may do at once what it likes; so may anybody while nobody runs it.  Another thread's request
waits for the quiescent point: the runner is called back, all packet threads end the task that each runs, and the job is
done.  Only a plain read, that of one word of state, needs none of this.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError
from mezzo.runtime.handlers import BESIDE, CHANGES, HandlerError, Handlers
from mezzo.runtime.threads import CALL, STOP, Team

if TYPE_CHECKING:
    from mezzo.runtime.recorder import Recorder


class Bell:
    """Wakes whoever waits, in Python and to the microsecond.  Signal handlers may ring it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # it rings already
            self._lock.release()

    def wait(self, seconds: float) -> None:
        self._lock.acquire(timeout=seconds)


class Asking:
    """What a router can be asked and told; `Router` is one."""

    engine: Any
    team: Team | None
    virtual: bool
    closed: bool
    handlers: Handlers
    failures: list[str]
    stop_hooks: list[Callable[[], bool]]
    recorder: Recorder | None

    def __init__(self) -> None:
        self.requests: queue.SimpleQueue[tuple[Callable[[], object], threading.Event]] = queue.SimpleQueue()
        self.awaited: set[str] = set()  # what something outside may still wake: no run is done meanwhile
        self.runner: int | None = None  # the thread that runs it, and its number in the system
        self.runner_tid: int | None = None
        self._quiet = threading.RLock()  # held by whoever changes something while nobody runs it
        self._bell = Bell()
        self._say = threading.RLock()  # who sets `stop`

    # -- the runner's side

    def serve(self) -> None:
        """Runs what other threads asked for: this is the quiescent point."""
        if self.requests.empty():
            return
        with self._rest():
            # Those that are put off meanwhile are for the next time: what they wait for may wait for this to end.
            for _ in range(self.requests.qsize()):
                try:
                    job, done = self.requests.get_nowait()
                except queue.Empty:
                    return
                try:
                    job()
                finally:
                    done.set()

    def serve_if_idle(self) -> None:
        """As the runner would, where nobody runs it."""
        with self._quiet:
            if self.runner is None:
                self.serve()

    def _take_over(self) -> None:
        """From here on this thread alone finds the router at rest, when it says so."""
        with self._quiet:
            self.runner, self.runner_tid = threading.get_ident(), threading.get_native_id()

    def _hand_back(self) -> None:
        with self._quiet:
            self.runner = self.runner_tid = None
            self.serve()

    def _was_called(self) -> bool:
        """Whether the loop came back for a call only; takes the reason away."""
        stop = self.engine.cells[0]["stop"]
        with self._say:
            if stop.value != CALL:
                return False
            stop.load(0)
            return True

    # -- anybody's side

    def please_stop(self) -> None:
        """Asks the loop to end after the task that runs now."""
        if self.team is not None:
            self.team.stop()
            return
        with self._say:
            self.engine.cells[0]["stop"].load(STOP)
        self._bell.ring()

    def break_off(self, why: str) -> None:
        """At rest: no packet code runs any more, and nobody may refuse that."""
        self.failures.append(why)
        self.stop_hooks.clear()
        if self.team is not None:
            self.team.break_off()
        self.please_stop()

    def post(self, job: Callable[[], None]) -> threading.Event:
        """`job` runs at the next quiescent point, and the event tells that it has.  Signal handlers may call this."""
        done = threading.Event()
        self.requests.put((job, done))
        self._call()
        return done

    def _call(self) -> None:
        """The runner comes back to Python, to go on after that."""
        if self.team is not None:
            self.team.call()
            return
        stop = self.engine.cells[0]["stop"]
        with self._say:
            if self.runner is not None and not stop.value:
                stop.load(CALL)
        self._bell.ring()

    def _rest(self) -> contextlib.AbstractContextManager[None]:
        """No other thread runs packet code meanwhile."""
        return self.team.rest() if self.team is not None else contextlib.nullcontext()

    def _require_open(self) -> None:
        if self.closed:
            raise MezzoError("the router is closed")

    def at_rest(self, job: Callable[[], Any]) -> Any:
        """Runs `job` where no packet code runs, and gives its result: for what changes rings and frames."""
        self._require_open()
        return self._at_rest(job)

    def _at_rest(self, job: Callable[[], Any]) -> Any:
        """Runs `job` where no packet code runs, and gives its result."""
        if self.runner == threading.get_ident():
            with self._rest():
                return job()
        with self._quiet:
            if self.runner is None:
                return job()
        box: list[Any] = []

        def boxed() -> None:
            try:
                box.append((True, job()))
            except Exception as trouble:
                box.append((False, trouble))
            except BaseException:  # Ctrl-C is for the runner, who asked must not wait for ever
                box.append((False, MezzoError("the router was interrupted")))
                raise

        done = self.post(boxed)
        with self.team.aside() if self.team is not None else contextlib.nullcontext():
            while not done.wait(0.1):
                self.serve_if_idle()
        fine, result = box[0]
        if not fine:
            raise result
        return result

    def is_inside(self) -> bool:
        """Whether this thread is in a callback: packet code that has called it is under way."""
        me = threading.get_ident()
        thread = 0 if self.runner == me else self.team.number_of(me) if self.team is not None else None
        if thread is not None:
            return bool(getattr(self.engine, "engines", [self.engine])[thread].depth)
        with self._quiet:
            return bool(self.runner is None and self.engine.depth)

    def at_quiescence(self, job: Callable[[], None], then: Callable[[], None]) -> None:
        """As `at_rest`, and no call of packet code is under way either, in the middle of which a callback asked for
        this: its code must not go.  `then` follows when packets flow again.  Who asks from such a callback finds both
        done when the call has come back."""
        is_inside, done = self.is_inside(), threading.Event()

        def once_out() -> None:
            if self.engine.depth:
                self._later(once_out)
                return
            try:
                job()
            finally:
                done.set()
            if is_inside:
                then()

        if is_inside:
            self._later(once_out)
            return
        self.at_rest(once_out)
        while not done.wait(0.02):
            self._require_open()
            self.serve_if_idle()
        then()

    def _later(self, job: Callable[[], object]) -> None:
        """At the next quiescent point that comes by itself."""
        self.requests.put((job, threading.Event()))

    def rested_ns(self) -> int:
        """Since when the threads rest that rest now: of several, when they were told to; of none, now."""
        if self.team is not None and self.team.workers:
            return self.team.rested_ns
        runs = self.runner is not None and not self.virtual
        return int(self.engine.now_ns) if runs else time.monotonic_ns()

    def read(self, path: str, argument: str = "") -> str:
        """The text of a read handler, `element.handler` or a global one."""
        plain = self.handlers.kept.get(path)
        if plain is not None:
            return plain()
        if self.closed:
            raise HandlerError(520, "the router is closed")
        plain = self.handlers.plain(path)
        if plain is not None:
            return plain()
        if path in BESIDE:
            return str(self.handlers.read(path, argument))
        return str(self._at_rest(lambda: self.handlers.read(path, argument)))

    def write(self, path: str, text: str = "") -> None:
        if self.closed:
            raise HandlerError(520, "the router is closed")
        if self.recorder is not None:
            self.recorder.note(f"write {path} {text[:80]}")
        change = CHANGES.get(path)
        if change is not None:  # most of it is work beside the router that runs
            change(self, text)
            return
        self._at_rest(lambda: self.handlers.write(path, text))
