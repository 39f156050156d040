"""Scripts of TYPE SIGNAL: signals of the process, real ones, taken between packets."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements.script_signals import DESK
from mezzo.runtime import Router
from mezzo.targets import target_names

DRIVERS = {
    "mezzo": ["mezzo.tools.main", "run", "--quiet", "-e"],
    "python target": ["mezzo.tools.main", "run", "--quiet", "--target", "python", "-e"],
    "threads": ["mezzo.tools.main", "run", "--quiet", "-j", "2", "-e"],
    "click": ["mezzo.tools.click", "-e"],
}


class Driven:
    """A driver in a process of its own: signals go in, lines come out."""

    def __init__(self, driver: str, text: str) -> None:
        module, *words = DRIVERS[driver]
        code = f"import sys; from {module} import main; sys.exit(main(sys.argv[1:]))"
        self.child = subprocess.Popen([sys.executable, "-c", code, *words, text], stdout=subprocess.PIPE, text=True)
        self.expect("ready")

    def expect(self, *lines: str) -> None:
        assert self.child.stdout is not None
        assert sorted(self.child.stdout.readline().rstrip() for _ in lines) == sorted(lines)

    def send(self, name: str) -> None:
        self.child.send_signal(signal.Signals["SIG" + name])

    def end(self) -> int:
        assert self.child.communicate(timeout=20)[0] == ""
        return self.child.returncode


@contextlib.contextmanager
def driven(driver: str, *elements: str) -> Iterator[Driven]:
    made = Driven(driver, " ".join((*elements, "Script(wait 1us, print 'ready');")))
    try:
        yield made
    finally:
        made.child.kill()
        made.child.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("driver", DRIVERS)
def test_signals_reach_their_scripts_between_packets(driver: str) -> None:
    with driven(
        driver,
        "s :: InfiniteSource -> c :: Counter -> Discard;",
        'a :: Script(TYPE SIGNAL USR1 HUP, init n 0, set n $(add $n 1), print "a $1 $n $(eq $(s.count) $(c.count))");',
        'b :: Script(TYPE SIGNAL SIGUSR1, print "b $1");',
        "Script(TYPE SIGNAL TERM, print 'stopping', stop);",
    ) as router:
        router.send("USR1")
        router.expect("a USR1 1 true", "b USR1")
        router.send("HUP")
        router.expect("a HUP 2 true")
        router.send("USR1")
        router.expect("a USR1 3 true", "b USR1")
        router.send("TERM")
        router.expect("stopping")
        assert router.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mezzo", "threads", "click"])
def test_a_router_that_only_waits_for_signals_stays(driver: str) -> None:
    with driven(
        driver,
        "p :: Script(TYPE SIGNAL USR1, print 'one', pause, print 'two'); Script(TYPE SIGNAL HUP, print 'it waits');",
        "Script(TYPE SIGNAL USR2, write p.step, print 'stepped');",
    ) as router:
        for _ in range(2):
            router.send("USR1")
            router.expect("one")
            router.send("USR2")
            router.expect("two", "stepped")
        router.send("USR1")
        router.expect("one")
        router.send("HUP")
        router.expect("it waits")
        router.send("USR1")  # nobody listens while the script waits: what the signal always does
        assert router.end() == -signal.SIGUSR1


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["mezzo", "click"])
def test_exit_gives_the_signal_back(driver: str) -> None:
    with driven(driver, "InfiniteSource -> Discard; Script(TYPE SIGNAL INT, print 'once', exit);") as router:
        router.send("INT")
        router.expect("once")
        router.send("INT")
        assert router.end() == 0


COUNTS = "sig :: Script(TYPE SIGNAL USR1, init n 0, set n $(add $n 1)"


@pytest.mark.parametrize("target", target_names())
def test_a_script_sends_signals_to_this_process(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    kill = "print $(kill USR1 $$), wait 1ms"
    text = f"{COUNTS}); Script({kill}, {kill}, print $(sig.get n), stop);"
    with Router.from_click(text, target=target, virtual=True) as router:
        assert router.run(rounds=10_000) == "stopped"
    assert capsys.readouterr().out.split() == ["2"]


@pytest.fixture
def old() -> Iterator[list[int]]:
    """What USR1 does without scripts: it notes itself here."""
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: came.append(number))
    yield came
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    ("rest", "runs", "passed"),
    [
        ("", 3, 0),
        (", return 5", 3, 0),
        (", exit", 1, 2),
        (", error 'no'", 1, 2),
        (", goto exit true", 1, 2),
        (", pause", 1, 2),
        (", label l, goto l", 1, 2),
    ],
)
def test_how_a_script_ends_says_whether_it_listens_on(rest: str, runs: int, passed: int, old: list[int]) -> None:
    with Router.from_click(f"{COUNTS}{rest});", virtual=True) as router:
        router.output = io.StringIO()
        for _ in range(3):
            signal.raise_signal(signal.SIGUSR1)
            router.run(rounds=100)
        assert (router.read("sig.get", "n"), len(old)) == (str(runs), passed)
        with contextlib.suppress(MezzoError):  # the one that ends with an error
            router.write("sig.run")
    signal.raise_signal(signal.SIGUSR1)
    assert len(old) == passed + 1, "a closed router has given the signal back"


def test_signals_that_come_before_the_script_ran_are_one(old: list[int]) -> None:
    with Router.from_click(f"{COUNTS});", virtual=True) as router:
        for _ in range(3):
            signal.raise_signal(signal.SIGUSR1)
        assert router.read("sig.get", "n") == "0", "it waits for the quiescent point"
        router.run(rounds=100)
        assert router.read("sig.get", "n") == "1"


def test_several_routers_share_a_signal(old: list[int]) -> None:
    with Router.from_click(f"{COUNTS});", virtual=True) as a, Router.from_click(f"{COUNTS});", virtual=True) as b:
        signal.raise_signal(signal.SIGUSR1)
        a.run(rounds=10)
        b.run(rounds=10)
        assert (a.read("sig.get", "n"), b.read("sig.get", "n"), old) == ("1", "1", [])


def test_signals_keep_a_router_running_unless_its_clock_is_virtual() -> None:
    with Router.from_click(f"{COUNTS});") as router:
        assert router.run(seconds=0.001) == "time"
    with Router.from_click(f"{COUNTS});", virtual=True) as router:
        assert router.run() == "done"


def test_what_lies_under_a_script_can_change(old: list[int]) -> None:
    ours: list[int] = []
    with Router.from_click(f"{COUNTS}, exit);", virtual=True) as router:
        before = DESK.underlay(signal.SIGUSR1, lambda number, frame: ours.append(number))
        for _ in range(2):
            signal.raise_signal(signal.SIGUSR1)
            router.run(rounds=10)
        DESK.underlay(signal.SIGUSR1, before)
    signal.raise_signal(signal.SIGUSR1)
    assert (len(ours), len(old)) == (1, 1)


@pytest.mark.parametrize("name", ["KILL", "STOP", "SEGV", "9"])
def test_some_signals_are_given_to_nobody(name: str) -> None:
    with pytest.raises(MezzoError, match="no program can take the signal"):
        Router.from_click(f"Script(TYPE SIGNAL {name}, stop);")


def test_a_router_that_another_thread_makes_takes_no_signals() -> None:
    found: list[Any] = []

    def make() -> None:
        try:
            Router.from_click(f"{COUNTS});")
        except MezzoError as trouble:
            found.append(str(trouble))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    assert "signals reach the main thread only" in found[0]


@pytest.mark.slow
def test_the_example_is_steered_by_signals() -> None:
    file = Path(__file__).parents[2] / "examples" / "signals.click"
    code = "import sys; from mezzo.tools.main import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "run", "--quiet", "--handlers", "queue.length", str(file)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        line = child.stdout.readline
        assert line() == f"process {child.pid}\n"
        for name, answer in (("USR1", r"\d+ sent, \d+ waiting"), ("HUP", "now 2000 a second"), ("TERM", "all is sent")):
            child.send_signal(signal.Signals["SIG" + name])
            assert re.fullmatch(answer, line().rstrip())
        assert child.communicate(timeout=20)[0] == "0\n"
        assert child.returncode == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_a_script_that_comes_by_a_reload_hears_signals(threads: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks for the reload is another thread than the main one, which runs the router."""
    text = "s :: InfiniteSource -> c :: Counter -> Discard;"
    with Router.from_click(text, threads=threads, frames=4096) as router:

        def change() -> None:
            router.reload(f'{text} x :: Script(TYPE SIGNAL USR1, print "heard $1", stop);')
            signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

        other = threading.Thread(target=change)
        other.start()
        assert router.run(seconds=30) == "stopped"
        other.join()
    assert capsys.readouterr().out == "heard USR1\n"
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL
