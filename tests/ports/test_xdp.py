"""AF_XDP on real veth pairs: packets through, the way that is taken, programs, and what goes wrong."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.packet.arena import Packet
from mezzo.ports import _attach, _bpf, _xdp_port, _xsk, privileged
from mezzo.runtime.router import Router
from tests.ports.netlab import (
    End,
    Pair,
    inside,
    ip,
    namespace,
    raw_socket,
    run_in,
    started_in,
    veth_pair,
    wait_until,
)
from tests.ports.xdplab import flow, frame, ran, received, refusals, router

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
both_targets = pytest.mark.parametrize("target", ["native", "python"])


# -- packets


@both_targets
def test_packets_go_through_unchanged(wires: tuple[Pair, Pair], target: str) -> None:
    one, two = wires
    text = f"f :: PollDevice({one.a.name}, METHOD XDP) -> Queue -> t :: ToDevice({two.a.name}, METHOD XDP);"
    sizes = [60, 61, 64, 128, 1000, 1514]
    with raw_socket(one.b) as sender, raw_socket(two.b) as receiver, router(one.a.ns, text, target=target) as made:
        packets = [frame(n, size) for n, size in enumerate(sizes)]
        for data in packets:
            sender.send(data)
        assert ran(made, "t", len(sizes)) == len(sizes)
        assert received(receiver, len(sizes)) == packets
        assert made.conservation().balanced
        assert "mode\tnative copy" in made.read("f.port")


@both_targets
def test_a_port_that_only_sends_has_no_program(pair: Pair, target: str) -> None:
    source = f"InfiniteSource(DATA \\<{frame().hex()}>, LIMIT 40)"
    text = f"{source} -> Queue(64) -> t :: ToDevice({pair.a.name}, METHOD XDP);"
    with raw_socket(pair.b) as receiver, router(pair.a.ns, text, target=target) as made:
        assert ran(made, "t", 40) == 40
        assert received(receiver, 40) == [frame()] * 40
        assert not _attach.attached_to(socket.if_nametoindex(pair.a.name))


def test_all_queues_are_read(pair: Pair) -> None:
    with namespace() as a, namespace() as b, veth_pair(a, b, queues=3) as wide:
        text = f"f :: PollDevice({wide.a.name}, METHOD XDP) -> Discard;"
        with router(a, text) as made:
            assert "queues\t0 1 2" in made.read("f.port")
            with raw_socket(wide.b) as sender:
                for n in range(90):
                    sender.send(flow(n))
            assert ran(made, "f", 90) == 90
            ends = [s.rings["rx"].consumer for s in made.elements["f"].sockets]
            assert all(ctypes.c_uint32.from_address(at).value > 0 for at in ends)


def test_queues_are_shared_out_between_ends() -> None:
    with namespace() as a, namespace() as b, veth_pair(a, b, queues=3) as wide:
        name = wide.a.name
        text = f"f :: PollDevice({name}, METHOD XDP) -> Discard; g :: PollDevice({name}, QUEUE 2) -> Discard;"
        with router(a, text) as made:
            assert [s.queue for s in made.elements["f"].sockets] == [0, 1]
            assert [s.queue for s in made.elements["g"].sockets] == [2]
        with pytest.raises(MezzoError, match="has no queue 5"):
            router(a, f"PollDevice({name}, METHOD XDP, QUEUE 5) -> Discard").__enter__()


def test_what_is_not_taken_goes_to_the_host(pair: Pair) -> None:
    text = f"f :: PollDevice({pair.a.name}, METHOD XDP, TAKE 0x88b5) -> Discard;"
    with raw_socket(pair.b) as sender, raw_socket(pair.a) as host, router(pair.a.ns, text) as made:
        for n in range(5):
            sender.send(frame(n))
            sender.send(frame(n, kind=0x88B6))
        assert ran(made, "f", 5) == 5
        assert received(host, 5) == [frame(n, kind=0x88B6) for n in range(5)]


@pytest.mark.parametrize("wanted", [0, 400])
def test_packets_have_the_headroom_that_is_asked_for(pair: Pair, wanted: int) -> None:
    text = f"f :: PollDevice({pair.a.name}, METHOD XDP, HEADROOM {wanted}) -> q :: Queue -> Idle;"
    with raw_socket(pair.b) as sender, router(pair.a.ns, text) as made:
        sender.send(frame())
        assert ran(made, "f", 1) == 1
        held = next(made.arena.live_frames())
        assert Packet(made.arena, held).headroom == max(wanted, 256)


# -- Io01, Io02, Io06: the kernel is asked when it wants to be


def flags_of(end: Any, ring: str) -> ctypes.c_uint32:
    return ctypes.c_uint32.from_address(end.sockets[0].rings[ring].flags)


@both_targets
def test_the_kernel_is_called_when_a_ring_asks(pair: Pair, target: str) -> None:
    """Io01."""
    name = pair.a.name
    text = f"f :: PollDevice({name}, METHOD XDP) -> Discard; i :: Idle -> Queue -> t :: ToDevice({name});"
    with raw_socket(pair.b) as sender, router(pair.a.ns, text, target=target) as made:
        end = made.elements["f"]
        sender.send(frame())
        ran(made, "f", 1)
        assert end.system_calls == 0
        flags_of(end, "fill").value = _xsk.WAKE_UP
        made.run(rounds=3)
        assert end.system_calls >= 1
        flags_of(end, "fill").value = 0
        before = int(end.system_calls)
        made.run(rounds=3)
        assert end.system_calls == before


@both_targets
def test_Io01_a_packet_to_send_calls_the_kernel_when_the_ring_asks_and_not_otherwise(pair: Pair, target: str) -> None:
    """Nothing is received meanwhile.  With the flag away for a while, traffic goes on once it is back."""
    text = f"i :: Feed -> Queue -> t :: ToDevice({pair.a.name}, METHOD XDP);"
    with raw_socket(pair.b) as receiver, router(pair.a.ns, text, target=target) as made:
        end = made.elements["t"]
        flags_of(end, "tx").value = 0
        made.feed("i", [frame(1)])
        made.run(seconds=0.02)
        assert (end.count, end.system_calls) == (1, 0)
        flags_of(end, "tx").value = _xsk.WAKE_UP
        made.feed("i", [frame(2)])
        made.run(seconds=0.05)
        assert received(receiver, 2) == [frame(1), frame(2)]
        calls = int(end.system_calls)
        assert calls >= 1
        made.run(seconds=0.05)
        assert end.system_calls == calls


@both_targets
def test_Io01_traffic_resumes_after_the_fill_ring_ran_empty(pair: Pair, target: str) -> None:
    """More packets than frames, none let go; then all are, and the next ones arrive without another event."""
    text = f"f :: FromDevice({pair.a.name}, METHOD XDP) -> Queue(1000) -> u :: Unqueue(ACTIVE false) -> Discard;"
    with raw_socket(pair.b) as sender, router(pair.a.ns, text, target=target, frames=64) as made:
        for _ in range(20):
            for n in range(8):
                sender.send(frame(n))
            made.run(seconds=0.01)
        held = int(made.elements["f"].count)
        assert held == 64 and made.elements["f"].starved > 0 and int(made.read("f.kernel_drops")) == 160 - 64
        made.write("u.active", "true")
        made.run(seconds=0.25)
        for n in range(8):
            sender.send(frame(n))
        assert ran_for(made, "f", held + 8) == held + 8


def test_a_full_burst_is_kicked_until_it_is_taken(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Io06: the kernel takes 32 packets a call, 256 are there."""
    monkeypatch.setattr(_xsk.Socket, "widen_budget", lambda self: None)
    source = f"InfiniteSource(DATA \\<{frame().hex()}>, LIMIT 256, BURST 256)"
    text = f"{source} -> Queue(300) -> t :: ToDevice({pair.a.name}, METHOD XDP, BURST 256);"
    with raw_socket(pair.b) as receiver, router(pair.a.ns, text) as made:
        assert ran(made, "t", 256) == 256
        assert made.elements["t"].system_calls >= 8
        assert received(receiver, 256) == [frame()] * 256


