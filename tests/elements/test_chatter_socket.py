"""ChatterSocket: who listens hears what the router says, and harms nobody."""

from __future__ import annotations

import io
import os
import socket
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.runtime import Router
from mezzo.runtime.chatter import GREETING, LISTENERS

TCP = "c :: ChatterSocket(TCP, 0);"


@pytest.fixture
def router(request: pytest.FixtureRequest) -> Any:
    text = getattr(request, "param", TCP) + 'Script(TYPE PASSIVE, print "x"); in0 :: Feed -> Print("seen") -> Discard;'
    with Router.from_click(text, virtual=True) as made:
        made.output = io.StringIO()
        yield made


def listen(router: Router, greeted: bool = True) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", int(router.read("c.port"))), timeout=10)
    if greeted:
        assert take(made, len(GREETING)) == GREETING
    return made


def take(connection: socket.socket, count: int) -> bytes:
    """So many bytes, or what comes before the end."""
    found = b""
    while len(found) < count and (data := connection.recv(count - len(found))):
        found += data
    return found


def test_everybody_hears_everything(router: Router) -> None:
    with listen(router) as a, listen(router) as b:
        router.say("one")
        router.feed("in0", [b"\1\2"])
        router.run()
        want = b"one\nseen:    2 | 0102\n"
        assert take(a, len(want)) == take(b, len(want)) == want
    assert router.output.getvalue().encode() == want, "standard error has it, too"


def test_what_was_said_before_is_not_told(router: Router) -> None:
    router.say("before")
    with listen(router) as a:
        router.say("after \udcff")
        assert take(a, 8) == b"after \xff\n"


def test_the_end_of_the_router_ends_the_connection() -> None:
    router = Router.from_click(TCP)
    router.output = io.StringIO()
    with listen(router) as a:
        router.say("last")
        router.close()
        assert take(a, 100) == b"last\n"
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", router.elements["c"].opening.address.port), timeout=10)


@pytest.mark.parametrize("router", ["c :: ChatterSocket(TCP, 0, GREETING false);"], indirect=True)
def test_without_greeting(router: Router) -> None:
    with listen(router, greeted=False) as a, listen(router, greeted=False) as b:
        # What a listener sends is thrown away; that it is answered by nothing shows that it has come in.
        a.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert any(len(router.control._chatters[0].listeners) == 2 or time.sleep(0.001) for _ in range(10_000))
        router.say("x")
        assert take(a, 2) == take(b, 2) == b"x\n"


def test_who_does_not_listen_is_dropped_and_holds_up_nobody(router: Router) -> None:
    with listen(router) as slow, listen(router) as quick:
        text = "y" * 9_999
        for _ in range(2_000):
            router.say(text)
            assert take(quick, 10_000) == text.encode() + b"\n"
        assert len(router.control._chatters[0].listeners) == 1
        slow.settimeout(10)
        assert len(take(slow, 20_000_000)) < 20_000_000, "the rest was not kept for it"


def test_listeners_come_and_go(router: Router) -> None:
    for _ in range(20):
        with listen(router):
            pass
    many = [listen(router) for _ in range(LISTENERS - 20)]
    router.say("z")
    assert all(take(one, 2) == b"z\n" for one in many)
    for one in many:
        one.close()


def test_a_unix_socket_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "chatter"
    with Router.from_click(f"ChatterSocket(UNIX, {path});") as router:
        router.output = io.StringIO()
        assert stat.S_IMODE(os.lstat(path).st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as a:
            a.settimeout(10)
            a.connect(str(path))
            assert take(a, len(GREETING)) == GREETING
            router.say("hi")
            assert take(a, 3) == b"hi\n"
    assert not path.exists()


def test_a_taken_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(MezzoError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            Router.from_click(f"ChatterSocket(TCP, {port});")
        with Router.from_click(f"c :: ChatterSocket(TCP, {port}+);") as router:
            assert port < int(router.read("c.port")) <= port + 10


@pytest.mark.slow
@pytest.mark.parametrize("freed", [True, False])
def test_it_tries_again(freed: bool) -> None:
    other = socket.create_server(("127.0.0.1", 0))
    port = other.getsockname()[1]
    with Router.from_click(f"c :: ChatterSocket(TCP, {port}, RETRIES 1); RatedSource(RATE 1) -> Discard;") as router:
        router.output = io.StringIO()
        if freed:
            other.close()
            router.run(until=lambda: router.elements["c"].opening.open, seconds=10)
            listen(router).close()
        else:
            assert router.run(seconds=10) == "stopped"
            assert "Address already in use" in router.failures[0]
    other.close()


@pytest.mark.parametrize(
    ("arguments", "trouble"),
    [
        ("TCP", "PLACE is missing"),
        ("SOCKET, 5", "one of TCP, UNIX"),
        ("TCP, 99999", "is no TCP port"),
        ("UNIX, " + "x" * 200, "no name of a UNIX socket"),
        ("TCP, 0, CHANNEL loud", "unknown keyword CHANNEL"),
    ],
)
def test_troubles(arguments: str, trouble: str) -> None:
    with pytest.raises(MezzoError, match=trouble):
        Router.from_click(f"ChatterSocket({arguments});")
