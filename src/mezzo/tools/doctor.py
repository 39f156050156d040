"""says what this machine offers to mezzo, and for each thing that is missing one way to get it

Nothing here is needed for the python and native targets but Python and llvmlite; the rest is for tests, for later
targets, and for speed.  Exit status 1 only where something needed is missing.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280}
CLONE_NEWNET = 0x4000_0000


@dataclass(frozen=True)
class Finding:
    """`fix` says how to get what is not there; `needed`: mezzo does not work without it."""

    name: str
    found: bool
    detail: str
    use: str
    fix: str = ""
    needed: bool = False


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the findings as JSON")


def main(args: argparse.Namespace) -> int:
    findings = [f for check in CHECKS for f in check()]
    if args.json:
        print(json.dumps([asdict(f) for f in findings], indent=2))
    else:
        for f in findings:
            print(line(f))
    return 1 if any(f.needed and not f.found for f in findings) else 0


def line(f: Finding) -> str:
    mark = "ok     " if f.found else "MISSING" if f.needed else "missing"
    head = f"{mark}  {f.name:<20} {f.detail}"
    return head if f.found else f"{head}\n         for {f.use}: {f.fix}"


# -- the checks, each a row or a few


def check_python() -> Iterator[Finding]:
    yield Finding(
        "python",
        sys.version_info >= (3, 11),
        platform.python_version(),
        "everything",
        "install Python 3.11 or newer",
        True,
    )


def check_packages() -> Iterator[Finding]:
    for name, use, needed in (
        ("llvmlite", "the native target", True),
        ("numpy", "large tables and capture indexes", True),
        ("pytest", "the tests", False),
        ("hypothesis", "the tests", False),
        ("scapy", "the tests' independent packets", False),
        ("dpkt", "the tests' independent packets", False),
    ):
        found = importlib.util.find_spec(name) is not None
        fix = f"pip install {name}" if needed else "pip install '.[test]'"
        yield Finding(name, found, metadata.version(name) if found else "", use, fix, needed)


def check_cpu() -> Iterator[Finding]:
    model = next(
        (x.split(":", 1)[1].strip() for x in _lines("/proc/cpuinfo") if x.startswith("model name")), platform.machine()
    )
    yield Finding("cpu", True, f"{model}, {len(os.sched_getaffinity(0))} usable", "everything")


def check_llvm() -> Iterator[Finding]:
    if importlib.util.find_spec("llvmlite") is None:
        return
    import llvmlite.binding as llvm

    yield Finding(
        "llvm",
        True,
        f"{'.'.join(map(str, llvm.llvm_version_info))} for {llvm.get_host_cpu_name()}",
        "the native target",
    )
    llvm.initialize_all_targets()
    try:
        llvm.Target.from_triple("bpfel")
        bpf = True
    except RuntimeError:
        bpf = False
    yield Finding(
        "llvm bpf", bpf, "LLVM's BPF back end" if bpf else "", "XDP programs", "use the llvmlite wheel from PyPI"
    )


def check_memory() -> Iterator[Finding]:
    try:
        os.close(os.memfd_create("mezzo-doctor"))
        made = True
    except (OSError, AttributeError):
        made = False
    yield Finding(
        "memfd", made, "shared memory for packets" if made else "", "packets", "use Linux 3.17 or newer", True
    )
    huge = next((int(x.split()[1]) for x in _lines("/proc/meminfo") if x.startswith("HugePages_Total")), 0)
    fix = "sysctl vm.nr_hugepages=64 (as root)"
    yield Finding("huge pages", huge > 0, f"{huge} reserved" if huge else "", "fewer TLB misses", fix)


def check_cache() -> Iterator[Finding]:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mezzo"
    there = next(p for p in (folder, *folder.parents) if os.path.exists(p))  # Path.exists raises where it may not look
    usable = os.access(there, os.W_OK)
    yield Finding(
        "code cache", usable, str(folder), "quick starts", "set XDG_CACHE_HOME to a folder that you may write"
    )


def check_kernel() -> Iterator[Finding]:
    root = os.geteuid() == 0
    yield Finding("root", root, "" if not root else "uid 0", "real interfaces and their tests", "run it as root")
    spaces = can_unshare(CLONE_NEWNET)
    fix = "run it as root, or set sysctl kernel.unprivileged_userns_clone=1"
    yield Finding("network namespaces", spaces, "can be made" if spaces else "", "tests with hosts of their own", fix)
    bpf = can_bpf()
    yield Finding(
        "bpf system call",
        bpf,
        "XDP programs can be loaded" if bpf else "",
        "the kernel target",
        "run it as root, on Linux 5.10 or newer",
    )


def check_ports() -> Iterator[Finding]:
    from mezzo.tools import _doctor_ports

    yield from (Finding(*row) for row in _doctor_ports.rows())


def can_unshare(flags: int) -> bool:
    """Tries in a child, which the namespace dies with."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        os._exit(0 if libc.unshare(flags) == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def can_bpf() -> bool:
    """Makes and closes a small array map (command 0 of bpf(2))."""
    number = BPF_SYSCALL.get(platform.machine())
    if number is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    array_map, key, value, entries = 2, 4, 4, 1
    attributes = (ctypes.c_uint32 * 32)(array_map, key, value, entries)
    fd = libc.syscall(number, 0, attributes, ctypes.sizeof(attributes))
    if fd >= 0:
        os.close(fd)
    return bool(fd >= 0)


def check_commands() -> Iterator[Finding]:
    for name, package, use in (
        ("tshark", "tshark", "tests against an independent reader"),
        ("ip", "iproute2", "tests with network namespaces"),
        ("ping", "iputils-ping", "tests with real traffic"),
        ("tcpdump", "tcpdump", "recording traffic"),
        ("iperf3", "iperf3", "recording traffic"),
        ("curl", "curl", "recording traffic"),
        ("ethtool", "ethtool", "recording traffic"),
    ):
        place = shutil.which(name)
        yield Finding(name, place is not None, place or "", use, f"apt-get install {package} (as root)")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python, check_packages, check_cpu, check_llvm, check_memory, check_cache, check_kernel, check_ports,
    check_commands,
)  # fmt: skip


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
