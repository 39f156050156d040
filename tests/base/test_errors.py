"""Errors stay readable whatever they quote and however many there are."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError, Note, Reporter, Span


def test_a_conflict_shows_both_places():
    reporter = Reporter()
    here, there = Span("r.click", 7, 1, "q :: Queue(200);"), Span("r.click", 3, 1, "q :: Queue(64);")
    reporter.error("`q` is already an element", here, [Note("first declared here", there)], "use another name")
    with pytest.raises(MezzoError) as error:
        reporter.raise_if_errors()
    assert str(error.value) == (
        "r.click:7:1: `q` is already an element\n7 | q :: Queue(200);\n  | ^\n"
        "r.click:3:1: first declared here\n3 | q :: Queue(64);\n  | ^\nuse another name"
    )


def test_long_quotes_lose_their_middle():
    reporter = Reporter()
    reporter.error("expected a number, not `" + "9" * 20_000 + "`")
    (diagnostic,) = reporter.errors
    assert len(diagnostic.message) < 600 and diagnostic.message.endswith("9`")


def test_thousands_of_errors_end_with_their_number():
    reporter = Reporter()
    for number in range(5000):
        reporter.error(f"trouble {number}")
    with pytest.raises(MezzoError, match="4600 more are not shown"):
        reporter.raise_if_errors()


def test_warnings_alone_raise_nothing():
    reporter = Reporter()
    reporter.warn("odd")
    reporter.raise_if_errors()
    assert [d.render() for d in reporter.warnings] == ["warning: odd"]