SEND = ctypes.CFUNCTYPE(
    ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_long,
    use_errno=True,
)  # fmt: skip


@both_targets
@pytest.mark.parametrize("number", [11, 16, 105])
def test_a_busy_kernel_is_asked_again(pair: Pair, target: str, number: int) -> None:
    """Io06: EAGAIN, EBUSY and ENOBUFS are no errors."""
    source = f"InfiniteSource(DATA \\<{frame().hex()}>, LIMIT 8)"
    text = f"{source} -> Queue -> t :: ToDevice({pair.a.name}, METHOD XDP);"
    libc = ctypes.CDLL(None, use_errno=True)
    calls: list[int] = []

    @SEND
    def send(fd: int, *words: Any) -> int:
        calls.append(fd)
        if len(calls) < 3:
            ctypes.set_errno(number)
            return -1
        return int(libc.sendto(fd, None, 0, 0x40, None, 0))

    with raw_socket(pair.b) as receiver, router(pair.a.ns, text, target=target) as made:
        made.elements["t"].send_at = ctypes.cast(send, ctypes.c_void_p).value
        made.run(seconds=1, until=lambda: len(calls) > 3)
        assert received(receiver, 8) == [frame()] * 8


@both_targets
def test_completions_that_never_come_are_counted(pair: Pair, target: str) -> None:
    """Io02: the device swallows packets; the port goes on, and closes."""
    source = f"InfiniteSource(DATA \\<{frame().hex()}>, LIMIT 10)"
    text = f"{source} -> Queue -> t :: ToDevice({pair.a.name}, METHOD XDP, COMPLETION_WAIT 20ms);"

    @SEND
    def swallow(fd: int, *words: Any) -> int:
        tx = end.sockets[0].rings["tx"]
        consumer = ctypes.c_uint32.from_address(tx.consumer)
        consumer.value = ctypes.c_uint32.from_address(tx.producer).value
        return 0

    with router(pair.a.ns, text, target=target) as made:
        said: list[str] = []
        made.say = said.append  # type: ignore[method-assign]
        end = made.elements["t"]
        end.send_at = ctypes.cast(swallow, ctypes.c_void_p).value
        made.run(seconds=1, until=lambda: int(end.lost) > 0)
        assert end.lost == 10
        assert len(said) == 1 and "10 packets" in said[0]
        assert made.conservation().balanced


