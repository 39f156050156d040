"""ProgressBar: how far something is, drawn on a terminal.

The bar is drawn by the wall clock, also where the router's clock is virtual, and does not keep a router from ending: a
thread posts a job for the next quiescent point every UPDATE.  Where standard error is no terminal there is no thread,
and nothing is printed.
"""

import os
import sys
import threading
import time

from mezzo.base import MezzoError
from mezzo.elements import Arg, Bool, ConfigError, Duration, Element, Env, Kind, Text, read, write
from mezzo.elements._paths import check_readable, full_path
from mezzo.elements._progress import Progress
from mezzo.elements.confparse import split_words

LEAST_UPDATE_NS = 10_000_000
USUAL_WIDTH = 80


class Amount(Kind):
    """A number, 0 or more."""

    words = "a number, 0 or more"

    def parse(self, text: str, env: Env) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise ValueError(f"expected {self.words}, not `{text}`")
        return value

    def show(self, value: float) -> str:
        return f"{value:.12g}"


class ProgressBar(Element):
    """Draws a bar on standard error: how far POSHANDLER is on its way to SIZEHANDLER, how fast, and for how long yet.

    Several handlers, with spaces between, are added up.  The size is read once, when the bar is first drawn; where
    there is none the bar shows that something moves.  Nothing is drawn where standard error is no terminal.
    """

    ports, processing, flow = "0/0", "a/a", ""
    poshandler = Arg(Text(), doc="read handlers that say how far it is")
    sizehandler = Arg(Text(), "", "read handlers that say how far it goes")
    fixed_size = Arg(Amount(), None, "how far it goes, where no handler says it", positional=False)
    banner = Arg(Text(), "", "what stands before the bar", positional=False)
    update = Arg(Duration(), 250_000_000, "time between two pictures, 10 ms at least", positional=False)
    active = Arg(Bool(), True, "is it drawn", positional=False)
    delay = Arg(Duration(), 0, "nothing is drawn before so much time has passed", positional=False)
    check_stdout = Arg(Bool(), False, "no bar where standard output is a terminal", positional=False)
    example = """InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;
p :: ProgressBar(c.count, FIXED_SIZE 10, BANNER packets);"""
    example_reads = {"p.pos": "5", "p.size": "10", "p.poshandler": "c.count"}
    see = ("FromDump", "Script")

    # -- the life of the bar

    def configure(self):
        self.update = max(self.update, LEAST_UPDATE_NS)
        self.progress, self.state = Progress(), "new"  # new, drawn, ended
        self.ticker, self.over = None, threading.Event()

    def initialize(self):
        self.positions = self.paths(self.poshandler)
        self.sizes = self.paths(self.sizehandler)
        self.given = None if self.sizes else self.fixed_size
        self.begun = False
        if not self.positions:
            raise ConfigError("POSHANDLER names no handler; write one such as fd.filepos")
        if self.active:
            self.start()

    def cleanup(self):
        self.stop()
        if self.state == "drawn":
            self.draw(ended=True)

    def paths(self, text):
        found = [full_path(self, word) for word in split_words(text)]
        try:
            for path in found:
                check_readable(self, path)
        except (ValueError, MezzoError) as trouble:
            raise ConfigError(str(trouble)) from None
        return found

    @property
    def stream(self):
        return self.router.output or sys.stderr

    def draws(self):
        """Whether anybody would see the bar."""
        return self.stream.isatty() and not (self.check_stdout and sys.stdout.isatty())

    def start(self):
        if self.ticker is None and self.draws():
            self.over.clear()
            self.ticker = threading.Thread(target=self.tick, name=self.name, daemon=True)
            self.ticker.start()

    def stop(self):
        self.over.set()
        ticker, self.ticker = self.ticker, None
        if ticker is not None:
            ticker.join()

    def tick(self):
        """In its thread: one job after another, when the one before is done."""
        job = self.router.post(self.draw)
        while not self.over.wait(self.update / 1e9):
            if job.is_set():
                job = self.router.post(self.draw)

    # -- drawing, at quiescent points

    def draw(self, ended=False):
        if not self.active or self.state == "ended":
            return
        now_ns = time.monotonic_ns()
        if not self.begun:
            self.begun = True
            self.progress.begin(now_ns, self.size_now())
        if (now_ns - self.progress.began_ns < self.delay and not ended) or not self.draws() or not self.in_front():
            return
        line = self.progress.line(now_ns, self.total(self.positions), self.width() - 1, self.banner, ended)
        self.stream.write(f"\r\x1b[K{line}" + ("\n" if ended else ""))
        self.stream.flush()
        self.state = "ended" if ended else "drawn"

    def in_front(self):
        """Whether this process may write to the terminal; one in the background should not."""
        try:
            return os.tcgetpgrp(self.stream.fileno()) == os.getpgrp()
        except (OSError, ValueError):
            return True

    def width(self):
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or USUAL_WIDTH
        except (OSError, ValueError):
            return USUAL_WIDTH

    def total(self, paths):
        """The sum of what handlers say, None where one of them says no number."""
        try:
            values = [Amount().parse(self.router.handlers.read(path).strip(), self.env) for path in paths]
        except (ValueError, OSError, MezzoError):
            return None
        return sum(values) if values else None

    def size_now(self):
        return self.given if self.given is not None else self.total(self.sizes)

    # -- handlers

    @write("mark_stopped", "the bar says that it has ended, maybe too early")
    def mark_stopped(self, text):
        self.draw(ended=True)
        self.state = "ended"

    @write("mark_done", "the bar says that all is done")
    def mark_done(self, text):
        self.progress.size = self.given = self.total(self.positions)
        self.mark_stopped(text)

    @write("reset", "begins anew, and is drawn")
    def reset(self, text):
        self.state, self.begun, self.active = "new", False, True
        self.given = None if self.sizes else self.fixed_size
        self.start()

    @read("pos", "how far it is")
    def read_pos(self):
        return _shown(self.total(self.positions))

    @read("size", "how far it goes")
    def read_size(self):
        return _shown(self.progress.size if self.begun else self.size_now())

    @write("size", "how far it goes, from now on")
    def write_size(self, text):
        self.progress.size = self.given = Amount().parse(text.strip(), self.env)

    @read("active", "is it drawn")
    def read_active(self):
        return self.active

    @write("active", "shall it be drawn")
    def write_active(self, text):
        self.active = Bool().parse(text.strip(), self.env)
        if self.active:
            self.start()
        else:
            self.stop()

    @read("banner", "what stands before the bar")
    def read_banner(self):
        return self.banner

    @write("banner", "what stands before the bar")
    def write_banner(self, text):
        self.banner = Text().parse(text.strip(), self.env)

    @read("poshandler", "the handlers that say how far it is")
    def read_poshandler(self):
        return " ".join(self.positions)

    @write("poshandler", "the handlers that say how far it is")
    def write_poshandler(self, text):
        self.positions = self.paths(text)

    @read("sizehandler", "the handlers that say how far it goes")
    def read_sizehandler(self):
        return " ".join(self.sizes)

    @write("sizehandler", "the handlers that say how far it goes; they are read anew")
    def write_sizehandler(self, text):
        self.sizes, self.given, self.begun = self.paths(text), None, False


def _shown(value):
    return "unknown" if value is None else Amount().show(value)
