"""Routers that end, and disks that are full, while clients are connected."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mezzo.runtime.router import run_all
from tests.ports.netlab import MEZZO, wait_until
from tests.runtime.controlled import Talker

RUN = [*MEZZO, "run", "-q"]
CLICK = [sys.executable, "-m", "mezzo.tools.click"]
BUSY = "InfiniteSource -> c :: Counter -> q :: Queue -> Unqueue -> Discard;"
IDLE = "Idle -> c :: Counter -> q :: Queue -> Discard;"
UNFINISHED = (b"WRITEDATA q.capacity 100\n5", b"READ flatconfig\n" * 2000, b"WRITE q.capacity 5\n" * 100)


@contextlib.contextmanager
def started(argv: list[str], file: Path) -> Iterator[subprocess.Popen[str]]:
    """A router in a process of its own, from when its socket is there."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: file.exists() or process.poll() is not None, 20)
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
@pytest.mark.parametrize("program, text", [(RUN, BUSY), (RUN, IDLE), (CLICK, BUSY)], ids=["busy", "idle", "click"])
def test_a_signal_while_clients_are_connected(tmp_path, number, program, text):
    file = tmp_path / "s"
    with started([*program, "-e", text, "-u", str(file)], file) as process, contextlib.ExitStack() as stack:
        talkers = [stack.enter_context(Talker(str(file))) for _ in range(20)]
        for k, talker in enumerate(talkers):
            assert talker.greet().ask("READ c.class") == (200, b"Counter")
            # One waits for the rest of its command, one takes no answers, one is in the middle of many.
            talker.send(
                [b"WRITEDATA q.capacity 100\n5", b"READ flatconfig\n" * 2000, b"WRITE q.capacity 5\n" * 100][k % 3]
            )
        process.send_signal(number)
        assert process.wait(20) == 0, process.communicate()
        for talker in talkers:
            with contextlib.suppress(ConnectionResetError):
                talker.rest()
        assert "Traceback" not in process.communicate()[1]
    assert not file.exists()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
@pytest.mark.parametrize("wait_s", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_a_signal_while_the_router_starts(tmp_path, wait_s, number):
    file = tmp_path / "s"
    argv = [*RUN, "-e", BUSY, "-u", str(file)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
        process.send_signal(number)
        try:
            process.wait(20)
        finally:
            process.kill()
        assert process.returncode in (0, 128 + number, -number)
    assert not file.exists()


STARTS = """import os, sys
from mezzo.runtime.control import Control
number, opened = int(sys.argv.pop()), Control.open
def interrupted(*given):
    opened(*given)
    os.kill(os.getpid(), number)
Control.open = interrupted
from mezzo.tools import {0}
sys.exit({0}.main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
@pytest.mark.parametrize("program, words", [("main", ["run", "-q"]), ("click", [])])
def test_a_signal_between_opening_and_running(tmp_path, number, program, words):
    file, text = tmp_path / "s", f"ControlSocket(UNIX, {tmp_path}/s); {IDLE}"
    argv = [sys.executable, "-c", STARTS.format(program), *words, "-e", text, str(int(number))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert done.returncode == 128 + number and "Traceback" not in done.stderr
    assert not file.exists()


def test_what_a_router_has_is_closed_though_its_end_is_interrupted():
    done: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(lambda: done.append("a"), interrupted, lambda: done.append("b"))
    assert done == ["a", "b"]


@pytest.mark.slow
@pytest.mark.needs_root
def test_a_disk_that_is_full_ends_the_dump_and_not_the_router(tmp_path):
    file, disk = tmp_path / "s", tmp_path / "disk"
    disk.mkdir()
    text = f"RatedSource(RATE 2000) -> d :: ToDump({disk}/x.pcap, SNAPLEN 0) -> c :: Counter -> Discard;"
    run = " ".join([*RUN, "-u", str(file), "-e", f"'{text}'"])
    shell = f"mount -t tmpfs -o size=64k none {disk} && {run}"
    with started(["unshare", "-m", "sh", "-c", shell], file) as process, Talker(str(file)) as talker:
        talker.greet()
        wait_until(lambda: int(talker.ask("READ d.lost")[1]) > 0, 20)
        written, passed = int(talker.ask("READ d.count")[1]), int(talker.ask("READ c.count")[1])
        wait_until(lambda: int(talker.ask("READ c.count")[1]) > passed, 20)
        assert 0 < written == int(talker.ask("READ d.count")[1]) < 64 << 10
        assert talker.ask("WRITE stop")[0] == 200
        said = process.communicate(timeout=20)[1]
        assert process.returncode == 1 and said.count("No space left on device") == 1


def test_a_child_does_not_inherit_control(tmp_path):
    """What a router starts (a script's command, a helper) cannot keep its sockets open."""
    file = tmp_path / "s"
    with started([*RUN, "-e", IDLE, "-u", str(file)], file) as process:
        held = Path(f"/proc/{process.pid}/fd")
        sockets = [fd for fd in held.iterdir() if fd.readlink().name.startswith("socket:")]
        flags = [(Path(f"/proc/{process.pid}/fdinfo") / fd.name).read_text() for fd in sockets]
        assert flags and all(int(f.split("flags:")[1].split()[0], 8) & 0o2000000 for f in flags)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(file))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
