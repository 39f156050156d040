"""The standard router's answers on the wire, judged by scapy: what is sent out on each side for what came in."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from mezzo.packet.capture import open_capture
from mezzo.packet.capture_write import CaptureWriter
from mezzo.runtime import Router
from mezzo.targets import target_names

ROUTER = Path(__file__).resolve().parents[2] / "examples" / "ip-router.click"
MACS = "00:00:c0:ae:67:ef", "00:00:c0:4f:71:ef"
ADDRESSES = "18.26.4.24", "18.26.7.1"
HOSTS = ("02:00:00:00:04:02", "18.26.4.2"), ("02:00:00:00:07:02", "18.26.7.2")


def known(side: int) -> Packet:
    """The host tells the router where it is."""
    mac, address = HOSTS[side]
    body = ARP(op=2, hwsrc=mac, psrc=address, hwdst=MACS[side], pdst=ADDRESSES[side])
    return Ether(src=mac, dst=MACS[side]) / body


def from_host(packet: Packet) -> Packet:
    return Ether(src=HOSTS[0][0], dst=MACS[0]) / packet


def write(path: Path, frames: list[Packet], first_ns: int) -> None:
    with path.open("wb") as file:
        writer = CaptureWriter(file, nanosecond=True)
        for number, frame in enumerate(frames):
            writer.write(first_ns + number * 1_000_000, bytes(frame), len(bytes(frame)))
        writer.flush()


def routed(folder: Path, target: str, packets: list[Packet]) -> list[list[Packet]]:
    """What leaves on each side for IP packets of the host on side 0."""
    write(folder / "in0", [known(0), *map(from_host, packets)], 10**9)
    write(folder / "in1", [known(1)], 10**9)
    files = {f"{way}{side}": str(folder / f"{way}{side}".lower()) for way in ("IN", "OUT") for side in (0, 1)}
    with Router.from_click(ROUTER.read_text(), str(ROUTER), files, virtual=True, target=target) as router:
        assert router.run(seconds=60) == "stopped"
    sent = []
    for side in (0, 1):
        with open_capture(folder / f"out{side}") as capture:
            sent.append([Ether(record.data) for record in capture.records()])
    return sent


def rebuilt(frame: Packet) -> bytes:
    """With the checksums that scapy computes."""
    copy = Ether(bytes(frame))
    for layer in (IP, ICMP, UDP):
        if layer in copy:
            del copy[layer].chksum
    return bytes(copy)


@pytest.mark.parametrize("target", target_names())
def test_Eo17_the_time_to_live_is_looked_at_only_when_forwarding(tmp_path: Path, target: str) -> None:
    payload = UDP(sport=40000, dport=33434) / Raw(b"traceroute")
    host, far = HOSTS[0][1], HOSTS[1][1]
    probes = [IP(src=host, dst=to, ttl=ttl, id=7) / payload for to, ttl in ((ADDRESSES[0], 1), (far, 1), (far, 2))]
    back, on = routed(tmp_path, target, probes)
    assert [(p[IP].dst, p[ICMP].type, p[ICMP].code) for p in back] == [(host, 3, 3), (host, 11, 0)]
    for answer, probe in zip(back, probes, strict=False):
        assert (answer.dst, answer.src, answer[IP].src) == (HOSTS[0][0], MACS[0], ADDRESSES[0])
        assert bytes(answer) == rebuilt(answer)
        assert bytes(answer[ICMP].payload) == bytes(probe)
    (forwarded,) = on
    probes[2].ttl = 1
    assert bytes(forwarded) == bytes(Ether(src=MACS[1], dst=HOSTS[1][0]) / probes[2])


@pytest.mark.parametrize("target", target_names())
def test_pings_are_answered(tmp_path: Path, target: str) -> None:
    host = HOSTS[0][1]
    pings = [IP(src=host, dst=to, ttl=64) / ICMP(id=5, seq=n) / Raw(b"ping") for n, to in enumerate(ADDRESSES)]
    back, on = routed(tmp_path, target, pings)
    assert on == []
    assert [(p[IP].src, p[IP].dst, p[ICMP].type, p[ICMP].seq) for p in back] == [
        (to, host, 0, n) for n, to in enumerate(ADDRESSES)
    ]
    assert all(bytes(p) == rebuilt(p) and bytes(p[ICMP].payload) == b"ping" for p in back)


# -- the recorded traffic

CAPTURES = ROUTER.parent / "captures"
NEAR = "18.26.4.", "18.26.7."
NEIGHBOURS = {"18.26.4.2": "02:00:12:1a:04:02", "18.26.4.3": "02:00:12:1a:04:03"} | {
    "18.26.7.2": "02:00:12:1a:07:02", "18.26.7.3": "02:00:12:1a:07:03",
}  # fmt: skip


def is_plain(frame: Packet, side: int) -> bool:
    """A packet without options from one side to a host of the other that answers ARP, nothing wrong with it."""
    if frame.dst != MACS[side] or frame.type != 0x0800 or IP not in frame:
        return False
    packet = frame[IP]
    fits = 20 <= packet.len <= min(1500, len(frame) - 14)
    sound = packet.version == 4 and packet.ihl == 5 and fits and packet.ttl > 1
    copy = IP(bytes(packet)[:20])
    del copy.chksum
    sums = bytes(copy)[10:12] == bytes(packet)[10:12]
    away = packet.dst in NEIGHBOURS and packet.dst.startswith(NEAR[1 - side])
    return sound and sums and away and packet.src in NEIGHBOURS


def forwarded(frame: Packet, side: int) -> bytes:
    """What the other side must see of it, by RFC 1812 and scapy."""
    packet = frame[IP]
    head = IP(bytes(packet)[:20])
    head.ttl -= 1
    del head.chksum
    link = Ether(src=MACS[1 - side], dst=NEIGHBOURS[packet.dst], type=0x0800)
    return bytes(link) + bytes(head)[:20] + bytes(frame)[34 : 14 + packet.len]


def frames_of(path: Path) -> list[bytes]:
    with open_capture(path) as capture:
        return [record.data for record in capture.records()]


def plain_answers(side: int) -> list[bytes]:
    """What the other side must see of all plain packets."""
    came = [Ether(data) for data in frames_of(CAPTURES / f"eth{side}-in.pcap") if len(data) >= 34]
    return [forwarded(frame, side) for frame in came if is_plain(frame, side)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The demo's captures routed on every target."""
    found = {}
    for target in target_names():
        folder = found[target] = tmp_path_factory.mktemp(target)
        files = {f"IN{side}": str(CAPTURES / f"eth{side}-in.pcap") for side in (0, 1)}
        files |= {f"OUT{side}": str(folder / f"out{side}") for side in (0, 1)}
        with Router.from_click(ROUTER.read_text(), str(ROUTER), files, virtual=True, target=target) as router:
            assert router.run(seconds=120) == "stopped"
    return found


