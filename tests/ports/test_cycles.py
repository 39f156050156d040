"""Nothing grows however often ports are opened and closed: descriptors, threads, processes, mounts, memory, programs.

MEZZO_CYCLES says how often, where a run may take longer than tests usually do.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import bpf
from mezzo.ports import netmap
from mezzo.runtime import Router
from tests.ports.netlab import Pair, inside, namespace, veth_pair, wait_until
from tests.ports.netmap_client import kernel_side

pytestmark = pytest.mark.slow
CYCLES = int(os.environ.get("MEZZO_CYCLES", "20"))
LITTLE = 3 << 20  # bytes that Python's own memory may vary by
FORWARD = "f :: FromDevice({a}, METHOD {how}, {more}) -> Queue -> t :: ToDevice({b}, METHOD {how});"
WIRES = {
    "XDP": ("{name}", "{name}", "PROMISC true, MTU 1400"),
    "PACKET": ("{name}", "{name}", "PROMISC true, SNIFFER false, TPACKET 3"),
    "TAP": ("cycles0", "cycles0", "BURST 8"),
    "FD": ("{fd}", "{fd}", "BURST 8"),
    "PIPE": ("cycles{pid}{{", "cycles{pid}}}", "BURST 8"),
    "SWITCH": ("cycles{pid}:a", "cycles{pid}:b", "BURST 8"),
    "NETMAP": ("eth0", "eth1", "BURST 8"),
    "MEMORY": ("m", "m", "TRACE {folder}/t.pcap, FAULT drop 1"),
    "PCAP": ("{folder}/in.pcap", "{folder}/out.pcap", "BURST 8"),
}
ROOTED = ("XDP", "PACKET", "TAP")
Counts = dict[str, int]


def there() -> Counts:
    """What this process has; what is free goes back to the kernel before."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    me = Path("/proc/self")
    return {
        "descriptors": len(os.listdir(me / "fd")),
        "threads": len(os.listdir(me / "task")),
        "processes": len((me / "task" / str(os.getpid()) / "children").read_text().split()),
        "mounts": sum(f"/mz{os.getpid()}x" in line for line in (me / "mountinfo").read_text().splitlines()),
        "mappings": sum("/" in line for line in (me / "maps").read_text().splitlines()),
        "bytes": int((me / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"),
    }


def once(text: str) -> set[int]:
    """Opens, runs a little, closes; the numbers of programs that it had."""
    with Router.from_click(text, frames=256) as router:
        router.run(rounds=4)
        return {int(number) for number in re.findall(r"mezzo_xsk, id (\d+)", router.read("f.port"))}


def grown(cycle: Callable[[], set[int]], cycles: int) -> tuple[Counts, set[int]]:
    """What there is more at the end than after half of the cycles, when all has been made that is made once."""
    programs: set[int] = set()
    for _ in range(cycles // 2):
        cycle()
    before = there()
    for _ in range(cycles - cycles // 2):
        programs |= cycle()
    after = there()
    return {name: after[name] - n for name, n in before.items()}, programs


@pytest.fixture
def laboratory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A configuration with both ends of a method, where it can run."""
    method = request.param
    with ExitStack() as stack:
        words: dict[str, Any] = {"pid": os.getpid(), "folder": tmp_path}
        if method in ROOTED:
            pair: Pair = request.getfixturevalue("pair")
            words["name"] = pair.a.name
            stack.enter_context(inside(pair.a.ns))
        if method == "FD":
            ends = [stack.enter_context(x) for x in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)]
            words["fd"] = ends[0].fileno()
        if method == "NETMAP":
            kernel = stack.enter_context(contextmanager(kernel_side)("double"))
            kernel.add_nic("eth0")
            kernel.add_nic("eth1")
            monkeypatch.setattr(netmap.Port, "system", kernel)
        capture = Path(__file__).parents[2] / "examples" / "captures" / "eth0-in.pcap"
        (tmp_path / "in.pcap").write_bytes(capture.read_bytes())
        a, b, more = (part.format(**words) for part in WIRES[method])
        yield FORWARD.format(a=a, b=b, more=more, how=method)


@pytest.mark.parametrize(
    "laboratory", [pytest.param(m, marks=pytest.mark.needs_root if m in ROOTED else ()) for m in WIRES], indirect=True
)
def test_nothing_grows_with_open_and_close(laboratory: str) -> None:
    more, programs = grown(lambda: once(laboratory), CYCLES)
    assert more.pop("bytes") < LITTLE
    assert not any(more.values()), more
    if "METHOD XDP" in laboratory:
        assert len(programs) == CYCLES - CYCLES // 2
        wait_until(lambda: not programs & set(bpf.program_ids()))
        assert not any(link.program in programs for link in bpf.links())


@pytest.mark.needs_root
def test_jo02_networks_are_made_used_and_closed() -> None:
    """Namespaces, a wire between them, and a router that changes both ends of it."""

    def network() -> set[int]:
        with namespace() as a, namespace() as b, veth_pair(a, b) as made, inside(a):
            return once(FORWARD.format(a=made.a.name, b=made.a.name, more="MTU 1400", how="XDP"))

    more, _ = grown(network, CYCLES)
    assert more.pop("bytes") < LITTLE
    assert not any(more.values()), more
