"""AF_XDP on real veth pairs: bytes are as on a wire, whatever the kernel keeps beside them."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mezzo.ports import _bpf, privileged
from tests.ports.netlab import (
    End,
    Pair,
    inside,
    ip,
    raw_socket,
    run_in,
)
from tests.ports.xdplab import frame, ran, router

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]
both_targets = pytest.mark.parametrize("target", ["native", "python"])


def promiscuity(end: End) -> int:
    return int(re.search(r"promiscuity (\d+)", ip("-d", "link", "show", end.name, ns=end.ns))[1])  # type: ignore[index]


def test_promiscuous_is_set_and_taken_back(pair: Pair) -> None:
    """Io07."""
    for sniffers in (0, 1):
        with contextlib.ExitStack() as stack:
            for _ in range(sniffers):
                with inside(pair.a.ns):
                    stack.enter_context(privileged_sniffer(pair.a.name))
            with router(pair.a.ns, f"f :: PollDevice({pair.a.name}, METHOD XDP, PROMISC true) -> Discard") as made:
                assert promiscuity(pair.a) == 1 + sniffers
                with raw_socket(pair.b) as sender:
                    sender.send(frame())
                assert ran(made, "f", 1) == 1
            assert promiscuity(pair.a) == sniffers


@contextmanager
def privileged_sniffer(name: str) -> Iterator[None]:
    (held,), _ = privileged.ask({"do": "promiscuous", "device": name})
    yield
    os.close(held)


@contextmanager
def tags_beside_frames(end: End, tag: int) -> Iterator[None]:
    """What leaves at this end has a VLAN tag in the kernel's metadata, as from a VLAN interface."""
    push = [
        _bpf.Instruction(_bpf.MOVE_IMM, dst=2, immediate=0x0081),  # 802.1Q, big-endian
        _bpf.Instruction(_bpf.MOVE_IMM, dst=3, immediate=tag),
        _bpf.Instruction(_bpf.CALL, immediate=18),  # bpf_skb_vlan_push
        _bpf.Instruction(_bpf.MOVE_IMM, dst=0, immediate=-1),  # TCX_NEXT
        _bpf.Instruction(_bpf.EXIT),
    ]
    sched_cls, egress = 3, 47
    program = _bpf.load_program(push, "tags", 0, sched_cls, egress)
    with inside(end.ns):
        index = socket.if_nametoindex(end.name)
        link = _bpf.bpf(_bpf.LINK_CREATE, struct.pack("=8IQ", program, index, egress, 0, 0, 0, 0, 0, 0))
    yield
    os.close(link)
    os.close(program)


@both_targets
@pytest.mark.parametrize("mode", ["native", "generic"])
def test_tagged_frames_are_whole(wires: tuple[Pair, Pair], target: str, mode: str) -> None:
    """Io11."""
    one, two = wires
    receiver = f"f :: PollDevice({one.a.name}, METHOD XDP, MODE {mode})"
    text = f"{receiver} -> Queue -> t :: ToDevice({two.a.name}, METHOD XDP);"
    with router(one.a.ns, text, target=target) as made, raw_socket(two.b) as end:
        with raw_socket(one.b, receive=False) as sender, tags_beside_frames(one.b, 7):
            sender.send(frame(3, 100))
            assert ran(made, "t", 1) == 1
        assert made.elements["t"].byte_count == 104
        assert end.recv(2000) in (frame(3, 100)[:12] + b"\x81\0\0\x07" + frame(3, 100)[12:], frame(3, 100))


def out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """A veth's peer cannot be switched, as for a helper without --peers."""
    ask = privileged.ask

    def asked(request: dict[str, Any], given: tuple[int, ...] = ()) -> Any:
        if request["do"] == "features":
            raise privileged.Refused("the peer is out of reach", errno.EPERM)
        return ask(request, given)

    monkeypatch.setattr(privileged, "ask", asked)