# -- Io03, Io05, Io08, Io15: which way, and why


def test_the_ways_that_were_refused_are_told(pair: Pair) -> None:
    """Io03."""
    ip("link", "set", "lo", "mtu", "1500", ns=pair.a.ns)
    text = f"f :: FromDevice({pair.a.name}, METHOD XDP) -> Discard; d :: FromDevice(lo, METHOD XDP) -> Discard;"
    with router(pair.a.ns, text) as made:
        assert made.read("f.refusals") == "zero-copy: Operation not supported\n"
        assert re.search("native: .*not supported", made.read("d.refusals"))
        assert "mode\tgeneric copy" in made.read("d.port")


def test_Io03_a_device_without_a_method_says_why_it_is_not_reached_by_xdp(pair: Pair) -> None:
    """A veth, a bridge (whose driver knows no XDP) and a loopback: one step down each, and a handler says why."""
    ip("link", "add", "br7", "type", "bridge", ns=pair.a.ns)
    ip("link", "set", "br7", "up", ns=pair.a.ns)
    names = {"v": pair.a.name, "d": "br7", "l": "lo"}
    text = "".join(f"{k} :: FromDevice({name}) -> Discard;" for k, name in names.items())
    with router(pair.a.ns, text) as made:
        ports = {k: made.read(f"{k}.port") for k in names}
        reasons = {k: made.read(f"{k}.refusals") for k in names}
        assert "mode\tnative copy" in ports["v"] and reasons["v"] == "zero-copy: Operation not supported\n"
        assert "mode\tgeneric copy" in ports["d"] and re.search("^native: .*not supported", reasons["d"])
        assert "method\tpacket" in ports["l"] and reasons["l"] == "xdp: a loopback's packets belong to the host\n"


