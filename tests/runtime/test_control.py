"""The control socket: what clients are answered, and what they cannot do to a router or to each other."""

from __future__ import annotations

import io
import os
import random
import resource
import socket
import stat
import struct
import sys
import threading

import pytest

from mezzo.base import MezzoError
from mezzo.elements import Element, library, read, write
from mezzo.elements.element import Handler
from mezzo.runtime import Router, control, control_server, gently
from mezzo.runtime.handlers import CHANGES, GLOBAL
from tests.runtime.controlled import Talker, running, talking

targets = pytest.mark.parametrize("target", ["python", "native"])
SOCKET = "k :: ControlSocket(TCP, 0);"
COUNTED = f"{SOCKET} InfiniteSource(LIMIT 5) -> c :: Counter -> q :: Queue -> Discard;"


@library.register
class Moody(Element):
    """Handlers that fail in every way, warn, and keep what they are given."""

    ports, processing = "0/0", ""
    kept = ""

    @read("bug")
    def bug(self):
        raise RuntimeError("a bug of ours\r\n200 not an answer")

    @read("wrong")
    def wrong(self):
        raise ValueError("nothing to read")

    @write("bug")
    def write_bug(self, text):
        raise KeyError(text)

    @write("disk")
    def disk(self, text):
        raise OSError(28, "No space left on device")

    @write("warn")
    def warned(self, text):
        self.warn(f"{text} is odd\nvery odd")

    @write("keep")
    def keep(self, text):
        self.kept = text

    @read("kept", param=True)
    def give(self, text):
        return self.kept + text

    def other_handler(self, name):
        return Handler(name, read=lambda e, text: f"{name} of another") if "." in name else None


# -- Ho01, Ho02


@targets
def test_transcript_ho01(target):
    """Ho01."""
    with running(COUNTED, target=target) as router, talking(router) as talker:
        while talker.ask("READ c.count") != (200, b"5"):
            pass
        assert talker.ask("READ c.count") == (200, b"5")
        assert talker.ask("read c.count", b"\r\n") == (200, b"5")
        for command, code in (
            ("READ c.nothing", 511),
            ("READ nothing.count", 510),
            ("READ nothing", 511),
            ("WRITE c.count 5", 530),
            ("READ stop", 530),
            ("FOO", 501),
            ("READ", 500),
            ("CHECKWRITE c.count", 511),
            ("CHECKREAD c.count", 200),
            ("CHECKWRITE q.capacity", 200),
            ("WRITE q.capacity 7", 200),
            ("LLRPC c#1", 501),
            ("LLRPC c#xyz", 500),
            ("LLRPC x#1", 510),
            ("HELP", 200),
        ):
            assert talker.ask(command)[0] == code, command
        talker.send(b"WRITE q.capacity abc\n")
        lines = [talker.file.readline() for _ in range(2)]
        assert lines[0] == b"520-Write handler 'q.capacity' error:\r\n" and lines[1].startswith(b"520 ")
        assert talker.ask("QUIT")[0] == 200 and talker.rest() == b""


@targets
def test_raw_data_with_newlines_ho02(target):
    """Ho02."""
    text = f"{SOCKET} rt :: RadixIPLookup(0/0 0); Idle -> rt -> Discard; rt[1] -> Discard;"
    lines = b"add 10.0.0.0/8 1\nadd 11.0.0.0/8 1\n"
    with running(text, target=target) as router, talking(router) as talker:
        talker.send(
            b"WRITEDATA rt.ctrl %d\r\n" % len(lines) + lines + b"WRITEUNTIL rt.ctrl EOF\r\nadd 12.0.0.0/8 1\r\nEOF\r\n"
        )
        assert talker.answer()[0] == talker.answer()[0] == 200
        table = talker.ask("READ rt.table")[1]
        assert all(prefix in table for prefix in (b"10.0.0.0/8", b"11.0.0.0/8", b"12.0.0.0/8"))
        assert talker.ask(b"READDATA rt.lookup 8\n10.0.0.1")[1].strip() == b"1"
        assert talker.ask(b"READUNTIL rt.lookup\n10.0.0.1\n")[1].strip() == b"1"


