"""FromDump: forms of files, link types, damage, times, handlers."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.packet.capture_write import CaptureWriter, pcap_header, pcapng_header
from mezzo.runtime import Router
from mezzo.targets import target_names

BASE = 1_000_000_000 * 10**9
UDP = bytes(dpkt.ip.IP(src=b"\1\0\0\1", dst=b"\2\0\0\2", p=17, len=32, data=bytes(12)))


def pcap(*records: tuple[int, bytes], order: str = "<", nano: bool = True, link: int = 1, extra: int = 0) -> bytes:
    """A classic file of (ns, frame) records."""
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for time_ns, data in records:
        fraction = time_ns % 10**9 // (1 if nano else 1000)
        out += struct.pack(order + "IIII", time_ns // 10**9, fraction, len(data), len(data) + extra) + data
    return out


@pytest.fixture
def reading(tmp_path: Path) -> Callable[..., list[Any]]:
    """`reading(file bytes, arguments)`: what comes out, the same on every target."""

    def run(
        data: bytes, args: str = "", take: Callable[[Any], Any] = bytes, drops: Any = None, pull: bool = False
    ) -> list[Any]:
        path = tmp_path / "in.pcap"
        path.write_bytes(data)
        way = "-> Collect" if not pull else "-> Unqueue -> Collect"
        found = []
        for target in target_names():
            text = (
                f"f :: FromDump({path}, STOP true, {args}) {way}; f[1] -> no :: Collect;"
                if "FORCE_IP" in args
                else (f"f :: FromDump({path}, STOP true, {args}) {way};")
            )
            with Router.from_click(text, target=target, virtual=True) as router:
                assert router.run() == "stopped"
                name = next(n for n, e in router.elements.items() if type(e).__name__ == "Collect" and n != "no")
                found.append(router.collect_packets(name, take))
                assert router.drops() == (drops or {})
        assert all(x == found[0] for x in found)
        return list(found[0])

    return run


def stamp(p: Any) -> int:
    return int(p.timestamp)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_Go01_four_classic_magics(reading: Any, order: str, nano: bool) -> None:
    data = pcap((1_123_456_789, bytes(50)), order=order, nano=nano)
    want = 1_123_456_789 if nano else 1_123_456_000
    assert reading(data, take=lambda p: (p.timestamp, bytes(p))) == [(want, bytes(50))]


def block(kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


def test_Go02_pcapng_with_nanoseconds(reading: Any) -> None:
    time = 1_123_456_789
    packet = block(6, struct.pack("<IIIII", 0, 0, time, 4, 4) + b"abcd")
    assert reading(pcapng_header(1, 0, True) + packet, take=stamp) == [time]


def test_Go03_pcapng_with_several_interfaces(reading: Any) -> None:
    ether = b"\2" * 12 + b"\x08\0" + UDP
    second = block(1, struct.pack("<HHI", 101, 0, 0))
    packets = [
        block(6, struct.pack("<IIIII", 0, 0, 5, len(ether), len(ether)) + ether),
        block(0xBAD, b"whatever"),
        block(6, struct.pack("<IIIII", 1, 0, 6, len(UDP), len(UDP)) + UDP),
        block(3, struct.pack("<I", len(ether)) + ether),
    ]
    data = pcapng_header(1, 0, True) + second + b"".join(packets)
    take = lambda p: (p.timestamp, bytes(p), p.mark("net"))  # noqa: E731
    assert reading(data, take=take) == [(5, ether, None), (6000, UDP, 0), (0, ether, None)]
    assert reading(data, "FORCE_IP true", take=take) == [(5, UDP, 0), (6000, UDP, 0), (0, UDP, 0)]


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (struct.pack("<IIII", 1, 0, 50, 50) + bytes(10), "cut after 10 bytes"),
        (struct.pack("<III", 1, 0, 50), "cut inside its header"),
        (struct.pack("<IIII", 1, 0, 0x7FFFFFFF, 50) + bytes(60), "claims 2147483647 bytes"),
    ],
)
def test_Go04_damaged_records(reading: Any, capsys: pytest.CaptureFixture[str], tail: bytes, said: str) -> None:
    assert reading(pcap((1, b"first")) + tail) == [b"first"]
    assert capsys.readouterr().err.count(said) == len(target_names())


def test_Go04_more_bytes_than_the_packet_had(reading: Any, capsys: pytest.CaptureFixture[str]) -> None:
    odd = struct.pack("<IIII", 1, 0, 10, 6) + b"0123456789"
    data = pcap() + odd + pcap((2, b"next"))[24:]
    assert reading(data, take=lambda p: (bytes(p), p.anno[28])) == [(b"012345", 0), (b"next", 0)]
    assert "trimmed" in capsys.readouterr().err


LINKS = {  # link type -> what stands in front of the IP packet
    12: b"",
    101: b"",
    228: b"",
    113: bytes(14) + b"\x08\0",
    276: b"\x08\0" + bytes(18),
    0: b"\2\0\0\0",
    108: b"\0\0\0\2",
    1: bytes(12) + b"\x81\0\0\x07\x08\0",
    9: b"\xff\x03\0\x21",
    50: b"\0\x21",
    51: bytes(6) + b"\0\x21",
    104: b"\x0f\0\x08\0",
}


@pytest.mark.parametrize("link", LINKS)
def test_Go05_link_types_all_give_the_same_ip_packet(reading: Any, link: int) -> None:
    data = pcap((1, LINKS[link] + UDP), (2, b"\xff" * 40), link=link)
    take = lambda p: (bytes(p), p.mark("net"), p.mark("trans"))  # noqa: E731
    assert reading(data, "FORCE_IP true", take=take) == [(UDP, 0, 20)]


def test_Go05_null_in_the_other_byte_order(reading: Any) -> None:
    data = pcap((1, b"\0\0\0\2" + UDP), (2, b"\0\0\0\x1e" + b"\x60" + bytes(39)), (3, b"\0\0\0\7" + UDP), link=0)
    assert reading(data, "FORCE_IP true") == [UDP, b"\x60" + bytes(39)]


def test_raw_packets_are_marked_without_being_asked(reading: Any) -> None:
    data = pcap((1, UDP), (2, b"\x45"), (3, b""), link=101)
    assert reading(data, take=lambda p: (len(p), p.mark("net"))) == [(32, 0), (1, None), (0, None)]


def test_Go06_empty_files(reading: Any, tmp_path: Path) -> None:
    assert reading(pcap_header(1, 65535, False)) == []
    with pytest.raises(MezzoError, match=r"in.pcap` is empty"):
        reading(b"")
    with pytest.raises(MezzoError, match=r"nowhere.*No such file"):
        Router.from_click(f"FromDump({tmp_path}/nowhere) -> Discard;")
    with pytest.raises(MezzoError, match="not a capture file"):
        reading(b"this is a text, not a capture")


def test_compressed_files_and_pipes(reading: Any, tmp_path: Path) -> None:
    data = pcap((1, b"abc"), (2, b"def"))
    assert reading(gzip.compress(data)) == reading(bz2.compress(data)) == reading(data, "MMAP true") == [b"abc", b"def"]
    with pytest.raises(MezzoError, match="cannot read"):
        reading(gzip.compress(data)[:20])
    read_end, write_end = os.pipe()
    os.write(write_end, data)
    os.close(write_end)
    with Router.from_click(f"f :: FromDump(/proc/self/fd/{read_end}) -> c :: Collect;", virtual=True) as router:
        router.run()
        assert router.collect("c") == [b"abc", b"def"]
    os.close(read_end)


def test_cut_packets_tell_their_length(reading: Any) -> None:
    data = pcap((1, b"abc"), extra=1000)
    assert reading(data, take=lambda p: int.from_bytes(p.anno[28:32], "little")) == [1000]


def test_packets_longer_than_a_frame_are_cut(reading: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (got,) = reading(pcap((1, bytes(9000))), take=lambda p: len(p) + int.from_bytes(p.anno[28:32], "little"))
    assert got == 9000
    assert "1 packets did not fit a frame" in capsys.readouterr().err


TEN = pcap(*((BASE + n * 10**9, bytes([n])) for n in range(10)))


@pytest.mark.parametrize(
    ("args", "want"),
    [
        ("START 1000000003.0", range(3, 10)),
        ("START_AFTER 2s", range(2, 10)),
        ("END 1000000003.5", range(4)),
        ("END_AFTER 3", range(3)),
        ("START_AFTER 2, INTERVAL 3", range(2, 5)),
        ("INTERVAL 2s", range(2)),
        ("START 2000000000", range(0)),
        (f"FILEPOS {24 + 17 * 4}", range(4, 10)),
        ("SAMPLE 0", range(0)),
        ("SAMPLE 1", range(10)),
        ("ACTIVE true, TIMING true", range(10)),
    ],
)
@pytest.mark.parametrize("pull", [False, True])
def test_which_packets_are_read(reading: Any, args: str, want: range, pull: bool) -> None:
    assert reading(TEN, args, pull=pull) == [bytes([n]) for n in want]


def test_sampling_takes_its_share(reading: Any) -> None:
    data = pcap(*((n, b"x") for n in range(2000)))
    assert 420 < len(reading(data, "SAMPLE 0.25")) < 580


@pytest.mark.parametrize(
    ("args", "said"),
    [("START 1, START_AFTER 1", "exclude"), ("END 1, INTERVAL 1", "exclude"), ("SAMPLE 1.5", "out of range")],
)
def test_refused_arguments(reading: Any, args: str, said: str) -> None:
    with pytest.raises(MezzoError, match=said):
        reading(TEN, args)


@pytest.mark.parametrize("target", target_names())
def test_timing_keeps_the_gaps(target: str, tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap((BASE, b"a"), (BASE + 250_000_000, b"b"), (BASE + 3_000_000_000, b"c")))
    for way in ("", "-> Unqueue"):
        with Router.from_click(f"FromDump({path}, true) {way} -> c :: Collect;", target=target, virtual=True) as router:
            begun = router.now_ns
            for seconds, seen in ((0.1, [b"a"]), (0.2, [b"b"]), (2.6, []), (0.2, [b"c"])):
                router.run(seconds=seconds)
                assert router.collect("c") == seen
            assert router.now_ns - begun == 3_000_000_000


@pytest.mark.parametrize("target", target_names())
def test_handlers(target: str, tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(TEN)
    text = f"""f :: FromDump({path}, ACTIVE false, END_AFTER 2s, END_CALL i.active false) -> c :: Collect;
        i :: InfiniteSource(LIMIT 0) -> Idle;"""
    with Router.from_click(text, target=target, virtual=True) as router:
        assert router.run() == "done"
        assert [router.read(f"f.{x}") for x in ("count", "filepos", "filesize", "encap", "active")] == [
            "0",
            "24",
            "194",
            "ETHER",
            "false",
        ]
        router.write("f.active", "true")
        router.run()
        assert router.read("i.active") == "false"
        assert [router.read(f"f.{x}") for x in ("count", "filepos", "packet_filepos")] == ["2", "58", "41"]
        router.write("f.extend_interval", "3s")
        router.run()
        assert router.read("f.count") == "5"
        router.write("f.reset_counts", "")
        router.write("f.stop", "")
        assert router.run() == "stopped"
        assert [router.read(f"f.{x}") for x in ("count", "sampling_prob", "active")] == ["0", "1", "false"]


@pytest.mark.parametrize("target", target_names())
def test_a_full_queue_holds_the_source(target: str, tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(*((n, b"x") for n in range(500))))
    with Router.from_click(f"f :: FromDump({path}) -> q :: Queue(7) -> Idle;", target=target, virtual=True) as router:
        assert router.run() == "done"
        assert (router.read("f.count"), router.drops()) == ("7", {})


@pytest.mark.parametrize("target", target_names())
def test_an_empty_pool_loses_nothing(target: str, tmp_path: Path) -> None:
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap(*((n, bytes([n])) for n in range(100))))
    text = f"f :: FromDump({path}) -> q :: Queue(1000) -> DelayUnqueue(10ms) -> Collect;"
    with Router.from_click(text, target=target, virtual=True, frames=32) as router:
        got = []
        while router.run(seconds=0.001) != "done":
            got += router.collect(next(n for n in router.elements if n.startswith("Collect")))
        got += router.collect(next(n for n in router.elements if n.startswith("Collect")))
        assert got == [bytes([n]) for n in range(100)]


def test_against_the_reader_in_python(reading: Any, tmp_path: Path) -> None:
    """Random files, both forms; `mezzo.packet.capture` is the oracle."""
    import random

    from mezzo.packet.capture import open_capture

    rng = random.Random(4)
    for number in range(6):
        path = tmp_path / "r"
        with CaptureWriter(path, nanosecond=bool(number & 1), format=("pcap", "pcapng")[number & 2 > 0]) as out:
            for _ in range(60):
                data = rng.randbytes(rng.randrange(0, 300))
                out.write(rng.randrange(2**61), data, len(data) + rng.choice((0, 0, 100)))
        data = path.read_bytes()[: rng.choice((None, -1, -40))]
        path.write_bytes(data)
        with open_capture(path) as capture:
            want = [(r.time_ns, r.data, r.wire_length) for r in capture.records()]
        take = lambda p: (p.timestamp, bytes(p), len(p) + int.from_bytes(p.anno[28:32], "little"))  # noqa: E731
        assert reading(data, take=take) == want


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("extra", [0, 5, -3])
def test_short_records_are_as_others(reading: Any, order: str, extra: int) -> None:
    """Around the length up to which a burst copies a constant number of bytes, and up to the last byte of the file."""
    records = [(BASE + n * 1000, bytes([n]) * n) for n in (*range(3, 10), *range(70, 90), 78, 60)]
    data = pcap(*records, order=order, nano=False, extra=extra)
    take = lambda p: (p.timestamp, bytes(p), int.from_bytes(p.anno[28:32], "little"))  # noqa: E731
    want = [(time, frame[: len(frame) + min(extra, 0)], max(extra, 0)) for time, frame in records]
    assert reading(data, take=take) == reading(data, take=take, pull=True) == want


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A named pipe and its writing end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writing_end = os.open(path, os.O_WRONLY)
    yield path, writing_end
    os.close(reading_end)
    with contextlib.suppress(OSError):
        os.close(writing_end)


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("way", ["", "-> Unqueue"])
def test_a_pipe_goes_on_as_it_comes(target: str, way: str, pipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, end = pipe
    monkeypatch.setattr("mezzo.elements.from_dump.VIRTUAL_WAIT_MS", 0)
    data = pcap((BASE, b"abc"), (BASE + 1, b"defg"), (BASE + 2, b"h"))
    os.write(end, data[:50])
    text = f"f :: FromDump({path}, STOP true) {way} -> c :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as router:
        assert (router.run(seconds=0.01), router.collect("c")) == ("time", [b"abc"])
        os.write(end, data[50:64])
        assert (router.run(seconds=0.01), router.collect("c")) == ("time", [b"defg"])
        os.write(end, data[64:-1])
        assert (router.run(seconds=0.01), router.collect("c")) == ("time", [])
        os.write(end, data[-1:])
        os.close(end)
        assert (router.run(), router.collect("c")) == ("stopped", [b"h"])
        assert [router.read(f"f.{x}") for x in ("filepos", "packet_filepos", "filesize")] == ["80", "63", "80"]


@pytest.mark.parametrize("args", ["", "TIMING true", "START_AFTER 100us", "END_AFTER 90us", "FILEPOS 400"])
def test_a_pipe_says_what_a_file_says(reading: Any, pipe: Any, args: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 100 bytes are cut anywhere in records, and grow where one does not fit."""
    path, end = pipe
    monkeypatch.setattr("mezzo.packet.capture_pipe.CHUNK", 100)
    args = args if "FILEPOS" not in args else f"FILEPOS {24 + 20 * 16 + sum(range(20))}"
    data = pcap(*((BASE + n * 10_000, bytes([n]) * (n if n != 30 else 700)) for n in range(60)), order=">")
    want = reading(data, args)
    os.write(end, data)
    os.close(end)
    with Router.from_click(f"FromDump({path}, STOP true, {args}) -> c :: Collect;", virtual=True) as router:
        assert (router.run(), router.collect("c")) == ("stopped", want)


def test_nobody_and_no_end(tmp_path: Path, reading: Any, monkeypatch: pytest.MonkeyPatch, pipe: Any) -> None:
    monkeypatch.setattr("mezzo.packet.capture_pipe.PATIENCE_S", 0)
    monkeypatch.setattr("mezzo.packet.capture_pipe.MOST", 1 << 20)
    os.mkfifo(tmp_path / "nobody")
    os.write(pipe[1], pcap())
    zeros = pcap() + bytes(3 << 20)
    for name, args, said in (
        (tmp_path / "nobody", "", "nothing came for 0 s"),
        (pipe[0], ", END_AFTER 1s", "nothing came for 0 s"),
        ("/dev/zero", "", "not a capture file"),
    ):
        with pytest.raises(MezzoError, match=said):
            Router.from_click(f"FromDump({name}{args}) -> Discard;")
    with pytest.raises(MezzoError, match="more than 1 MiB"):
        reading(gzip.compress(zeros))
