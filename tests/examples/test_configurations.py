"""The configurations that use Click's idioms, over captures and between namespaces, with real programs at the ends.

Each is started as a user starts it, and asked through its control socket.  Bridge, firewall and shaper are tested in
test_live_examples.py.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap

from tests.ports import netlab

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
DEMO = EXAMPLES / "captures" / "demo-traffic.pcap"
ECT0 = 2
pytestmark = pytest.mark.slow
live = pytest.mark.needs_root
with_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")


@dataclass
class Running:
    """An example that runs; its control socket is a file."""

    process: subprocess.Popen[str]
    control: Path

    def read(self, handler: str) -> str:
        return str(netlab.run_in("", [*netlab.MEZZO, "read", str(self.control), handler]).stdout.strip())

    def number(self, handler: str) -> int:
        return int(self.read(handler))

    def said(self) -> tuple[str, str]:
        """What it wrote to standard output and error when it had ended by itself."""
        out, err = self.process.communicate(timeout=30)
        assert self.process.returncode == 0, err
        return out, err


class Laboratory:
    """Namespaces round the one in the middle, where an example runs."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.stack, self.folder = stack, folder
        self.middle = stack.enter_context(netlab.namespace())
        self.devices: list[str] = []

    def host(self, name: str, address: str = "", mtu: int = 0) -> netlab.End:
        """A host at the example's interface NAME; the end of the wire in its own namespace."""
        space = self.stack.enter_context(netlab.namespace())
        pair = self.stack.enter_context(netlab.veth_pair(space, self.middle, mtu=mtu))
        self.devices.append(f"{name}={pair.b.name}")
        if address:
            netlab.ip("address", "add", address, "dev", pair.a.name, ns=space)
        return pair.a

    def start(self, config: str, *words: str) -> Running:
        control = self.folder / "control"
        command = ["run", "-u", str(control), str(EXAMPLES / config), *self.devices, *words]
        return Running(self.stack.enter_context(netlab.mezzo_in(self.middle, *command)), control)

    def program(self, ns: str, text: str) -> None:
        """A Python program that runs in a namespace from now on; it says `ready` first."""
        words = [sys.executable, "-c", text]
        process = self.stack.enter_context(netlab.started_in(ns, words, cwd=self.folder, stderr=subprocess.DEVNULL))
        assert process.stdout.readline() == "ready\n"  # type: ignore[union-attr]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Laboratory]:
    with ExitStack() as stack:
        yield Laboratory(stack, tmp_path)


def answers(ns: str, address: str, *words: str) -> bool:
    return bool(netlab.run_in(ns, ["ping", "-n", "-c1", "-W1", *words, address], check=False).returncode == 0)


def wait_for(run: Running, condition: Callable[[], object]) -> None:
    def look() -> object:
        assert run.process.poll() is None, run.process.communicate()
        return condition()

    netlab.wait_until(look, 60)


def kernel_counter(ns: str, group: str, name: str) -> int:
    """A counter that Linux keeps for a namespace, such as IpExt InCEPkts."""
    for file in ("/proc/net/snmp", "/proc/net/netstat"):
        rows = [r.split() for r in netlab.run_in(ns, ["cat", file]).stdout.splitlines() if r.startswith(f"{group}:")]
        if rows and name in rows[0]:
            return int(rows[1][rows[0].index(name)])
    raise KeyError(name)


ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
s.bind(("", 7))
print("ready", flush=True)
seen = 0
while True:
    data, who = s.recvfrom(2000)
    seen += 1
    if seen % 10:
        s.sendto(data, who)
"""

SERVE = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = {body}
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("", 80), Handler)
print("ready", flush=True)
server.serve_forever()
"""


@live
def test_traffic(lab: Laboratory) -> None:
    """A server that leaves out every tenth packet: of 1,000 there are 900 back."""
    host = lab.host("DEV", "10.5.0.2/24")
    lab.program(host.ns, ECHO)
    words = ["IP=10.5.0.1", "TO=10.5.0.2", "RATE=2000", "COUNT=1000", "LENGTH=100"]
    out, _ = lab.start("traffic.click", *words).said()
    sent, back, lost = out.splitlines()
    assert sent.startswith("sent 1000 packets, ")
    assert 1500 < float(sent.split()[3]) < 2500
    assert back.startswith("back 900 packets, ")
    assert lost == "lost 100 packets"
    assert kernel_counter(host.ns, "Udp", "InDatagrams") == 1000


@live
def test_traffic_to_nobody(lab: Laboratory) -> None:
    lab.host("DEV", "10.5.0.2/24")
    out, _ = lab.start("traffic.click", "IP=10.5.0.1", "TO=10.5.0.9").said()
    assert out.splitlines()[0] == "nobody has 10.5.0.9"
    assert out.splitlines()[1].startswith("sent 0 packets")


