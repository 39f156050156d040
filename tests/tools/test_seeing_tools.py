"""`mezzo trace`, `tap`, `graph --live` and the options of `run` for looking inside, as one calls them."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from mezzo.packet.capture import open_capture
from mezzo.runtime import Router
from mezzo.tools._seeing import seeing
from mezzo.tools.main import main
from tests.runtime.controlled import running
from tests.runtime.open_metrics import parse

TEXT = """
s :: RatedSource(RATE 2000, DATA \\<00>) -> e :: UDPIPEncap(10.0.0.1, 53, 10.9.9.9, 80)
  -> t :: DecIPTTL -> q :: Queue(100) -> u :: Unqueue -> c :: Counter -> d :: Discard;
"""


@pytest.fixture
def where(tmp_path):
    path = str(tmp_path / "k.sock")
    with running(f"ControlSocket(unix, {path}); {TEXT}"):
        yield path


@pytest.mark.slow
def test_trace_as_text_and_as_a_capture(where, tmp_path, capsys):
    file = tmp_path / "way.pcapng"
    assert main(["trace", where, "src port 53", "-n", "2", "--write", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.count("packet 1: ") == out.count("packet 2: ") == 1
    assert re.search(r"^ +\d+\.\d µs  t :: DecIPTTL +ip.ttl 250 → 249", out, re.M) and "ended in d" in out
    with open_capture(str(file)) as capture:
        found = [bytes(record.data) for record in capture.records()]
    assert len(found) >= 12 and {len(data) for data in found} == {29}
    if shutil.which("tshark"):
        words = ["tshark", "-r", str(file), "-T", "fields", "-e", "frame.interface_name", "-e", "frame.comment"]
        rows = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
        assert "t\tpacket 1, step 2: t[0]; ip.ttl 250 → 249" in rows[1]


@pytest.mark.slow
def test_trace_as_json_of_a_configuration(tmp_path, capsys):
    file = tmp_path / "x.click"
    file.write_text(TEXT)
    assert main(["trace", str(file), "dst port 80", "-n", "3", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["packet"] for row in rows] == [1, 2, 3] and rows[0]["end"] == "ended in d"


def test_trace_that_finds_nothing(where, capsys):
    assert main(["trace", where, "tcp", "--time", "0.1"]) == 1
    assert "no packet came by" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, message",
    [
        (["trace", "{}", "udp and"], "filter `udp and`"),
        (["tap", "{}", "a->b"], "there is no element `a`"),
        (["tap", "{}", "c->d", "-w", "/nowhere/x.pcap"], "cannot write"),
        (["trace", "{}", "--write", "/nowhere/x.pcapng"], "cannot write"),
        (["trace", "/nowhere/x.click"], "/nowhere/x.click"),
    ],
)
def test_what_is_wrong_is_told(where, words, message, capsys):
    assert main([word.format(where) for word in words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_tap_as_text_and_into_files(where, tmp_path, capsys):
    assert main(["tap", where, "c->d", "-c", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and all("10.0.0.1 > 10.9.9.9" in line and "length 29" in line for line in lines)
    for name in ("x.pcap", "x.pcapng"):
        assert main(["tap", where, "c->d", "udp", "-c", "4", "-w", str(tmp_path / name)]) == 0
        with open_capture(str(tmp_path / name)) as capture:
            assert capture.format == name[2:] and len(list(capture.records())) == 4
    assert main(["tap", where, "c->d", "tcp", "--time", "0.1", "-w", str(tmp_path / "none.pcap")]) == 0
    with open_capture(str(tmp_path / "none.pcap")) as capture:
        assert list(capture.records()) == []


@pytest.mark.slow
def test_tap_to_standard_output_is_a_capture_and_a_reader_may_go(where):
    words = [sys.executable, "-m", "mezzo", "tap", where, "q->u", "-w", "-"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        data = process.stdout.read(4096)
        process.stdout.close()
        assert process.wait(30) == 0 and b"Traceback" not in process.stderr.read()
    with open_capture(io.BytesIO(data)) as capture:
        assert len(next(capture.records()).data) == 29


@pytest.mark.slow
def test_the_graph_of_a_router_that_runs(where, tmp_path, capsys):
    assert main(["graph", "--live", where, "--seconds", "0.2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = [line for line in lines if re.match(r"\[[█·]{20}\] +[\d.]+%  ", line)]
    assert [re.split("  +", line.partition("%")[2].strip())[0] for line in lines if "→ t" in line] == ["e"]
    assert len(shown) >= 5
    for name in ("x.svg", "x.html", "x.dot"):
        assert main(["graph", "--live", where, "--seconds", "0.1", "-o", str(tmp_path / name)]) == 0
        assert "% of the time" in (tmp_path / name).read_text()


@pytest.mark.slow
def test_run_serves_metrics_and_records(tmp_path):
    words = [sys.executable, "-m", "mezzo", "run", "-e", TEXT, "--metrics", "0", "--recorder", "16"]
    words += ["--recorder-file", str(tmp_path / "r"), "-q"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = process.stderr.readline().split()[-1]
            accept = {"Accept": "application/openmetrics-text"}
            with urllib.request.urlopen(urllib.request.Request(url, headers=accept), timeout=10) as answer:
                assert "mezzo_element_events_total" in parse(answer.read().decode())
            process.send_signal(signal.SIGUSR2)
            end = time.monotonic() + 20
            while not os.path.exists(tmp_path / "r-1.txt") and time.monotonic() < end:
                time.sleep(0.02)
        finally:
            process.terminate()
        assert process.wait(20) == 0
    assert "SIGUSR2" in (tmp_path / "r-1.txt").read_text()


def test_an_exception_is_recorded(tmp_path):
    args = argparse.Namespace(recorder=4, recorder_file=str(tmp_path / "r"), metrics=None)
    with Router.from_click("InfiniteSource(LIMIT 9) -> d :: Discard;") as router:
        router.output = io.StringIO()
        with pytest.raises(RuntimeError, match="a bug"), seeing(router, args):
            router.run()
            raise RuntimeError("a bug")
        assert "RuntimeError: a bug: 4 packets" in router.output.getvalue()
    assert "RuntimeError: a bug" in (tmp_path / "r-1.txt").read_text()


def test_metrics_at_no_address(capsys):
    assert main(["run", "-e", "Idle -> Discard", "--metrics", "nonsense"]) == 1
    assert "is no address" in capsys.readouterr().err
