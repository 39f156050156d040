"""A capture file as a device: every frame comes once, in order, in time, and what is sent is a capture again."""

from __future__ import annotations

from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.packet.capture import open_capture
from mezzo.packet.capture_write import CaptureWriter
from mezzo.runtime import Router

CAPTURE = Path(__file__).parents[2] / "examples/captures/eth0-in.pcap"


def packets(path) -> list[bytes]:
    with open_capture(path) as capture:
        return [r.data for r in capture.records()]


@pytest.mark.parametrize("target", ["python", "native"])
def test_a_capture_goes_through_and_comes_out_the_same(target, tmp_path):
    out = tmp_path / "out.pcap"
    text = f"f :: FromDevice({CAPTURE}, METHOD PCAP) -> Queue -> t :: ToDevice({out}, METHOD PCAP);"
    with Router.from_click(text, target=target) as router:
        assert router.run() == "done"
        assert router.read("f.refused") == "runt\t2\n"
    assert packets(out) == [p for p in packets(CAPTURE) if len(p) >= 14]


def test_timing_keeps_the_gaps(tmp_path):
    source = tmp_path / "in.pcap"
    with CaptureWriter(source, nanosecond=True) as out:
        for k in range(5):
            out.write(10**18 + k * 250_000_000, bytes(60))
    text = f"FromDevice({source}, METHOD PCAP, TIMING true) -> c :: Counter -> Discard;"
    with Router.from_click(text, virtual=True) as router:
        start = router.now_ns
        assert router.run() == "done"
        assert (router.read("c.count"), router.now_ns - start) == ("5", 10**9)


def test_repeat_and_stop(tmp_path):
    text = f"FromDevice({CAPTURE}, METHOD PCAP, REPEAT 3, STOP true) -> c :: Counter -> Discard;"
    with Router.from_click(text) as router:
        assert router.run() == "stopped"
        assert router.read("c.count") == str(3 * 251)


def test_an_empty_capture_ends_at_once(tmp_path):
    CaptureWriter(tmp_path / "in.pcap").close()
    with Router.from_click(f"FromDevice({tmp_path}/in.pcap, METHOD PCAP, REPEAT 9) -> Discard;") as router:
        assert router.run() == "done"


def test_a_packet_longer_than_a_frame_is_counted(tmp_path):
    with CaptureWriter(tmp_path / "in.pcap") as out:
        out.write(0, bytes(9000))
        out.write(0, bytes(100))
    text = f"f :: FromDevice({tmp_path}/in.pcap, METHOD PCAP) -> c :: Counter -> Discard;"
    with Router.from_click(text) as router:
        router.run()
        assert (router.read("c.count"), router.read("f.refused")) == ("1", "not in its frame\t1\n")
    with Router.from_click(text, frame_size=16384) as router:
        router.run()
        assert router.read("c.count") == "2"


def test_a_file_is_not_overwritten_by_its_own_replay(tmp_path):
    name = tmp_path / "x.pcap"
    name.write_bytes(CAPTURE.read_bytes())
    text = f"FromDevice({name}, METHOD PCAP) -> Queue -> ToDevice({name}, METHOD PCAP);"
    with pytest.raises(MezzoError, match="would be overwritten"):
        Router.from_click(text).close()
    assert name.read_bytes() == CAPTURE.read_bytes()


def test_frames_that_run_out_only_delay(tmp_path):
    text = (
        f"FromDevice({CAPTURE}, METHOD PCAP) -> q :: Queue(1000) -> u :: RatedUnqueue(5000) -> c :: Counter -> Discard;"
    )
    with Router.from_click(text, virtual=True, frames=64) as router:
        assert router.run() == "done"
        assert router.read("c.count") == "251"