@live
def test_ping(lab: Laboratory) -> None:
    """Linux answers, and counts the same."""
    host = lab.host("DEV", "10.5.0.2/24")
    out, err = lab.start("ping.click", "IP=10.5.0.1", "TO=10.5.0.2", "COUNT=5", "INTERVAL=0.05").said()
    assert out.startswith("5 packets transmitted, 5 received, 0% packet loss\nrtt min/avg/max/mdev = ")
    assert [f"icmp_seq={n} ttl=64" in err for n in range(1, 6)] == [True] * 5
    assert kernel_counter(host.ns, "Icmp", "InEchos") == 5


@live
def test_ping_nobody_and_being_pinged(lab: Laboratory) -> None:
    """Who is not there does not answer; meanwhile the example does."""
    host = lab.host("DEV", "10.5.0.2/24")
    run = lab.start("ping.click", "IP=10.5.0.1", "TO=10.5.0.9", "COUNT=1", "INTERVAL=10")
    wait_for(run, lambda: answers(host.ns, "10.5.0.1"))
    assert run.number("answered.count") >= 1
    netlab.run_in("", [*netlab.MEZZO, "write", str(run.control), "ping.limit", "0"])
    netlab.run_in("", [*netlab.MEZZO, "write", str(run.control), "stop"])
    assert run.said()[0].startswith("0 packets transmitted, 0 received")


@live
def test_ecn(lab: Laboratory) -> None:
    """Nothing is lost, who knows of ECN is told, and who does not is left alone; Linux counts the marks."""
    near, far = lab.host("NEAR", "10.5.0.1/24"), lab.host("FAR", "10.5.0.2/24")
    run = lab.start("ecn.click", "RATE=20Mbps", "MARK=10Mbps", "BURST=10000")
    wait_for(run, lambda: answers(near.ns, "10.5.0.2"))
    assert burst_services(near.ns, far.ns, 0) == {0: 100}
    assert kernel_counter(far.ns, "IpExt", "InCEPkts") == run.number("to_far/marked.count") == 0
    seen = burst_services(near.ns, far.ns, ECT0)
    assert seen[ECT0] + seen[3] == 100
    assert 50 <= seen[3] < 100
    assert kernel_counter(far.ns, "IpExt", "InCEPkts") == run.number("to_far/marked.count") == seen[3]
    for ns in (near.ns, far.ns):
        netlab.sysctl(ns, "net/ipv4/tcp_ecn", "1")
    transfer(near.ns, far.ns, 500_000)
    marks = run.number("to_far/marked.count")
    assert marks > seen[3]
    assert kernel_counter(far.ns, "IpExt", "InCEPkts") == marks
    assert run.number("to_far/waiting.drops") == run.number("to_near/waiting.drops") == 0


def burst_services(here: str, there: str, service: int) -> Counter[int]:
    """How many of 100 datagrams of 1,000 bytes that were sent at once arrive, by their type of service."""
    with netlab.inside(there):
        ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with netlab.inside(here):
        mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with ear, mouth:
        ear.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
        ear.bind(("", 5000))
        ear.settimeout(5)
        mouth.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, service)
        for _ in range(100):
            mouth.sendto(bytes(1000), ("10.5.0.2", 5000))
        return Counter(ear.recvmsg(2000, 100)[1][0][2][0] for _ in range(100))


def transfer(here: str, there: str, size: int) -> None:
    with netlab.inside(there), socket.create_server(("", 5001)) as server, netlab.inside(here):
        sender = socket.create_connection(("10.5.0.2", 5001), 5)
        receiver = server.accept()[0]
    with sender, receiver:
        receiver.settimeout(10)
        with netlab.inside(here):
            sender.setblocking(False)
        left, got = memoryview(bytes(size)), 0
        while got < size:
            if left:
                with suppress(BlockingIOError):
                    left = left[sender.send(left) :]
            got += len(receiver.recv(1 << 16))


@with_tshark
@pytest.mark.parametrize("capture", [DEMO, EXAMPLES / "captures" / "eth1-in.pcap"], ids=lambda p: p.stem)
def test_analyse(capture: Path, tmp_path: Path) -> None:
    """It counts what tshark counts."""
    command = [*netlab.MEZZO, "run", "--quiet", str(EXAMPLES / "analyse.click"), f"FILE={capture}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == report(fields_of(capture))


FIELDS = (
    *("frame.len", "eth.type", "ip.proto", "ip.dst", "ip.len", "ip.frag_offset", "ip.checksum.status", "ip.cur_rt"),
    *("tcp.dstport", "tcp.flags.syn", "tcp.flags.ack", "udp.dstport", "icmp.type"),
)


def fields_of(capture: Path) -> list[dict[str, str]]:
    """What tshark says of each frame; of headers that a packet has twice the outer one."""
    words = ["tshark", "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=f", "-o", "ip.defragment:FALSE"]
    words += ["-o", "ip.check_checksum:TRUE", *(w for name in FIELDS for w in ("-e", name))]
    text = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in text.splitlines()]


