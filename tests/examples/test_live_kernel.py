"""The standard router between two namespaces, its fast path in the kernel: the same as without, and who does what."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mezzo.ports import _attach, _ethtool
from mezzo.runtime import Router
from tests.examples.test_live_router import (  # noqa: F401  the same must be true here
    EXAMPLE,
    Lab,
    iperf3,
    standing,
    test_a_download_of_100_MB,
    test_Jo01_iperf3,
    test_ping,
    test_the_path_mtu_is_found,
    test_traceroute,
)
from tests.ports import netlab

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]
PLACE = ("--place", "auto")
FLOOD = 2000
ENDS = ("out0/ToDevice@3", "in0/FromDevice@1", "out1/ToDevice@3", "in1/FromDevice@1")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: Any) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("live")
    with standing("XDP", folder, *PLACE) as made:
        yield made
        assert made.router.poll() is None, (folder / "said").read_text()


def wrong_checksums(ns: str) -> dict[str, int]:
    """What the host's stack found, by protocol: GRO puts TCP together before tcpdump sees it."""
    with netlab.inside(ns):
        lines = [line.split() for line in Path("/proc/thread-self/net/snmp").read_text().splitlines()]
    tables = {
        a[0]: dict(zip(a[1:], map(int, b[1:]), strict=True)) for a, b in zip(lines[::2], lines[1::2], strict=True)
    }
    return {name: tables[f"{name}:"]["InCsumErrors"] for name in ("Icmp", "Tcp", "Udp")}


def test_checksums_are_whole(lab: Lab) -> None:
    for more in (["-n", "2M"], ["-n", "2M", "-R"], ["-u", "-b", "20M", "-n", "200K"], ["-u", "-n", "200K", "-R"]):
        assert iperf3(lab, *more)["sum_received" if "-u" not in more else "sum"]["bytes"] > 100_000
    assert [n for ns in (lab.left, lab.right) for n in wrong_checksums(ns).values()] == [0] * 6


def test_options_are_followed(lab: Lab) -> None:
    """Natively: the route that is recorded has both sides of the router, there and back."""
    text = netlab.run_in(lab.left, ["ping", "-n", "-c1", "-W1", "-R", "18.26.7.2"]).stdout
    route = re.findall(r"18\.26\.\d+\.\d+", text[text.index("RR:") :])
    assert route[:6] == ["18.26.4.2", "18.26.7.1", "18.26.7.2", "18.26.7.2", "18.26.4.24", "18.26.4.2"]


def test_an_expired_packet_is_answered(lab: Lab) -> None:
    assert "From 18.26.4.24 icmp_seq=1 Time to live exceeded" in lab.ping(lab.left, "-t1", "18.26.7.2").stdout


