"""Configuration strings: splitting, quoting, and the speed of very long ones."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.elements import confparse
from mezzo.elements.confparse import join_args, quote, split_args, split_words, unquote, unquote_bytes


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("", []),
        ("  ", []),
        ("/* nothing */", []),
        ("a", ["a"]),
        (" a , b ", ["a", "b"]),
        ("a,,b", ["a", "", "b"]),
        (",", [""]),
        ("1, // one, two\n 2", ["1", "2"]),
        ("1 /* x, y */ 2", ["1   2"]),
        ('"a, b", \'c, d\'', ['"a, b"', "'c, d'"]),
        ('"// no comment", 2', ['"// no comment"', "2"]),
        (r'"a\",b", c', [r'"a\",b"', "c"]),
        (r"\<2c 2c>, x", [r"\<2c 2c>", "x"]),
        ("src (a, b), c", ["src (a, b)", "c"]),
        ("a), b", ["a)", "b"]),
        ("a(, b", ["a(", "b"]),
        ("http:x/y, z", ["http:x/y", "z"]),
        ('"open, b', ['"open, b']),
    ],
)
def test_split_args(text: str, args: list[str]) -> None:
    assert split_args(text) == args


def test_ao06_one_trailing_empty_argument_is_dropped() -> None:
    assert split_args("A,") == split_args("A, /* comment */") == split_args("A") == ["A"]
    assert split_args("A,,") == ["A", ""]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("allow  src host 1.2.3.4", ["allow", "src", "host", "1.2.3.4"]),
        ('print "a b"c d', ["print", '"a b"c', "d"]),
        (r"x \<48 65> y", ["x", r"\<48 65>", "y"]),
        (r"a\b c", [r"a\b", "c"]),
    ],
)
def test_split_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("plain", b"plain"),
        ('a"b"c', b"abc"),
        (r'"\a\b\t\n\v\f\r\\\""', b'\a\b\t\n\v\f\r\\"'),
        (r'"\101\x4141\q"', b"AAq"),
        (r'"\< 48 45 4c 4C 4f >"', b"HELLO"),
        (r"\<48 65>x", b"Hex"),
        (r"'\<48>\n'", rb"\<48>\n"),
        ('"a\\\nb"', b"ab"),
        (r'"\<ff>"', b"\xff"),
        ("é", "é".encode()),
        (r"a\b", rb"a\b"),
        ('"', b""),
        ("'open", b"open"),
        ('"open\\', b"open\\"),
    ],
)
def test_unquote(text: str, data: bytes) -> None:
    assert unquote_bytes(text) == data
    assert unquote(text) == data.decode("utf-8", "surrogateescape")


@given(st.text())
def test_quote_round_trips(text: str) -> None:
    word = quote(text)
    assert split_args(word) == [word] and split_words(word) == [word]
    assert unquote_bytes(word) == confparse._encode(text)


@given(st.lists(st.text(max_size=8), max_size=5))
def test_join_args_round_trips(texts: list[str]) -> None:
    args = [quote(t) for t in texts]
    assert split_args(join_args(args)) == args


def test_join_args_keeps_empty_arguments() -> None:
    assert split_args(join_args(["a", "", ""])) == ["a", "", ""]


@settings(max_examples=200)
@given(st.text(alphabet="ab,'\"\\<>()/* \n"))
def test_any_text_splits_and_unquotes(text: str) -> None:
    for arg in split_args(text):
        split_words(arg)
        unquote(arg)
    confparse.argument_offsets(text)


def test_argument_offsets_point_into_the_text_as_written() -> None:
    text = 'a, /* x, */ b,\n // y\n "c, d"'
    assert [text[o] for o in confparse.argument_offsets(text)] == ["a", "b", '"']


def test_half_a_million_routes_split_quickly() -> None:
    table = ",\n".join(["10.0.0.0/24 1.2.3.4 1"] * 512_621)
    begin = time.process_time()
    assert len(split_args(table)) == 512_621
    assert time.process_time() - begin < 2  # a tenth of this on an idle machine