YES = ("1", "True")  # tshark's older and newer versions


def report(frames: list[dict[str, str]]) -> str:
    """The example's report, from tshark's fields."""
    types = Counter(int(f["eth.type"] or "0", 16) for f in frames)
    plain = [f for f in frames if f["ip.proto"] and int(f["eth.type"], 16) == 0x800]  # not in VLANs
    good = [f for f in plain if f["ip.checksum.status"] == "1" and int(f["ip.len"]) + 14 <= int(f["frame.len"])]
    tcp, udp, icmp = ([f for f in good if f["ip.proto"] == str(n)] for n in (6, 17, 1))
    opens = [f for f in tcp if f["tcp.flags.syn"] in YES and f["tcp.flags.ack"] not in YES]
    firsts = [f for f in udp if f["ip.frag_offset"] == "0"]
    sizes: Counter[int] = Counter()
    for f in good:
        target = f["ip.cur_rt"] or f["ip.dst"]  # with a source route it calls the last hop the destination
        sizes[int.from_bytes(socket.inet_aton(target), "big")] += int(f["ip.len"])
    lines = [
        f"frames {len(frames)}  bytes {sum(int(f['frame.len']) for f in frames)}",
        f"ip {len(good)}  arp {types.pop(0x806, 0)}  ip6 {types.pop(0x86DD, 0)}"
        f"  other {types.total() - types[0x800]}  bad {types[0x800] - len(good)}",
        f"tcp {len(tcp)}  udp {len(udp)}  icmp {len(icmp)}  rest {len(good) - len(tcp) - len(udp) - len(icmp)}",
        f"tcp connections opened {len(opens)}, by port:",
        *rows(Counter(int(f["tcp.dstport"]) for f in opens)),
        f"udp packets by port, and {len(udp) - len(firsts)} later fragments:",
        *rows(Counter(int(f["udp.dstport"]) for f in firsts)),
        "icmp packets by type:",
        *rows(Counter(int(f["icmp.type"]) for f in icmp if f["icmp.type"])),
        "packets by length, in steps of 256:",
        *rows(Counter(int(f["ip.len"]) >> 8 for f in good)),
        "bytes by destination:",
        *rows(sizes),
    ]
    return "\n".join(lines) + "\n"


def rows(counts: Counter[int]) -> list[str]:
    return [f"{key} {count}" for key, count in sorted(counts.items())]


@live
@with_tshark
def test_dhcp(lab: Laboratory) -> None:
    """A client asks, is offered an address, takes it, and can use it; tshark finds nothing wrong with the answers."""
    host = lab.host("DEV")
    run = lab.start("dhcp.click", "IP=10.5.0.1", f"MAC2={host.mac_bytes.hex()}", "ADDR2=10.5.0.77")
    with netlab.raw_socket(host) as wire:
        wire.settimeout(0.2)
        offers: list[Ether] = []
        wait_for(run, lambda: offers.extend(asked(wire, host.mac_bytes, "discover")) or offers)
        (ack,) = asked(wire, host.mac_bytes, "request")
        assert asked(wire, b"\2\0\0\0\0\x99", "discover") == []
    for reply, kind in ((offers[0], 2), (ack, 5)):
        assert (reply[IP].src, reply[IP].dst) == ("10.5.0.1", "255.255.255.255")
        assert (reply[UDP].sport, reply[UDP].dport) == (67, 68)
        assert (reply[BOOTP].yiaddr, reply[BOOTP].siaddr, reply[BOOTP].xid) == ("10.5.0.77", "10.5.0.1", 0x1234)
        assert dict(o for o in reply[DHCP].options if isinstance(o, tuple)) == {
            "message-type": kind,
            "server_id": "10.5.0.1",
            "lease_time": 3600,
            "subnet_mask": "255.255.255.0",
            "router": "10.5.0.1",
            "name_server": "10.5.0.1",
        }
    wrpcap(f"{lab.folder}/answers.pcap", [offers[0], ack])
    names = "ip.checksum.status udp.checksum.status dhcp.ip.your dhcp.option.dhcp _ws.malformed _ws.expert.severity"
    seen = tshark_fields(lab.folder / "answers.pcap", names)
    assert seen == ["1\t1\t10.5.0.77\t2\t\t", "1\t1\t10.5.0.77\t5\t\t"]
    netlab.ip("address", "add", f"{ack[BOOTP].yiaddr}/24", "dev", host.name, ns=host.ns)
    assert answers(host.ns, "10.5.0.1")
    assert run.number("unknown.count") == 1
    assert run.number("acks.count") == 1


