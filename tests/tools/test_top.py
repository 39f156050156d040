"""`mezzo top`: what it computes, its page, and the terminal that it must give back as it was."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl

import pytest

from mezzo.tools import _top, top
from mezzo.tools.main import main
from tests.runtime.controlled import running

TEXT = (
    "ControlSocket(unix, {}); RatedSource(RATE 5000) -> q :: Queue(100) -> u :: Unqueue"
    " -> c :: Counter -> d :: Discard; InfiniteSource(LIMIT 30) -> p :: Queue(10) -> Idle;"
)


def reading(at_s, packets, drops=0, held=0, cpu=0):
    element = {"name": "q", "class": "Queue", "counts": {"count": packets}}
    element |= {"drops": {"full": drops}, "queue": [held, 8]}
    thread = {"thread": 0, "rounds": 5, "sleeps": 0, "cpu_ns": cpu, "task_count": 1, "timer_count": 0}
    now = int(at_s * 1e9)
    data = {"wall_ns": now, "time_ns": now, "elements": [element], "threads": [thread], "ports": []}
    return _top.Reading({**data, "pool": {"frames": 100, "held": held}, "profile": [["q", "Queue", 0.5, 12.0]]}, at_s)


def test_rates_are_differences_by_the_routers_clock():
    row = reading(3, 700, drops=30).rows(reading(1, 500, drops=10))[0]
    assert (row["packet_rate"], row["drop_rate"], row["share"], row["ns"]) == (100, 10, 0.5, 12.0)


def test_a_reset_counter_has_no_negative_rate():
    assert reading(2, 5).rows(reading(1, 500))[0]["packet_rate"] == 0


def test_load_is_the_part_of_the_time_on_a_cpu():
    assert reading(3, 0, cpu=10**9).threads(reading(1, 0))[0]["load"] == 0.5


def test_bars_are_as_long_as_a_queue_is_full():
    assert [_top.filled(x) for x in (0, 0.5, 1, 7)] == ["·" * 20, "█" * 10 + "·" * 10, "█" * 20, "█" * 20]


@pytest.mark.parametrize("width, height", [(80, 24), (20, 5), (1, 1)])
def test_a_page_fits_the_screen(width, height):
    lines = _top.page(reading(2, 5, held=4), reading(1, 5), "time", width, height)
    assert len(lines) <= height and all(len(line) <= width for line in lines)


def test_names_cannot_steer_the_terminal():
    assert _top.cut("a\x1b[2Jb", 80) == "a·[2Jb" and _top.cut("漢字漢字", 5) == "漢字"


@pytest.fixture
def socket_of(tmp_path):
    path = str(tmp_path / "k.sock")
    with running(TEXT.format(path)):
        yield path


def test_once_and_json_of_a_router_that_runs(socket_of, capsys):
    assert main(["top", socket_of, "--once", "--every", "0.05", "--no-profile"]) == 0
    text = capsys.readouterr().out
    assert "c :: Counter" in text and "queue [████████████████████]     10 of 10     p" in text
    assert main(["top", socket_of, "--json", "--every", "0.05", "--no-profile"]) == 0
    rows = {row["element"]: row for row in json.loads(capsys.readouterr().out)["elements"]}
    assert rows["c"]["packets"] > 0 and rows["p"]["queue"] == [10, 10]


def screen_of(path, act):
    """The bytes that a terminal of 60 by 12 got, and its modes before and after."""
    controller, terminal = pty.openpty()
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 60, 0, 0))
    before = termios.tcgetattr(terminal)
    words = [sys.executable, "-m", "mezzo", "top", path, "--every", "0.1", "--no-profile"]
    with subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True) as process:
        out, acted, end = b"", False, time.monotonic() + 20
        written = select.poll()
        written.register(controller, select.POLLIN)
        try:
            while process.poll() is None and time.monotonic() < end:
                if written.poll(100):
                    out += os.read(controller, 65536)
                if not acted and out.count(b"element ") > 1:
                    act(controller, terminal, process)
                    acted = True
            assert process.poll() is not None, f"it did not end: {out[-300:]!r}"
        finally:
            process.kill()
        while written.poll(0):
            out += os.read(controller, 65536)
        after = termios.tcgetattr(terminal)
    os.close(controller)
    os.close(terminal)
    return out, before == after, process.returncode


@pytest.mark.slow
@pytest.mark.parametrize(
    "act, status",
    [
        (lambda c, t, p: os.write(c, b"pdnq"), 0),
        (lambda c, t, p: p.send_signal(signal.SIGINT), 0),
        (lambda c, t, p: p.send_signal(signal.SIGTERM), 143),
    ],
    ids=["q", "interrupt", "terminate"],
)
def test_the_terminal_is_given_back(socket_of, act, status):
    out, same, code = screen_of(socket_of, act)
    assert same and code == status
    assert out.startswith(b"\x1b[?1049h\x1b[?25l") and out.rstrip().endswith(b"\x1b[?25h\x1b[?1049l")


@pytest.mark.slow
def test_another_size_is_drawn_at_once(socket_of):
    def act(controller, terminal, process):
        ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 24, 0, 0))
        process.send_signal(signal.SIGWINCH)
        time.sleep(0.4)
        os.write(controller, b"q")

    out, same, code = screen_of(socket_of, act)
    last = out.rpartition(b"\x1b[H")[2].partition(b"\x1b[?25h")[0].decode()
    lines = last.replace("\x1b[K", "").replace("\x1b[J", "").split("\r\n")
    assert same and code == 0 and len(lines) <= 5 and all(len(line) <= 24 for line in lines)


@pytest.mark.slow
def test_a_suspended_screen_is_given_back_and_taken_again(socket_of):
    def act(controller, terminal, process):
        process.send_signal(signal.SIGTSTP)
        time.sleep(0.3)
        os.write(controller, b"q")

    out, same, code = screen_of(socket_of, act)
    assert same and code == 0
    assert out.count(b"\x1b[?1049h") == out.count(b"\x1b[?1049l") == 2


def test_without_a_router_it_says_so(tmp_path, capsys):
    assert main(["top", str(tmp_path / "none.sock")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_keys_are_those_of_its_help():
    assert set(top.KEYS.values()) == set(_top.ORDER)