def test_a_batch_is_all_or_nothing():
    text = f"{SOCKET} rt :: RadixIPLookup(0/0 0); Idle -> rt -> Discard; rt[1] -> Discard;"
    with running(text) as router, talking(router) as talker:
        before = talker.ask("READ rt.table")
        for wrong in (b"add 1.0.0.0/8 9", b"add 1.0.0.0/8", b"remove 3.0.0.0/8", b"\xff\x00", b"add 2.0.0.0/8 1"):
            batch = b"add 2.0.0.0/8 1\n" + wrong + b"\n"
            assert talker.ask(b"WRITEDATA rt.ctrl %d\n" % len(batch) + batch, b"")[0] == 520, wrong
            assert talker.ask("READ rt.table") == before


def test_bytes_of_any_kind_come_through():
    every = bytes(range(256)) + "grüße".encode()
    with running(f"{SOCKET} m :: Moody;") as router, talking(router) as talker:
        assert talker.ask(b"WRITEDATA m.keep %d\n" % len(every) + every, b"")[0] == 200
        assert talker.ask("READ m.kept") == (200, every)
        assert talker.ask(b"READDATA m.kept 4\n\r\n\0\xff", b"") == (200, every + b"\r\n\0\xff")
        assert talker.ask("WRITE m.keep  a  b ")[0] == 200 and talker.ask("READ m.kept") == (200, b"a  b")


def test_handlers_that_fail_say_so_and_the_router_goes_on(capsys):
    with running(f"{SOCKET} m :: Moody;") as router, talking(router) as talker:
        code, text = talker.ask("READ m.bug")
        assert code == 590 and b"RuntimeError" in text and b"\\x0d" not in text
        assert talker.ask("READ m.wrong") == (590, b"Read handler 'm.wrong' error:\nnothing to read")
        assert talker.ask("WRITE m.bug x")[0] == 590
        assert talker.ask("WRITE m.disk x") == (
            520,
            b"Write handler 'm.disk' error:\n[Errno 28] No space left on device",
        )
        assert talker.ask("WRITE m.warn it") == (220, b"Write handler 'm.warn' OK with warnings:\nit is odd\nvery odd")
        assert talker.ask("READ m.kept") == (200, b"")
    assert "KeyError" in capsys.readouterr().err


def test_names_of_click_are_known():
    with running(COUNTED) as router, talking(router) as talker:
        assert talker.ask("READ list")[1].startswith(b"4\nk\n") or talker.ask("READ list")[1].startswith(b"5\n")
        assert talker.ask("READ .version") == talker.ask("READ 0.version") == talker.ask("GET version")
        assert talker.ask("READ 1.name") == (200, b"k")
        assert talker.ask("READ k.port") == (200, str(router.elements["k"].opening.address.port).encode())


# -- who may do what


def test_readonly():
    text = "k :: ControlSocket(TCP, 0, READONLY true); q :: Queue; Idle -> q -> Discard;"
    with running(text) as router, talking(router) as talker:
        assert talker.ask("READ q.capacity")[0] == 200
        assert talker.ask("WRITE q.capacity 5")[0] == talker.ask("CHECKWRITE q.capacity")[0] == 530
        assert talker.ask("WRITE stop")[0] == 530


def test_token():
    with running("k :: ControlSocket(TCP, 0, TOKEN 0123456789); q :: Queue; Idle -> q -> Discard;") as router:
        with talking(router) as talker:
            for command in ("READ q.length", "WRITE stop", "CHECKREAD q.length", "LLRPC q#1", "FOO"):
                assert talker.ask(command)[0] == 530
            assert talker.ask("HELP")[0] == 200 and talker.ask("TOKEN 0123456789")[0] == 200
            assert talker.ask("WRITE q.capacity 5")[0] == 200
            assert b"0123456789" in talker.ask("READ config")[1]
        with talking(router) as talker:
            assert talker.ask("TOKEN 0123456788")[0] == 530 and talker.rest() == b""


def test_a_token_beside_readonly_is_for_writing_and_is_not_told():
    text = "k :: ControlSocket(TCP, 0, READONLY true, TOKEN 0123456789); q :: Queue; Idle -> q -> Discard;"
    with running(text) as router, talking(router) as talker:
        for command in ("READ config", "READ flatconfig", "READ k.config", "READ 0123456789.x"):
            assert b"0123456789" not in talker.ask(command)[1], command
        assert talker.ask("WRITE q.capacity 5")[0] == 530
        assert talker.ask("TOKEN 0123456789")[0] == 200
        assert talker.ask("WRITE q.capacity 5")[0] == 200


