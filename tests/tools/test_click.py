"""The driver that answers to `click`: its options as Click's users know them."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

FIVE = "i :: InfiniteSource(LIMIT 5, STOP true) -> c :: Counter -> d :: Discard;"


def test_handlers_have_heads_where_there_are_several(click):
    assert click("-e", FIVE, "-h", "c.count") == (0, "5", "")
    assert click("-e", FIVE, "-h", "c.count", "-h", "c.class").out == "c.count:\n5\nc.class:\nCounter\n"
    assert click("--expression", FIVE, "--handler=c.count").out == "5"


def test_handlers_by_class_and_by_pattern(click):
    assert click("-e", FIVE, "-h", "Counter.count").out == "c.count:\n5\n"
    assert click("-e", FIVE, "-h", "[cd].count").out == "c.count:\n5\nd.count:\n5\n"


def test_a_compact_configuration_is_read_flat(click):
    given = "i :: Idle -> { -> Counter -> } -> d :: Discard // hi"
    assert click("-q", "-e", given, "-h", "config").out.strip() == given
    compact = click("-q", "-e", f"require(compact_config); {given}", "-h", "config").out
    assert compact == click("-q", "-e", f"require(compact_config); {given}", "-h", "flatconfig").out


def test_a_handler_may_take_an_argument(click):
    text = "Idle -> r :: StaticIPLookup(10.0.0.0/8 18.26.4.1 0) -> Discard;"
    assert click("-q", "-e", text, "-h", "r.lookup 10.0.0.9").out.split() == ["0", "18.26.4.1"]


def test_a_handler_that_is_not_there_is_status_1(click):
    done = click("-e", FIVE, "-h", "c.nix", "-h", "c.count")
    assert done.status == 1
    assert done.out == "c.count:\n5\n"
    assert "`c` has no handler `nix`" in done.err


@pytest.mark.parametrize(("handler", "status"), [("c.count", 5), ("i.active", 0), ("c.class", 255), ("c.nix", 255)])
def test_the_exit_handler_gives_the_status(click, handler, status):
    assert click("-e", FIVE, "-x", handler).status == status


def test_quit_builds_but_does_not_run(click):
    assert click("-q", "-e", FIVE, "-h", "c.count").out == "0"


def test_the_flat_configuration_goes_to_a_file_or_standard_output(click, tmp_path):
    text = "elementclass X { input -> c :: Counter -> output } Idle -> x :: X -> Discard;"
    shown = click("-q", "-e", text, "-o-").out
    assert "x/c :: Counter;" in shown
    assert click("-q", "-e", text, "-o", str(tmp_path / "flat")).status == 0
    assert (tmp_path / "flat").read_text() == shown
    assert click("-q", "-e", text, "-o", "/no/such/file").status == 1


def test_files_variables_and_standard_input(click, tmp_path, monkeypatch):
    file = tmp_path / "r.click"
    file.write_text(FIVE.replace("5", "$n"))
    for words in ((str(file), "n=3"), ("-f", str(file), "-D", "n=3"), ("n=3", "--file", str(file))):
        assert click(*words, "-h", "c.count").out == "3"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(FIVE.encode())))
    assert click("-h", "c.count").out == "5"


def test_time_as_click_prints_it(click):
    assert re.fullmatch(r"\d+\.\d{3}u \d+\.\d{3}s \d+:\d\d\.\d\d\n", click("-t", "-e", FIVE).out)


def test_simtime_is_the_virtual_clock(click):
    done = click(
        "--simtime", "-e", "TimedSource(INTERVAL 100, LIMIT 50, STOP true) -> c :: Counter -> Discard;", "-h", "c.count"
    )
    assert done.out == "50"


def test_simtime_begins_when_it_is_told(click):
    script = "x :: Script(TYPE PASSIVE, return $(now));"
    for option in ("--simtime=1234.5", "--simulation-time=1234.5"):
        assert click(option, "-e", script, "-h", "x.run").out.startswith("1234.5")
    assert click("--simtime", "-e", script, "-h", "x.run").out.startswith("1000000000.")
    wrong = click("--simtime=soon", "-e", script)
    assert (wrong.status, "soon" in wrong.err) == (1, True)


def test_reconfiguration_is_allowed_where_it_is_asked_for(click):
    script = "Script(write hotconfig Idle -> Discard, stop);"
    for words, allowed in ((("-R",), True), (("--allow-reconfigure",), True), ((), False)):
        done = click("-e", script, *words, "-h", "flatconfig")
        assert ("Script" not in done.out) == allowed, done


def test_control_sockets(click, tmp_path):
    done = click("-e", FIVE, "-p", "0", "-u", str(tmp_path / "s"), "-h", "c.count")
    assert (done.status, done.out) == (0, "5") and done.err.startswith("control socket on 127.0.0.1:")
    assert not list(tmp_path.iterdir())


def test_wrong_control_sockets_are_told_together(click, tmp_path):
    wrong = ("-p", "x", "-p", "99999", "-u", str(tmp_path / "no" / "s"), "--socket", "12345", "--socket", "-1")
    done = click("-e", FIVE, *wrong)
    assert done.status == 1 and [line.split(":")[0] for line in done.err.splitlines()] == [
        f"{option} {text}" for option, text in zip(wrong[::2], wrong[1::2], strict=True)
    ]


def test_threads(click):
    assert click("-j", "1", "-e", FIVE).status == 0
    assert click("-j", "2", "-e", f"StaticThreadSched(nobody 1); {FIVE}").status == 1
    placed = "StaticThreadSched(u 1); InfiniteSource(LIMIT 5) -> Queue -> u :: Unqueue -> d :: Discard;"
    told = click("-j", "2", "-e", placed, "-h", "d.count", "-h", "u.home_thread").out
    assert told == "d.count:\n5\nu.home_thread:\n1\n"
    assert "a virtual clock has one thread, not 2" in click("-j", "2", "--simtime", "-e", FIVE).err


@pytest.mark.parametrize("words", [("--nonsense",), ("-j", "x"), ("-e",)])
def test_a_wrong_command_line_is_status_1(click, words):
    done = click(*words)
    assert done.status == 1
    assert "--help" in done.err


def test_errors_of_the_configuration_are_status_1(click):
    done = click("-e", "Idle -> Discad;")
    assert done.status == 1
    assert "did you mean `Discard`?" in done.err


def test_warnings_can_be_silenced(click):
    assert "no elements" in click("-e", "").err
    assert click("-w", "-e", "").err == ""


def test_a_clickpath_is_searched_for_libraries(click, tmp_path):
    (tmp_path / "lib.click").write_text("elementclass L { input -> Counter -> output }\n")
    assert click("-q", "-C", str(tmp_path), "-e", "require(library lib.click); Idle -> L -> Discard;").status == 0


def test_help_and_version(click):
    assert click("--help").out.startswith("usage: click [OPTION]")
    assert click("-v").out.startswith("click (mezzo) ")


def test_what_takes_long_to_import_waits_until_somebody_hears_ctrl_c():
    text = "import sys, mezzo.tools.click, mezzo.tools.main; print([n for n in sys.modules if 'mezzo.elements' in n])"
    assert subprocess.run([sys.executable, "-c", text], capture_output=True, text=True).stdout == "[]\n"
