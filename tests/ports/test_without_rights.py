"""`mezzo run` as a user without rights: what it says, and that it runs behind mezzo-open."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from tests.ports import unprivileged
from tests.ports.netlab import inside, raw_socket
from tests.ports.test_privileged import helper

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

RUN = (
    "import sys\nfrom mezzo.tools.main import main\nstatus = main(['run', '--frames', '2048', *sys.argv[1:]])\n"
    "from mezzo.ports import _capabilities\n"
    "print('caps', _capabilities.effective() & ~4, 'no new', _capabilities.no_new_privileges())\nsys.exit(status)\n"
)
XDP = "an XDP program needs CAP_NET_RAW and CAP_NET_ADMIN and CAP_BPF,"


def run(ns: str, *words: str) -> Any:
    """On the python target, which has nothing to compile."""
    with inside(ns):
        return unprivileged.python(RUN, "--target", "python", *words)


@contextmanager
def running(ns: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    argv = unprivileged.argv([sys.executable, "-c", RUN, *words])
    with inside(ns):
        process = subprocess.Popen(
            argv, cwd=unprivileged.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={"XDG_CACHE_HOME": "/nonexistent", "PATH": "/usr/bin:/usr/sbin"},
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("config", "device", "needs"),
    [
        ("FromDevice({}, METHOD PACKET) -> Discard", "", "a packet socket needs CAP_NET_RAW,"),
        ("FromDevice({}, METHOD XDP) -> Discard", "", XDP),
        ("FromDevice({}) -> Discard", "", "needs CAP_NET_RAW"),  # by XDP, or PACKET where little memory may be pinned
        ("Idle -> ToDevice({}, METHOD PACKET)", "", "a packet socket needs CAP_NET_RAW,"),
        ("KernelTap(10.9.0.1/24) -> Discard", "'tap*'", "a tap device needs CAP_NET_ADMIN,"),
    ],
)
def test_what_is_missing_is_said_at_its_place(pair, config, device, needs):
    done = run(pair.a.ns, "-e", config.format(pair.a.name))
    assert done.returncode == 1
    first, *_, last = done.stderr.splitlines()
    assert first.startswith("expression:1:") and needs in first and first.endswith("which this process has not")
    assert f"sudo mezzo-open --install /usr/local/bin/mezzo-open --devices {device or pair.a.name} " in last
    assert "Traceback" not in done.stderr and "EPERM" not in done.stderr


@pytest.mark.parametrize("method", ["PACKET", "XDP"])
def test_packets_arrive_and_leave_without_a_right(pair, method):
    config = f"FromDevice({pair.a.name}, METHOD {method}) -> EtherMirror -> Queue -> " + (
        f"ToDevice({pair.a.name}, METHOD {method}) -> Counter(COUNT_CALL 3 stop) -> Discard"
    )
    frame = pair.a.mac_bytes + pair.b.mac_bytes + b"\x88\xb5" + bytes(50)
    with helper(pair, "--devices", pair.a.name) as path, raw_socket(pair.b) as other:
        other.settimeout(0.05)
        with running(pair.a.ns, "-e", config, "--open", path, "--time", "20", "-q") as process:
            answers = []
            while process.poll() is None:
                other.send(frame)
                try:
                    answers.append(other.recv(100))
                except TimeoutError:
                    continue
            out, err = process.communicate()
        with suppress(TimeoutError):
            while True:
                answers.append(other.recv(100))
    assert (process.returncode, out, err) == (0, "caps 0 no new True\n", "")
    assert pair.b.mac_bytes + frame[:6] + frame[12:] in answers


def test_a_tap_of_the_host_without_a_right(pair):
    with helper(pair, "--devices", "tap*") as path:
        config = "KernelTap(10.9.0.1/24, GATEWAY 10.9.0.2) -> Discard; DriverManager(stop)"
        done = run("", "-e", config, "--open", path, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "caps 0 no new True\n", "")


def test_the_kernels_level_without_a_right(pair):
    """Maps and programs by mezzo-open too; what does not go to the other wire comes up."""
    config = (
        f"f :: FromDevice({pair.a.name}, METHOD XDP) -> c :: Classifier(12/88b5, -) -> EtherMirror -> Queue"
        f"-> t :: ToDevice({pair.a.name}, METHOD XDP); c[1] -> Strip(14) -> Counter(COUNT_CALL 3 stop) -> Discard"
    )
    frame = pair.a.mac_bytes + pair.b.mac_bytes + b"\x88\xb5" + bytes(50)
    read = [w for name in ("f.risen", "t.count") for w in ("--handlers", name)]
    words = ["-e", config, "--place", "auto", "--time", "20", "-q", *read]
    with ExitStack() as stack:
        path, other = (
            stack.enter_context(helper(pair, "--devices", pair.a.name)),
            stack.enter_context(raw_socket(pair.b)),
        )
        process = stack.enter_context(running(pair.a.ns, *words, "--open", path))
        other.settimeout(0.05)
        answers = []
        while len(answers) < 3:
            other.send(frame)
            with suppress(TimeoutError):
                answers.append(other.recv(100))
            assert process.poll() is None
        while process.poll() is None:
            other.send(frame.replace(b"\x88\xb5", b"\x88\xb6"))
            time.sleep(0.01)
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    told = re.fullmatch(r"f.risen:\n(\d+)\nt.count:\n(\d+)\ncaps 0 no new True\n", out)
    assert told is not None and min(map(int, told.groups())) >= 3  # more came where the third was seen late


def test_packets_go_back_to_the_kernels_level_without_a_right(pair):
    """What runs programs on packets, and sends these, needs none."""
    config = (
        f"f :: FromDevice({pair.a.name}, METHOD XDP) -> c :: Classifier(12/88b5, -) -> slow :: Counter"
        f" -> back :: Reinject -> EtherMirror -> Queue -> t :: ToDevice({pair.a.name}, METHOD XDP); c[1] -> Discard"
    )
    frame = pair.a.mac_bytes + pair.b.mac_bytes + b"\x88\xb5" + bytes(50)
    read = [w for name in ("back.injected", "t.count") for w in ("--handlers", name)]
    words = ["-e", config, "--place", "*=kernel?", "--place", "slow=native", "--place-order", "loose", "-q", *read]
    with ExitStack() as stack:
        path, other = (
            stack.enter_context(helper(pair, "--devices", pair.a.name)),
            stack.enter_context(raw_socket(pair.b)),
        )
        process = stack.enter_context(running(pair.a.ns, *words, "--time", "4", "--open", path))
        other.settimeout(0.05)
        answers = []
        while len(answers) < 3:
            other.send(frame)
            with suppress(TimeoutError):
                answers.append(other.recv(100))
            assert process.poll() is None, process.communicate()
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    told = re.fullmatch(r"back.injected:\n(\d+)\nt.count:\n(\d+)\ncaps 0 no new True\n", out)
    assert told is not None and told[1] == told[2] and int(told[1]) >= 3


def test_the_right_that_the_kernels_level_needs_beside_is_said(pair):
    config = f"FromDevice({pair.a.name}, METHOD XDP) -> Discard"
    capabilities = ("net_raw", "net_admin", "bpf")
    with inside(pair.a.ns):
        done = unprivileged.python(RUN, "-e", config, "--place", "auto", capabilities=capabilities)
    assert done.returncode == 1
    assert f"{pair.a.name}: the kernel's level needs CAP_PERFMON, which this process has not" in done.stderr
    assert "sudo mezzo-open --install" in done.stderr
