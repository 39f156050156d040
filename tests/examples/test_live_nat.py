"""The NAT box on real interfaces: two hosts inside, a gateway and a server outside that know nothing of the inside."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ports import netlab

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "nat.click"
US, FAR, GATEWAY = "1.0.0.1", "9.9.9.9", "1.0.0.254"


@dataclass
class Lab:
    """Hosts a (192.168.1.2) and b (.3), the gateway, and the far server."""

    a: str
    b: str
    gateway: str
    far: str
    middle: str
    socket: Path
    router: subprocess.Popen[str]

    def flows(self) -> str:
        return str(netlab.run_in("", [*netlab.MEZZO, "read", str(self.socket), "nat.mappings"]).stdout)


def address(ns: str, device: str, ip: str, router: str = "") -> None:
    netlab.ip("address", "add", f"{ip}/24", "dev", device, ns=ns)
    if router:
        netlab.ip("route", "add", "default", "via", router, ns=ns)


@contextmanager
def standing(method: str, folder: Path) -> Iterator[Lab]:
    with ExitStack() as stack:
        a, b, lan, middle, gateway, far = (stack.enter_context(netlab.namespace()) for _ in range(6))
        pairs = [(a, lan), (b, lan), (lan, middle), (middle, gateway), (gateway, far)]
        wires = [stack.enter_context(netlab.veth_pair(*ends)) for ends in pairs]
        netlab.ip("link", "add", "name", "br0", "up", "type", "bridge", ns=lan)
        for device in (wires[0].b, wires[1].b, wires[2].a):
            netlab.ip("link", "set", device.name, "master", "br0", ns=lan)
        address(a, wires[0].a.name, "192.168.1.2", "192.168.1.1")
        address(b, wires[1].a.name, "192.168.1.3", "192.168.1.1")
        address(gateway, wires[3].b.name, GATEWAY)
        address(gateway, wires[4].a.name, "9.9.9.1")
        address(far, wires[4].b.name, FAR, "9.9.9.1")
        netlab.sysctl(gateway, "net/ipv4/ip_forward", "1")
        method, _, below = method.partition(", ")
        words = [f"INSIDE={wires[2].b.name}", f"OUTSIDE={wires[3].a.name}", f"METHOD={method}"]
        file = stack.enter_context((folder / "said").open("w"))
        control = folder / "control"
        options = [*(["--place", "auto"] if below else []), "--unix-socket", str(control), str(EXAMPLE)]
        router = stack.enter_context(netlab.mezzo_in(middle, "run", *options, *words, stdout=file, stderr=file))

        def is_up() -> bool:
            assert router.poll() is None, (folder / "said").read_text()
            return ping(a, FAR).returncode == 0

        netlab.wait_until(is_up, 60)
        yield Lab(a, b, gateway, far, middle, control, router)
        assert router.poll() is None, (folder / "said").read_text()


@pytest.fixture(scope="module", params=["XDP", "PACKET", "XDP, what can be in the kernel"])
def lab(request: Any, tmp_path_factory: Any) -> Iterator[Lab]:
    with standing(request.param, tmp_path_factory.mktemp("nat")) as made:
        yield made


def ping(ns: str, *words: str) -> Any:
    return netlab.run_in(ns, ["ping", "-n", "-c1", "-W1", *words], check=False)


@contextmanager
def web(ns: str, folder: Path, port: int) -> Iterator[None]:
    serve = ["python3", "-m", "http.server", "-d", str(folder), str(port)]
    with netlab.started_in(ns, serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        netlab.wait_until(lambda: f":{port}" in netlab.run_in(ns, ["ss", "-tln"]).stdout)
        yield


def curl(ns: str, url: str) -> str:
    return str(netlab.run_in(ns, ["curl", "-sS", "--max-time", "20", url]).stdout)


def test_pings_of_both_hosts(lab: Lab) -> None:
    for host in (lab.a, lab.b):
        for target in (FAR, GATEWAY, "192.168.1.1", US):
            assert ping(host, "-e", "7", target).returncode == 0, target
        assert ping(host, "-s", "4000", FAR).returncode == 0
    assert ping(lab.far, US).returncode == 0


def test_traceroute(lab: Lab) -> None:
    for way in (["-I"], ["-U", "-p", "33434"], ["-T", "-p", "1"]):
        lines = netlab.run_in(lab.a, ["traceroute", *way, "-n", "-q1", "-w2", FAR]).stdout.splitlines()[1:]
        assert [line.split()[1] for line in lines] == ["192.168.1.1", GATEWAY, FAR], way


def test_the_web(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("mezzo\n" * 50_000)
    with web(lab.far, tmp_path, 8000):
        for host in (lab.a, lab.b):
            assert curl(host, f"http://{FAR}:8000/page") == "mezzo\n" * 50_000
    assert f"9.9.9.9, 8000) => ({US}," in lab.flows()


def test_the_server_inside_from_both_sides(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "page").write_text("from the inside\n")
    with web(lab.a, tmp_path, 80):
        for host in (lab.far, lab.b, lab.a):
            assert curl(host, f"http://{US}/page") == "from the inside\n"


def test_iperf3(lab: Lab) -> None:
    for more in (["-n", "20M"], ["-n", "20M", "-R"], ["-u", "-b", "20M", "-n", "1M"]):
        with netlab.started_in(lab.far, ["iperf3", "-s", "-1"]):
            netlab.wait_until(lambda: ":5201" in netlab.run_in(lab.far, ["ss", "-tln"]).stdout)
            end = json.loads(netlab.run_in(lab.b, ["iperf3", "-J", "-c", FAR, *more]).stdout)["end"]
        if "-u" in more:
            assert end["sum"]["lost_percent"] < 5
        else:
            assert end["sum_received"]["bytes"] > 15e6


def answering(server: socket.socket, count: int) -> None:
    for _ in range(count):
        data, who = server.recvfrom(65535)
        server.sendto(data[::-1], who)


def udp_socket(ns: str, ip: str, port: int) -> socket.socket:
    with netlab.inside(ns):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((ip, port))
    made.settimeout(5)
    return made


def test_questions_by_udp_long_ones_too(lab: Lab) -> None:
    """Both hosts ask from one port, as resolvers may; 4000 bytes go in three pieces."""
    server = udp_socket(lab.far, FAR, 53)
    hosts = [udp_socket(lab.a, "192.168.1.2", 5353), udp_socket(lab.b, "192.168.1.3", 5353)]
    questions = [b"who is mezzo" * n for n in (1, 330)]
    thread = threading.Thread(target=answering, args=(server, 4))
    thread.start()
    for question in questions:
        for host in hosts:
            host.sendto(question, (FAR, 53))
        assert [host.recv(65535) for host in hosts] == [question[::-1]] * 2
    thread.join()
    for each in (server, *hosts):
        each.close()


def test_a_closed_port_is_told(lab: Lab) -> None:
    with udp_socket(lab.a, "192.168.1.2", 5400) as asker:
        asker.connect((FAR, 9))
        asker.send(b"anybody?")
        with pytest.raises(ConnectionRefusedError):
            asker.recv(100)
