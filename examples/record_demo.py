"""Records the demo's traffic between real network stacks, and makes the captures in `captures/`.

    sudo .venv/bin/python examples/record_demo.py

Host A, a Linux router and host B are three network namespaces joined by two veth pairs.  The hosts ping each other,
resolve names, download a file and run iperf3, while tcpdump records on both router interfaces.  Then
* `demo-traffic.pcap` is everything both recordings saw, in order of time (a forwarded packet appears twice);
* `eth0-in.pcap` and `eth1-in.pcap` are what a router in the Linux router's place would receive: the frames the hosts
  sent, with the frames of `recording/crafted.py` merged in;
* `README.md` says how many of each kind there are, as tshark counts them.
Needs root, and ip, ethtool, tcpdump, tshark, ping, curl and iperf3.  Checksum and segmentation offloads are turned
off, because frames must look as they do on a wire.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from recording.crafted import ETH0, ETH1, SIDES, Crafted, Side, arp_replies, crafted
from recording.readme import readme

from mezzo.packet.capture import Record, open_capture
from mezzo.packet.capture_write import CaptureWriter
from mezzo.wire.address import parse_ether

HERE = Path(__file__).resolve().parent
CAPTURES, SERVICES = HERE / "captures", str(HERE / "recording" / "services.py")
A, ROUTER, B = "mezzo-a", "mezzo-r", "mezzo-b"
TOOLS = ("ip", "ethtool", "tcpdump", "tshark", "ping", "curl", "iperf3")
OFFLOADS = ("tx", "rx", "sg", "tso", "gso", "gro")
IPERF_TCP, IPERF_UDP = "96K", "40K"
CRAFTED_GAP_NS = 7_000_000


def main() -> None:
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid() != 0:
        sys.exit(f"needs root and these tools: {' '.join(TOOLS)}" + (f"; missing: {' '.join(missing)}" * bool(missing)))
    with tempfile.TemporaryDirectory() as folder, network():
        recordings = record(Path(folder))
    CAPTURES.mkdir(exist_ok=True)
    write("demo-traffic.pcap", sorted((r for rs in recordings for r in rs), key=lambda r: r.time_ns))
    for device, records in enumerate(recordings):
        arriving = [r for r in records if not sent_by(SIDES[device], r)]
        write(f"eth{device}-in.pcap", merged(arriving, arp_replies(device), crafted(device)))
    (CAPTURES / "README.md").write_text(readme(CAPTURES))


def run(*words: str, namespace: str = "") -> str:
    """Run a command to its end, if wanted inside a namespace; its output."""
    inside = ("ip", "netns", "exec", namespace) if namespace else ()
    return subprocess.run([*inside, *words], check=True, capture_output=True, text=True).stdout


@contextmanager
def network() -> Iterator[None]:
    """The three namespaces, wired and addressed; removed at the end."""
    try:
        for namespace in (A, ROUTER, B):
            run("ip", "netns", "add", namespace)
            # The demo is an IPv4 router; without this each host announces itself by IPv6 at random moments.
            run("sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1", namespace=namespace)
            run("sysctl", "-q", "-w", "net.ipv6.conf.default.disable_ipv6=1", namespace=namespace)
            run("ip", "link", "set", "lo", "up", namespace=namespace)
        run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1", namespace=ROUTER)
        for device, host, side in (("eth0", A, ETH0), ("eth1", B, ETH1)):
            wire(device, host, side)
        yield
    finally:
        for namespace in (A, ROUTER, B):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def wire(device: str, host: str, side: Side) -> None:
    """One veth pair between a host and the router."""
    run("ip", "link", "add", device, "address", side.router_mac, "netns", ROUTER,
        "type", "veth", "peer", "name", "eth0", "address", side.host_mac, "netns", host)  # fmt: skip
    ends = ((ROUTER, device, side.router), (host, "eth0", side.host))
    for namespace, name, address in ends:
        run("ethtool", "-K", name, *(w for o in OFFLOADS for w in (o, "off")), namespace=namespace)
        run("ip", "addr", "add", f"{address}/24", "dev", name, namespace=namespace)
        run("ip", "link", "set", name, "up", namespace=namespace)
    run("ip", "route", "add", "default", "via", side.router, namespace=host)


@contextmanager
def service(namespace: str, *words: str, ready: str, stop: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    """A program that runs until the block ends; the block starts when it has printed `ready`."""
    command = ["ip", "netns", "exec", namespace, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if ready in line:
            break
    else:
        raise RuntimeError(f"{' '.join(command)} ended: {''.join(seen)}")
    try:
        yield
    finally:
        process.send_signal(stop)
        process.communicate(timeout=20)


def record(folder: Path) -> list[list[Record]]:
    """Run the traffic; what tcpdump saw on the router's eth0 and eth1."""
    files = {device: folder / f"{device}.pcap" for device in ("eth0", "eth1")}
    with ExitStack() as stack:
        for device, file in files.items():
            options = ("-i", device, "-s", "0", "-U", "--immediate-mode", "--time-stamp-precision=nano", "-Z", "root")
            dump = ("tcpdump", *options, "-w", str(file))
            stack.enter_context(service(ROUTER, *dump, ready="listening on", stop=signal.SIGINT))
        traffic()
    recordings = []
    for file in files.values():
        with open_capture(file) as capture:
            recordings.append(list(capture.records()))
    return recordings


