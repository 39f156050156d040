"""The demo's captures hold what their README says, and our reader sees what other readers see."""

import shutil
import sys
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.utils import RawPcapReader

from mezzo.packet.capture import open_capture
from mezzo.packet.capture_index import index_capture
from mezzo.wire.dissect import dissect
from mezzo.wire.show import show

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CAPTURES = EXAMPLES / "captures"
sys.path.insert(0, str(EXAMPLES))  # the examples are scripts, not part of the package

from recording import crafted, readme  # noqa: E402

INPUTS = ("eth0-in.pcap", "eth1-in.pcap")
WRONG = {"bad IP checksum", "bad IP header"}
USED_UP = "strict, used up"  # scapy takes the route's last entry for the destination even then


def frames(name: str) -> list[bytes]:
    with open_capture(CAPTURES / name) as capture:
        return [record.data for record in capture.records()]


@pytest.mark.parametrize("name", readme.FILES)
def test_scapy_reads_the_same(name) -> None:
    reader = RawPcapReader(str(CAPTURES / name))
    theirs = [(m.sec * 10**9 + m.usec, data, m.wirelen) for data, m in reader]
    with open_capture(CAPTURES / name) as capture:
        ours = [(r.time_ns, r.data, r.wire_length) for r in capture.records()]
    assert ours == theirs
    assert capture.notes == [] and capture.nanosecond and reader.nano


@pytest.mark.parametrize("name", readme.FILES)
def test_frames_are_whole_and_in_order(name) -> None:
    index = index_capture(CAPTURES / name, rows=True)
    assert index.is_classic and index.linktype == 1
    assert index.captured == index.wire_length and len(index.captured)
    assert list(index.time_ns) == sorted(index.time_ns)


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_the_readme_is_true() -> None:
    assert (CAPTURES / "README.md").read_text() == readme.readme(CAPTURES)


def test_the_files_are_small() -> None:
    sizes = {name: (CAPTURES / name).stat().st_size for name in readme.FILES}
    assert sizes["demo-traffic.pcap"] < 600_000
    assert sizes["eth0-in.pcap"] + sizes["eth1-in.pcap"] < 800_000


@pytest.mark.parametrize("device", [0, 1])
def test_crafted_frames_are_there_once_and_in_order(device) -> None:
    wanted = [c.frame for c in crafted.all_crafted(device)]
    assert len(set(wanted)) == len(wanted)
    assert [f for f in frames(INPUTS[device]) if f in set(wanted)] == wanted


@pytest.mark.parametrize("device", [0, 1])
def test_arp_replies_come_first(device) -> None:
    replies = [Ether(f)[ARP] for f in frames(INPUTS[device])[:2]]
    near = crafted.SIDES[device]
    assert [(r.op, r.psrc) for r in replies] == [(2, near.host), (2, near.neighbour)]


@pytest.mark.parametrize("device", [0, 1])
def test_the_rest_was_recorded_from_the_host(device) -> None:
    made = {c.frame for c in crafted.all_crafted(device)}
    recorded = [f for f in frames(INPUTS[device]) if f not in made]
    traffic = frames("demo-traffic.pcap")
    host = bytes.fromhex(crafted.SIDES[device].host_mac.replace(":", ""))
    assert len(recorded) > 100
    assert all(f in traffic and f[6:12] == host for f in recorded)


def test_recorded_checksums_are_right() -> None:
    """Offloads were off: scapy computes for each whole packet the bytes that were recorded."""
    for frame in frames("demo-traffic.pcap"):
        packet = Ether(frame)
        if IP in packet:
            assert same_when_rebuilt(packet, frame), show(frame)


@pytest.mark.parametrize("device", [0, 1])
def test_crafted_checksums_are_right_where_they_should_be(device) -> None:
    for item in crafted.all_crafted(device):
        if item.kind in WRONG | {"short garbage"} or item.about == USED_UP:
            continue
        packet = Ether(item.frame)
        if IP in packet:
            assert same_when_rebuilt(packet, item.frame), f"{item.kind}: {item.about}"


def same_when_rebuilt(packet, frame) -> bool:
    layers = [layer for layer in (IP, TCP, UDP, ICMP) if layer in packet]
    if packet[IP].frag or packet[IP].flags.MF:
        layers = [IP]  # the transport checksum covers the other fragments too
    for layer in layers:
        del packet[layer].chksum
    return bytes(packet) == frame


@pytest.mark.parametrize("device", [0, 1])
def test_identifications_are_the_crafted_packets_own(device) -> None:
    first = crafted.FIRST_ID[device]
    numbers = {}
    for item in crafted.crafted(device):
        for layer in dissect(item.frame).layers[1:2]:
            if "ttl" in layer.values and item.kind != "fragment":
                assert first <= layer["id"] < first + 0x100, item
                assert numbers.setdefault(layer["id"], item) is item
    assert len(numbers) > 30


def test_every_kind_is_on_both_sides() -> None:
    kinds = [[c.kind for c in crafted.all_crafted(device)] for device in (0, 1)]
    assert kinds[0] == kinds[1]
