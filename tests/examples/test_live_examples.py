"""The bridge, the firewall, the shaper and the mirror on real interfaces, by XDP and by packet sockets."""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.ports import netlab

pytestmark = [pytest.mark.slow, pytest.mark.needs_root]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
METHODS = pytest.mark.parametrize("method", ["XDP", "PACKET", "XDP, what can be in the kernel"])


@contextmanager
def between(count: int, config: str, names: str, method: str, *words: str) -> Iterator[list[str]]:
    """Namespaces with the addresses 10.5.0.1, 10.5.0.2, …, each on one of the example's interfaces NAMES."""
    with ExitStack() as stack:
        middle = stack.enter_context(netlab.namespace())
        hosts = [stack.enter_context(netlab.namespace()) for _ in range(count)]
        pairs = [stack.enter_context(netlab.veth_pair(host, middle)) for host in hosts]
        for number, pair in enumerate(pairs, 1):
            netlab.ip("address", "add", f"10.5.0.{number}/24", "dev", pair.a.name, ns=pair.a.ns)
        devices = [f"{name}={pair.b.name}" for name, pair in zip(names.split(), pairs, strict=True)]
        method, _, below = method.partition(", ")
        place = ["--place", "auto"] if below else []
        command = ["run", *place, str(EXAMPLES / config), *devices, f"METHOD={method}", *words]
        process = stack.enter_context(netlab.mezzo_in(middle, *command))

        def is_up() -> bool:
            assert process.poll() is None, process.communicate()
            return answers(hosts[0], "10.5.0.2")

        netlab.wait_until(is_up, 60)
        yield hosts
        assert process.poll() is None, process.communicate()


def answers(ns: str, address: str, *words: str) -> bool:
    return netlab.run_in(ns, ["ping", "-n", "-c1", "-W1", *words, address], check=False).returncode == 0


@METHODS
def test_the_bridge(method: str) -> None:
    """Four hosts reach each other, by VLAN too; what is for one of them the others do not see."""
    with between(4, "bridge.click", "A B C D", method) as hosts:
        for number, host in enumerate(hosts, 1):
            for other in range(1, 5):
                assert other == number or answers(host, f"10.5.0.{other}"), (number, other)
        assert tag_seen(hosts[0], hosts[2]) == 7
        with netlab.inside(hosts[3]):
            ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        with ear:
            ear.setblocking(False)
            netlab.run_in(hosts[0], ["ping", "-n", "-c3", "-i0.01", "10.5.0.2"])
            with pytest.raises(BlockingIOError):
                ear.recv(100)


def packet_socket(ns: str) -> tuple[socket.socket, bytes]:
    """A socket for whole frames on the one interface of a namespace, and the interface's address."""
    with netlab.inside(ns):
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        made.bind((next(name for _, name in socket.if_nameindex() if name != "lo"), 3))
    return made, made.getsockname()[4]


def tag_seen(here: str, there: str) -> int:
    """The VLAN that a frame of VLAN 7 has when it arrives; the kernel tells a tag beside the data."""
    (mouth, source), (ear, target) = packet_socket(here), packet_socket(there)
    with mouth, ear:
        ear.settimeout(5)
        ear.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA
        mouth.send(target + source + b"\x81\0\0\x07\x88\xb5" + b"tagged" * 10)
        while True:
            data, beside, *_ = ear.recvmsg(2000, 100)
            if data[12:20] == b"\x88\xb5tagged":
                return int(struct.unpack("IIIHHHH", beside[0][2])[5])


@contextmanager
def serving(ns: str, port: int) -> Iterator[None]:
    """A TCP server that says hello."""
    with netlab.inside(ns):
        server = socket.create_server(("", port))
    with server:
        yield


def connects(ns: str, address: str, port: int) -> bool:
    with netlab.inside(ns):
        asker = socket.socket()
    with asker:
        asker.settimeout(0.4)
        return asker.connect_ex((address, port)) == 0