@pytest.fixture(scope="module")
def demo(folders: dict[str, Path]) -> dict[str, list[list[bytes]]]:
    """What leaves on each side, on every target."""
    return {target: [frames_of(folder / f"out{side}") for side in (0, 1)] for target, folder in folders.items()}


def test_the_targets_route_alike(demo: dict[str, list[list[bytes]]]) -> None:
    assert demo["native"] == demo["python"]


@pytest.mark.parametrize("side", [0, 1])
def test_plain_packets_cross_as_scapy_says(demo: dict[str, list[list[bytes]]], side: int) -> None:
    want = plain_answers(side)
    left = demo["native"][1 - side]
    expected = set(want)
    assert len(want) > 100
    assert [data for data in left if data in expected] == want


@pytest.mark.parametrize("side", [0, 1])
def test_every_frame_that_leaves_is_accounted_for(demo: dict[str, list[list[bytes]]], side: int) -> None:
    """Besides plain packets: ARP, the router's own ICMP, options, pieces, packets of one network; right checksums."""
    plain = set(plain_answers(1 - side))
    for data in demo["native"][side]:
        frame = Ether(data)
        assert frame.src == MACS[side] and (ARP in frame or IP in frame)
        if data in plain or ARP in frame:
            continue
        packet = frame[IP]
        head = IP(data[14 : 14 + packet.ihl * 4])
        del head.chksum
        assert bytes(head) == data[14 : 14 + packet.ihl * 4]
        if packet.src in ADDRESSES:
            assert data == rebuilt(frame) and packet.proto == 1
        else:
            options, pieces, same = packet.ihl > 5, packet.flags.MF or packet.frag, packet.src.startswith(NEAR[side])
            assert options or pieces or same, frame.summary()


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize("side", [0, 1])
def test_tshark_reads_all_and_finds_nothing_wrong(folders: dict[str, Path], side: int) -> None:
    file = folders["native"] / f"out{side}"
    whole = "tshark", "-n", "-r", str(file), "-o", "ip.check_checksum:TRUE", "-T", "fields", "-e", "frame.number"

    def numbers(*more: str) -> list[str]:
        return subprocess.run([*whole, *more], capture_output=True, text=True, check=True).stdout.split()

    assert len(numbers()) == len(frames_of(file))
    assert numbers("-Y", "ip.checksum.status == 0 || icmp.checksum.status == 0 || _ws.malformed") == []
