"""Looking into a running router through handlers: traces, taps, the profile.

    look      write {"id": WORD, "kind": "trace" | "tap" | "profile", …}   begins; what else it takes is in `KINDS`
    look WORD read                                                          what came since the last time, as JSON
    unlook    write WORD                                                    ends

Each is a *session*.  One that nobody reads for `LEASE_S` ends by itself, for a client may be gone without a word.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mezzo.base import MezzoError
from mezzo.packet.arena import Packet
from mezzo.runtime.eye import Viewer, eye_of
from mezzo.runtime.filters import compile_filter
from mezzo.runtime.profile import Profile
from mezzo.runtime.taps import Tap, Tapped

if TYPE_CHECKING:
    from mezzo.runtime.paths import Path
    from mezzo.runtime.router import Router
    from mezzo.targets.native.watched import Lens

LEASE_S = 10.0
TURN_S = 0.1
MOST_SESSIONS = 8
MOST_PACKETS = 10_000
WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Trace(Viewer):
    """The ways of the first packets that a filter lets pass."""

    kind = "call"

    def __init__(self, router: Router, count: int, filter: str) -> None:
        from mezzo.runtime.paths import Tracer

        self.router, self.done = router, list[dict[str, object]]()
        self.tracer = Tracer(count, self._finished, compile_filter(filter))
        self.full = threading.Event()

    def below(self) -> None:
        """It wants all that happens in the kernel."""

    def begin(self, lens: Lens) -> None:
        super().begin(lens)
        self.elements = self.router.plan.elements
        below = eye_of(self.router).below
        self.tracer.attach(self.router, below.ear(self) if below is not None else None)

    def saw(self, instance: int, port: int, is_out: bool, frame: int) -> None:
        self.tracer.seen(self.elements[instance], port, Packet(self.router.arena, frame), is_out)
        if self.tracer.is_full():
            self.full.set()

    def _finished(self, path: Path) -> None:
        from mezzo.runtime.paths import as_json

        self.done.append(as_json(path, whole=True))

    def finish(self) -> None:
        """At rest, when it sees no more."""
        from mezzo.runtime.paths import unmark

        self.tracer.finish()
        unmark(self.router)


class Session:
    """What one client looks at, and the thread that begins and ends it."""

    def __init__(self, router: Router, word: str, seconds: float) -> None:
        self.router, self.word, self.state = router, word, "starting"
        self.until = time.monotonic() + seconds
        self.seconds, self.read_at = seconds, time.monotonic()
        self.end = threading.Event()

        self.thread = threading.Thread(target=self._work, name=f"mezzo-look-{word}", daemon=True)

    def _work(self) -> None:
        try:
            self.begin()
            self.state, self.until = "running", time.monotonic() + self.seconds
            while not self.is_over():
                self.end.wait(TURN_S)
            self.finish()
            self.state = "ended"
        except MezzoError as trouble:
            self.state = "ended" if self.router.closed else f"failed: {trouble}"
        except Exception as trouble:
            self.state = f"failed: {type(trouble).__name__}: {trouble}"
            self.router.say(f"look {self.word}: {self.state}")

    def is_over(self) -> bool:
        now = time.monotonic()
        return self.end.is_set() or self.router.closed or now > self.until or now - self.read_at > LEASE_S

    def read(self) -> dict[str, Any]:
        """What is new."""
        self.read_at = time.monotonic()
        return {"state": self.state, **self.news()}

    def begin(self) -> None: ...

    def finish(self) -> None: ...

    def news(self) -> dict[str, Any]:
        return {}


class TraceSession(Session):
    def __init__(self, router: Router, word: str, seconds: float, count: int = 1, filter: str = "") -> None:
        super().__init__(router, word, seconds)
        if not 0 < count <= MOST_PACKETS:
            raise ValueError(f"{count} packets: a trace follows 1 to {MOST_PACKETS}")
        self.trace = Trace(router, count, filter)

    def begin(self) -> None:
        eye_of(self.router).add(self.trace)

    def is_over(self) -> bool:
        if self.trace.full.is_set():
            return True
        if self.trace.tracer.open or self.trace.tracer.kernel is not None:
            self.router.at_rest(self._look)
        return super().is_over()

    def _look(self) -> None:
        self.trace.tracer.look()
        if self.trace.tracer.is_full():
            self.trace.full.set()

    def finish(self) -> None:
        eye_of(self.router).remove(self.trace)
        self.router.at_rest(self.trace.finish)

    def news(self) -> dict[str, Any]:
        found, self.trace.done = self.trace.done, []
        return {"paths": found}


class TapSession(Session):
    def __init__(
        self, router: Router, word: str, seconds: float, edge: str = "", filter: str = "", snaplen: int = 0
    ) -> None:
        super().__init__(router, word, seconds)
        self.tap, self.left = Tap(router, edge, filter, snaplen), list[Tapped]()

    def begin(self) -> None:
        eye_of(self.router).add(self.tap)

    def finish(self) -> None:
        self.left = self.tap.read()
        eye_of(self.router).remove(self.tap)

    def news(self) -> dict[str, Any]:
        found, self.left = [*self.left, *(self.tap.read() if self.state == "running" else [])], []
        packets = [[p.time_ns, p.edge, p.length, p.data.hex()] for p in found]
        return {"edges": [str(c) for c in self.tap.edges], "packets": packets, "lost": self.tap.lost}


class ProfileSession(Session):
    """The profile itself is one for all who look."""

    def begin(self) -> None:
        self.profile = profile_of(self.router)

    def news(self) -> dict[str, Any]:
        profile = getattr(self, "profile", None)
        rows = profile.table() if profile is not None else []
        keys = ("element", "class", "share", "ns")
        slices = profile.slices if profile is not None else 0
        return {"slices": slices, "elements": [dict(zip(keys, row, strict=True)) for row in rows]}

    def finish(self) -> None:
        others = [s for s in sessions(self.router) if isinstance(s, ProfileSession) and s is not self]
        if all(s.state != "running" for s in others):
            stop_profile(self.router)


KINDS: dict[str, tuple[Callable[..., Session], frozenset[str]]] = {
    "trace": (TraceSession, frozenset({"count", "filter"})),
    "tap": (TapSession, frozenset({"edge", "filter", "snaplen"})),
    "profile": (ProfileSession, frozenset()),
}
TEXTS = {"edge", "filter"}  # what is no number


def profile_of(router: Router) -> Profile:
    """The profile of a router, begun where there is none."""
    eye = eye_of(router)
    if eye.profile is None:
        eye.profile = Profile(router)
        eye.profile.thread.start()
    return eye.profile


def stop_profile(router: Router) -> None:
    eye = eye_of(router)
    if eye.profile is not None:
        eye.profile.stop()
        eye.profile = None


def sessions(router: Router) -> list[Session]:
    return list(eye_of(router).sessions.values())


# -- the handlers


def look(router: Router, text: str) -> None:
    """Begins a session; ValueError says what is wrong."""
    try:
        asked = json.loads(text)
    except ValueError as trouble:
        raise ValueError(f"expected a JSON object: {trouble}") from None
    if not isinstance(asked, dict) or not WORD.fullmatch(str(asked.get("id", ""))):
        raise ValueError('expected {"id": WORD, "kind": …}, the word of letters, digits and _.-')
    word, kind = str(asked.pop("id")), asked.pop("kind", None)
    if kind not in KINDS:
        raise ValueError(f"there is no kind `{kind}`; there are {', '.join(KINDS)}")
    make, known = KINDS[kind]
    _check(asked, known | {"seconds"})
    with _as_value_error():
        eye = eye_of(router)
        _forget_old(eye.sessions)
        if word in eye.sessions or len(eye.sessions) >= MOST_SESSIONS:
            raise ValueError(f"`{word}` looks already" if word in eye.sessions else f"{MOST_SESSIONS} look already")
        session = make(router, word, float(asked.pop("seconds", 1e9)), **asked)
    eye.sessions[word] = session
    session.thread.start()


@contextlib.contextmanager
def _as_value_error() -> Any:
    try:
        yield
    except MezzoError as trouble:
        raise ValueError(str(trouble)) from None


def _check(asked: dict[str, Any], known: frozenset[str]) -> None:
    for key, value in asked.items():
        if key not in known:
            raise ValueError(f"`{key}` is not known here; there are {', '.join(sorted(known))}")
        kind = str if key in TEXTS else int | float
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or (key in ("count", "snaplen") and (not isinstance(value, int) or value < 0)):
            raise ValueError(f"`{key}` cannot be {value!r}")


def _forget_old(known: dict[str, Session]) -> None:
    """Sessions that have ended and that nobody reads any more."""
    now = time.monotonic()
    for word in [w for w, s in known.items() if s.state not in ("starting", "running") and now - s.read_at > LEASE_S]:
        del known[word]


def seen(router: Router, word: str) -> str:
    """What a session saw since the last time."""
    known = router.eye.sessions if router.eye is not None else {}
    if not word:
        return "".join(f"{s.word}\t{type(s).__name__}\t{s.state}\n" for s in known.values())
    if word not in known:
        raise ValueError(f"nobody looks as `{word}`")
    return json.dumps(known[word].read())


def unlook(router: Router, word: str) -> None:
    known = router.eye.sessions if router.eye is not None else {}
    if word.strip() not in known:
        raise ValueError(f"nobody looks as `{word.strip()}`")
    known.pop(word.strip()).end.set()