def test_who_may_only_read_finds_no_token_of_another_socket():
    text = "k :: ControlSocket(TCP, 0, READONLY true); w :: ControlSocket(TCP, 0, TOKEN 0123456789); Idle -> Discard;"
    with running(text) as router:
        for command in ("READ config", "READ flatconfig", "READ w.config", "READ 0123456789.x"):
            with talking(router) as talker:
                assert b"0123456789" not in talker.ask(command)[1], command
        with talking(router, "w") as talker:
            assert talker.ask("TOKEN 0123456789")[0] == 200
            assert b"0123456789" in talker.ask("READ w.config")[1]


@pytest.mark.parametrize(
    "words, said",
    [
        ("TCP, 7777, LOCALHOST false", "READONLY"),
        ("TCP, 7777, TOKEN short", "TOKEN"),
        ('TCP, 7777, TOKEN "with quotes"', "TOKEN"),
        ("TCP, 70000", "TCP port"),
        ("TCP, x", "TCP port"),
        ("TCP", "TCP, PORT"),
        ("TCP, 1, FILENAME x", "FILENAME"),
        ("UNIX, " + "x" * 200, "107 bytes"),
        ("SOCKET, x", "descriptor"),
        ("SOCKET, 12345", "Bad file descriptor"),
        ("BOGUS, 1", "one of TCP"),
        ("TCP, 0, PROXY nobody", "nobody"),
        ("UNIX, /nowhere/at/all", "No such file"),
    ],
)
def test_what_cannot_be_is_told(words, said):
    with pytest.raises(MezzoError) as caught:
        Router.from_click(f"ControlSocket({words});", target="python")
    assert said in str(caught.value.diagnostics[0].render())


def test_a_unix_socket_is_its_owners_alone(tmp_path):
    path = tmp_path / "s"
    with running(f"k :: ControlSocket(UNIX, {path});") as router:
        assert stat.S_IMODE(path.lstat().st_mode) == 0o600
        with talking(router) as talker:
            assert talker.ask("READ k.filename") == (200, str(path).encode())
        with pytest.raises(MezzoError, match="in use"):
            Router.from_click(f"ControlSocket(UNIX, {path});", target="python")
        with talking(router) as talker:
            assert talker.ask("READ k.name")[0] == 200
    assert not path.exists()


def test_only_a_dead_socket_is_replaced(tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with running(f"k :: ControlSocket(UNIX, {path});") as router, talking(router) as talker:
        assert talker.ask("READ k.name")[0] == 200
        path.unlink()
        path.write_text("another's")
    assert path.read_text() == "another's"
    with pytest.raises(MezzoError, match="in use"):
        Router.from_click(f"ControlSocket(UNIX, {path});", target="python")
    assert path.read_text() == "another's"


def test_a_web_page_can_post_nothing():
    with running(COUNTED) as router:
        for head in (b"POST / HTTP/1.1\r\nHost: x\r\n\r\nWRITE stop\r\n", b"GET / HTTP/1.1\r\n\r\nWRITE stop\r\n"):
            with talking(router) as talker:
                talker.send(head)
                assert talker.answer()[0] == 501 and talker.rest() == b""
        with talking(router) as talker:
            assert talker.ask("READ c.count")[0] == 200


# -- other sockets


def test_a_connection_or_a_listener_by_descriptor():
    ours, theirs = socket.socketpair()
    text = f"ControlSocket(SOCKET, {theirs.detach()}); q :: Queue; Idle -> q -> Discard;"
    with running(text), Talker(ours) as talker:
        assert talker.greet().ask("READ q.length") == (200, b"0")
    with socket.create_server(("127.0.0.1", 0)) as made:
        port, fd = made.getsockname()[1], os.dup(made.fileno())
    with running(f"ControlSocket(SOCKET, {fd}); q :: Queue; Idle -> q -> Discard;"), Talker(port) as talker:
        assert talker.greet().ask("READ q.length") == (200, b"0")


def test_the_next_port_that_is_free():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        if port > 65500:
            port = 65000
        with running(f"k :: ControlSocket(TCP, {port}+);") as router, talking(router) as talker:
            assert port < int(talker.ask("READ k.port")[1]) <= port + 10


def test_a_taken_port_is_tried_again(monkeypatch, capsys):
    monkeypatch.setattr(control, "RETRY_S", 0.02)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MezzoError, match="in use"):
            Router.from_click(f"ControlSocket(TCP, {port});", target="python")
        with Router.from_click(f"k :: ControlSocket(TCP, {port}, RETRIES 3);", target="python") as router:
            assert router.run() == "stopped" and router.failures
    assert "3 tries left" in capsys.readouterr().err
    taken = socket.create_server(("127.0.0.1", port))
    with running(f"k :: ControlSocket(TCP, {port}, RETRIES 1000, RETRY_WARNINGS false);") as router:
        taken.close()
        while not router.control.facts()["addresses"]:
            pass
        with talking(router) as talker:
            assert talker.ask("READ k.name")[0] == 200


