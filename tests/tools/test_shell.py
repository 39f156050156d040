"""`mezzo read`, `write` and `shell`: a client of the control socket, also where there is none."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.tools import _shell
from mezzo.tools._client import Client, ControlError
from mezzo.tools._shell import Shell
from mezzo.tools._watch import Watch, lines, readings, si
from tests.runtime.controlled import running

TEXT = """ControlSocket(UNIX, {}); InfiniteSource(LIMIT 5) -> c :: Counter -> q :: Queue(20); Idle -> u :: Null;
u -> Discard; q -> Unqueue(ACTIVE false) -> Discard; rt :: RadixIPLookup(0/0 0); Idle -> rt -> Discard;
s :: Script(TYPE PASSIVE);"""


@pytest.fixture(scope="module")
def where(tmp_path_factory) -> Iterator[str]:
    path = str(tmp_path_factory.mktemp("control") / "s")
    with running(TEXT.format(path), target="python") as router:
        while router.read("c.count") != "5":
            pass
        yield path


@pytest.fixture(autouse=True)
def no_router_left():
    """The one router of this module lives as long as the module."""


@contextlib.contextmanager
def answering(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that is no router: `talk` has each connection; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        talk(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


# -- read and write


def test_reading(mezzo, where):
    assert mezzo("read", where, "c.count") == (0, "5\n", "")
    assert mezzo("read", where, "c.count", "rt.lookup 1.2.3.4").out == "c.count:\n5\nrt.lookup 1.2.3.4:\n0\n"
    assert json.loads(mezzo("read", where, "c.count", "u.class", "--json").out) == {"c.count": "5", "u.class": "Null"}
    assert mezzo("read", where, "version").status == 0


def test_what_cannot_be_read_is_told_together(mezzo, where):
    done = mezzo("read", where, "c.nothing", "c.count", "nothing.count", "c.reset")
    assert done.status == 1 and not done.out
    assert [line.split(":")[0] for line in done.err.splitlines()] == ["c.nothing", "nothing.count", "c.reset"]


def test_writing(mezzo, where, tmp_path, monkeypatch):
    assert mezzo("write", where, "q.capacity", "33") == (0, "", "")
    assert mezzo("read", where, "q.capacity").out == "33\n"
    (tmp_path / "routes").write_text("add 10.0.0.0/8 0\nadd 11.0.0.0/8 0\n")
    assert mezzo("write", where, "rt.ctrl", "--file", str(tmp_path / "routes")).status == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"add 12.0.0.0/8 0\nadd 12.0.0.0/8 0\n")))
    done = mezzo("write", where, "rt.ctrl", "-")
    assert done.status == 1 and "conflict" in done.err
    table = mezzo("read", where, "rt.table").out
    assert "11.0.0.0/8" in table and "12.0.0.0/8" not in table
    assert mezzo("write", where, "q.capacity", "-1").status == mezzo("write", where, "c.count").status == 1
    assert mezzo("write", where, "q.capacity", "x", "--file", "y").status == 1


@pytest.mark.parametrize("handler", ["", "a b", "a\nWRITE stop", " c.count"])
def test_a_handler_is_one_word(mezzo, where, handler):
    done = mezzo("read", where, handler)
    assert done.status == 1 and ("no handler" in done.err or "there is no" in done.err)


def test_any_bytes_are_carried(where):
    with Client(where) as client:
        client.write("q.capacity", b"20")
        with pytest.raises(ControlError) as caught:
            client.write("q.capacity", b"\xff\r\n200 fine\r\n" * 5000)
        assert caught.value.code == 520
        assert client.read("c.count") == b"5"


def test_watching(mezzo, where):
    done = mezzo("read", where, "c.count", "q.config", "--watch", "0.001", "--times", "2")
    first, second = done.out.split("\n\n")
    assert first.splitlines()[0].split() == ["c.count", "5"] and second.splitlines()[0].split() == [
        "c.count",
        "5",
        "0/s",
    ]


def test_values_do_not_steer_the_terminal(where, capsys):
    with Client(where) as client:
        client.write("s.set", b"x a\x1b[2J\x07b")
        shell = Shell(client, "")
        shell.run("s.get x")
        print(*lines({"x": client.text("s.get", "x")}, {"x": None}))
    assert "\x1b" not in (shown := capsys.readouterr().out) and shown.count("a·[2J·b") == 2


def test_rates():
    now = iter([10.0, 10.5, 11.0])
    watch = Watch(lambda: next(now))
    assert watch.rates({"a": "0", "b": "x"}) == {"a": None, "b": None}
    assert watch.rates({"a": "1000000", "b": "7"}) == {"a": 2e6, "b": None}
    rates = watch.rates({"a": "500000", "b": "7.5"})
    assert rates == {"a": -1e6, "b": 1.0}
    assert lines({"a": "1000000", "b": "two\nlines"}, {"a": 2e6, "b": None})[0].split() == [
        "a",
        "1,000,000",
        "2",
        "M/s",
    ]
    assert [si(x) for x in (0, 12.3456, 1234, 5e6, 7.25e9)] == ["0", "12.3", "1.23 k", "5 M", "7.25 G"]
    slept = []
    assert len(list(readings(lambda: {"a": "1"}, 0.5, 3, slept.append))) == 3 and slept == [0.5, 0.5]


# -- Ho03: at the other end is no router


def drip(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"C")
        connection.settimeout(0.01)
        with contextlib.suppress(TimeoutError):
            connection.recv(1)


def echo(connection: socket.socket) -> None:
    while data := connection.recv(100):
        connection.sendall(data)


def talk_on(connection: socket.socket, first: bytes, more: bytes) -> None:
    connection.sendall(first)
    while True:
        connection.sendall(more)


STRANGERS = {
    "silence": (lambda c: c.recv(1), "says nothing"),
    "echo": (echo, "says nothing"),
    "drip": (drip, "says nothing"),
    "http": (lambda c: c.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "HTTP/1.1 400"),
    "noise": (lambda c: c.sendall(bytes(range(256)) * 1000), "no control socket"),
    "an endless line": (lambda c: c.sendall(b"x" * 1_000_000), "no control socket"),
    "hangs up": (lambda c: None, "closed the connection"),
    "another version": (lambda c: c.sendall(b"Click::ControlSocket/2.0\r\n"), "version 2"),
    "greets and is silent": (
        lambda c: (c.sendall(b"Click::ControlSocket/1.3\r\n"), echo_nothing(c)),
        "does not answer",
    ),
    "greets and echoes": (lambda c: (c.sendall(b"Click::ControlSocket/1.3\r\n"), echo(c)), "no control socket"),
    "stops in the middle": (
        lambda c: (c.sendall(b"Click::ControlSocket/1.3\r\n200 fine\r\nDATA 9\r\nabc"), echo_nothing(c)),
        "middle",
    ),
    "a message without end": (
        lambda c: talk_on(c, b"Click::ControlSocket/1.3\r\n", b"200-x\r\n" * 1000),
        "does not end",
    ),
    "data that comes for ever": (
        lambda c: talk_on(c, b"Click::ControlSocket/1.3\r\n200 fine\r\nDATA 999999999\r\n", b"x"),
        "in the middle",
    ),
    "data without end": (
        lambda c: c.sendall(b"Click::ControlSocket/1.3\r\n200 fine\r\nDATA " + b"9" * 5000 + b"\r\n"),
        "DATA 999",
    ),
    "data without length": (lambda c: c.sendall(b"Click::ControlSocket/1.3\r\n200 fine\r\nDATA x\r\n"), "DATA x"),
}


def echo_nothing(connection: socket.socket) -> None:
    while connection.recv(100):
        pass


@pytest.mark.parametrize("name", STRANGERS)
def test_who_is_no_router_ho03(mezzo, name):
    """Ho03."""
    talk, said = STRANGERS[name]
    with answering(talk) as where:
        done = mezzo("read", where, "c.count", "--timeout", "0.1")
    assert (done.status, done.out) == (1, "") and said in done.err and len(done.err) < 500


@pytest.mark.parametrize(
    "where, said",
    [
        ("127.0.0.1:1", "-p 1"),
        ("/nowhere/s", "-u /nowhere/s"),
        ("not-yet-there.sock", "-u not-yet-there.sock"),
        (__file__, "no socket"),
        *((where, "no address") for where in ("nonsense", "1.2.3.4:99999", "99999", "", "9" * 5000, "h:\u0661")),
        *((where, "no such host") for where in ("a..b:80", "a" * 300 + ":80")),
    ],
)
def test_nobody_is_there(mezzo, where, said):
    done = mezzo("read", where, "c.count", "--timeout", "2")
    assert done.status == 1 and said in done.err


def test_a_token(tmp_path, mezzo, monkeypatch):
    path = str(tmp_path / "s")
    with running(f"ControlSocket(UNIX, {path}, TOKEN 0123456789); Idle -> q :: Queue -> Discard;", target="python"):
        assert "TOKEN" in mezzo("read", path, "q.length").err
        assert mezzo("read", path, "q.length", "--token", "0123456789").out == "0\n"
        assert "not the token" in mezzo("read", path, "q.length", "--token", "wrong").err
        monkeypatch.setenv("MEZZO_TOKEN", "0123456789")
        assert mezzo("read", path, "q.length").out == "0\n"


# -- the shell


def test_the_shell_runs_commands(mezzo, where):
    done = mezzo("shell", where, "-c", "c.count", "-c", "q.capacity = 44", "-c", "read q.capacity", "-c", "ls")
    assert done.status == 0 and done.out.splitlines()[:3] == ["5", "Write handler 'q.capacity' OK", "44"]
    assert "c  Counter" in done.out
    done = mezzo("shell", where, "-c", "ls q", "-c", "rt.lookup 1.2.3.4", "-c", "watch c.count times 2 every 0.001")
    assert "capacity" in done.out and "0/s" in done.out


def test_the_shell_says_what_fails_and_goes_on(mezzo, where, monkeypatch):
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("# a comment\n\nnothing\nwatch\nwrite\nwatch c.count every x\nc.count\nquit\nx\n")
    )
    done = mezzo("shell", where)
    assert (done.status, done.out) == (1, "5\n") and len(done.err.splitlines()) >= 4


def test_completion(where):
    with Client(where) as client:
        shell = Shell(client, "")
        assert shell.completions("c.cou", "c.cou") == ["c.count", "c.count_call"]
        assert shell.completions("write c.", "c.") == ["c.byte_count_call", "c.count_call", "c.reset", "c.reset_counts"]
        assert shell.completions("ls ", "")[:2] == client.names()[:2]
        assert {"watch", "write"} <= set(shell.completions("w", "w")) and "u." in shell.completions("read u", "u")
        assert "version" in shell.completions("ver", "ver")
        with pytest.raises(MezzoError):
            shell.completions("nobody.", "nobody.")


def test_a_shell_on_a_terminal(where, tmp_path):
    """Completion by the tab key, and lines that are remembered."""
    ours, theirs = pty.openpty()
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    command = [sys.executable, "-m", "mezzo", "shell", where]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as child:
        os.close(theirs)
        seen = b""
        for keys, awaited in ((b"", b"mezzo> "), (b"c.coun\t\n", b"\n5\r\n"), (b"quit\n", b"")):
            os.write(ours, keys)
            while awaited not in seen:
                seen += os.read(ours, 4096)
        assert child.wait(20) == 0
    os.close(ours)
    assert (tmp_path / "mezzo" / "shell_history").read_text().split()[-1] == "quit"


def test_where_history_is_kept(monkeypatch):
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert _shell.history_file() == Path.home() / ".local/state/mezzo/shell_history"