def asked(wire: socket.socket, mac: bytes, kind: str) -> list[Ether]:
    """A client's message by broadcast, and the DHCP replies that come within a while."""
    start = Ether(dst="ff:ff:ff:ff:ff:ff", src=mac) / IP(src="0.0.0.0", dst="255.255.255.255") / UDP(sport=68, dport=67)
    options = [("message-type", kind), ("requested_addr", "10.5.0.77"), ("hostname", b"somebody"), "end"]
    wire.send(bytes(start / BOOTP(chaddr=mac, xid=0x1234, flags=0x8000) / DHCP(options=options)))
    found = []
    try:
        while not found:
            frame = Ether(wire.recv(2000))
            found += [frame] if DHCP in frame and frame[BOOTP].op == 2 else []
    except TimeoutError:
        pass
    return found


def tshark_fields(file: Path, names: str) -> list[str]:
    words = ["tshark", "-n", "-r", str(file), "-T", "fields"]
    words += ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    words += [w for name in names.split() for w in ("-e", name)]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


@live
@with_tshark
def test_tunnel(lab: Laboratory) -> None:
    """Linux is at the other end; packets of the largest size, TCP both ways, and another network that stays apart."""
    lan, wan = lab.host("LAN", "10.9.0.1/24", mtu=1450), lab.host("WAN", "192.0.2.2/24")
    for name, number, address in (("vx0", "42", "10.9.0.2/24"), ("vx1", "43", "10.8.0.2/24")):
        ends = ["local", "192.0.2.2", "remote", "192.0.2.1", "dstport", "4789"]
        netlab.ip("link", "add", name, "type", "vxlan", "id", number, *ends, ns=wan.ns)
        netlab.ip("address", "add", address, "dev", name, ns=wan.ns)
        netlab.ip("link", "set", name, "up", ns=wan.ns)
    lab.program(wan.ns, SERVE.format(body="bytes(range(256)) * 1000"))
    run = lab.start("tunnel.click", "HERE=192.0.2.1", "THERE=192.0.2.2")
    wait_for(run, lambda: answers(lan.ns, "10.9.0.2"))
    assert answers(wan.ns, "192.0.2.1")
    with netlab.raw_socket(wan) as wire:
        assert answers(lan.ns, "10.9.0.2", "-s", "1422", "-M", "do")
        frame = next(f for f in iter(lambda: wire.recv(2000), b"") if len(f) > 1500)
    wrpcap(f"{lab.folder}/outer.pcap", [Ether(frame)])
    assert tshark_fields(lab.folder / "outer.pcap", "vxlan.vni ip.src ip.len icmp.type") == [
        "42\t192.0.2.1,10.9.0.1\t1500,1450\t8"
    ]
    got = netlab.run_in(lan.ns, ["curl", "-sS", "-m", "20", "http://10.9.0.2/"], text=False).stdout
    assert got == bytes(range(256)) * 1000
    assert not answers(wan.ns, "10.8.0.9")
    assert run.number("foreign.count") > 0


@live
def test_balancer(lab: Laboratory) -> None:
    """Nine clients: each stays with one server, and all servers have work."""
    clients = lab.host("CLIENTS", "10.1.0.1/24")
    for number in range(2, 10):
        netlab.ip("address", "add", f"10.1.0.{number}/24", "dev", clients.name, ns=clients.ns)
    for name, number in (("A", 11), ("B", 12), ("C", 13)):
        server = lab.host(name, f"10.2.0.{number}/24")
        netlab.ip("address", "add", "10.1.0.100/32", "dev", "lo", ns=server.ns)
        netlab.ip("route", "add", "default", "via", "10.2.0.1", ns=server.ns)
        lab.program(server.ns, SERVE.format(body=f'b"{name}"'))
    run = lab.start("balancer.click")
    wait_for(run, lambda: answers(clients.ns, "10.1.0.100"))
    for number in range(1, 10):
        words = ["curl", "-sS", "-m", "10", "--interface", f"10.1.0.{number}", "http://10.1.0.100/"]
        assert [netlab.run_in(clients.ns, words).stdout for _ in range(2)] == ["ABC"[(10 + 1 + number) % 3]] * 2
    shares = [run.number(f"to_{name}.count") for name in "abc"]
    assert min(shares) > 20
    assert run.number("back.count") > 60
