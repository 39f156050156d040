"""The README of the captures: what they hold, counted by tshark and from the list of crafted frames."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from recording.crafted import ETH0, ETH1, Crafted, all_crafted

FILES = ("demo-traffic.pcap", "eth0-in.pcap", "eth1-in.pcap")

# What to count, as a tshark display filter (no commas: they separate the filters of one run).
KINDS = {
    "all frames": "frame",
    "ARP requests": "arp.opcode == 1",
    "ARP replies": "arp.opcode == 2",
    "ICMP echo requests": "icmp.type == 8",
    "ICMP echo replies": "icmp.type == 0",
    "ICMP errors": "icmp.type == 3 || icmp.type == 5 || icmp.type == 11",
    "DNS questions and answers": "dns",
    "HTTP download, TCP port 80": "tcp.port == 80",
    "iperf3, TCP port 5201": "tcp.port == 5201",
    "iperf3, UDP port 5201": "udp.port == 5201",
    "TTL 1 or 0": "ip.ttl <= 1",
    "bad IP checksum": "ip.checksum.status == 0",
    "IP options": "ip.opt.type",
    "fragments": "ip.flags.mf == 1 || ip.frag_offset > 0",
    "for the router itself": "ip.dst == 18.26.4.24 || ip.dst == 18.26.7.1",
    "directed broadcasts": "ip.dst == 18.26.4.255 || ip.dst == 18.26.7.255",
    "longer than 1514 bytes": "frame.len > 1514",
    "shorter than 34 bytes": "frame.len < 34",
    "for another MAC address": "eth.dst == 02:00:12:1a:00:99",
    "VLAN tagged": "vlan",
    "IPv6": "eth.type == 0x86dd",
}

TEXT = """\
# The demo's captures

Real traffic between two Linux hosts and a Linux router, recorded on the router's two interfaces by
`examples/record_demo.py`, which also wrote this page. Times are in nanoseconds, frames are whole, offloads were off.

| file | what it holds |
| --- | --- |
| `demo-traffic.pcap` | everything on both interfaces in order of time; a forwarded packet appears twice |
| `eth0-in.pcap` | what arrives at the router on eth0: the frames sent by host A, and crafted ones |
| `eth1-in.pcap` | what arrives at the router on eth1: the frames sent by host B, and crafted ones |

The network:

| | address | MAC address |
| --- | --- | --- |
{hosts}

The hosts ping each other and the router, ask and answer DNS questions, download a file by HTTP (from B to A), and run
iperf3 over TCP and UDP (from A to B), in a few seconds. The ARP replies of all four hosts stand in front of the input
files, so that a router that resolves addresses by itself learns them.

## Counts

As tshark counts with these display filters (and `-o ip.check_checksum:TRUE`); a frame can be of several kinds.

| kind | filter | {files} |
| --- | --- | {dashes} |
{counts}

## Crafted frames

Each crafted IP packet of eth0 has an identification from 0xC000 up, of eth1 from 0xC100 up. They come at regular times
among the others, in this order; `examples/recording/crafted.py` makes them.

| kind | eth0 | eth1 | what is special |
| --- | --- | --- | --- |
{crafted}
"""


def readme(folder: Path) -> str:
    """The whole page for the captures in a folder."""
    counts = [tshark_counts(folder / name) for name in FILES]
    rows = [f"| {kind} | `{f.replace('||', 'or')}` | {_row(counts, kind)} |" for kind, f in KINDS.items()]
    files = " | ".join(f"`{name}`" for name in FILES)
    return TEXT.format(
        hosts=_hosts(), files=files, dashes=" | ".join("---" for _ in FILES), counts="\n".join(rows), crafted=_crafted()
    )


def tshark_counts(path: Path) -> dict[str, int]:
    """How many frames of each kind a capture has, in one run of tshark."""
    statistics = "io,stat,0," + ",".join(KINDS.values())
    command = ["tshark", "-n", "-q", "-o", "ip.check_checksum:TRUE", "-r", str(path), "-z", statistics]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = next(line for line in output.splitlines() if "<>" in line)
    # The first cell is the interval; then each filter has a number of frames and of bytes.
    numbers = [int(cell) for cell in re.findall(r"\d+", row.split("|", 2)[2])]
    return dict(zip(KINDS, numbers[::2], strict=True))


def _row(counts: list[dict[str, int]], kind: str) -> str:
    return " | ".join(str(count[kind]) for count in counts)


def _hosts() -> str:
    rows = [(f"router, {device}", s.router, s.router_mac) for device, s in (("eth0", ETH0), ("eth1", ETH1))]
    for letter, side in (("A", ETH0), ("B", ETH1)):
        rows += [
            (f"host {letter}", side.host, side.host_mac),
            (f"{letter}'s neighbour", side.neighbour, side.neighbour_mac),
        ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _crafted() -> str:
    sides = [all_crafted(device) for device in (0, 1)]
    counts = [Counter(c.kind for c in side) for side in sides]
    kinds = list(dict.fromkeys(c.kind for c in sides[0]))
    return "\n".join(f"| {kind} | {counts[0][kind]} | {counts[1][kind]} | {_about(sides[0], kind)} |" for kind in kinds)


def _about(side: list[Crafted], kind: str) -> str:
    return "; ".join(dict.fromkeys(c.about for c in side if c.kind == kind))