def test_proxy():
    with running("k :: ControlSocket(TCP, 0, PROXY m); m :: Moody;") as router, talking(router) as talker:
        assert talker.ask("READ far.count") == (200, b"far.count of another")
        assert talker.ask("READ kept") == (200, b"")
        assert talker.ask("READ nothing")[0] == 511


def test_sockets_of_the_command_line_come_and_go_with_the_router():
    from mezzo.elements.control_address import Opening, tcp

    with running("q :: Queue; Idle -> q -> Discard; k :: ControlSocket(TCP, 0);") as router:
        port = router.control.open(Opening(tcp("0"), "-p 0")).address.port
        with Talker(port) as talker:
            assert talker.greet().ask("READ q.length") == (200, b"0")
        assert len(router.control.facts()["addresses"]) == 2
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


# -- another configuration


def test_what_takes_long_holds_up_only_who_asked(monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def slow(router, text):
        begun.set()
        assert go_on.wait(10)
        if text == "wrong":
            raise ValueError("no\nnot so")

    monkeypatch.setitem(GLOBAL, "slow", Handler("slow", write=slow))
    monkeypatch.setitem(CHANGES, "slow", slow)
    with running(COUNTED) as router, talking(router) as talker, talking(router) as other, talking(router) as last:
        talker.send(b"WRITE .slow well\nREAD c.class\n")
        assert begun.wait(10)
        last.send(b"WRITE slow wrong")
        last.socket.shutdown(socket.SHUT_WR)
        assert other.ask("READ c.count")[0] == other.ask("READ c.class")[0] == 200
        talker.send(b"READ c.name\n")
        go_on.set()
        assert [talker.answer()[0], talker.answer(), talker.answer()] == [200, (200, b"Counter"), (200, b"c")]
        assert last.rest() == b"520-Write handler 'slow' error:\r\n520-no\r\n520 not so\r\n"


def heir_of(element, words):
    """A ControlSocket that takes the place of another one, as a reload makes it."""
    made = type(element)(name=element.name)
    assert not made.setup(words, element.env)
    made.router = element.router
    made.initialize_after(element)
    made.moved(element)
    element.cleanup()
    return made


def test_a_socket_stays_open_when_its_rights_change():
    text = f"{SOCKET} TimedSource(1) -> c :: Counter -> q :: Queue -> Discard;"  # it runs without a socket, too
    with running(text) as router, talking(router) as talker:
        element = router.elements["k"]
        assert talker.ask("WRITE q.capacity 5")[0] == talker.ask("READ c.count")[0] == 200
        heir = heir_of(element, ["TCP", "0", "READONLY true"])
        assert heir.opening.address == element.opening.address
        while talker.ask("WRITE q.capacity 5")[0] != 530:
            pass
        router.elements["k"] = heir
        with talking(router) as another:
            assert another.ask("WRITE q.capacity 5")[0] == 530 and another.ask("READ c.count")[0] == 200
        last = router.elements["k"] = heir_of(heir, ["TCP", "0", "TOKEN 0123456789"])
        while talker.ask("READ c.count")[0] != 530:
            pass
        assert talker.ask("TOKEN 0123456789")[0] == talker.ask("READ c.count")[0] == 200
        last.cleanup()
        assert talker.rest() == b"" and not router.awaited
        with pytest.raises(ConnectionRefusedError):
            Talker(last.opening.address.port)


def test_clients_stay_connected_when_the_configuration_changes():
    with running(COUNTED) as router, talking(router) as talker:
        router.reconfigurable = True
        port = talker.ask("READ k.port")[1]
        text = "k :: ControlSocket(TCP, 0, READONLY true); InfiniteSource(LIMIT 5) -> d :: Counter -> Discard;"
        assert talker.ask("READ c.count")[0] == 200
        assert talker.ask(f"WRITEDATA hotconfig {len(text)}\n{text}", b"")[0] == 200
        assert talker.ask("READ d.count")[0] == 200 and talker.ask("READ c.count")[0] == 510
        assert talker.ask("READ k.port") == (200, port) and talker.ask("WRITE stop")[0] == 530
        with talking(router) as another:
            assert another.ask("READ config") == (200, text.encode())


def test_another_address_is_another_socket(tmp_path):
    with running(f"k :: ControlSocket(UNIX, {tmp_path / 'a'}); q :: Queue; Idle -> q -> Discard;") as router:
        element = router.elements["k"]
        with talking(router) as talker:
            router.elements["k"] = heir_of(element, ["UNIX", str(tmp_path / "b")])
            assert talker.rest() == b""
        assert [path.name for path in tmp_path.iterdir()] == ["b"] and router.awaited == {"k"}
        with talking(router) as talker:
            assert talker.ask("READ q.length") == (200, b"0")


# -- when


@pytest.mark.parametrize("options", [{}, {"virtual": True}, {"threads": 2}, {"target": "python"}], ids=str)
def test_a_busy_router_answers_and_an_idle_one_waits(options):
    for source in ("InfiniteSource", "InfiniteSource(LIMIT 5)", "TimedSource(1000)"):
        text = f"{SOCKET} {source} -> c :: Counter -> q :: Queue -> Unqueue -> Discard;"
        with running(text, **options) as router, talking(router) as talker:
            assert talker.ask("WRITE q.reset_counts")[0] == 200
            assert talker.ask("READ c.count")[0] == 200 and talker.ask("READ c.handlers")[0] == 200
            assert talker.ask("WRITE stop")[0] == 200


def test_a_request_calls_a_busy_loop_back():
    """It does not wait for the end of the slice that the loop runs."""
    with running("InfiniteSource -> c :: Counter -> q :: Queue -> Unqueue -> Discard;") as router:
        for _ in range(200):
            router.read("c.handlers")
    with Router.from_click("InfiniteSource -> c :: Counter -> Discard;") as router:
        assert router.run(rounds=1000) == "rounds"
        count = int(router.read("c.count"))
        ran = router.engine.cells[0]["rounds"].value
        threading.Thread(target=lambda: router.post(lambda: None)).start()
        assert router.run(rounds=100_000) == "rounds"
        assert router.engine.cells[0]["rounds"].value - ran == 100_000 and int(router.read("c.count")) > count


def test_plain_reads_are_those_of_the_handler():
    with Router.from_click(COUNTED) as router:
        router.run(0.01)
        assert router.read("c.count") == router.read("c.count") == router.handlers.read("c.count") == "5"
        assert router.handlers.plain("q.length") is None
        before = router.handlers.kept
        router.handlers.forget()  # who holds `before` in the middle of `plain` keeps nothing of these elements
        assert "c.count" in before and router.handlers.kept == {} and router.read("c.count") == "5"
    with pytest.raises(MezzoError, match="closed"):
        router.read("c.count")


def test_what_a_client_sends_while_the_router_starts_waits(tmp_path):
    """Ho08: whoever asks too early is told, and a client of the socket need not know."""
    found = []

    @library.register
    class Early(Element):
        """Asks before the router is ready."""

        ports, processing = "0/0", ""

        def initialize(self):
            for path in ("q.length", "q.reset"):
                with pytest.raises(MezzoError, match="not ready"):
                    self.router.read(path)
            found.append(Talker(str(tmp_path / "s")))
            found[0].send(b"READ q.capacity\n")

    text = f"ControlSocket(UNIX, {tmp_path / 's'}); Early; Idle -> q :: Queue -> Discard;"
    with running(text):
        assert found[0].greet().answer() == (200, b"1000")
        found[0].close()


def test_the_interpreter_changes_hands_often_while_somebody_serves():
    before = sys.getswitchinterval()
    with Router.from_click("ControlSocket(TCP, 0);", target="python"):
        with Router.from_click("ControlSocket(TCP, 0);", target="python"):
            assert sys.getswitchinterval() == pytest.approx(gently.SWITCH_S)
        assert sys.getswitchinterval() == pytest.approx(gently.SWITCH_S)
    assert sys.getswitchinterval() == pytest.approx(before)


# -- many, slow, silent, hostile


def test_hundreds_of_clients():
    with running(COUNTED) as router:
        talkers = [Talker(router.elements["k"].opening.address.port) for _ in range(300)]
        try:
            for talker in talkers:
                talker.send(b"READ c.count\nREAD q.capacity\n")
            for talker in talkers:
                assert talker.greet().answer()[0] == 200 and talker.answer() == (200, b"1000")
        finally:
            for talker in talkers:
                talker.close()


def test_too_many_clients_are_told(monkeypatch):
    monkeypatch.setattr(control_server, "CLIENTS", 2)
    with running(COUNTED) as router, talking(router) as one, talking(router):
        with talking(router) as third:
            assert b"590" in third.rest()
        assert one.ask("READ c.count")[0] == 200


def test_who_takes_no_answers_is_not_read_from_and_dropped(monkeypatch):
    monkeypatch.setattr(control_server, "STALL_S", 0.0)
    monkeypatch.setattr(control_server, "MOST_OUT", 1 << 16)
    with running(f"{COUNTED} m :: Moody;") as router, talking(router) as other:
        server = router.control._server
        other.ask(b"WRITEDATA m.keep 100000\n" + bytes(100_000), b"")
        slow = Talker(router.elements["k"].opening.address.port).greet()
        slow.socket.setblocking(False)
        sent = 0
        with pytest.raises(OSError):  # it blocks, and later the connection is gone
            while sent < 1 << 30:
                try:
                    sent += slow.socket.send(b"READ m.kept\n" * 1000)
                except BlockingIOError:
                    assert other.ask("READ c.count")[0] == 200
                assert all(
                    len(c.out) < 10 << 20 and c.session.parser.held < 1 << 20 for c in [*server.clients.values()]
                )
        slow.close()
        assert other.ask("READ c.count")[0] == 200


def test_who_shows_no_token_is_dropped(monkeypatch):
    monkeypatch.setattr(control_server, "TOKEN_S", 0.0)
    with running("k :: ControlSocket(TCP, 0, TOKEN 0123456789);") as router, talking(router) as talker:
        assert talker.rest() == b""


def test_clients_that_are_gone_at_once(capsys):
    with running(f"k :: ControlSocket(TCP, 0, VERBOSE true); {COUNTED.removeprefix(SOCKET)}") as router:
        address = "127.0.0.1", router.elements["k"].opening.address.port
        for last_words in (b"", b"READ c.count\n", b"READ c.handlers\n" * 100):
            for _ in range(20):
                with socket.create_connection(address) as gone:
                    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                    gone.sendall(last_words)
        with talking(router) as talker:
            assert talker.ask("READ c.count")[0] == 200
    assert "Traceback" not in capsys.readouterr().err


def test_commands_of_all_together_are_bounded(monkeypatch):
    monkeypatch.setattr(control_server, "MOST_HELD", 300_000)
    with running(f"{SOCKET} m :: Moody;") as router, talking(router) as one, talking(router) as two:
        one.send(b"WRITEDATA m.keep 1000000\n" + bytes(250_000))
        two.send(b"WRITEDATA m.keep 1000000\n" + bytes(1_000_000))
        assert two.answer()[0] == 521
        assert two.ask("READ m.kept") == (200, b"")
        one.send(bytes(750_000))
        assert one.answer()[0] in (200, 521)
        assert one.ask("READ m.name")[0] == 200
        assert router.control._server._held == 0


def test_descriptors_run_out_and_come_back(monkeypatch):
    monkeypatch.setattr(control_server, "PAUSE_S", 0.01)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with running(COUNTED) as router, talking(router) as talker:
        other = socket.socket()
        highest = max(int(fd) for fd in os.listdir("/proc/self/fd"))
        fillers = [os.dup(other.fileno()) for _ in range(highest - len(os.listdir("/proc/self/fd")) + 2)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(f) for f in os.listdir("/proc/self/fd")), hard))
            other.connect(("127.0.0.1", router.elements["k"].opening.address.port))
            for _ in range(20):
                assert talker.ask("READ c.count")[0] == 200
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for filler in fillers:
                os.close(filler)
        with Talker(other) as late:
            assert late.greet().ask("READ c.count")[0] == 200


