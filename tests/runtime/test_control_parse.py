"""Commands out of bytes, however they are cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.runtime.control_parse import Command, Parser


def read_all(pieces: list[bytes], end: bool = True, parser: Parser | None = None) -> list[Command]:
    """All commands of a stream that comes in pieces."""
    parser = parser or Parser()
    found: list[Command] = []

    def drain():
        while True:
            line = parser.line()
            command = parser.command(line)
            if command is not None:
                found.append(command)
            elif line is None:
                return

    for piece in pieces:
        parser.feed(piece)
        drain()
    if end:
        parser.end()
        drain()
    return [c for c in found if c != Command("")]


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


STREAM = (
    b"READ c.count\nread c.count\r\n\r\nGET  list\rWRITEDATA rt.ctrl 13\r\nadd a\r\nadd b\nWRITEUNTIL x.run EOF\n"
    b"one\r\n EOF\n\ntwo\nEOF  \r\nREADUNTIL x.run\nthree\n \nSET q.capacity  5 6 \nCHECKREAD c.count\nQUIT\n"
)
COMMANDS = [
    Command("READ", b"c.count"),
    Command("READ", b"c.count"),
    Command("READ", b"list"),
    Command("WRITE", b"rt.ctrl", b"add a\r\nadd b\n"),
    Command("WRITE", b"x.run", b"one\r\n EOF\n\ntwo\n"),
    Command("READ", b"x.run", b"three\n"),
    Command("WRITE", b"q.capacity", b"5 6"),
    Command("CHECKREAD", b"c.count"),
    Command("QUIT"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, len(STREAM)])
def test_commands_split_and_joined(size):
    assert read_all(cut(STREAM, size)) == COMMANDS


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_commands_cut_anywhere(places):
    edges = [0, *sorted(places), len(STREAM)]
    assert read_all([STREAM[a:b] for a, b in pairwise(edges)]) == COMMANDS


WORDS = (
    b"READ a.b\n", b"WRITEDATA a 3\n", b"WRITEUNTIL a E\n", b"E\n", b"\r", b"\n", b"x" * 40, b"READDATA a 9999999999\n",
    b"WRITE a \xff\x00\n", b"LLRPC a#1 2\n", b"WRITEDATA a -1\n", b"TOKEN\n", b"\0",
)  # fmt: skip
PIECES = st.sampled_from(WORDS) | st.binary(max_size=12)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(PIECES, max_size=12), st.integers(1, 9))
def test_bytes_of_any_kind_mean_the_same_in_any_pieces(pieces, size):
    """The limits are small here, so that they are met."""
    data = b"".join(pieces)
    whole = read_all([data], parser=Parser(64, 20))
    assert whole == read_all(cut(data, size), parser=Parser(64, 20))
    assert all(c.code in (0, 500, 521) for c in whole)


def test_a_cr_at_the_end_is_answered_at_once():
    parser = Parser()
    assert read_all([b"READ a.b\r"], False, parser) == [Command("READ", b"a.b")]
    assert read_all([b"\nWRITEDATA a 1\r"], False, parser) == []
    assert read_all([b"\n\n"], False, parser) == [Command("WRITE", b"a", b"\n")]


def test_a_terminator_that_a_cr_ends_is_one_at_once():
    parser = Parser()
    assert read_all([b"WRITEUNTIL a E\rx\rE\r"], False, parser) == [Command("WRITE", b"a", b"x\r")]
    assert read_all([b"\nREAD a.b\n"], False, parser) == [Command("READ", b"a.b")]


def test_what_is_too_much_is_refused_once_and_skipped():
    parser = Parser(most_data=1000)
    big = b"WRITEDATA a 5000\n" + bytes(5000) + b"READ a.b\n"
    assert [c.code or c.verb for c in read_all(cut(big, 999), False, parser)] == [521, "READ"]
    assert parser.held == 0
    lines = b"WRITEUNTIL a E\n" + b"line\n" * 1000 + b"E\nREAD a.b\n"
    assert [c.code or c.verb for c in read_all(cut(lines, 999), False, parser)] == [521, "READ"]
    long = b"WRITEUNTIL a E\n" + b"x" * 300_000 + b"\nE\nREAD a.b\n"
    assert [c.code or c.verb for c in read_all(cut(long, 999), False, parser)] == [521, "READ"]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("length, code", [(20, 0), (21, 521)])
def test_the_limit_of_data_does_not_depend_on_pieces(size, length, code):
    for text in (b"x" * (length - 1) + b"\n", b"x\n" * (length // 2 - 1) + b"y" * (length % 2 + 1) + b"\n"):
        for form in (b"WRITEUNTIL a E\n" + text + b"E\n", b"WRITEDATA a %d\n" % length + text):
            assert [c.code for c in read_all(cut(form, size), parser=Parser(64, 20))] == [code]


def test_an_endless_line_ends_the_connection():
    parser = Parser(most_line=100)
    assert [c.code or c.verb for c in read_all([b"x" * 60, b"x" * 60], False, parser)] == [500, "hangup"]


def test_the_last_line_needs_no_end_but_data_does():
    assert read_all([b"READ a.b"]) == [Command("READ", b"a.b")]
    assert [c.code for c in read_all([b"WRITEDATA a 5\nab"])] == [500]
    assert [c.code for c in read_all([b"WRITEUNTIL a E\nab\n"])] == [500]


@pytest.mark.parametrize("line", [b"READ", b"WRITEDATA a", b"WRITEDATA a b", b"CHECKREAD a b", b"WRITEDATA a -1"])
def test_wrong_syntax(line):
    assert [c.code for c in read_all([line + b"\n"])] == [500]


@pytest.mark.parametrize("line", [b"POST / HTTP/1.1", b"GET /x HTTP/1.0", b"Host: localhost", b"\x16\x03\x01\x02"])
def test_http_is_known(line):
    assert read_all([line + b"\r\n"])[0].verb == "http"
