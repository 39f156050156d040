"""A laboratory of network namespaces: every piece is a context manager, and nothing of it stays behind.

    with namespace() as left, namespace() as right, veth_pair(left, right, net="10.7.0") as pair:
        run_in(left, ["ping", "-c1", "-W2", "10.7.0.2"])
        with started_in(right, ["iperf3", "-s", "-1"]) as server: ...
        with inside(left): sock = socket.socket(...)      # this thread, until the block ends

Names hold the number of the process (`mz<pid>x<n>`), so runs at the same time do not meet; what a killed run left is
removed by the next one.  Namespaces are silent (no IPv6 unless asked for), so a test sees only packets that it sent.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mezzo.ports._netns import inside as _inside

NAMESPACES = Path("/run/netns")
MEZZO = [sys.executable, "-m", "mezzo"]
_numbers = itertools.count()


@dataclass(frozen=True)
class End:
    """One end of a veth pair: its namespace ("" for the one the test runs in), name and addresses."""

    ns: str
    name: str
    mac: str
    ip: str = ""
    ip6: str = ""

    @property
    def mac_bytes(self) -> bytes:
        return bytes.fromhex(self.mac.replace(":", ""))


@dataclass(frozen=True)
class Pair:
    a: End
    b: End


def usable() -> str:
    """Why the laboratory does not work here; empty when it does."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip (apt-get install iproute2)"
    return _try()


@cache
def _try() -> str:
    try:
        with namespace():
            return ""
    except subprocess.CalledProcessError as trouble:
        return f"network namespaces cannot be made here: {trouble.stderr.strip()}"


def unique(hint: str = "") -> str:
    """A name for a namespace or an interface that no other process uses; at most 15 characters."""
    return f"mz{os.getpid()}x{next(_numbers)}{hint}"[:15]


def ip(*words: str, ns: str = "") -> str:
    """`ip WORDS` in a namespace; what it printed.  A failure raises with what it said."""
    where = ["-n", ns] if ns else []
    done = subprocess.run(["ip", *where, *words], capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout, done.stderr)
    return done.stdout


@contextmanager
def namespace(name: str = "", *, ipv6: bool = False) -> Iterator[str]:
    """A network namespace with its loopback up; gives its name."""
    _remove_stale()
    name = name or unique()
    ip("netns", "add", name)
    try:
        ip("link", "set", "lo", "up", ns=name)
        if not ipv6:
            sysctl(name, "net/ipv6/conf/all/disable_ipv6", "1")
            sysctl(name, "net/ipv6/conf/default/disable_ipv6", "1")
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False, timeout=30)


def sysctl(ns: str, key: str, value: str) -> None:
    """Sets `/proc/sys/KEY` in a namespace; a key that this kernel has not got is left alone."""
    with inside(ns):
        file = Path("/proc/sys") / key
        if file.exists():
            file.write_text(value)


@contextmanager
def veth_pair(
    ns_a: str,
    ns_b: str,
    *,
    names: tuple[str, str] | None = None,
    net: str = "",
    net6: str = "",
    mtu: int = 0,
    queues: int = 1,
) -> Iterator[Pair]:
    """A veth pair, one end in each namespace (or "" for here), both up.

    `net="10.7.0"` gives the ends 10.7.0.1/24 and 10.7.0.2/24, `net6="fd00"` fd00::1/64 and fd00::2/64.  Offloads are
    the kernel's defaults.
    """
    name_a, name_b = names or (unique("a"), unique("b"))
    number = next(_numbers)
    macs = [f"02:{os.getpid() & 0xFF:02x}:{number >> 8 & 0xFF:02x}:{number & 0xFF:02x}:00:0{k}" for k in (1, 2)]
    ends = [
        End(ns, name, mac, f"{net}.{k}" if net else "", f"{net6}::{k}" if net6 else "")
        for k, (ns, name, mac) in enumerate(zip((ns_a, ns_b), (name_a, name_b), macs, strict=True), 1)
    ]
    _make_pair(ends, queues)
    try:
        for end in ends:
            _set_up(end, mtu)
        yield Pair(*ends)
    finally:
        where = ["-n", ns_a] if ns_a else []
        subprocess.run(["ip", *where, "link", "del", name_a], capture_output=True, check=False, timeout=30)


def _make_pair(ends: Sequence[End], queues: int) -> None:
    counts = ["numtxqueues", str(queues), "numrxqueues", str(queues)]
    here = [["netns", e.ns] if e.ns else [] for e in ends]
    a, b = ends
    ip(
        *["link", "add", a.name, "address", a.mac, *counts, *here[0], "type", "veth"],
        *["peer", "name", b.name, "address", b.mac, *counts, *here[1]],
    )


def _set_up(end: End, mtu: int) -> None:
    if mtu:
        ip("link", "set", end.name, "mtu", str(mtu), ns=end.ns)
    ip("link", "set", end.name, "up", ns=end.ns)
    if end.ip:
        ip("address", "add", f"{end.ip}/24", "dev", end.name, ns=end.ns)
    if end.ip6:
        ip("address", "add", f"{end.ip6}/64", "dev", end.name, "nodad", ns=end.ns)


@contextmanager
def inside(ns: str) -> Iterator[None]:
    """This thread is in the namespace until the block ends; "" is where it is already."""
    if not ns:
        yield
        return
    with _inside(ns):
        yield


def _argv(ns: str, argv: Sequence[str]) -> list[str]:
    return ["ip", "netns", "exec", ns, *argv] if ns else list(argv)


def run_in(ns: str, argv: Sequence[str], *, check: bool = True, timeout: float = 30, **more: Any) -> Any:
    """Runs a command in a namespace to its end; its output is text in the result."""
    more = {"capture_output": True, "text": True} | more
    done = subprocess.run(_argv(ns, argv), check=False, timeout=timeout, **more)
    assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@contextmanager
def started_in(ns: str, argv: Sequence[str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A command that runs in a namespace while the block does; then it is told to end, and killed if it does not."""
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | more
    process = subprocess.Popen(_argv(ns, argv), **more)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


@contextmanager
def mezzo_in(ns: str, *words: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """`mezzo WORDS` in a namespace while the block runs."""
    with started_in(ns, [*MEZZO, *words], **more) as process:
        yield process


def wait_until(condition: Callable[[], object], seconds: float = 5) -> None:
    """Until something that happens elsewhere has happened; looks often, so a test is no slower than that."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def raw_socket(end: End, *, receive: bool = True) -> socket.socket:
    """A packet socket at one end, which sends and (unless told not to) receives whole frames; close it."""
    with inside(end.ns):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        made.bind((end.name, 3 if receive else 0))  # ETH_P_ALL
    made.settimeout(2)
    return made


def _remove_stale() -> None:
    """Namespaces of test runs that were killed."""
    for path in NAMESPACES.glob("mz*x*") if NAMESPACES.is_dir() else ():
        number = path.name[2:].partition("x")[0]
        if number.isdigit() and not _alive(int(number)):
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True, check=False, timeout=30)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