def test_a_way_can_be_asked_for(pair: Pair) -> None:
    for mode, found in (("native", "native copy"), ("generic", "generic copy")):
        with router(pair.a.ns, f"f :: PollDevice({pair.a.name}, METHOD XDP, MODE {mode}) -> Discard;") as made:
            assert f"mode\t{found}" in made.read("f.port")
            with raw_socket(pair.b) as sender:
                sender.send(frame())
            assert ran(made, "f", 1) == 1
    with pytest.raises(MezzoError, match="zero-copy: Operation not supported"):
        router(pair.a.ns, f"PollDevice({pair.a.name}, METHOD XDP, MODE zero-copy) -> Discard;").__enter__()


def test_without_a_method_a_loopback_is_left_to_the_host(pair: Pair) -> None:
    with inside(pair.a.ns):
        assert _xdp_port.Port.refusal("lo") == "a loopback's packets belong to the host"
        assert _xdp_port.Port.refusal(pair.a.name) == ""
        assert _xdp_port.Port.refusal("nothere") == "it is no network interface"


def test_without_a_method_little_lockable_memory_leads_to_packet_sockets(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mezzo.ports._capabilities.has", lambda name: False)
    monkeypatch.setattr("resource.getrlimit", lambda which: (8 << 20, 8 << 20))
    with inside(pair.a.ns):
        assert _xdp_port.Port.refusal(pair.a.name).startswith("8 MB of memory may be pinned (RLIMIT_MEMLOCK)")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"rx": 2}, "rx ring of 2 slots"),
        ({"fill": 2}, "fill ring of 2 slots"),
        ({"rx": 1000}, "say 1024"),
        ({"rx": 4096}, "does not feed a receive ring of 4096"),
        ({"tx": 4096}, "a transmit ring of 4096 needs as many"),
    ],
)
def test_sizes_that_cannot_work_are_refused(sizes: dict[str, int], message: str) -> None:
    """Io05."""
    with pytest.raises(MezzoError, match=message):
        _xsk.Sizes(**sizes)


@both_targets
def test_the_smallest_rings_work(pair: Pair, target: str) -> None:
    """Io05: 300 packets through rings of 64, none empty."""
    text = f"f :: PollDevice({pair.a.name}, METHOD XDP, RING 64) -> Discard;"
    with raw_socket(pair.b) as sender, router(pair.a.ns, text, target=target) as made:
        for batch in range(10):
            for n in range(30):
                sender.send(frame(n))
            assert ran(made, "f", 30 * batch + 30) == 30 * batch + 30
        assert made.read("f.refused") == ""


def test_an_mtu_that_no_frame_takes_is_refused() -> None:
    """Io08: with what would work."""
    with namespace() as a, namespace() as b, veth_pair(a, b, mtu=9000) as jumbo:
        text = f"FromDevice({jumbo.a.name}, METHOD XDP) -> Discard"
        with pytest.raises(MezzoError, match=r"MTU 9000; frames of 2048 bytes take 1710\n(.*\n)*have frames of 16384"):
            router(a, text).__enter__()


def test_an_mtu_over_a_drivers_buffer_is_refused_with_the_largest() -> None:
    """Io08: and taken by a program that knows several buffers."""
    with namespace() as a, namespace() as b, veth_pair(a, b, mtu=3600) as large:
        text = f"f :: PollDevice({large.a.name}, METHOD XDP) -> Discard"
        with router(a, text, frame_size=4096) as made, raw_socket(large.b) as sender:
            assert "native: the MTU 3600 is over what the driver puts in one buffer, 3506 at most" in refusals(made)
            sender.send(frame(1, 3614))
            assert ran(made, "f", 1) == 1
            assert made.elements["f"].byte_count == 3614