def traffic() -> None:
    """What the hosts do."""
    for namespace, target in ((A, ETH1.host), (B, ETH0.host), (A, ETH0.router)):
        run("ping", "-nq", "-c", "5", "-i", "0.05", target, namespace=namespace)
    run("ping", "-nq", "-c", "2", "-i", "0.05", "-s", "2000", ETH1.host, namespace=A)
    # Runs out on the way; ping says so by its exit status.
    subprocess.run(["ip", "netns", "exec", A, "ping", "-nq", "-c", "2", "-i", "0.05", "-W", "1", "-t", "1", ETH1.host],
                   check=False, capture_output=True)  # fmt: skip
    with service(B, sys.executable, SERVICES, "names", ready="ready"):
        run(sys.executable, SERVICES, "ask", namespace=A)
    with service(B, sys.executable, SERVICES, "web", ready="ready"):
        run("curl", "-s", "-o", "/dev/null", f"http://{ETH1.host}:80/file", namespace=A)
    with service(B, "iperf3", "-s", "--forceflush", ready="Server listening"):
        run("iperf3", "-c", ETH1.host, "-l", "8K", "-n", IPERF_TCP, namespace=A)
        run("iperf3", "-c", ETH1.host, "-u", "-b", "20M", "-l", "1000", "-n", IPERF_UDP, namespace=A)


def sent_by(side: Side, record: Record) -> bool:
    """Whether the Linux router itself sent the frame on this interface."""
    return record.data[6:12] == parse_ether(side.router_mac).to_bytes(6, "big")


def merged(records: list[Record], first: list[Crafted], others: list[Crafted]) -> list[Record]:
    """The recorded frames and the crafted ones: ARP replies in front, the rest at regular times from the beginning."""
    start = records[0].time_ns
    early = [(start - 1000 * (len(first) - n), c) for n, c in enumerate(first)]
    late = [(start + CRAFTED_GAP_NS * n, c) for n, c in enumerate(others, 1)]
    made = [Record(time_ns, c.frame, len(c.frame), 0) for time_ns, c in early + late]
    return sorted(records + made, key=lambda r: r.time_ns)


def write(name: str, records: Iterable[Record]) -> None:
    """A nanosecond capture in the captures folder."""
    with CaptureWriter(CAPTURES / name, nanosecond=True) as out:
        for record in records:
            out.write(record.time_ns, record.data, record.wire_length)


if __name__ == "__main__":
    main()
