"""What goes wrong around a port: names, clocks, small arenas, a child that was forked meanwhile."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.ports import Fault, MemoryPort, _attach
from mezzo.runtime import Router
from mezzo.runtime.device import connect
from tests.ports.netlab import Pair, inside, ip, namespace, raw_socket, run_in, veth_pair, wait_until

rooted = pytest.mark.needs_root


def refusal(text: str, **options: object) -> str:
    """What is said of a configuration that cannot be."""
    with pytest.raises(MezzoError) as trouble:
        Router.from_click(text, **options).close()  # type: ignore[arg-type]
    return str(trouble.value)


@pytest.mark.parametrize("path", ["/nonexistent/x.pcap", "/dev/full"])
def test_a_capture_that_cannot_be_written_is_named(path: str) -> None:
    said = refusal(f"InfiniteSource(LIMIT 1) -> ToDevice({path}, METHOD PCAP);")
    assert f"ToDevice: cannot write the capture `{path}`: No s" in said and "TRACE" not in said


def test_threads_have_frames_for_their_lists() -> None:
    """Else a thread that only sends could keep the only frame, and one that receives wait for ever."""
    said = refusal("FromDevice(m, METHOD MEMORY) -> Queue -> ToDevice(m);", threads=2, frames=7)
    assert said == "an arena of 7 frames for 2 threads: give 8 or more"


@rooted
def test_a_virtual_clock_does_not_wait_for_a_wire(pair: Pair) -> None:
    with inside(pair.a.ns):
        said = refusal(f"FromDevice({pair.a.name}, METHOD PACKET) -> Discard;", virtual=True)
    assert f"`{pair.a.name}` is read and written in real time" in said and "leave the virtual clock out" in said
    with Router.from_click("FromDevice(m, METHOD MEMORY) -> Discard;", virtual=True) as router:
        assert router.run() == "done"


@rooted
def test_tap_names_that_are_taken(pair: Pair) -> None:
    with inside(pair.a.ns):
        said = refusal(f"FromDevice({pair.a.name}, METHOD TAP) -> Discard;")
        assert "a tap device: there is an interface of that name already, and it is no tap (veth)" in said
        with Router.from_click("FromDevice(tap0, METHOD TAP) -> Discard;"):
            assert "tap0: a tap device: it is in use" in refusal("FromDevice(tap0, METHOD TAP) -> Discard;")


@rooted
def test_a_queue_that_is_not_there(pair: Pair) -> None:
    with inside(pair.a.ns):
        said = refusal(f"FromDevice({pair.a.name}, METHOD XDP, QUEUE 5) -> Discard;")
    assert f"{pair.a.name} has no queue 5" in said and "it has one, which is queue 0" in said


@rooted
@pytest.mark.slow
def test_a_port_where_nothing_arrives_leaves_frames_to_the_others(pair: Pair) -> None:
    """64 frames and two AF_XDP ports: a thousand packets come by one of them, none by the other."""
    with namespace() as c, veth_pair(pair.a.ns, c) as other:
        text = f"FromDevice({other.a.name}, METHOD XDP) -> Discard; f :: FromDevice({pair.a.name}, METHOD XDP)"
        with inside(pair.a.ns):
            router = Router.from_click(f"{text} -> c :: Counter -> Discard;", frames=64)
        with router, raw_socket(pair.b) as sender:
            for _ in range(250):
                for _ in range(4):
                    sender.send(bytes(60))
                router.run(rounds=20)
            assert router.run(seconds=5, until=lambda: router.read("c.count") == "1000") == "until"
            assert router.conservation().balanced


@rooted
@pytest.mark.slow
def test_a_forked_child_does_not_keep_the_program(pair: Pair) -> None:
    """It inherits the descriptor of the link; the program and the switches go with the router all the same."""
    look = ["ethtool", "-k", pair.b.name]
    before = run_in(pair.b.ns, look).stdout
    with inside(pair.a.ns):
        router = Router.from_click(f"FromDevice({pair.a.name}, METHOD XDP) -> Discard;")
        assert _attach.attached_to(socket.if_nametoindex(pair.a.name))
        heirs = [n for n in map(int, os.listdir("/proc/self/fd")) if n > 2 and os.path.exists(f"/proc/self/fd/{n}")]
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=heirs)
        try:
            router.close()
            assert _attach.attached_to(socket.if_nametoindex(pair.a.name)) == []
            assert run_in(pair.b.ns, look).stdout == before
        finally:
            child.communicate()


@contextmanager
def forked(job: Callable[[], None] = lambda: None) -> Iterator[None]:
    """A child by fork alone, which does a job (without an exception) and stays until the block ends."""
    (told, tell), (ended, end) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            job()
            os.write(tell, b"+")
        os.close(tell)
        os.close(end)
        os.read(ended, 1)
        os._exit(0)
    os.close(tell)
    try:
        assert os.read(told, 1) == b"+"
        yield
    finally:
        os.close(end)
        os.waitpid(child, 0)
        os.close(told)
        os.close(ended)


KEPT = {"XDP": "{name}", "XDP, PROMISC true": "{name}", "PACKET, PROMISC true": "{name}", "TAP": "forked0"}


@rooted
@pytest.mark.slow
@pytest.mark.parametrize("method", KEPT)
def test_a_child_by_fork_alone_keeps_nothing_of_a_port(pair: Pair, method: str) -> None:
    """Whether the router goes on, or ends: then all is free at once."""
    name = KEPT[method].format(name=pair.a.name)
    text = f"f :: FromDevice({name}, METHOD {method}) -> c :: Counter -> Discard; Idle -> ToDevice({name});"
    with inside(pair.a.ns), raw_socket(pair.b) as sender:
        router = Router.from_click(text, target="python")
        with forked(router.close):
            if name == pair.a.name:
                sender.send(bytes(60))
                assert router.run(seconds=5, until=lambda: router.read("c.count") == "1") == "until"
        with forked():
            router.close()
            if name == pair.a.name:
                assert _attach.attached_to(socket.if_nametoindex(name)) == []
                assert "promiscuity 0" in run_in("", ["ip", "-d", "link", "show", name]).stdout
            else:
                assert not os.path.exists(f"/sys/class/net/{name}")
            Router.from_click(text, target="python").close()


@pytest.mark.parametrize("device", ["forked{pid}{{, METHOD PIPE", "forked{pid}:a, METHOD SWITCH"])
def test_the_place_of_a_router_that_ended_is_free_though_a_forked_child_lives(device: str) -> None:
    text = f"FromDevice({device.format(pid=os.getpid())}) -> Discard;"
    router = Router.from_click(text, target="python")
    with forked():
        router.close()
        Router.from_click(text, target="python").close()


HOOKS = "FAULT drop 1 corrupt 1 duplicate 1 reorder 1 delay 1ms some 50 seed 3, RATE 100Mbps"
WIRES = {
    "MEMORY": "m", "PIPE": "hooks{pid}", "SWITCH": "hooks{pid}:a", "FD": "{fd}", "TAP": "hooks0",
    "PACKET": "{name}", "PACKET, TX_RING true": "{name}", "XDP": "{name}",
}  # fmt: skip


@rooted
@pytest.mark.slow
@pytest.mark.parametrize("method", WIRES)
def test_every_hook_goes_with_every_method(pair: Pair, method: str, tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    device = WIRES[method].format(pid=os.getpid(), fd=ours.fileno(), name=pair.a.name)
    text = f"""InfiniteSource(LIMIT 20)
           -> t :: ToDevice({device}, METHOD {method}, {HOOKS}, TRACE {tmp_path}/out, BQL true);
        f :: FromDevice({device}, METHOD {method.partition(",")[0]}, {HOOKS}, TRACE {tmp_path}/in) -> Discard;"""
    with ours, theirs, inside(pair.a.ns), Router.from_click(text, target="python") as router:
        assert router.run(seconds=5, until=lambda: router.read("t.count") != "0") == "until"
        assert router.conservation().balanced


@rooted
def test_completions_are_lost_where_there_are_some(pair: Pair) -> None:
    with inside(pair.a.ns):
        said = refusal(f"Idle -> ToDevice({pair.a.name}, METHOD PACKET, FAULT lose 5);")
    assert "FAULT: lose: METHOD PACKET has no completions that could be lost; say drop" in said


def test_what_is_received_has_no_completions() -> None:
    said = refusal("FromDevice(m, METHOD MEMORY, FAULT drop 1 lose 5) -> Discard;")
    assert "FAULT: lose: what is received has no completions that could be lost; say drop" in said
    with connect("memory", Fault(MemoryPort(), lose_pct=5), loopback=True) as wire:  # around both ends: it sends, too
        wire.send([bytes(60)])


def test_a_rate_below_a_byte_is_not_taken_for_none() -> None:
    assert "RATE: 1bps is less than a byte a second" in refusal("FromDevice(m, METHOD MEMORY, RATE 1bps) -> Discard;")


@rooted
@pytest.mark.slow
def test_who_reads_beside_xdp_is_told_who_gets_the_packets(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    name = pair.a.name
    with inside(pair.a.ns):
        Router.from_click(f"y :: FromDevice({name}, METHOD PACKET) -> Discard;", target="python").close()
        assert capsys.readouterr().err == ""
        text = f"y :: FromDevice({name}, METHOD PACKET) -> Discard;\nx :: FromDevice({name}, METHOD XDP) -> Discard;"
        with Router.from_click(text, target="python"):
            said = capsys.readouterr().err
            assert f"1:1: warning: y :: FromDevice: packets of {name} that `x` reads by XDP do not come here" in said
            assert ":2:1: which is here" in said
            Router.from_click(f"y :: FromDevice({name}, METHOD PACKET) -> Discard;", target="python").close()
            assert "that the XDP program `mezzo_xsk` (id " in capsys.readouterr().err


@rooted
@pytest.mark.slow
@pytest.mark.parametrize("method", ["PACKET", "XDP"])
def test_an_interface_is_told_by_the_name_that_it_has_now(pair: Pair, method: str) -> None:
    """It may be renamed while it is up (Linux 6.2), and whoever looks for it looks for that."""
    name, new = pair.a.name, f"{pair.a.name[:13]}q"
    text = f"f :: FromDevice({name}, METHOD {method}) -> Discard;"
    with inside(pair.a.ns), Router.from_click(text, target="python") as router:
        assert f"device\t{name}\n" in router.read("f.port")
        ip("link", "set", name, "name", new)
        wait_until(lambda: f"device\t{new}\n" in router.read("f.port"))
        assert f"opened as\t{name}\n" in router.read("f.port")
        ip("link", "set", new, "name", name)
        wait_until(lambda: f"device\t{name}\n" in router.read("f.port"))