def test_a_door_may_be_shut_while_it_rests():
    with Router.from_click("k :: ControlSocket(TCP, 0); Idle -> Discard;") as router:
        router.output = io.StringIO()
        server = router.control._server
        (door,) = server.doors
        server.do(lambda: (server._rest(door), server.shut(door), server._timers.pop()[1]()))
        done = threading.Event()
        server.do(done.set)
        assert done.wait(10) and not server.doors
        assert router.output.getvalue() == ""


def test_who_asks_little_does_not_wait_for_all_who_ask_much(monkeypatch):
    """A round ends after ROUND_S, and goes on where it was."""
    monkeypatch.setattr(control_server, "ROUND_S", 0)
    with Router.from_click("k :: ControlSocket(TCP, 0); Idle -> Discard;", target="python") as router:
        server, turns = router.control._server, []
        again = lambda client: (turns.append(client), server._ready.update({client: client}))  # noqa: E731
        monkeypatch.setattr(server, "_turn", again)
        server._ready = {name: name for name in "abc"}
        for _ in range(4):
            server._go_round()
        assert turns == ["a", "b", "c", "a"]


def test_a_client_that_says_no_more_is_answered_to_the_end():
    with running(COUNTED) as router, talking(router) as talker:
        talker.send(b"READ c.name\n" * 500 + b"READ c.class")
        talker.socket.shutdown(socket.SHUT_WR)
        assert talker.rest().count(b"200 Read") == 501