@METHODS
def test_the_firewall(method: str) -> None:
    """From the inside everything; from the outside answers, pings and the ports that are open."""
    with between(2, "firewall.click", "INSIDE OUTSIDE", method) as (inside, outside):
        assert answers(outside, "10.5.0.1")
        with serving(outside, 4444), serving(inside, 80), serving(inside, 4444):
            assert connects(inside, "10.5.0.2", 4444)
            assert connects(outside, "10.5.0.1", 80)
            assert not connects(outside, "10.5.0.1", 4444)
        assert not answers(outside, "10.5.0.1", "-s", "3000")  # fragments


@METHODS
def test_the_shaper(method: str) -> None:
    """20 ms there and back, and 2 Mbit take a second at 2 Mbit/s."""
    with between(2, "shaper.click", "NEAR FAR", method, "UP=2Mbps", "DOWN=50Mbps", "DELAY=10ms") as (near, far):
        text = netlab.run_in(near, ["ping", "-n", "-c3", "-i0.05", "10.5.0.2"]).stdout
        fastest = float(text.rsplit("= ", 1)[1].split("/")[0])
        assert 20 <= fastest < 40
        with netlab.inside(far), socket.create_server(("", 5000)) as server, netlab.inside(near):
            sender = socket.create_connection(("10.5.0.2", 5000), 5)
            receiver = server.accept()[0]
        with sender, receiver:
            begun = time.monotonic()
            threading.Thread(target=sender.sendall, args=(bytes(250_000),), daemon=True).start()
            got = 0
            while got < 250_000:
                got += len(receiver.recv(1 << 16))
            took = time.monotonic() - begun
        assert took > 0.9


@pytest.mark.parametrize("method", ["XDP", "PACKET"])
def test_the_mirror(method: str) -> None:
    with netlab.namespace() as host, netlab.namespace() as glass, netlab.veth_pair(host, glass) as pair:
        netlab.ip("address", "add", "10.5.0.1/24", "dev", pair.a.name, ns=host)
        netlab.ip("neigh", "add", "10.5.0.2", "lladdr", pair.b.mac, "dev", pair.a.name, ns=host)
        words = [sys.executable, str(EXAMPLES / "mirror.py"), pair.b.name, "--method", method]
        with netlab.started_in(glass, words) as process:
            assert process.stdout.readline() == f"mirroring on {pair.b.name}\n"  # type: ignore[union-attr]
            with netlab.inside(host):
                speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with speaker:
                speaker.connect(("10.5.0.2", 7))
                speaker.settimeout(5)
                for number in range(20):
                    speaker.send(b"mirror %d" % number)
                    assert speaker.recv(100) == b"mirror %d" % number
            process.terminate()
            said, trouble = process.communicate(timeout=10)
    assert trouble == ""
    assert "20 datagrams turned round" in said


def test_the_door() -> None:
    """In XDP alone: who is on the list gets no answer, others that of the host."""
    with netlab.namespace() as host, netlab.namespace() as inner, netlab.veth_pair(host, inner, net="10.5.0") as pair:
        netlab.ip("address", "add", "10.5.0.7/24", "dev", pair.a.name, ns=host)
        words = [sys.executable, str(EXAMPLES / "fastpath.py"), pair.b.name, "10.5.0.7"]
        with netlab.started_in(inner, words) as process:
            assert process.stdout.readline().startswith("2 in the kernel, 1 in the kernel for")  # type: ignore[union-attr]
            netlab.wait_until(lambda: answers(host, "10.5.0.2"))
            assert not answers(host, "10.5.0.2", "-I", "10.5.0.7")
            assert answers(host, "10.5.0.2", "-I", "10.5.0.1")
            process.terminate()
            said, trouble = process.communicate(timeout=10)
    assert (said, trouble) == ("{('door', 'blocked'): 1}\n", "")