@both_targets
def test_packets_of_several_buffers_are_joined_and_split(target: str) -> None:
    """Io09."""
    with (
        namespace() as a, namespace() as b, namespace() as c,
        veth_pair(a, b, mtu=9000) as one, veth_pair(a, c, mtu=9000) as two,
        raw_socket(one.b) as sender, raw_socket(two.b) as receiver,
    ):  # fmt: skip
        text = f"f :: PollDevice({one.a.name}, METHOD XDP) -> Queue -> t :: ToDevice({two.a.name}, METHOD XDP);"
        with router(a, text, target=target, frames=1024, frame_size=16384) as made:
            packets = [frame(n, size) for n, size in enumerate((60, 3800, 3850, 4096, 8000, 9014, 60))]
            for data in packets:
                sender.send(data)
            assert ran(made, "t", len(packets)) == len(packets)
            assert [len(x) for x in received(receiver, 0)] == []
            assert received(receiver, len(packets)) == packets
            made.run(rounds=10)
            assert made.conservation().balanced
            assert "multi-buffer\tyes" in made.read("f.port")


@both_targets
def test_Io09_a_packet_is_never_half_sent(target: str) -> None:
    """Three chunks each into a ring of 64 slots, which 3 does not divide."""
    with (
        namespace() as a, namespace() as b, veth_pair(a, b, mtu=9000) as one, raw_socket(one.b) as receiver,
    ):  # fmt: skip
        text = f"i :: Feed -> Queue -> t :: ToDevice({one.a.name}, METHOD XDP, RING 64);"
        receiver.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        with router(a, text, target=target, frames=512, frame_size=16384) as made:
            packets = [frame(n, 9014) for n in range(150)]
            for first in range(0, 150, 50):
                made.feed("i", packets[first : first + 50])
                assert ran(made, "t", first + 50) == first + 50
                assert received(receiver, 50) == packets[first : first + 50]
            assert made.conservation().balanced


