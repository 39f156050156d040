"""Answers without sockets: whatever a client sends, what it gets is well formed, one answer for each command."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mezzo.base import MezzoError
from mezzo.runtime import Router, control_session
from mezzo.runtime.control_parse import Command, Parser
from mezzo.runtime.control_session import LONGEST, MOST_SHOWN, Answers, Rights, Session, printable, to_bytes, to_text

LINE = re.compile(rb"(\d\d\d)([- ])([^\r\n]*)\r\n")
TEXT = "c :: Counter; q :: Queue; Idle -> c -> q -> Discard; rt :: RadixIPLookup(0/0 0); Idle -> rt -> Discard;"
MANY = 1 << 30


@pytest.fixture(scope="module")
def router() -> Iterator[Router]:
    with Router.from_click(TEXT, target="python") as made:
        yield made


@pytest.fixture(autouse=True)
def no_router_left():
    """The one router of this module lives as long as the module."""


def answers(data: bytes) -> list[int]:
    """The codes of a stream of answers, which must be nothing but answers."""
    at, codes = 0, []
    while at < len(data):
        line = LINE.match(data, at)
        assert line is not None, data[at : at + 80]
        at = line.end()
        if line[2] == b"-":
            continue
        codes.append(int(line[1]))
        if line[1] == b"200" and line[3].startswith(b"Read handler") and data.startswith(b"DATA ", at):
            head, _, _ = data[at:].partition(b"\r\n")
            at += len(head) + 2 + int(head[5:])
    return codes


def say(router: Router, data: bytes, rights: Rights | None = None, size: int = MANY) -> bytes:
    """What a client is told that says all this and ends."""
    session, out = Session(router, rights or Rights()), b""
    for at in range(0, len(data), size):
        session.parser.feed(data[at : at + size])
        out += session.turn(MANY)[0]
    session.parser.end()
    return out + session.turn(MANY)[0]


def expected(data: bytes) -> int:
    """How many commands there are, up to the one that ends the connection."""
    parser, count = Parser(), 0
    parser.feed(data)
    for _ in range(2):
        while True:
            line = parser.line()
            command = parser.command(line)
            if command is None:
                if line is None:
                    break
                continue
            count += command not in (Command(""), Command("hangup"))
            if command.verb in ("QUIT", "http", "hangup"):
                return count
        parser.end()
    return count


VERBS = b"READ WRITE READDATA WRITEDATA READUNTIL WRITEUNTIL CHECKREAD CHECKWRITE LLRPC HELP TOKEN FOO read GET"
PATHS = b"c.count c.reset q.capacity q.length rt.ctrl rt.table rt.lookup list x.y c.x . .list 0.list 1.name c#1 c# 3 0"
COMMANDS = st.builds(
    lambda *parts: b" ".join(parts),
    st.sampled_from(VERBS.split()),
    st.sampled_from(PATHS.split()),
    st.sampled_from([b"", b"5", b"3", b"add 1.0.0.0/8 0", b"\xff\0"]),
)
STREAMS = st.lists(COMMANDS | st.sampled_from([b"", b"QUIT now", b"abc", b"\r"]) | st.binary(max_size=9), max_size=8)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(STREAMS, st.sampled_from([b"\n", b"\r\n", b"\r"]), st.sampled_from([1, 3, MANY]))
def test_an_answer_for_each_command(router, lines, end, size):
    data = end.join(lines) + end
    said = say(router, data, size=size)
    assert len(answers(said)) == expected(data)


def test_messages_stay_on_their_line(router):
    said = say(router, b"READ x\x00\x1b[2J.y\nWRITEDATA q.capacity 9\n7\r\n200 OK\n")
    assert answers(said) == [510, 520] and b"\x1b" not in said and b"\\x1b" in said


def test_a_message_does_not_repeat_all_that_a_handler_was_given(router):
    said = say(router, b"WRITEDATA q.capacity 100000\n" + b"x" * 100_000 + b"READ " + b"y" * 30_000 + b".z\n")
    assert answers(said) == [520, 510] and len(said) < 3 * MOST_SHOWN and said.count(b"...\r\n") == 2
    said = say(router, b"WRITEDATA q.capacity 10000\n" + b"x\n" * 5000)
    assert answers(said) == [520] and said.endswith(b" more lines are not shown\r\n")


def test_elements_have_no_endless_numbers(router):
    assert answers(say(router, b"READ " + b"9" * 5000 + b".count\nREAD 1.name\n")) == [510, 200]


def test_a_turn_ends_after_much_data_or_work(router, monkeypatch):
    monkeypatch.setattr(control_session, "ENOUGH", 1000)
    monkeypatch.setattr(control_session, "SLICE_S", 1000)
    session = Session(router, Rights())
    session.parser.feed(b"READ flatconfig\n" * 100)
    said, more = session.turn(MANY)
    assert more and 1000 <= len(said) < 1500
    monkeypatch.setattr(control_session, "SLICE_S", 0)
    said, more = session.turn(MANY)
    assert more and answers(said) == [200]


def test_who_asks_for_what_is_not_there_or_not_allowed_stops_nobody(router, monkeypatch):
    """Nor who asks what the configuration says."""
    rested: list[object] = []
    at_rest = router.at_rest
    monkeypatch.setattr(router, "at_rest", lambda job: (rested.append(job), at_rest(job))[1])
    still = b"READ nobody.x\nREAD q.nothing\nCHECKREAD q.length\nCHECKWRITE q.length\nWRITE q.length 1\nREAD q.reset\n"
    still += b"LLRPC q#1\nREAD flatconfig\nREAD list\nREAD q.ports\nREAD q.config\nREAD q.class\n"
    assert answers(say(router, still)) == [510, 511, 200, 511, 530, 530, 501, 200, 200, 200, 200, 200] and not rested
    assert answers(say(router, b"WRITE q.capacity 5\n", Rights(readonly=True))) == [530] and not rested
    assert answers(say(router, b"READ q.highwater_length\nWRITE q.capacity 5\nREAD drops\n")) == [200] * 3
    assert len(rested) >= 2


def test_texts_and_bytes():
    every = bytes(range(256))
    assert to_bytes(to_text(every)) == every and to_bytes(every) == every
    assert to_bytes(True) == b"true" and to_bytes(7) == b"7" and to_bytes("ü") == "ü".encode()
    assert to_bytes("\ud800") == b"?"
    assert printable("a\tb\x85") == "a\\x09b\\x85" and printable("grüße") == "grüße"


def test_quick_answers_are_those_of_the_handler(router):
    known = Answers(router, False)
    session = Session(router, Rights(), (), known)
    lines = [b"READ c.count", b"read  c.count ", b"READ q.length", b"READ c.class", b"READ c.count" + b" " * LONGEST]
    for _ in range(3):
        session.parser.feed(b"\n".join(lines) + b"\n")
        said = session.turn(MANY)[0]
        assert answers(said) == [200] * 5 and said.count(b"200 Read handler 'c.count' OK\r\nDATA 1\r\n0") == 3
    assert known.known.keys() == {b"READ c.count", b"read  c.count "}
    router.handlers.forget()
    session.turn(1)
    assert not known.known


def test_an_answer_at_once_is_only_for_a_line_that_nothing_waits_for(router):
    line, answer = b"READ c.count\n", b"200 Read handler 'c.count' OK\r\nDATA 1\r\n0"
    known = Answers(router, False)
    session = Session(router, Rights(), (), known)
    assert session.at_once(line) == b""
    session.parser.feed(line)
    session.turn(MANY)
    assert session.at_once(line) == answer and session.at_once(line * 2) == session.at_once(line[:-1]) == b""
    for waits in (
        b"WRITEDATA q.capacity 13\n",
        b"WRITEUNTIL q.capacity\n",
        b"RE",
        b"READ c.name\r",
        b"HELP\nRE",
        b"QUIT\n",
    ):
        session = Session(router, Rights(), (), known)
        session.parser.feed(waits)
        session.turn(MANY)
        assert session.at_once(line) == b"", waits
    assert Session(router, Rights(token="0123456789"), (), known).at_once(line) == b""


def test_quick_answers_need_the_right_too(router):
    known = Answers(router, False)
    friend = Session(router, Rights(token="0123456789"), (), known)
    friend.parser.feed(b"TOKEN 0123456789\nREAD c.count\nREAD c.count\n")
    assert answers(friend.turn(MANY)[0]) == [200, 200, 200] and known.known
    stranger = Session(router, Rights(token="0123456789"), (), known)
    stranger.parser.feed(b"READ c.count\n")
    assert answers(stranger.turn(MANY)[0]) == [530]


def test_who_waits_for_an_interrupted_router_is_told():
    """Ctrl-C while a handler runs ends the run; the thread that asked goes on."""
    found: list[BaseException] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    def ask() -> None:
        try:
            router.at_rest(interrupted)
        except BaseException as trouble:
            found.append(trouble)

    thread = threading.Thread(target=ask)

    def until() -> bool:
        if thread.ident is None:
            thread.start()
        return False

    with Router.from_click("InfiniteSource -> Discard;", target="python") as router:
        with pytest.raises(KeyboardInterrupt):
            router.run(until=until)
        thread.join(10)
    assert [type(x) for x in found] == [MezzoError]