STORMED = f"""{SOCKET} StaticThreadSched(s 0, u 1); s :: InfiniteSource -> SetIPAddress(10.0.0.1) -> q :: Queue
    -> u :: Unqueue -> rt :: RadixIPLookup(0/0 0) -> c :: Counter -> Discard; rt[1] -> Discard;"""
STORM = (
    "WRITE q.capacity {k}", "READ c.count", "READ q.length", "WRITE rt.set 10.0.{k}.0/24 {b}", "READ rt.table",
    "WRITE q.reset", "READ drops", "WRITE u.scheduled true", "READ conservation",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_storm_of_commands_while_packets_flow(threads):
    """Several clients change queues and routes of a router that forwards; all are answered, and no packet is lost."""
    codes: list[int] = []

    def storm(seed: int, router: Router) -> None:
        chance = random.Random(seed)
        with talking(router) as talker:
            for _ in range(80):
                command = chance.choice(STORM).format(k=chance.randrange(1, 200), b=chance.randrange(2))
                codes.append(talker.ask(command)[0])

    with running(STORMED, threads=threads) as router:
        clients = [threading.Thread(target=storm, args=(seed, router)) for seed in range(3)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(60)
        assert codes == [200] * 240 and router.conservation().balanced and router.elements["c"].count


HOSTILE = (b"", b"-1", b"9" * 30, b"\xff\xfe", b"nan", b"1e400", b"../../etc/passwd", b"%s%n", b"\0", b"x" * 5000)
VERBS = (b"READ", b"WRITE", b"READDATA", b"WRITEDATA", b"WRITEUNTIL", b"CHECKREAD", b"LLRPC")
NOISY = f"""{SOCKET} RatedSource(RATE 1000) -> c :: Counter -> q :: Queue(10) -> u :: Unqueue
    -> p :: Print(ACTIVE false) -> rt :: RadixIPLookup(0/0 0) -> Discard; rt[1] -> Discard;"""


def test_noise_harms_nobody():
    """Random bytes, and hostile values for every handler; the router then still answers, and accounts agree."""
    chance = random.Random(5)
    with running(NOISY) as router, talking(router) as witness:
        paths = [f"{e}.{h}" for e in ("c", "q", "u", "p", "rt") for h in router.handlers.table(router.elements[e])]
        paths += ["7.name", "9999999999999.x", ".list", "drops", "conservation", "", "c.", "."]
        for _ in range(60):
            with talking(router) as talker:
                for _ in range(20):
                    words = [chance.choice(VERBS), chance.choice(paths).encode(), chance.choice(HOSTILE)]
                    talker.send(b" ".join(words) + b"\n")
                talker.send(chance.randbytes(chance.randrange(200)))
                if chance.random() < 0.5:
                    talker.socket.shutdown(socket.SHUT_WR)
                    talker.rest()
        assert witness.ask("READ c.count")[0] == 200
        assert router.conservation().balanced