def test_queues_that_a_driver_keeps_are_named(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Io15: the driver refuses native XDP while all queue pairs are in use."""
    honest = privileged.ask

    def ask(request: dict[str, Any], given: Sequence[int] = ()) -> Any:
        if request["do"] == "xdp" and request["mode"] == "native":
            raise privileged.Refused(f"{request['device']}: an XDP program: Invalid argument", 22)
        return honest(request, given)

    monkeypatch.setattr(privileged, "ask", ask)
    monkeypatch.setattr(_xdp_port._ethtool, "channels", lambda name: {"combined": 8, "max_combined": 8})
    with router(pair.a.ns, f"f :: FromDevice({pair.a.name}, METHOD XDP) -> Discard") as made:
        assert f"ethtool -L {pair.a.name} combined 4" in made.read("f.refusals")
        assert "mode\tgeneric copy" in made.read("f.port")


def test_a_device_without_zero_copy_is_bound_with_a_copy(pair: Pair) -> None:
    """Io15."""
    with router(pair.a.ns, f"f :: FromDevice({pair.a.name}, METHOD XDP) -> Discard") as made:
        assert "zero-copy: Operation not supported" in made.read("f.refusals")
        assert not made.elements["f"].sockets[0].is_zero_copy


# -- Io04


def test_packets_for_which_no_frame_is_left_are_counted(pair: Pair) -> None:
    """Io04: 4,096 frames, all held; 5,000 packets come."""
    text = f"f :: PollDevice({pair.a.name}, METHOD XDP) -> Queue(5000) -> Idle;"
    with raw_socket(pair.b) as sender, router(pair.a.ns, text) as made:
        for _ in range(50):
            for n in range(100):
                sender.send(frame(n))
            made.run(rounds=20)
        got, dropped = int(made.elements["f"].count), int(made.read("f.kernel_drops"))
        assert got == 4096 and dropped == 904
        assert "fill_ring_empty\t904" in made.read("f.statistics")
        assert made.elements["f"].starved > 0
        assert made.conservation().balanced


# -- Io12: programs


def foreign_program(name: str = "stranger") -> int:
    give = [_bpf.Instruction(_bpf.MOVE_IMM, immediate=_bpf.PASS), _bpf.Instruction(_bpf.EXIT)]
    return _bpf.load_program(give, name)


def attach_the_old_way(end: End, program: int) -> None:
    run_in(end.ns, ["ip", "link", "show"])
    with inside(end.ns), _attach.nl.Netlink() as link:
        index = socket.if_nametoindex(end.name)
        xdp = _attach.nl.pack_attributes({1: program.to_bytes(4, "little"), 3: (4).to_bytes(4, "little")})
        link.ask(_attach.nl.RTM_SETLINK, _attach.nl.LINK_BODY.pack(0, 0, index, 0, 0), {43 | 1 << 15: xdp})


def test_a_strangers_program_is_not_removed(pair: Pair) -> None:
    """Io12."""
    name, index = pair.a.name, 0
    text = f"f :: FromDevice({name}, METHOD XDP) -> Discard"
    with inside(pair.a.ns):
        index = socket.if_nametoindex(name)
        program = foreign_program()
        link = _attach.attach(program, index, "native")
        number = _bpf.program_info(program).id
        with pytest.raises(MezzoError, match=f"not mezzo's: `stranger`, id {number}(.|\\n)*FORCE true"):
            Router.from_click(text)
        assert [x.id for x in _attach.attached_to(index)] == [number]
        assert _xdp_port.Port.refusal(name) == f"it has the XDP program `stranger` (id {number})"
        with router("", text.replace("METHOD XDP", "METHOD XDP, FORCE true")) as made:
            assert f"replaced\treplaced the program `stranger` (id {number}, native)" in made.read("f.port")
        os.close(link)
        link = _attach.attach(program, index, "generic")
        with router("", text, force=True) as made:
            assert "replaced the program `stranger`" in made.read("f.port")
    os.close(link)
    os.close(program)


def test_our_own_left_behind_is_replaced(pair: Pair) -> None:
    """Io12."""
    program = foreign_program("mezzo_xsk")
    attach_the_old_way(pair.a, program)
    with router(pair.a.ns, f"f :: PollDevice({pair.a.name}, METHOD XDP) -> Discard") as made:
        assert "replaced the program `mezzo_xsk`" in made.read("f.port")
        with raw_socket(pair.b) as sender:
            sender.send(frame())
        assert ran(made, "f", 1) == 1
    os.close(program)
    with inside(pair.a.ns):
        assert not _attach.attached_to(socket.if_nametoindex(pair.a.name))


def test_a_killed_router_leaves_nothing_and_the_next_one_starts(pair: Pair) -> None:
    """Io12: kill -9 under load, twice."""
    text = f"f :: FromDevice({pair.a.name}, METHOD XDP) -> c :: Counter -> Queue -> ToDevice({pair.a.name});"
    halt = threading.Event()

    def load() -> None:
        with raw_socket(pair.b, receive=False) as sender:
            while not halt.is_set():
                sender.send(frame())

    loader = threading.Thread(target=load)
    loader.start()
    try:
        for _ in range(2):
            with started_in(pair.a.ns, [sys.executable, "-c", RUNS, text]) as process:
                assert process.stdout is not None and process.stdout.readline() == "it runs\n"
                process.send_signal(signal.SIGKILL)
                process.wait()
    finally:
        halt.set()
        loader.join()
    with inside(pair.a.ns):
        index = socket.if_nametoindex(pair.a.name)
        wait_until(lambda: not _attach.attached_to(index))


RUNS = """
import sys
from mezzo.runtime.router import Router
router = Router.from_click(sys.argv[1], frames=4096, target="python")
router.run(seconds=20, until=lambda: int(router.elements["c"].count) > 100)
print("it runs", flush=True)
router.run()
"""


# -- the device goes away


@both_targets
def test_an_interface_that_goes_away_is_told_once_and_the_rest_goes_on(wires: tuple[Pair, Pair], target: str) -> None:
    one, two = wires
    text = (
        f"f :: FromDevice({one.a.name}, METHOD XDP) -> Discard; g :: FromDevice({two.a.name}, METHOD XDP) -> Discard;"
        f"InfiniteSource(DATA \\<{frame().hex()}>, LIMIT 1) -> Queue -> t :: ToDevice({one.a.name});"
    )
    with router(one.a.ns, text, target=target) as made:
        said: list[str] = []
        made.say = said.append  # type: ignore[method-assign]
        ip("link", "del", one.b.name, ns=one.b.ns)
        gone = f"f: {one.a.name} is gone; the rest goes on"
        made.run(seconds=5, until=lambda: gone in said)
        with raw_socket(two.b) as sender:
            sender.send(frame())
        assert ran_for(made, "g", 1) == 1
        made.run(seconds=0.2)
        assert said.count(gone) == 1 and not any(two.a.name in line for line in said)
        assert "state\tgone" in made.read("f.port") and "state\topen" in made.read("g.port")
        assert made.conservation().balanced


@both_targets
def test_a_link_goes_down_and_up(pair: Pair, target: str) -> None:
    text = f"f :: FromDevice({pair.a.name}, METHOD XDP) -> Queue -> t :: ToDevice({pair.a.name});"
    with router(pair.a.ns, text, target=target) as made:
        said: list[str] = []
        made.say = said.append  # type: ignore[method-assign]
        ip("link", "set", pair.a.name, "down", ns=pair.a.ns)
        made.run(seconds=5, until=lambda: bool(said))
        assert said[0] == f"f: {pair.a.name} down"
        ip("link", "set", pair.a.name, "up", ns=pair.a.ns)
        made.run(seconds=5, until=lambda: any(line.endswith(" up") for line in said))
        with raw_socket(pair.b) as sender:
            sender.send(frame(1))
            assert ran_for(made, "t", 1) == 1


def ran_for(made: Router, element: str, count: int) -> int:
    made.run(seconds=5, until=lambda: int(made.elements[element].count) >= count)
    return int(made.elements[element].count)


# -- again and again


def test_opening_and_closing_leaves_nothing(pair: Pair) -> None:
    text = f"f :: FromDevice({pair.a.name}, METHOD XDP) -> Queue -> ToDevice({pair.a.name});"

    def cycle() -> tuple[int, int]:
        with router(pair.a.ns, text, target="python", frames=1024):
            pass
        gc.collect()
        mine = [n for n in _bpf.program_ids() if (p := _bpf.program_by_id(n)) and p.name == _attach.PROGRAM_NAME]
        return len(os.listdir("/proc/self/fd")), len(mine)

    first = cycle()
    for _ in range(10):
        last = cycle()
    assert last[0] == first[0]
    with inside(pair.a.ns):
        assert not _attach.attached_to(socket.if_nametoindex(pair.a.name))


@both_targets
def test_a_device_may_be_polled_when_asked(pair: Pair, target: str) -> None:
    """BUSY_POLL: the kernel is told, and asked whenever nothing is there."""
    text = f"f :: PollDevice({pair.a.name}, METHOD XDP, BUSY_POLL 50, BUSY_BUDGET 32) -> Discard;"
    with raw_socket(pair.b) as sender, router(pair.a.ns, text, target=target) as made:
        copy = os.dup(made.elements["f"].sockets[0].fd)
        with socket.socket(_xsk.AF_XDP, socket.SOCK_RAW, 0, fileno=copy) as bound:
            options = (_xsk.SO_BUSY_POLL, _xsk.SO_PREFER_BUSY_POLL)  # Linux takes the budget, and does not tell it
            assert [bound.getsockopt(socket.SOL_SOCKET, one) for one in options] == [50, 1]
        made.run(rounds=10)
        asked = made.elements["f"].system_calls
        assert asked >= 10
        for n in range(8):
            sender.send(frame(n))
        assert ran(made, "f", 8) == 8
        assert made.elements["f"].system_calls > asked


@both_targets
def test_frames_go_round_in_order(pair: Pair, target: str) -> None:
    """What was freed first is filled first, and of 100 frames none is lost on the way."""
    text = f"f :: PollDevice({pair.a.name}, METHOD XDP, FILL 64) -> Discard;"
    with raw_socket(pair.b) as sender, router(pair.a.ns, text, target=target, frames=100) as made:
        ring = made.elements["f"].sockets[0].rings["fill"]

        def entries(first: int, count: int) -> list[int]:
            return [ctypes.c_uint64.from_address(ring.entries + 8 * (first + k)).value for k in range(count)]

        before = entries(0, 64)
        assert len(set(before)) == 64
        for turn in range(4):
            for n in range(16):
                sender.send(frame(n))
            assert ran(made, "f", 16 * turn + 16) == 16 * turn + 16
        assert entries(64, 64) == before
