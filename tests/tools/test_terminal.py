"""Tables, coloured errors, the progress line."""

from __future__ import annotations

import io

from mezzo.base import Diagnostic, Span
from mezzo.tools._terminal import BOLD, PLAIN, RED, Progress, print_errors, table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


ERROR = Diagnostic("no such thing", Span("x.click", 3, 5, "a -> b;", 1), hint="write c")


def test_numbers_stand_to_the_right():
    lines = table(("name", "n"), [("a", 1), ("bc", 12345)]).splitlines()
    assert lines == ["name       n", "a          1", "bc    12,345"]


def test_a_table_may_be_empty():
    assert table(("name", "n"), []) == "name  n"


def test_errors_in_a_file_have_no_colour():
    out = io.StringIO()
    print_errors([ERROR], out)
    assert out.getvalue() == "x.click:3:5: no such thing\n3 | a -> b;\n  |     ^\nwrite c\n"


def test_errors_on_a_terminal_have_colour(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    print_errors([ERROR], out)
    assert f"{BOLD}x.click:3:5: no such thing{PLAIN}\n" in out.getvalue()
    assert f"{RED}  |     ^{PLAIN}\n" in out.getvalue()


def test_no_color_is_heard(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    out = Terminal()
    print_errors([ERROR], out)
    assert "\x1b" not in out.getvalue()


def test_control_characters_of_a_file_do_not_reach_the_terminal():
    out = io.StringIO()
    print_errors([Diagnostic("odd", Span("x", 1, 1, "\x1b[2J\tcaf\u00e9\x9b"))], out)
    assert "| ·[2J\tcaf\u00e9·\n" in out.getvalue()


def test_progress_shows_on_terminals_only():
    quiet, terminal = io.StringIO(), Terminal()
    for stream in (quiet, terminal):
        progress = Progress(stream)
        progress.show("half")
        progress.clear()
    assert quiet.getvalue() == ""
    assert terminal.getvalue() == "\r\x1b[Khalf\r\x1b[K"
