"""The standard router between two namespaces, by each kind of port: what people do with a network.

Offloads are as Linux has them by default.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ports import netlab

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ip-router-live.click"
MACS = ("02:00:00:00:aa:01", "02:00:00:00:aa:02")
SMALL_MTU = 1400
SIZE = 100 << 20


@dataclass
class Lab:
    """Hosts left (18.26.4.2) and right (18.26.7.2, behind an MTU of 1400), and the router between them."""

    method: str
    left: str
    middle: str
    right: str
    devices: tuple[str, str]  # of the hosts
    router: subprocess.Popen[str]

    def ping(self, ns: str, *words: str) -> Any:
        return netlab.run_in(ns, ["ping", "-n", "-c1", "-W1", *words], check=False)


def host(ns: str, device: str, address: str, router: str, mtu: int) -> None:
    netlab.ip("link", "set", device, "mtu", str(mtu), "up", ns=ns)
    netlab.ip("address", "add", f"{address}/24", "dev", device, ns=ns)
    netlab.ip("route", "add", "default", "via", router, ns=ns)


def veths(stack: ExitStack, left: str, middle: str, right: str) -> tuple[tuple[str, str], list[str]]:
    """Links to both hosts; (devices of the hosts, variables of the router)."""
    a = stack.enter_context(netlab.veth_pair(left, middle))
    b = stack.enter_context(netlab.veth_pair(right, middle, mtu=SMALL_MTU))
    return (a.a.name, b.a.name), [f"DEV0={a.b.name}", f"DEV1={b.b.name}"]


def is_there(ns: str, device: str) -> bool:
    """Made, and up: nobody is at work on it any more."""
    words = ["ip", "-n", ns, "-o", "link", "show", "up", "dev", device]
    return device in subprocess.run(words, capture_output=True, check=False, text=True).stdout


@contextmanager
def standing(method: str, folder: Path, *options: str) -> Iterator[Lab]:
    """The router runs; what it says is in the file `said` of the folder."""
    said = folder / "said"
    with ExitStack() as stack:
        left, middle, right = (stack.enter_context(netlab.namespace()) for _ in range(3))
        if method == "TAP":
            devices = netlab.unique("t"), netlab.unique("t")
            words = [f"DEV{i}={name}" for i, name in enumerate(devices)] + [f"MAC{i}={m}" for i, m in enumerate(MACS)]
        else:
            devices, words = veths(stack, left, middle, right)
        file = stack.enter_context(said.open("w"))
        words = [*options, str(EXAMPLE), *words, f"METHOD={method}", f"MTU1={SMALL_MTU}"]
        router = stack.enter_context(netlab.mezzo_in(middle, "run", *words, stdout=file, stderr=file))
        if method == "TAP":
            netlab.wait_until(lambda: all(is_there(middle, device) for device in devices), 60)
            for ns, device in zip((left, right), devices, strict=True):
                netlab.ip("link", "set", device, "netns", ns, ns=middle)
        host(left, devices[0], "18.26.4.2", "18.26.4.24", 1500)
        host(right, devices[1], "18.26.7.2", "18.26.7.1", SMALL_MTU)
        made = Lab(method, left, middle, right, devices, router)

        def is_up() -> bool:
            assert router.poll() is None, said.read_text()
            return made.ping(left, "18.26.7.2").returncode == 0

        netlab.wait_until(is_up, 60)
        yield made


@pytest.fixture(scope="module", params=["XDP", "PACKET", "TAP"])
def lab(request: Any, tmp_path_factory: Any) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("live")
    with standing(request.param, folder) as made:
        yield made
        assert made.router.poll() is None, (folder / "said").read_text()


def test_ping(lab: Lab) -> None:
    for ns, targets in ((lab.left, ("18.26.4.24", "18.26.7.1", "18.26.7.2")), (lab.right, ("18.26.7.1", "18.26.4.2"))):
        for target in targets:
            assert lab.ping(ns, target).returncode == 0, target
    big = netlab.run_in(lab.left, ["ping", "-n", "-c3", "-i0.01", "-W1", "-s3000", "18.26.7.2"])
    assert "3 received" in big.stdout


def test_traceroute(lab: Lab) -> None:
    lines = netlab.run_in(lab.left, ["traceroute", "-n", "-q1", "-w2", "18.26.7.2"]).stdout.splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["18.26.4.24", "18.26.7.2"]


def test_the_path_mtu_is_found(lab: Lab) -> None:
    first = lab.ping(lab.left, "-M", "do", "-s", str(SMALL_MTU), "18.26.7.2")
    assert f"mtu = {SMALL_MTU}" in first.stdout + first.stderr
    assert f"mtu {SMALL_MTU}" in netlab.ip("route", "get", "18.26.7.2", ns=lab.left)
    assert lab.ping(lab.left, "-M", "do", "-s", str(SMALL_MTU - 28), "18.26.7.2").returncode == 0


def iperf3(lab: Lab, *words: str) -> Any:
    """The summary of one measurement from left to right (-R: back)."""
    with netlab.started_in(lab.right, ["iperf3", "-s", "-1"]):
        netlab.wait_until(lambda: ":5201" in netlab.run_in(lab.right, ["ss", "-tln"]).stdout)
        return json.loads(netlab.run_in(lab.left, ["iperf3", "-J", "-c", "18.26.7.2", *words]).stdout)["end"]


def arrived(capture: Path, device_ip: str, more: str = "") -> list[str]:
    """The IP packets that came for a host, as tshark describes them; `more` is a further filter."""
    checks = [w for p in ("ip", "tcp", "udp") for w in ("-o", f"{p}.check_checksum:TRUE")]
    words = ["tshark", "-n", "-r", str(capture), *checks, "-Y", f"ip.dst == {device_ip}{more}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


def test_checksums_are_whole(lab: Lab, tmp_path: Path) -> None:
    """tcpdump at both hosts, while TCP and UDP go both ways."""
    files = [tmp_path / "left.pcap", tmp_path / "right.pcap"]
    with ExitStack() as stack:
        dumps = []
        for ns, device, file in zip((lab.left, lab.right), lab.devices, files, strict=True):
            words = ["tcpdump", "-Z", "root", "-n", "-U", "-s", "0", "-i", device, "-w", str(file), "ip"]
            dumps.append(stack.enter_context(netlab.started_in(ns, words)))
            netlab.wait_until(lambda f=file: f.exists() and f.stat().st_size >= 24)
        for more in (["-n", "2M"], ["-n", "2M", "-R"], ["-u", "-b", "20M", "-n", "200K"]):
            iperf3(lab, *more)
        for dump in dumps:
            dump.terminate()
            dump.wait(10)
    for file, address in zip(files, ("18.26.4.2", "18.26.7.2"), strict=True):
        assert len(arrived(file, address)) > 200
        wrong = " || ".join(f"{p}.checksum.status == 0" for p in ("ip", "tcp", "udp", "icmp"))
        assert arrived(file, address, f" && ({wrong})") == []


def test_a_download_of_100_MB(lab: Lab, tmp_path: Path) -> None:
    data = hashlib.sha256(b"mezzo").digest() * (1 << 15)
    with (tmp_path / "big").open("wb") as file:
        for _ in range(SIZE // len(data)):
            file.write(data)
    serve = ["python3", "-m", "http.server", "-d", str(tmp_path), "8000"]
    with netlab.started_in(lab.right, serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        netlab.wait_until(lambda: ":8000" in netlab.run_in(lab.right, ["ss", "-tln"]).stdout)
        words = ["curl", "-sS", "--max-time", "120", "-o", str(tmp_path / "got"), "http://18.26.7.2:8000/big"]
        netlab.run_in(lab.left, words, timeout=130)
    assert (tmp_path / "got").stat().st_size == SIZE
    digests = [hashlib.file_digest((tmp_path / name).open("rb"), "sha256").digest() for name in ("big", "got")]
    assert digests[0] == digests[1]


def test_Jo01_iperf3(lab: Lab) -> None:
    """TCP both ways and UDP."""
    for more in (["-t1"], ["-t1", "-R"]):
        assert iperf3(lab, *more)["sum_received"]["bits_per_second"] > 100e6
    summary = iperf3(lab, "-u", "-b", "50M", "-t1")["sum"]
    assert summary["packets"] > 1000
    assert summary["lost_percent"] < 5