class Control:
    """A control connection (docs/control.md)."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rwb")
        assert self.file.readline().startswith(b"Click::ControlSocket")

    def read(self, name: str) -> int:
        self.ask(f"READ {name}")
        size = int(self.file.readline().split()[1])
        return int(self.file.read(size))

    def write(self, name: str) -> None:
        self.ask(f"WRITE {name}")

    def ask(self, text: str) -> None:
        self.file.write(text.encode() + b"\r\n")
        self.file.flush()
        assert (answer := self.file.readline()).startswith(b"200"), answer


def flood(ns: str, address: str) -> None:
    """UDP, which GRO leaves as it is, to a port where somebody listens to nobody."""
    with netlab.inside(ns):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with sender:
        for _ in range(FLOOD):
            sender.sendto(bytes(1000), (address, 9))


def captures(stack: ExitStack, lab: Lab, folder: Path) -> list[Any]:
    """tcpdump of all frames at both hosts by direction, as ENDS has them."""
    found = []
    for ns, device in zip((lab.left, lab.right), lab.devices, strict=True):
        for way in ("inbound", "outbound"):
            file = folder / f"{device}.{way}"
            words = ["tcpdump", "-Z", "root", "-n", "-U", "-i", device, "-w", str(file), way]
            found.append(stack.enter_context(netlab.started_in(ns, words)))
            netlab.wait_until(lambda f=file: f.exists() and f.stat().st_size >= 24)
    return found


def test_counters_agree_with_tcpdump_and_nearly_nothing_comes_up(tmp_path: Path) -> None:
    with standing("XDP", tmp_path, *PLACE, "-u", str(tmp_path / "control")) as lab, ExitStack() as stack:
        control = Control(tmp_path / "control")
        dumps = captures(stack, lab, tmp_path)
        for end in ENDS:
            control.write(f"{end}.reset_counts")
        above = [control.read(f"{end}.risen") for end in ENDS[1::2]]
        flood(lab.left, "18.26.7.2")
        flood(lab.right, "18.26.4.2")
        netlab.run_in(lab.right, ["ping", "-n", "-c20", "-i0.01", "18.26.4.2"])
        told = {end: control.read(f"{end}.count") for end in ENDS}
        for dump in dumps:
            dump.send_signal(signal.SIGINT)
        ends = [dump.communicate(timeout=10)[1] for dump in dumps]
        seen = [int(n) for text in ends for n in re.findall(r"(\d+) packets received by filter", text)]
        assert told == dict(zip(ENDS, seen, strict=True))
        assert min(told.values()) > FLOOD
        came_up = [control.read(f"{end}.risen") - n for end, n in zip(ENDS[1::2], above, strict=True)]
        assert sum(came_up) < 10, came_up


def test_nothing_is_left_after_kill_9(tmp_path: Path) -> None:
    with standing("XDP", tmp_path, *PLACE) as lab:
        with netlab.inside(lab.middle):
            devices = [index for index, name in socket.if_nameindex() if name != "lo"]
            assert [_attach.attached_to(index)[0].name for index in devices] == [_attach.PROGRAM_NAME] * 2
        assert switches(lab) == [(True, False)] * 2
        lab.router.kill()
        lab.router.wait()
        with netlab.inside(lab.middle):
            netlab.wait_until(lambda: not any(map(_attach.attached_to, devices)))
        netlab.wait_until(lambda: switches(lab) == [(False, True)] * 2)


def switches(lab: Lab) -> list[tuple[bool, bool]]:
    """(GRO, checksums left to the device) at both hosts."""
    found = []
    for ns, device in zip((lab.left, lab.right), lab.devices, strict=True):
        with netlab.inside(ns):
            there = _ethtool.features(device)
        found.append((there["rx-gro"].active, there["tx-checksum-ip-generic"].active))
    return found


@pytest.mark.parametrize(
    ("config", "names", "here"),
    [
        ("firewall.click", "INSIDE OUTSIDE", {"in/filter": "kernel", "out/filter": "kernel", "in/check": "kernel"}),
        ("bridge.click", "A B C D", {"switch": "kernel+native", "a/in": "kernel", "a/out": "kernel"}),
    ],
)
def test_what_other_examples_do_in_the_kernel(config: str, names: str, here: dict[str, str]) -> None:
    """Ping there and back: what the first packets do not know yet comes up, and then nothing."""
    with ExitStack() as stack:
        middle = stack.enter_context(netlab.namespace())
        hosts = [stack.enter_context(netlab.namespace()) for _ in names.split()]
        pairs = [stack.enter_context(netlab.veth_pair(host, middle)) for host in hosts]
        for number, pair in enumerate(pairs, 1):
            netlab.ip("address", "add", f"10.5.0.{number}/24", "dev", pair.a.name, ns=pair.a.ns)
        stack.enter_context(netlab.inside(middle))
        devices = dict(zip(names.split(), (pair.b.name for pair in pairs), strict=True)) | {"METHOD": "XDP"}
        text = (EXAMPLE.parent / config).read_text()
        router = stack.enter_context(Router.from_click(text, config, devices, place="auto"))
        levels = {row.name: row.level for row in router.plan.placement.rows}
        assert {name: levels[name] for name in here} == here
        above = [name for name in router.elements if "FromDevice" in name]

        def risen() -> int:
            return sum(int(router.read(f"{name}.risen")) for name in above)

        ping = ["ip", "netns", "exec", hosts[0], "ping", "-n", "-W1", "-i0.002", "10.5.0.2", "-c"]
        seen = []
        for count in ("5", "100"):
            process = stack.enter_context(netlab.started_in("", [*ping, count]))
            router.run(seconds=10, until=lambda p=process: p.poll() is not None)
            assert f"{count} received" in process.communicate()[0]
            seen.append(risen())
        assert seen[1] - seen[0] <= 2  # ARP may be asked again
