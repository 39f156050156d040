"""ProgressBar: the text of its lines, its handlers, and that it draws on terminals only."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.elements._progress import Progress, clock, short
from mezzo.runtime import Router

SECOND = 1_000_000_000
COUNTED = "InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;"


def lines(size: float | None, *seen: tuple[float, float | None], width: int = 70) -> list[str]:
    """What is shown at these (seconds, positions)."""
    progress = Progress()
    progress.begin(0, size)
    return [progress.line(int(at * SECOND), position, width) for at, position in seen]


def test_a_bar_with_a_size() -> None:
    assert lines(200, (0, 0), (1, 50), (2, 100), (4, 200), (5, 300)) == [
        "  0% |                           |      0              --:-- ETA",
        " 25% |******                     |     50      50/s    00:03 ETA",
        " 50% |*************              |    100      50/s    00:02 ETA",
        "100% |***************************|    200      50/s    00:00 ETA",
        "100% |***************************|    300      60/s    --:-- ETA",
    ]


def test_a_bar_without_size_goes_to_and_fro() -> None:
    found = lines(None, *((t / 4, t + 1.0) for t in range(8)), width=46)
    assert [re.search(r"\|(.*)\|", line)[1] for line in found] == [  # type: ignore[index]
        "***     ", " ***    ", "  ***   ", "   ***  ", "    *** ", "     ***", "    *** ", "   ***  "
    ]  # fmt: skip
    assert found[-1].endswith("8       5/s    --:-- ETA")


def test_an_unknown_position() -> None:
    assert lines(10, (1, None), width=60) == ["  -% |-----------------|    ----              --:-- ETA"]
    assert lines(None, (1, None), width=50) == ["|------------|    ----              --:-- ETA"]


def test_a_stall_is_said_and_does_not_count() -> None:
    found = lines(100, (1, 10), (4, 10), (7, 10), (11, 20), (12, 30))
    assert [line[-13:].strip() for line in found] == ["00:09 ETA", "00:36 ETA", "- stalled -", "00:04 ETA", "00:04 ETA"]
    assert found[-1].split()[-3] == "15/s", "ten seconds of eleven stood still"


def test_the_end_tells_the_time_it_took() -> None:
    progress = Progress()
    progress.begin(0, 10)
    shown = progress.line(3661 * SECOND, 10, 70, banner="file", ended=True)
    assert shown.startswith("file 100% |*****") and shown.rstrip().endswith("1:01:01")


@pytest.mark.parametrize("width", [1, 5, 20, 40, 79, 2000])
def test_a_line_is_not_longer_than_the_terminal(width: int) -> None:
    for size in (None, 0.0, 7.0):
        for position in (None, 0.0, 3.0, 1e30):
            assert len(lines(size, (1, position), (9, position), width=width)[1]) <= width


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (99_999, "99999"), (100_000, "100.0k"), (23_315_000, "23315k"), (1e9, "1000M"), (3e22, "30000E")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value).strip() == text


def test_times_are_minutes_or_hours() -> None:
    assert [clock(s).strip() for s in (-1, 0, 61)] == ["00:00", "00:00", "01:01"]
    assert [clock(s).strip() for s in (3600, 360_000_000)] == ["1:00:00", "99:00:00"]


# -- the element


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_handlers(vectors: Any) -> None:
    inner = "c :: Counter; InfiniteSource(LIMIT 2) -> c -> Discard; p :: ProgressBar(c.count c.count, c.rate)"
    text = f"{COUNTED} d :: {{ {inner} }};"
    with Router.from_click(text, virtual=True) as router:
        router.run()
        read = router.read
        assert (read("d/p.poshandler"), read("d/p.sizehandler")) == ("d/c.count d/c.count", "d/c.rate")
        assert (read("d/p.pos"), read("d/p.active"), read("d/p.banner")) == ("4", "true", "")
        router.write("d/p.poshandler", "c.count")
        router.write("d/p.sizehandler", "c.byte_count")
        assert (read("d/p.pos"), read("d/p.size")) == ("2", read("d/c.byte_count"))
        router.write("d/p.size", "12.5")
        router.write("d/p.banner", "'a  b'")
        assert (read("d/p.size"), read("d/p.banner")) == ("12.5", "a  b")
        for path, wrong in (("poshandler", "q.count"), ("size", "-1"), ("size", "inf"), ("active", "maybe")):
            with pytest.raises((MezzoError, ValueError)):
                router.write(f"d/p.{path}", wrong)
        assert read("d/p.pos") == "2", "a refused write has changed nothing"


def test_no_number_is_an_unknown_position() -> None:
    with Router.from_click(f"{COUNTED} p :: ProgressBar(c.class);", virtual=True) as router:
        assert (router.read("p.pos"), router.read("p.size")) == ("unknown", "unknown")


def test_it_draws_on_a_terminal() -> None:
    with Router.from_click(f"{COUNTED} p :: ProgressBar(c.count, FIXED_SIZE 10, BANNER up);", virtual=True) as router:
        router.output = Terminal()
        router.write("p.active", "true")
        assert router.run() == "done"
        router.write("p.mark_stopped")
        router.write("p.mark_stopped")
    last = router.output.getvalue().split("\r\x1b[K")[-1]
    assert last.startswith("up  50% |***") and last.endswith("\n") and last.count("\n") == 1


def test_mark_done_is_all() -> None:
    with Router.from_click(f"{COUNTED} p :: ProgressBar(c.count, FIXED_SIZE 10);", virtual=True) as router:
        router.output = Terminal()
        router.run()
        router.write("p.mark_done")
        assert router.output.getvalue().startswith("\r\x1b[K100% |***")
        router.write("p.reset")
        assert router.read("p.size") == "10"
        router.write("p.active", "false")


@pytest.mark.parametrize(
    ("arguments", "trouble"),
    [
        ("", "POSHANDLER is missing"),
        ('""', "names no handler"),
        ("q.count", "there is no element `q`"),
        ("c.dance", "`c` has no handler `dance` that can be read"),
        ("c.reset", "`c` has no handler `reset` that can be read"),
        ("nothing", "there is no global handler `nothing`"),
        ("c.count, FIXED_SIZE -1", "a number, 0 or more"),
    ],
)
def test_troubles(arguments: str, trouble: str) -> None:
    with pytest.raises(MezzoError, match=trouble):
        Router.from_click(f"ProgressBar({arguments}); {COUNTED}")


def on_terminal(text: str, stdout: int) -> bytes:
    """What `click` writes to a terminal that is its standard error."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    code = "import sys; from mezzo.tools.click import main; sys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen([sys.executable, "-c", code, "-e", text], stderr=theirs, stdout=stdout or theirs)
    os.close(theirs)
    found = b""
    try:
        while data := os.read(ours, 4096):
            found += data
    except OSError:  # the other side is closed
        pass
    assert child.wait(20) == 0
    os.close(ours)
    return found


@pytest.mark.slow
def test_a_real_terminal_sees_a_line_that_is_written_over() -> None:
    text = "RatedSource(RATE 100, LIMIT 20, STOP true) -> c :: Counter -> Discard; ProgressBar(c.count, UPDATE 50ms"
    pictures = on_terminal(f"{text}, FIXED_SIZE 20);", subprocess.DEVNULL).decode().split("\r\x1b[K")
    assert pictures[0] == "" and len(pictures) >= 3
    assert pictures[-1].startswith("100% |****") and pictures[-1].endswith("\r\n")
    assert all(len(p.rstrip()) < 70 and "\n" not in p for p in pictures[1:-1])
    assert on_terminal(f"{text}, CHECK_STDOUT true);", 0) == b""
    assert on_terminal(f"{text}, ACTIVE false);", subprocess.DEVNULL) == b""
    assert on_terminal(f"{text}, DELAY 10s);", subprocess.DEVNULL) == b""


def test_it_never_draws_on_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    with Router.from_click(f"{COUNTED} p :: ProgressBar(c.count, FIXED_SIZE 10);") as router:
        router.run()
        router.write("p.mark_done")
        assert router.elements["p"].ticker is None, "there is no thread either"
    assert capfd.readouterr() == ("", "")
