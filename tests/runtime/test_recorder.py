"""The flight recorder: what it keeps, and when it writes it down."""

from __future__ import annotations

import time

import pytest

from mezzo.base import MezzoError
from mezzo.packet.capture import open_capture
from mezzo.runtime import Router
from mezzo.runtime.handlers import HandlerError
from mezzo.runtime.recorder import Recorder
from tests.runtime.controlled import running

TEXT = "InfiniteSource(LIMIT 50, DATA \\<{}>) -> c :: Counter -> q :: SimpleQueue(10) -> Idle;"
SHORT = "4500001c"


def recorded(router, packets, tmp_path):
    recorder = Recorder(router, packets, str(tmp_path / "r"))
    recorder.start()
    return recorder


def test_the_last_packets_and_the_events(tmp_path):
    with Router.from_click(TEXT.format(SHORT)) as router:
        recorder = recorded(router, 20, tmp_path)
        router.run()
        router.write("c.reset")
        recorder.look()
        assert router.read("recorder").startswith("20 of 20 packets")
        names = recorder.dump("a test")
    assert names == [str(tmp_path / "r-1.pcapng"), str(tmp_path / "r-1.txt")]
    text = (tmp_path / "r-1.txt").read_text()
    assert "a test" in text and "write c.reset" in text and "q: 40 dropped: full" in text
    assert text.count("into [0]c  frame") == text.count("into [0]q  frame") == 10
    with open_capture(names[0]) as capture:
        found = list(capture.records())
    assert len(found) == 20 and {bytes(r.data).hex() for r in found} == {SHORT}
    assert abs(found[-1].time_ns / 1e9 - time.time()) < 60


@pytest.mark.slow
def test_a_fault_is_written_down_by_itself(tmp_path):
    # A packet too short for what DecIPTTL reads is a fault of that element.
    text = f"RatedSource(RATE 100, DATA \\<{SHORT}>) -> MarkIPHeader -> t :: DecIPTTL -> Discard;"
    with running(text) as router:
        said = []
        router.hearers.append(said.append)
        recorded(router, 8, tmp_path)
        end = time.monotonic() + 20
        while not any("a fault was counted" in line for line in said) and time.monotonic() < end:
            time.sleep(0.02)
        router.recorder.stop()
    assert "t: " in (tmp_path / "r-1.txt").read_text() and "dropped: fault" in (tmp_path / "r-1.txt").read_text()


def test_a_full_disk_is_told_and_nothing_else():
    with Router.from_click(TEXT.format(SHORT)) as router:
        said = []
        router.hearers.append(said.append)
        Recorder(router, 4, "/nowhere/r").start()
        router.run()
        with pytest.raises(HandlerError, match="could not be written"):
            router.write("recorder", "")
        assert any("No such file" in line for line in said)


def test_without_one_there_is_nothing_to_ask():
    with Router.from_click(TEXT.format(SHORT)) as router:
        for job in (lambda: router.read("recorder"), lambda: router.write("recorder", "x")):
            with pytest.raises(HandlerError, match="--recorder N"):
                job()
        assert router.eye is None


@pytest.mark.parametrize("count", [0, 1 << 19])
def test_how_many_it_may_keep(count):
    with Router.from_click(TEXT.format(SHORT)) as router, pytest.raises(MezzoError, match=f"of {count} packets"):
        Recorder(router, count)
