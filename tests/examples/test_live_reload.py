"""The live router changes its configuration under traffic between two namespaces, and its ports stay open."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.examples.test_live_router import EXAMPLE, host, veths
from tests.ports import netlab

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]
RELOADS = 12
PINGS = 3000


def mezzo(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mezzo.tools.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def variants(folder: Path) -> list[Path]:
    """The router as it is, and with a filter and a longer queue."""
    text = EXAMPLE.read_text()
    other = text.replace(
        "-> check ::", "-> MarkIPHeader -> filter :: IPFilter(deny icmp type 13, allow all) -> check ::"
    )
    other = other.replace("Queue(1000)", "Queue(1500)")
    assert other.count("IPFilter") == 1 and "Queue(1500)" in other
    found = [folder / "plain.click", folder / "other.click"]
    for file, content in zip(found, (text, other), strict=True):
        file.write_text(content)
    return found


@pytest.mark.parametrize("method", ["XDP", "PACKET"])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_packet_is_lost_by_reloads(method: str, threads: int, tmp_path: Path) -> None:
    control = str(tmp_path / "control")
    with ExitStack() as stack:
        left, middle, right = (stack.enter_context(netlab.namespace()) for _ in range(3))
        devices, words = veths(stack, left, middle, right)
        said = (tmp_path / "said").open("w+")
        more = [f"METHOD={method}", "-R", "-u", control, "-j", str(threads)]
        router = stack.enter_context(
            netlab.mezzo_in(middle, "run", str(EXAMPLE), *words, *more, stdout=said, stderr=said)
        )
        host(left, devices[0], "18.26.4.2", "18.26.4.24", 1500)
        host(right, devices[1], "18.26.7.2", "18.26.7.1", 1400)

        def is_up() -> bool:
            assert router.poll() is None, Path(said.name).read_text()
            return bool(netlab.run_in(left, ["ping", "-c1", "-W1", "18.26.7.2"], check=False).returncode == 0)

        netlab.wait_until(is_up, 60)
        files = variants(tmp_path)
        flood = ["ping", "-q", "-i0.002", f"-c{PINGS}", "-W2", "18.26.7.2"]
        with netlab.started_in(left, flood, stdout=subprocess.PIPE, text=True) as ping:
            blackouts = [reloaded(control, files[(n + 1) % 2]) for n in range(RELOADS)]
            told: Any = ping.communicate(timeout=60)[0]
        assert f"{PINGS} packets transmitted, {PINGS} received" in told, told
        assert mezzo("read", control, "conservation").stdout.rstrip().endswith("every frame is accounted for")
        assert sorted(blackouts)[RELOADS // 2] < 20, "milliseconds; the figure itself is bench/reload.py's"


def reloaded(control: str, file: Path) -> float:
    done = mezzo("reload", control, str(file))
    assert done.returncode == 0, done.stderr
    assert "lost" not in done.stdout and "reopened" not in done.stdout, done.stdout
    found = re.search(r"blackout ([0-9.]+) ms", done.stdout)
    assert found is not None
    print(done.stdout, end="")
    return float(found[1])


@pytest.mark.parametrize("threads", [1, 2])
def test_what_runs_in_the_kernel_may_change(threads: int, tmp_path: Path) -> None:
    """From native code into the kernel and back, and counters go on."""
    control = str(tmp_path / "control")
    with ExitStack() as stack:
        left, middle, right = (stack.enter_context(netlab.namespace()) for _ in range(3))
        one, other = (stack.enter_context(netlab.veth_pair(ns, middle)) for ns in (left, right))
        way = "FromDevice({}, METHOD XDP, PROMISC true) -> {} :: Counter -> Queue -> ToDevice({}, METHOD XDP);"
        graph = way.format(one.b.name, "there", other.b.name) + way.format(other.b.name, "back", one.b.name)
        files = {level: tmp_path / f"{level}.click" for level in ("native", "auto")}
        for level, file in files.items():
            file.write_text(f"Place(* {level}); {graph}")
        said = (tmp_path / "said").open("w+")
        words = ["run", str(files["native"]), "-R", "-u", control, "-j", str(threads)]
        router = stack.enter_context(netlab.mezzo_in(middle, *words, stdout=said, stderr=said))
        for ns, pair, address in ((left, one, "10.9.0.1/24"), (right, other, "10.9.0.2/24")):
            netlab.ip("address", "add", address, "dev", pair.a.name, ns=ns)
            netlab.ip("link", "set", pair.a.name, "up", ns=ns)

        def pings(count: int) -> bool:
            assert router.poll() is None, Path(said.name).read_text()
            return (
                f" {count} received"
                in netlab.run_in(left, ["ping", f"-c{count}", "-i0.01", "-W1", "10.9.0.2"], check=False).stdout
            )

        netlab.wait_until(lambda: pings(1), 60)
        counted = 0
        for level in ("auto", "native", "auto"):
            done = mezzo("reload", control, str(files[level]))
            assert done.returncode == 0 and "reopened" in done.stdout, done.stderr
            placed = mezzo("read", control, "levels").stdout
            assert ("\tkernel\t" in placed) == (level == "auto"), placed
            netlab.wait_until(lambda: pings(5), 30)
            now = int(mezzo("read", control, "there.count").stdout)
            assert now >= counted + 5
            counted = now
        assert mezzo("read", control, "conservation").stdout.rstrip().endswith("every frame is accounted for")
