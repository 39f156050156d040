"""mezzo run: ends, counters, traces, reports; on both targets where packets flow."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from mezzo.targets import target_names

FULL = """s :: InfiniteSource(LIMIT 15) -> q :: SimpleQueue(10)
 -> u :: Unqueue -> p :: Paint(3) -> c :: CheckPaint(2) -> Discard;"""
# The quick look at a change does without the compiler.
MARKED = [t if t == "python" else pytest.param(t, marks=pytest.mark.slow) for t in target_names()]
targets = pytest.mark.parametrize("target", MARKED)


@targets
def test_handlers_are_printed_after_the_run(mezzo, target):
    text = "InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> Discard;"
    assert mezzo("run", "-e", text, "--target", target, "--handlers", "c.count", "-q").out == "5\n"
    both = mezzo("run", "-e", text, "--target", target, "--handlers", "c.count", "--handlers", "c.class", "-q")
    assert both.out == "c.count:\n5\nc.class:\nCounter\n"


def test_variables_come_from_the_command_line(mezzo):
    done = mezzo(
        "run",
        "-e",
        "InfiniteSource(LIMIT $n) -> c :: Counter -> Discard;",
        "n=7",
        "--handlers",
        "c.count",
        "-q",
        "--target",
        "python",
    )
    assert done.out == "7\n"


@targets
def test_statistics_count_every_connection_and_hide_their_counters(mezzo, target):
    done = mezzo("run", "-e", FULL, "--target", target, "--virtual", "--stats", "--json", "--handlers", "list")
    found = json.loads(done.out)
    assert {e["element"]: (e["in"], e["out"], e["dropped"]) for e in found["elements"]} == {
        "s": (0, 15, 0), "q": (15, 15, 0), "u": (15, 15, 0), "p": (15, 15, 0), "c": (15, 0, 15), "Discard@6": (0, 0, 0)
    }  # fmt: skip
    assert found["packets"] == 15
    assert found["drops"] == [{"element": "c", "reason": "other color", "packets": 15}]
    assert found["handlers"]["list"] == "6\ns\nq\nu\np\nc\nDiscard@6\n"


def test_a_table_of_statistics(mezzo):
    lines = mezzo("run", "-e", FULL, "--target", "python", "--stats", "-q").out.splitlines()
    assert lines[0].split() == ["element", "class", "in", "out", "dropped", "reasons"]
    assert lines[5].split() == ["c", "CheckPaint", "15", "0", "15", "other", "color", "15"]


def test_errors_of_ports_show_the_graph_as_written_when_counting(mezzo):
    plain = mezzo("run", "-e", "InfiniteSource -> Queue -> Counter -> Queue -> Discard;")
    counted = mezzo("run", "-e", "InfiniteSource -> Queue -> Counter -> Queue -> Discard;", "--stats")
    assert counted == plain
    assert plain.status == 1


@targets
def test_a_trace_says_what_each_element_changed_and_where_it_ended(mezzo, target):
    done = mezzo("run", "-e", FULL, "--target", target, "--virtual", "--trace", "1", "--json")
    (path,) = json.loads(done.out)["trace"]
    assert [(s["element"], s["changed"]) for s in path["steps"]] == [
        ("s", []),
        ("q", []),
        ("u", []),
        ("p", ["PAINT 3"]),
        ("c", []),
    ]
    assert path["end"] == "died in c: other color"


IP_TEXT = """s :: InfiniteSource(DATA \\<4500001c 00000000 4011 f961 12 1a 04 18 12 1a 07 01 0035003500080000>, LIMIT 2)
 -> CheckIPHeader -> t :: DecIPTTL -> Strip(20) -> Discard;"""


@targets
def test_a_trace_names_header_fields(mezzo, target):
    pytest.importorskip("mezzo.elements.dec_ip_ttl")
    text = IP_TEXT.replace("-> CheckIPHeader ->", "-> CheckIPHeader(CHECKSUM false) ->")
    (path, _) = json.loads(mezzo("run", "-e", text, "--target", target, "--trace", "2", "--json").out)["trace"]
    changed = {s["element"]: s["changed"] for s in path["steps"]}
    assert changed["t"][0] == "ip.ttl 64 → 63"
    assert re.fullmatch(r"ip\.checksum 0x[0-9a-f]{4} → 0x[0-9a-f]{4}", changed["t"][1])
    assert "length 28 → 8" in changed["Strip@4"]


@targets
def test_a_copy_is_traced_as_a_copy(mezzo, target):
    text = "InfiniteSource(LIMIT 1) -> t :: Tee; t[0] -> a :: Discard; t[1] -> b :: Discard;"
    paths = json.loads(mezzo("run", "-e", text, "--target", target, "--trace", "5", "--json").out)["trace"]
    assert sorted((p["copy_of"], p["steps"][-1]["element"]) for p in paths if p["copy_of"]) == [(1, "a")]
    assert len(paths) == 2


@targets
def test_a_trace_ends_with_the_element_that_pulled(mezzo, target):
    text = "InfiniteSource(LIMIT 1) -> q :: Queue -> n :: Null -> d :: Discard;"
    (path,) = json.loads(mezzo("run", "-e", text, "--target", target, "--trace", "1", "--json").out)["trace"]
    assert [s["element"] for s in path["steps"]] == ["InfiniteSource@1", "q", "n", "d"]
    assert path["end"] == "ended in d"


@targets
def test_a_trace_stops_after_its_packets_and_names_those_that_wait(mezzo, target):
    text = "InfiniteSource(LIMIT 5) -> q :: Queue -> Idle;"
    paths = json.loads(mezzo("run", "-e", text, "--target", target, "--trace", "3", "--json").out)["trace"]
    assert [p["end"] for p in paths] == ["still in q"] * 3


def test_a_trace_for_people(mezzo):
    done = mezzo("run", "-e", FULL, "--target", "python", "--trace", "1", "-q")
    assert done.out.startswith("packet 1: ")
    assert re.search(r"\n  p :: Paint +PAINT 3\n", done.out)
    assert "\n  died in c: other color\n" in done.out


def test_time_is_of_the_routers_clock(mezzo):
    done = mezzo(
        "run",
        "-e",
        "TimedSource(INTERVAL 1, LIMIT 100) -> c :: Counter -> Discard;",
        "--virtual",
        "--time",
        "10s",
        "--json",
        "--target",
        "python",
    )
    found = json.loads(done.out)
    assert (found["ended"], found["seconds"]["clock"]) == ("time", 10.0)


def test_the_report_is_one_page_that_needs_nothing_else(mezzo, tmp_path):
    page = tmp_path / "r.html"
    assert mezzo("run", "-e", FULL, "--target", "python", "--virtual", "--report", str(page)).status == 0
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "other color" in text
    assert not re.search(r"(src|href)\s*=\s*[\"']?https?:", text)
    assert text.count(">15<") >= 4
    ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


def test_the_summary_names_drops(mezzo):
    done = mezzo("run", "-e", FULL, "--target", "python", "--virtual")
    assert "15 dropped" in done.err
    assert done.err.splitlines()[-1].split() == ["c", "other", "color", "15"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_run_cleanly(number):
    text = "InfiniteSource -> c :: Counter -> Discard;"
    code = (
        "import sys; from mezzo.tools import run; from mezzo.tools.main import main; loop = run.watcher\n"
        "def watcher(*args):\n  ask = loop(*args); print('running', flush=True); return ask\n"
        "run.watcher = watcher; sys.exit(main(sys.argv[1:]))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, "run", "-e", text, "--json", "--handlers", "c.count", "--target", "python"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "running\n"
    child.send_signal(number)
    found = json.loads(child.communicate(timeout=20)[0])
    assert child.returncode == 0
    assert found["ended"] == "interrupted"


def test_a_traced_run_says_that_its_time_is_not_the_router_s(mezzo):
    text = "InfiniteSource(LIMIT 5) -> Discard;"
    assert "ns of CPU a packet (with counting);" in mezzo("run", "-e", text, "--stats").err
    assert "ns of CPU a packet (with counting and tracing);" in mezzo("run", "-e", text, "--stats", "--trace", "1").err
