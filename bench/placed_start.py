"""From the start of `mezzo run --place auto` to the first packet that the live IP router forwards: seconds.

The router of `examples/ip-router-live.click` between two veths, its fast path in the kernel.  A host sends a frame
every half millisecond: the first that comes out at the other side, rewritten, ends the time.  Cold is with an empty
cache, cached with that of a run before.  `cpu_s` is what the process and its children that ended took
until then, and `load` the machine's when it began.  Needs root.
"""

from __future__ import annotations

import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import report
from tests.ports import netlab

from mezzo.wire.checksum import internet_checksum

STANDARD = Path(__file__).resolve().parent.parent / "examples" / "ip-router-live.click"
RUNS, COLD_GOAL, CACHED_GOAL = 5, 2.0, 0.5
EVERY_S, PATIENCE_S = 0.0005, 60
TICK = os.sysconf("SC_CLK_TCK")
MARK = b"placed_start"


@dataclass
class Lab:
    """Where the router is to run, and the sockets at both hosts."""

    middle: str
    devices: tuple[str, str]
    sender: socket.socket
    frame: bytes
    hearer: socket.socket


@contextmanager
def lab() -> Iterator[Lab]:
    with ExitStack() as stack:
        left, middle, right = (stack.enter_context(netlab.namespace()) for _ in range(3))
        a, b = (stack.enter_context(netlab.veth_pair(host, middle)) for host in (left, right))
        netlab.ip("address", "add", "18.26.7.2/24", "dev", b.a.name, ns=right)  # who answers to ARP
        sender, hearer = (stack.enter_context(netlab.raw_socket(pair.a)) for pair in (a, b))
        yield Lab(middle, (a.b.name, b.b.name), sender, frame(a.b.mac_bytes, a.a.mac_bytes), hearer)


def frame(to: bytes, source: bytes) -> bytes:
    """UDP from 18.26.4.2 to 18.26.7.2, by the router."""
    payload = struct.pack("!HHHH", 9, 9, 8 + len(MARK), 0) + MARK
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, 17, 0)
    head += bytes((18, 26, 4, 2, 18, 26, 7, 2))
    summed = head[:10] + struct.pack("!H", internet_checksum(head)) + head[12:]
    return to + source + b"\x08\x00" + summed + payload


def started(there: Lab, cache: str) -> tuple[float, float]:
    """(wall, CPU) seconds from the start of the process to the first packet that came through."""
    variables = [f"DEV{n}={device}" for n, device in enumerate(there.devices)]
    words = [*netlab.MEZZO, "run", "-q", "--place", "auto", str(STANDARD), *variables, "METHOD=XDP"]
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/mezzo-bench"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    while select.select([there.hearer], [], [], 0)[0]:
        there.hearer.recv(2048)
    with netlab.inside(there.middle):
        begun = time.perf_counter()
        process = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
    try:
        wait_for_packet(there, process, begun + PATIENCE_S)
        return time.perf_counter() - begun, cpu_of(process.pid)
    finally:
        process.terminate()
        process.wait()


def wait_for_packet(there: Lab, process: subprocess.Popen[bytes], end: float) -> None:
    while True:
        there.sender.send(there.frame)
        if select.select([there.hearer], [], [], EVERY_S)[0] and MARK in there.hearer.recv(2048):
            return
        if process.poll() is not None or time.perf_counter() > end:
            raise SystemExit("placed_start: the router forwarded nothing")


def cpu_of(pid: int) -> float:
    """User and system time of all threads, and of children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICK


def cold(there: Lab) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as cache:
        return started(there, cache)


def measured(name: str, once: Callable[[], tuple[float, float]], goal: float) -> None:
    load = os.getloadavg()[0]
    runs = [once() for _ in range(RUNS)]
    cpu = statistics.median(spent for _, spent in runs)
    report(name, "s", [wall for wall, _ in runs], goal, cpu_s=round(cpu, 3), load=round(load, 2))


def main() -> None:
    with lab() as there, tempfile.TemporaryDirectory() as cache:
        cold(there)  # writes the byte code
        measured("placed_start cold", partial(cold, there), COLD_GOAL)
        started(there, cache)
        measured("placed_start cached", partial(started, there, cache), CACHED_GOAL)


if __name__ == "__main__":
    main()
