"""ToDump: forms, lengths, times, link types, trouble."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.packet.capture import open_capture
from mezzo.packet.capture_write import CaptureWriter, pcap_header, pcapng_header
from mezzo.runtime import Router
from mezzo.targets import target_names

NS = 1_123_456_789
FORMS = ["", "NANO false", "PCAPNG true", "PCAPNG true, NANO false"]


def source(path: Path, frames: list[tuple[int, bytes]], nano: bool = True) -> str:
    """A FromDump of these frames."""
    with CaptureWriter(path, nanosecond=nano) as out:
        for time_ns, data in frames:
            out.write(time_ns, data, len(data) + 7 if len(data) == 60 else None)
    return f"f :: FromDump({path}, STOP true)"


def read_back(path: Path) -> list[tuple[int, bytes, int]]:
    with open_capture(path) as capture:
        assert capture.notes == []
        return [(r.time_ns, r.data, r.wire_length) for r in capture.records()]


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", ["->", "-> Queue ->"])
def test_packets_come_back(tmp_path: Path, target: str, form: str, way: str) -> None:
    frames = [(NS + n, bytes(range(n))) for n in (0, 1, 2, 3, 4, 5, 60, 64, 255)]
    text = f"{source(tmp_path / 'in', frames)} {way} d :: ToDump({tmp_path}/out, {form});"
    with Router.from_click(text, target=target, virtual=True) as router:
        while router.run() != "done" and way != "->":
            pass
        assert router.read("d.count") == "9"
    unit = 1000 if "NANO false" in form else 1
    want = [((NS + len(d)) // unit * unit, d, len(d) + 7 * (len(d) == 60)) for _, d in frames]
    assert read_back(tmp_path / "out") == want


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("nano_in", [False, True])
@pytest.mark.parametrize("nano_out", ["true", "false", None])
def test_Go07_magic_and_fraction_agree(tmp_path: Path, target: str, nano_in: bool, nano_out: str | None) -> None:
    """Unset is nanoseconds."""
    arg = "" if nano_out is None else f", NANO {nano_out}"
    text = f"{source(tmp_path / 'in', [(NS, b'x')], nano_in)} -> ToDump({tmp_path}/out{arg});"
    with Router.from_click(text, target=target, virtual=True) as router:
        router.run()
    fine = nano_in and nano_out != "false"
    with open_capture(tmp_path / "out") as capture:
        assert capture.nanosecond == (nano_out != "false")
        assert [r.time_ns for r in capture.records()] == [NS if fine else NS // 1000 * 1000]


@pytest.mark.parametrize("form", FORMS)
def test_Go06_no_packets(tmp_path: Path, form: str) -> None:
    with Router.from_click(f"Idle -> ToDump({tmp_path}/out, {form});", virtual=True) as router:
        router.run()
    header = pcapng_header if "PCAPNG" in form else pcap_header
    assert (tmp_path / "out").read_bytes() == header(1, 2000, "NANO false" not in form)


@pytest.mark.parametrize("target", target_names())
def test_lengths_and_passing_on(tmp_path: Path, target: str) -> None:
    text = f"in0 :: Feed -> d :: ToDump({tmp_path}/out, SNAPLEN 4) -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as router:
        router.feed("in0", [b"", b"abc", b"abcdefgh"])
        router.run()
        assert router.collect("out0") == [b"", b"abc", b"abcdefgh"]
        assert router.run() == "done"  # the timer has moved the buffer
        assert [(d, n) for _, d, n in read_back(tmp_path / "out")] == [(b"", 0), (b"abc", 3), (b"abcd", 8)]
    for args, wire in (("EXTRA_LENGTH false", 60), ("SNAPLEN 0", 67)):
        text = f"{source(tmp_path / 'in', [(NS, bytes(60))])} -> ToDump({tmp_path}/out, {args});"
        with Router.from_click(text, target=target, virtual=True) as router:
            router.run()
        assert read_back(tmp_path / "out") == [(NS, bytes(60), wire)]


@pytest.mark.parametrize("target", target_names())
def test_a_packet_without_time_gets_the_present(tmp_path: Path, target: str) -> None:
    with Router.from_click(f"in0 :: Feed -> ToDump({tmp_path}/out);", target=target, virtual=True) as router:
        router.feed("in0", [b"x"])
        router.run()
        epoch = router.engine.epoch_ns
    assert [t for t, _, _ in read_back(tmp_path / "out")] == [epoch]


@pytest.mark.parametrize("target", target_names())
def test_more_than_the_buffer(tmp_path: Path, target: str) -> None:
    frames = [(NS + n, bytes([n % 256]) * 1500) for n in range(1500)]
    text = f"{source(tmp_path / 'in', frames)} -> d :: ToDump({tmp_path}/out);"
    with Router.from_click(text, target=target, virtual=True) as router:
        router.run()
        assert (tmp_path / "out").stat().st_size > 1 << 20
    assert [(t, d) for t, d, _ in read_back(tmp_path / "out")] == frames


def test_unbuffered_and_flush(tmp_path: Path) -> None:
    for args, seen in (("", 0), ("UNBUFFERED true", 1)):
        with Router.from_click(f"in0 :: Feed -> d :: ToDump({tmp_path}/out, {args});", virtual=True) as router:
            router.feed("in0", [b"x"])
            router.run(seconds=0.01)
            assert len(read_back(tmp_path / "out")) == seen
            router.write("d.flush", "")
            assert len(read_back(tmp_path / "out")) == 1


def test_other_readers_agree(tmp_path: Path) -> None:
    frames = [(NS, bytes(60)), (NS + 5, b"abc")]
    for form, reader in (("", dpkt.pcap.Reader), ("PCAPNG true", dpkt.pcapng.Reader)):
        text = f"{source(tmp_path / 'in', frames)} -> ToDump({tmp_path}/out, ENCAP IP, {form});"
        with Router.from_click(text, virtual=True) as router:
            router.run()
        found = reader(io.BytesIO((tmp_path / "out").read_bytes()))
        assert found.datalink() == 101
        assert [bytes(data) for _, data in found] == [data for _, data in frames]


@pytest.mark.parametrize(
    ("args", "link"), [("", 1), ("ENCAP SLL", 113), ("1500, IP", 101), ("ENCAP 276", 276), ("USE_ENCAP_FROM f", 101)]
)
def test_link_types(tmp_path: Path, args: str, link: int) -> None:
    with CaptureWriter(tmp_path / "in", linktype=101):
        pass
    text = f"f :: FromDump({tmp_path}/in, STOP true) -> ToDump({tmp_path}/out, {args});"
    with Router.from_click(text, virtual=True) as router:
        router.run()
    with open_capture(tmp_path / "out") as capture:
        assert capture.linktype == link


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("ENCAP NONSENSE", "not a link type"),
        ("ENCAP IP, USE_ENCAP_FROM f", "exclude"),
        ("USE_ENCAP_FROM nobody", "no element `nobody`"),
        ("USE_ENCAP_FROM f g", "link types differ: f has ETHER, g has IP"),
    ],
)
def test_refused_arguments(tmp_path: Path, args: str, said: str) -> None:
    for name, link in (("a", 1), ("b", 101)):
        with CaptureWriter(tmp_path / name, linktype=link):
            pass
    text = f"f :: FromDump({tmp_path}/a) -> d :: ToDump({tmp_path}/out, {args}); g :: FromDump({tmp_path}/b) -> d;"
    with pytest.raises(MezzoError, match=said):
        Router.from_click(text)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(MezzoError, match=r"cannot write `.*no/where`: No such file"):
        Router.from_click(f"Idle -> ToDump({tmp_path}/no/where);")


@pytest.mark.parametrize("target", target_names())
@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_is_said_once_and_leaves_whole_records(
    tmp_path: Path, target: str, form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    room, real = [100 + 24], os.write

    def small_disk(fd: int, data: Any) -> int:
        if room[0] == 0:
            raise OSError(28, "No space left on device")
        done = real(fd, bytes(data)[: room[0]])
        room[0] -= done
        return done

    monkeypatch.setattr(os, "write", small_disk)
    text = f"in0 :: Feed -> d :: ToDump({tmp_path}/out, {form}) -> out0 :: Collect;"
    with Router.from_click(text, target=target, virtual=True) as router:
        for _ in range(2):
            router.feed("in0", [bytes(20)] * 5)
            router.run()
        assert len(router.collect("out0")) == 10
        kept = len(read_back(tmp_path / "out"))
        assert kept == (1 if "PCAPNG" in form else 2)
        assert [router.read(f"d.{x}") for x in ("count", "lost")] == [str(kept), str(10 - kept)]
    assert capsys.readouterr().err.count("No space left on device") == 1


def test_standard_output(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with Router.from_click("in0 :: Feed -> ToDump(-);", virtual=True) as router:
        router.feed("in0", [b"abc"])
        router.run()
    data = capfdbinary.readouterr().out
    assert data[:24] == pcap_header(1, 2000, True)
    assert data.endswith(b"abc")