@both_targets
@pytest.mark.parametrize("peer", ["switched", "switched back", "out of reach"])
def test_checksums_are_whole(wires: tuple[Pair, Pair], target: str, peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Io10: UDP from a kernel that would leave the checksum to its device."""
    if peer == "out of reach":
        out_of_reach(monkeypatch)
    one, two = wires
    text = f"f :: PollDevice({one.a.name}, METHOD XDP) -> Queue -> t :: ToDevice({two.a.name}, METHOD XDP);"
    ip("neighbour", "add", one.a.ip, "lladdr", one.a.mac, "dev", one.b.name, ns=one.b.ns)
    with router(one.a.ns, text, target=target) as made, raw_socket(two.b) as receiver:
        if peer == "switched back":
            run_in(one.b.ns, ["ethtool", "-K", one.b.name, "tx", "on"])
        with inside(one.b.ns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(b"hello", (one.a.ip, 4000))
        assert ran(made, "t", 1) == 1
        data = receiver.recv(2000)
        words = data[26:34] + b"\0\x11" + data[38:40] + data[34 : 34 + 14]
        total = sum(int.from_bytes(words[k : k + 2].ljust(2, b"\0"), "big") for k in range(0, len(words), 2))
        assert total % 0xFFFF == 0
        assert made.elements["f"].finished == (0 if peer == "switched" else 1)


def test_tcp_across_with_all_offloads_on(wires: tuple[Pair, Pair]) -> None:
    """Io10, Jo01: 10 MB between two namespaces."""
    one, two = wires
    ip("address", "add", "10.9.0.1/24", "dev", one.b.name, ns=one.b.ns)
    ip("address", "add", "10.9.0.2/24", "dev", two.b.name, ns=two.b.ns)
    text = (
        f"FromDevice({one.a.name}, METHOD XDP) -> Queue -> ToDevice({two.a.name}, METHOD XDP);"
        f"FromDevice({two.a.name}, METHOD XDP) -> Queue -> ToDevice({one.a.name}, METHOD XDP);"
    )
    with router(one.a.ns, text, frames=16384) as made:
        with inside(two.b.ns):
            server = socket.create_server(("10.9.0.2", 5000))
        got: list[int] = []
        taker = threading.Thread(target=lambda: got.append(drained(server)))
        giver = threading.Thread(target=give, args=(one.b.ns, ("10.9.0.2", 5000), 10 << 20))
        with server:
            taker.start()
            giver.start()
            made.run(seconds=20, until=lambda: bool(got))
            taker.join(1)
            giver.join(1)
        assert got == [10 << 20]
        assert made.conservation().balanced


def drained(server: socket.socket) -> int:
    taken, _ = server.accept()
    with taken:
        total = 0
        while data := taken.recv(1 << 16):
            total += len(data)
    return total


def give(ns: str, where: tuple[str, int], count: int) -> None:
    with inside(ns):
        made = socket.socket()
    with made:
        made.connect(where)
        made.sendall(bytes(count))


def test_two_threads_forward_both_ways(wires: tuple[Pair, Pair]) -> None:
    """Each direction has a thread; both use the same sockets, one to receive and one to send."""
    one, two = wires
    text = (
        f"f :: FromDevice({one.a.name}, METHOD XDP) -> Queue -> t :: ToDevice({two.a.name}, METHOD XDP);"
        f"g :: FromDevice({two.a.name}, METHOD XDP) -> Queue -> u :: ToDevice({one.a.name}, METHOD XDP);"
        "StaticThreadSched(f 0, t 0, g 1, u 1);"
    )
    with router(one.a.ns, text, threads=2) as made, raw_socket(one.b) as left, raw_socket(two.b) as right:
        for n in range(200):
            left.send(frame(n))
            right.send(frame(n))
        made.run(seconds=10, until=lambda: all(int(made.elements[k].count) == 200 for k in "tu"))
        assert [int(made.elements[k].count) for k in "fgtu"] == [200] * 4
        assert made.conservation().balanced


def test_offloads_are_put_back(pair: Pair) -> None:
    """Jo03."""
    before = run_in(pair.b.ns, ["ethtool", "-k", pair.b.name]).stdout
    with router(pair.a.ns, f"f :: FromDevice({pair.a.name}, METHOD XDP) -> Discard") as made:
        assert f"switched off at {pair.b.name}, the peer" in made.read("f.port")
        now = run_in(pair.b.ns, ["ethtool", "-k", pair.b.name]).stdout
        assert "tx-tcp-segmentation: off" in now and "tx-checksumming: off" in now
    assert run_in(pair.b.ns, ["ethtool", "-k", pair.b.name]).stdout == before
